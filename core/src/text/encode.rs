//! Text to tokens.

use super::build::{NONE, kind, may_merge};
use super::codec::{Codec, Piece, SPACE_MARK};
use super::error::TextError;
use super::merge::{NEVER, Start, merge, scratch_for};
use super::pre::Pre;
use super::vocab::Merges;
use super::{Model, Tokenizer, keys};

/// Whether a token is put before or after the text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Add {
    /// As the model was trained.
    #[default]
    Auto,
    /// Whatever the model says.
    Always,
    /// Whatever the model says.
    Never,
}

/// How to encode.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Encode {
    /// The token that begins a text.
    pub bos: Add,
    /// The token that ends a text.
    pub eos: Add,
    /// Whether texts like `<|im_end|>` become the control tokens they name. Set
    /// it for templates that you wrote, not for text from outside.
    pub parse_special: bool,
}

impl Encode {
    /// Neither BOS nor EOS, no special tokens: the text and nothing else.
    pub const PLAIN: Encode = Encode { bos: Add::Never, eos: Add::Never, parse_special: false };
}

/// Tokens being written. Counts on where they no longer fit, to say how many
/// there are.
struct Sink<'o> {
    out: &'o mut [u32],
    len: usize,
}

impl Sink<'_> {
    fn push(&mut self, id: u32) {
        if let Some(slot) = self.out.get_mut(self.len) {
            *slot = id;
        }
        self.len += 1;
    }

    fn done(self) -> Result<usize, TextError> {
        let (need, have) = (self.len, self.out.len());
        if need > have { Err(TextError::Out { need: need as u64, have: have as u64 }) } else { Ok(need) }
    }
}

/// Words of scratch with which [`Tokenizer::encode`] takes any text of `bytes`
/// bytes. Usual text needs only as much as its longest word.
pub const fn scratch_len(bytes: usize) -> usize {
    scratch_for(bytes.saturating_add(1))
}

impl<'a> Tokenizer<'a> {
    /// Encodes `text`, which need not be UTF-8, and returns the number of
    /// tokens written to `out`. A token takes at least a byte of text, BOS and
    /// EOS and SentencePiece's leading spaces aside.
    ///
    /// Errors when `scratch` is too small ([`scratch_len`]) or `out` is (the
    /// error has the exact count), when BOS or EOS is asked for and the model
    /// has none, or when the vocabulary has no token for a byte.
    ///
    /// Time is O(n log n) for any text, words of any length included.
    pub fn encode(
        &self,
        text: &[u8],
        how: Encode,
        scratch: &mut [u32],
        out: &mut [u32],
    ) -> Result<usize, TextError> {
        let mut sink = Sink { out, len: 0 };
        self.add(how.bos, self.add_bos, self.bos, keys::BOS, &mut sink)?;
        self.encode_text(text, how.parse_special, true, scratch, &mut sink)?;
        self.add(how.eos, self.add_eos, self.eos, keys::EOS, &mut sink)?;
        sink.done()
    }

    /// Text in which special tokens may stand; `all` of them or only those that
    /// are text.
    fn encode_text(
        &self,
        text: &[u8],
        all: bool,
        first: bool,
        scratch: &mut [u32],
        sink: &mut Sink<'_>,
    ) -> Result<(), TextError> {
        let (mut at, mut after_special) = (0, first);
        loop {
            let kind = |id| kind(&self.vocab, &self.ends, id);
            let special = self.specials.next(&self.vocab, kind, text, at, all);
            let end = special.map_or(text.len(), |s| s.from);
            if end > at {
                self.fragment(&text[at..end], after_special, scratch, sink)?;
            }
            let Some(special) = special else { break };
            sink.push(special.id);
            at = special.to;
            at += self.stripped_after(Some(special.id), &text[at..]);
            after_special = true;
        }
        Ok(())
    }

    /// The first special token that `text` names, and where its text stands.
    pub fn find_special(&self, text: &[u8]) -> Option<(u32, core::ops::Range<usize>)> {
        let kind = |id| kind(&self.vocab, &self.ends, id);
        let found = self.specials.next(&self.vocab, kind, text, 0, true)?;
        Some((found.id, found.from..found.to))
    }

    /// Encodes text that goes on after another, or, where `first`, that begins a
    /// text or follows a special token. Nothing in it is a control token, and
    /// neither BOS nor EOS is added. Otherwise as [`Tokenizer::encode`].
    pub fn encode_piece(
        &self,
        text: &[u8],
        first: bool,
        scratch: &mut [u32],
        out: &mut [u32],
    ) -> Result<usize, TextError> {
        let mut sink = Sink { out, len: 0 };
        self.encode_text(text, false, first, scratch, &mut sink)?;
        sink.done()
    }

    /// How many bytes of `text`, which follows special token `after`, the
    /// tokenizer passes over.
    pub fn stripped_after(&self, after: Option<u32>, text: &[u8]) -> usize {
        match after.is_some_and(|id| self.strips_after(id)) {
            true => text.iter().take_while(|b| matches!(b, 9..=13 | b' ')).count(),
            false => 0,
        }
    }

    /// Whether a space is put before texts.
    pub fn adds_space(&self) -> bool {
        matches!(self.model, Model::Spm { space_prefix: true, .. })
    }

    fn add(
        &self,
        how: Add,
        auto: bool,
        id: Option<u32>,
        key: &'static str,
        sink: &mut Sink<'_>,
    ) -> Result<(), TextError> {
        if how == Add::Always || how == Add::Auto && auto {
            sink.push(id.ok_or(TextError::NoId { key })?);
        }
        Ok(())
    }

    fn strips_after(&self, id: u32) -> bool {
        const KEEP: [&[u8]; 3] = [b"<unk>", b"<s>", b"<|endoftext|>"];
        self.strip_after_special && !KEEP.contains(&self.vocab.text(id))
    }

    /// Encodes text without special tokens.
    fn fragment(
        &self,
        text: &[u8],
        first: bool,
        scratch: &mut [u32],
        sink: &mut Sink<'_>,
    ) -> Result<(), TextError> {
        match self.model {
            Model::Spm { space_prefix, words_apart } => {
                let piece = Piece { space: space_prefix && first, text };
                self.spm(piece, words_apart, scratch, sink)
            }
            Model::Bpe { pre, merges, .. } => self.bpe(text, pre, &merges, scratch, sink),
        }
    }

    fn spm(
        &self,
        piece: Piece<'_>,
        words_apart: bool,
        scratch: &mut [u32],
        sink: &mut Sink<'_>,
    ) -> Result<(), TextError> {
        let key = |whole: Piece<'_>, _| {
            let id = self.vocab.find_piece(whole).filter(|&id| may_merge(&self.vocab, &self.ends, id));
            id.map_or(NEVER, |id| self.vocab.merge_key(id))
        };
        let mut rest = piece;
        while rest.len() > 0 {
            let end = if words_apart { word_end(rest) } else { rest.len() };
            let word = rest.part(0, end);
            rest = rest.part(end, rest.len());
            merge(word, Start::Char, scratch, key, |symbol| self.push_symbol(symbol, sink))?;
        }
        Ok(())
    }

    fn bpe(
        &self,
        text: &[u8],
        pre: &Pre,
        merges: &Merges<'a>,
        scratch: &mut [u32],
        sink: &mut Sink<'_>,
    ) -> Result<(), TextError> {
        for text in pre.words(text) {
            let word = Piece { space: false, text };
            if pre.whole_words && self.push_known(word, sink) {
                continue;
            }
            let key = |whole: Piece<'_>, mid| merges.key(whole, mid).unwrap_or(NEVER);
            merge(word, Start::Byte, scratch, key, |symbol| self.push_symbol(symbol, sink))?;
        }
        Ok(())
    }

    /// Pushes the token that `piece` is, where it is one.
    fn push_known(&self, piece: Piece<'_>, sink: &mut Sink<'_>) -> bool {
        let id = self.vocab.find_piece(piece).filter(|&id| may_merge(&self.vocab, &self.ends, id));
        id.inspect(|&id| sink.push(id)).is_some()
    }

    /// Pushes a merged symbol: its token, else its bytes one by one, else the
    /// unknown token once. A merge whose result is not in the vocabulary thus
    /// falls apart into bytes, as in llama.cpp.
    fn push_symbol(&self, symbol: Piece<'_>, sink: &mut Sink<'_>) -> Result<(), TextError> {
        if self.push_known(symbol, sink) {
            return Ok(());
        }
        // The space that a prefix adds is spelled U+2581, not 0x20.
        let spelled_space = self.vocab.codec == Codec::Spm && (symbol.space || symbol.text == b" ");
        let bytes = if spelled_space { SPACE_MARK } else { symbol.text };
        let token = |b: u8| self.bytes[usize::from(b)];
        match bytes.iter().find(|&&b| token(b) == NONE) {
            None => bytes.iter().for_each(|&b| sink.push(token(b))),
            Some(&byte) => sink.push(self.unknown.ok_or(TextError::NoToken { byte })?),
        }
        Ok(())
    }
}

/// Where the first word of `piece` ends: before the first space that does not
/// follow another, however that is written.
fn word_end(piece: Piece<'_>) -> usize {
    let starts = |i: usize| {
        let (before, after) = piece.text.split_at(i);
        after[0] == b' ' && before.last() != Some(&b' ') && !before.ends_with(SPACE_MARK)
    };
    let end = (1..piece.text.len()).find(|&i| starts(i)).unwrap_or(piece.text.len());
    end + usize::from(piece.space)
}
