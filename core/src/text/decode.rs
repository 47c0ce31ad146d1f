//! Tokens to text.

use core::fmt;

use super::class::Char;
use super::codec::{Codec, SPACE_MARK, byte_named, byte_of};
use super::error::TextError;
use super::vocab::TokenKind;
use super::{Model, Tokenizer};

/// The bytes that a token stands for, one by one.
#[derive(Clone, Debug)]
pub struct TokenBytes<'a> {
    /// What is left of the token's text.
    rest: &'a [u8],
    form: Form,
    /// Bytes of `rest` that stand for themselves whatever the form.
    raw: usize,
    /// A byte to give before all else.
    byte: Option<u8>,
}

/// How a token's text spells its bytes.
#[derive(Clone, Copy, Debug)]
enum Form {
    /// They are the text.
    Raw,
    /// As in [`Codec`].
    Spelled(Codec),
}

impl Iterator for TokenBytes<'_> {
    type Item = u8;

    fn next(&mut self) -> Option<u8> {
        if let Some(byte) = self.byte.take() {
            return Some(byte);
        }
        let (byte, used) = match self.form {
            _ if self.raw > 0 => {
                self.raw -= 1;
                (*self.rest.first()?, 1)
            }
            Form::Spelled(Codec::Spm) if self.rest.starts_with(SPACE_MARK) => (b' ', SPACE_MARK.len()),
            Form::Raw | Form::Spelled(Codec::Spm) => (*self.rest.first()?, 1),
            Form::Spelled(Codec::ByteLevel) => {
                let c = Char::at(self.rest, 0)?;
                match byte_of(c.c) {
                    Some(byte) => (byte, c.len),
                    // Not a spelling at all: the character stands for itself.
                    None => {
                        self.raw = c.len - 1;
                        (*self.rest.first()?, 1)
                    }
                }
            }
        };
        self.rest = &self.rest[used..];
        Some(byte)
    }
}

impl<'a> Tokenizer<'a> {
    /// The bytes that token `id` stands for. Control tokens and the unknown
    /// token stand for none unless `special`, then for their own text. Tokens
    /// outside the vocabulary stand for none.
    ///
    /// A token's bytes need not be whole characters: see [`Detokenizer`].
    pub fn bytes(&self, id: u32, special: bool) -> TokenBytes<'a> {
        let text = self.vocab.text(id);
        let of = |rest, form, byte| TokenBytes { rest, form, raw: 0, byte };
        match self.token_kind(id) {
            TokenKind::Control | TokenKind::Unknown if !special => of(&[], Form::Raw, None),
            TokenKind::Control | TokenKind::Unknown | TokenKind::UserDefined => of(text, Form::Raw, None),
            TokenKind::Byte => match byte_named(text) {
                Some(byte) => of(&[], Form::Raw, Some(byte)),
                None => of(text, Form::Raw, None),
            },
            TokenKind::Normal | TokenKind::Unused => of(text, Form::Spelled(self.vocab.codec), None),
        }
    }

    /// Writes [`Tokenizer::bytes`] to `out` and returns how many there are.
    ///
    /// Errors when there is no such token or `out` is too small.
    pub fn token_bytes(&self, id: u32, special: bool, out: &mut [u8]) -> Result<usize, TextError> {
        let tokens = self.vocab_len();
        if id as usize >= tokens {
            return Err(TextError::UnknownId { id, tokens });
        }
        let (have, mut need) = (out.len(), 0);
        for byte in self.bytes(id, special) {
            if let Some(slot) = out.get_mut(need) {
                *slot = byte;
            }
            need += 1;
        }
        if need > have { Err(TextError::Out { need: need as u64, have: have as u64 }) } else { Ok(need) }
    }
}

/// Turns tokens into text as they come.
///
/// Characters that span tokens are held back until they are whole; bytes that
/// belong to no character become U+FFFD. The space that SentencePiece puts
/// before a text is taken off again, so that what was encoded comes back.
///
/// It borrows nothing, so it can live beside the engine; give it the same
/// tokenizer each time.
#[derive(Clone, Copy, Debug)]
pub struct Detokenizer {
    held: [u8; 4],
    len: usize,
    special: bool,
    /// The next byte, where it is a space, is the one that encoding added.
    strip: bool,
}

impl Detokenizer {
    /// For a whole text, from its first token on. Where `special`, control
    /// tokens are written out.
    pub const fn new(special: bool) -> Self {
        Self { held: [0; 4], len: 0, special, strip: true }
    }

    /// For the continuation of a text, as when a model answers: a leading space
    /// is kept.
    pub const fn continuing(special: bool) -> Self {
        Self { held: [0; 4], len: 0, special, strip: false }
    }

    /// Writes the text that `id` completes. Fails only where `out` does.
    pub fn push(&mut self, tokenizer: &Tokenizer<'_>, id: u32, out: &mut impl fmt::Write) -> fmt::Result {
        let prefixed = matches!(tokenizer.model, Model::Spm { space_prefix: true, .. });
        let ends_fragment = matches!(tokenizer.token_kind(id), TokenKind::Control | TokenKind::UserDefined);
        for byte in tokenizer.bytes(id, self.special) {
            let strip = core::mem::take(&mut self.strip);
            if !(strip && prefixed && !ends_fragment && byte == b' ') {
                self.byte(byte, out)?;
            }
        }
        // Encoding puts a space before the text that follows a special token.
        self.strip |= ends_fragment;
        Ok(())
    }

    /// Ends the text: a character that never became whole is written as U+FFFD.
    pub fn flush(&mut self, out: &mut impl fmt::Write) -> fmt::Result {
        if core::mem::take(&mut self.len) > 0 {
            out.write_char(char::REPLACEMENT_CHARACTER)?;
        }
        Ok(())
    }

    fn byte(&mut self, byte: u8, out: &mut impl fmt::Write) -> fmt::Result {
        // At most three bytes wait: four are a character or none.
        self.held[self.len] = byte;
        self.len += 1;
        while self.len > 0 {
            let error = match core::str::from_utf8(&self.held[..self.len]) {
                Ok(text) => {
                    self.len = 0;
                    return out.write_str(text);
                }
                Err(error) => error,
            };
            let Some(bad) = error.error_len() else { break };
            out.write_char(char::REPLACEMENT_CHARACTER)?;
            self.held.copy_within(bad..self.len, 0);
            self.len -= bad;
        }
        Ok(())
    }
}
