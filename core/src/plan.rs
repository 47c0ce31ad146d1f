//! The memory plan: every buffer named and sized before any is taken.

use core::fmt;

use crate::arena::{ALIGN, ArenaFull, Space};
use crate::cast::Plain;

/// What a buffer is for; the rows of the printed plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Part {
    /// Keys and values of past tokens.
    Kv,
    /// Vectors that flow through the layers.
    Activations,
    /// Precomputed rotary position tables.
    Rope,
    /// Vocabulary look-up tables.
    Tokenizer,
    /// Tensor table: where each weight lies in the model file.
    Weights,
    /// Compiled schemas, vocabulary tries, cached masks.
    Grammar,
    /// Logits and work space of the sampler and tokenizer.
    Scratch,
}

impl Part {
    /// All parts, in the order they are printed.
    pub const ALL: [Part; 7] = [
        Part::Kv,
        Part::Activations,
        Part::Rope,
        Part::Tokenizer,
        Part::Weights,
        Part::Grammar,
        Part::Scratch,
    ];

    /// The name people read.
    pub fn name(self) -> &'static str {
        match self {
            Part::Kv => "KV cache",
            Part::Activations => "activations",
            Part::Rope => "RoPE tables",
            Part::Tokenizer => "tokenizer",
            Part::Weights => "weight table",
            Part::Grammar => "grammar",
            Part::Scratch => "scratch",
        }
    }
}

/// One planned buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    /// What it is for.
    pub part: Part,
    /// Its name in messages.
    pub name: &'static str,
    /// Bytes, rounded up to [`ALIGN`].
    pub bytes: u64,
}

/// Most buffers a plan can hold.
const MAX_ENTRIES: usize = 64;

/// A list of buffers and their sizes. A [`Space`] that only measures.
#[derive(Clone)]
pub struct MemoryPlan {
    entries: [Entry; MAX_ENTRIES],
    len: usize,
}

impl Default for MemoryPlan {
    fn default() -> Self {
        Self::new()
    }
}

impl MemoryPlan {
    /// An empty plan.
    pub const fn new() -> Self {
        const NONE: Entry = Entry { part: Part::Scratch, name: "", bytes: 0 };
        Self { entries: [NONE; MAX_ENTRIES], len: 0 }
    }

    /// The buffers, in the order they will be taken.
    pub fn entries(&self) -> &[Entry] {
        &self.entries[..self.len]
    }

    /// Bytes of one part.
    pub fn part(&self, part: Part) -> u64 {
        self.entries().iter().filter(|e| e.part == part).fold(0, |sum, e| sum.saturating_add(e.bytes))
    }

    /// Bytes of everything: the arena to hand over.
    pub fn total(&self) -> u64 {
        self.entries().iter().fold(0, |sum, e| sum.saturating_add(e.bytes))
    }

    /// Errs when the plan exceeds `budget` bytes.
    pub fn check(&self, budget: u64) -> Result<(), OverBudget> {
        let need = self.total();
        if need <= budget { Ok(()) } else { Err(OverBudget { need, have: budget }) }
    }
}

impl<'a> Space<'a> for MemoryPlan {
    fn take<T: Plain>(&mut self, part: Part, name: &'static str, n: usize) -> Result<&'a mut [T], ArenaFull> {
        let bytes = (size_of::<T>() as u64)
            .checked_mul(n as u64)
            .and_then(|b| b.checked_next_multiple_of(ALIGN as u64))
            .ok_or(ArenaFull { name, need: u64::MAX, have: u64::MAX })?;
        let slot = self.entries.get_mut(self.len).ok_or(ArenaFull { name, need: bytes, have: 0 })?;
        *slot = Entry { part, name, bytes };
        self.len += 1;
        Ok(&mut [])
    }
}

/// The plan does not fit the budget.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OverBudget {
    /// Bytes the plan needs.
    pub need: u64,
    /// Bytes allowed.
    pub have: u64,
}

impl fmt::Display for OverBudget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "the plan needs {} bytes of memory but {} are allowed: lower the context (-c)",
            self.need, self.have
        )
    }
}

impl core::error::Error for OverBudget {}
