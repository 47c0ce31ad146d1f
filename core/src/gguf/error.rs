//! What can be wrong with a model file.

use core::fmt;

use crate::Name;
use crate::quant::Format;

use super::value::ValueType;

/// A model file that cannot be used: what is wrong, where, and what to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GgufError {
    /// Byte of the file at which the fault lies.
    pub at: u64,
    /// What the fault is about.
    pub about: Subject,
    /// The fault.
    pub fault: Fault,
}

/// The part of a model file that an error is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Subject {
    /// The file as a whole.
    File,
    /// A key or its value.
    Key(Name),
    /// A tensor.
    Tensor(Name),
}

/// The ways in which a model file is wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// Another kind of file; the first `len` bytes of `start` are its own.
    NotGguf {
        /// First bytes of the file.
        start: [u8; 8],
        /// How many of them the file has.
        len: u8,
    },
    /// A GGUF version other than 2 and 3.
    Version(u32),
    /// A GGUF file for big-endian machines.
    BigEndian,
    /// The file ends before `what`, which needs `need` bytes, does.
    Ends {
        /// What was being read.
        what: &'static str,
        /// Bytes it claims to take.
        need: u64,
    },
    /// The bytes handed in end before the header does, but the file goes on.
    MoreHead {
        /// Bytes handed in.
        have: u64,
    },
    /// A count beyond what any real model has.
    TooMany {
        /// What is counted.
        what: &'static str,
        /// How many the file claims.
        count: u64,
        /// How many are read.
        max: u64,
    },
    /// Text that is not UTF-8.
    NotUtf8,
    /// A name that is empty.
    EmptyName,
    /// A name with a control character in it.
    ControlInName,
    /// A name of this many bytes.
    LongName(u64),
    /// A key or tensor name that occurs twice.
    Duplicate,
    /// A value type that the format does not define.
    UnknownValueType(u32),
    /// Arrays within arrays within arrays.
    TooDeep,
    /// A truth value that is neither 0 nor 1.
    BadBool(u8),
    /// `general.alignment` is not a power of two.
    BadAlignment(u32),
    /// A tensor with this many dimensions.
    Dims(u32),
    /// A tensor dimension of zero.
    ZeroDim,
    /// A tensor whose size cannot be represented.
    Overflow,
    /// Rows that are not whole blocks.
    Blocks {
        /// Weights per row.
        cols: u64,
        /// The tensor's format.
        format: Format,
    },
    /// A tensor type that we do not read.
    TensorType(u32),
    /// A tensor offset that is not a multiple of the alignment.
    Misaligned {
        /// The tensor's offset in the data section.
        offset: u64,
        /// `general.alignment`.
        alignment: u64,
    },
    /// A tensor that begins before the one listed before it ends.
    Overlap,
    /// A tensor that ends at byte `end`, past the end of the file.
    PastEnd {
        /// Where the tensor would end.
        end: u64,
        /// Bytes in the file.
        file_len: u64,
    },
    /// A tensor whose bytes are not in the memory handed in.
    NotInMemory,
    /// A key of another type than the model needs.
    WrongType {
        /// The type in the file; for arrays, of the items.
        found: ValueType,
        /// Whether the value is an array of `found`.
        array: bool,
        /// What was looked for.
        wanted: &'static str,
    },
    /// An integer outside the range that the model needs.
    OutOfRange {
        /// Whether it is below zero.
        negative: bool,
        /// Its distance from zero.
        size: u64,
    },
    /// A split model of `want` files, of which `have` were given.
    Parts {
        /// Files given.
        have: u64,
        /// Files the model has.
        want: u64,
    },
    /// File `have` of a split model where file `want` belongs (from 1).
    PartOrder {
        /// Which part it says it is.
        have: u64,
        /// Which part was expected.
        want: u64,
    },
    /// A split model whose files hold `have` tensors together.
    PartTensors {
        /// Tensors found.
        have: u64,
        /// Tensors that the first part names.
        want: u64,
    },
    /// A part without the key that says which part it is.
    PartKey(&'static str),
}

impl GgufError {
    pub(super) const fn new(at: u64, about: Subject, fault: Fault) -> Self {
        Self { at, about, fault }
    }

    /// True when parsing may succeed with a longer `head`: read more of the
    /// file and try again.
    pub fn needs_more(&self) -> bool {
        matches!(self.fault, Fault::MoreHead { .. })
    }
}

impl fmt::Display for GgufError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.about {
            Subject::File => {}
            Subject::Key(name) => write!(f, "key '{name}': ")?,
            Subject::Tensor(name) => write!(f, "tensor '{name}': ")?,
        }
        write!(f, "{}", self.fault)?;
        let advice = self.fault.advice();
        // The first bytes need no position, a good file of the wrong kind neither.
        if self.at > 0 {
            write!(f, " (byte {})", self.at)?;
        }
        if advice.is_empty() { Ok(()) } else { write!(f, ": {advice}") }
    }
}

impl core::error::Error for GgufError {}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Fault::NotGguf { len: 0, .. } => f.write_str("not a GGUF file (it is empty)"),
            Fault::NotGguf { ref start, len } => not_gguf(f, start.get(..usize::from(len)).unwrap_or(start)),
            Fault::Version(v) => write!(f, "GGUF version {v}, of which we read 2 and 3"),
            Fault::BigEndian => f.write_str("GGUF file for big-endian machines"),
            Fault::Ends { what, need } => {
                write!(f, "the file ends before the {need} bytes that a {what} needs")
            }
            Fault::MoreHead { have } => write!(f, "the header is longer than the {have} bytes read"),
            Fault::TooMany { what, count, max } => {
                write!(f, "claims {count} {what}, more than the {max} we read")
            }
            Fault::NotUtf8 => f.write_str("text is not UTF-8"),
            Fault::EmptyName => f.write_str("a key or tensor has no name"),
            Fault::ControlInName => f.write_str("control character in the name"),
            Fault::LongName(len) => write!(f, "the name is {len} bytes long"),
            Fault::Duplicate => f.write_str("occurs twice"),
            Fault::UnknownValueType(id) => write!(f, "unknown value type {id}"),
            Fault::TooDeep => f.write_str("arrays nested too deeply"),
            Fault::BadBool(b) => write!(f, "truth value {b}, neither 0 nor 1"),
            Fault::BadAlignment(a) => write!(f, "alignment {a} is not a power of two"),
            Fault::Dims(n) => write!(f, "{n} dimensions, not 1 to 4"),
            Fault::ZeroDim => f.write_str("a dimension is zero"),
            Fault::Overflow => f.write_str("the dimensions are too large"),
            Fault::Blocks { cols, format } => {
                write!(f, "rows of {cols} are not whole {} blocks of {}", format.name(), format.block_len())
            }
            Fault::TensorType(id) => tensor_type(f, id),
            Fault::Misaligned { offset, alignment } => {
                write!(f, "offset {offset} is not a multiple of the alignment {alignment}")
            }
            Fault::Overlap => f.write_str("begins before the tensor listed before it ends"),
            Fault::PastEnd { end, file_len } => {
                write!(f, "ends at byte {end} of a file of {file_len} bytes")
            }
            Fault::NotInMemory => f.write_str("its bytes were not handed in or exceed the address space"),
            Fault::WrongType { found, array, wanted } => {
                let (a, s) = if array { ("array of ", "s") } else { ("", "") };
                write!(f, "is {a}{found}{s}, not {wanted}")
            }
            Fault::OutOfRange { negative, size } => {
                write!(f, "{}{size} is out of range", if negative { "-" } else { "" })
            }
            Fault::Parts { have, want } => {
                write!(f, "a model split into {want} files, of which {have} given")
            }
            Fault::PartOrder { have, want } => {
                write!(f, "part {have} of a split model in place of part {want}")
            }
            Fault::PartTensors { have, want } => {
                write!(f, "the parts hold {have} tensors together, not {want}")
            }
            Fault::PartKey(key) => write!(f, "part of a split model without '{key}'"),
        }
    }
}

impl Fault {
    /// What the reader of the message can do about it.
    fn advice(&self) -> &'static str {
        match self {
            Fault::NotGguf { start, len } => not_gguf_advice(start, *len),
            Fault::Version(v) if *v > 3 => "update katydid",
            Fault::Version(_) | Fault::BigEndian => "re-convert it with a current converter",
            Fault::Ends { .. } | Fault::PastEnd { .. } => "it is cut short or damaged, download it again",
            Fault::MoreHead { .. } => "read more of it",
            Fault::UnknownValueType(_) => {
                "it is damaged or newer than katydid, download it again or update katydid"
            }
            Fault::TensorType(id) => match foreign_type(*id) {
                Some((_, Fate::Removed)) => "re-convert it with a current converter",
                Some((_, Fate::NotRead)) => "choose another quantisation, such as Q4_K_M",
                None => "it is damaged or newer than katydid, download it again or update katydid",
            },
            Fault::Parts { .. } | Fault::PartOrder { .. } => "give all parts in order, or merge them",
            Fault::PartTensors { .. } | Fault::PartKey(_) => {
                "the parts are not of one model, download them again"
            }
            Fault::WrongType { .. }
            | Fault::OutOfRange { .. }
            | Fault::Blocks { .. }
            | Fault::LongName(_) => "re-convert or download it again",
            Fault::NotInMemory => "use a 64-bit system",
            _ => "it is damaged or badly made, download it again or re-convert it",
        }
    }
}

fn not_gguf(f: &mut fmt::Formatter<'_>, start: &[u8]) -> fmt::Result {
    write!(f, "not a GGUF file (starts with \"{}\")", start.escape_ascii())
}

fn not_gguf_advice(start: &[u8; 8], len: u8) -> &'static str {
    let start = start.get(..usize::from(len)).unwrap_or(start);
    let is = |lead: &[u8]| start.starts_with(lead);
    if is(b"version ") {
        "it is a Git LFS pointer, download the file itself"
    } else if is(b"<") {
        "it is a web page, download the file itself"
    } else if is(b"PK\x03\x04") {
        "it is a zip archive or PyTorch file, convert it to GGUF"
    } else if is(b"lmgg") || is(b"fmgg") || is(b"tjgg") {
        "it is a GGML file from before GGUF, re-convert it"
    } else if len < 4 {
        "it is cut short, download it again"
    } else {
        "choose a .gguf file or convert it to GGUF"
    }
}

/// Why a tensor type that ggml numbers is not read here.
#[derive(Clone, Copy)]
enum Fate {
    /// ggml itself dropped it.
    Removed,
    /// ggml reads it, we do not.
    NotRead,
}

/// ggml's name for type ids outside [`Format`], from `enum ggml_type` in
/// ggml's `ggml.h`, which also keeps the numbers of removed types.
fn foreign_type(id: u32) -> Option<(&'static str, Fate)> {
    use Fate::{NotRead, Removed};
    Some(match id {
        4 => ("Q4_2", Removed),
        5 => ("Q4_3", Removed),
        9 => ("Q8_1", NotRead),
        15 => ("Q8_K", NotRead),
        16 => ("IQ2_XXS", NotRead),
        17 => ("IQ2_XS", NotRead),
        18 => ("IQ3_XXS", NotRead),
        19 => ("IQ1_S", NotRead),
        21 => ("IQ3_S", NotRead),
        22 => ("IQ2_S", NotRead),
        24 => ("I8", NotRead),
        25 => ("I16", NotRead),
        26 => ("I32", NotRead),
        27 => ("I64", NotRead),
        28 => ("F64", NotRead),
        29 => ("IQ1_M", NotRead),
        31 => ("Q4_0_4_4", Removed),
        32 => ("Q4_0_4_8", Removed),
        33 => ("Q4_0_8_8", Removed),
        34 => ("TQ1_0", NotRead),
        35 => ("TQ2_0", NotRead),
        36 => ("IQ4_NL_4_4", Removed),
        37 => ("IQ4_NL_4_8", Removed),
        38 => ("IQ4_NL_8_8", Removed),
        39 => ("MXFP4", NotRead),
        40 => ("NVFP4", NotRead),
        41 => ("Q1_0", NotRead),
        42 => ("Q2_0", NotRead),
        _ => return None,
    })
}

fn tensor_type(f: &mut fmt::Formatter<'_>, id: u32) -> fmt::Result {
    match foreign_type(id) {
        Some((name, Fate::Removed)) => write!(f, "type {name} (id {id}), which ggml dropped"),
        Some((name, Fate::NotRead)) => write!(f, "type {name} (id {id}), which we do not read"),
        None => write!(f, "unknown type id {id}"),
    }
}
