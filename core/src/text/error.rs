//! What can go wrong between text and tokens.

use core::fmt;

use super::pre::Pre;
use super::special::LONGEST_SPECIAL;
use crate::Name;
use crate::gguf::GgufError;

/// A vocabulary that cannot be used, or a text that could not be converted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TextError {
    /// A key has the wrong type.
    Gguf(GgufError),
    /// A key that every tokenizer needs is absent.
    Missing {
        /// The key.
        key: &'static str,
    },
    /// `tokenizer.ggml.model` names a tokenizer that we do not have.
    Model(Name),
    /// `tokenizer.ggml.pre` names a pre-tokenizer that we do not have.
    Pre(Name),
    /// The vocabulary has no tokens.
    Empty,
    /// An array has fewer items than there are tokens.
    Short {
        /// Its key.
        key: &'static str,
        /// Tokens in the vocabulary.
        need: usize,
        /// Items in the array.
        have: usize,
    },
    /// An array has items of a type that makes no sense for it.
    Items {
        /// Its key.
        key: &'static str,
        /// What was looked for.
        wanted: &'static str,
    },
    /// A special token's id is outside the vocabulary.
    BadId {
        /// The key that holds it.
        key: &'static str,
        /// The id.
        id: u32,
        /// Tokens in the vocabulary.
        tokens: usize,
    },
    /// A token is to be added to every text but the file does not say which.
    NoId {
        /// The key that is absent.
        key: &'static str,
    },
    /// Two tokens have the same text.
    Duplicate {
        /// The lower id.
        first: u32,
        /// The higher id.
        second: u32,
    },
    /// A control or user-defined token is too long to be looked for in texts.
    LongSpecial {
        /// The token.
        id: u32,
        /// Bytes of its text.
        len: usize,
    },
    /// A merge is not two texts with a space between them.
    BadMerge {
        /// Its place in `tokenizer.ggml.merges`, from 0.
        rank: usize,
    },
    /// More tokens or merges, or longer ones, than 32 bits can address.
    TooLarge {
        /// The key of the array.
        key: &'static str,
    },
    /// Too many texts fall on one place of a look-up table.
    Crowded,
    /// The tables were laid out for another vocabulary.
    Tables,
    /// Too little scratch for this text.
    Scratch {
        /// Words needed.
        need: u64,
        /// Words given.
        have: u64,
    },
    /// Too little room for the result.
    Out {
        /// Tokens or bytes that the result has.
        need: u64,
        /// Tokens or bytes there was room for.
        have: u64,
    },
    /// The vocabulary has no way to write a byte.
    NoToken {
        /// The byte.
        byte: u8,
    },
    /// No such token.
    UnknownId {
        /// The id.
        id: u32,
        /// Tokens in the vocabulary.
        tokens: usize,
    },
}

impl From<GgufError> for TextError {
    fn from(e: GgufError) -> Self {
        TextError::Gguf(e)
    }
}

impl fmt::Display for TextError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            TextError::Gguf(e) => write!(f, "{e}"),
            TextError::Missing { key } => {
                write!(f, "the file has no {key}: it holds no usable tokenizer")
            }
            TextError::Model(name) => {
                write!(f, "tokenizer.ggml.model '{name}' is not supported; supported: llama, gpt2")
            }
            TextError::Pre(name) => unknown_pre(f, name),
            TextError::Empty => f.write_str("tokenizer.ggml.tokens is empty"),
            TextError::Short { key, need, have } => {
                write!(f, "{key} has {have} items but the vocabulary has {need} tokens")
            }
            TextError::Items { key, wanted } => write!(f, "{key} is not an array of {wanted}"),
            TextError::BadId { key, id, tokens } => {
                write!(f, "{key} is {id} but the vocabulary has {tokens} tokens")
            }
            TextError::NoId { key } => {
                write!(f, "a token is to be added to the text but the file has no {key}")
            }
            TextError::Duplicate { first, second } => {
                write!(f, "tokens {first} and {second} have the same text")
            }
            TextError::LongSpecial { id, len } => {
                write!(f, "special token {id} has {len} bytes; at most {LONGEST_SPECIAL} are supported")
            }
            TextError::BadMerge { rank } => {
                write!(f, "item {rank} of tokenizer.ggml.merges is not two texts and a space")
            }
            TextError::TooLarge { key } => write!(f, "{key} is larger than 4 GiB"),
            TextError::Crowded => f.write_str("too many vocabulary texts collide: the file looks hostile"),
            TextError::Tables => f.write_str("the tokenizer tables were laid out for another vocabulary"),
            TextError::Scratch { need, have } => {
                write!(f, "the text needs {need} words of tokenizer scratch, {have} given")
            }
            TextError::Out { need, have } => write!(f, "the result needs room for {need}, {have} given"),
            TextError::NoToken { byte } => {
                write!(f, "the vocabulary has no token for byte 0x{byte:02x}, and no unknown token")
            }
            TextError::UnknownId { id, tokens } => {
                write!(f, "there is no token {id}: the vocabulary has {tokens}")
            }
        }
    }
}

fn unknown_pre(f: &mut fmt::Formatter<'_>, name: Name) -> fmt::Result {
    write!(f, "tokenizer.ggml.pre '{name}' is not supported; supported:")?;
    for (i, known) in Pre::names().enumerate() {
        write!(f, "{} {known}", if i == 0 { "" } else { "," })?;
    }
    Ok(())
}

impl core::error::Error for TextError {}
