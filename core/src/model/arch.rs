//! What tells one architecture from another. A new one is a row here, not a
//! copy of the forward pass.

/// How rotary positions pair up the numbers of a head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RopeKind {
    /// Neighbours: (0, 1), (2, 3), … as in llama.
    Neighbours,
    /// Halves: (0, d/2), (1, d/2 + 1), … as in GPT-NeoX and Qwen.
    Halves,
}

/// Whether an architecture has a kind of tensor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Presence {
    /// Every layer must have it.
    Required,
    /// Used where present.
    Optional,
    /// Not part of it; a file that has one is refused.
    Absent,
}

/// One architecture, by its name in `general.architecture`.
#[derive(Debug)]
pub struct Arch {
    /// The name in the file; also the prefix of its keys.
    pub name: &'static str,
    /// Pairing of rotary positions.
    pub rope: RopeKind,
    /// Biases on the query, key and value products.
    pub qkv_bias: Presence,
    /// Bias on the attention output product.
    pub out_bias: Presence,
    /// RMS norm of each query and key head before the rotation.
    pub qk_norm: Presence,
}

/// All that we run.
pub const ALL: [Arch; 3] = [
    Arch {
        name: "llama",
        rope: RopeKind::Neighbours,
        qkv_bias: Presence::Optional,
        out_bias: Presence::Optional,
        qk_norm: Presence::Absent,
    },
    Arch {
        name: "qwen2",
        rope: RopeKind::Halves,
        qkv_bias: Presence::Required,
        out_bias: Presence::Optional,
        qk_norm: Presence::Absent,
    },
    Arch {
        name: "qwen3",
        rope: RopeKind::Halves,
        qkv_bias: Presence::Optional,
        out_bias: Presence::Optional,
        qk_norm: Presence::Required,
    },
];

/// The architecture called `name`.
pub fn find(name: &str) -> Option<&'static Arch> {
    ALL.iter().find(|a| a.name == name)
}

/// A size that tensors are measured by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dim {
    /// One row: a vector.
    One,
    /// Width of the stream between layers.
    Embd,
    /// Width of the feed-forward step.
    Ffn,
    /// All query heads.
    Query,
    /// All key (or value) heads.
    Key,
    /// One head.
    Head,
}

/// The tensors of one layer, in the order of [`TENSORS`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "named after the tensors in TENSORS")]
pub enum Part {
    AttnNorm,
    Query,
    Key,
    Value,
    Out,
    QueryBias,
    KeyBias,
    ValueBias,
    OutBias,
    QueryNorm,
    KeyNorm,
    FfnNorm,
    Gate,
    Up,
    Down,
}

/// Name after `blk.N.`, rows and columns of one of a layer's tensors.
pub struct Tensor {
    /// Which.
    pub part: Part,
    /// The name's end.
    pub suffix: &'static str,
    /// Rows: outputs.
    pub rows: Dim,
    /// Columns: inputs.
    pub cols: Dim,
}

const fn tensor(part: Part, suffix: &'static str, rows: Dim, cols: Dim) -> Tensor {
    Tensor { part, suffix, rows, cols }
}

/// A layer's tensors. Names as llama.cpp's converter writes them.
pub const TENSORS: [Tensor; 15] = [
    tensor(Part::AttnNorm, "attn_norm.weight", Dim::One, Dim::Embd),
    tensor(Part::Query, "attn_q.weight", Dim::Query, Dim::Embd),
    tensor(Part::Key, "attn_k.weight", Dim::Key, Dim::Embd),
    tensor(Part::Value, "attn_v.weight", Dim::Key, Dim::Embd),
    tensor(Part::Out, "attn_output.weight", Dim::Embd, Dim::Query),
    tensor(Part::QueryBias, "attn_q.bias", Dim::One, Dim::Query),
    tensor(Part::KeyBias, "attn_k.bias", Dim::One, Dim::Key),
    tensor(Part::ValueBias, "attn_v.bias", Dim::One, Dim::Key),
    tensor(Part::OutBias, "attn_output.bias", Dim::One, Dim::Embd),
    tensor(Part::QueryNorm, "attn_q_norm.weight", Dim::One, Dim::Head),
    tensor(Part::KeyNorm, "attn_k_norm.weight", Dim::One, Dim::Head),
    tensor(Part::FfnNorm, "ffn_norm.weight", Dim::One, Dim::Embd),
    tensor(Part::Gate, "ffn_gate.weight", Dim::Ffn, Dim::Embd),
    tensor(Part::Up, "ffn_up.weight", Dim::Ffn, Dim::Embd),
    tensor(Part::Down, "ffn_down.weight", Dim::Embd, Dim::Ffn),
];

impl Arch {
    /// Whether layers have `part`.
    pub fn presence(&self, part: Part) -> Presence {
        match part {
            Part::QueryBias | Part::KeyBias | Part::ValueBias => self.qkv_bias,
            Part::OutBias => self.out_bias,
            Part::QueryNorm | Part::KeyNorm => self.qk_norm,
            _ => Presence::Required,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tensors_are_in_the_order_of_their_parts() {
        for (i, t) in TENSORS.iter().enumerate() {
            assert_eq!(t.part as usize, i);
        }
    }
}
