//! A vocabulary in the order of its tokens' bytes.
//!
//! Sorted tokens share their first bytes with their neighbours, so a list with
//! how many each shares is a trie, walked in one pass: 14 bytes a token and its
//! text.
//!
//! Tokens made of whole characters that any JSON string may hold come first:
//! where a string may go on, all of those are right without looking closer. Of
//! each is kept how many characters it has and of which classes those after the
//! first are: where a pattern treats all of a class alike, that is enough.

use super::classes::{Classes, class};
use super::matcher::LONGEST;
use crate::arena::{ArenaFull, Space};
use crate::plan::Part;
use crate::text::{Sizes, TokenKind, Tokenizer};

/// Most tokens that end a text.
const ENDS: usize = 48;

/// How much memory a vocabulary's trie takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TrieSizes {
    tokens: usize,
    bytes: usize,
    vocab: usize,
}

impl TrieSizes {
    /// Measures a vocabulary.
    pub fn of(tokenizer: &Tokenizer<'_>) -> Self {
        let mut sizes = Self { tokens: 0, bytes: 0, vocab: tokenizer.vocab_len() };
        for id in text_tokens(tokenizer) {
            sizes.tokens += 1;
            sizes.bytes += tokenizer.bytes(id, false).count();
        }
        sizes
    }

    /// The most that a vocabulary can take, known before its tokenizer is built:
    /// some tenth more than it does.
    pub fn at_most(vocab: &Sizes) -> Self {
        let (tokens, bytes) = vocab.texts();
        Self { tokens, bytes, vocab: tokens }
    }
}

/// Memory for a trie, not yet filled.
pub struct TrieMemory<'a> {
    ids: &'a mut [u32],
    at: &'a mut [u32],
    shared: &'a mut [u8],
    chars: &'a mut [u8],
    classes: &'a mut [Classes],
    bytes: &'a mut [u8],
    plain_ids: &'a mut [u32],
}

impl<'a> TrieMemory<'a> {
    /// Takes what `sizes` asks for.
    pub fn lay_out(space: &mut impl Space<'a>, sizes: &TrieSizes) -> Result<Self, ArenaFull> {
        let n = sizes.tokens;
        Ok(Self {
            ids: space.take(Part::Grammar, "tokens in order", n)?,
            at: space.take(Part::Grammar, "token bytes, where", n.saturating_add(1))?,
            shared: space.take(Part::Grammar, "token bytes, shared", n)?,
            chars: space.take(Part::Grammar, "token characters", n)?,
            classes: space.take(Part::Grammar, "token character classes", n)?,
            bytes: space.take(Part::Grammar, "token bytes", sizes.bytes)?,
            plain_ids: space.take(Part::Grammar, "plain tokens", sizes.vocab.div_ceil(32))?,
        })
    }
}

/// A vocabulary's tokens in order.
#[derive(Clone, Copy)]
pub struct Trie<'a> {
    pub(super) ids: &'a [u32],
    /// Where each token's text starts.
    at: &'a [u32],
    /// Bytes that each token shares with the one before it.
    pub(super) shared: &'a [u8],
    /// Characters of each plain token.
    pub(super) chars: &'a [u8],
    /// Classes of the characters after its first.
    pub(super) classes: &'a [Classes],
    bytes: &'a [u8],
    /// The plain tokens, a bit each by id.
    pub(super) plain_ids: &'a [u32],
    /// Tokens before this place are plain.
    pub(super) plain: usize,
    ends: [u32; ENDS],
    n_ends: usize,
}

/// Whether a token stands for text: control tokens and those too long do not.
pub(super) fn is_text(tokenizer: &Tokenizer<'_>, id: u32) -> bool {
    let kind = tokenizer.token_kind(id);
    if !matches!(kind, TokenKind::Normal | TokenKind::Byte | TokenKind::UserDefined) || tokenizer.is_end(id) {
        return false;
    }
    (1..=LONGEST).contains(&tokenizer.bytes(id, false).take(LONGEST + 1).count())
}

fn text_tokens<'t>(tokenizer: &'t Tokenizer<'_>) -> impl Iterator<Item = u32> + 't {
    (0..tokenizer.vocab_len() as u32).filter(|&id| is_text(tokenizer, id))
}

/// Characters of a token that can stand in any string, and the classes of those
/// after the first; `None` where it holds anything else. Braces count as
/// something else, for they are not plain in strings within strings.
fn plain_chars(bytes: impl Iterator<Item = u8>) -> Option<(u8, Classes)> {
    use super::text::{BODY, Step, step};
    let (mut q, mut n, mut classes) = (BODY, 0u8, 0);
    let mut bytes = bytes.peekable();
    while let Some(b) = bytes.next() {
        if q == BODY && n > 0 {
            classes |= class(b, bytes.peek().copied().unwrap_or(0));
        }
        match step(q, b, true) {
            _ if b == b'\\' => return None,
            Step::Within(to) => q = to,
            Step::Char => (q, n) = (BODY, n.saturating_add(1)),
            Step::Close | Step::Never => return None,
        }
    }
    (q == BODY).then_some((n, classes))
}

impl<'a> Trie<'a> {
    /// Fills `memory`, laid out for the same vocabulary. `None` where there is
    /// too little, as from a measuring space.
    ///
    /// Sorts the vocabulary: some hundred milliseconds for 150,000 tokens.
    pub fn build(tokenizer: &Tokenizer<'_>, memory: TrieMemory<'a>) -> Option<Self> {
        let TrieMemory { ids, at, shared, chars, classes, bytes, plain_ids } = memory;
        plain_ids.fill(0);
        let (mut front, mut back) = (0, ids.len());
        for id in text_tokens(tokenizer) {
            if front == back {
                return None;
            }
            if plain_chars(tokenizer.bytes(id, false)).is_some() {
                ids[front] = id;
                front += 1;
                *plain_ids.get_mut(id as usize / 32)? |= 1 << (id % 32);
            } else {
                back -= 1;
                ids[back] = id;
            }
        }
        // What was planned by the most there can be has room in the middle.
        let n = front + (ids.len() - back);
        ids.copy_within(back.., front);
        let ids = &mut ids[..n];
        if at.len() <= n || shared.len() < n || chars.len() < n || classes.len() < n {
            return None;
        }
        let (plain, odd) = ids.split_at_mut(front);
        for list in [plain, odd] {
            list.sort_unstable_by(|&a, &b| {
                tokenizer.bytes(a, false).cmp(tokenizer.bytes(b, false)).then(a.cmp(&b))
            });
        }
        let mut used = 0;
        for i in 0..ids.len() {
            let new = || tokenizer.bytes(ids[i], false);
            let same = match i.checked_sub(1).filter(|_| i != front) {
                Some(before) => {
                    tokenizer.bytes(ids[before], false).zip(new()).take_while(|(a, b)| a == b).count()
                }
                None => 0,
            };
            (at[i], shared[i]) = (used as u32, same as u8);
            (chars[i], classes[i]) = plain_chars(new()).unwrap_or((u8::MAX, Classes::MAX));
            for b in new() {
                *bytes.get_mut(used)? = b;
                used += 1;
            }
        }
        at[ids.len()] = used as u32;
        let mut trie = Self {
            ids,
            at,
            shared,
            chars,
            classes,
            bytes: &bytes[..used],
            plain_ids,
            plain: front,
            ends: [0; ENDS],
            n_ends: 0,
        };
        for id in (0..tokenizer.vocab_len() as u32).filter(|&id| tokenizer.is_end(id)).take(ENDS) {
            trie.ends[trie.n_ends] = id;
            trie.n_ends += 1;
        }
        Some(trie)
    }

    /// Tokens that stand for text.
    pub fn len(&self) -> usize {
        self.ids.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.ids.is_empty()
    }

    /// Tokens that end a text.
    pub(super) fn ends(&self) -> &[u32] {
        &self.ends[..self.n_ends]
    }

    /// The text of token number `i`.
    pub(super) fn text(&self, i: usize) -> &'a [u8] {
        self.bytes.get(self.at[i] as usize..self.at[i + 1] as usize).unwrap_or(&[])
    }

    /// The first token of `from..to` that shares fewer than `depth` bytes with
    /// the one before it: those before have `depth` bytes in common with the one
    /// before `from`.
    pub(super) fn past(&self, from: usize, to: usize, depth: usize) -> usize {
        let Some(shared) = self.shared.get(from..to) else { return to };
        let less = |s: &u8| usize::from(*s) < depth;
        // Most often it is near; else whole runs are looked at together.
        if let Some(at) = shared.iter().take(8).position(less) {
            return from + at;
        }
        let blocks = shared.chunks(32).take_while(|c| c.iter().filter(|s| less(s)).count() == 0).count();
        let at = (blocks * 32).min(shared.len());
        from + shared[at..].iter().position(less).map_or(shared.len() - at, |more| more) + at
    }

    /// The longest token that `text` begins with, and the tokens, if any, that
    /// begin with all of `text` and go on: numbers in order, for the plain and
    /// the other tokens.
    pub(super) fn longest(
        &self,
        tokenizer: &Tokenizer<'_>,
        text: &[u8],
    ) -> (Option<(u32, usize)>, [core::ops::Range<usize>; 2]) {
        let mut best: Option<(u32, usize)> = None;
        let mut beyond = [0..0, 0..0];
        for (which, list) in [0..self.plain, self.plain..self.ids.len()].into_iter().enumerate() {
            let mut range = list;
            for depth in 0..=text.len() {
                // Those that have ended sort first; of equals the lowest id.
                let ended = range.start;
                let byte =
                    |i: usize| tokenizer.bytes(self.ids[i], false).nth(depth).map_or(0, |b| u16::from(b) + 1);
                let find = |from: usize, to: usize, least: u16| {
                    from + partition(to - from, |i| byte(from + i) < least)
                };
                range.start = find(range.start, range.end, 1);
                if range.start > ended && best.is_none_or(|b| b.1 < depth) {
                    best = Some((self.ids[ended], depth));
                }
                let Some(&b) = text.get(depth) else {
                    beyond[which] = range.clone();
                    break;
                };
                let from = find(range.start, range.end, u16::from(b) + 1);
                range = from..find(from, range.end, u16::from(b) + 2);
                if range.is_empty() {
                    break;
                }
            }
        }
        (best, beyond)
    }
}

/// The first of `n` numbers of which `before` does not hold.
fn partition(n: usize, before: impl Fn(usize) -> bool) -> usize {
    let (mut low, mut high) = (0, n);
    while low < high {
        let mid = low + (high - low) / 2;
        if before(mid) { low = mid + 1 } else { high = mid }
    }
    low
}
