//! A transformer's forward pass, token by token, in `f64`: slow and obvious.

use katydid_core::quant::Format;
use katydid_tests::tiny::{Shape, Tiny};

/// How positions turn the numbers of a head (RoFormer, equation 34).
#[derive(Clone)]
pub(crate) struct Rope {
    /// Numbers rotated, from the head's start.
    pub(crate) dim: usize,
    pub(crate) base: f64,
    /// Positions are divided by it.
    pub(crate) scale: f64,
    /// Divisors of each pair's frequency; none where empty.
    pub(crate) factors: Vec<f64>,
    /// Pairs are (i, i + dim/2), not (2i, 2i + 1).
    pub(crate) halves: bool,
}

impl Rope {
    /// Nothing special.
    pub(crate) fn of(shape: &Shape) -> Self {
        Self { dim: shape.head_dim, base: 10_000.0, scale: 1.0, factors: Vec::new(), halves: false }
    }

    fn rotate(&self, head: &mut [f64], position: usize) {
        for i in 0..self.dim / 2 {
            let factor = self.factors.get(i).copied().unwrap_or(1.0);
            let frequency = self.base.powf(-2.0 * i as f64 / self.dim as f64) / factor;
            let (sin, cos) = (position as f64 / self.scale * frequency).sin_cos();
            let (a, b) = if self.halves { (i, i + self.dim / 2) } else { (2 * i, 2 * i + 1) };
            (head[a], head[b]) = (head[a] * cos - head[b] * sin, head[a] * sin + head[b] * cos);
        }
    }
}

/// A model of F32 tensors, and keys and values of the tokens it has seen.
pub(crate) struct Naive<'m> {
    shape: Shape,
    model: &'m Tiny,
    rope: Rope,
    /// By layer, by token.
    keys: Vec<Vec<Vec<f64>>>,
    values: Vec<Vec<Vec<f64>>>,
}

impl<'m> Naive<'m> {
    pub(crate) fn new(shape: &Shape, model: &'m Tiny, rope: Rope) -> Self {
        let none = vec![Vec::new(); shape.layers];
        Self { shape: *shape, model, rope, keys: none.clone(), values: none }
    }

    /// A row per token.
    pub(crate) fn logits(mut self, tokens: &[u32]) -> Vec<f64> {
        (0..tokens.len()).flat_map(|i| self.token(tokens[i] as usize, i)).collect()
    }

    fn token(&mut self, id: usize, position: usize) -> Vec<f64> {
        let embd = self.shape.embd;
        let mut x = self.tensor("token_embd.weight").unwrap()[id * embd..][..embd].to_vec();
        for layer in 0..self.shape.layers {
            let a = self.norm(&x, &format!("blk.{layer}.attn_norm.weight"));
            let a = self.attention(&a, layer, position);
            add(&mut x, &a);
            let a = self.norm(&x, &format!("blk.{layer}.ffn_norm.weight"));
            let gate = self.product(&format!("blk.{layer}.ffn_gate"), &a);
            let up = self.product(&format!("blk.{layer}.ffn_up"), &a);
            let both: Vec<f64> = gate.iter().zip(up).map(|(g, u)| g / (1.0 + (-g).exp()) * u).collect();
            add(&mut x, &self.product(&format!("blk.{layer}.ffn_down"), &both));
        }
        let x = self.norm(&x, "output_norm.weight");
        let output = if self.tensor("output.weight").is_some() { "output" } else { "token_embd" };
        self.product(output, &x)
    }

    fn attention(&mut self, a: &[f64], layer: usize, position: usize) -> Vec<f64> {
        let (dim, group) = (self.shape.head_dim, self.shape.heads / self.shape.kv_heads);
        let part = |name: &str| format!("blk.{layer}.attn_{name}");
        let queries = self.turned(self.product(&part("q"), a), &part("q_norm.weight"), position);
        let keys = self.turned(self.product(&part("k"), a), &part("k_norm.weight"), position);
        let values = self.product(&part("v"), a);
        self.keys[layer].push(keys);
        self.values[layer].push(values);
        let mut out = Vec::new();
        for (head, q) in queries.chunks_exact(dim).enumerate() {
            let from = head / group * dim;
            let score = |k: &Vec<f64>| dot(q, &k[from..from + dim]) / (dim as f64).sqrt();
            let weights: Vec<f64> = self.keys[layer].iter().map(|k| score(k).exp()).collect();
            let total: f64 = weights.iter().sum();
            let weighed = |i: usize| {
                weights.iter().zip(&self.values[layer]).map(|(w, v)| w / total * v[from + i]).sum::<f64>()
            };
            out.extend((0..dim).map(weighed));
        }
        self.product(&part("output"), &out)
    }

    /// Head norm, where the model has it, and rotation.
    fn turned(&self, heads: Vec<f64>, norm: &str, position: usize) -> Vec<f64> {
        let mut out = Vec::new();
        for head in heads.chunks_exact(self.shape.head_dim) {
            let normed = self.tensor(norm).is_some();
            let mut head = if normed { self.norm(head, norm) } else { head.to_vec() };
            self.rope.rotate(&mut head, position);
            out.extend(head);
        }
        out
    }

    fn norm(&self, x: &[f64], weights: &str) -> Vec<f64> {
        let mean = dot(x, x) / x.len() as f64;
        let scale = 1.0 / (mean + f64::from(1e-5f32)).sqrt();
        self.tensor(weights).unwrap().iter().zip(x).map(|(w, x)| w * x * scale).collect()
    }

    /// Weights times `x`, plus the bias where there is one.
    fn product(&self, name: &str, x: &[f64]) -> Vec<f64> {
        let weights = self.tensor(&format!("{name}.weight")).unwrap();
        let mut out: Vec<f64> = weights.chunks_exact(x.len()).map(|row| dot(row, x)).collect();
        if let Some(bias) = self.tensor(&format!("{name}.bias")) {
            add(&mut out, &bias);
        }
        out
    }

    fn tensor(&self, name: &str) -> Option<Vec<f64>> {
        let tensor = self.model.tensors.iter().find(|t| t.name == name)?;
        assert_eq!(tensor.format, Format::F32);
        let number = |b: &[u8]| f64::from(f32::from_le_bytes(b.try_into().unwrap()));
        Some(tensor.data.chunks_exact(4).map(number).collect())
    }
}

fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

fn add(x: &mut [f64], y: &[f64]) {
    x.iter_mut().zip(y).for_each(|(x, y)| *x += y);
}
