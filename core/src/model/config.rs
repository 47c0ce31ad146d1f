//! Hyper-parameters, read from the file's keys and checked.

use super::arch::{self, Arch, Dim};
use super::error::{Fault, LoadError};
use crate::Name;
use crate::gguf::{Gguf, Parts, Value};
use crate::kernels::MAX_HEAD_DIM;

/// Bounds beyond any model in use; they keep every product of sizes far from
/// overflowing, also where addresses have 32 bits.
const MAX_LAYERS: u64 = 1024;
const MAX_WIDTH: u64 = 1 << 20;
const MAX_HEADS: u64 = 4096;
const MAX_CONTEXT: u64 = 1 << 26;

/// The shape of a model.
#[derive(Clone, Copy, Debug)]
pub struct Config {
    /// Its architecture.
    pub arch: &'static Arch,
    /// Layers.
    pub layers: usize,
    /// Width of the stream between layers.
    pub embd: usize,
    /// Width of the feed-forward step.
    pub ffn: usize,
    /// Query heads.
    pub heads: usize,
    /// Key and value heads; divides `heads`.
    pub kv_heads: usize,
    /// Numbers per head; even.
    pub head_dim: usize,
    /// Numbers of a head that are rotated, from its start; even.
    pub rope_dim: usize,
    /// Base of the rotation's wavelengths.
    pub rope_base: f32,
    /// What positions are divided by (linear scaling); 1 for none.
    pub rope_scale: f32,
    /// Added to the mean square in norms.
    pub norm_eps: f32,
    /// Tokens the model was trained to see.
    pub context: usize,
    /// Rows of the embedding: ids below this can be run.
    pub vocab: usize,
}

impl Config {
    /// Reads and checks the keys that `parts` gives for its architecture.
    pub fn read(parts: &Parts<'_>) -> Result<Self, LoadError> {
        let gguf = parts.meta();
        let key = "general.architecture";
        let name = gguf.str(key)?.ok_or(LoadError::Key(Name::new(key), Fault::Missing))?;
        let arch =
            arch::find(name).ok_or(LoadError::Key(Name::new(key), Fault::UnknownArch(Name::new(name))))?;
        let keys = Keys { gguf, arch };
        let embd = keys.size("embedding_length", MAX_WIDTH)?;
        let heads = keys.size("attention.head_count", MAX_HEADS)?;
        let kv_heads = keys.size_or("attention.head_count_kv", MAX_HEADS, heads)?;
        if heads % kv_heads != 0 {
            let fault = Fault::NotDivisible { value: heads as u64, by: kv_heads as u64 };
            return keys.fail("attention.head_count", fault);
        }
        let head_dim = keys.head_dim(embd, heads)?;
        let rope_dim = keys.size_or("rope.dimension_count", head_dim as u64, head_dim)?;
        keys.even("rope.dimension_count", rope_dim)?;
        keys.refuse_other_ropes()?;
        keys.refuse_experts()?;
        keys.refuse_other_mathematics()?;
        Ok(Self {
            arch,
            layers: keys.size("block_count", MAX_LAYERS)?,
            embd,
            ffn: keys.size("feed_forward_length", MAX_WIDTH)?,
            heads,
            kv_heads,
            head_dim,
            rope_dim,
            rope_base: keys.positive("rope.freq_base", Some(10_000.0))?,
            rope_scale: keys.rope_scale()?,
            norm_eps: keys.positive("attention.layer_norm_rms_epsilon", None)?,
            context: keys.size("context_length", MAX_CONTEXT)?,
            vocab: vocab(parts, embd)?,
        })
    }

    /// The size that `dim` stands for.
    pub fn dim(&self, dim: Dim) -> usize {
        match dim {
            Dim::One => 1,
            Dim::Embd => self.embd,
            Dim::Ffn => self.ffn,
            Dim::Query => self.heads * self.head_dim,
            Dim::Key => self.kv_heads * self.head_dim,
            Dim::Head => self.head_dim,
        }
    }
}

/// Rows of the embedding, which the vocabulary must not exceed.
fn vocab(parts: &Parts<'_>, embd: usize) -> Result<usize, LoadError> {
    let name = "token_embd.weight";
    let fail = |fault| LoadError::Tensor(Name::new(name), fault);
    let (_, info) = parts.find(name).ok_or(fail(Fault::Missing))?;
    let rows = info.dims[1];
    if info.dims[0] != embd as u64 {
        return Err(fail(Fault::Shape { have: [rows, info.dims[0]], want: [rows, embd as u64] }));
    }
    let tokens = parts.meta().array("tokenizer.ggml.tokens")?.map_or(0, |a| a.len() as u64);
    let max = 1u64 << 24;
    if tokens > rows {
        return Err(fail(Fault::FewRows { rows, tokens }));
    }
    if rows > max {
        return Err(fail(Fault::Range { value: rows, min: 1, max }));
    }
    // At most 2²⁴.
    Ok(rows as usize)
}

/// Whether a value says that what its key names is not used.
fn is_off(value: Value<'_>) -> bool {
    match value {
        Value::Bool(on) => !on,
        Value::F32(x) => x == 0.0,
        other => other.integer() == Some(0),
    }
}

/// The keys of one architecture.
struct Keys<'k, 'a> {
    gguf: &'k Gguf<'a>,
    arch: &'static Arch,
}

impl Keys<'_, '_> {
    /// The whole key, for look-ups and messages.
    fn name(&self, suffix: &str) -> Name {
        Name::format(format_args!("{}.{suffix}", self.arch.name))
    }

    fn fail<T>(&self, suffix: &str, fault: Fault) -> Result<T, LoadError> {
        Err(LoadError::Key(self.name(suffix), fault))
    }

    fn size(&self, suffix: &str, max: u64) -> Result<usize, LoadError> {
        match self.gguf.u32(self.name(suffix).as_str())? {
            None => self.fail(suffix, Fault::Missing),
            // Below 2³²: fits wherever a model does.
            Some(v) if (1..=max).contains(&u64::from(v)) => Ok(v as usize),
            Some(v) => self.fail(suffix, Fault::Range { value: u64::from(v), min: 1, max }),
        }
    }

    fn size_or(&self, suffix: &str, max: u64, default: usize) -> Result<usize, LoadError> {
        match self.gguf.get(self.name(suffix).as_str()) {
            None => Ok(default),
            Some(_) => self.size(suffix, max),
        }
    }

    fn positive(&self, suffix: &str, default: Option<f32>) -> Result<f32, LoadError> {
        match self.gguf.f32(self.name(suffix).as_str())?.or(default) {
            None => self.fail(suffix, Fault::Missing),
            Some(v) if v.is_finite() && v > 0.0 => Ok(v),
            Some(v) => self.fail(suffix, Fault::NotPositive(v)),
        }
    }

    fn even(&self, suffix: &str, value: usize) -> Result<(), LoadError> {
        if value.is_multiple_of(2) {
            return Ok(());
        }
        self.fail(suffix, Fault::NotDivisible { value: value as u64, by: 2 })
    }

    fn head_dim(&self, embd: usize, heads: usize) -> Result<usize, LoadError> {
        let (key, max) = ("attention.key_length", MAX_HEAD_DIM as u64);
        if self.gguf.get(self.name(key).as_str()).is_none() && !embd.is_multiple_of(heads) {
            let fault = Fault::NotDivisible { value: embd as u64, by: heads as u64 };
            return self.fail("embedding_length", fault);
        }
        let dim = self.size_or(key, max, embd / heads)?;
        if dim == 0 || dim as u64 > max {
            return self.fail("attention.head_count", Fault::Range { value: dim as u64, min: 1, max });
        }
        self.even(key, dim)?;
        let value = self.size_or("attention.value_length", max, dim)?;
        if value != dim {
            let fault = Fault::Differs { value: value as u64, want: dim as u64 };
            return self.fail("attention.value_length", fault);
        }
        Ok(dim)
    }

    /// Linear scaling, also where only its factor is given, as llama.cpp reads
    /// it. (Llama 3's is a tensor, `rope_freqs.weight`.)
    fn rope_scale(&self) -> Result<f32, LoadError> {
        match self.gguf.str(self.name("rope.scaling.type").as_str())? {
            Some("none") => Ok(1.0),
            Some("linear") => self.positive("rope.scaling.factor", None),
            // Files from before `rope.scaling.*` have `rope.scale_linear`.
            _ => {
                let old = self.positive("rope.scale_linear", Some(1.0))?;
                self.positive("rope.scaling.factor", Some(old))
            }
        }
    }

    /// Errs on keys that change the mathematics in ways we do not know: the
    /// text would be wrong without them.
    fn refuse_other_mathematics(&self) -> Result<(), LoadError> {
        const UNKNOWN: [&str; 9] = [
            "attention.scale",
            "attention.clamp_kqv",
            "attn_logit_softcapping",
            "final_logit_softcapping",
            "logit_scale",
            "embedding_scale",
            "residual_scale",
            "use_parallel_residual",
            "attention.max_alibi_bias",
        ];
        let asked = |key: &str| self.gguf.get(self.name(key).as_str()).is_some_and(|v| !is_off(v));
        if let Some(key) = UNKNOWN.into_iter().find(|key| asked(key)) {
            return self.fail(key, Fault::Unsupported(Name::new(key)));
        }
        match self.gguf.bool(self.name("attention.causal").as_str())? {
            Some(false) => {
                self.fail("attention.causal", Fault::Unsupported(Name::new("attention to later tokens")))
            }
            _ => Ok(()),
        }
    }

    fn refuse_other_ropes(&self) -> Result<(), LoadError> {
        match self.gguf.str(self.name("rope.scaling.type").as_str())? {
            None | Some("none" | "linear") => Ok(()),
            Some(other) => self.fail("rope.scaling.type", Fault::Unsupported(Name::new(other))),
        }
    }

    fn refuse_experts(&self) -> Result<(), LoadError> {
        match self.gguf.u32(self.name("expert_count").as_str())? {
            None | Some(0) => Ok(()),
            Some(_) => self.fail("expert_count", Fault::Unsupported(Name::new("mixture of experts"))),
        }
    }
}
