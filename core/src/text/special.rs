//! Special tokens: those looked for in the text itself, and those that end it.

use super::error::TextError;
use super::vocab::{TokenKind, Vocab};

/// Bytes of the longest special token that is looked for.
pub(super) const LONGEST_SPECIAL: usize = 256;

/// Tokens looked for in texts, in the order of their own texts, so that the
/// longest at a place is found by narrowing a range byte by byte.
#[derive(Clone, Copy)]
pub(super) struct Specials<'a> {
    sorted: &'a [u32],
    /// First bytes of user-defined tokens, and of all.
    always: ByteSet,
    any: ByteSet,
}

/// A special token found in a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Found {
    pub(super) id: u32,
    pub(super) from: usize,
    pub(super) to: usize,
}

impl<'a> Specials<'a> {
    /// Collects the tokens for which `kind` says so into `table`.
    pub(super) fn collect(
        vocab: &Vocab<'a>,
        kind: impl Fn(u32) -> TokenKind,
        table: &'a mut [u32],
    ) -> Result<Self, TextError> {
        let (mut n, mut always, mut any) = (0, ByteSet::default(), ByteSet::default());
        for id in 0..vocab.len() as u32 {
            let kind = kind(id);
            let text = vocab.text(id);
            let (true, Some(&first)) = (is_special(kind), text.first()) else { continue };
            if text.len() > LONGEST_SPECIAL {
                return Err(TextError::LongSpecial { id, len: text.len() });
            }
            *table.get_mut(n).ok_or(TextError::Tables)? = id;
            n += 1;
            any.add(first);
            if kind == TokenKind::UserDefined {
                always.add(first);
            }
        }
        let sorted = &mut table[..n];
        sorted.sort_unstable_by(|&a, &b| vocab.text(a).cmp(vocab.text(b)));
        Ok(Self { sorted, always, any })
    }

    /// The first special token at or after byte `at`, the longest of those that
    /// start there. Other than user-defined ones only where `all`.
    pub(super) fn next(
        &self,
        vocab: &Vocab<'a>,
        kind: impl Fn(u32) -> TokenKind,
        text: &[u8],
        at: usize,
        all: bool,
    ) -> Option<Found> {
        let firsts = if all { &self.any } else { &self.always };
        (at..text.len()).filter(|&from| firsts.has(text[from])).find_map(|from| {
            let id = self.longest(vocab, &text[from..], |id| all || kind(id) == TokenKind::UserDefined)?;
            Some(Found { id, from, to: from + vocab.text(id).len() })
        })
    }

    /// The longest allowed token that `text` starts with.
    fn longest(&self, vocab: &Vocab<'a>, text: &[u8], allowed: impl Fn(u32) -> bool) -> Option<u32> {
        let (mut range, mut best) = (self.sorted, None);
        // Tokens in `range` start with the first `depth` bytes of `text`.
        for (depth, &byte) in text.iter().enumerate() {
            let from = range.partition_point(|&id| vocab.text(id)[depth] < byte);
            let to = range.partition_point(|&id| vocab.text(id)[depth] <= byte);
            range = range.get(from..to)?;
            // Texts differ, so at most one ends here, and it sorts first.
            if let [first, rest @ ..] = range
                && vocab.text(*first).len() == depth + 1
            {
                if allowed(*first) {
                    best = Some(*first);
                }
                range = rest;
            }
            if range.is_empty() {
                break;
            }
        }
        best
    }
}

/// Whether tokens of this kind are looked for in texts.
pub(super) fn is_special(kind: TokenKind) -> bool {
    matches!(kind, TokenKind::Unknown | TokenKind::Control | TokenKind::UserDefined)
}

/// A set of bytes.
#[derive(Clone, Copy, Default)]
struct ByteSet([u64; 4]);

impl ByteSet {
    fn add(&mut self, b: u8) {
        self.0[usize::from(b >> 6)] |= 1 << (b & 63);
    }

    fn has(&self, b: u8) -> bool {
        self.0[usize::from(b >> 6)] >> (b & 63) & 1 == 1
    }
}

/// Texts of tokens that end a turn, whatever the file's ids say (the list of
/// llama.cpp, MIT, which grew with the models).
const END_TEXTS: [&str; 27] = [
    "<|eot_id|>",
    "<|im_end|>",
    "<|end|>",
    "<|return|>",
    "<|call|>",
    "<|flush|>",
    "<|calls|>",
    "<end_of_turn>",
    "<|endoftext|>",
    "</s>",
    "<|eom_id|>",
    "<EOT>",
    "_<EOT>",
    "[EOT]",
    "[EOS]",
    "<|end_of_text|>",
    "<end_of_utterance>",
    "<eos>",
    "<turn|>",
    "<｜end▁of▁sentence｜>",
    "[e~[",
    "<|fim_pad|>",
    "<fim-pad>",
    "<fim_pad>",
    "<|fim_repo|>",
    "<|repo_name|>",
    "<|file_sep|>",
];

/// Ids of `tokenizer.ggml.*` that end a turn, at most.
const END_IDS: usize = 8;

/// Room in the table of special tokens for those that only their text makes so.
pub(super) const MOST_ENDS: usize = END_TEXTS.len();

/// The tokens that end a turn.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Ends {
    /// Known by their text, ascending; these are control tokens even where the
    /// file types them otherwise.
    named: [u32; MOST_ENDS],
    names: usize,
    ids: [u32; END_IDS],
    count: usize,
}

impl Ends {
    /// Finds those known by their text.
    pub(super) fn by_text(vocab: &Vocab<'_>) -> Self {
        let mut ends = Self::default();
        let find = |text: &str| vocab.find(text.as_bytes());
        // The harmony format uses <|end|> within a turn.
        let both = |a, b| find(a).is_some() && find(b).is_some();
        let harmony =
            both("<|return|>", "<|call|>") || find("<|flush|>").is_some() && both("<|end|>", "<|calls|>");
        for id in END_TEXTS.iter().filter(|&&t| !(harmony && t == "<|end|>")).filter_map(|t| find(t)) {
            ends.named[ends.names] = id;
            ends.names += 1;
        }
        ends.named[..ends.names].sort_unstable();
        ends
    }

    /// Adds one that the file names by id; beyond [`END_IDS`] they are dropped,
    /// but there are fewer such keys.
    pub(super) fn add(&mut self, id: Option<u32>) {
        if let (Some(id), Some(slot)) = (id, self.ids.get_mut(self.count)) {
            *slot = id;
            self.count += 1;
        }
    }

    /// Whether the text of `id` makes it one.
    pub(super) fn is_named(&self, id: u32) -> bool {
        self.named[..self.names].binary_search(&id).is_ok()
    }

    /// Whether `id` ends a turn.
    pub(super) fn has(&self, id: u32) -> bool {
        self.ids[..self.count].contains(&id) || self.is_named(id)
    }
}
