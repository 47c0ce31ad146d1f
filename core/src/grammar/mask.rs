//! Which tokens may come next: sets of tokens, and a small cache of them.

use super::Grammar;
use super::dfa::ANY;
use super::matcher::{LONGEST, Matcher};
use super::program::{Kind, NONE};
use super::step::{FREE_KEY, Frame, PENDING, Room};
use super::text::{BODY, LAST_CONT};
use super::trie::Trie;
use crate::arena::{ArenaFull, Space};
use crate::plan::Part;

/// Memory for masks.
pub struct MaskMemory<'a> {
    bits: &'a mut [u32],
    keys: &'a mut [u64],
    used: &'a mut [u32],
    rows: &'a mut [[u16; 256]],
    rows_of: &'a mut [[u16; 2]],
}

impl<'a> MaskMemory<'a> {
    /// Takes room for `masks` masks, at least one, of a bit for each of `vocab`
    /// tokens, and 33 KB of work space.
    pub fn lay_out(space: &mut impl Space<'a>, vocab: usize, masks: usize) -> Result<Self, ArenaFull> {
        let masks = masks.max(1);
        Ok(Self {
            bits: space.take(Part::Grammar, "token masks", vocab.div_ceil(32).saturating_mul(masks))?,
            keys: space.take(Part::Grammar, "mask states", masks)?,
            used: space.take(Part::Grammar, "mask ages", masks)?,
            rows: space.take(Part::Grammar, "automaton rows", ROWS)?,
            rows_of: space.take(Part::Grammar, "automaton rows, whose", ROWS)?,
        })
    }
}

/// The last masks, by the state they belong to.
pub(super) struct Masks<'a> {
    memory: MaskMemory<'a>,
    clock: u32,
    /// Masks made, and found made.
    pub(super) made: u32,
    pub(super) found: u32,
}

impl<'a> Masks<'a> {
    pub(super) fn new(memory: MaskMemory<'a>) -> Self {
        let mut masks = Self { memory, clock: 0, made: 0, found: 0 };
        masks.clear();
        masks
    }

    pub(super) fn clear(&mut self) {
        self.memory.used.fill(0);
        self.clock = 0;
    }

    /// The mask of the matcher's state.
    pub(super) fn of(&mut self, matcher: &mut Matcher<'_>, trie: &Trie<'_>) -> &[u32] {
        let MaskMemory { bits, keys, used, rows, rows_of } = &mut self.memory;
        let words = bits.len() / keys.len().max(1);
        let key = matcher.hash();
        self.clock = self.clock.saturating_add(1);
        let known = (0..keys.len()).find(|&i| used[i] != 0 && keys[i] == key);
        let oldest = (0..keys.len()).min_by_key(|&i| used[i]).unwrap_or(0);
        let at = known.unwrap_or(oldest);
        let Some(mask) = bits.get_mut(at * words..(at + 1) * words) else { return &[] };
        if known.is_some() {
            self.found = self.found.saturating_add(1);
        } else {
            self.made = self.made.saturating_add(1);
            rows_of.fill([NONE, 0]);
            fill(matcher, trie, mask, &mut Rows { next: rows, of: rows_of });
            keys[at] = key;
        }
        used[at] = self.clock;
        mask
    }
}

/// Work done at a depth of the walk.
#[derive(Clone, Copy, Default)]
struct Level {
    from: u16,
    to: u16,
    pooled: u16,
    /// Characters so far, where they are plain.
    chars: u16,
}

/// Sets the bits of the tokens that may come next, and no others.
fn fill(matcher: &mut Matcher<'_>, trie: &Trie<'_>, mask: &mut [u32], rows: &mut Rows<'_>) {
    mask.fill(0);
    let set = |mask: &mut [u32], id: u32| {
        if let Some(word) = mask.get_mut(id as usize / 32) {
            *word |= 1 << (id % 32);
        }
    };
    if matcher.is_free() {
        // Control tokens are the model's own affair while the text is free.
        mask.fill(u32::MAX);
        trie.ids.iter().for_each(|&id| {
            if let Some(word) = mask.get_mut(id as usize / 32) {
                *word &= !(1 << (id % 32));
            }
        });
    }
    if matcher.can_end() {
        trie.ends().iter().for_each(|&id| set(mask, id));
    }
    let (len, pooled) = matcher.mark();
    let (grammar, mut room) = matcher.room(len, pooled);
    let mut levels = [Level::default(); LONGEST + 1];
    // What may come is what may come for one thread or another.
    for thread in 0..len as u16 {
        levels[0] = Level { from: thread, to: thread + 1, pooled: pooled as u16, chars: 0 };
        room.len = len;
        let mut walk =
            Walk { grammar: &grammar, room: &mut room, trie, levels: &mut levels, rows, floor: len };
        walk.list(0, trie.plain, true, |id| set(mask, id));
        walk.list(trie.plain, trie.len(), false, |id| set(mask, id));
    }
}

struct Walk<'w, 'r, 'm> {
    grammar: &'w Grammar<'w>,
    room: &'w mut Room<'r>,
    trie: &'w Trie<'w>,
    levels: &'w mut [Level; LONGEST + 1],
    rows: &'w mut Rows<'m>,
    /// The first thread of the work space.
    floor: usize,
}

/// What the tokens that begin alike have in common.
enum Branch {
    /// Nothing: look at each byte.
    Each,
    /// A string that takes so many more characters, whichever.
    Any(u16),
    /// A string that an automaton in this state reads.
    Lexeme(u16),
}

impl Walk<'_, '_, '_> {
    /// Walks tokens `from..to` and hands on those that may come. Where they are
    /// all `plain`, they do not end the string they are in, and need no more
    /// than its automaton, or not even that.
    fn list(&mut self, from: usize, to: usize, plain: bool, mut set: impl FnMut(u32)) {
        let mut i = from;
        // Bytes of the token before that may come: the levels in force.
        let mut live = 0;
        while i < to {
            let shared = if i == from { 0 } else { usize::from(self.trie.shared[i]) };
            if shared > live {
                // It begins with what may not come.
                i += 1;
                continue;
            }
            live = shared;
            let added = self.trie.added(i);
            let mut branch = self.branch_at(live, plain);
            for &b in added {
                if !matches!(branch, Branch::Each) || !self.descend(live, b) {
                    break;
                }
                live += 1;
                branch = self.branch_at(live, plain);
            }
            match branch {
                Branch::Any(most) => i = self.branch(i, to, live, most, &mut set),
                Branch::Lexeme(state) => i = self.lexemes(i, to, live, shared, state, &mut set),
                Branch::Each => {
                    if live == shared + added.len() {
                        set(self.trie.ids[i]);
                    }
                    i += 1;
                }
            }
        }
    }

    /// The same for tokens from `i` on that share `depth` bytes and are within
    /// a string that an automaton reads; returns where they end. `shared` is
    /// what the first of them shares with the one before it.
    fn lexemes(
        &mut self,
        mut i: usize,
        to: usize,
        depth: usize,
        shared: usize,
        state: u16,
        set: &mut impl FnMut(u32),
    ) -> usize {
        // For each byte of the token at hand: where the automaton stands, how
        // many characters have begun, and the byte.
        let mut states = [NONE; LONGEST + 1];
        let mut chars = [0u8; LONGEST + 1];
        let mut bytes = [0u8; LONGEST + 1];
        states[depth] = state;
        chars[depth] = self.levels[depth].chars.min(255) as u8;
        let (mut live, mut dead, begin) = (depth, false, i);
        while i < to {
            let (from, added) = if i == begin {
                (depth, &self.trie.added(i)[depth - shared..])
            } else {
                (usize::from(self.trie.shared[i]), self.trie.added(i))
            };
            if from < depth {
                break;
            }
            i += 1;
            if from <= live {
                (live, dead) = (from, false);
            } else if dead {
                continue;
            }
            // Before the first byte the text may be within a character.
            let sure = if live == 0 { 0 } else { self.grammar.t.state(states[live]).sure };
            // One more, should a character be half done.
            let due = self.trie.chars[i - 1].saturating_sub(chars[live]).saturating_add(1);
            if sure == ANY {
                set(self.trie.ids[i - 1]);
                continue;
            }
            let end = from + added.len();
            bytes[from..end].copy_from_slice(added);
            if due <= sure {
                set(self.trie.ids[i - 1]);
                continue;
            }
            while live < end {
                let q = self.rows.next(self.grammar, states[live], bytes[live]);
                if q == NONE {
                    dead = true;
                    break;
                }
                chars[live + 1] = chars[live] + u8::from(bytes[live] & 0xc0 != 0x80);
                live += 1;
                states[live] = q;
            }
            if live == end {
                set(self.trie.ids[i - 1]);
            }
        }
        i
    }

    /// Hands on the tokens from `i` on that share `depth` bytes and have no more
    /// than `most` further characters; returns where they end.
    fn branch(&self, mut i: usize, to: usize, depth: usize, most: u16, set: &mut impl FnMut(u32)) -> usize {
        let chars = self.levels[depth].chars.saturating_add(most);
        let begin = i;
        while i < to && (i == begin || usize::from(self.trie.shared[i]) >= depth) {
            if u16::from(self.trie.chars[i]) <= chars {
                set(self.trie.ids[i]);
            }
            i += 1;
        }
        i
    }

    /// Takes byte `b` at a level; whether it may come.
    fn descend(&mut self, depth: usize, b: u8) -> bool {
        let level = self.levels[depth];
        (self.room.len, self.room.pooled) =
            (usize::from(level.to).max(self.floor), usize::from(level.pooled));
        let new = self.grammar.step_all(self.room, usize::from(level.from)..usize::from(level.to), b);
        let Some(next) = self.levels.get_mut(depth + 1).filter(|_| !new.is_empty()) else { return false };
        let char = u16::from(b & 0xc0 != 0x80);
        *next = Level {
            from: new.start as u16,
            to: new.end as u16,
            pooled: self.room.pooled as u16,
            chars: level.chars + char,
        };
        true
    }

    /// What can be said of all plain tokens that come this far.
    fn branch_at(&self, depth: usize, plain: bool) -> Branch {
        let level = self.levels[depth];
        if !plain || level.to - level.from != 1 {
            return Branch::Each;
        }
        let f = self.room.threads[usize::from(level.from)];
        if let Some(state) = self.grammar.string_state(&f) {
            return Branch::Lexeme(state);
        }
        self.grammar.chars_left(&f, depth).map_or(Branch::Each, Branch::Any)
    }
}

/// States whose next ones are kept side by side.
const ROWS: usize = 64;

/// How often a state must come up for that.
const WORTH: u16 = 32;

/// Where bytes lead from the states that come up most.
struct Rows<'m> {
    next: &'m mut [[u16; 256]],
    /// Whose row it is, and how often it was another's that was wanted.
    of: &'m mut [[u16; 2]],
}

impl Rows<'_> {
    /// Where `b` leads from `state`; `NONE` where it may not come.
    fn next(&mut self, grammar: &Grammar<'_>, state: u16, b: u8) -> u16 {
        let slot = usize::from(state) % ROWS;
        let (Some(of), Some(row)) = (self.of.get_mut(slot), self.next.get_mut(slot)) else {
            return grammar.t.arc(state, b).unwrap_or(NONE);
        };
        if of[0] == state {
            return row[usize::from(b)];
        }
        of[1] += 1;
        if of[1] > WORTH {
            *of = [state, 0];
            row.fill(NONE);
            grammar
                .t
                .arcs_of(state)
                .iter()
                .for_each(|a| row[usize::from(a.low)..=usize::from(a.high)].fill(a.to));
        }
        grammar.t.arc(state, b).unwrap_or(NONE)
    }
}

impl Grammar<'_> {
    /// The state of the automaton that reads the string which `f` is in. Only
    /// a quote ends such a string, and none is in a plain token.
    fn string_state(&self, f: &Frame) -> Option<u16> {
        let node = self.t.node(f.node);
        let reads = node.kind() == Kind::Lexeme && f.phase & PENDING == 0;
        (reads && self.t.arc(node.a, b'"').is_some()).then_some(f.at)
    }

    /// Plain characters that may come at a thread, where any may.
    fn chars_left(&self, f: &Frame, depth: usize) -> Option<u16> {
        // A token of whole characters ends the one that it has begun.
        let begun = f.at != BODY;
        if begun && (depth == 0 || f.at > LAST_CONT) || f.phase & PENDING != 0 {
            return None;
        }
        let node = self.t.node(f.node);
        match node.kind() {
            Kind::Str if node.c == u32::MAX => Some(NONE),
            Kind::Str => (node.c as u16).checked_sub(f.count)?.checked_sub(begun.into()),
            Kind::Object if f.phase == FREE_KEY => Some(NONE),
            _ => None,
        }
    }
}
