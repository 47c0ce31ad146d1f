//! Grammars: text that is always what a JSON Schema says.
//!
//! # What it is for
//! A schema is compiled into tables; a [`Matcher`] follows a text byte by byte
//! and says what may come next; [`Trie`] and [`Constrained`] turn that into the
//! tokens of a vocabulary, so that a sampler chooses among the right ones only.
//! [`tools`] writes the schemas of tool calls.
mod constrain;
mod dfa;
mod error;
mod formats;
mod json;
mod left;
mod mask;
mod matcher;
mod number;
mod program;
mod regex;
mod schema;
mod step;
#[cfg(test)]
mod tests;
mod text;
pub mod tools;
mod trie;

pub(crate) use dfa::State as DfaState;
pub(crate) use json::Item;
pub(crate) use program::{Arc, Dfa, Member, Node, Order, Span};
pub(crate) use regex::Instr;
pub(crate) use schema::Conj;
pub(crate) use step::Frame;

pub use constrain::{Constrained, MaskCounts};
pub use error::{Pointer, SchemaError, Why};
pub use mask::MaskMemory;
pub use matcher::{Matcher, NoEnd, Stacks};
pub use program::{Limits, Memory, Spacing};
pub use schema::Scratch;
pub use trie::{Trie, TrieMemory, TrieSizes};

use program::{NONE, Tables};
use step::{DONE, FREE, LOOK, TAIL};

/// How a schema is read.
#[derive(Clone, Copy, Debug)]
pub struct Options<'o> {
    /// White space.
    pub spacing: Spacing,
    /// An object that lists `properties` and does not say whether there may be
    /// others has none. JSON Schema itself allows any.
    pub closed: bool,
    /// Free text around the grammar.
    pub wrap: Option<Wrap<'o>>,
}

impl Default for Options<'_> {
    fn default() -> Self {
        Self { spacing: Spacing::default(), closed: true, wrap: None }
    }
}

/// Free text in which the grammar starts when a trigger appears.
#[derive(Clone, Copy, Debug)]
pub struct Wrap<'o> {
    /// What starts it: 1 to [`MOST_TRIGGERS`].
    pub triggers: &'o [Trigger<'o>],
    /// What stands between a trigger and the value, as `"\n"` after
    /// `<tool_call>`; not after triggers that are part of the value.
    pub lead: &'o str,
    /// What follows the value, as `"\n</tool_call>"`.
    pub tail: &'o str,
    /// After that the text is free again and triggers count anew; otherwise it
    /// must end.
    pub again: bool,
}

/// Text that starts the grammar.
#[derive(Clone, Copy, Debug)]
pub struct Trigger<'o> {
    /// 1 to 64 bytes.
    pub text: &'o str,
    /// The value begins with it, as with `{"tool_calls"`; otherwise it comes
    /// after.
    pub part: bool,
}

/// Most triggers of a grammar.
pub const MOST_TRIGGERS: usize = 4;

/// Most bytes of a trigger.
const TRIGGER_BYTES: usize = 64;

/// A compiled schema: views of the memory it was compiled into.
#[derive(Clone, Copy)]
pub struct Grammar<'a> {
    t: Tables<'a>,
    wrapped: Option<Wrapped>,
}

/// A [`Wrap`] whose texts lie in the tables.
#[derive(Clone, Copy)]
struct Wrapped {
    triggers: [Trig; MOST_TRIGGERS],
    count: usize,
    lead: Span,
    tail: Span,
    again: bool,
}

#[derive(Clone, Copy)]
struct Trig {
    text: Span,
    part: bool,
}

impl Wrapped {
    /// Where the text stands after the tail.
    fn after(&self) -> Frame {
        Frame::new(if self.again { FREE } else { DONE }, NONE, 0)
    }

    /// Where it stands after the value.
    fn around(&self) -> Frame {
        if self.tail.len == 0 { self.after() } else { Frame { phase: TAIL, ..Frame::new(FREE, NONE, 0) } }
    }
}

impl<'a> Grammar<'a> {
    /// Compiles `schema`, the text of a JSON Schema.
    ///
    /// `memory` becomes the grammar, `scratch` is free again afterwards. Errs
    /// where the schema is not understood as a whole; see [`SchemaError`].
    pub fn compile(
        schema: &str,
        options: &Options<'_>,
        memory: Memory<'a>,
        scratch: &mut Scratch<'_>,
    ) -> Result<Self, SchemaError> {
        schema::compile(schema, options, memory, scratch)
    }

    /// Bytes of the shortest text.
    pub fn min_len(&self) -> usize {
        if self.wrapped.is_some() { 0 } else { self.t.min(self.t.root) as usize }
    }

    /// The part of the memory given that is in use: subschemas, states of
    /// automata, bytes of text.
    pub fn used(&self) -> (usize, usize, usize) {
        (self.t.nodes.len(), self.t.states.len(), self.t.bytes.len())
    }
}

impl core::fmt::Debug for Grammar<'_> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        let (nodes, states, bytes) = self.used();
        write!(f, "a grammar of {nodes} nodes, {states} states and {bytes} bytes of text")
    }
}

// LOOK is the phase that new frames have.
const _: () = assert!(LOOK == 0);
