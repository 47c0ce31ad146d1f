//! Patterns of strings: ECMAScript's regular expressions, as far as they are
//! regular.
//!
//! A pattern becomes a small program of characters and forks, which
//! [`super::strings`] runs.

use super::error::Why;

/// Most instructions: one bit each of a [`super::dfa::Key`].
pub(super) const MOST: usize = 512;

/// Deepest groups.
const DEPTH: usize = 24;

/// Most patterns of one string.
const PATTERNS: usize = 6;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub(crate) struct Instr {
    pub(super) op: u32,
    pub(super) x: u32,
    pub(super) y: u32,
}

/// Ranges `x..y` of the class table.
pub(super) const CHAR: u32 = 0;
/// Goes on at both `x` and `y`.
pub(super) const FORK: u32 = 1;
/// Goes on at `x`.
pub(super) const JUMP: u32 = 2;
pub(super) const MATCH: u32 = 3;

const TOP: u32 = 0x10_ffff;

/// Ranges of a class; the last are those of `\s`.
type Ranges = &'static [[u32; 2]];
const ANY: Ranges = &[[0, TOP]];
const DOT: Ranges = &[[0, 9], [0xb, 0xc], [0xe, 0x2027], [0x202a, TOP]];
const DIGIT: Ranges = &[[0x30, 0x39]];
const WORD: Ranges = &[[0x30, 0x39], [0x41, 0x5a], [0x5f, 0x5f], [0x61, 0x7a]];
const NOT_DIGIT: Ranges = &[[0, 0x2f], [0x3a, TOP]];
const NOT_WORD: Ranges = &[[0, 0x2f], [0x3a, 0x40], [0x5b, 0x5e], [0x60, 0x60], [0x7b, TOP]];
/// White space that everyone agrees on, and the opposite of all that anyone
/// takes for it.
const SPACE: Ranges = &[[9, 0xd], [0x20, 0x20]];
const NOT_SPACE: Ranges = &[
    [0, 8],
    [0xe, 0x1b],
    [0x21, 0x84],
    [0x86, 0x9f],
    [0xa1, 0x167f],
    [0x1681, 0x180d],
    [0x180f, 0x1fff],
    [0x200b, 0x2027],
    [0x202a, 0x202e],
    [0x2030, 0x205e],
    [0x2060, 0x2fff],
    [0x3001, 0xfefe],
    [0xff00, TOP],
];

/// Room for the programs of one string.
pub(super) struct Programs<'s> {
    pub(super) code: &'s mut [Instr],
    len: usize,
    pub(super) ranges: &'s mut [[u32; 2]],
    used: usize,
    /// The pattern's characters.
    chars: &'s mut [u32],
    /// Where each program starts; the last entry is the end.
    pub(super) starts: [usize; PATTERNS + 1],
    pub(super) count: usize,
}

impl<'s> Programs<'s> {
    pub(super) fn new(code: &'s mut [Instr], ranges: &'s mut [[u32; 2]], chars: &'s mut [u32]) -> Self {
        Self { code, len: 0, ranges, used: 0, chars, starts: [0; PATTERNS + 1], count: 0 }
    }

    /// Adds a pattern that a string must match.
    pub(super) fn add(&mut self, pattern: impl Iterator<Item = char>) -> Result<(), Why> {
        if self.count == PATTERNS {
            return Err(Why::Limit { what: "patterns of one string", limit: PATTERNS });
        }
        let (mut n, limit) = (0, self.chars.len());
        for c in pattern {
            *self.chars.get_mut(n).ok_or(Why::Limit { what: "characters of pattern", limit })? = c as u32;
            n += 1;
        }
        self.starts[self.count] = self.len;
        Parser { p: self, n, at: 0, depth: 0 }.whole()?;
        self.count += 1;
        self.starts[self.count] = self.len;
        Ok(())
    }

    fn emit(&mut self, op: u32, x: u32, y: u32) -> Result<usize, Why> {
        let limit = self.code.len().min(MOST);
        let slot = self.code[..limit].get_mut(self.len);
        *slot.ok_or(Why::Limit { what: "steps of pattern", limit })? = Instr { op, x, y };
        self.len += 1;
        Ok(self.len - 1)
    }

    fn range(&mut self, low: u32, high: u32) -> Result<(), Why> {
        let limit = self.ranges.len();
        *self.ranges.get_mut(self.used).ok_or(Why::Limit { what: "character ranges of pattern", limit })? =
            [low, high];
        self.used += 1;
        Ok(())
    }

    /// Sorts the ranges from `from` on, merges them, and turns them round.
    fn class(&mut self, from: usize, negated: bool) -> Result<usize, Why> {
        let all = &mut self.ranges[from..self.used];
        all.sort_unstable();
        let mut n = 0;
        for i in 0..all.len() {
            let [low, high] = all[i];
            if n > 0 && low <= all[n - 1][1].saturating_add(1) {
                all[n - 1][1] = all[n - 1][1].max(high);
            } else {
                all[n] = [low, high];
                n += 1;
            }
        }
        self.used = from + n;
        if negated {
            let (mut low, end) = (0, self.used);
            for i in from..end {
                let [start, stop] = self.ranges[i];
                if low < start {
                    self.range(low, start - 1)?;
                }
                low = stop + 1;
            }
            if low <= TOP {
                self.range(low, TOP)?;
            }
            self.ranges.copy_within(end..self.used, from);
            self.used -= end - from;
        }
        self.emit(CHAR, from as u32, self.used as u32)
    }

    fn fixed(&mut self, ranges: Ranges) -> Result<usize, Why> {
        let from = self.used;
        ranges.iter().try_for_each(|r| self.range(r[0], r[1]))?;
        self.emit(CHAR, from as u32, self.used as u32)
    }
}

struct Parser<'p, 's> {
    p: &'p mut Programs<'s>,
    n: usize,
    at: usize,
    depth: usize,
}

/// Most repetitions that a pattern may count.
const REPEATS: u32 = 512;

impl Parser<'_, '_> {
    fn bad<T>(&self, what: &'static str) -> Result<T, Why> {
        Err(Why::Pattern { at: self.at as u32, what })
    }

    fn peek(&self) -> Option<char> {
        self.ahead(0)
    }

    fn ahead(&self, by: usize) -> Option<char> {
        let at = self.at + by;
        if at < self.n { char::from_u32(self.p.chars[at]) } else { None }
    }

    fn eat(&mut self, c: char) -> bool {
        let is = self.peek() == Some(c);
        self.at += usize::from(is);
        is
    }

    /// The whole pattern: branches that may begin and end anywhere unless they
    /// are anchored.
    fn whole(&mut self) -> Result<(), Why> {
        let (mut exits, mut first) = (u32::MAX, true);
        while first || self.eat('|') {
            first = false;
            let fork = if self.bar_ahead()? { Some(self.p.emit(FORK, 0, 0)?) } else { None };
            if let Some(fork) = fork {
                self.p.code[fork].x = self.p.len as u32;
            }
            if !self.eat('^') {
                self.anything()?;
            }
            self.sequence(true)?;
            if !self.eat('$') {
                self.anything()?;
            }
            if !matches!(self.peek(), None | Some('|')) {
                return self.bad("a bracket that was not opened, or an anchor in the middle");
            }
            if let Some(fork) = fork {
                exits = self.p.emit(JUMP, 0, exits)? as u32;
                self.p.code[fork].y = self.p.len as u32;
            }
        }
        self.land(exits);
        self.p.emit(MATCH, 0, 0).map(drop)
    }

    /// Lets a chain of jumps lead here.
    fn land(&mut self, mut exits: u32) {
        while let Some(jump) = self.p.code.get(exits as usize).copied() {
            self.p.code[exits as usize].x = self.p.len as u32;
            exits = jump.y;
        }
    }

    fn anything(&mut self) -> Result<(), Why> {
        let at = self.p.len as u32;
        self.p.emit(FORK, at + 1, at + 3)?;
        self.p.fixed(ANY)?;
        self.p.emit(JUMP, at, 0).map(drop)
    }

    /// Whether another branch of this group follows.
    fn bar_ahead(&mut self) -> Result<bool, Why> {
        let start = self.at;
        let mut found = false;
        while let Some(c) = self.peek() {
            match c {
                '|' => {
                    found = true;
                    break;
                }
                ')' => break,
                _ => self.skip()?,
            }
        }
        self.at = start;
        Ok(found)
    }

    /// Passes over a character, class or group.
    fn skip(&mut self) -> Result<(), Why> {
        match self.peek() {
            Some('\\') => self.at += 2,
            Some('[') => {
                self.at += 1;
                while self.peek() != Some(']') {
                    self.at += if self.peek() == Some('\\') { 2 } else { 1 };
                    if self.at >= self.n {
                        return self.bad("a class that does not end");
                    }
                }
                self.at += 1;
            }
            Some('(') => {
                self.at += 1;
                let mut open = 1;
                while open > 0 {
                    match self.peek() {
                        None => return self.bad("a group that does not end"),
                        Some('(') => (open, self.at) = (open + 1, self.at + 1),
                        Some(')') => (open, self.at) = (open - 1, self.at + 1),
                        Some('\\' | '[') => self.skip()?,
                        Some(_) => self.at += 1,
                    }
                }
            }
            _ => self.at += 1,
        }
        if self.at > self.n { self.bad("a backslash at the end") } else { Ok(()) }
    }

    fn branches(&mut self) -> Result<(), Why> {
        let (mut exits, mut first) = (u32::MAX, true);
        while first || self.eat('|') {
            first = false;
            let fork = if self.bar_ahead()? { Some(self.p.emit(FORK, 0, 0)?) } else { None };
            if let Some(fork) = fork {
                self.p.code[fork].x = self.p.len as u32;
            }
            self.sequence(false)?;
            if let Some(fork) = fork {
                exits = self.p.emit(JUMP, 0, exits)? as u32;
                self.p.code[fork].y = self.p.len as u32;
            }
        }
        self.land(exits);
        Ok(())
    }

    fn sequence(&mut self, top: bool) -> Result<(), Why> {
        loop {
            match self.peek() {
                None | Some('|' | ')') => return Ok(()),
                Some('$') if top && matches!(self.ahead(1), None | Some('|')) => return Ok(()),
                Some('$' | '^') => return self.bad("an anchor that is not at an end"),
                Some('*' | '+' | '?') => return self.bad("nothing to repeat"),
                Some(_) => self.term()?,
            }
        }
    }

    /// A character, class or group, and how often it comes.
    fn term(&mut self) -> Result<(), Why> {
        let start = self.at;
        self.skip_whole()?;
        let (least, most) = self.repeats()?;
        let end = self.at;
        let again = |p: &mut Self| {
            p.at = start;
            p.atom()
        };
        let mut last = self.p.len;
        for _ in 0..least {
            last = self.p.len;
            again(self)?;
        }
        match most {
            None if least > 0 => {
                let next = self.p.len as u32 + 1;
                self.p.emit(FORK, last as u32, next)?;
            }
            None => {
                let fork = self.p.emit(FORK, 0, 0)?;
                self.p.code[fork].x = self.p.len as u32;
                again(self)?;
                self.p.emit(JUMP, fork as u32, 0)?;
                self.p.code[fork].y = self.p.len as u32;
            }
            Some(most) => {
                // Each further one may be the way out; `y` chains the forks
                // until it is known where that is.
                let mut forks = u32::MAX;
                for _ in least..most {
                    forks = self.p.emit(FORK, 0, forks)? as u32;
                    self.p.code[forks as usize].x = self.p.len as u32;
                    again(self)?;
                }
                while let Some(fork) = self.p.code.get(forks as usize).copied() {
                    self.p.code[forks as usize].y = self.p.len as u32;
                    forks = fork.y;
                }
            }
        }
        self.at = end;
        Ok(())
    }

    /// Passes over an atom, escapes of several characters whole.
    fn skip_whole(&mut self) -> Result<(), Why> {
        if self.peek() == Some('\\') && matches!(self.ahead(1), Some('x' | 'u' | 'c')) {
            return self.escape().map(drop);
        }
        self.skip()
    }

    fn repeats(&mut self) -> Result<(u32, Option<u32>), Why> {
        let found = match self.peek() {
            Some('*') => (0, None),
            Some('+') => (1, None),
            Some('?') => (0, Some(1)),
            Some('{') => {
                self.at += 1;
                let least = self.count()?;
                let most = if !self.eat(',') {
                    Some(least)
                } else if self.peek() == Some('}') {
                    None
                } else {
                    Some(self.count()?)
                };
                if self.peek() != Some('}') || most.is_some_and(|m| m < least) {
                    return self.bad("a repetition is {n}, {n,} or {n,m}");
                }
                (least, most)
            }
            _ => return Ok((1, Some(1))),
        };
        self.at += 1;
        // A lazy repetition matches the same strings.
        self.eat('?');
        if matches!(self.peek(), Some('*' | '+' | '?' | '{')) {
            return self.bad("a repetition of a repetition");
        }
        Ok(found)
    }

    fn count(&mut self) -> Result<u32, Why> {
        let mut n = None;
        while let Some(d) = self.peek().and_then(|c| c.to_digit(10)) {
            n = Some(n.unwrap_or(0) * 10 + d);
            if n > Some(REPEATS) {
                return Err(Why::Limit { what: "repetitions in a pattern", limit: REPEATS as usize });
            }
            self.at += 1;
        }
        n.map_or_else(|| self.bad("a repetition is {n}, {n,} or {n,m}"), Ok)
    }

    fn atom(&mut self) -> Result<(), Why> {
        match self.peek() {
            Some('(') => self.group(),
            Some('[') => self.class(),
            Some('.') => {
                self.at += 1;
                self.p.fixed(DOT).map(drop)
            }
            Some('\\') => match self.escape()? {
                Escape::Char(c) => self.one(c),
                Escape::Class(ranges) => self.p.fixed(ranges).map(drop),
            },
            Some('{' | '}' | ']') => self.bad("a bracket of its own: put a backslash before it"),
            Some(c) => {
                self.at += 1;
                self.one(c as u32)
            }
            None => self.bad("the pattern ends too early"),
        }
    }

    fn one(&mut self, c: u32) -> Result<(), Why> {
        let from = self.p.used;
        self.p.range(c, c)?;
        self.p.class(from, false).map(drop)
    }

    fn group(&mut self) -> Result<(), Why> {
        self.at += 1;
        if self.peek() == Some('?') {
            if self.ahead(1) != Some(':') {
                return self.bad("look-around and named groups are not supported");
            }
            self.at += 2;
        }
        self.depth += 1;
        if self.depth > DEPTH {
            return Err(Why::Limit { what: "groups in one another", limit: DEPTH });
        }
        self.branches()?;
        self.depth -= 1;
        if self.eat(')') { Ok(()) } else { self.bad("a group that does not end") }
    }

    fn class(&mut self) -> Result<(), Why> {
        self.at += 1;
        let negated = self.eat('^');
        let from = self.p.used;
        while !self.eat(']') {
            let Some(low) = self.member(negated)? else { continue };
            let mut high = low;
            if self.peek() == Some('-') && !matches!(self.ahead(1), None | Some(']')) {
                self.at += 1;
                let end = self.member(negated)?;
                high = match end {
                    Some(high) if high >= low => high,
                    _ => return self.bad("a range whose end is no character after its start"),
                };
            }
            self.p.range(low, high)?;
        }
        self.p.class(from, negated).map(drop)
    }

    /// A character of a class; `None` where it was a class itself.
    fn member(&mut self, negated: bool) -> Result<Option<u32>, Why> {
        let Some(c) = self.peek() else { return self.bad("a class that does not end") };
        if c != '\\' {
            self.at += 1;
            return Ok(Some(c as u32));
        }
        if self.ahead(1) == Some('b') {
            self.at += 2;
            return Ok(Some(8));
        }
        match self.escape()? {
            Escape::Char(c) => Ok(Some(c)),
            Escape::Class(ranges) => {
                self.add_class(ranges, negated)?;
                Ok(None)
            }
        }
    }

    /// Within `[^…]` what is doubtful must be left out, so counts as a member.
    fn add_class(&mut self, ranges: Ranges, negated: bool) -> Result<(), Why> {
        if !negated || (ranges != SPACE && ranges != NOT_SPACE) {
            return ranges.iter().try_for_each(|r| self.p.range(r[0], r[1]));
        }
        let opposite = if ranges == SPACE { NOT_SPACE } else { SPACE };
        let mut low = 0;
        for r in opposite {
            if low < r[0] {
                self.p.range(low, r[0] - 1)?;
            }
            low = r[1] + 1;
        }
        if low <= TOP { self.p.range(low, TOP) } else { Ok(()) }
    }

    /// What a backslash and the characters after it stand for.
    fn escape(&mut self) -> Result<Escape, Why> {
        let Some(c) = self.ahead(1) else { return self.bad("a backslash at the end") };
        self.at += 2;
        Ok(match c {
            'd' => Escape::Class(DIGIT),
            'D' => Escape::Class(NOT_DIGIT),
            'w' => Escape::Class(WORD),
            'W' => Escape::Class(NOT_WORD),
            's' => Escape::Class(SPACE),
            'S' => Escape::Class(NOT_SPACE),
            't' => Escape::Char(9),
            'n' => Escape::Char(10),
            'v' => Escape::Char(11),
            'f' => Escape::Char(12),
            'r' => Escape::Char(13),
            '0' if !matches!(self.peek(), Some('0'..='9')) => Escape::Char(0),
            'x' => Escape::Char(self.hex(2)?),
            'u' => Escape::Char(self.hex(4)?),
            c if c.is_ascii_alphanumeric() => {
                self.at -= 1;
                return self.bad("this escape is not supported");
            }
            c => Escape::Char(c as u32),
        })
    }

    fn hex(&mut self, digits: u32) -> Result<u32, Why> {
        let mut value = 0;
        for _ in 0..digits {
            let Some(d) = self.peek().and_then(|c| c.to_digit(16)) else {
                return self.bad("an escape without its digits");
            };
            value = value * 16 + d;
            self.at += 1;
        }
        if char::from_u32(value).is_none() { self.bad("half a character") } else { Ok(value) }
    }
}

enum Escape {
    Char(u32),
    Class(Ranges),
}
