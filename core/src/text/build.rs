//! From a model file to a tokenizer: measure, lay out, fill.

use super::codec::Codec;
use super::error::TextError;
use super::pre::{self, Pre};
use super::slots::slots_for;
use super::special::{Ends, MOST_ENDS, Specials, is_special};
use super::vocab::{Merges, TokenKind, Vocab};
use super::{Model, Tokenizer, keys};
use crate::Name;
use crate::arena::{ArenaFull, Space};
use crate::gguf::Gguf;
use crate::plan::Part;

/// How much memory a vocabulary's tables take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sizes {
    tokens: usize,
    token_slots: usize,
    merge_slots: usize,
    specials: usize,
    /// Bytes of all tokens' texts.
    texts: usize,
}

impl Sizes {
    /// Measures the vocabulary of a file.
    ///
    /// Errors where the file has no tokenizer that we know or its arrays do not
    /// fit each other.
    pub fn of(gguf: &Gguf<'_>) -> Result<Self, TextError> {
        let codec = codec(gguf)?;
        let vocab = Vocab::read(gguf, codec)?;
        let slots = |n, key| slots_for(n).ok_or(TextError::TooLarge { key });
        let merge_slots = match codec {
            Codec::Spm => 0,
            Codec::ByteLevel => slots(Merges::array(gguf)?.len(), keys::MERGES)?,
        };
        let specials = (0..vocab.len() as u32).filter(|&id| is_special(vocab.kind(id))).count();
        Ok(Self {
            tokens: vocab.len(),
            token_slots: slots(vocab.len(), keys::TOKENS)?,
            merge_slots,
            specials: specials.saturating_add(MOST_ENDS),
            texts: vocab.texts_len(),
        })
    }

    /// Tokens, and bytes of their texts: no fewer than those they stand for.
    pub(crate) fn texts(&self) -> (usize, usize) {
        (self.tokens, self.texts)
    }
}

/// Memory for a tokenizer, not yet filled.
#[derive(Debug)]
pub struct Tables<'a> {
    offsets: &'a mut [u32],
    tokens: &'a mut [u32],
    merges: &'a mut [u32],
    specials: &'a mut [u32],
    bytes: &'a mut [u32],
}

impl<'a> Tables<'a> {
    /// Takes what `sizes` asks for.
    pub fn lay_out(space: &mut impl Space<'a>, sizes: &Sizes) -> Result<Self, ArenaFull> {
        let mut take = |name, n| space.take::<u32>(Part::Tokenizer, name, n);
        Ok(Self {
            offsets: take("token offsets", sizes.tokens)?,
            tokens: take("token look-up", sizes.token_slots)?,
            merges: take("merge look-up", sizes.merge_slots)?,
            specials: take("special tokens", sizes.specials)?,
            bytes: take("byte tokens", 256)?,
        })
    }
}

/// No token.
pub(super) const NONE: u32 = u32::MAX;

impl<'a> Tokenizer<'a> {
    /// Fills `tables`, which must have been laid out for the same file.
    ///
    /// Takes time linear in the vocabulary. Errors where the file's vocabulary
    /// contradicts itself; see [`TextError`].
    pub fn build(gguf: &Gguf<'a>, tables: Tables<'a>) -> Result<Self, TextError> {
        let codec = codec(gguf)?;
        let mut vocab = Vocab::read(gguf, codec)?;
        vocab.index(tables.offsets, tables.tokens)?;
        let ids = Ids::read(gguf, codec, vocab.len())?;
        let mut ends = Ends::by_text(&vocab);
        ids.ends.into_iter().for_each(|id| ends.add(id));
        let specials = Specials::collect(&vocab, |id| kind(&vocab, &ends, id), tables.specials)?;
        let (model, add_bos) = model(gguf, &vocab, &ends, tables.merges)?;
        let bytes = byte_tokens(&vocab, &ends, tables.bytes)?;
        Ok(Self {
            vocab,
            model,
            specials,
            ends,
            bytes,
            bos: ids.bos,
            eos: ids.eos,
            unknown: ids.unknown,
            add_bos: added(gguf, keys::ADD_BOS, keys::BOS, ids.bos, add_bos)?,
            add_eos: added(gguf, keys::ADD_EOS, keys::EOS, ids.eos, false)?,
            strip_after_special: gguf.str(keys::NAME)?.is_some_and(is_phi3),
        })
    }
}

fn codec(gguf: &Gguf<'_>) -> Result<Codec, TextError> {
    match gguf.str(keys::MODEL)?.ok_or(TextError::Missing { key: keys::MODEL })? {
        "llama" => Ok(Codec::Spm),
        "gpt2" => Ok(Codec::ByteLevel),
        other => Err(TextError::Model(Name::new(other))),
    }
}

/// What token `id` is for. Some files type the tokens that end a turn as
/// ordinary text; their texts tell.
pub(super) fn kind(vocab: &Vocab<'_>, ends: &Ends, id: u32) -> TokenKind {
    if ends.is_named(id) { TokenKind::Control } else { vocab.kind(id) }
}

/// Whether merging plain text may give token `id`. Text from outside must not
/// become a control token unless the caller asks for that, and what is
/// user-defined has been cut out before.
pub(super) fn may_merge(vocab: &Vocab<'_>, ends: &Ends, id: u32) -> bool {
    matches!(kind(vocab, ends, id), TokenKind::Normal | TokenKind::Unused)
}

/// The model with its tables, and whether it adds BOS where the file does not
/// say.
fn model<'a>(
    gguf: &Gguf<'a>,
    vocab: &Vocab<'a>,
    ends: &Ends,
    merges: &'a mut [u32],
) -> Result<(Model<'a>, bool), TextError> {
    if vocab.codec == Codec::Spm {
        let space_prefix = gguf.bool(keys::SPACE_PREFIX)?.unwrap_or(true);
        let words_apart = vocab.words_are_apart(|id| may_merge(vocab, ends, id));
        return Ok((Model::Spm { space_prefix, words_apart }, true));
    }
    let name = gguf.str(keys::PRE)?;
    let pre = Pre::named(name.unwrap_or(pre::DEFAULT));
    let pre = pre.ok_or(TextError::Pre(Name::new(name.unwrap_or_default())))?;
    let merges = Merges::index(Merges::array(gguf)?, merges)?;
    Ok((Model::Bpe { pre, assumed: name.is_none(), merges }, pre.add_bos))
}

/// The ids of special tokens that a file gives.
struct Ids {
    bos: Option<u32>,
    eos: Option<u32>,
    unknown: Option<u32>,
    ends: [Option<u32>; 6],
}

impl Ids {
    fn read(gguf: &Gguf<'_>, codec: Codec, tokens: usize) -> Result<Self, TextError> {
        let id = |key| match gguf.u32(key)? {
            Some(id) if id as usize >= tokens => Err(TextError::BadId { key, id, tokens }),
            id => Ok(id),
        };
        // SentencePiece's own defaults; byte-level BPE has none.
        let or = |id: Option<u32>, spm| {
            id.or((codec == Codec::Spm).then_some(spm)).filter(|&id| (id as usize) < tokens)
        };
        let (bos, eos, unknown) = (or(id(keys::BOS)?, 1), or(id(keys::EOS)?, 2), or(id(keys::UNKNOWN)?, 0));
        let ends =
            [eos, id(keys::EOT)?, id(keys::EOM)?, id(keys::FIM_PAD)?, id(keys::FIM_REP)?, id(keys::FIM_SEP)?];
        Ok(Self { bos, eos, unknown, ends })
    }
}

/// Whether a token is added to every text. A file that asks for one must name
/// it; a default that cannot be met is dropped.
fn added(
    gguf: &Gguf<'_>,
    flag: &'static str,
    key: &'static str,
    id: Option<u32>,
    default: bool,
) -> Result<bool, TextError> {
    match gguf.bool(flag)? {
        Some(true) if id.is_none() => Err(TextError::NoId { key }),
        Some(add) => Ok(add),
        None => Ok(default && id.is_some()),
    }
}

/// The token of each single byte.
fn byte_tokens<'a>(vocab: &Vocab<'a>, ends: &Ends, table: &'a mut [u32]) -> Result<&'a [u32], TextError> {
    if table.len() != 256 {
        return Err(TextError::Tables);
    }
    const HEX: &[u8; 16] = b"0123456789ABCDEF";
    for (b, slot) in (0..=255u8).zip(table.iter_mut()) {
        let byte = [b];
        let plain = || {
            let piece = super::codec::Piece { space: false, text: &byte };
            vocab.find_piece(piece).filter(|&id| may_merge(vocab, ends, id))
        };
        let named = [b'<', b'0', b'x', HEX[usize::from(b >> 4)], HEX[usize::from(b & 15)], b'>'];
        let found = match vocab.codec {
            Codec::Spm => vocab.find(&named).or_else(plain),
            Codec::ByteLevel => plain(),
        };
        *slot = found.unwrap_or(NONE);
    }
    Ok(table)
}

/// Phi-3's special tokens swallow the white space after them. GGUF has no key
/// for it, so llama.cpp goes by the model's name, and so do we.
fn is_phi3(name: &str) -> bool {
    let has =
        |part: &str| name.as_bytes().windows(part.len()).any(|w| w.eq_ignore_ascii_case(part.as_bytes()));
    has("phi-3") || has("phi3")
}
