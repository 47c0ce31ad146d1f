//! What a user may ask of the sampler.

use core::fmt;

/// Sampling settings. The defaults are llama.cpp's.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Params {
    /// Flattens (above 1) or sharpens the distribution. 0: always the likeliest
    /// token, whatever the filters say. 0 to 100.
    pub temperature: f32,
    /// Only the `top_k` likeliest tokens. 0: no limit.
    pub top_k: usize,
    /// Only the likeliest tokens that together reach this share of the
    /// probability; always at least one. 0 to 1; 1: no limit.
    pub top_p: f32,
    /// Only tokens at least this likely, relative to the likeliest. 0 to 1; 0:
    /// no limit.
    pub min_p: f32,
    /// Divides the positive and multiplies the negative logits of recent
    /// tokens. 0.01 to 100; 1: off.
    pub repeat_penalty: f32,
    /// How many tokens are recent, for all three penalties. 0: none.
    pub repeat_last_n: usize,
    /// Taken off a logit for each time the token occurs among the recent.
    /// -100 to 100; 0: off.
    pub frequency_penalty: f32,
    /// Taken off a logit when the token occurs among the recent. -100 to 100;
    /// 0: off.
    pub presence_penalty: f32,
    /// Start of the random numbers.
    pub seed: u64,
}

impl Default for Params {
    fn default() -> Self {
        Self {
            temperature: 0.8,
            top_k: 40,
            top_p: 0.95,
            min_p: 0.05,
            repeat_penalty: 1.0,
            repeat_last_n: 64,
            frequency_penalty: 0.0,
            presence_penalty: 0.0,
            seed: 0,
        }
    }
}

impl Params {
    /// The defaults, but always the likeliest token.
    pub fn greedy() -> Self {
        Self { temperature: 0.0, ..Self::default() }
    }

    /// Errs on the first setting outside its range, NaN included.
    pub fn check(&self) -> Result<(), ParamError> {
        let settings = [
            ("temperature", self.temperature, 0.0, 100.0),
            ("top_p", self.top_p, 0.0, 1.0),
            ("min_p", self.min_p, 0.0, 1.0),
            ("repeat_penalty", self.repeat_penalty, 0.01, 100.0),
            ("frequency_penalty", self.frequency_penalty, -100.0, 100.0),
            ("presence_penalty", self.presence_penalty, -100.0, 100.0),
        ];
        for (name, value, min, max) in settings {
            // No range contains NaN.
            if !(min..=max).contains(&value) {
                return Err(ParamError::Range { name, value, min, max });
            }
        }
        Ok(())
    }

    /// Whether any penalty changes anything.
    pub(super) fn penalizes(&self) -> bool {
        self.repeat_last_n > 0
            && (self.repeat_penalty != 1.0 || self.frequency_penalty != 0.0 || self.presence_penalty != 0.0)
    }
}

/// Settings that cannot be used.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum ParamError {
    /// A number outside its range.
    Range {
        /// The setting.
        name: &'static str,
        /// What was asked.
        value: f32,
        /// The least allowed.
        min: f32,
        /// The most allowed.
        max: f32,
    },
    /// `repeat_last_n` is more than the memory was laid out for.
    Window {
        /// Tokens asked.
        asked: usize,
        /// Tokens there is room for.
        room: usize,
    },
    /// More logit biases than the memory was laid out for.
    Biases {
        /// Biases given.
        asked: usize,
        /// Biases there is room for.
        room: usize,
    },
    /// A logit bias for a token that does not exist.
    BiasId {
        /// The token.
        id: u32,
        /// Entries in the vocabulary.
        n_vocab: usize,
    },
    /// A logit bias that is NaN or plus infinity.
    BiasValue {
        /// The token.
        id: u32,
        /// Its bias.
        value: f32,
    },
    /// More vocabulary entries than ids can number.
    Vocabulary {
        /// Entries.
        n: usize,
    },
}

impl fmt::Display for ParamError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Range { name, value, min, max } => write!(f, "{name} is {value}; allowed: {min} to {max}"),
            Self::Window { asked, room } => {
                write!(f, "repeat_last_n is {asked}; the memory laid out has room for {room} tokens")
            }
            Self::Biases { asked, room } => {
                write!(f, "{asked} logit biases; the memory laid out has room for {room}")
            }
            Self::BiasId { id, n_vocab } => {
                write!(f, "logit bias for token {id}; the vocabulary ends before {n_vocab}")
            }
            Self::BiasValue { id, value } => {
                write!(f, "logit bias of token {id} is {value}; allowed: finite numbers, and -inf to ban")
            }
            Self::Vocabulary { n } => {
                write!(f, "a vocabulary of {n} tokens; at most {} can be numbered", u32::MAX)
            }
        }
    }
}

impl core::error::Error for ParamError {}

#[cfg(test)]
mod tests {
    use super::*;
    use std::string::ToString;

    #[test]
    fn defaults_pass_and_mean_what_users_expect() {
        assert_eq!(Params::default().check(), Ok(()));
        assert_eq!(Params::greedy().check(), Ok(()));
        assert!(!Params::default().penalizes());
        assert!(Params { repeat_penalty: 1.1, ..Params::default() }.penalizes());
        assert!(!Params { repeat_penalty: 1.1, repeat_last_n: 0, ..Params::default() }.penalizes());
    }

    #[test]
    fn each_bad_number_is_named_with_its_range() {
        type Set = fn(&mut Params, f32);
        let settings: [(&str, Set, &[f32]); 6] = [
            ("temperature", |p, x| p.temperature = x, &[-0.1, 100.5]),
            ("top_p", |p, x| p.top_p = x, &[-0.1, 1.1]),
            ("min_p", |p, x| p.min_p = x, &[-0.1, 1.1]),
            ("repeat_penalty", |p, x| p.repeat_penalty = x, &[0.0, -1.0, 1e9]),
            ("frequency_penalty", |p, x| p.frequency_penalty = x, &[-101.0, 101.0]),
            ("presence_penalty", |p, x| p.presence_penalty = x, &[-101.0, 101.0]),
        ];
        for (name, set, bad) in settings {
            for &x in bad.iter().chain(&[f32::NAN, f32::INFINITY, f32::NEG_INFINITY]) {
                let mut params = Params::default();
                set(&mut params, x);
                let text = params.check().unwrap_err().to_string();
                assert!(text.starts_with(name) && text.contains("allowed:"), "{text}");
            }
        }
        let err = Params { top_p: 1.5, ..Params::default() }.check().unwrap_err();
        assert_eq!(err.to_string(), "top_p is 1.5; allowed: 0 to 1");
    }
}
