//! Grammars: text that is always what a JSON Schema says.
//!
//! # What it is for
//! A schema is compiled into tables ([`Grammar`]); a [`Matcher`] follows a text
//! byte by byte and says what may come next, what must, and how the text ends
//! soonest; [`Trie`] and [`Constrained`] turn that into the tokens of a
//! vocabulary, for [`Generator::next_within`](crate::generate::Generator::next_within).
//! [`tools`] writes the schemas of tool calls, and a [`Wrap`] lets a model speak
//! freely until it begins one.
//!
//! # What is understood
//! | keywords | how |
//! |---|---|
//! | `type`, one or several; `nullable` | Without it the type is the one that the other keywords are about. |
//! | `properties`, `required`, `additionalProperties` | Members come in the order in which the schema lists them, those named by `required` only after them; each may be left out unless required. Where `additionalProperties` is not said, see [`Options::closed`]. Other members' keys hold no escapes, and one may come twice. |
//! | `items`, `prefixItems`, `minItems`, `maxItems` | Also older drafts' `items: […]` and `additionalItems`. |
//! | `enum`, `const` | Any values, as they are written in the schema but for white space. |
//! | `anyOf`, `allOf`, `$ref` | Beside other keywords, too. References stay within the schema, or within the nearest part of it that has an `$id`; they may recurse. |
//! | `oneOf` | Where no value can satisfy two: by type, by constants, or by a required member's constants. |
//! | `minLength`, `maxLength` | In characters. Beside `pattern` or `format` each takes states of their automaton; alone they take nothing. |
//! | `pattern` | ECMAScript's, without look-around, back references, `\b` and `\p`; anchors at the ends only. |
//! | `format` | date, time, date-time, uuid, ipv4, ipv6, hostname, email, uri, duration. |
//! | `minimum`, `maximum`, `exclusive…`, `multipleOf` | Exact, digit by digit; such numbers have no exponent. |
//! | `contentSchema` with `contentMediaType: application/json` | The string's content is JSON that keeps to the schema, without raw braces in its own strings. |
//!
//! Notes such as `title` are passed over. Everything else is refused by name and
//! place ([`SchemaError`]): `not`, `if`, `patternProperties`, `propertyNames`,
//! `contains`, `uniqueItems`, `minProperties`, `dependent…`, `unevaluated…`.
//!
//! # What it promises
//! - What is accepted is JSON and satisfies the schema. The reverse holds up to
//!   the choices above and of writing: order, white space ([`Spacing`]),
//!   integers of at most 18 digits and other numbers of at most 15 on each side
//!   of the point, strings with a pattern without needless escapes.
//! - Whatever state a text is in, it can be completed, and how soon is known.
//! - No schema and no text can make it panic, recurse without bound or take
//!   more memory than it was given. Where too many readings of a text are open
//!   at once ([`Limits::threads`]) some are dropped: fewer texts are accepted,
//!   never a wrong one.
//!
//! # What it costs
//! Memory by [`Limits`]: 770 KB for a grammar by default, 91 KB with
//! [`Limits::small`], and more while compiling ([`Scratch`]); a trie of 3.1 MB
//! for the 152,000 tokens of Qwen 2; for each mask a bit a token, and 52 KB of
//! work space. A byte takes some ten nanoseconds for each reading open. Masks,
//! of which most tokens need none, take 0.05 to 0.3 ms with 152,000 tokens, less
//! than 1 ms in any schema of the tests, and 1.1 ms within patterns that count
//! one letter and take all others.
//!
//! ```
//! use katydid_core::arena::Arena;
//! use katydid_core::grammar::{Grammar, Limits, Matcher, Memory, Options, Scratch, Stacks};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let (mut room, limits) = (vec![0; 1 << 20], Limits::small());
//! let mut arena = Arena::new(&mut room);
//! let memory = Memory::lay_out(&mut arena, &limits)?;
//! let stacks = Stacks::lay_out(&mut arena, &limits)?;
//! let mut scratch = Scratch::lay_out(&mut arena, &limits)?;
//! let schema = r#"{"properties": {"on": {"type": "boolean"}}, "required": ["on"]}"#;
//! let grammar = Grammar::compile(schema, &Options::default(), memory, &mut scratch)?;
//! let mut matcher = Matcher::new(grammar, stacks).ok_or("no memory")?;
//!
//! let mut text = [0; 32];
//! let n = matcher.forced(&mut text);
//! assert_eq!(&text[..n], br#"{"on": "#);
//! assert!(matcher.advance_all(*br#"{"on": t"#) && !matcher.accepts(*b"o"));
//! let n = matcher.close(&mut text)?;
//! assert_eq!(&text[..n], b"rue}");
//! # Ok(())
//! # }
//! ```

mod classes;
mod constrain;
mod dfa;
mod error;
mod formats;
mod json;
mod left;
mod marks;
mod mask;
mod matcher;
mod number;
mod program;
mod regex;
mod schema;
mod step;
mod strings;
#[cfg(test)]
mod tests;
pub mod tools;
mod trie;

use crate::json::text;

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

use crate::arena::{ArenaFull, Space};
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

    /// Copies the grammar into memory of `space`, exactly as much as it needs.
    /// Over a [`MemoryPlan`](crate::plan::MemoryPlan) it says how much that is,
    /// and what it gives is empty.
    pub fn copy_to<'b, S: Space<'b>>(&self, space: &mut S) -> Result<Grammar<'b>, ArenaFull> {
        Ok(Grammar { t: self.t.copy_to(space)?, wrapped: self.wrapped })
    }

    /// White space of its texts.
    pub fn spacing(&self) -> Spacing {
        self.t.spacing
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
