//! The vocabulary: texts by id and ids by text, both read where they lie in
//! the model file.

use super::codec::{Codec, Hash, Piece, byte_named};
use super::error::TextError;
use super::keys;
use super::slots::Slots;
use crate::gguf::{Array, Gguf, ValueType};

/// What a token is for (`tokenizer.ggml.token_type`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TokenKind {
    /// Part of ordinary text.
    Normal,
    /// Stands for what the vocabulary cannot write.
    Unknown,
    /// Steers the model, for example "end of text"; not part of any text.
    Control,
    /// Ordinary text that is never cut.
    UserDefined,
    /// Reserved.
    Unused,
    /// One byte, written `<0xNN>`.
    Byte,
}

/// The text at offset `at` of an array of strings. Offsets come from walking
/// the same array, which its reader has proven.
pub(super) fn text_at(strings: &[u8], at: u32) -> &[u8] {
    let text = || {
        let at = at as usize;
        let len = strings.get(at.checked_sub(8)?..at)?;
        let len = u64::from_le_bytes(len.try_into().ok()?);
        strings.get(at..at.checked_add(usize::try_from(len).ok()?)?)
    };
    text().unwrap_or(&[])
}

/// Texts and properties of the tokens.
#[derive(Clone, Copy)]
pub(super) struct Vocab<'a> {
    pub(super) codec: Codec,
    tokens: Array<'a>,
    types: Option<Array<'a>>,
    scores: Option<Array<'a>>,
    /// Where each token's text lies in `tokens`.
    offsets: &'a [u32],
    slots: Option<Slots<'a>>,
    /// Bytes of the longest text.
    longest: usize,
}

impl<'a> Vocab<'a> {
    /// The arrays of a file, checked against each other; nothing can be found
    /// by text yet.
    pub(super) fn read(gguf: &Gguf<'a>, codec: Codec) -> Result<Self, TextError> {
        let tokens = gguf.array_of(keys::TOKENS, ValueType::Str)?;
        let tokens = tokens.ok_or(TextError::Missing { key: keys::TOKENS })?;
        if tokens.is_empty() {
            return Err(TextError::Empty);
        }
        let (n, bytes) = (u32::try_from(tokens.len()), u32::try_from(tokens.bytes().len()));
        if n.is_err() || bytes.is_err() {
            return Err(TextError::TooLarge { key: keys::TOKENS });
        }
        let per_token = |key, types: &[ValueType], wanted| {
            let Some(array) = gguf.array(key)? else { return Ok(None) };
            if !types.contains(&array.item_type()) {
                return Err(TextError::Items { key, wanted });
            }
            let (need, have) = (tokens.len(), array.len());
            if have < need { Err(TextError::Short { key, need, have }) } else { Ok(Some(array)) }
        };
        let integers = [ValueType::I32, ValueType::U32];
        Ok(Self {
            codec,
            tokens,
            types: per_token(keys::TYPES, &integers, "32-bit integers")?,
            scores: per_token(keys::SCORES, &[ValueType::F32], "f32")?,
            offsets: &[],
            slots: None,
            longest: 0,
        })
    }

    /// Makes texts findable. `offsets` has one word per token.
    pub(super) fn index(&mut self, offsets: &'a mut [u32], slots: &'a mut [u32]) -> Result<(), TextError> {
        let strings = self.tokens.strings().ok_or(TextError::Tables)?;
        if offsets.len() != strings.len() {
            return Err(TextError::Tables);
        }
        for (slot, (at, text)) in offsets.iter_mut().zip(strings) {
            // No loss: `read` has checked that the array is below 4 GiB.
            *slot = at as u32;
            self.longest = self.longest.max(text.len());
        }
        self.offsets = offsets;
        let mut filling = Slots::clear(slots, self.len() as u32).ok_or(TextError::Tables)?;
        for second in 0..self.len() as u32 {
            let text = self.text(second);
            // Files may have empty tokens; they never match and may repeat.
            if text.is_empty() {
                continue;
            }
            if let Some(first) = filling.insert(Hash::of(text), second, |id| self.text(id) == text)? {
                return Err(TextError::Duplicate { first, second });
            }
        }
        self.slots = Some(filling.done());
        Ok(())
    }

    pub(super) fn len(&self) -> usize {
        self.tokens.len()
    }

    /// Bytes of all texts; each has its length before it.
    pub(super) fn texts_len(&self) -> usize {
        self.tokens.bytes().len().saturating_sub(8 * self.len())
    }

    /// The text of token `id` as the file has it; empty outside the vocabulary.
    pub(super) fn text(&self, id: u32) -> &'a [u8] {
        self.offsets.get(id as usize).map_or(&[], |&at| text_at(self.tokens.bytes(), at))
    }

    /// The same as a string.
    pub(super) fn str(&self, id: u32) -> Option<&'a str> {
        self.offsets.get(id as usize).map(|&at| self.tokens.string_at(at as usize))
    }

    /// The token with exactly this text.
    pub(super) fn find(&self, text: &[u8]) -> Option<u32> {
        self.slots?.find(Hash::of(text), |id| self.text(id) == text)
    }

    /// The token whose text spells `piece`.
    pub(super) fn find_piece(&self, piece: Piece<'_>) -> Option<u32> {
        // A spelling is never shorter than what it spells.
        if piece.len() > self.longest {
            return None;
        }
        let mut hash = Hash::new();
        self.codec.hash(&mut hash, piece);
        let is = |id| self.codec.strip(self.text(id), piece).is_some_and(|rest| rest.is_empty());
        self.slots?.find(hash.finish(), is)
    }

    /// What the file says token `id` is for. Without types, everything is
    /// normal but what SentencePiece writes as a byte.
    pub(super) fn kind(&self, id: u32) -> TokenKind {
        let Some(types) = self.types else {
            let byte = self.codec == Codec::Spm && byte_named(self.text(id)).is_some();
            return if byte { TokenKind::Byte } else { TokenKind::Normal };
        };
        let i = id as usize;
        match types.i32_at(i).or_else(|| types.u32_at(i).map(|t| t as i32)) {
            Some(2) => TokenKind::Unknown,
            Some(3) => TokenKind::Control,
            Some(4) => TokenKind::UserDefined,
            Some(5) => TokenKind::Unused,
            Some(6) => TokenKind::Byte,
            _ => TokenKind::Normal,
        }
    }

    /// How early SentencePiece merges into token `id`: the higher its score,
    /// the lower this. Not a number counts as minus infinity.
    pub(super) fn merge_key(&self, id: u32) -> u32 {
        let score = self.scores.and_then(|s| s.f32_at(id as usize)).unwrap_or(0.0);
        // Adding zero makes minus zero equal to zero.
        let bits = if score.is_nan() { f32::NEG_INFINITY } else { score + 0.0 }.to_bits();
        if bits >> 31 == 0 { !(bits | 1 << 31) } else { bits }
    }

    /// Whether texts hold U+2581 only at their start, so that merging never
    /// reaches across the start of a word.
    pub(super) fn words_are_apart(&self, merges: impl Fn(u32) -> bool) -> bool {
        let mark = super::codec::SPACE_MARK;
        (0..self.len() as u32).filter(|&id| merges(id)).all(|id| {
            let mut text = self.text(id);
            while let Some(rest) = text.strip_prefix(mark) {
                text = rest;
            }
            text.len() < mark.len() || text.windows(mark.len()).all(|w| w != mark)
        })
    }
}

/// The merges of byte-level BPE. A merge's offset in its array stands for its
/// rank: both rise together.
#[derive(Clone, Copy)]
pub(super) struct Merges<'a> {
    strings: &'a [u8],
    slots: Slots<'a>,
    longest: usize,
}

impl<'a> Merges<'a> {
    /// The array of a file.
    pub(super) fn array(gguf: &Gguf<'a>) -> Result<Array<'a>, TextError> {
        let merges = gguf.array_of(keys::MERGES, ValueType::Str)?;
        let merges = merges.ok_or(TextError::Missing { key: keys::MERGES })?;
        let fits = u32::try_from(merges.bytes().len()).is_ok();
        if fits { Ok(merges) } else { Err(TextError::TooLarge { key: keys::MERGES }) }
    }

    /// Makes merges findable. Of equal ones the first counts.
    pub(super) fn index(merges: Array<'a>, slots: &'a mut [u32]) -> Result<Self, TextError> {
        let strings = merges.bytes();
        let mut filling = Slots::clear(slots, strings.len() as u32).ok_or(TextError::Tables)?;
        let mut longest = 0;
        for (rank, (at, text)) in merges.strings().ok_or(TextError::Tables)?.enumerate() {
            let text = text.as_bytes();
            longest = longest.max(text.len());
            // Neither side may be empty.
            if !text.get(1..text.len().saturating_sub(1)).is_some_and(|t| t.contains(&b' ')) {
                return Err(TextError::BadMerge { rank });
            }
            filling.insert(Hash::of(text), at as u32, |at| text_at(strings, at) == text)?;
        }
        Ok(Self { strings, slots: filling.done(), longest })
    }

    /// How early `whole[..mid]` and `whole[mid..]` merge, lower first.
    pub(super) fn key(&self, whole: Piece<'_>, mid: usize) -> Option<u32> {
        // A spelling is never shorter than what it spells.
        if whole.len() >= self.longest {
            return None;
        }
        let (left, right) = (whole.part(0, mid), whole.part(mid, whole.len()));
        let mut hash = Hash::new();
        Codec::ByteLevel.hash(&mut hash, left);
        hash.add(b" ");
        Codec::ByteLevel.hash(&mut hash, right);
        self.slots.find(hash.finish(), |at| {
            let rest = Codec::ByteLevel.strip(text_at(self.strings, at), left);
            let rest = rest.and_then(|r| r.strip_prefix(b" "));
            rest.and_then(|r| Codec::ByteLevel.strip(r, right)).is_some_and(|r| r.is_empty())
        })
    }
}
