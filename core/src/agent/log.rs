//! A conversation kept in a buffer of fixed size.
//!
//! Turns lie one after another, each with a head: a kind and three lengths as
//! little-endian u32, then the bytes of its id, name and text. Turns may be put
//! in between, which moves those behind: results come in any order.

use core::fmt;
use core::ops::Range;

use super::cut::Cut;
use crate::Name;
use crate::arena::{ArenaFull, Space};
use crate::chat::{Call, CallResult, Turn, Turns};
use crate::plan::Part;

#[cfg(test)]
mod tests;

/// Bytes of a turn besides its texts.
pub(super) const HEAD: usize = 13;

/// Results up to this length are not shortened after the fact.
const SHORT: usize = 200;

const SYSTEM: u8 = 0;
const USER: u8 = 1;
const ASSISTANT: u8 = 2;
const CALL: u8 = 3;
const RESULT: u8 = 4;

/// Turns in a buffer.
pub struct Log<'a> {
    bytes: &'a mut [u8],
    len: usize,
    seed: u32,
    made: u32,
}

/// The name of a call made here: `call_` and eight hexadecimal digits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CallId([u8; CallId::LEN]);

impl CallId {
    /// Bytes.
    pub const LEN: usize = 13;

    /// Of no call.
    pub(super) const NONE: Self = Self(*b"call_        ");

    fn new(number: u32) -> Self {
        let mut id = *b"call_00000000";
        for (i, digit) in id[5..].iter_mut().enumerate() {
            *digit = b"0123456789abcdef"[(number >> (28 - 4 * i)) as usize & 15];
        }
        Self(id)
    }

    /// Its text.
    pub fn as_str(&self) -> &str {
        core::str::from_utf8(&self.0).unwrap_or("")
    }
}

impl fmt::Display for CallId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A turn does not fit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogFull {
    /// Bytes that it takes.
    pub need: usize,
    /// Bytes that are free.
    pub have: usize,
}

impl fmt::Display for LogFull {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "the conversation needs {} bytes more but {} are free: shorten it or give it more memory",
            self.need, self.have
        )
    }
}

impl core::error::Error for LogFull {}

/// The head of a turn.
#[derive(Clone, Copy)]
struct Head {
    kind: u8,
    id: usize,
    name: usize,
    text: usize,
}

impl Head {
    /// `None` where the lengths do not fit their fields.
    fn write(&self) -> Option<[u8; HEAD]> {
        let mut bytes = [self.kind; HEAD];
        for (i, n) in [self.id, self.name, self.text].into_iter().enumerate() {
            bytes[1 + 4 * i..5 + 4 * i].copy_from_slice(&u32::try_from(n).ok()?.to_le_bytes());
        }
        Some(bytes)
    }

    /// Bytes of the turn; the whole range where there are too many to count.
    fn size(&self) -> usize {
        HEAD.saturating_add(self.id).saturating_add(self.name).saturating_add(self.text)
    }
}

impl<'a> Log<'a> {
    /// Takes `bytes` bytes for a conversation. A turn takes [`Log::turn_bytes`].
    ///
    /// `seed` chooses the ids of calls: logs with different seeds seldom make
    /// the same.
    pub fn lay_out(space: &mut impl Space<'a>, bytes: usize, seed: u32) -> Result<Self, ArenaFull> {
        Ok(Self::new(space.take(Part::Scratch, "conversation", bytes)?, seed))
    }

    /// An empty conversation in `memory`; see [`Log::lay_out`].
    pub fn new(memory: &'a mut [u8], seed: u32) -> Self {
        Self { bytes: memory, len: 0, seed, made: 0 }
    }

    /// Bytes that a turn takes whose texts (id, name, content) are `texts` bytes
    /// together.
    pub const fn turn_bytes(texts: usize) -> usize {
        HEAD.saturating_add(texts)
    }

    /// Bytes in use.
    pub fn used(&self) -> usize {
        self.len
    }

    /// Bytes that are free.
    pub fn free(&self) -> usize {
        self.bytes.len() - self.len
    }

    /// Bytes in all.
    pub fn capacity(&self) -> usize {
        self.bytes.len()
    }

    /// Whether there are no turns.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The turns in order.
    pub fn turns(&self) -> impl Iterator<Item = Turn<'_>> {
        let mut at = 0;
        core::iter::from_fn(move || {
            let turn = self.turn(at)?;
            at = self.next(at)?;
            Some(turn)
        })
    }

    /// Says what the model is to be; replaces what was said before. Empty text
    /// takes it away.
    pub fn set_system(&mut self, text: &str) -> Result<(), LogFull> {
        let (old, head) = (self.start(), Head { kind: SYSTEM, id: 0, name: 0, text: text.len() });
        let need = if text.is_empty() { 0 } else { head.size() };
        if need > self.free() + old {
            return Err(LogFull { need, have: self.free() + old });
        }
        self.remove(0..old);
        if text.is_empty() { Ok(()) } else { self.insert(0, SYSTEM, "", "", &[text]) }
    }

    /// Adds a turn. [`Turn::System`] is [`Log::set_system`], wherever it comes.
    pub fn push(&mut self, turn: Turn<'_>) -> Result<(), LogFull> {
        let end = self.len;
        match turn {
            Turn::System(text) => self.set_system(text),
            Turn::User(text) => self.insert(end, USER, "", "", &[text]),
            Turn::Assistant(text) => self.insert(end, ASSISTANT, "", "", &[text]),
            Turn::Call(c) => self.insert(end, CALL, c.id, c.name, &[c.arguments]),
            Turn::Result(r) => self.insert(end, RESULT, r.id, r.name, &[r.content]),
        }
    }

    /// Adds a call under an id of its own.
    pub fn push_call(&mut self, name: &str, arguments: &str) -> Result<CallId, LogFull> {
        let need = Self::turn_bytes(CallId::LEN).saturating_add(name.len()).saturating_add(arguments.len());
        if need > self.free() {
            return Err(LogFull { need, have: self.free() });
        }
        let id = self.new_id();
        self.insert(self.len, CALL, id.as_str(), name, &[arguments])?;
        Ok(id)
    }

    /// Adds what came of a call, in at most `most` bytes: where `content` is
    /// longer, its end is left out and a note says so.
    pub fn push_result(&mut self, id: &str, name: &str, content: &str, most: usize) -> Result<(), LogFull> {
        let cut = Cut::new(content, most);
        self.insert(self.len, RESULT, id, name, &[cut.kept, cut.note()])
    }

    /// Drops the oldest exchange, from a question up to the next; returns
    /// whether there was one. What the model is to be, and the last question
    /// with all that came of it, stay.
    pub fn forget_oldest(&mut self) -> bool {
        self.forget() > 0
    }

    /// Drops everything but what the model is to be.
    pub fn clear(&mut self) {
        self.len = self.start();
    }

    /// Drops the oldest exchange but the last; returns how many bytes.
    pub(super) fn forget(&mut self) -> usize {
        let start = self.start();
        let mut next = self.next(start);
        while let Some(at) = next {
            if self.head(at).is_some_and(|h| h.kind == USER) {
                self.remove(start..at);
                return at - start;
            }
            next = self.next(at);
        }
        0
    }

    /// Bytes free after everything was forgotten.
    pub(super) fn most_free(&self) -> usize {
        self.capacity() - self.start()
    }

    /// The last turn.
    pub(super) fn last(&self) -> Option<Turn<'_>> {
        let (mut at, mut last) = (0, None);
        while let Some(next) = self.next(at) {
            (last, at) = (Some(at), next);
        }
        self.turn(last?)
    }

    /// Cuts the longest result by half, with a note; returns how many bytes that
    /// freed, 0 where none is longer than [`SHORT`].
    pub(super) fn halve_longest(&mut self) -> usize {
        let (mut at, mut longest) = (0, None);
        while let Some(head) = self.head(at) {
            if head.kind == RESULT && head.text > longest.map_or(SHORT, |(_, h): (usize, Head)| h.text) {
                longest = Some((at, head));
            }
            at = at.saturating_add(head.size());
        }
        let Some((at, head)) = longest else { return 0 };
        let cut = Cut::again(self.text_of(at), head.text / 2);
        let (kept, note) = (cut.kept.len(), Name::new(cut.note()));
        let shorter = Head { text: kept + note.as_str().len(), ..head };
        let Some(lengths) = shorter.write() else { return 0 };
        let (text, end) = (at + head.size() - head.text, at + head.size());
        let noted = text + shorter.text;
        self.bytes[at..at + HEAD].copy_from_slice(&lengths);
        self.bytes[text + kept..noted].copy_from_slice(note.as_str().as_bytes());
        self.remove(noted..end);
        end - noted
    }

    /// Drops everything from byte `at`.
    pub(super) fn truncate(&mut self, at: usize) {
        self.len = self.len.min(at);
    }

    /// Adds to the text of the assistant's turn at `at`, or puts one there.
    pub(super) fn add_text(&mut self, at: usize, text: &str) -> Result<(), LogFull> {
        match self.head(at) {
            Some(head) if head.kind == ASSISTANT => {
                let full = LogFull { need: text.len(), have: self.free() };
                let end = self.next(at).ok_or(full)?;
                let longer = Head { text: head.text.saturating_add(text.len()), ..head };
                let longer = longer.write().ok_or(full)?;
                self.open(end, text.len())?.copy_from_slice(text.as_bytes());
                self.bytes[at..at + HEAD].copy_from_slice(&longer);
                Ok(())
            }
            _ => self.insert(at, ASSISTANT, "", "", &[text]),
        }
    }

    /// Puts a result before the first result after `at` whose id is in `later`.
    pub(super) fn put_result<'l>(
        &mut self,
        at: usize,
        id: &str,
        name: &str,
        parts: &[&str],
        later: impl Iterator<Item = &'l str> + Clone,
    ) -> Result<(), LogFull> {
        let mut place = at;
        while let Some(turn) = self.turn(place) {
            if matches!(turn, Turn::Result(r) if later.clone().any(|id| id == r.id)) {
                break;
            }
            place = self.next(place).unwrap_or(self.len);
        }
        self.insert(place, RESULT, id, name, parts)
    }

    /// The call `id` from byte `at` on.
    pub(super) fn call(&self, at: usize, id: CallId) -> Option<Call<'_>> {
        let mut at = at;
        loop {
            match self.turn(at)? {
                Turn::Call(call) if call.id == id.as_str() => return Some(call),
                _ => at = self.next(at)?,
            }
        }
    }

    /// What the assistant says at `at`; empty where it says nothing there.
    pub(super) fn text(&self, at: usize) -> &str {
        match self.turn(at) {
            Some(Turn::Assistant(text)) => text,
            _ => "",
        }
    }

    /// The content of the result at `at`.
    fn text_of(&self, at: usize) -> &str {
        match self.turn(at) {
            Some(Turn::Result(result)) => result.content,
            _ => "",
        }
    }

    /// An id that no turn has.
    fn new_id(&mut self) -> CallId {
        loop {
            let id = CallId::new(mix(self.seed.wrapping_add(self.made)));
            self.made = self.made.wrapping_add(1);
            // Ends: numbers differ until 2^32 are made, and turns are fewer.
            if !self.turns().any(|t| matches!(t, Turn::Call(c) if c.id == id.as_str())) {
                return id;
            }
        }
    }

    /// Where the first turn after the system's begins.
    fn start(&self) -> usize {
        match self.head(0) {
            Some(head) if head.kind == SYSTEM => self.next(0).unwrap_or(0),
            _ => 0,
        }
    }

    fn head(&self, at: usize) -> Option<Head> {
        let head = self.bytes.get(at..self.len)?.first_chunk::<HEAD>()?;
        let field = |i: usize| u32::from_le_bytes([head[i], head[i + 1], head[i + 2], head[i + 3]]) as usize;
        Some(Head { kind: head[0], id: field(1), name: field(5), text: field(9) })
    }

    /// Where the turn after the one at `at` begins.
    fn next(&self, at: usize) -> Option<usize> {
        Some(at.saturating_add(self.head(at)?.size()))
    }

    fn turn(&self, at: usize) -> Option<Turn<'_>> {
        let head = self.head(at)?;
        let text = |from: usize, len: usize| {
            let bytes = self.bytes.get(from..from.saturating_add(len)).unwrap_or(&[]);
            // Only text was written.
            core::str::from_utf8(bytes).unwrap_or("")
        };
        let id = at + HEAD;
        let name = id.saturating_add(head.id);
        let (id, name, text) =
            (text(id, head.id), text(name, head.name), text(name.saturating_add(head.name), head.text));
        Some(match head.kind {
            SYSTEM => Turn::System(text),
            USER => Turn::User(text),
            ASSISTANT => Turn::Assistant(text),
            CALL => Turn::Call(Call { id, name, arguments: text }),
            _ => Turn::Result(CallResult { id, name, content: text }),
        })
    }

    /// Puts a turn at `at`, where one begins or the log ends.
    fn insert(&mut self, at: usize, kind: u8, id: &str, name: &str, parts: &[&str]) -> Result<(), LogFull> {
        let text = parts.iter().fold(0usize, |sum, p| sum.saturating_add(p.len()));
        let head = Head { kind, id: id.len(), name: name.len(), text };
        let full = LogFull { need: head.size(), have: self.free() };
        let lengths = head.write().ok_or(full)?;
        let mut room = self.open(at, head.size())?;
        let texts = [id, name].into_iter().chain(parts.iter().copied()).map(str::as_bytes);
        for bytes in core::iter::once(&lengths[..]).chain(texts) {
            // Fits: the room is the sum of these.
            let (here, rest) = room.split_at_mut_checked(bytes.len()).ok_or(full)?;
            here.copy_from_slice(bytes);
            room = rest;
        }
        Ok(())
    }

    /// Moves what is behind `at` to make room for `n` bytes there.
    fn open(&mut self, at: usize, n: usize) -> Result<&mut [u8], LogFull> {
        if n > self.free() {
            return Err(LogFull { need: n, have: self.free() });
        }
        let at = at.min(self.len);
        self.bytes.copy_within(at..self.len, at + n);
        self.len += n;
        Ok(&mut self.bytes[at..at + n])
    }

    fn remove(&mut self, range: Range<usize>) {
        self.bytes.copy_within(range.end..self.len, range.start);
        self.len -= range.len();
    }
}

impl Turns for Log<'_> {
    fn each(&self, each: &mut dyn FnMut(Turn<'_>) -> fmt::Result) -> fmt::Result {
        self.turns().try_for_each(each)
    }
}

impl fmt::Debug for Log<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.turns()).finish()
    }
}

/// A name cut to what a message shows, without its mark of having been cut.
pub(super) fn short(name: &str) -> &str {
    &name[..name.floor_char_boundary(Name::MAX)]
}

/// Shuffles numbers: different ones stay different (each step can be undone).
fn mix(mut x: u32) -> u32 {
    x = (x ^ x >> 16).wrapping_mul(0x7feb_352d);
    x = (x ^ x >> 15).wrapping_mul(0x846c_a68b);
    x ^ x >> 16
}
