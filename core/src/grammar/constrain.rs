//! A grammar over the tokens of a vocabulary.

use super::Grammar;
use super::mask::{MaskMemory, Masks};
use super::matcher::{Matcher, NoEnd};
use super::trie::{self, Trie};
use crate::sample::Constraint;
use crate::text::{Tokenizer, scratch_len};

/// Most bytes of forced text looked at at once.
const FORCED: usize = 192;

/// Most tokens looked at to see whether one goes on past forced text.
const BEYOND: usize = 256;

/// Keeps a text of tokens within a grammar: what a generator asks.
///
/// # How tokens and bytes meet
/// A token may come when all its bytes may. Tokens that end the text may come
/// where the text may end; other control tokens only while it is free.
///
/// Text that the grammar forces is cut into tokens as the tokenizer does it, so
/// that the model reads it as in its training. From where the vocabulary has a
/// token that goes on past the forced text and may come, the choice is the
/// model's.
pub struct Constrained<'a> {
    matcher: Matcher<'a>,
    trie: Trie<'a>,
    tokenizer: Tokenizer<'a>,
    masks: Masks<'a>,
}

/// What masks cost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MaskCounts {
    /// Masks made.
    pub made: u32,
    /// Masks that were there already.
    pub found: u32,
}

impl<'a> Constrained<'a> {
    /// A text at its start. All must belong to the same vocabulary.
    pub fn new(
        matcher: Matcher<'a>,
        trie: Trie<'a>,
        tokenizer: Tokenizer<'a>,
        masks: MaskMemory<'a>,
    ) -> Self {
        Self { matcher, trie, tokenizer, masks: Masks::new(masks) }
    }

    /// Begins a new text of the same grammar; masks are kept.
    pub fn restart(&mut self) {
        self.matcher.restart();
    }

    /// Begins a text of another grammar.
    pub fn restart_with(&mut self, grammar: Grammar<'a>) {
        self.matcher.restart_with(grammar);
        self.masks.clear();
    }

    /// Where the text stands.
    pub fn matcher(&mut self) -> &mut Matcher<'a> {
        &mut self.matcher
    }

    /// What masks cost so far.
    pub fn counts(&self) -> MaskCounts {
        MaskCounts { made: self.masks.made, found: self.masks.found }
    }

    /// The tokens that may come next, a bit each. Empty over a measuring space.
    pub fn mask(&mut self) -> &[u32] {
        self.masks.of(&mut self.matcher, &self.trie)
    }

    /// Whether the text has ended: nothing may follow but a token that says so.
    pub fn is_complete(&self) -> bool {
        self.matcher.is_complete()
    }

    /// Fewest bytes to the end, which is also the most tokens that the shortest
    /// end takes.
    pub fn min_left(&mut self) -> usize {
        self.matcher.min_left()
    }

    /// Ends the text: writes the tokens of the shortest end to `out` and takes
    /// them. Where there is no room nothing changes.
    ///
    /// For a generation that has used up its tokens: these need not be
    /// evaluated, only shown.
    pub fn close(&mut self, out: &mut [u32]) -> Result<usize, NoEnd> {
        let need = self.matcher.min_left();
        if need > out.len() {
            return Err(NoEnd { need, have: out.len() });
        }
        let mut n = 0;
        while !self.matcher.can_end() {
            let mut bytes = [0; FORCED];
            let len = self.matcher.close_some(&mut bytes);
            let (mut at, text) = (0, &bytes[..len]);
            let stuck = NoEnd { need, have: n };
            if text.is_empty() {
                return Err(stuck);
            }
            while at < text.len() {
                let (best, _) = self.trie.longest(&self.tokenizer, &text[at..]);
                let (Some((id, len)), Some(slot)) = (best, out.get_mut(n)) else { return Err(stuck) };
                *slot = id;
                (at, n) = (at + len, n + 1);
            }
        }
        Ok(n)
    }

    /// Whether a token may come at `at` that goes on past the forced `text`.
    /// `text[..at]` is taken as said.
    fn goes_on(&mut self, text: &[u8], at: usize) -> bool {
        let (_, beyond) = self.trie.longest(&self.tokenizer, &text[at..]);
        let rest = text.len() - at;
        let (trie, tokenizer) = (&self.trie, &self.tokenizer);
        let longer = beyond.into_iter().flatten().take(BEYOND);
        let mut more = longer.map(|i| tokenizer.bytes(trie.ids[i], false).skip(rest));
        self.matcher.any_after(text, &mut more)
    }

    /// Cuts at most [`FORCED`] bytes of text into tokens: as the tokenizer does
    /// it where that says the very text, else greedily, longest first.
    fn cut(&self, text: &[u8], out: &mut [u32; FORCED]) -> usize {
        let mut scratch = [0; scratch_len(FORCED)];
        if let Ok(n) = self.tokenizer.encode_piece(text, false, &mut scratch, out) {
            let ids = out[..n].iter();
            let plain = ids.clone().all(|&id| trie::is_text(&self.tokenizer, id));
            if plain && ids.flat_map(|&id| self.tokenizer.bytes(id, false)).eq(text.iter().copied()) {
                return n;
            }
        }
        let (mut at, mut n) = (0, 0);
        while at < text.len() {
            let (best, _) = self.trie.longest(&self.tokenizer, &text[at..]);
            let (Some((id, len)), Some(slot)) = (best, out.get_mut(n)) else { break };
            *slot = id;
            (at, n) = (at + len, n + 1);
        }
        n
    }
}

impl Constraint for Constrained<'_> {
    fn allows(&mut self, id: u32) -> bool {
        if self.tokenizer.is_end(id) {
            return self.matcher.can_end();
        }
        if trie::is_text(&self.tokenizer, id) {
            return self.matcher.accepts(self.tokenizer.bytes(id, false));
        }
        (id as usize) < self.tokenizer.vocab_len() && self.matcher.is_free()
    }

    fn forbid(&mut self, logits: &mut [f32]) {
        let mask = self.masks.of(&mut self.matcher, &self.trie);
        for (i, logits) in logits.chunks_mut(32).enumerate() {
            let word = mask.get(i).copied().unwrap_or(0);
            if word != u32::MAX {
                for (bit, logit) in logits.iter_mut().enumerate() {
                    if word >> bit & 1 == 0 {
                        *logit = f32::NEG_INFINITY;
                    }
                }
            }
        }
    }

    fn accept(&mut self, id: u32) {
        if self.tokenizer.is_end(id) {
            return;
        }
        // A control token that a trigger names counts as that text.
        let special = self.matcher.is_free();
        self.matcher.advance_all(self.tokenizer.bytes(id, special));
    }

    fn forced(&mut self, out: &mut [u32]) -> usize {
        let mut bytes = [0; FORCED];
        let len = self.matcher.forced(&mut bytes);
        let text = &bytes[..len];
        let ended = len > 0 && self.matcher.ends_after(text);
        let mut ids = [0; FORCED];
        let count = self.cut(text, &mut ids);
        let (mut at, mut n) = (0, 0);
        for (&id, slot) in ids[..count].iter().zip(out) {
            if !ended && self.goes_on(text, at) {
                break;
            }
            *slot = id;
            (at, n) = (at + self.tokenizer.bytes(id, false).count(), n + 1);
        }
        n
    }
}
