//! Why a model cannot be loaded.

use core::fmt;

use crate::Name;
use crate::arena::ArenaFull;
use crate::gguf::GgufError;

/// A model that cannot be run: what is wrong, where, and what to do.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum LoadError {
    /// The file itself.
    Gguf(GgufError),
    /// A key's value.
    Key(Name, Fault),
    /// A tensor.
    Tensor(Name, Fault),
    /// The arena is smaller than the plan.
    NoRoom(ArenaFull),
    /// An option of the caller: its name, and what holds of it.
    Option(&'static str, Fault),
}

/// What is wrong with a key, tensor or option.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Fault {
    /// It is not there.
    Missing,
    /// An architecture that we do not run.
    UnknownArch(Name),
    /// A number outside its range.
    Range {
        /// The number.
        value: u64,
        /// Smallest allowed.
        min: u64,
        /// Largest allowed.
        max: u64,
    },
    /// A float that is not finite or not positive.
    NotPositive(f32),
    /// It does not divide `by`.
    NotDivisible {
        /// The number.
        value: u64,
        /// What it must be a multiple of.
        by: u64,
    },
    /// A feature that we do not have.
    Unsupported(Name),
    /// An embedding with fewer rows than the vocabulary has tokens.
    FewRows {
        /// Rows of the embedding.
        rows: u64,
        /// Tokens of the vocabulary.
        tokens: u64,
    },
    /// It should equal something else in the file.
    Differs {
        /// The number.
        value: u64,
        /// What it must be.
        want: u64,
    },
    /// A tensor of another shape.
    Shape {
        /// Rows and columns in the file.
        have: [u64; 2],
        /// Rows and columns needed.
        want: [u64; 2],
    },
    /// A tensor that must be F32.
    NotF32,
    /// A number of a tensor is infinite or not a number.
    NotFinite {
        /// Which, from 0.
        at: usize,
    },
    /// A tensor that a model with these keys does not have.
    Unexpected,
}

impl From<GgufError> for LoadError {
    fn from(e: GgufError) -> Self {
        Self::Gguf(e)
    }
}

impl From<ArenaFull> for LoadError {
    fn from(e: ArenaFull) -> Self {
        Self::NoRoom(e)
    }
}

impl fmt::Display for LoadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Gguf(e) => write!(f, "{e}"),
            Self::Key(name, fault) => write!(f, "key '{name}' {fault}{}", fault.advice()),
            Self::Tensor(name, fault) => write!(f, "tensor '{name}' {fault}{}", fault.advice()),
            Self::NoRoom(e) => write!(f, "{e}"),
            Self::Option(name, fault) => write!(f, "{name} {fault}"),
        }
    }
}

impl Fault {
    /// What to do about a file with this fault, where the message does not say.
    fn advice(&self) -> &'static str {
        match self {
            Self::Range { .. } | Self::NotPositive(_) | Self::NotDivisible { .. } | Self::Differs { .. } => {
                "; the file is damaged or badly converted: download or convert it again"
            }
            Self::UnknownArch(_) | Self::Unsupported(_) | Self::Unexpected => "; take another model",
            _ => "",
        }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Missing => write!(f, "is missing; convert the model again with a current converter"),
            Self::UnknownArch(name) => {
                write!(f, "is '{name}', which is not supported; supported:")?;
                super::arch::ALL.iter().try_for_each(|a| write!(f, " {}", a.name))
            }
            Self::Range { value, min, max } => {
                write!(f, "is {value}, but must be from {min} to {max}")
            }
            Self::NotPositive(x) => write!(f, "is {x}, but must be a positive number"),
            Self::NotDivisible { value, by } => write!(f, "is {value}, which is not a multiple of {by}"),
            Self::Unsupported(what) => write!(f, "asks for '{what}', which is not supported"),
            Self::FewRows { rows, tokens } => write!(
                f,
                "has {rows} rows, but tokenizer.ggml.tokens names {tokens} tokens; convert the model again"
            ),
            Self::Differs { value, want } => {
                write!(f, "is {value}, but must be {want} to match the rest of the file")
            }
            Self::Shape { have, want } => write!(
                f,
                "has {} rows of {}, but {} rows of {} are needed; the file does not match its own keys",
                have[0], have[1], want[0], want[1]
            ),
            Self::NotF32 => write!(f, "must be F32; convert the model again with norms and biases in F32"),
            Self::NotFinite { at } => {
                write!(f, "holds no finite number at {at}: the file is damaged; download or convert it again")
            }
            Self::Unexpected => {
                write!(f, "is not part of a model with these keys; running without it would give wrong text")
            }
        }
    }
}

impl core::error::Error for LoadError {}
