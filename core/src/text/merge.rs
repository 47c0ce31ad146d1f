//! Greedy merging: the best pair of neighbours first, the leftmost of equals.
//!
//! A tournament tree over byte positions holds, for each symbol, how good the
//! merge with its right neighbour is. Nothing in it is ever stale, so its size
//! is fixed: four words per byte, and n merges take O(n log n).

use super::class::Char;
use super::codec::Piece;
use super::error::TextError;

/// The key of a pair that must not merge. Lower keys merge first.
pub(super) const NEVER: u32 = u32::MAX;

/// Words of scratch that merging `len` bytes takes.
pub(super) const fn scratch_for(len: usize) -> usize {
    len.saturating_mul(4)
}

/// What a symbol is before anything is merged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Start {
    /// One byte.
    Byte,
    /// One character; a byte that is part of none is a symbol of its own.
    Char,
}

/// Merges `piece` as far as `key` allows and hands the symbols to `emit`.
///
/// `key(whole, mid)` says how good it is to join `whole[..mid]` and
/// `whole[mid..]`.
pub(super) fn merge<'t>(
    piece: Piece<'t>,
    start: Start,
    scratch: &mut [u32],
    key: impl Fn(Piece<'t>, usize) -> u32,
    mut emit: impl FnMut(Piece<'t>) -> Result<(), TextError>,
) -> Result<(), TextError> {
    let n = piece.len();
    let (need, have) = (scratch_for(n), scratch.len());
    let scratch = scratch.get_mut(..need).filter(|_| n < NEVER as usize);
    let scratch = scratch.ok_or(TextError::Scratch { need: need as u64, have: have as u64 })?;
    let (next, rest) = scratch.split_at_mut(n);
    let (prev, rest) = rest.split_at_mut(n);
    let (keys, tree) = rest.split_at_mut(n);
    let mut symbols = Symbols { n, next, prev, keys, tree };
    symbols.split(piece, start);
    symbols.seed(piece, &key);
    while let Some(left) = symbols.best() {
        symbols.join(piece, left, &key);
    }
    let mut at = 0;
    while at < n {
        let end = symbols.end(at);
        emit(piece.part(at, end))?;
        at = end;
    }
    Ok(())
}

/// Symbols named by the byte they start at. Entries for other bytes are unused
/// but for `keys`, which are [`NEVER`] there.
struct Symbols<'s> {
    n: usize,
    /// Start of the next symbol, which is the end of this one.
    next: &'s mut [u32],
    /// Start of the symbol before.
    prev: &'s mut [u32],
    /// How good merging with the next symbol is.
    keys: &'s mut [u32],
    /// Node `i` holds the best position below it; its children are `2i` and
    /// `2i + 1`, where `n + p` is position `p` itself. Node 1 is the root.
    tree: &'s mut [u32],
}

impl Symbols<'_> {
    fn end(&self, at: usize) -> usize {
        self.next[at] as usize
    }

    fn split(&mut self, piece: Piece<'_>, start: Start) {
        self.keys.fill(NEVER);
        let lead = usize::from(piece.space);
        let mut at = 0;
        while at < self.n {
            let len = match start {
                Start::Char if at >= lead => Char::at(piece.text, at - lead).map_or(1, |c| c.len),
                _ => 1,
            };
            let end = at + len;
            self.next[at] = end as u32;
            if end < self.n {
                self.prev[end] = at as u32;
            }
            at = end;
        }
    }

    fn seed<'t>(&mut self, piece: Piece<'t>, key: &impl Fn(Piece<'t>, usize) -> u32) {
        let mut at = 0;
        while at < self.n {
            self.keys[at] = self.key_of(piece, at, key);
            at = self.end(at);
        }
        for node in (1..self.n).rev() {
            self.tree[node] = self.winner(node);
        }
    }

    /// The key of the symbol at `at` and the one after it.
    fn key_of<'t>(&self, piece: Piece<'t>, at: usize, key: &impl Fn(Piece<'t>, usize) -> u32) -> u32 {
        let mid = self.end(at);
        if mid < self.n { key(piece.part(at, self.end(mid)), mid - at) } else { NEVER }
    }

    /// The best position below `node`; of equals, the leftmost.
    fn winner(&self, node: usize) -> u32 {
        let below = |child: usize| child.checked_sub(self.n).map_or_else(|| self.tree[child], |p| p as u32);
        let (a, b) = (below(2 * node), below(2 * node + 1));
        if (self.keys[a as usize], a) < (self.keys[b as usize], b) { a } else { b }
    }

    /// The symbol to merge next with its neighbour.
    fn best(&self) -> Option<usize> {
        let best = if self.n > 1 { self.tree[1] as usize } else { 0 };
        (self.n > 0 && self.keys[best] != NEVER).then_some(best)
    }

    fn set(&mut self, at: usize, key: u32) {
        if self.keys[at] == key {
            return;
        }
        self.keys[at] = key;
        let mut node = (at + self.n) / 2;
        while node >= 1 {
            let winner = self.winner(node);
            // Above a node that another position won before and wins still,
            // nothing changes.
            if self.tree[node] == winner && winner != at as u32 {
                break;
            }
            self.tree[node] = winner;
            node /= 2;
        }
    }

    /// Merges the symbol at `left`, which has a neighbour, with it.
    fn join<'t>(&mut self, piece: Piece<'t>, left: usize, key: &impl Fn(Piece<'t>, usize) -> u32) {
        let right = self.end(left);
        let end = self.end(right);
        self.next[left] = end as u32;
        if end < self.n {
            self.prev[end] = left as u32;
        }
        self.set(right, NEVER);
        self.set(left, self.key_of(piece, left, key));
        if left > 0 {
            let before = self.prev[left] as usize;
            self.set(before, self.key_of(piece, before, key));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::string::String;
    use std::vec::Vec;

    /// Keys of pairs over the alphabet a, b, c: arbitrary, many equal.
    fn key(whole: &[u8], mid: usize) -> u32 {
        let sum = whole.iter().fold(mid as u32, |s, &b| s.wrapping_mul(31).wrapping_add(b.into()));
        match sum % 7 {
            0 | 1 => NEVER,
            k if whole.len() < 6 => k,
            _ => NEVER,
        }
    }

    fn naive(text: &[u8]) -> Vec<Vec<u8>> {
        let mut symbols: Vec<Vec<u8>> = text.iter().map(|&b| std::vec![b]).collect();
        loop {
            let pair = |i: usize| key(&symbols[i..i + 2].concat(), symbols[i].len());
            let best = (0..symbols.len().saturating_sub(1)).map(|i| (pair(i), i)).min();
            let Some((_, i)) = best.filter(|b| b.0 != NEVER) else { return symbols };
            let right = symbols.remove(i + 1);
            symbols[i].extend(right);
        }
    }

    proptest! {
        #[test]
        fn same_as_the_naive_way(text in "[abc]{0,40}") {
            let mut scratch = std::vec![7; scratch_for(text.len())];
            let mut out = Vec::new();
            let piece = Piece { space: false, text: text.as_bytes() };
            merge(piece, Start::Byte, &mut scratch, |p, mid| key(p.text, mid), |p| {
                out.push(p.text.to_vec());
                Ok(())
            }).unwrap();
            prop_assert_eq!(out, naive(text.as_bytes()));
        }
    }

    #[test]
    fn says_how_much_scratch_it_needs() {
        let piece = Piece { space: true, text: b"abc" };
        let got = merge(piece, Start::Char, &mut [0; 15], |_, _| NEVER, |_| Ok(()));
        assert_eq!(got, Err(TextError::Scratch { need: 16, have: 15 }));
    }

    #[test]
    fn characters_stay_whole_and_the_space_leads() {
        let mut out = String::new();
        let piece = Piece { space: true, text: "aé天".as_bytes() };
        merge(
            piece,
            Start::Char,
            &mut [0; 28],
            |_, _| NEVER,
            |p| {
                out.push_str(if p.space { "_" } else { core::str::from_utf8(p.text).unwrap() });
                out.push('|');
                Ok(())
            },
        )
        .unwrap();
        assert_eq!(out, "_|a|é|天|");
    }
}
