//! Which tokens may come next: sets of tokens, and a small cache of them.

use super::Grammar;
use super::classes::class_so_far;
use super::marks::{ALONE, Marks, Rule};
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
    marks: &'a mut [u64],
    rows: &'a mut [[u16; 256]],
    rows_of: &'a mut [[u16; 2]],
}

impl<'a> MaskMemory<'a> {
    /// Takes room for `masks` masks, at least one, of a bit for each of `vocab`
    /// tokens, and work space: 33 KB and another bit for each token.
    pub fn lay_out(space: &mut impl Space<'a>, vocab: usize, masks: usize) -> Result<Self, ArenaFull> {
        let masks = masks.max(1);
        Ok(Self {
            bits: space.take(Part::Grammar, "token masks", vocab.div_ceil(32).saturating_mul(masks))?,
            keys: space.take(Part::Grammar, "mask states", masks)?,
            used: space.take(Part::Grammar, "mask ages", masks)?,
            marks: space.take(Part::Grammar, "token marks", vocab.div_ceil(64))?,
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
        let MaskMemory { bits, keys, used, marks, rows, rows_of } = &mut self.memory;
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
            fill(matcher, trie, mask, &mut Marks(marks), &mut Rows { next: rows, of: rows_of });
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
fn fill<'m>(
    matcher: &mut Matcher<'_>,
    trie: &Trie<'_>,
    mask: &mut [u32],
    marks: &mut Marks<'m>,
    rows: &mut Rows<'m>,
) {
    let (len, pooled) = matcher.mark();
    let (grammar, mut room) = matcher.room(len, pooled);
    let mut levels = [Level::default(); LONGEST + 1];
    marks.0.fill(0);
    // What may come is what may come for one thread or another. Those that take
    // the most come first, so that the others have less to look at.
    for strings in [true, false] {
        for thread in 0..len as u16 {
            levels[0] = Level { from: thread, to: thread + 1, pooled: pooled as u16, chars: 0 };
            room.len = len;
            let mut walk = Walk {
                grammar: &grammar,
                room: &mut room,
                trie,
                levels: &mut levels,
                rows,
                marks,
                floor: len,
            };
            if strings != matches!(walk.branch_at(0, true), Branch::Any(_)) {
                continue;
            }
            walk.list(0, trie.plain, true);
            walk.list(trie.plain, trie.len(), false);
        }
    }
    // Control tokens are the model's own affair while the text is free.
    marks.spread(trie, mask, matcher.is_free());
    if matcher.can_end() {
        for &id in trie.ends() {
            if let Some(word) = mask.get_mut(id as usize / 32) {
                *word |= 1 << (id % 32);
            }
        }
    }
}

struct Walk<'w, 'r, 'm> {
    grammar: &'w Grammar<'w>,
    room: &'w mut Room<'r>,
    trie: &'w Trie<'w>,
    levels: &'w mut [Level; LONGEST + 1],
    rows: &'w mut Rows<'m>,
    marks: &'w mut Marks<'m>,
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
    /// Walks tokens `from..to` and marks those that may come. Where they are all
    /// `plain`, they do not end the string they are in, and need no more than
    /// its automaton, or not even that.
    fn list(&mut self, from: usize, to: usize, plain: bool) {
        match self.branch_at(0, true) {
            Branch::Lexeme(state) if plain => self.string(from, to, state),
            Branch::Lexeme(state) if !self.inside() => self.odd(from, to, state),
            _ => self.each(from, to, plain),
        }
    }

    /// The same, byte by byte.
    fn each(&mut self, from: usize, to: usize, plain: bool) {
        let mut i = from;
        while i < to {
            // It begins with what may come: those that do not are passed over.
            let mut live = if i == from { 0 } else { usize::from(self.trie.shared[i]) };
            let text = self.trie.text(i);
            let any = loop {
                if let Branch::Any(most) = self.branch_at(live, plain) {
                    break Some(most);
                }
                match text.get(live) {
                    Some(&b) if self.descend(live, b) => live += 1,
                    _ => break None,
                }
            };
            let end = i + 1;
            match any {
                Some(most) => {
                    let end = self.trie.past(end, to, live);
                    let most = self.levels[live].chars.saturating_add(most).min(255) as u8;
                    self.marks.judge(self.trie, i..end, &Rule::counted(most), |_| ALONE);
                    i = end;
                }
                None if live == text.len() => {
                    self.marks.set(i);
                    i = end;
                }
                None => i = self.trie.past(end, to, live + 1),
            }
        }
    }

    /// The same for plain tokens in a string that an automaton in `state` reads.
    fn string(&mut self, from: usize, to: usize, state: u16) {
        let mut i = from;
        while i < to {
            let text = self.trie.text(i);
            let (mut at, mut depth) = (state, 0);
            let rule = loop {
                // What begins with the same character, or with one of the same
                // class, is judged together.
                let runs = self.grammar.t.state(state).runs();
                if let Some(class) = class_so_far(&text[..depth])
                    && class & (runs.free | runs.wide) != 0
                {
                    break Some(Rule::of(&runs, Some(class)));
                }
                if depth > 0 && text.get(depth).is_none_or(|b| b & 0xc0 != 0x80) {
                    break Some(Rule::of(&self.grammar.t.state(at).runs(), None));
                }
                let Some(&b) = text.get(depth) else { break None };
                at = self.rows.next(self.grammar, at, b);
                depth += 1;
                if at == NONE {
                    break None;
                }
            };
            let end = self.trie.past(i + 1, to, depth);
            if let Some(rule) = rule {
                self.group(i, end, depth, at, &rule);
            }
            i = end;
        }
    }

    /// Whether the first level is within a string in a string.
    fn inside(&self) -> bool {
        let f = self.room.threads[usize::from(self.levels[0].from)];
        self.grammar.t.node(f.node).inside()
    }

    /// The same for other tokens, of which some end the string.
    fn odd(&mut self, from: usize, to: usize, state: u16) {
        let mut states = [NONE; LONGEST + 1];
        states[0] = state;
        let (mut i, mut live) = (from, 0);
        while i < to {
            let text = self.trie.text(i);
            live = if i == from { 0 } else { live.min(usize::from(self.trie.shared[i])) };
            while let Some(&b) = text.get(live) {
                let next = self.rows.next(self.grammar, states[live], b);
                if next == NONE || self.grammar.t.state(next).accepts() {
                    break;
                }
                live += 1;
                states[live] = next;
            }
            let end = self.trie.past(i + 1, to, live + 1);
            if live == text.len() {
                self.marks.set(i);
                i += 1;
            } else {
                // What begins so ends the string, or may not come at all.
                if self.rows.next(self.grammar, states[live], text[live]) != NONE {
                    self.each(i, end, false);
                }
                i = end;
            }
        }
    }

    /// Judges tokens `from..to`, which share `depth` bytes that lead to `state`.
    fn group(&mut self, from: usize, to: usize, depth: usize, state: u16, rule: &Rule) {
        let (trie, grammar) = (self.trie, self.grammar);
        let rows = &mut *self.rows;
        // For the bytes of the last token looked at: where the automaton stands.
        let mut states = [NONE; LONGEST + 1];
        states[depth] = state;
        let (mut live, mut last) = (depth, usize::MAX);
        self.marks.judge(trie, from..to, rule, |i| {
            let text = trie.text(i);
            if live > depth {
                let same =
                    if last + 1 == i { usize::from(trie.shared[i]) } else { shared(trie.text(last), text) };
                live = live.min(same);
            }
            last = i;
            loop {
                let here = states[live];
                // Most characters leave the state as it is. While they do, where
                // one leads need not be known before the next is looked at.
                if let Some(row) = rows.row(here) {
                    while let Some(&b) = text.get(live)
                        && row[usize::from(b)] == here
                    {
                        live += 1;
                        states[live] = here;
                    }
                }
                let &b = text.get(live)?;
                let next = rows.next(grammar, here, b);
                if next == NONE {
                    return Some(trie.past(i + 1, to, live + 1));
                }
                live += 1;
                states[live] = next;
            }
        });
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

/// Bytes that two texts begin with alike.
fn shared(a: &[u8], b: &[u8]) -> usize {
    a.iter().zip(b).take_while(|(a, b)| a == b).count()
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
    /// Where bytes lead from `state`, where that is kept.
    fn row(&self, state: u16) -> Option<&[u16; 256]> {
        let slot = usize::from(state) % ROWS;
        self.of.get(slot).filter(|of| of[0] == state).and_then(|_| self.next.get(slot))
    }

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
            Kind::Str => {
                let left = node.c.checked_sub(f.count())?.checked_sub(begun.into())?;
                // More than any token has, and not without end.
                Some(left.min(u32::from(NONE) - 1) as u16)
            }
            Kind::Object if f.phase == FREE_KEY => Some(NONE),
            _ => None,
        }
    }
}
