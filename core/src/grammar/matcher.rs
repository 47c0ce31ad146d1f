//! A text under way: what has come, what may come, how it can end.

use core::fmt;
use core::ops::Range;

use super::Grammar;
use super::program::{Limits, NONE};
use super::step::{DONE, FREE, Frame, LOOK, ROOT, Room};
use crate::arena::{ArenaFull, Space};
use crate::plan::Part;

/// Most bytes of a token that a mask looks at.
pub(super) const LONGEST: usize = 255;

/// A matcher's buffers.
pub struct Stacks<'a> {
    pool: &'a mut [Frame],
    remap: &'a mut [u16],
    threads: &'a mut [Frame],
    most: usize,
}

impl<'a> Stacks<'a> {
    /// Takes 18 bytes for each level of nesting and 16 for each alternative
    /// that `limits` allow, and some 30 KB of work space.
    pub fn lay_out(space: &mut impl Space<'a>, limits: &Limits) -> Result<Self, ArenaFull> {
        let most = limits.threads.clamp(1, 1000);
        let depth = limits.depth.min(250);
        // Alternatives share what is around them; a token's bytes add to both.
        let pool = (depth + 2) * 4 + 4 * most + 2 * LONGEST;
        let threads = 2 * most + 4 * LONGEST;
        Ok(Self {
            pool: space.take(Part::Grammar, "grammar stacks", pool)?,
            remap: space.take(Part::Grammar, "grammar stack moves", pool)?,
            threads: space.take(Part::Grammar, "grammar threads", threads)?,
            most,
        })
    }
}

/// A text being matched against a grammar.
///
/// All it keeps is where the text stands: some bytes for each open bracket and
/// for each way that what has come can be read. Every state that it reaches can
/// still be completed.
pub struct Matcher<'a> {
    grammar: Grammar<'a>,
    pool: &'a mut [Frame],
    remap: &'a mut [u16],
    threads: &'a mut [Frame],
    most: usize,
    pooled: usize,
    /// Threads in force are the first `len`; the rest is work space.
    len: usize,
}

/// The text cannot be ended in the room given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoEnd {
    /// Bytes that the shortest end takes.
    pub need: usize,
    /// Bytes of room.
    pub have: usize,
}

impl fmt::Display for NoEnd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ending the text takes {} bytes but there is room for {}", self.need, self.have)
    }
}

impl core::error::Error for NoEnd {}

impl<'a> Matcher<'a> {
    /// A matcher at the start of a text. `None` where the buffers come from a
    /// measuring space.
    pub fn new(grammar: Grammar<'a>, stacks: Stacks<'a>) -> Option<Self> {
        let Stacks { pool, remap, threads, most } = stacks;
        let mut matcher = Self { grammar, pool, remap, threads, most, pooled: 0, len: 0 };
        if matcher.threads.is_empty() {
            return None;
        }
        matcher.restart();
        Some(matcher)
    }

    /// Goes back to the start.
    pub fn restart(&mut self) {
        let first = if self.grammar.wrapped.is_some() { FREE } else { ROOT };
        self.threads[0] = Frame::new(first, NONE, 0);
        (self.len, self.pooled) = (1, 0);
    }

    /// Begins a text of another grammar.
    pub fn restart_with(&mut self, grammar: Grammar<'a>) {
        self.grammar = grammar;
        self.restart();
    }

    /// The grammar in force.
    pub fn grammar(&self) -> &Grammar<'a> {
        &self.grammar
    }

    /// The work space, with the threads that `range` names in it.
    pub(super) fn room(&mut self, at: usize, pooled: usize) -> (Grammar<'a>, Room<'_>) {
        let room =
            Room { pool: self.pool, pooled, threads: self.threads, from: at, len: at, most: self.most };
        (self.grammar, room)
    }

    /// Threads in force and pool entries in use.
    pub(super) fn mark(&self) -> (usize, usize) {
        (self.len, self.pooled)
    }

    pub(super) fn threads(&self) -> &[Frame] {
        &self.threads[..self.len]
    }

    /// Takes byte `b`, or refuses it and stays as it was.
    pub fn advance(&mut self, b: u8) -> bool {
        let (len, pooled) = self.mark();
        let (grammar, mut room) = self.room(len, pooled);
        let new = grammar.step_all(&mut room, 0..len, b);
        let pooled = room.pooled;
        if new.is_empty() {
            return false;
        }
        self.commit(new, pooled);
        true
    }

    /// Takes all of `bytes`, or refuses them and stays as it was.
    pub fn advance_all(&mut self, bytes: impl IntoIterator<Item = u8>) -> bool {
        let (len, pooled) = self.mark();
        let (grammar, mut room) = self.room(len, pooled);
        let mut at = 0..len;
        for b in bytes {
            at = grammar.step_on(&mut room, at, len, b);
            if at.is_empty() {
                return false;
            }
        }
        let pooled = room.pooled;
        self.commit(at, pooled);
        true
    }

    /// Whether `bytes` may come next.
    pub fn accepts(&mut self, bytes: impl IntoIterator<Item = u8>) -> bool {
        let (len, pooled) = self.mark();
        let (grammar, mut room) = self.room(len, pooled);
        let mut at = 0..len;
        bytes.into_iter().all(|b| {
            at = grammar.step_on(&mut room, at.clone(), len, b);
            !at.is_empty()
        })
    }

    /// Puts threads in force, and drops pool entries that none needs.
    fn commit(&mut self, new: Range<usize>, pooled: usize) {
        self.len = new.len();
        self.threads.copy_within(new, 0);
        let remap = &mut self.remap[..pooled];
        remap.fill(0);
        for thread in &self.threads[..self.len] {
            let mut at = thread.parent;
            while at != NONE && remap[usize::from(at)] == 0 {
                remap[usize::from(at)] = 1;
                at = self.pool[usize::from(at)].parent;
            }
        }
        // Parents come before their children, so that moves are known in time.
        let moved = |remap: &[u16], at: u16| if at == NONE { NONE } else { remap[usize::from(at)] };
        let mut kept = 0;
        for i in 0..pooled {
            if remap[i] == 1 {
                let frame = self.pool[i];
                self.pool[kept] = Frame { parent: moved(remap, frame.parent), ..frame };
                remap[i] = kept as u16;
                kept += 1;
            }
        }
        for thread in &mut self.threads[..self.len] {
            thread.parent = moved(remap, thread.parent);
        }
        self.pooled = kept;
    }

    /// Whether the text may end here.
    pub fn can_end(&self) -> bool {
        self.threads().iter().any(|f| self.grammar.ends(f))
    }

    /// Whether the text must end here: nothing may follow.
    pub fn is_complete(&self) -> bool {
        self.threads().iter().all(|f| f.node == DONE)
    }

    /// Whether the text is free of the grammar: a trigger has not come yet, or
    /// the last value has ended.
    pub fn is_free(&self) -> bool {
        self.threads().iter().all(|f| f.node == FREE && f.phase == LOOK)
    }

    /// Fewest bytes after which the text may end; 0 where it may end here.
    pub fn min_left(&mut self) -> usize {
        let (len, pooled) = self.mark();
        let (grammar, mut room) = self.room(len, pooled);
        grammar.least_left(&mut room, 0..len)
    }

    /// Ends the text: takes the shortest bytes that complete it, writes them to
    /// `out` and returns how many. Where there is no room nothing changes.
    ///
    /// Costs some microseconds a byte.
    pub fn close(&mut self, out: &mut [u8]) -> Result<usize, NoEnd> {
        let need = self.min_left();
        if need > out.len() {
            return Err(NoEnd { need, have: out.len() });
        }
        let n = self.close_some(out);
        if self.can_end() { Ok(n) } else { Err(NoEnd { need: n + self.min_left(), have: out.len() }) }
    }

    /// Takes the next bytes of the shortest end, as many as fit; returns how
    /// many.
    pub(super) fn close_some(&mut self, out: &mut [u8]) -> usize {
        let mut n = 0;
        while !self.can_end()
            && let Some(slot) = out.get_mut(n)
            && let Some(b) = self.nearer()
        {
            *slot = b;
            n += 1;
            self.advance(b);
        }
        n
    }

    /// Whether the text may end after `text`, which may come.
    pub(super) fn ends_after(&mut self, text: &[u8]) -> bool {
        let (len, pooled) = self.mark();
        let (grammar, mut room) = self.room(len, pooled);
        let at = text.iter().fold(0..len, |at, &b| grammar.step_on(&mut room, at, len, b));
        room.threads[at].iter().any(|f| grammar.ends(f))
    }

    /// Whether after `text`, which may come, one of `more` may.
    pub(super) fn any_after<B: Iterator<Item = u8>>(
        &mut self,
        text: &[u8],
        more: &mut impl Iterator<Item = B>,
    ) -> bool {
        let (len, pooled) = self.mark();
        let (grammar, mut room) = self.room(len, pooled);
        let at = text.iter().fold(0..len, |at, &b| grammar.step_on(&mut room, at, len, b));
        let (floor, pooled) = (at.end, room.pooled);
        more.any(|mut bytes| {
            (room.len, room.pooled) = (floor, pooled);
            let mut next = at.clone();
            bytes.all(|b| {
                next = grammar.step_on(&mut room, next.clone(), floor, b);
                !next.is_empty()
            })
        })
    }

    /// The byte that leads nearest to the end.
    fn nearer(&mut self) -> Option<u8> {
        let goal = self.min_left().saturating_sub(1);
        let (len, pooled) = self.mark();
        let (grammar, mut room) = self.room(len, pooled);
        let mut best = (usize::MAX, None);
        for b in 0..=255 {
            let new = grammar.step_all(&mut room, 0..len, b);
            let left = grammar.least_left(&mut room, new);
            (room.len, room.pooled) = (len, pooled);
            if left < best.0 {
                best = (left, Some(b));
            }
            if left <= goal {
                break;
            }
        }
        best.1
    }

    /// Writes to `out` the bytes that must come next, as far as only one byte
    /// can follow each time and the text may not end; returns how many. Takes
    /// none of them.
    pub fn forced(&mut self, out: &mut [u8]) -> usize {
        let (len, pooled) = self.mark();
        let (grammar, mut room) = self.room(len, pooled);
        let (mut at, mut n) = (0..len, 0);
        while n < out.len() {
            let Some(b) = grammar.only(&mut room, at.clone()) else { break };
            at = grammar.step_on(&mut room, at, len, b);
            out[n] = b;
            n += 1;
        }
        n
    }

    /// A number that tells states apart: equal states have equal numbers.
    pub(super) fn hash(&self) -> u64 {
        let mut hash = 0xcbf2_9ce4_8422_2325u64;
        let mut add =
            |word: u16| hash = (hash ^ u64::from(word)).wrapping_mul(0x0000_0100_0000_01b3).rotate_left(23);
        for thread in self.threads() {
            let mut next = Some(*thread);
            while let Some(f) = next {
                f.words().into_iter().for_each(&mut add);
                next = self.pool.get(usize::from(f.parent)).copied().filter(|_| f.parent != NONE);
            }
            add(NONE);
        }
        hash
    }
}

impl Grammar<'_> {
    /// Takes byte `b` from all threads of `at`; returns the new ones, which
    /// come after.
    pub(super) fn step_all(&self, room: &mut Room<'_>, at: Range<usize>, b: u8) -> Range<usize> {
        room.from = room.len;
        for i in at {
            let frame = room.threads[i];
            self.step(room, frame, b);
        }
        room.from..room.len
    }

    /// The same, and moves the new threads down to `floor`, so that work space
    /// is not used up.
    pub(super) fn step_on(&self, room: &mut Room<'_>, at: Range<usize>, floor: usize, b: u8) -> Range<usize> {
        let new = self.step_all(room, at, b);
        let n = new.len();
        room.threads.copy_within(new, floor);
        room.len = floor + n;
        floor..floor + n
    }

    /// Whether the text may end at this thread.
    pub(super) fn ends(&self, f: &Frame) -> bool {
        match f.node {
            DONE => true,
            FREE => f.phase == LOOK,
            ROOT => false,
            // A number that could go on, with nothing around it.
            _ => f.parent == NONE && self.has_ended(f),
        }
    }

    /// Whether the node of `f` has all it needs.
    fn has_ended(&self, f: &Frame) -> bool {
        let node = self.t.node(f.node);
        match node.kind() {
            super::program::Kind::Lexeme => self.t.state(f.at).accepts(),
            super::program::Kind::Texts => self.text_of(&node, f.low).len() == usize::from(f.at),
            _ => false,
        }
    }

    fn least_left(&self, room: &mut Room<'_>, at: Range<usize>) -> usize {
        let mut best = u32::MAX;
        for i in at {
            let frame = room.threads[i];
            best = best.min(self.left(room, frame));
        }
        best as usize
    }

    /// The one byte that may follow, where there is just one and the text may
    /// not end.
    fn only(&self, room: &mut Room<'_>, at: Range<usize>) -> Option<u8> {
        if room.threads[at.clone()].iter().any(|f| self.ends(f)) {
            return None;
        }
        let (len, pooled) = (room.len, room.pooled);
        let mut found = None;
        for b in 0..=255 {
            let any = !self.step_all(room, at.clone(), b).is_empty();
            (room.len, room.pooled) = (len, pooled);
            if any && found.replace(b).is_some() {
                return None;
            }
        }
        found
    }
}
