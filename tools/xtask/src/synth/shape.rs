//! What synthetic models look like: shapes, tensors, and which format each
//! tensor takes.

use katydid_core::quant::Format;

/// A llama's hyper-parameters.
#[derive(Debug)]
pub(super) struct Shape {
    pub name: &'static str,
    pub layers: u32,
    pub width: u32,
    pub heads: u32,
    pub kv_heads: u32,
    pub ffn: u32,
    pub vocab: u32,
    pub context: u32,
    pub rope_base: f32,
    /// The embedding also serves as the output matrix.
    pub tied: bool,
}

const SHAPES: [Shape; 6] = [
    // Small enough for a test, large enough for every format.
    Shape {
        name: "tiny",
        layers: 4,
        width: 256,
        heads: 8,
        kv_heads: 4,
        ffn: 768,
        vocab: 1024,
        context: 512,
        rope_base: 10_000.0,
        tied: false,
    },
    // Thirteen million weights in whole blocks of 256: seconds under emulation.
    Shape {
        name: "13m",
        layers: 4,
        width: 512,
        heads: 8,
        kv_heads: 4,
        ffn: 1536,
        vocab: 1024,
        context: 512,
        rope_base: 10_000.0,
        tied: true,
    },
    // SmolLM 135M, whose rows do not divide into blocks of 256.
    Shape {
        name: "135m",
        layers: 30,
        width: 576,
        heads: 9,
        kv_heads: 3,
        ffn: 1536,
        vocab: 49_152,
        context: 2048,
        rope_base: 10_000.0,
        tied: true,
    },
    // TinyLlama 1.1B.
    Shape {
        name: "1b",
        layers: 22,
        width: 2048,
        heads: 32,
        kv_heads: 4,
        ffn: 5632,
        vocab: 32_000,
        context: 2048,
        rope_base: 10_000.0,
        tied: false,
    },
    // Llama 2 7B.
    Shape {
        name: "7b",
        layers: 32,
        width: 4096,
        heads: 32,
        kv_heads: 32,
        ffn: 11_008,
        vocab: 32_000,
        context: 4096,
        rope_base: 10_000.0,
        tied: false,
    },
    // Llama 3 8B, but for the kind of its vocabulary.
    Shape {
        name: "8b",
        layers: 32,
        width: 4096,
        heads: 32,
        kv_heads: 8,
        ffn: 14_336,
        vocab: 128_256,
        context: 8192,
        rope_base: 500_000.0,
        tied: false,
    },
];

/// How a model's weights are stored.
#[derive(Debug)]
pub(super) struct Mix {
    pub name: &'static str,
    /// What most matrices take.
    pub base: Format,
    /// What sensitive matrices take instead, where they differ.
    sensitive: Option<Format>,
    /// `general.file_type`.
    pub file_type: u32,
}

const fn mix(name: &'static str, base: Format, sensitive: Option<Format>, file_type: u32) -> Mix {
    Mix { name, base, sensitive, file_type }
}

/// llama.cpp's mixes of these names, but that its `q2_k` and `q3_k` store a few
/// more tensors better.
pub(super) const MIXES: [Mix; 17] = [
    mix("f32", Format::F32, None, 0),
    mix("f16", Format::F16, None, 1),
    mix("bf16", Format::Bf16, None, 32),
    mix("q4_0", Format::Q4_0, None, 2),
    mix("q4_1", Format::Q4_1, None, 3),
    mix("q5_0", Format::Q5_0, None, 8),
    mix("q5_1", Format::Q5_1, None, 9),
    mix("q8_0", Format::Q8_0, None, 7),
    mix("q2_k", Format::Q2K, None, 10),
    mix("q3_k", Format::Q3K, None, 11),
    mix("q4_k_s", Format::Q4K, None, 14),
    mix("q4_k_m", Format::Q4K, Some(Format::Q6K), 15),
    mix("q5_k_s", Format::Q5K, None, 16),
    mix("q5_k_m", Format::Q5K, Some(Format::Q6K), 17),
    mix("q6_k", Format::Q6K, None, 18),
    mix("iq4_nl", Format::Iq4Nl, None, 25),
    mix("iq4_xs", Format::Iq4Xs, None, 30),
];

/// A tensor to write; `dims` fastest first.
pub(super) struct Tensor {
    pub name: String,
    pub dims: Vec<u64>,
    pub format: Format,
    pub is_norm: bool,
}

impl Shape {
    pub(super) fn parse(name: &str) -> Result<&'static Self, String> {
        SHAPES.iter().find(|s| s.name == name).ok_or_else(|| names(SHAPES.iter().map(|s| s.name)))
    }

    /// Every tensor, in the order of use.
    pub(super) fn tensors(&self, mix: &Mix) -> Vec<Tensor> {
        let (width, ffn, vocab) = (u64::from(self.width), u64::from(self.ffn), u64::from(self.vocab));
        let kv = width / u64::from(self.heads) * u64::from(self.kv_heads);
        let embedding = if self.tied { mix.output() } else { mix.base };
        let mut all = vec![matrix("token_embd".into(), width, vocab, embedding)];
        for l in 0..self.layers {
            let name = |part: &str| format!("blk.{l}.{part}");
            let sensitive = mix.sensitive.filter(|_| takes_more_bits(l, self.layers)).unwrap_or(mix.base);
            all.extend([
                norm(name("attn_norm"), width),
                matrix(name("attn_q"), width, width, mix.base),
                matrix(name("attn_k"), width, kv, mix.base),
                matrix(name("attn_v"), width, kv, sensitive),
                matrix(name("attn_output"), width, width, mix.base),
                norm(name("ffn_norm"), width),
                matrix(name("ffn_gate"), width, ffn, mix.base),
                matrix(name("ffn_up"), width, ffn, mix.base),
                matrix(name("ffn_down"), ffn, width, sensitive),
            ]);
        }
        all.push(norm("output_norm".into(), width));
        if !self.tied {
            all.push(matrix("output".into(), width, vocab, mix.output()));
        }
        all
    }
}

impl Mix {
    pub(super) fn parse(name: &str) -> Result<&'static Self, String> {
        const ALL: &[Mix] = &MIXES;
        ALL.iter().find(|m| m.name == name).ok_or_else(|| names(ALL.iter().map(|m| m.name)))
    }

    /// The output matrix is stored in six bits or better.
    fn output(&self) -> Format {
        match self.base {
            Format::F32 | Format::F16 | Format::Bf16 | Format::Q8_0 => self.base,
            _ => Format::Q6K,
        }
    }
}

/// Whether layer `l` of `n` is among those whose sensitive matrices get more
/// bits: the first eighth, the last, and every third between.
fn takes_more_bits(l: u32, n: u32) -> bool {
    l < n / 8 || l >= 7 * n / 8 || (l - n / 8) % 3 == 2
}

fn matrix(name: String, cols: u64, rows: u64, format: Format) -> Tensor {
    let format = if format.row_bytes(cols).is_some() { format } else { substitute(format) };
    Tensor { name: format!("{name}.weight"), dims: vec![cols, rows], format, is_norm: false }
}

fn norm(name: String, len: u64) -> Tensor {
    Tensor { name: format!("{name}.weight"), dims: vec![len], format: Format::F32, is_norm: true }
}

/// What llama.cpp's quantiser takes where rows are not whole blocks of 256.
fn substitute(format: Format) -> Format {
    match format {
        Format::Q2K | Format::Q3K | Format::Iq4Xs => Format::Iq4Nl,
        Format::Q4K => Format::Q5_0,
        Format::Q5K => Format::Q5_1,
        Format::Q6K => Format::Q8_0,
        other => other,
    }
}

fn names(known: impl Iterator<Item = &'static str>) -> String {
    format!("known are {}", known.collect::<Vec<_>>().join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mix_follows_llama_cpp() {
        let tensors = Shape::parse("1b").unwrap().tensors(Mix::parse("q4_k_m").unwrap());
        let format = |name: &str| tensors.iter().find(|t| t.name == name).unwrap().format;
        let better = |l: u32| format(&format!("blk.{l}.attn_v.weight")) == Format::Q6K;
        let layers: Vec<u32> = (0..22).filter(|l| better(*l)).collect();
        assert_eq!(layers, [0, 1, 4, 7, 10, 13, 16, 19, 20, 21]);
        assert_eq!(format("blk.4.ffn_down.weight"), Format::Q6K);
        assert_eq!(format("blk.4.ffn_up.weight"), Format::Q4K);
        assert_eq!(format("output.weight"), Format::Q6K);
        assert_eq!(format("token_embd.weight"), Format::Q4K);
    }

    #[test]
    fn every_shape_divides_into_blocks_in_every_mix() {
        for shape in &SHAPES {
            for mix in &MIXES {
                assert!(shape.tensors(mix).iter().all(|t| t.format.row_bytes(t.dims[0]).is_some()));
            }
        }
    }
}
