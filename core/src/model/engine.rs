//! A model ready to run, all of it in one arena.

use core::fmt;
use core::ops::Range;

use super::config::Config;
use super::error::{Fault, LoadError};
use super::forward::{Buffers, Step};
use super::kv::KvCache;
use super::rope::{self, RopeTable};
use super::weights::{self, Weights};
use crate::arena::{ArenaFull, Space};
use crate::cast::Slot;
use crate::gguf::Parts;
use crate::kernels::Kernels;
use crate::plan::Part;
use crate::port::Workers;

/// How much an engine is made to hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// Tokens it can remember.
    pub context: usize,
    /// Tokens evaluated at once, at most: more is faster for long prompts and
    /// takes more memory. The result does not depend on it.
    pub batch: usize,
    /// Guessed tokens that [`Engine::eval_rows`] can check at once; each takes a
    /// row of logits.
    pub drafts: usize,
}

impl Options {
    /// Tokens at once unless asked otherwise.
    pub const BATCH: usize = 64;
}

/// Bytes of state handed over at once, at most.
const ROW_BYTES: usize = 512;

/// Memory of an engine, before it holds anything.
struct Room<'a> {
    kv: KvCache<'a>,
    rope: &'a mut [f32],
    slots: &'a mut [Slot],
    buffers: Buffers<'a>,
    logits: &'a mut [f32],
}

/// Takes all memory that an engine needs; over a
/// [`MemoryPlan`](crate::plan::MemoryPlan), says how much that is.
fn lay_out<'a, S: Space<'a>>(
    space: &mut S,
    config: &Config,
    options: &Options,
) -> Result<Room<'a>, ArenaFull> {
    Ok(Room {
        kv: KvCache::lay_out(space, config, options.context)?,
        rope: rope::lay_out(space, config, options.context)?,
        slots: weights::lay_out(space, config)?,
        buffers: Buffers::lay_out(space, config, options.batch)?,
        logits: space.take(Part::Scratch, "logits", config.vocab.saturating_mul(1 + options.drafts))?,
    })
}

/// A model, its cache of past tokens, and room to work.
pub struct Engine<'a> {
    config: Config,
    options: Options,
    kernels: Kernels,
    weights: Weights<'a>,
    rope: RopeTable<'a>,
    kv: KvCache<'a>,
    buffers: Buffers<'a>,
    logits: &'a mut [f32],
    position: usize,
}

impl<'a> Engine<'a> {
    /// Adds to `plan` what [`Engine::load`] takes with the same arguments.
    pub fn plan(
        plan: &mut crate::plan::MemoryPlan,
        config: &Config,
        options: &Options,
    ) -> Result<(), LoadError> {
        check(options)?;
        lay_out(plan, config, options)?;
        Ok(())
    }

    /// Checks every tensor of `parts` against its keys and takes memory from
    /// `space`, which must be an arena, not a plan.
    ///
    /// Errs when the model is not one that we can run or the arena is too
    /// small; nothing later can fail but a context that is full.
    pub fn load<S: Space<'a>>(
        parts: &Parts<'a>,
        options: &Options,
        kernels: Kernels,
        space: &mut S,
    ) -> Result<Self, LoadError> {
        check(options)?;
        let config = Config::read(parts)?;
        let room = lay_out(space, &config, options)?;
        let weights = Weights::find(parts, &config, room.slots)?;
        let rope = RopeTable::fill(room.rope, &config, weights.rope_factors);
        Ok(Self {
            config,
            options: *options,
            kernels,
            weights,
            rope,
            kv: room.kv,
            buffers: room.buffers,
            logits: room.logits,
            position: 0,
        })
    }

    /// The model's shape.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// Tokens that can be remembered.
    pub fn context(&self) -> usize {
        self.options.context
    }

    /// Tokens remembered so far; the next one goes to this position.
    pub fn position(&self) -> usize {
        self.position
    }

    /// Forgets all tokens from `position` on.
    pub fn rewind(&mut self, position: usize) {
        self.position = self.position.min(position);
    }

    /// Bytes that [`Engine::write_state`] writes for each token.
    pub fn state_bytes(&self) -> usize {
        self.kv.token_bytes(self.config.layers)
    }

    /// Hands what is remembered of tokens `0..n`, of which there must be that
    /// many, to `to` in pieces: keys and values as they are, in an order that
    /// depends on `n` alone. Where `to` returns false, so does this, at once.
    pub fn write_state(&mut self, n: usize, to: &mut dyn FnMut(&[u8]) -> bool) -> bool {
        let mut bytes = [0; ROW_BYTES];
        self.kv.rows(self.config.layers, n.min(self.position), |_, row| {
            row.unwrap_or_default().chunks(ROW_BYTES / 2).all(|part| {
                let bytes = &mut bytes[..2 * part.len()];
                bytes.chunks_exact_mut(2).zip(part).for_each(|(b, v)| b.copy_from_slice(&v.to_le_bytes()));
                to(bytes)
            })
        })
    }

    /// Takes back what [`Engine::write_state`] wrote for `written` tokens, of
    /// which the first `n` are then remembered, and no others. Where `from`
    /// returns false, so does this, and nothing is remembered; nor may anything
    /// be kept of bytes that turn out to be wrong: [`Engine::rewind`].
    pub fn read_state(&mut self, written: usize, n: usize, from: &mut dyn FnMut(&mut [u8]) -> bool) -> bool {
        let (len, mut bytes) = (self.kv.row(), [0; ROW_BYTES]);
        let n = n.min(written).min(self.options.context);
        self.position = 0;
        let done = self.kv.rows(self.config.layers, written, |token, mut row| {
            (0..len).step_by(ROW_BYTES / 2).all(|at| {
                let bytes = &mut bytes[..2 * (len - at).min(ROW_BYTES / 2)];
                let good = from(bytes);
                if let Some(row) = row.as_mut().filter(|_| token < n && good) {
                    let values = bytes.chunks_exact(2).map(|b| u16::from_le_bytes([b[0], b[1]]));
                    row[at..].iter_mut().zip(values).for_each(|(to, v)| *to = v);
                }
                good
            })
        });
        self.position = if done { n } else { 0 };
        done
    }

    /// The logits of the last token evaluated, one per vocabulary entry, for
    /// the sampler to work on.
    pub fn logits(&mut self) -> &mut [f32] {
        self.logits_row(0)
    }

    /// The logits of token `row` of the last [`Engine::eval_rows`]; panics past
    /// the rows there are.
    pub fn logits_row(&mut self, row: usize) -> &mut [f32] {
        let vocab = self.config.vocab;
        &mut self.logits[row * vocab..][..vocab]
    }

    /// Guessed tokens that [`Engine::eval_rows`] takes beside the first.
    pub fn drafts(&self) -> usize {
        self.options.drafts
    }

    /// Runs `tokens` after those already seen, in batches, and leaves the last
    /// one's logits in [`Engine::logits`].
    ///
    /// Errs, having done nothing, when `tokens` is empty, holds an id that the
    /// model does not have, or does not fit the context. `each_batch` is told
    /// how many tokens are done, and may stop the work by returning false: the
    /// engine then remembers the tokens done, and says so.
    pub fn eval(
        &mut self,
        workers: &dyn Workers,
        tokens: &[u32],
        each_batch: &mut dyn FnMut(usize) -> bool,
    ) -> Result<(), EvalError> {
        self.check(tokens)?;
        let mut done = 0;
        for batch in tokens.chunks(self.options.batch) {
            let last = done + batch.len() == tokens.len();
            self.run(workers, batch);
            if last {
                self.logits_of(workers, batch.len() - 1..batch.len());
            }
            self.position += batch.len();
            done += batch.len();
            if !each_batch(done) && !last {
                return Err(EvalError::Stopped { done });
            }
        }
        Ok(())
    }

    /// Runs `tokens`, no more than [`Engine::drafts`] and one, as one batch, and
    /// leaves each one's logits in [`Engine::logits_row`]. Errs as
    /// [`Engine::eval`] does, and panics on more tokens.
    pub fn eval_rows(&mut self, workers: &dyn Workers, tokens: &[u32]) -> Result<(), EvalError> {
        self.check(tokens)?;
        assert!(tokens.len() <= (1 + self.options.drafts).min(self.options.batch), "more tokens than rows");
        self.run(workers, tokens);
        self.logits_of(workers, 0..tokens.len());
        self.position += tokens.len();
        Ok(())
    }

    /// The same, handing every token's logits to `each` in order.
    pub fn eval_all(
        &mut self,
        workers: &dyn Workers,
        tokens: &[u32],
        each: &mut dyn FnMut(usize, &mut [f32]),
    ) -> Result<(), EvalError> {
        self.check(tokens)?;
        for (i, batch) in tokens.chunks(self.options.batch).enumerate() {
            self.run(workers, batch);
            for t in 0..batch.len() {
                self.logits_of(workers, t..t + 1);
                each(i * self.options.batch + t, self.logits_row(0));
            }
            self.position += batch.len();
        }
        Ok(())
    }

    fn check(&self, tokens: &[u32]) -> Result<(), EvalError> {
        if tokens.is_empty() {
            return Err(EvalError::NoTokens);
        }
        let vocab = self.config.vocab;
        if let Some(at) = tokens.iter().position(|&id| id as usize >= vocab) {
            return Err(EvalError::UnknownToken { id: tokens[at], at, vocab });
        }
        let (need, have) = (self.position + tokens.len(), self.options.context);
        if need > have { Err(EvalError::ContextFull { need, have }) } else { Ok(()) }
    }

    /// All layers over one batch.
    fn run(&mut self, workers: &dyn Workers, batch: &[u32]) {
        let (step, buffers, kv, _) = self.split(workers);
        buffers.embed(&step, batch);
        for layer in 0..step.weights.layers() {
            buffers.layer(&step, kv, layer, batch.len());
        }
    }

    /// Logits of tokens `range` of the batch just run, into as many rows.
    fn logits_of(&mut self, workers: &dyn Workers, range: Range<usize>) {
        let rows = range.len() * self.config.vocab;
        let (step, buffers, _, logits) = self.split(workers);
        buffers.logits(&step, range, &mut logits[..rows]);
    }

    /// What a step reads, and what it writes.
    fn split<'s>(
        &'s mut self,
        workers: &'s dyn Workers,
    ) -> (Step<'s, 'a>, &'s mut Buffers<'a>, &'s mut KvCache<'a>, &'s mut [f32]) {
        let step = Step {
            config: &self.config,
            kernels: &self.kernels,
            weights: &self.weights,
            rope: &self.rope,
            workers,
            position: self.position,
        };
        (step, &mut self.buffers, &mut self.kv, self.logits)
    }
}

fn check(options: &Options) -> Result<(), LoadError> {
    const MOST: usize = 1 << 24;
    for (name, value) in [("the context (-c)", options.context), ("the batch (-b)", options.batch)] {
        if value == 0 || value > MOST {
            let fault = Fault::Range { value: value as u64, min: 1, max: MOST as u64 };
            return Err(LoadError::Option(name, fault));
        }
    }
    if options.drafts >= options.batch {
        let fault = Fault::Range { value: options.drafts as u64, min: 0, max: options.batch as u64 - 1 };
        return Err(LoadError::Option("the number of guesses", fault));
    }
    Ok(())
}

/// Why tokens could not be run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EvalError {
    /// There were none.
    NoTokens,
    /// An id that the model does not have.
    UnknownToken {
        /// The id.
        id: u32,
        /// Its place among the tokens given.
        at: usize,
        /// Ids below this exist.
        vocab: usize,
    },
    /// More tokens than the context holds.
    ContextFull {
        /// Tokens, past and new.
        need: usize,
        /// Tokens that fit.
        have: usize,
    },
    /// The caller stopped the work.
    Stopped {
        /// Tokens that were run and are remembered.
        done: usize,
    },
}

impl fmt::Display for EvalError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoTokens => write!(f, "there are no tokens to run: give a prompt"),
            Self::UnknownToken { id, at, vocab } => {
                write!(f, "token {id} (number {at} of those given) is not in the vocabulary of {vocab}")
            }
            Self::ContextFull { need, have } => write!(
                f,
                "{need} tokens do not fit a context of {have}: shorten the prompt or raise the context (-c)"
            ),
            Self::Stopped { done } => write!(f, "stopped after {done} tokens"),
        }
    }
}

impl core::error::Error for EvalError {}
