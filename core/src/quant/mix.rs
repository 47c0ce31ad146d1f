//! Mixes: which format each tensor of a file takes.
//!
//! A mix has a base format and exceptions, for tensors whose error costs more
//! than their size. The rules are those of llama.cpp's quantiser
//! (`src/llama-quant.cpp`) for llama-like models, so that a file means the same
//! whoever made it; layers are told by the number in a tensor's name.

use super::Format;

/// What a whole file is quantised to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mix {
    /// llama.cpp's name.
    pub name: &'static str,
    /// What most matrices take.
    pub base: Format,
    /// `general.file_type`: llama.cpp's `enum llama_ftype`.
    pub file_type: u32,
    /// How it departs from `base`.
    rules: Rules,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Rules {
    /// Every matrix takes the base format, the output matrix too.
    Plain,
    /// One format, but for the output matrix.
    Legacy,
    Q2K,
    Q3KS,
    Q3KM,
    Q3KL,
    KS,
    KM,
    Q6K,
    Iq4,
}

const fn mix(name: &'static str, base: Format, file_type: u32, rules: Rules) -> Mix {
    Mix { name, base, file_type, rules }
}

/// What decides beside a tensor's own name and shape.
#[derive(Clone, Copy, Debug, Default)]
pub struct ModelFacts {
    /// Layers.
    pub layers: u32,
    /// Query heads.
    pub heads: u32,
    /// Key and value heads.
    pub kv_heads: u32,
    /// Experts, where it has any.
    pub experts: u32,
    /// Tensors that carry values (`attn_v`, `attn_qkv`, `attn_kv_b`).
    pub value_tensors: u32,
    /// The embedding also serves as the output matrix.
    pub tied: bool,
    /// The architecture is `llama`.
    pub llama: bool,
    /// An importance matrix is at hand.
    pub importance: bool,
}

/// What becomes of a tensor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Choice {
    /// It stays as it is: norms, biases, whatever is small and sensitive.
    Keep,
    /// It takes this format.
    Take(Format),
    /// The mix has another format for it, but its rows are not whole blocks of
    /// that: it takes `instead`.
    Fallback {
        /// What the mix says.
        wanted: Format,
        /// What it takes.
        instead: Format,
    },
}

/// What a tensor is for, where that matters.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Role {
    Embedding,
    Output,
    Values,
    Keys,
    AttentionOutput,
    Down,
    Other,
}

impl Mix {
    /// Every mix, largest files first.
    pub const ALL: [Mix; 19] = [
        mix("F32", Format::F32, 0, Rules::Plain),
        mix("BF16", Format::Bf16, 32, Rules::Plain),
        mix("F16", Format::F16, 1, Rules::Plain),
        mix("Q8_0", Format::Q8_0, 7, Rules::Legacy),
        mix("Q6_K", Format::Q6K, 18, Rules::Q6K),
        mix("Q5_K_M", Format::Q5K, 17, Rules::KM),
        mix("Q5_K_S", Format::Q5K, 16, Rules::KS),
        mix("Q5_1", Format::Q5_1, 9, Rules::Legacy),
        mix("Q5_0", Format::Q5_0, 8, Rules::Legacy),
        mix("Q4_K_M", Format::Q4K, 15, Rules::KM),
        mix("Q4_K_S", Format::Q4K, 14, Rules::KS),
        mix("Q4_1", Format::Q4_1, 3, Rules::Legacy),
        mix("IQ4_NL", Format::Iq4Nl, 25, Rules::Iq4),
        mix("Q4_0", Format::Q4_0, 2, Rules::Legacy),
        mix("IQ4_XS", Format::Iq4Xs, 30, Rules::Iq4),
        mix("Q3_K_L", Format::Q3K, 13, Rules::Q3KL),
        mix("Q3_K_M", Format::Q3K, 12, Rules::Q3KM),
        mix("Q3_K_S", Format::Q3K, 11, Rules::Q3KS),
        mix("Q2_K", Format::Q2K, 10, Rules::Q2K),
    ];

    /// The mix called `name`, in capitals or not. Q3_K, Q4_K and Q5_K mean
    /// their middle sizes, as they do for llama.cpp.
    pub fn from_name(name: &str) -> Option<Self> {
        const SHORT: [(&str, &str); 3] = [("Q3_K", "Q3_K_M"), ("Q4_K", "Q4_K_M"), ("Q5_K", "Q5_K_M")];
        let name = SHORT.iter().find(|s| s.0.eq_ignore_ascii_case(name)).map_or(name, |s| s.1);
        Self::ALL.into_iter().find(|m| m.name.eq_ignore_ascii_case(name))
    }

    /// What becomes of the tensor `name` with rows of `cols` weights, `n_dims`
    /// dimensions in all.
    pub fn choose(&self, model: &ModelFacts, name: &str, cols: u64, n_dims: u32) -> Choice {
        if !may_change(name, n_dims) {
            return Choice::Keep;
        }
        if self.rules == Rules::Plain {
            return Choice::Take(self.base);
        }
        let wanted = self.wanted(model, name, cols);
        match whole(wanted, cols) {
            true => Choice::Take(wanted),
            false => Choice::Fallback { wanted, instead: fallback(wanted, cols) },
        }
    }

    fn wanted(&self, model: &ModelFacts, name: &str, cols: u64) -> Format {
        let layer = layer(name);
        match role(name) {
            Role::Output => self.output(cols),
            Role::Embedding if model.tied => self.output(cols),
            Role::Values => self.values(model, layer),
            Role::Keys if model.experts == 8 => Format::Q8_0,
            Role::AttentionOutput => self.attention_output(model),
            Role::Down => self.down(model, layer),
            Role::Embedding | Role::Keys | Role::Other => self.base,
        }
    }

    /// The output matrix: every token's choice goes through it.
    fn output(&self, cols: u64) -> Format {
        if self.base == Format::Q8_0 || !whole(self.base, cols) { Format::Q8_0 } else { Format::Q6K }
    }

    fn values(&self, model: &ModelFacts, layer: u32) -> Format {
        // Small beside the queries where heads share them: bits are cheap here.
        let shared = model.kv_heads > 0 && model.heads / model.kv_heads >= 4;
        let format = match self.rules {
            Rules::Q2K if shared => Format::Q4K,
            Rules::Q2K => Format::Q3K,
            Rules::Q3KM if layer < 2 => Format::Q5K,
            Rules::Q3KM => Format::Q4K,
            Rules::Q3KL => Format::Q5K,
            Rules::Iq4 if shared => Format::Q5K,
            Rules::KM if takes_more(layer, model.value_tensors) => Format::Q6K,
            Rules::KS if self.base == Format::Q4K && layer < 4 => Format::Q5K,
            _ => self.base,
        };
        // The llama of 70 G weights, by its shape.
        let largest = model.llama && model.layers == 80 && model.heads != model.kv_heads;
        match format {
            _ if model.experts == 8 => Format::Q8_0,
            Format::Q3K | Format::Q4K if largest => Format::Q5K,
            _ => format,
        }
    }

    fn attention_output(&self, model: &ModelFacts) -> Format {
        if model.experts == 8 {
            let small = matches!(self.rules, Rules::Q2K | Rules::Q3KS | Rules::Q3KM | Rules::Iq4)
                || matches!(self.rules, Rules::KS | Rules::KM) && self.base == Format::Q4K;
            return if small { Format::Q5K } else { self.base };
        }
        match self.rules {
            Rules::Q2K => Format::Q3K,
            Rules::Q3KM => Format::Q4K,
            Rules::Q3KL => Format::Q5K,
            _ => self.base,
        }
    }

    fn down(&self, model: &ModelFacts, layer: u32) -> Format {
        let first_eighth = layer < model.layers / 8;
        match self.rules {
            Rules::Q2K => Format::Q3K,
            Rules::Q3KM if layer < model.layers / 16 => Format::Q5K,
            Rules::Q3KM => Format::Q4K,
            Rules::Q3KL => Format::Q5K,
            Rules::KM if takes_more(layer, model.layers) => Format::Q6K,
            Rules::KS if self.base == Format::Q4K && first_eighth => Format::Q5K,
            Rules::Iq4 if first_eighth && !model.importance => Format::Q5K,
            Rules::Legacy if first_eighth && model.importance && self.base == Format::Q4_0 => Format::Q4_1,
            Rules::Legacy if first_eighth && model.importance && self.base == Format::Q5_0 => Format::Q5_1,
            _ => self.base,
        }
    }
}

/// The first and last eighth of the layers, and every third between.
fn takes_more(layer: u32, layers: u32) -> bool {
    let (eighth, layer, layers) = (u64::from(layers) / 8, u64::from(layer), u64::from(layers));
    layer < eighth || layer >= 7 * layers / 8 || (layer - eighth) % 3 == 2
}

fn whole(format: Format, cols: u64) -> bool {
    cols.is_multiple_of(format.block_len() as u64)
}

/// The nearest format with shorter blocks.
fn fallback(wanted: Format, cols: u64) -> Format {
    let shorter = match wanted {
        Format::Q2K | Format::Q3K => Format::Q4_0,
        Format::Q4K => Format::Q5_0,
        Format::Q5K => Format::Q5_1,
        Format::Q6K => Format::Q8_0,
        Format::Iq4Xs => Format::Iq4Nl,
        _ => Format::F16,
    };
    if whole(shorter, cols) { shorter } else { Format::F16 }
}

/// The number in `blk.N.`; names without one count as the first layer.
fn layer(name: &str) -> u32 {
    let number = name.strip_prefix("blk.").and_then(|rest| rest.split('.').next());
    number.and_then(|n| n.parse().ok()).unwrap_or(0)
}

fn role(name: &str) -> Role {
    const PARTS: [(&str, Role); 6] = [
        ("attn_qkv.weight", Role::Values),
        ("attn_kv_b.weight", Role::Values),
        ("attn_v.weight", Role::Values),
        ("attn_k.weight", Role::Keys),
        ("attn_output.weight", Role::AttentionOutput),
        ("ffn_down", Role::Down),
    ];
    match name {
        "output.weight" => Role::Output,
        "token_embd.weight" | "per_layer_token_embd.weight" => Role::Embedding,
        _ => PARTS.into_iter().find(|(part, _)| name.contains(part)).map_or(Role::Other, |(_, role)| role),
    }
}

/// True for tensors that carry values: what [`ModelFacts::value_tensors`] counts.
pub fn is_values(name: &str) -> bool {
    role(name) == Role::Values
}

/// Matrices of weights may change; what is small or steers does not.
fn may_change(name: &str, n_dims: u32) -> bool {
    const KEPT: [&str; 12] = [
        "_norm.weight",
        "ffn_gate_inp.weight",
        "altup",
        "laurel",
        "per_layer_model_proj",
        "ssm_conv1d",
        "shortconv.conv.weight",
        "attn_rel_b.weight",
        ".position_embd",
        ".rel_pos",
        ".patch_embd",
        ".patch_merger",
    ];
    let steers = matches!(name, "position_embd.weight" | "token_types.weight")
        || name.contains("time_mix_") && !is_large_time_mix(name);
    n_dims >= 2 && name.ends_with("weight") && !steers && !KEPT.iter().any(|part| name.contains(part))
}

/// Of RWKV's time mixing, only the square matrices are large.
fn is_large_time_mix(name: &str) -> bool {
    ["key", "value", "receptance", "gate", "output"].iter().any(|part| name.contains(part))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::format;
    use std::vec::Vec;

    use super::*;

    const TINYLLAMA: ModelFacts = ModelFacts {
        layers: 22,
        heads: 32,
        kv_heads: 4,
        experts: 0,
        value_tensors: 22,
        tied: false,
        llama: true,
        importance: false,
    };

    fn take(mix: &str, name: &str, cols: u64) -> Choice {
        Mix::from_name(mix).unwrap().choose(&TINYLLAMA, name, cols, 2)
    }

    #[test]
    fn names_and_file_types_are_each_ones_own() {
        let names: BTreeSet<_> = Mix::ALL.iter().map(|m| m.name).collect();
        let types: BTreeSet<_> = Mix::ALL.iter().map(|m| m.file_type).collect();
        assert_eq!((names.len(), types.len()), (19, 19));
        assert_eq!(Mix::from_name("q4_k_m").unwrap().file_type, 15);
        assert_eq!(Mix::from_name("Q4_2"), None);
    }

    #[test]
    fn q4_k_m_as_llama_cpp_has_it() {
        let better: Vec<u32> = (0..22)
            .filter(|l| take("Q4_K_M", &format!("blk.{l}.attn_v.weight"), 2048) == Choice::Take(Format::Q6K))
            .collect();
        assert_eq!(better, [0, 1, 4, 7, 10, 13, 16, 19, 20, 21]);
        assert_eq!(take("Q4_K_M", "output.weight", 2048), Choice::Take(Format::Q6K));
        assert_eq!(take("Q4_K_M", "token_embd.weight", 2048), Choice::Take(Format::Q4K));
        assert_eq!(take("Q4_K_M", "blk.3.ffn_up.weight", 2048), Choice::Take(Format::Q4K));
        assert_eq!(take("Q4_K_M", "blk.3.ffn_norm.weight", 2048), Choice::Keep);
        assert_eq!(
            Mix::from_name("Q4_K_M").unwrap().choose(&TINYLLAMA, "blk.3.attn_q.bias", 9, 1),
            Choice::Keep
        );
    }

    #[test]
    fn rows_that_are_not_whole_blocks_fall_back() {
        let back = |wanted, instead| Choice::Fallback { wanted, instead };
        assert_eq!(take("Q4_K_M", "blk.3.ffn_up.weight", 576), back(Format::Q4K, Format::Q5_0));
        assert_eq!(take("Q4_K_M", "output.weight", 576), Choice::Take(Format::Q8_0));
        assert_eq!(take("Q4_0", "output.weight", 64), back(Format::Q6K, Format::Q8_0));
        assert_eq!(take("IQ4_XS", "blk.9.ffn_up.weight", 576), back(Format::Iq4Xs, Format::Iq4Nl));
        assert_eq!(take("Q3_K_S", "blk.9.ffn_up.weight", 576), back(Format::Q3K, Format::Q4_0));
        assert_eq!(take("Q8_0", "blk.9.ffn_up.weight", 40), back(Format::Q8_0, Format::F16));
    }

    #[test]
    fn a_tied_embedding_is_the_output() {
        let tied = ModelFacts { tied: true, ..TINYLLAMA };
        let mix = Mix::from_name("Q4_K_S").unwrap();
        assert_eq!(mix.choose(&tied, "token_embd.weight", 2048, 2), Choice::Take(Format::Q6K));
        // Plain mixes have one format for all.
        let f16 = Mix::from_name("F16").unwrap();
        assert_eq!(f16.choose(&tied, "token_embd.weight", 2048, 2), Choice::Take(Format::F16));
    }

    #[test]
    fn layers_from_hostile_names_do_no_harm() {
        for name in
            ["blk.99999999999.attn_v.weight", "blk..ffn_down.weight", "blk.4294967295.ffn_down.weight"]
        {
            for mix in Mix::ALL {
                mix.choose(&ModelFacts::default(), name, 256, 2);
                mix.choose(&TINYLLAMA, name, 256, 2);
            }
        }
    }
}
