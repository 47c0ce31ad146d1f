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
use crate::sample::{Constraint, ParamError, Params, SampleError, Sampler};

/// Most tokens that wait to be evaluated together.
const MOST_DUE: usize = 64;

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
    /// Chosen, but not evaluated: more than one only where a constraint forced
    /// them.
    due: Queue,
    /// Forced, but not given yet.
    forced: Queue,
    /// Whether forced tokens are evaluated together.
    batched: bool,
    counts: Counts,
}

/// Tokens in the order they came.
#[derive(Clone, Copy)]
struct Queue {
    ids: [u32; MOST_DUE],
    from: usize,
    to: usize,
}

impl Queue {
    const EMPTY: Self = Self { ids: [0; MOST_DUE], from: 0, to: 0 };

    fn waiting(&self) -> &[u32] {
        &self.ids[self.from..self.to]
    }

    fn take(&mut self) -> Option<u32> {
        let first = self.waiting().first().copied()?;
        self.from += 1;
        Some(first)
    }

    /// Adds a token; there must be room.
    fn put(&mut self, id: u32) {
        self.ids[self.to] = id;
        self.to += 1;
    }

    fn is_full(&self) -> bool {
        self.to == MOST_DUE
    }
}

/// What guessing and forcing brought.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Tokens guessed.
    pub guessed: usize,
    /// Guesses that came true.
    pub kept: usize,
    /// Tokens that a constraint forced, which cost no choice and are evaluated
    /// together.
    pub forced: usize,
    /// Times that the model was run after the prompt.
    pub runs: usize,
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
            due: Queue::EMPTY,
            forced: Queue::EMPTY,
            batched: true,
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

    /// Forgets the text, so that another can be given with
    /// [`Generator::prompt`]. Of the tokens given, `engine` then remembers only
    /// those that it has evaluated, and no guesses.
    pub fn restart(&mut self, engine: &mut Engine<'_>) {
        self.settle(engine);
        (self.due, self.forced, self.row) = (Queue::EMPTY, Queue::EMPTY, 0);
        self.sampler.forget();
        if let Some(lookup) = &mut self.lookup {
            lookup.forget();
        }
    }

    /// Changes how tokens are chosen, and begins with a new seed; errs as
    /// [`Sampler::restart`] does.
    pub fn choose(&mut self, params: &Params, bias: &[(u32, f32)]) -> Result<(), ParamError> {
        self.sampler.restart(params, bias)
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
        self.next_within(engine, workers, clock, None)
    }

    /// The same, keeping to `constraint`. Tokens that it forces are given one
    /// by one as others are, but evaluated together when a choice is due again;
    /// the text is what it would be if each were evaluated alone.
    pub fn next_within(
        &mut self,
        engine: &mut Engine<'_>,
        workers: &dyn Workers,
        clock: &dyn Clock,
        mut constraint: Option<&mut dyn Constraint>,
    ) -> Result<u32, NextError> {
        if let Some(constraint) = &mut constraint
            && self.forced.waiting().is_empty()
        {
            let to = constraint.forced(&mut self.forced.ids);
            (self.forced.from, self.forced.to) = (0, to.min(MOST_DUE));
        }
        let id = match self.forced.take() {
            Some(id) => {
                if !self.batched || self.due.is_full() || engine.position() + self.due.to > engine.context() {
                    self.evaluate_due(engine, workers, clock)?;
                }
                self.counts.forced += 1;
                id
            }
            None => {
                self.evaluate_due(engine, workers, clock)?;
                let logits = engine.logits_row(self.row);
                match &mut constraint {
                    None => self.sampler.sample(logits)?,
                    Some(constraint) => self.sampler.sample_within(logits, &mut **constraint)?,
                }
            }
        };
        if let Some(constraint) = constraint {
            constraint.accept(id);
        }
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
            self.due.put(id);
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
            lookup.learn(self.guessed, self.row);
        }
        self.guessed = 0;
    }

    /// Whether forced tokens are evaluated together, as they are unless told
    /// otherwise. Changes how long they take, nothing else.
    pub fn batch_forced(&mut self, batched: bool) {
        self.batched = batched;
    }

    /// Evaluates what is due, so that there are logits to choose by.
    fn evaluate_due(
        &mut self,
        engine: &mut Engine<'_>,
        workers: &dyn Workers,
        clock: &dyn Clock,
    ) -> Result<(), NextError> {
        let due = core::mem::replace(&mut self.due, Queue::EMPTY);
        match *due.waiting() {
            // Just after the prompt, whose last token's logits are in row 0.
            [] if self.guessed == 0 => self.base = engine.position().saturating_sub(1),
            [] => {}
            [id] => {
                self.counts.runs += 1;
                self.evaluate(id, engine, workers, clock)?;
            }
            ref ids => {
                self.counts.runs += 1;
                engine.eval(workers, ids, &mut |_| true)?;
                (self.row, self.base) = (0, engine.position() - 1);
            }
        }
        Ok(())
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
        let guesses = match &mut self.lookup {
            None => 0,
            Some(lookup) => lookup.draft(&mut self.drafts[..room.min(MOST_DRAFTS)]),
        };
        batch[1..=guesses].copy_from_slice(&self.drafts[..guesses]);
        self.base = engine.position();
        let start = clock.micros();
        engine.eval_rows(workers, &batch[..=guesses])?;
        if let Some(lookup) = &mut self.lookup {
            lookup.took(guesses, clock.micros().saturating_sub(start));
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
