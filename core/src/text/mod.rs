//! Tokenizers: text to tokens and back.
//!
//! Two families cover the models we run: SentencePiece (`tokenizer.ggml.model`
//! is `llama`) and byte-level BPE (`gpt2`) with the pre-tokenizers of its
//! models. The file's own vocabulary is used where it lies; the arena holds only
//! look-up tables.
//!
//! # Promises
//! - The tokens are those of llama.cpp, but for two things. Plain text never
//!   becomes a control, byte or unknown token, however it reads (in llama.cpp a
//!   vocabulary may allow that), and bytes that are not UTF-8 are kept, not
//!   replaced. Of overlapping special tokens the leftmost counts, then the
//!   longest, as in the models' own tokenizers.
//! - What was encoded comes back from [`Detokenizer`], byte for byte where it
//!   was UTF-8. Exceptions: SentencePiece reads U+2581 as a space; the unknown
//!   token has no text; Phi-3's special tokens swallow white space.
//! - No vocabulary and no text can make it panic. Time is O(n log n) times the
//!   length of the longest token.
//!
//! # Costs
//! Four bytes per token, and between 5 and 11 for each token and each merge in
//! the hash tables: 3.5 MB for 128k tokens and 280k merges, 0.4 MB for 32k
//! tokens. Encoding takes [`scratch_len`] of the longest word.
//!
//! ```
//! use katydid_core::arena::Arena;
//! use katydid_core::gguf::Gguf;
//! use katydid_core::text::{Encode, Sizes, Tables, Tokenizer, scratch_len};
//!
//! fn ids(file: &[u8], memory: &mut [u8], text: &str) -> Result<Vec<u32>, Box<dyn std::error::Error>> {
//!     let gguf = Gguf::parse(file, file.len() as u64)?;
//!     let tables = Tables::lay_out(&mut Arena::new(memory), &Sizes::of(&gguf)?)?;
//!     let tokenizer = Tokenizer::build(&gguf, tables)?;
//!     let (mut scratch, mut ids) = (vec![0; scratch_len(text.len())], vec![0; text.len() + 2]);
//!     let n = tokenizer.encode(text.as_bytes(), Encode::default(), &mut scratch, &mut ids)?;
//!     ids.truncate(n);
//!     Ok(ids)
//! }
//! ```

mod build;
mod class;
mod codec;
mod decode;
mod encode;
mod error;
mod keys;
mod letters;
mod merge;
mod pre;
mod slots;
mod special;
#[cfg(test)]
mod tests;
mod unicode;
mod vocab;

use pre::Pre;
use special::{Ends, Specials};
use vocab::{Merges, Vocab};

pub use build::{Sizes, Tables};
pub use decode::{Detokenizer, TokenBytes};
pub use encode::{Add, Encode, scratch_len};
pub use error::TextError;
pub use vocab::TokenKind;

/// A vocabulary ready for use. Views of the model file and the arena.
#[derive(Clone, Copy)]
pub struct Tokenizer<'a> {
    vocab: Vocab<'a>,
    model: Model<'a>,
    specials: Specials<'a>,
    ends: Ends,
    /// Token of each byte, [`build::NONE`] where there is none.
    bytes: &'a [u32],
    bos: Option<u32>,
    eos: Option<u32>,
    unknown: Option<u32>,
    add_bos: bool,
    add_eos: bool,
    strip_after_special: bool,
}

/// What the two families do not share.
#[derive(Clone, Copy)]
enum Model<'a> {
    Spm {
        /// A space goes before the text and after each special token.
        space_prefix: bool,
        /// No token reaches across the start of a word, so words can be merged
        /// one by one.
        words_apart: bool,
    },
    Bpe {
        pre: &'static Pre,
        /// The file does not name one.
        assumed: bool,
        merges: Merges<'a>,
    },
}

impl core::fmt::Debug for Tokenizer<'_> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "{} of {} tokens", self.kind(), self.vocab_len())
    }
}

impl<'a> Tokenizer<'a> {
    /// Tokens in the vocabulary; ids are below.
    pub fn vocab_len(&self) -> usize {
        self.vocab.len()
    }

    /// The family, for people: `SPM` or `BPE`.
    pub fn kind(&self) -> &'static str {
        match self.model {
            Model::Spm { .. } => "SPM",
            Model::Bpe { .. } => "BPE",
        }
    }

    /// The pre-tokenizer's name in `tokenizer.ggml.pre`; byte-level BPE only.
    pub fn pre(&self) -> Option<&'static str> {
        match self.model {
            Model::Spm { .. } => None,
            Model::Bpe { pre, .. } => Some(pre.name),
        }
    }

    /// True where the file names no pre-tokenizer and `default` is used: worth
    /// a warning, for the model was probably trained with another.
    pub fn pre_is_assumed(&self) -> bool {
        matches!(self.model, Model::Bpe { assumed: true, .. })
    }

    /// The text of token `id` as the vocabulary spells it.
    pub fn token_text(&self, id: u32) -> Option<&'a str> {
        self.vocab.str(id)
    }

    /// What token `id` is for.
    pub fn token_kind(&self, id: u32) -> TokenKind {
        build::kind(&self.vocab, &self.ends, id)
    }

    /// The token that the vocabulary spells exactly so, of whatever kind.
    pub fn find(&self, text: &str) -> Option<u32> {
        self.vocab.find(text.as_bytes())
    }

    /// The token that begins a text.
    pub fn bos(&self) -> Option<u32> {
        self.bos
    }

    /// The token that ends a text.
    pub fn eos(&self) -> Option<u32> {
        self.eos
    }

    /// Whether [`Add::Auto`] adds BOS.
    pub fn adds_bos(&self) -> bool {
        self.add_bos
    }

    /// Whether [`Add::Auto`] adds EOS.
    pub fn adds_eos(&self) -> bool {
        self.add_eos
    }

    /// Whether the model has finished when it says `id`: EOS, the end of a turn
    /// or of a message, and tokens known by texts such as `<|im_end|>`.
    pub fn is_end(&self, id: u32) -> bool {
        self.ends.has(id)
    }
}
