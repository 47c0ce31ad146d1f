//! Strings by their patterns and length, in their JSON spelling.
//!
//! All programs of a string run side by side, a bit for each place that they
//! can be at; a character counts once its last byte has come. Quotes,
//! backslashes and control characters are spelled as their shortest escapes,
//! nothing else is escaped.

use super::dfa::{Key, Machine};
use super::regex::{CHAR, FORK, Instr, JUMP, MATCH, MOST, Programs};
use super::text;

/// Strings that match all of some patterns and have `least` to `most`
/// characters, in their JSON spelling, quotes included.
pub(super) struct Strings<'p, 's> {
    pub(super) programs: &'p Programs<'s>,
    pub(super) least: u32,
    pub(super) most: Option<u32>,
    pub(super) inside: bool,
}

/// In the last word of a key: what part of a character has come.
const BETWEEN: u64 = 0;
const CONT: u64 = 1 << 28;
const PREFIX: u64 = 2 << 28;
const ESCAPE: u64 = 3 << 28;
const HEX: u64 = 4 << 28;
const BEGIN: u64 = 5 << 28;
const CLOSED: u64 = 6 << 28;
const KIND: u64 = 15 << 28;
/// Counts of bytes or digits are kept here.
const N: u32 = 21;

impl Strings<'_, '_> {
    fn code(&self, at: usize) -> Instr {
        self.programs.code.get(at).copied().unwrap_or(Instr { op: MATCH, x: 0, y: 0 })
    }

    /// Adds where `at` leads without a character.
    fn reach(&self, key: &mut Key, seen: &mut [u64; 8], at: u32) {
        let mut stack = [0u16; MOST + 1];
        let mut n = 1;
        stack[0] = at as u16;
        while n > 0 {
            n -= 1;
            let at = usize::from(stack[n]);
            let bit = 1u64 << (at % 64);
            if at >= MOST || seen[at / 64] & bit != 0 {
                continue;
            }
            seen[at / 64] |= bit;
            let instr = self.code(at);
            match instr.op {
                FORK if n + 2 <= MOST => {
                    (stack[n], stack[n + 1]) = (instr.y as u16, instr.x as u16);
                    n += 2;
                }
                JUMP => {
                    stack[n] = instr.x as u16;
                    n += 1;
                }
                _ => key[at / 64] |= bit,
            }
        }
    }

    fn bits(key: &Key) -> impl Iterator<Item = usize> + '_ {
        key[..8].iter().enumerate().flat_map(|(i, &word)| {
            let mut rest = word;
            core::iter::from_fn(move || {
                let bit = rest.trailing_zeros() as usize;
                rest &= rest.wrapping_sub(1);
                (bit < 64).then_some(i * 64 + bit)
            })
        })
    }

    fn class(&self, at: usize) -> &[[u32; 2]] {
        let instr = self.code(at);
        if instr.op != CHAR {
            return &[];
        }
        self.programs.ranges.get(instr.x as usize..instr.y as usize).unwrap_or(&[])
    }

    /// Where character `c` leads.
    fn char(&self, key: &Key, c: u32) -> Option<Key> {
        let count = (key[8] >> 32) as u32 + 1;
        let count = match self.most {
            Some(most) if count > most => return None,
            Some(_) => count,
            None => count.min(self.least),
        };
        let (mut next, mut seen) = ([0; 9], [0; 8]);
        for at in Self::bits(key) {
            if self.class(at).iter().any(|r| r[0] <= c && c <= r[1]) {
                self.reach(&mut next, &mut seen, at as u32 + 1);
            }
        }
        next[8] = u64::from(count) << 32;
        let p = self.programs;
        let lives = |i: usize| Self::bits(&next).any(|at| (p.starts[i]..p.starts[i + 1]).contains(&at));
        (0..p.count).all(lives).then_some(next)
    }

    /// Whether all characters of a range lead to the same place.
    fn uniform(&self, key: &Key, low: u32, high: u32) -> bool {
        Self::bits(key)
            .all(|at| self.class(at).iter().all(|r| r[1] < low || high < r[0] || r[0] <= low && high <= r[1]))
    }

    fn matches(&self, key: &Key) -> bool {
        let p = self.programs;
        let ended = |i: usize| {
            p.starts[i + 1] > 0 && key[(p.starts[i + 1] - 1) / 64] >> ((p.starts[i + 1] - 1) % 64) & 1 == 1
        };
        (key[8] >> 32) as u32 >= self.least && (0..p.count).all(ended)
    }

    fn part(key: &Key, part: u64) -> Key {
        let mut key = *key;
        key[8] = key[8] >> 32 << 32 | part;
        key
    }

    /// The first byte of a character of several.
    fn lead(&self, key: &Key, b: u8) -> Option<Key> {
        let (bits, more) = match b {
            0xc2..=0xdf => (b & 0x1f, 1),
            0xe0..=0xef => (b & 0xf, 2),
            0xf0..=0xf4 => (b & 7, 3),
            _ => return None,
        };
        // After these not every byte may come.
        let narrow = match b {
            0xe0 => 1,
            0xed => 2,
            0xf0 => 3,
            0xf4 => 4,
            _ => 0,
        };
        self.within(key, u32::from(bits), more, narrow)
    }

    /// After some bytes of a character, `more` due: what has come matters only
    /// where the characters that it can become differ.
    fn within(&self, key: &Key, value: u32, more: u32, narrow: u64) -> Option<Key> {
        if more == 0 {
            return self.char(key, value);
        }
        let (low, high) = (value << (6 * more), ((value + 1) << (6 * more)) - 1);
        if narrow == 0 && self.uniform(key, low, high) {
            return Some(Self::part(&self.char(key, low)?, CONT | u64::from(more)));
        }
        Some(Self::part(key, PREFIX | narrow << 24 | u64::from(more) << N | u64::from(value)))
    }

    fn prefix(&self, key: &Key, b: u8) -> Option<Key> {
        let (value, more) = (key[8] as u32 & 0x1f_ffff, (key[8] >> N) as u32 & 7);
        let (low, high) = match key[8] >> 24 & 15 {
            1 => (0xa0, 0xbf),
            2 => (0x80, 0x9f),
            3 => (0x90, 0xbf),
            4 => (0x80, 0x8f),
            _ => (0x80, 0xbf),
        };
        if !(low..=high).contains(&b) {
            return None;
        }
        self.within(key, value << 6 | u32::from(b & 0x3f), more - 1, 0)
    }

    /// After a backslash: the escapes that some characters need.
    fn escape(&self, key: &Key, b: u8) -> Option<Key> {
        let c = match b {
            b'"' | b'\\' => b,
            b'b' => 8,
            b't' => 9,
            b'n' => 10,
            b'f' => 12,
            b'r' => 13,
            b'u' => return Some(Self::part(key, HEX)),
            _ => return None,
        };
        self.char(key, u32::from(c))
    }

    fn hex(&self, key: &Key, b: u8) -> Option<Key> {
        let digit = char::from(b).to_digit(16).filter(|_| !b.is_ascii_uppercase())?;
        let (value, n) = ((key[8] as u32 & 0xffff) << 4 | digit, (key[8] >> N & 7) + 1);
        if n < 4 {
            return (value <= 7).then_some(Self::part(key, HEX | n << N | u64::from(value)));
        }
        let spelled = text::spelling(value, self.inside)?;
        if spelled.len() == 6 { self.char(key, value) } else { None }
    }
}

impl Machine for Strings<'_, '_> {
    fn start(&self) -> Key {
        let (mut key, mut seen) = ([0; 9], [0; 8]);
        let p = self.programs;
        p.starts[..p.count].iter().for_each(|&s| self.reach(&mut key, &mut seen, s as u32));
        Self::part(&key, BEGIN)
    }

    fn step(&self, key: &Key, b: u8) -> Option<Key> {
        match key[8] & KIND {
            BEGIN => (b == b'"').then_some(Self::part(key, BETWEEN)),
            BETWEEN => match b {
                b'"' => self.matches(key).then_some([0, 0, 0, 0, 0, 0, 0, 0, CLOSED]),
                b'\\' => Some(Self::part(key, ESCAPE)),
                0x20..=0x7f if text::spelling(u32::from(b), self.inside).is_none() => {
                    self.char(key, u32::from(b))
                }
                _ => self.lead(key, b),
            },
            CONT => {
                let more = (key[8] & 7) - 1;
                let part = if more == 0 { BETWEEN } else { CONT | more };
                (0x80..0xc0).contains(&b).then_some(Self::part(key, part))
            }
            PREFIX => self.prefix(key, b),
            ESCAPE => self.escape(key, b),
            HEX => self.hex(key, b),
            _ => None,
        }
    }

    fn accepts(&self, key: &Key) -> bool {
        key[8] & KIND == CLOSED
    }

    fn within(&self, key: &Key) -> Option<u16> {
        match key[8] & KIND {
            BETWEEN => Some(text::BODY),
            CONT => Some((key[8] & 7) as u16),
            PREFIX => Some(match key[8] >> 24 & 15 {
                0 => (key[8] >> N & 7) as u16,
                narrow => text::NARROW + narrow as u16 - 1,
            }),
            _ => None,
        }
    }
}
