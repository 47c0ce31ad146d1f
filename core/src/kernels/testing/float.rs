//! All that is no product of quantised weights: `f32` steps and attention, and
//! what denormals make of every kernel.

use std::prelude::v1::*;
use std::vec;

use super::{Random, bits, product, scalar, sets};
use crate::gguf::TensorRef;
use crate::kernels::{HeadPages, Kernels, MAX_HEAD_DIM, PAGE};
use crate::quant::Format;

#[test]
fn steps_agree_bit_for_bit_and_with_f64() {
    let (sets, k) = (sets(), scalar());
    let mut r = Random(11);
    for n in [1usize, 7, 8, 9, 40, 64, 172, 2048, 2051] {
        let x = r.floats(n, 3.0);
        let y = r.floats(n, 40.0);
        let w: Vec<u8> = r.floats(n, 1.5).into_iter().flat_map(f32::to_le_bytes).collect();
        let run = |k: &Kernels| {
            let mut norm = vec![0.0; n];
            k.rms_norm(&x, &w, 1e-5, &mut norm);
            let mut in_place = x.clone();
            k.rms_norm_in_place(&mut in_place, &w, 1e-5);
            assert_eq!(bits(&norm), bits(&in_place));
            let mut sum = x.clone();
            k.add(&mut sum, &y);
            k.add_bias(&mut sum, &w);
            let mut gate = y.clone();
            k.silu_mul(&mut gate, &x);
            let mut half = vec![0u16; n];
            k.to_f16(&y, &mut half);
            (norm, sum, gate, half)
        };
        let (norm, sum, gate, half) = run(&k);
        for set in &sets {
            let other = run(set);
            let name = set.isa().name();
            assert_eq!(bits(&norm), bits(&other.0), "rms_norm {name} {n}");
            assert_eq!(bits(&sum), bits(&other.1), "add {name} {n}");
            assert_eq!(bits(&gate), bits(&other.2), "silu_mul {name} {n}");
            assert_eq!(half, other.3, "to_f16 {name} {n}");
        }
        let mean = x.iter().map(|&x| f64::from(x).powi(2)).sum::<f64>() / n as f64;
        for i in 0..n {
            let w = f64::from(f32::from_le_bytes(w[4 * i..][..4].try_into().unwrap()));
            let want = f64::from(x[i]) / (mean + 1e-5).sqrt() * w;
            assert!((f64::from(norm[i]) - want).abs() <= want.abs() * 1e-6);
            let g = f64::from(y[i]);
            let want = g / (1.0 + (-g).exp()) * f64::from(x[i]);
            assert!((f64::from(gate[i]) - want).abs() <= want.abs() * 1e-6 + 1e-30, "silu {g}");
            assert_eq!(half[i], half::f16::from_f32_const(y[i]).to_bits());
        }
    }
    let mut out = [0u16; 4];
    k.to_f16(&[1e9, -1e9, 65519.0, 65520.0], &mut out);
    assert_eq!(out, [0x7bff, 0xfbff, 0x7bff, 0x7bff]);
}

#[test]
fn exponential_is_accurate_and_the_same_everywhere() {
    // Through silu: with up = 1, x / (1 + e⁻ˣ).
    let (sets, k) = (sets(), scalar());
    let mut worst = 0.0f64;
    for chunk in 0..200 {
        let x: Vec<f32> = (0..1000).map(|i| (chunk * 1000 + i) as f32 / 1000.0 - 100.0).collect();
        let ones = vec![1.0; 1000];
        let mut want = x.clone();
        k.silu_mul(&mut want, &ones);
        for set in &sets {
            let mut got = x.clone();
            set.silu_mul(&mut got, &ones);
            assert_eq!(bits(&want), bits(&got), "{}", set.isa().name());
        }
        for (&x, &y) in x.iter().zip(&want).filter(|(x, _)| **x > -87.0) {
            let exact = f64::from(x) / (1.0 + (-f64::from(x)).exp());
            if exact != 0.0 {
                worst = worst.max(((f64::from(y) - exact) / exact).abs());
            }
        }
    }
    assert!(worst < 3e-7, "relative error {worst}");
}

/// Keys and values for `tokens` tokens of one head, in pages of two heads.
struct Cache {
    elements: Vec<u16>,
    row: usize,
    page_stride: usize,
    head_dim: usize,
}

impl Cache {
    fn random(r: &mut Random, tokens: usize, head_dim: usize) -> Self {
        let row = head_dim.next_multiple_of(8);
        let page_stride = 2 * PAGE * row;
        let mut elements = vec![0; tokens.div_ceil(PAGE) * page_stride];
        for chunk in elements.chunks_exact_mut(row) {
            for x in &mut chunk[..head_dim] {
                *x = half::f16::from_f32_const(r.unit() * 2.0).to_bits();
            }
        }
        Self { elements, row, page_stride, head_dim }
    }
    fn head(&self) -> HeadPages<'_> {
        HeadPages {
            k: &self.elements,
            v: &self.elements[PAGE * self.row..],
            page_stride: self.page_stride,
            head_dim: self.head_dim,
        }
    }
    fn value(&self, t: usize, i: usize, v: bool) -> f64 {
        let at = t / PAGE * self.page_stride + usize::from(v) * PAGE * self.row + t % PAGE * self.row + i;
        half::f16::from_bits(self.elements[at]).to_f64_const()
    }
}

#[test]
fn attention_agrees_bit_for_bit_and_with_f64() {
    let (sets, k) = (sets(), scalar());
    let mut r = Random(23);
    for (head_dim, tokens) in
        [(8, 1), (64, 1), (64, 63), (64, 64), (64, 65), (128, 200), (80, 130), (100, 70), (MAX_HEAD_DIM, 3)]
    {
        let cache = Cache::random(&mut r, tokens, head_dim);
        let q = r.floats(head_dim, 3.0);
        let mut want = vec![0.0; head_dim];
        k.attend(&q, &cache.head(), tokens, &mut want);
        for set in &sets {
            let mut got = vec![0.0; head_dim];
            set.attend(&q, &cache.head(), tokens, &mut got);
            assert_eq!(bits(&want), bits(&got), "{} {head_dim} {tokens}", set.isa().name());
            // Heads together as alone.
            let five: Vec<f32> =
                (0..5).flat_map(|h| q.iter().map(move |x| x * (1.0 - 0.2 * h as f32))).collect();
            let mut got = vec![0.0; five.len()];
            set.attend(&five, &cache.head(), tokens, &mut got);
            for (q, got) in five.chunks(head_dim).zip(got.chunks(head_dim)) {
                let mut want = vec![0.0; head_dim];
                k.attend(q, &cache.head(), tokens, &mut want);
                assert_eq!(bits(&want), bits(got), "{} {head_dim} {tokens}", set.isa().name());
            }
        }
        let scores: Vec<f64> = (0..tokens)
            .map(|t| {
                // The kernel meets keys with the query in half precision too.
                let dot: f64 = (0..head_dim)
                    .map(|i| {
                        let scaled = q[i] * (core::f32::consts::LOG2_E / libm::sqrtf(head_dim as f32));
                        half::f16::from_f32_const(scaled).to_f64_const() * cache.value(t, i, false)
                    })
                    .sum();
                dot * core::f64::consts::LN_2
            })
            .collect();
        let max = scores.iter().copied().fold(f64::MIN, f64::max);
        let sum: f64 = scores.iter().map(|s| (s - max).exp()).sum();
        for i in 0..head_dim {
            let exact: f64 =
                (0..tokens).map(|t| (scores[t] - max).exp() / sum * cache.value(t, i, true)).sum();
            assert!((f64::from(want[i]) - exact).abs() < 1e-5, "{head_dim} {tokens}");
        }
    }
}

/// Vector units that flush denormals to zero (that of 32-bit ARM does) would
/// show here: every case has denormals on its way in, inside, or out.
#[test]
fn denormals_are_kept_everywhere() {
    let (sets, k) = (sets(), scalar());
    let mut r = Random(31);
    let n = 64;
    let is_denormal = |x: &f32| *x != 0.0 && x.abs() < f32::MIN_POSITIVE;
    let le = |x: &[f32]| -> Vec<u8> { x.iter().flat_map(|x| x.to_le_bytes()).collect() };

    let (tiny, small) = (r.floats(n, 1e-39), r.floats(n, 1e-21));
    let (w, halves) = (le(&r.floats(n, 1e-38)), r.floats(n, 1e-5));
    let steps = |k: &Kernels| {
        let mut norm = vec![0.0; n];
        k.rms_norm(&small, &w, 1e-44, &mut norm);
        let mut sum = tiny.clone();
        k.add(&mut sum, &norm);
        let mut gate = tiny.clone();
        k.silu_mul(&mut gate, &vec![1.0; n]);
        let mut half = vec![0u16; n];
        k.to_f16(&halves, &mut half);
        (norm, sum, gate, half)
    };
    let want = steps(&k);
    for out in [&want.0, &want.1, &want.2] {
        assert!(out.iter().filter(|x| is_denormal(x)).count() > n / 2);
    }
    assert!(want.3.iter().filter(|h| **h & 0x7fff != 0 && **h & 0x7c00 == 0).count() > n / 2);

    // Scores spread over 0..-85, values from 2⁻²⁴ up: weight·value passes
    // through the denormals, and the first page holds nothing larger.
    let head_dim = 8;
    let mut cache = Cache::random(&mut r, PAGE + 1, head_dim);
    for t in 0..=PAGE {
        let (page, row) = (t / PAGE * cache.page_stride, t % PAGE * cache.row);
        let key = if t == PAGE { 240.0 } else { -(t as f32) * 1.3 };
        cache.elements[page + row] = half::f16::from_f32_const(key).to_bits();
        for i in 0..head_dim {
            cache.elements[page + PAGE * cache.row + row + i] = if t == PAGE { 0 } else { 1 + i as u16 };
        }
    }
    let mut q = vec![0.0; head_dim];
    q[0] = 1.0;
    let attend = |k: &Kernels, tokens: usize| {
        let mut out = vec![0.0; head_dim];
        k.attend(&q, &cache.head(), tokens, &mut out);
        out
    };
    assert!(attend(&k, PAGE + 1).iter().all(is_denormal));

    let products: Vec<(Format, Vec<u8>, f32)> =
        [(Format::F32, 1e-38, 0.1), (Format::F16, 1e-6, 1e-33), (Format::Bf16, 1e-39, 1.0)]
            .into_iter()
            .map(|(format, size, scale)| {
                let w = r.floats(3 * n, size);
                let bytes = match format {
                    Format::F32 => le(&w),
                    Format::F16 => {
                        w.iter().flat_map(|&x| half::f16::from_f32_const(x).to_bits().to_le_bytes()).collect()
                    }
                    _ => w
                        .iter()
                        .flat_map(|&x| half::bf16::from_f32_const(x).to_bits().to_le_bytes())
                        .collect(),
                };
                (format, bytes, scale)
            })
            .collect();
    let x = r.floats(n, 1.0);
    let product = |k: &Kernels, (format, bytes, scale): &(Format, Vec<u8>, f32)| {
        let w = TensorRef::new(*format, 3, n, bytes).unwrap();
        let x: Vec<f32> = x.iter().map(|x| x * scale).collect();
        product(k, &w, &x).0
    };
    for p in &products {
        assert!(product(&k, p).iter().any(is_denormal), "{}", p.0.name());
    }

    for set in &sets {
        let (name, got) = (set.isa().name(), steps(set));
        assert_eq!(bits(&want.0), bits(&got.0), "rms_norm {name}");
        assert_eq!(bits(&want.1), bits(&got.1), "add {name}");
        assert_eq!(bits(&want.2), bits(&got.2), "silu_mul {name}");
        assert_eq!(want.3, got.3, "to_f16 {name}");
        for tokens in [1, 2, PAGE, PAGE + 1] {
            assert_eq!(bits(&attend(&k, tokens)), bits(&attend(set, tokens)), "attend {name} {tokens}");
        }
        for p in &products {
            assert_eq!(bits(&product(&k, p)), bits(&product(set, p)), "{} {name}", p.0.name());
        }
    }
}
