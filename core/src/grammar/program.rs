//! A compiled grammar: tables in the caller's memory, and how they are filled.

use super::classes::{Classes, Runs};
use super::error::Why;
use crate::arena::{ArenaFull, Space};
use crate::cast::Plain;
use crate::plan::Part;

/// No node, no entry.
pub(super) const NONE: u16 = u16::MAX;

/// What a node accepts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Kind {
    /// Nothing.
    Never,
    /// What an automaton over bytes accepts; `a` is its first state.
    Lexeme,
    /// Any string of `b` to `c` characters.
    Str,
    /// One of the `n` texts from text `b` on.
    Texts,
    /// An object with `n` named members from member `b` on, their order from
    /// order `c` on; others are `a`. The shortest key of another takes `d`
    /// bytes.
    Object,
    /// Items `n` from list entry `b` on, then `a`; `c` at least and `d` at most,
    /// `u32::MAX` for any number.
    Array,
    /// What one of the `n` nodes from list entry `b` on accepts.
    Any,
    /// A string whose content `a` accepts.
    Encoded,
}

/// Set in [`Node::flags`] where the node is inside a string.
pub(super) const INSIDE: u8 = 1;

/// What may stand somewhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub(crate) struct Node {
    pub(super) kind: u8,
    pub(super) flags: u8,
    /// Frames that the shortest value needs beside its own.
    pub(super) need: u8,
    pub(super) pad: u8,
    pub(super) a: u16,
    pub(super) n: u16,
    pub(super) b: u32,
    pub(super) c: u32,
    pub(super) d: u32,
    /// Bytes of the shortest value; `u32::MAX` where there is none.
    pub(super) min: u32,
}

impl Node {
    pub(crate) const NEVER: Self = Self {
        kind: Kind::Never as u8,
        flags: 0,
        need: 0,
        pad: 0,
        a: NONE,
        n: 0,
        b: 0,
        c: 0,
        d: 0,
        min: u32::MAX,
    };

    pub(super) fn new(kind: Kind, flags: u8) -> Self {
        Self { kind: kind as u8, flags, ..Self::NEVER }
    }

    pub(super) fn kind(&self) -> Kind {
        const KINDS: [Kind; 8] = [
            Kind::Never,
            Kind::Lexeme,
            Kind::Str,
            Kind::Texts,
            Kind::Object,
            Kind::Array,
            Kind::Any,
            Kind::Encoded,
        ];
        KINDS.get(usize::from(self.kind)).copied().unwrap_or(Kind::Never)
    }

    /// Whether the node's bytes are those of a string's content.
    pub(super) fn inside(&self) -> bool {
        self.flags & INSIDE != 0
    }

    /// Fewest and most items of an array.
    pub(super) fn bounds(&self) -> (u32, u32) {
        (self.c, self.d)
    }
}

/// A named member of an object. Those of one object are sorted by key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub(crate) struct Member {
    /// The key as it is written, its closing quote included, its opening one
    /// not.
    pub(super) key: Span,
    pub(super) value: u16,
    /// Its place among the object's members as the schema lists them.
    pub(super) order: u16,
    pub(super) required: u16,
    pub(super) pad: u16,
}

/// A place in an object's order of members.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub(crate) struct Order {
    /// The member, counted from the object's first.
    pub(super) member: u16,
    /// The first place from here on whose member is required; the number of
    /// members where none is.
    pub(super) until: u16,
    /// Bytes that the required ones from here on take, a comma before each.
    pub(super) rest: u32,
}

/// Bytes in the text table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub(crate) struct Span {
    pub(super) at: u32,
    pub(super) len: u32,
}

/// A state of an automaton over bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub(crate) struct Dfa {
    pub(super) first: u32,
    /// Bytes to the nearest accepting state.
    pub(super) left: u32,
    /// What [`Runs`] has.
    pub(super) free: Classes,
    pub(super) dead: Classes,
    pub(super) wide: Classes,
    pub(super) n: u16,
    pub(super) sure: u8,
    pub(super) most: u8,
}

impl Dfa {
    /// A state with `n` arcs from `first` on, so many bytes from an accepting
    /// one, of whose characters nothing is known.
    pub(super) const fn new(first: u32, n: u16, left: u32) -> Self {
        let Runs { free, dead, wide, sure, most } = Runs::NONE;
        Self { first, left, free, dead, wide, n, sure, most }
    }

    /// Whether the text may end here.
    pub(super) fn accepts(&self) -> bool {
        self.left == 0
    }

    pub(super) fn runs(&self) -> Runs {
        Runs { free: self.free, dead: self.dead, wide: self.wide, sure: self.sure, most: self.most }
    }

    /// Notes what is true of its characters.
    pub(super) fn set(&mut self, runs: Runs) {
        let Runs { free, dead, wide, sure, most } = runs;
        *self = Self { free, dead, wide, sure, most, ..*self };
    }
}

/// Bytes that lead from one state to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub(crate) struct Arc {
    pub(super) low: u8,
    pub(super) high: u8,
    pub(super) to: u16,
}

/// How much a grammar may take, chosen by the caller; what does not fit is an
/// error that names the limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Values in the schema's text.
    pub values: usize,
    /// Different subschemas, at most 65,000.
    pub nodes: usize,
    /// Named members of all objects together.
    pub members: usize,
    /// Alternatives, prefix items and constants together.
    pub lists: usize,
    /// Bytes of keys and constants.
    pub bytes: usize,
    /// States of all automata for numbers, patterns and formats, at most
    /// 65,000.
    pub states: usize,
    /// Instructions of one string's patterns, at most 512.
    pub pattern: usize,
    /// Deepest nesting of what is generated, at most 250.
    pub depth: usize,
    /// Alternatives that may be open at once (as long as they begin alike).
    pub threads: usize,
}

impl Default for Limits {
    /// Enough for a hundred tools.
    fn default() -> Self {
        Self {
            values: 16384,
            nodes: 4096,
            members: 4096,
            lists: 8192,
            bytes: 65536,
            states: 8192,
            pattern: 512,
            depth: 40,
            threads: 128,
        }
    }
}

impl Limits {
    /// Enough for a few tools: what a board takes.
    pub fn small() -> Self {
        Self {
            values: 2048,
            nodes: 512,
            members: 512,
            lists: 512,
            bytes: 8192,
            states: 1024,
            pattern: 256,
            depth: 16,
            threads: 32,
        }
    }
}

/// Memory for a grammar, not yet filled.
pub struct Memory<'a> {
    nodes: &'a mut [Node],
    lists: &'a mut [u16],
    members: &'a mut [Member],
    orders: &'a mut [Order],
    texts: &'a mut [Span],
    bytes: &'a mut [u8],
    states: &'a mut [Dfa],
    arcs: &'a mut [Arc],
    depth: u8,
}

impl<'a> Memory<'a> {
    /// Takes what `limits` allow; see [`Limits`].
    pub fn lay_out(space: &mut impl Space<'a>, limits: &Limits) -> Result<Self, ArenaFull> {
        let part = Part::Grammar;
        let most = usize::from(NONE - 1);
        Ok(Self {
            nodes: space.take(part, "grammar nodes", limits.nodes.min(most))?,
            lists: space.take(part, "grammar lists", limits.lists)?,
            members: space.take(part, "grammar members", limits.members)?,
            // One more for each object, which is a node.
            orders: space.take(part, "grammar orders", limits.members.saturating_add(limits.nodes))?,
            texts: space.take(part, "grammar constants", limits.lists)?,
            bytes: space.take(part, "grammar text", limits.bytes)?,
            states: space.take(part, "grammar states", limits.states.min(most))?,
            arcs: space.take(part, "grammar arcs", limits.states.saturating_mul(6))?,
            depth: limits.depth.min(250) as u8,
        })
    }
}

/// A table being filled from its front.
pub(super) struct Table<'a, T> {
    pub(super) all: &'a mut [T],
    pub(super) len: usize,
    what: &'static str,
}

impl<'a, T: Copy> Table<'a, T> {
    pub(super) fn new(all: &'a mut [T], what: &'static str) -> Self {
        Self { all, len: 0, what }
    }

    pub(super) fn push(&mut self, item: T) -> Result<usize, Why> {
        let limit = self.all.len();
        *self.all.get_mut(self.len).ok_or(Why::Limit { what: self.what, limit })? = item;
        self.len += 1;
        Ok(self.len - 1)
    }

    pub(super) fn used(&self) -> &[T] {
        &self.all[..self.len]
    }

    pub(super) fn full(&self) -> Why {
        Why::Limit { what: self.what, limit: self.all.len() }
    }
}

/// The tables of a grammar being made.
pub(super) struct Builder<'a> {
    pub(super) nodes: Table<'a, Node>,
    pub(super) lists: Table<'a, u16>,
    pub(super) members: Table<'a, Member>,
    pub(super) orders: Table<'a, Order>,
    pub(super) texts: Table<'a, Span>,
    pub(super) bytes: Table<'a, u8>,
    pub(super) states: Table<'a, Dfa>,
    pub(super) arcs: Table<'a, Arc>,
    pub(super) depth: u8,
}

impl<'a> Builder<'a> {
    pub(super) fn new(memory: Memory<'a>) -> Self {
        Self {
            nodes: Table::new(memory.nodes, "different subschemas"),
            lists: Table::new(memory.lists, "alternatives and items"),
            members: Table::new(memory.members, "object members"),
            orders: Table::new(memory.orders, "object members"),
            texts: Table::new(memory.texts, "constants"),
            bytes: Table::new(memory.bytes, "bytes of keys and constants"),
            states: Table::new(memory.states, "states of numbers, patterns and formats"),
            arcs: Table::new(memory.arcs, "arcs of numbers, patterns and formats"),
            depth: memory.depth,
        }
    }

    pub(super) fn push_bytes(&mut self, bytes: &[u8]) -> Result<(), Why> {
        bytes.iter().try_for_each(|&b| self.bytes.push(b).map(drop))
    }

    /// What has been written since `at`: a text no longer than frames can tell
    /// places in.
    pub(super) fn span_from(&self, at: usize) -> Result<Span, Why> {
        const LIMIT: usize = NONE as usize - 1;
        let len = self.bytes.len - at;
        if len > LIMIT {
            return Err(Why::Limit { what: "bytes in one constant or name", limit: LIMIT });
        }
        Ok(Span { at: at as u32, len: len as u32 })
    }

    /// Writes `c` into a string of the grammar's text.
    pub(super) fn push_char(&mut self, c: char, inside: bool) -> Result<(), Why> {
        let mut utf8 = [0; 4];
        match super::text::spelling(c as u32, inside) {
            Some(escape) => self.push_bytes(escape.as_bytes()),
            None => self.push_bytes(c.encode_utf8(&mut utf8).as_bytes()),
        }
    }

    pub(super) fn done(self, root: u16, spacing: Spacing) -> Tables<'a> {
        // A shared slice out of the used front of each table.
        macro_rules! used {
            ($t:expr) => {{
                let Table { all, len, .. } = $t;
                &all[..len]
            }};
        }
        Tables {
            nodes: used!(self.nodes),
            lists: used!(self.lists),
            members: used!(self.members),
            orders: used!(self.orders),
            texts: used!(self.texts),
            bytes: used!(self.bytes),
            states: used!(self.states),
            arcs: used!(self.arcs),
            root,
            depth: self.depth,
            spacing,
        }
    }
}

/// White space between the parts of what is generated; none stands anywhere
/// else.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Spacing {
    /// None at all.
    Compact,
    /// One space after each comma and colon, as Python's `json.dumps` writes
    /// and most models have learnt. Leaves nothing to choose, so that the most
    /// text is forced.
    #[default]
    Spaced,
    /// At most one space after each comma and colon; the model chooses.
    Either,
}

impl Spacing {
    /// Fewest bytes of a comma or colon and what follows it.
    pub(super) fn mark(self) -> u32 {
        if self == Self::Spaced { 2 } else { 1 }
    }
}

/// A finished grammar: shared views of the tables.
#[derive(Clone, Copy)]
pub(super) struct Tables<'a> {
    pub(super) nodes: &'a [Node],
    pub(super) lists: &'a [u16],
    pub(super) members: &'a [Member],
    pub(super) orders: &'a [Order],
    pub(super) texts: &'a [Span],
    pub(super) bytes: &'a [u8],
    pub(super) states: &'a [Dfa],
    pub(super) arcs: &'a [Arc],
    pub(super) root: u16,
    pub(super) depth: u8,
    pub(super) spacing: Spacing,
}

/// A table's copy, or an empty one over a measuring space.
fn copy<'b, T: Plain, S: Space<'b>>(
    space: &mut S,
    name: &'static str,
    of: &[T],
) -> Result<&'b [T], ArenaFull> {
    let to = space.take(Part::Grammar, name, of.len())?;
    if to.len() == of.len() {
        to.copy_from_slice(of);
    }
    Ok(to)
}

impl<'a> Tables<'a> {
    pub(super) fn copy_to<'b, S: Space<'b>>(&self, space: &mut S) -> Result<Tables<'b>, ArenaFull> {
        Ok(Tables {
            nodes: copy(space, "grammar nodes", self.nodes)?,
            lists: copy(space, "grammar lists", self.lists)?,
            members: copy(space, "grammar members", self.members)?,
            orders: copy(space, "grammar orders", self.orders)?,
            texts: copy(space, "grammar constants", self.texts)?,
            bytes: copy(space, "grammar text", self.bytes)?,
            states: copy(space, "grammar states", self.states)?,
            arcs: copy(space, "grammar arcs", self.arcs)?,
            root: self.root,
            depth: self.depth,
            spacing: self.spacing,
        })
    }

    pub(super) fn node(&self, id: u16) -> Node {
        self.nodes.get(usize::from(id)).copied().unwrap_or(Node::NEVER)
    }

    pub(super) fn list(&self, node: &Node) -> &'a [u16] {
        let from = node.b as usize;
        self.lists.get(from..from + usize::from(node.n)).unwrap_or(&[])
    }

    pub(super) fn span(&self, span: Span) -> &'a [u8] {
        let from = span.at as usize;
        self.bytes.get(from..from + span.len as usize).unwrap_or(&[])
    }

    pub(super) fn members(&self, node: &Node) -> &'a [Member] {
        let from = node.b as usize;
        self.members.get(from..from + usize::from(node.n)).unwrap_or(&[])
    }

    pub(super) fn order(&self, node: &Node, at: u16) -> Order {
        const NOTHING: Order = Order { member: NONE, until: NONE, rest: u32::MAX };
        let at = node.c as usize + usize::from(at.min(node.n));
        self.orders.get(at).copied().unwrap_or(NOTHING)
    }

    /// The node of an array's item `at`, counted from 0.
    pub(super) fn item(&self, node: &Node, at: u32) -> u16 {
        if at < node.n.into() { self.list(node).get(at as usize).copied().unwrap_or(NONE) } else { node.a }
    }

    pub(super) fn state(&self, state: u16) -> Dfa {
        const DEAD: Dfa = Dfa::new(0, 0, u32::MAX);
        self.states.get(usize::from(state)).copied().unwrap_or(DEAD)
    }

    /// A state's arcs, in the order of their bytes.
    pub(super) fn arcs_of(&self, state: u16) -> &'a [Arc] {
        let state = self.state(state);
        let from = state.first as usize;
        self.arcs.get(from..from + usize::from(state.n)).unwrap_or(&[])
    }

    /// Where byte `b` leads from a state.
    pub(super) fn arc(&self, state: u16, b: u8) -> Option<u16> {
        let arcs = self.arcs_of(state);
        let at = if arcs.len() > 8 {
            arcs.partition_point(|a| a.high < b)
        } else {
            arcs.iter().position(|a| a.high >= b)?
        };
        arcs.get(at).filter(|a| a.low <= b).map(|a| a.to)
    }

    /// Bytes of the shortest value of a node; `u32::MAX` where there is none.
    pub(super) fn min(&self, node: u16) -> u32 {
        self.node(node).min
    }
}
