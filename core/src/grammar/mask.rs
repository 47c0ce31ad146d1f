//! Which tokens may come next: sets of tokens, and a small cache of them.

use super::Grammar;
use super::matcher::{LONGEST, Matcher};
use super::program::{Kind, NONE};
use super::step::{FREE_KEY, Frame, PENDING, Room};
use super::text::BODY;
use super::trie::Trie;
use crate::arena::{ArenaFull, Space};
use crate::plan::Part;

/// Memory for masks.
pub struct MaskMemory<'a> {
    bits: &'a mut [u32],
    keys: &'a mut [u64],
    used: &'a mut [u32],
}

impl<'a> MaskMemory<'a> {
    /// Takes room for `masks` masks, at least one, of a bit for each of `vocab`
    /// tokens.
    pub fn lay_out(space: &mut impl Space<'a>, vocab: usize, masks: usize) -> Result<Self, ArenaFull> {
        let masks = masks.max(1);
        Ok(Self {
            bits: space.take(Part::Grammar, "token masks", vocab.div_ceil(32).saturating_mul(masks))?,
            keys: space.take(Part::Grammar, "mask states", masks)?,
            used: space.take(Part::Grammar, "mask ages", masks)?,
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
        let MaskMemory { bits, keys, used } = &mut self.memory;
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
            fill(matcher, trie, mask);
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
fn fill(matcher: &mut Matcher<'_>, trie: &Trie<'_>, mask: &mut [u32]) {
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
    levels[0] = Level { from: 0, to: len as u16, pooled: pooled as u16, chars: 0 };
    let mut walk = Walk { grammar: &grammar, room: &mut room, trie, levels: &mut levels };
    walk.list(0, trie.plain, true, |id| set(mask, id));
    walk.list(trie.plain, trie.len(), false, |id| set(mask, id));
}

struct Walk<'w, 'r> {
    grammar: &'w Grammar<'w>,
    room: &'w mut Room<'r>,
    trie: &'w Trie<'w>,
    levels: &'w mut [Level; LONGEST + 1],
}

impl Walk<'_, '_> {
    /// Walks tokens `from..to` and hands on those that may come. Where they are
    /// all `plain`, a string that may go on lets the rest of a branch pass
    /// without a look at its bytes.
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
            let mut room_left = if plain { self.chars_left(live) } else { None };
            for &b in added {
                if room_left.is_some() || !self.descend(live, b) {
                    break;
                }
                live += 1;
                room_left = if plain { self.chars_left(live) } else { None };
            }
            if let Some(most) = room_left {
                i = self.branch(i, to, live, most, &mut set);
                continue;
            }
            if live == shared + added.len() {
                set(self.trie.ids[i]);
            }
            i += 1;
        }
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
        (self.room.len, self.room.pooled) = (usize::from(level.to), usize::from(level.pooled));
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

    /// Characters that the string at this level may still take, where there is
    /// one and it takes any.
    fn chars_left(&self, depth: usize) -> Option<u16> {
        let level = self.levels[depth];
        if level.to - level.from != 1 {
            return None;
        }
        self.grammar.chars_left(&self.room.threads[usize::from(level.from)])
    }
}

impl Grammar<'_> {
    /// Plain characters that may come at a thread, where any may.
    fn chars_left(&self, f: &Frame) -> Option<u16> {
        if f.at != BODY || f.phase & PENDING != 0 {
            return None;
        }
        let node = self.t.node(f.node);
        match node.kind() {
            Kind::Str if node.c == u32::MAX => Some(NONE),
            Kind::Str => Some((node.c as u16).saturating_sub(f.count)),
            Kind::Object if f.phase == FREE_KEY => Some(NONE),
            _ => None,
        }
    }
}
