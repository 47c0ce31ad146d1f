//! Marks on a vocabulary's sorted tokens, many at a time.

use core::ops::Range;

use super::classes::{Classes, Runs};
use super::trie::Trie;

/// Tokens judged together: a word of marks.
const TOGETHER: usize = 64;

/// Fewer tokens are judged one by one.
const FEW: usize = 10;

/// How plain tokens are judged by what they are made of.
pub(super) struct Rule {
    /// Characters of these classes may come; only where `on`.
    free: Classes,
    on: bool,
    /// Of these as well, as long as there are no more than `sure`.
    wide: Classes,
    sure: u8,
    /// Not after any of `free`.
    dead: Classes,
    /// More characters may not come.
    most: u8,
}

/// The answer for a token that may not come, and of the others nothing is known.
pub(super) const ALONE: Option<usize> = Some(0);

impl Rule {
    /// Tokens of at most so many characters, whichever.
    pub(super) fn counted(most: u8) -> Self {
        Self { free: 0, on: false, wide: Classes::MAX, sure: most, dead: 0, most }
    }

    /// What a state's runs say of tokens whose characters after the first are
    /// known by class. The first is one of class `first`; without, the state is
    /// the one that it led to.
    pub(super) fn of(runs: &Runs, first: Option<Classes>) -> Self {
        let taken = u8::from(first.is_none());
        let on = first.is_none_or(|class| class & runs.free != 0);
        let wide = first.is_none_or(|class| class & runs.wide != 0);
        Self {
            free: runs.free,
            on,
            wide: runs.wide,
            // No token has characters without end: 255 of them are any number.
            sure: if wide { runs.sure.saturating_add(taken) } else { 0 },
            dead: if on { runs.dead } else { 0 },
            most: runs.most.saturating_add(taken),
        }
    }

    /// Whether a token may come, and whether it may not; neither where it takes
    /// a closer look.
    fn judge(&self, classes: Classes, chars: u8) -> (bool, bool) {
        let free = self.on & (classes & !self.free == 0);
        let wide = (classes & !self.wide == 0) & (chars <= self.sure);
        let dead = (classes & !(self.free | self.dead) == 0) & (classes & self.dead != 0);
        (free | wide, dead | (chars > self.most))
    }

    /// How many characters any token may have, where classes do not matter.
    fn by_count(&self) -> Option<u8> {
        match self.on {
            true => (self.free == Classes::MAX).then_some(u8::MAX),
            false => (self.wide == Classes::MAX).then_some(self.sure),
        }
    }

    /// The same for tokens `from..to`, a bit each from the lowest on.
    fn judge_all(&self, trie: &Trie<'_>, from: usize, to: usize) -> (u64, u64) {
        let (mut yes, mut no) = ([0u8; TOGETHER], [0u8; TOGETHER]);
        let all = (trie.classes.get(from..to).unwrap_or(&[]), trie.chars.get(from..to).unwrap_or(&[]));
        if let (Some(classes), Some(chars)) =
            (all.0.first_chunk::<TOGETHER>(), all.1.first_chunk::<TOGETHER>())
        {
            if let Some(sure) = self.by_count() {
                for i in 0..TOGETHER {
                    (yes[i], no[i]) = ((chars[i] <= sure).into(), (chars[i] > self.most).into());
                }
            } else {
                for i in 0..TOGETHER {
                    let (y, n) = self.judge(classes[i], chars[i]);
                    (yes[i], no[i]) = (y.into(), n.into());
                }
            }
            return (pack(&yes), pack(&no));
        }
        let each = all.0.iter().zip(all.1).enumerate();
        each.fold((0, 0), |(yes, no), (i, (&classes, &chars))| {
            let (y, n) = self.judge(classes, chars);
            (yes | u64::from(y) << (i % 64), no | u64::from(n) << (i % 64))
        })
    }
}

/// A bit for each byte, which is 0 or 1.
fn pack(bytes: &[u8; TOGETHER]) -> u64 {
    bytes.chunks_exact(8).rev().fold(0, |bits, eight| {
        let eight = eight.first_chunk().map_or(0, |&b| u64::from_le_bytes(b));
        // Moves byte i's bit to bit 56 + i.
        bits << 8 | eight.wrapping_mul(0x0102_0408_1020_4080) >> 56
    })
}

/// A bit for each of the sorted tokens.
pub(super) struct Marks<'m>(pub(super) &'m mut [u64]);

impl Marks<'_> {
    /// Marks tokens `from..to`, of one word.
    fn add(&mut self, word: usize, bits: u64) {
        if let Some(word) = self.0.get_mut(word) {
            *word |= bits;
        }
    }

    pub(super) fn set(&mut self, i: usize) {
        self.add(i / TOGETHER, 1 << (i % TOGETHER));
    }

    /// Marks those of `range` that may come: by `rule` where it tells, and else
    /// by `look`, which answers `None`, or up to which token none may come.
    pub(super) fn judge(
        &mut self,
        trie: &Trie<'_>,
        range: Range<usize>,
        rule: &Rule,
        mut look: impl FnMut(usize) -> Option<usize>,
    ) {
        let mut at = range.start;
        while at < range.end {
            let (word, base) = (at / TOGETHER, at - at % TOGETHER);
            let end = range.end.min(base + TOGETHER);
            let known = self.0.get(word).copied().unwrap_or(u64::MAX);
            let open = !known & u64::MAX << (at - base) & u64::MAX >> (base + TOGETHER - end);
            let first = if end - at < FEW { at } else { base };
            // Judged from the word's first token on, so that whole words are.
            let (yes, no) = if open == 0 {
                (0, 0)
            } else if first == at {
                let (yes, no) = rule.judge_all(trie, at, end);
                (yes << (at - base), no << (at - base))
            } else {
                rule.judge_all(trie, base, (base + TOGETHER).min(trie.len()))
            };
            let mut marks = yes & open;
            let mut left = open & !yes & !no;
            at = end;
            while left != 0 {
                let bit = left.trailing_zeros() as usize;
                left &= left - 1;
                match look(base + bit) {
                    None => marks |= 1 << bit,
                    Some(next) if next >= end => (left, at) = (0, next),
                    Some(next) => left &= u64::MAX << next.saturating_sub(base),
                }
            }
            self.add(word, marks);
        }
    }

    /// Writes the mask by token id. `free` allows all tokens that are not among
    /// the sorted ones.
    pub(super) fn spread(&self, trie: &Trie<'_>, mask: &mut [u32], free: bool) {
        let count = |words: &[u64]| words.iter().map(|w| w.count_ones() as usize).sum::<usize>();
        let dense = count(&self.0[..(trie.plain / TOGETHER).min(self.0.len())]) * 2 > trie.plain;
        // Up to here the mask is all set, and what is not marked is cleared.
        let cleared = match (free, dense) {
            (true, _) => {
                mask.fill(u32::MAX);
                trie.len()
            }
            (false, true) => {
                mask.fill(0);
                mask.iter_mut().zip(trie.plain_ids).for_each(|(m, &p)| *m = p);
                trie.plain
            }
            (false, false) => {
                mask.fill(0);
                0
            }
        };
        for (base, &word) in (0..trie.len()).step_by(TOGETHER).zip(self.0.iter()) {
            let upto = cleared.saturating_sub(base).min(TOGETHER);
            let set = if upto == 0 { 0 } else { u64::MAX >> (TOGETHER - upto) };
            let here = (trie.len() - base).min(TOGETHER);
            let mut turn = (word ^ set) & u64::MAX >> (TOGETHER - here);
            while turn != 0 {
                let bit = turn.trailing_zeros();
                turn &= turn - 1;
                let id = trie.ids[base + bit as usize];
                if let Some(word) = mask.get_mut(id as usize / 32) {
                    *word ^= 1 << (id % 32);
                }
            }
        }
    }
}
