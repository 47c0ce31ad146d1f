//! Where each weight lies, checked against the model's shape.

use super::arch::{Dim, Part as Kind, Presence, TENSORS, Tensor};
use super::config::Config;
use super::error::{Fault, LoadError};
use crate::Name;
use crate::arena::{ArenaFull, Space};
use crate::cast::Slot;
use crate::gguf::{Part, Parts, TensorInfo, TensorRef};
use crate::plan::Part as Room;
use crate::quant::Format;

const PER_LAYER: usize = TENSORS.len();

/// The tensors of a model: a table of places in the mapped files.
pub struct Weights<'a> {
    files: &'a [Part<'a>],
    /// [`PER_LAYER`] for each layer.
    slots: &'a [Slot],
    /// One row per token id.
    pub embedding: TensorRef<'a>,
    /// Last norm.
    pub norm: &'a [u8],
    /// From the last norm to logits; the embedding again where tied.
    pub output: TensorRef<'a>,
    /// Llama 3's divisors of the rotation's frequencies, little-endian `f32`.
    pub rope_factors: Option<&'a [u8]>,
}

/// One layer. Norms and biases are little-endian `f32`.
#[allow(missing_docs, reason = "named after the tensors in arch::TENSORS")]
pub struct Layer<'a> {
    pub attn_norm: &'a [u8],
    pub query: TensorRef<'a>,
    pub key: TensorRef<'a>,
    pub value: TensorRef<'a>,
    pub out: TensorRef<'a>,
    pub query_bias: Option<&'a [u8]>,
    pub key_bias: Option<&'a [u8]>,
    pub value_bias: Option<&'a [u8]>,
    pub out_bias: Option<&'a [u8]>,
    pub query_norm: Option<&'a [u8]>,
    pub key_norm: Option<&'a [u8]>,
    pub ffn_norm: &'a [u8],
    pub gate: TensorRef<'a>,
    pub up: TensorRef<'a>,
    pub down: TensorRef<'a>,
}

/// Takes the table's memory.
pub(super) fn lay_out<'a, S: Space<'a>>(space: &mut S, config: &Config) -> Result<&'a mut [Slot], ArenaFull> {
    space.take(Room::Weights, "weight table", config.layers * PER_LAYER)
}

impl<'a> Weights<'a> {
    /// Finds and checks every tensor, filling `slots`.
    pub(super) fn find(parts: &Parts<'a>, config: &Config, slots: &'a mut [Slot]) -> Result<Self, LoadError> {
        slots.fill(Slot::NONE);
        for (file, info) in parts.tensors() {
            if let Some((layer, tensor)) = place(info.name, config.layers) {
                let at = layer * PER_LAYER + tensor.part as usize;
                slots[at] = checked(parts, config, tensor, file, &info)?;
            } else if !WHOLE.contains(&info.name) {
                // The model is another than its keys say.
                return Err(LoadError::Tensor(Name::new(info.name), Fault::Unexpected));
            }
        }
        refuse_missing(config, slots)?;
        let embd = config.embd;
        let embedding = required(parts, "token_embd.weight", config.vocab, embd)?;
        let output = match parts.find("output.weight") {
            None => embedding,
            Some(_) => required(parts, "output.weight", config.vocab, embd)?,
        };
        let rope_factors = match parts.find("rope_freqs.weight") {
            None => None,
            Some(_) => Some(divisors(parts, "rope_freqs.weight", config.rope_dim / 2)?),
        };
        let norm = vector(parts, "output_norm.weight", embd)?;
        Ok(Self { files: parts.parts(), slots, embedding, norm, output, rope_factors })
    }

    /// Layers in the table.
    pub fn layers(&self) -> usize {
        self.slots.len() / PER_LAYER
    }

    /// Layer `i`; panics past the last.
    pub fn layer(&self, i: usize) -> Layer<'a> {
        let slots = &self.slots[i * PER_LAYER..][..PER_LAYER];
        let optional = |kind: Kind| self.bind(&slots[kind as usize]);
        // INVARIANT: `find` has found and bound every tensor that is required.
        let matrix = |kind: Kind| optional(kind).expect("checked when loaded");
        let vector = |kind: Kind| optional(kind).map(|t| t.data());
        // INVARIANT: as above.
        let norm = |kind: Kind| vector(kind).expect("checked when loaded");
        Layer {
            attn_norm: norm(Kind::AttnNorm),
            query: matrix(Kind::Query),
            key: matrix(Kind::Key),
            value: matrix(Kind::Value),
            out: matrix(Kind::Out),
            query_bias: vector(Kind::QueryBias),
            key_bias: vector(Kind::KeyBias),
            value_bias: vector(Kind::ValueBias),
            out_bias: vector(Kind::OutBias),
            query_norm: vector(Kind::QueryNorm),
            key_norm: vector(Kind::KeyNorm),
            ffn_norm: norm(Kind::FfnNorm),
            gate: matrix(Kind::Gate),
            up: matrix(Kind::Up),
            down: matrix(Kind::Down),
        }
    }

    /// The tensor at `slot`, where it has one.
    fn bind(&self, slot: &Slot) -> Option<TensorRef<'a>> {
        let format = Format::from_id(slot.format)?;
        let (rows, cols) = (slot.rows as usize, slot.cols as usize);
        let len = format.row_bytes(cols as u64)? as usize * rows;
        let data = self.files.get(slot.file as usize)?.bytes.get(slot.offset as usize..)?.get(..len)?;
        TensorRef::new(format, rows, cols, data)
    }
}

/// Tensors that belong to no layer.
const WHOLE: [&str; 4] = ["token_embd.weight", "output_norm.weight", "output.weight", "rope_freqs.weight"];

/// The layer, below `layers`, and the tensor of it that is called `name`.
fn place(name: &str, layers: usize) -> Option<(usize, &'static Tensor)> {
    let (number, suffix) = name.strip_prefix("blk.")?.split_once('.')?;
    // As converters write it: no sign, no leading zero.
    let plain = number == "0" || number.starts_with(|c: char| matches!(c, '1'..='9'));
    let layer = number.parse().ok().filter(|&i: &usize| plain && i < layers)?;
    Some((layer, TENSORS.iter().find(|t| t.suffix == suffix)?))
}

/// Where the tensor lies, once its shape, format and numbers are right.
fn checked(
    parts: &Parts<'_>,
    config: &Config,
    tensor: &Tensor,
    file: usize,
    info: &TensorInfo<'_>,
) -> Result<Slot, LoadError> {
    if config.arch.presence(tensor.part) == Presence::Absent {
        return Err(LoadError::Tensor(Name::new(info.name), Fault::Unexpected));
    }
    let shape = [config.dim(tensor.rows), config.dim(tensor.cols)];
    check(info.name, info, shape, tensor.rows == Dim::One)?;
    // Errs where the bytes are not in memory.
    let data = info.bind(parts.parts()[file].bytes)?.data();
    if tensor.rows == Dim::One {
        check_finite(info.name, data)?;
    }
    Ok(Slot {
        offset: info.offset,
        rows: shape[0] as u32,
        cols: shape[1] as u32,
        file: file as u32,
        format: info.format as u32,
    })
}

/// Errs where a layer lacks a tensor that it must have.
fn refuse_missing(config: &Config, slots: &[Slot]) -> Result<(), LoadError> {
    for (at, slot) in slots.iter().enumerate() {
        let tensor = &TENSORS[at % PER_LAYER];
        if *slot == Slot::NONE && config.arch.presence(tensor.part) == Presence::Required {
            let name = Name::format(format_args!("blk.{}.{}", at / PER_LAYER, tensor.suffix));
            return Err(LoadError::Tensor(name, Fault::Missing));
        }
    }
    Ok(())
}

/// Errs unless the tensor has `shape` (rows, columns) and, for a vector, is F32.
fn check(name: &str, info: &TensorInfo<'_>, shape: [usize; 2], vector: bool) -> Result<(), LoadError> {
    let have = [info.dims[1].saturating_mul(info.dims[2]).saturating_mul(info.dims[3]), info.dims[0]];
    let want = shape.map(|n| n as u64);
    if have != want {
        return Err(LoadError::Tensor(Name::new(name), Fault::Shape { have, want }));
    }
    if vector && info.format != Format::F32 {
        return Err(LoadError::Tensor(Name::new(name), Fault::NotF32));
    }
    Ok(())
}

fn required<'a>(parts: &Parts<'a>, name: &str, rows: usize, cols: usize) -> Result<TensorRef<'a>, LoadError> {
    let (file, info) = parts.find(name).ok_or(LoadError::Tensor(Name::new(name), Fault::Missing))?;
    check(name, &info, [rows, cols], false)?;
    Ok(info.bind(parts.parts()[file].bytes)?)
}

fn vector<'a>(parts: &Parts<'a>, name: &str, len: usize) -> Result<&'a [u8], LoadError> {
    let (file, info) = parts.find(name).ok_or(LoadError::Tensor(Name::new(name), Fault::Missing))?;
    check(name, &info, [1, len], true)?;
    let data = info.bind(parts.parts()[file].bytes)?.data();
    check_finite(name, data)?;
    Ok(data)
}

/// A vector of what something is divided by.
fn divisors<'a>(parts: &Parts<'a>, name: &str, len: usize) -> Result<&'a [u8], LoadError> {
    let data = vector(parts, name, len)?;
    match numbers(data).find(|&x| x <= 0.0) {
        Some(x) => Err(LoadError::Tensor(Name::new(name), Fault::NotPositive(x))),
        None => Ok(data),
    }
}

fn numbers(data: &[u8]) -> impl Iterator<Item = f32> + '_ {
    data.chunks_exact(4).map(|b| f32::from_le_bytes([b[0], b[1], b[2], b[3]]))
}

/// Errs on a number of a vector that is infinite or none. (Matrices are too
/// large to look at before they are due.)
fn check_finite(name: &str, data: &[u8]) -> Result<(), LoadError> {
    match numbers(data).position(|x| !x.is_finite()) {
        Some(at) => Err(LoadError::Tensor(Name::new(name), Fault::NotFinite { at })),
        None => Ok(()),
    }
}
