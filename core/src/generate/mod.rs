//! One token after another, several at a time where the text repeats itself.
//!
//! [`Generator::next`] samples, remembers and evaluates. Where the last few
//! tokens occurred before, those that followed them then are guessed to follow
//! now ([`lookup`]): they are evaluated together with the token that is due, in
//! one batch that reads the weights once, and kept for as long as the sampler
//! chooses them anyway. A batch gives the same bits as its tokens one by one
//! and the sampler draws once per token either way, so the text is exactly
//! what it would have been without guessing.

mod lookup;

use core::fmt;

pub use lookup::{Lookup, MOST_DRAFTS};

use crate::model::{Engine, EvalError};
use crate::port::{Clock, Workers};
use crate::sample::{SampleError, Sampler};

/// A generation under way.
pub struct Generator<'a> {
    sampler: Sampler<'a>,
    lookup: Option<Lookup<'a>>,
    /// Tokens guessed and evaluated.
    drafts: [u32; MOST_DRAFTS],
    guessed: usize,
    /// The row of logits to sample next; row `i` follows draft `i - 1`.
    row: usize,
    /// Where row 0's token was put.
    base: usize,
    /// Chosen, but not evaluated.
    due: Option<u32>,
    /// Microseconds that the last batch took, and a token alone takes lately.
    batch_time: u64,
    token_time: u64,
    counts: Counts,
}

/// What guessing brought.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Tokens guessed.
    pub guessed: usize,
    /// Guesses that came true.
    pub kept: usize,
}

impl<'a> Generator<'a> {
    /// A generation with `sampler`, guessing where `lookup` is given.
    pub fn new(sampler: Sampler<'a>, lookup: Option<Lookup<'a>>) -> Self {
        Self {
            sampler,
            lookup,
            drafts: [0; MOST_DRAFTS],
            guessed: 0,
            row: 0,
            base: 0,
            due: None,
            batch_time: 0,
            token_time: 0,
            counts: Counts::default(),
        }
    }

    /// Takes note of a token of the prompt, which the caller evaluates.
    pub fn prompt(&mut self, id: u32) {
        self.sampler.accept(id);
        if let Some(lookup) = &mut self.lookup {
            lookup.push(id);
        }
    }

    /// What guessing brought so far.
    pub fn counts(&self) -> Counts {
        self.counts
    }

    /// The next token, after the tokens that `engine` has evaluated and those
    /// this generation gave.
    ///
    /// `clock` tells whether guessing pays; it does not change the text. Errs
    /// when the engine's context is full or its logits are no numbers.
    pub fn next(
        &mut self,
        engine: &mut Engine<'_>,
        workers: &dyn Workers,
        clock: &dyn Clock,
    ) -> Result<u32, NextError> {
        if let Some(due) = self.due.take() {
            self.evaluate(due, engine, workers, clock)?;
        } else if self.guessed == 0 {
            // Just after the prompt, whose last token's logits are in row 0.
            self.base = engine.position().saturating_sub(1);
        }
        let id = self.sampler.sample(engine.logits_row(self.row))?;
        self.sampler.accept(id);
        if let Some(lookup) = &mut self.lookup {
            lookup.push(id);
        }
        if self.row < self.guessed && self.drafts[self.row] == id {
            // Evaluated already; its logits are in the next row.
            self.row += 1;
            self.counts.kept += 1;
        } else {
            self.settle(engine);
            self.due = Some(id);
        }
        Ok(id)
    }

    /// Forgets guesses that did not come true.
    fn settle(&mut self, engine: &mut Engine<'_>) {
        if self.guessed == 0 {
            return;
        }
        engine.rewind(self.base + 1 + self.row);
        if let Some(lookup) = &mut self.lookup {
            // Each guess kept saved a token's time; all together cost the rest.
            let saved = self.token_time.saturating_mul(self.row as u64);
            let pays = saved > self.batch_time.saturating_sub(self.token_time);
            lookup.learn(self.guessed, self.row, pays);
        }
        self.guessed = 0;
    }

    /// Evaluates the token that is due, and guesses after it.
    fn evaluate(
        &mut self,
        due: u32,
        engine: &mut Engine<'_>,
        workers: &dyn Workers,
        clock: &dyn Clock,
    ) -> Result<(), NextError> {
        let mut batch = [due; 1 + MOST_DRAFTS];
        let room = engine.context().saturating_sub(engine.position() + 1).min(engine.drafts());
        let guesses = match &self.lookup {
            None => 0,
            // What a token alone takes must be known first.
            Some(_) if self.token_time == 0 => 0,
            Some(lookup) => lookup.draft(&mut self.drafts[..room.min(MOST_DRAFTS)]),
        };
        batch[1..=guesses].copy_from_slice(&self.drafts[..guesses]);
        self.base = engine.position();
        let start = clock.micros();
        engine.eval_rows(workers, &batch[..=guesses])?;
        let time = clock.micros().saturating_sub(start).max(1);
        match (guesses, self.token_time) {
            (0, 0) => self.token_time = time,
            (0, lately) => self.token_time = (3 * lately + time).div_ceil(4),
            _ => self.batch_time = time,
        }
        (self.row, self.guessed) = (0, guesses);
        self.counts.guessed += guesses;
        Ok(())
    }
}

/// Why there is no next token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NextError {
    /// The engine could not run the last one.
    Eval(EvalError),
    /// None could be chosen.
    Sample(SampleError),
}

impl From<EvalError> for NextError {
    fn from(e: EvalError) -> Self {
        Self::Eval(e)
    }
}

impl From<SampleError> for NextError {
    fn from(e: SampleError) -> Self {
        Self::Sample(e)
    }
}

impl fmt::Display for NextError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Eval(e) => write!(f, "{e}"),
            Self::Sample(e) => write!(f, "{e}"),
        }
    }
}

impl core::error::Error for NextError {}
