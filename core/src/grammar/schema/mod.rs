//! From the text of a JSON Schema to tables.
//!
//! A node stands for a [`Conj`]: subschemas that must hold together. `$ref` and
//! `allOf` add to it, `anyOf` and `oneOf` split it, and what is left is a list
//! of plain keywords. Equal sets are one node, so that recursion ends.

mod enums;
mod finish;
mod refs;
mod spec;
mod values;

use super::dfa::State;
use super::error::{Pointer, SchemaError, Why};
use super::formats;
use super::json::{Doc, Item};
use super::program::{Builder, INSIDE, Kind, Limits, Memory, NONE, Node, Span};
use super::regex::Instr;
use super::{Grammar, MOST_TRIGGERS, Options, TRIGGER_BYTES, Trig, Wrap, Wrapped};
use crate::arena::{ArenaFull, Space};
use crate::plan::Part;

/// Most subschemas that must hold together.
const MOST: usize = 12;

/// A failure, and the item that it is about.
type Res<T> = Result<T, (Why, u32)>;

/// Bits of an entry of a [`Conj`]: its `anyOf` or `oneOf` has been split.
const ANY_OF: u32 = 1;
const ONE_OF: u32 = 2;
/// Bits.
const SHIFT: u32 = 3;
/// Its references have been followed.
const FOLLOWED: u32 = 4;

/// Subschemas that must hold together: each an item of the text, times
/// eight, and bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub(crate) struct Conj {
    n: u16,
    flags: u16,
    all: [u32; MOST],
}

/// In [`Conj::n`]: not to be compiled.
const MADE: u16 = u16::MAX;

impl Conj {
    fn new(flags: u8) -> Self {
        Self { n: 0, flags: flags.into(), all: [0; MOST] }
    }

    /// The subschemas.
    fn locs(&self) -> impl Iterator<Item = u32> + '_ {
        self.entries().iter().map(|e| e >> SHIFT)
    }

    fn entries(&self) -> &[u32] {
        if self.n == MADE { &[] } else { &self.all[..usize::from(self.n)] }
    }

    fn hash(&self) -> usize {
        let mix =
            |h: u64, word: u32| (h ^ u64::from(word)).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29);
        let hash = self.entries().iter().fold(u64::from(self.flags), |h, &e| mix(h, e));
        (hash >> 7) as u32 as usize
    }

    fn add(&mut self, loc: u32) -> Res<()> {
        if self.locs().any(|l| l == loc) {
            return Ok(());
        }
        let limit = Why::Limit { what: "subschemas that hold together", limit: MOST };
        *self.all.get_mut(usize::from(self.n)).ok_or((limit, loc))? = loc << SHIFT;
        self.n += 1;
        Ok(())
    }
}

/// Memory for compiling, free again afterwards.
pub struct Scratch<'s> {
    items: &'s mut [Item],
    conjs: &'s mut [Conj],
    chains: &'s mut [[u16; 2]],
    states: &'s mut [State],
    code: &'s mut [Instr],
    ranges: &'s mut [[u32; 2]],
    chars: &'s mut [u32],
}

impl<'s> Scratch<'s> {
    /// Takes what compiling with these limits needs.
    pub fn lay_out(space: &mut impl Space<'s>, limits: &Limits) -> Result<Self, ArenaFull> {
        let (part, most) = (Part::Grammar, usize::from(NONE - 1));
        Ok(Self {
            items: space.take(part, "schema values", limits.values)?,
            conjs: space.take(part, "schema sets", limits.nodes.min(most))?,
            chains: space.take(part, "schema sets, sorted", limits.nodes.min(most))?,
            states: space.take(part, "automaton work space", limits.states.min(most))?,
            code: space.take(part, "pattern steps", limits.pattern.min(super::regex::MOST))?,
            ranges: space.take(part, "pattern ranges", limits.pattern.saturating_mul(6))?,
            chars: space.take(part, "pattern text", limits.pattern.saturating_mul(2))?,
        })
    }
}

/// See [`Grammar::compile`].
pub(super) fn compile<'a>(
    schema: &str,
    options: &Options<'_>,
    memory: Memory<'a>,
    scratch: &mut Scratch<'_>,
) -> Result<Grammar<'a>, SchemaError> {
    let Scratch { items, conjs, chains, states, code, ranges, chars } = scratch;
    let doc = Doc::parse(schema, items).map_err(|why| SchemaError { why, at: Pointer::ROOT })?;
    let mut compiler = Compiler {
        doc,
        out: Builder::new(memory),
        conjs,
        chains,
        states,
        code,
        ranges,
        chars,
        options,
        plain: [[NONE; 2]; formats::COUNT + 2],
        never: 0,
    };
    let made = compiler.run();
    let (root, wrapped) = made.map_err(|(why, at)| SchemaError { why, at: Pointer::to(&doc, at) })?;
    Ok(Grammar { t: compiler.out.done(root, options.spacing), wrapped })
}

struct Compiler<'c, 'o, 'a> {
    doc: Doc<'c>,
    out: Builder<'a>,
    conjs: &'c mut [Conj],
    /// For a hash of sets, the last of its sets; and for a set, the one before
    /// it of the same hash.
    chains: &'c mut [[u16; 2]],
    states: &'c mut [State],
    code: &'c mut [Instr],
    ranges: &'c mut [[u32; 2]],
    chars: &'c mut [u32],
    options: &'c Options<'o>,
    /// First states of integers, numbers and formats without more ado; each
    /// also inside a string.
    plain: [[u16; 2]; formats::COUNT + 2],
    /// The first subschema that contradicts itself.
    never: u32,
}

impl<'c> Compiler<'c, '_, '_> {
    fn run(&mut self) -> Res<(u16, Option<Wrapped>)> {
        self.chains.fill([NONE; 2]);
        let mut whole = Conj::new(0);
        whole.add(0)?;
        let root = self.intern(whole, 0)?;
        let mut at = 0;
        while at < self.out.nodes.len {
            if self.conjs[at].n != MADE {
                let conj = self.conjs[at];
                self.out.nodes.all[at] = self.node(conj)?;
            }
            at += 1;
        }
        self.check_loops()?;
        self.finish();
        if self.out.nodes.all[usize::from(root)].min == u32::MAX {
            return Err(self.no_value(root));
        }
        let wrapped = self.options.wrap.as_ref().map(|w| self.wrap(w)).transpose();
        Ok((root, wrapped.map_err(|why| (why, 0))?))
    }

    fn wrap(&mut self, wrap: &Wrap<'_>) -> Result<Wrapped, Why> {
        const NO: Trig = Trig { text: Span { at: 0, len: 0 }, part: false };
        let count = wrap.triggers.len();
        if !(1..=MOST_TRIGGERS).contains(&count) {
            return Err(Why::Limit { what: "triggers, and not none", limit: MOST_TRIGGERS });
        }
        let mut triggers = [NO; MOST_TRIGGERS];
        for (slot, trigger) in triggers.iter_mut().zip(wrap.triggers) {
            if !(1..=TRIGGER_BYTES).contains(&trigger.text.len()) {
                return Err(Why::Limit { what: "bytes of a trigger, and not none", limit: TRIGGER_BYTES });
            }
            *slot = Trig { text: self.copy(trigger.text)?, part: trigger.part };
        }
        let (lead, tail) = (self.copy(wrap.lead)?, self.copy(wrap.tail)?);
        Ok(Wrapped { triggers, count, lead, tail, again: wrap.again })
    }

    fn copy(&mut self, text: &str) -> Result<Span, Why> {
        let at = self.out.bytes.len;
        self.out.push_bytes(text.as_bytes())?;
        self.out.span_from(at)
    }

    /// The node of a set, which may be new; then it is compiled later.
    fn intern(&mut self, conj: Conj, loc: u32) -> Res<u16> {
        let slot = conj.hash() % self.chains.len().max(1);
        let mut known = self.chains.get(slot).map_or(NONE, |c| c[0]);
        while known != NONE {
            if self.conjs[usize::from(known)] == conj {
                return Ok(known);
            }
            known = self.chains[usize::from(known)][1];
        }
        let id = self.out.nodes.push(Node::NEVER).map_err(|why| (why, loc))?;
        self.conjs[id] = conj;
        self.chains[id][1] = self.chains[slot][0];
        self.chains[slot][0] = id as u16;
        Ok(id as u16)
    }

    /// Adds a finished node.
    fn made(&mut self, node: Node, loc: u32) -> Res<u16> {
        let id = self.out.nodes.push(node).map_err(|why| (why, loc))?;
        self.conjs[id] = Conj { n: MADE, ..Conj::new(0) };
        Ok(id as u16)
    }

    /// Compiles a set.
    fn node(&mut self, mut conj: Conj) -> Res<Node> {
        self.expand(&mut conj)?;
        for loc in conj.locs() {
            spec::check_keywords(&self.doc, loc)?;
        }
        for (key, bit) in [("anyOf", ANY_OF), ("oneOf", ONE_OF)] {
            let split = (0..usize::from(conj.n)).find_map(|i| {
                let list = self.doc.get(conj.all[i] >> SHIFT, key)?;
                (conj.all[i] & bit == 0).then_some((i, list))
            });
            if let Some((i, list)) = split {
                conj.all[i] |= bit;
                return self.alternatives(&conj, list, bit == ONE_OF);
            }
        }
        self.plain_node(&conj)
    }

    /// A node for each alternative of `list`, the rest of `conj` with it.
    fn alternatives(&mut self, conj: &Conj, list: u32, one: bool) -> Res<Node> {
        spec::schemas(&self.doc, list)?;
        if one {
            self.check_apart(list)?;
        }
        let from = self.out.lists.len;
        for alternative in self.doc.elements(list) {
            let mut with = *conj;
            with.add(alternative)?;
            let id = self.intern(with, alternative)?;
            self.out.lists.push(id).map_err(|why| (why, alternative))?;
        }
        Ok(self.any(conj.flags as u8, from))
    }

    /// The node of the alternatives from list entry `from` on.
    fn any(&self, flags: u8, from: usize) -> Node {
        let n = (self.out.lists.len - from) as u16;
        Node { b: from as u32, n, ..Node::new(Kind::Any, flags) }
    }

    /// Adds what `$ref` and `allOf` lead to.
    fn expand(&self, conj: &mut Conj) -> Res<()> {
        let mut i = 0;
        while i < usize::from(conj.n) {
            let (loc, bits) = (conj.all[i] >> SHIFT, conj.all[i]);
            conj.all[i] |= FOLLOWED;
            i += 1;
            if bits & FOLLOWED != 0 {
                continue;
            }
            if !self.doc.is_schema(loc) {
                return Err((Why::Value { wanted: "a schema: an object, true or false" }, loc));
            }
            if let Some(name) = self.doc.get(loc, "$ref") {
                let to = self.target(loc, name)?;
                if conj.entries().iter().any(|e| e >> SHIFT == to && e & (ANY_OF | ONE_OF) != 0) {
                    return Err((Why::RefLoop, name));
                }
                conj.add(to)?;
            }
            if let Some(list) = self.doc.get(loc, "allOf") {
                spec::schemas(&self.doc, list)?;
                for part in self.doc.elements(list) {
                    conj.add(part)?;
                }
            }
        }
        Ok(())
    }

    /// Flags of a set, as nodes have them.
    fn is_inside(conj: &Conj) -> bool {
        conj.flags as u8 & INSIDE != 0
    }
}
