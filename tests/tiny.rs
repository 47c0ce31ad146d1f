//! Small models made in memory, right or wrong on purpose.
//!
//! [`Tiny::new`] gives keys and tensors as lists that a test may change, drop,
//! repeat or add to before [`Tiny::bytes`] writes the file. Weights are random,
//! the same for the same shape.

use std::convert::Infallible;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};

use katydid_core::gguf::emit::Emit;
use katydid_core::gguf::{MAX_TENSOR_NAME, Value};
use katydid_core::quant::Format;

use crate::random::Random;

/// A key's value, owned.
#[derive(Clone, Debug)]
#[allow(missing_docs, reason = "named after the types of GGUF values")]
pub enum Meta {
    U32(u32),
    U64(u64),
    F32(f32),
    Bool(bool),
    Str(String),
    Strs(Vec<String>),
    F32s(Vec<f32>),
    I32s(Vec<i32>),
}

impl From<&str> for Meta {
    fn from(text: &str) -> Self {
        Meta::Str(text.to_owned())
    }
}

/// A tensor: its entry and its data.
#[derive(Clone, Debug)]
pub struct Tensor {
    /// Its name.
    pub name: String,
    /// Columns, then rows.
    pub dims: Vec<u64>,
    /// How `data` stores the weights.
    pub format: Format,
    /// As many bytes as `dims` and `format` need.
    pub data: Vec<u8>,
}

/// What a model is made from.
#[derive(Clone, Copy, Debug)]
#[allow(missing_docs, reason = "named after the keys they become")]
pub struct Shape {
    pub arch: &'static str,
    pub layers: usize,
    pub embd: usize,
    pub ffn: usize,
    pub heads: usize,
    pub kv_heads: usize,
    /// Written as a key where it is not `embd / heads`.
    pub head_dim: usize,
    pub vocab: usize,
    pub context: usize,
    /// Of all matrices. Norms and biases are F32.
    pub format: Format,
    /// No `output.weight`.
    pub tied: bool,
    /// Biases on queries, keys, values and the attention's output.
    pub biases: bool,
}

impl Shape {
    /// Large enough to be a model, small enough to be cut at every byte.
    pub const LEAST: Shape = Shape {
        arch: "llama",
        layers: 1,
        embd: 8,
        ffn: 8,
        heads: 2,
        kv_heads: 1,
        head_dim: 4,
        vocab: 264,
        context: 64,
        format: Format::F32,
        tied: true,
        biases: false,
    };

    /// Everything more than once.
    pub const SMALL: Shape = Shape {
        arch: "llama",
        layers: 2,
        embd: 64,
        ffn: 96,
        heads: 4,
        kv_heads: 2,
        head_dim: 16,
        vocab: 320,
        context: 256,
        format: Format::F32,
        tied: false,
        biases: false,
    };
}

/// A model before it is written.
#[derive(Clone, Debug)]
pub struct Tiny {
    /// Keys, in the file's order.
    pub keys: Vec<(String, Meta)>,
    /// Tensors, in the file's order.
    pub tensors: Vec<Tensor>,
}

impl Tiny {
    /// A whole, sound model of this shape, with a tokenizer.
    pub fn new(s: &Shape) -> Self {
        let mut model = Self { keys: Vec::new(), tensors: Vec::new() };
        model.shape_keys(s);
        model.vocabulary(s.vocab);
        model.all_tensors(s);
        model
    }

    /// Sets a key, or adds it.
    pub fn set(&mut self, key: &str, value: Meta) -> &mut Self {
        match self.keys.iter_mut().find(|(k, _)| k == key) {
            Some(entry) => entry.1 = value,
            None => self.keys.push((key.to_owned(), value)),
        }
        self
    }

    /// Drops a key, which must be there.
    pub fn unset(&mut self, key: &str) -> &mut Self {
        let before = self.keys.len();
        self.keys.retain(|(k, _)| k != key);
        assert!(self.keys.len() < before, "no key {key}");
        self
    }

    /// The tensor called `name`, which must be there.
    pub fn tensor(&mut self, name: &str) -> &mut Tensor {
        self.tensors.iter_mut().find(|t| t.name == name).unwrap_or_else(|| panic!("no tensor {name}"))
    }

    /// Drops a tensor, which must be there.
    pub fn drop_tensor(&mut self, name: &str) -> &mut Self {
        self.tensor(name);
        self.tensors.retain(|t| t.name != name);
        self
    }

    /// Adds a tensor of random weights.
    pub fn add_tensor(&mut self, name: &str, dims: &[u64], format: Format) -> &mut Self {
        assert!(name.len() <= MAX_TENSOR_NAME);
        let mut random = Random::of(name);
        let rows: u64 = dims[1..].iter().product();
        let bytes = format.row_bytes(dims[0]).expect("whole blocks") * rows;
        let data = random.weights(format, bytes as usize);
        self.tensors.push(Tensor { name: name.to_owned(), dims: dims.to_vec(), format, data });
        self
    }

    /// Gives token `id` another text, as an ordinary token or a control token.
    pub fn token(&mut self, id: usize, text: &str, control: bool) -> &mut Self {
        for (key, value) in &mut self.keys {
            match (key.as_str(), value) {
                ("tokenizer.ggml.tokens", Meta::Strs(all)) => all[id] = text.to_owned(),
                ("tokenizer.ggml.token_type", Meta::I32s(all)) => all[id] = if control { 3 } else { 1 },
                _ => {}
            }
        }
        self
    }

    /// Makes a model that has learnt by heart what follows each token: `next`
    /// of its id, where that is something; a few dozen of those. It sees nothing
    /// but the last token.
    pub fn parrot(&mut self, s: &Shape, next: impl Fn(u32) -> Option<u32>) -> &mut Self {
        for layer in 0..s.layers {
            self.fill(&format!("blk.{layer}.attn_output.weight"), |_| 0.0);
            self.fill(&format!("blk.{layer}.ffn_down.weight"), |_| 0.0);
        }
        let mut random = Random::of("parrot");
        let codes: Vec<f32> =
            (0..s.vocab * s.embd).map(|_| if random.unit() < 0.5 { -1.0 } else { 1.0 }).collect();
        let mut answers = vec![0.0; codes.len()];
        for id in 0..s.vocab {
            let Some(to) = next(id as u32) else { continue };
            let to = to as usize * s.embd;
            (0..s.embd).for_each(|i| answers[to + i] += codes[id * s.embd + i]);
        }
        self.fill("token_embd.weight", |i| codes[i]);
        self.fill("output_norm.weight", |_| 1.0);
        self.fill("output.weight", |i| answers[i])
    }

    /// Changes the weights of an F32 tensor.
    pub fn fill(&mut self, name: &str, weight: impl Fn(usize) -> f32) -> &mut Self {
        let tensor = self.tensor(name);
        assert_eq!(tensor.format, Format::F32);
        for (i, bytes) in tensor.data.chunks_exact_mut(4).enumerate() {
            bytes.copy_from_slice(&weight(i).to_le_bytes());
        }
        self
    }

    /// The file.
    pub fn bytes(&self) -> Vec<u8> {
        emit(&self.keys, &self.tensors)
    }

    /// The files of the same model split into `n`, the keys in the first.
    pub fn split(&self, n: usize) -> Vec<Vec<u8>> {
        let each = self.tensors.len().div_ceil(n);
        let part = |i: usize| {
            let mut keys = if i == 0 { self.keys.clone() } else { Vec::new() };
            let of = [("no", i), ("count", n), ("tensors.count", self.tensors.len())];
            keys.extend(of.map(|(key, value)| (format!("split.{key}"), Meta::U32(value as u32))));
            let end = ((i + 1) * each).min(self.tensors.len());
            emit(&keys, &self.tensors[i * each..end])
        };
        (0..n).map(part).collect()
    }

    /// Writes the file into `folder`, and returns its path.
    pub fn save(&self, folder: &Path, name: &str) -> PathBuf {
        static SAVED: AtomicUsize = AtomicUsize::new(0);
        let path = folder.join(name);
        // Another test may have the same file mapped: replace it, never change it.
        let nth = SAVED.fetch_add(1, Ordering::Relaxed);
        let new = folder.join(format!("{name}.{}.{nth}", std::process::id()));
        std::fs::write(&new, self.bytes()).expect("a writable folder");
        std::fs::rename(&new, &path).expect("the same folder");
        path
    }

    fn shape_keys(&mut self, s: &Shape) {
        self.set("general.architecture", s.arch.into());
        self.set("general.name", "tiny".into());
        let sizes = [
            ("block_count", s.layers),
            ("embedding_length", s.embd),
            ("feed_forward_length", s.ffn),
            ("attention.head_count", s.heads),
            ("attention.head_count_kv", s.kv_heads),
            ("context_length", s.context),
        ];
        for (key, value) in sizes {
            self.set(&format!("{}.{key}", s.arch), Meta::U32(value as u32));
        }
        if s.head_dim * s.heads != s.embd {
            self.set(&format!("{}.attention.key_length", s.arch), Meta::U32(s.head_dim as u32));
            self.set(&format!("{}.attention.value_length", s.arch), Meta::U32(s.head_dim as u32));
        }
        self.set(&format!("{}.attention.layer_norm_rms_epsilon", s.arch), Meta::F32(1e-5));
    }

    /// SentencePiece: special tokens, bytes, then letters and pairs of letters.
    fn vocabulary(&mut self, n: usize) {
        let mut texts: Vec<String> = ["<unk>", "<s>", "</s>"].map(str::to_owned).into();
        let mut kinds = vec![2, 3, 3];
        texts.extend((0..256).map(|b| format!("<0x{b:02X}>")));
        kinds.resize(texts.len(), 6);
        texts.push("\u{2581}".to_owned());
        texts.extend(('a'..='z').map(String::from));
        texts.extend(('a'..='z').map(|c| format!("\u{2581}{c}")));
        let letters = || 'a'..='z';
        texts.extend(letters().flat_map(|a| letters().map(move |b| format!("{a}{b}"))));
        assert!((259..=texts.len()).contains(&n), "{n} tokens");
        texts.truncate(n);
        kinds.resize(n, 1);
        self.set("tokenizer.ggml.model", "llama".into());
        self.set("tokenizer.ggml.tokens", Meta::Strs(texts));
        self.set("tokenizer.ggml.scores", Meta::F32s((0..n).map(|i| -(i as f32)).collect()));
        self.set("tokenizer.ggml.token_type", Meta::I32s(kinds));
        self.set("tokenizer.ggml.bos_token_id", Meta::U32(1));
        self.set("tokenizer.ggml.eos_token_id", Meta::U32(2));
        self.set("tokenizer.ggml.unknown_token_id", Meta::U32(0));
    }

    fn all_tensors(&mut self, s: &Shape) {
        let (embd, ffn, vocab, head) = (s.embd as u64, s.ffn as u64, s.vocab as u64, s.head_dim as u64);
        let (query, key) = (head * s.heads as u64, head * s.kv_heads as u64);
        self.add_tensor("token_embd.weight", &[embd, vocab], s.format);
        for layer in 0..s.layers {
            let mut add = |name: &str, dims: &[u64], format| {
                self.add_tensor(&format!("blk.{layer}.{name}"), dims, format);
            };
            add("attn_norm.weight", &[embd], Format::F32);
            add("attn_q.weight", &[embd, query], s.format);
            add("attn_k.weight", &[embd, key], s.format);
            add("attn_v.weight", &[embd, key], s.format);
            add("attn_output.weight", &[query, embd], s.format);
            if s.biases || s.arch == "qwen2" {
                for (name, len) in [("q", query), ("k", key), ("v", key)] {
                    add(&format!("attn_{name}.bias"), &[len], Format::F32);
                }
            }
            if s.biases {
                add("attn_output.bias", &[embd], Format::F32);
            }
            if s.arch == "qwen3" {
                add("attn_q_norm.weight", &[head], Format::F32);
                add("attn_k_norm.weight", &[head], Format::F32);
            }
            add("ffn_norm.weight", &[embd], Format::F32);
            add("ffn_gate.weight", &[embd, ffn], s.format);
            add("ffn_up.weight", &[embd, ffn], s.format);
            add("ffn_down.weight", &[ffn, embd], s.format);
        }
        self.add_tensor("output_norm.weight", &[embd], Format::F32);
        if !s.tied {
            self.add_tensor("output.weight", &[embd, vocab], s.format);
        }
    }
}

fn emit(keys: &[(String, Meta)], tensors: &[Tensor]) -> Vec<u8> {
    let mut file = Vec::new();
    let sink = |bytes: &[u8]| {
        file.extend_from_slice(bytes);
        Ok::<(), Infallible>(())
    };
    let mut out = Emit::new(sink, 3, keys.len() as u64, tensors.len() as u64).expect("version 3");
    for (key, value) in keys {
        match value {
            Meta::U32(v) => out.put(key, Value::U32(*v)),
            Meta::U64(v) => out.put(key, Value::U64(*v)),
            Meta::F32(v) => out.put(key, Value::F32(*v)),
            Meta::Bool(v) => out.put(key, Value::Bool(*v)),
            Meta::Str(v) => out.put(key, Value::Str(v)),
            Meta::Strs(v) => out.strings(key, v.iter().map(String::as_str)),
            Meta::F32s(v) => out.f32s(key, v.iter().copied()),
            Meta::I32s(v) => out.i32s(key, v.iter().copied()),
        }
        .expect("a usable key");
    }
    let slots: Vec<_> =
        tensors.iter().map(|t| out.tensor(&t.name, &t.dims, t.format).expect("a usable tensor")).collect();
    for (slot, tensor) in slots.into_iter().zip(tensors) {
        out.weights(slot, &tensor.data).expect("data in order");
    }
    out.finish().expect("all data");
    file
}
