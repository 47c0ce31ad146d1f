//! The layer step: one batch of tokens through one layer.
//!
//! ```text
//! a = norm(x);  q, k, v = Wq·a, Wk·a, Wv·a (+ bias, head norm, rotation)
//! x += Wo · attend(q, cache)
//! a = norm(x);  x += Wdown · (silu(Wgate·a) · Wup·a)
//! ```
//!
//! Every token's numbers depend on that token's inputs and the cache alone, so
//! a batch gives the same bits as its tokens one by one.

use core::ops::Range;

use super::config::Config;
use super::kv::KvCache;
use super::rope::RopeTable;
use super::weights::{Layer, Weights};
use crate::arena::{ArenaFull, Space};
use crate::gguf::TensorRef;
use crate::kernels::{ActBuf, Kernels, Rows, for_each_row};
use crate::plan::Part;
use crate::port::Workers;

/// What a step reads and does not change.
pub(super) struct Step<'s, 'a> {
    pub(super) config: &'s Config,
    pub(super) kernels: &'s Kernels,
    pub(super) weights: &'s Weights<'a>,
    pub(super) rope: &'s RopeTable<'a>,
    pub(super) workers: &'s dyn Workers,
    /// Of the batch's first token.
    pub(super) position: usize,
}

/// Vectors of a batch, one row per token.
pub(super) struct Buffers<'a> {
    /// The stream between layers.
    x: &'a mut [f32],
    /// Normed stream, or what attention gives.
    a: &'a mut [f32],
    /// Queries, keys and values, or the gate.
    b: &'a mut [f32],
    /// The other factor of the feed-forward step, or what is added to `x`.
    c: &'a mut [f32],
    acts: ActBuf<'a>,
}

impl<'a> Buffers<'a> {
    /// Room for `batch` tokens.
    pub(super) fn lay_out<S: Space<'a>>(
        space: &mut S,
        config: &Config,
        batch: usize,
    ) -> Result<Self, ArenaFull> {
        use super::arch::Dim;
        let (embd, ffn) = (config.embd, config.ffn);
        let (query, key) = (config.dim(Dim::Query), config.dim(Dim::Key));
        let mut take = |name, width: usize| space.take(Part::Activations, name, batch.saturating_mul(width));
        Ok(Self {
            x: take("stream", embd)?,
            a: take("normed stream, attention", embd.max(query))?,
            b: take("queries, keys, values, gate", ffn.max(query + 2 * key))?,
            c: take("feed-forward, sums", ffn.max(embd))?,
            acts: ActBuf::lay_out(space, batch, embd.max(query).max(ffn))?,
        })
    }

    /// Starts a batch: `x` becomes the tokens' embeddings.
    pub(super) fn embed(&mut self, s: &Step<'_, '_>, tokens: &[u32]) {
        let (embd, table) = (s.config.embd, s.weights.embedding);
        let rows = Rows::new(&mut self.x[..tokens.len() * embd], embd);
        for_each_row(s.workers, rows, &|t, x| {
            // Ids were checked against the rows before the batch began.
            if let Some(row) = table.row(tokens[t] as usize) {
                table.format().dequantize(row, x);
            }
        });
    }

    /// One layer over the batch's `n` tokens.
    pub(super) fn layer(&mut self, s: &Step<'_, '_>, kv: &mut KvCache<'_>, index: usize, n: usize) {
        let layer = s.weights.layer(index);
        self.norm(s, layer.attn_norm, n);
        self.queries_keys_values(s, &layer, n);
        self.rotate_and_store(s, &layer, kv, index, n);
        self.attend(s, kv, index, n);
        self.add_product(s, layer.out, layer.out_bias, Source::A, n);
        self.norm(s, layer.ffn_norm, n);
        self.gate_and_up(s, &layer, n);
        self.add_product(s, layer.down, None, Source::B, n);
    }

    /// The logits of the batch's tokens `range`, a row each. Where the stream
    /// has gone out of range all of a row are NaN: products in integers would
    /// hide it.
    pub(super) fn logits(&mut self, s: &Step<'_, '_>, range: Range<usize>, out: &mut [f32]) {
        let (embd, vocab, n) = (s.config.embd, s.config.vocab, range.len());
        let a = &mut self.a[..n * embd];
        for (a, t) in a.chunks_exact_mut(embd).zip(range) {
            s.kernels.rms_norm(&self.x[t * embd..][..embd], s.weights.norm, s.config.norm_eps, a);
        }
        products(s, a, embd, &mut self.acts, [(s.weights.output, &mut *out)]);
        for (a, out) in a.chunks_exact(embd).zip(out.chunks_exact_mut(vocab)) {
            if a.iter().any(|x| !x.is_finite()) {
                out.fill(f32::NAN);
            }
        }
    }

    /// a = norm(x)
    fn norm(&mut self, s: &Step<'_, '_>, w: &[u8], n: usize) {
        let (embd, x) = (s.config.embd, &*self.x);
        for_each_row(s.workers, Rows::new(&mut self.a[..n * embd], embd), &|t, a| {
            s.kernels.rms_norm(&x[t * embd..][..embd], w, s.config.norm_eps, a);
        });
    }

    fn queries_keys_values(&mut self, s: &Step<'_, '_>, layer: &Layer<'_>, n: usize) {
        let embd = s.config.embd;
        let (q, k, v) = split_qkv(self.b, s.config, n);
        let jobs = [(layer.query, q), (layer.key, k), (layer.value, v)];
        products(s, &self.a[..n * embd], embd, &mut self.acts, jobs);
    }

    /// Biases, head norms and rotation; keys and values go to the cache.
    fn rotate_and_store(
        &mut self,
        s: &Step<'_, '_>,
        layer: &Layer<'_>,
        kv: &mut KvCache<'_>,
        index: usize,
        n: usize,
    ) {
        let (q, k, v) = split_qkv(self.b, s.config, n);
        let (q_len, k_len) = (q.len() / n, k.len() / n);
        let rows = (Rows::new(q, q_len), Rows::new(&mut *k, k_len), Rows::new(&mut *v, k_len));
        for_each_row(s.workers, rows, &|t, (q, k, v): (&mut [f32], &mut [f32], &mut [f32])| {
            finish_heads(s, q, layer.query_bias, layer.query_norm, t);
            finish_heads(s, k, layer.key_bias, layer.key_norm, t);
            if let Some(bias) = layer.value_bias {
                s.kernels.add_bias(v, bias);
            }
        });
        for (t, (k, v)) in k.chunks_exact(k_len).zip(v.chunks_exact(k_len)).enumerate() {
            kv.put(s.kernels, index, s.position + t, k, v);
        }
    }

    /// a = attention of every query head of every token.
    fn attend(&mut self, s: &Step<'_, '_>, kv: &KvCache<'_>, index: usize, n: usize) {
        let (heads, dim) = (s.config.heads, s.config.head_dim);
        let sharing = heads / s.config.kv_heads;
        // Heads that share keys and values read them together, as long as there
        // is work for everyone.
        let mut unit = sharing;
        while unit.is_multiple_of(2) && n * heads / unit < 2 * s.workers.count() {
            unit /= 2;
        }
        let (q, _, _) = split_qkv(self.b, s.config, n);
        let out = Rows::new(&mut self.a[..n * heads * dim], unit * dim);
        for_each_row(s.workers, (out, Rows::new(q, unit * dim)), &|i, (out, q): (&mut [f32], &mut [f32])| {
            let (t, first) = (i * unit / heads, i * unit % heads);
            let seen = s.position + t + 1;
            s.kernels.attend(q, &kv.head(index, first / sharing), seen, out);
        });
    }

    /// b = silu(gate) · up
    fn gate_and_up(&mut self, s: &Step<'_, '_>, layer: &Layer<'_>, n: usize) {
        let (embd, ffn) = (s.config.embd, s.config.ffn);
        let (b, c) = (&mut self.b[..n * ffn], &mut self.c[..n * ffn]);
        let jobs = [(layer.gate, &mut *b), (layer.up, &mut *c)];
        products(s, &self.a[..n * embd], embd, &mut self.acts, jobs);
        let up = &*c;
        for_each_row(s.workers, Rows::new(b, ffn), &|t, gate| {
            s.kernels.silu_mul(gate, &up[t * ffn..][..ffn]);
        });
    }

    /// x += w · (a or b) (+ bias)
    fn add_product(
        &mut self,
        s: &Step<'_, '_>,
        w: TensorRef<'_>,
        bias: Option<&[u8]>,
        from: Source,
        n: usize,
    ) {
        let (embd, cols) = (s.config.embd, w.cols());
        let source = match from {
            Source::A => &self.a[..n * cols],
            Source::B => &self.b[..n * cols],
        };
        let sum = &mut self.c[..n * embd];
        products(s, source, cols, &mut self.acts, [(w, &mut *sum)]);
        for (x, y) in self.x.chunks_exact_mut(embd).zip(sum.chunks_exact_mut(embd)) {
            if let Some(bias) = bias {
                s.kernels.add_bias(y, bias);
            }
            s.kernels.add(x, y);
        }
    }
}

/// Which buffer a product reads.
#[derive(Clone, Copy)]
enum Source {
    A,
    B,
}

/// The queries, keys and values of `n` tokens within `b`.
fn split_qkv<'b>(
    b: &'b mut [f32],
    config: &Config,
    n: usize,
) -> (&'b mut [f32], &'b mut [f32], &'b mut [f32]) {
    use super::arch::Dim;
    let (query, key) = (n * config.dim(Dim::Query), n * config.dim(Dim::Key));
    let (q, rest) = b.split_at_mut(query);
    let (k, rest) = rest.split_at_mut(key);
    (q, k, &mut rest[..key])
}

/// Bias, norm and rotation of all heads of one token.
fn finish_heads(s: &Step<'_, '_>, heads: &mut [f32], bias: Option<&[u8]>, norm: Option<&[u8]>, t: usize) {
    if let Some(bias) = bias {
        s.kernels.add_bias(heads, bias);
    }
    for head in heads.chunks_exact_mut(s.config.head_dim) {
        if let Some(norm) = norm {
            s.kernels.rms_norm_in_place(head, norm, s.config.norm_eps);
        }
        s.rope.rotate(head, s.position + t);
    }
}

/// Several products of the same activations `x` (rows of `cols`), which are
/// brought into each form that the weights want as seldom as possible.
fn products<const N: usize>(
    s: &Step<'_, '_>,
    x: &[f32],
    cols: usize,
    buf: &mut ActBuf<'_>,
    jobs: [(TensorRef<'_>, &mut [f32]); N],
) {
    let mut jobs = jobs.into_iter().peekable();
    while let Some((first, _)) = jobs.peek() {
        let kind = first.format().act_kind();
        let acts = s.kernels.prepare(s.workers, kind, x, cols, buf);
        while let Some((w, out)) = jobs.next_if(|(w, _)| w.format().act_kind() == kind) {
            s.kernels.matmul(s.workers, &w, &acts, out);
        }
    }
}
