//! Choosing the next token from a model's logits.
//!
//! # Order of work
//! Logit biases, penalties, then, unless the temperature is 0, top-k, top-p
//! and min-p on the probabilities at temperature 1, and a draw at the wanted
//! temperature among what is left. This is llama.cpp's default order, so its
//! users' settings mean here what they mean there.
//!
//! # Promises
//! - One seed, one text: the same logits, settings, seed and history give the
//!   same tokens on every processor. The generator is our own, exponentials
//!   come from one portable library, and tokens of equal logit rank by id.
//! - The id returned is below the vocabulary's size and was not banned.
//! - NaN, infinite and all-banned logits are answered, never followed by a
//!   panic or an arbitrary token.
//!
//! # Costs
//! Memory: 4 bytes per vocabulary entry, 8 per token of penalty window. Time:
//! a few passes over the logits, with no full sort unless top-p asks for most
//! of the vocabulary.

mod constraint;
mod history;
mod params;
mod rng;
mod sampler;
mod select;

use core::fmt;

pub use constraint::Constraint;
pub use params::{ParamError, Params};
pub use rng::Pcg32;
pub use sampler::{Memory, Sampler, lay_out};

/// The id of the largest logit; of equal ones, the lowest id.
pub fn argmax(logits: &[f32]) -> Result<u32, SampleError> {
    if u32::try_from(logits.len()).is_err() {
        return Err(SampleError::Length { have: logits.len(), want: u32::MAX as usize });
    }
    let mut best = None;
    let mut max = f32::NEG_INFINITY;
    for (id, &logit) in logits.iter().enumerate() {
        if logit.is_nan() {
            return Err(SampleError::Nan { id: id as u32 });
        }
        if logit > max {
            (best, max) = (Some(id as u32), logit);
        }
    }
    best.ok_or(SampleError::NoCandidate)
}

/// No token can be chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SampleError {
    /// The model produced something that is not a number.
    Nan {
        /// The first token with such a logit.
        id: u32,
    },
    /// Every token is banned, or its logit is minus infinity.
    NoCandidate,
    /// There is not one logit per vocabulary entry.
    Length {
        /// Logits given.
        have: usize,
        /// Vocabulary entries (for [`argmax`], the most that ids can number).
        want: usize,
    },
}

impl fmt::Display for SampleError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Nan { id } => write!(
                f,
                "the model gave token {id} a logit that is not a number: the model file is likely damaged"
            ),
            Self::NoCandidate => f.write_str(
                "no token is left to choose: all are banned; loosen the logit biases or the grammar",
            ),
            Self::Length { have, want } => write!(f, "{have} logits for a vocabulary of {want} tokens"),
        }
    }
}

impl core::error::Error for SampleError {}

#[cfg(test)]
mod tests {
    use super::*;
    use std::string::ToString;

    const INF: f32 = f32::INFINITY;

    #[test]
    fn argmax_takes_the_lowest_id_of_the_largest() {
        assert_eq!(argmax(&[1.0, 3.0, 2.0, 3.0]), Ok(1));
        assert_eq!(argmax(&[-0.0, 0.0]), Ok(0));
        assert_eq!(argmax(&[-INF, -5.0]), Ok(1));
        assert_eq!(argmax(&[0.0, INF, INF]), Ok(1));
        assert_eq!(argmax(&[f32::MIN]), Ok(0));
    }

    #[test]
    fn argmax_refuses_what_has_no_answer() {
        assert_eq!(argmax(&[]), Err(SampleError::NoCandidate));
        assert_eq!(argmax(&[-INF, -INF]), Err(SampleError::NoCandidate));
        assert_eq!(argmax(&[INF, 0.0, f32::NAN, f32::NAN]), Err(SampleError::Nan { id: 2 }));
        assert_eq!(argmax(&[-f32::NAN]), Err(SampleError::Nan { id: 0 }));
    }

    #[test]
    fn errors_fit_one_line() {
        for err in
            [SampleError::Nan { id: 7 }, SampleError::NoCandidate, SampleError::Length { have: 1, want: 2 }]
        {
            assert!(!err.to_string().is_empty() && !err.to_string().contains('\n'));
        }
    }
}
