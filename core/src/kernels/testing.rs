//! The same cases over every instruction set that this machine can run:
//! against the scalar set bit for bit, and against a naive `f64` reading of the
//! formats that shares no code with the kernels. Here are the means and the
//! products of quantised weights; the rest is in `float`.
//!
//! Set `KATYDID_REQUIRE_ISA=neon,dotprod,i8mm` to fail when one of those is absent.

mod float;

use std::prelude::v1::*;
use std::{eprintln, format, vec};

use super::{ActBuf, Acts, Isa, Kernels};
use crate::arena::{Arena, Space};
use crate::gguf::TensorRef;
use crate::plan::{MemoryPlan, Part};
use crate::port::{CpuCaps, CpuFlags, OneWorker};
use crate::quant::{ActKind, Format};

/// What this machine can do.
pub(crate) fn caps() -> CpuCaps {
    let mut has = CpuFlags::default();
    #[cfg(target_arch = "x86_64")]
    {
        has.avx2 = std::is_x86_feature_detected!("avx2") && std::is_x86_feature_detected!("f16c");
        has.avx512_vnni = std::is_x86_feature_detected!("avx512f")
            && std::is_x86_feature_detected!("avx512vnni")
            && std::is_x86_feature_detected!("avx512vl")
            && std::is_x86_feature_detected!("avx512bw");
    }
    #[cfg(target_arch = "aarch64")]
    {
        has.neon = true;
        has.dotprod = std::arch::is_aarch64_feature_detected!("dotprod");
        has.i8mm = std::arch::is_aarch64_feature_detected!("i8mm");
    }
    #[cfg(target_arch = "arm")]
    {
        // AT_HWCAP is entry 16 of the auxiliary vector, NEON its bit 12.
        let auxv = std::fs::read("/proc/self/auxv").unwrap_or_default();
        let words: Vec<u32> =
            auxv.chunks_exact(4).map(|b| u32::from_le_bytes([b[0], b[1], b[2], b[3]])).collect();
        has.neon = words.chunks_exact(2).any(|pair| pair[0] == 16 && pair[1] >> 12 & 1 == 1);
    }
    // SAFETY: just found.
    unsafe { CpuCaps::assume(has) }
}

/// Every set but the scalar one, after saying which.
fn sets() -> Vec<Kernels> {
    let caps = caps();
    let all: Vec<Kernels> = Isa::ALL.into_iter().filter_map(|isa| Kernels::of(isa, &caps)).collect();
    let names: Vec<&str> = all.iter().map(|k| k.isa().name()).collect();
    eprintln!("instruction sets under test: {}", names.join(" "));
    for want in std::env::var("KATYDID_REQUIRE_ISA").unwrap_or_default().split(',').filter(|w| !w.is_empty())
    {
        assert!(names.contains(&want), "{want} is not available here: {caps:?}");
    }
    all.into_iter().filter(|k| k.isa() != Isa::Scalar).collect()
}

fn scalar() -> Kernels {
    Kernels::of(Isa::Scalar, &CpuCaps::default()).unwrap()
}

/// A small fixed generator (xorshift), so that failures repeat.
pub(crate) struct Random(pub(crate) u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }
    fn below(&mut self, n: u64) -> u64 {
        (self.next() >> 11) % n
    }
    /// In -1..1.
    pub(crate) fn unit(&mut self) -> f32 {
        (self.next() >> 40) as f32 / (1 << 23) as f32 - 1.0
    }
    pub(crate) fn floats(&mut self, n: usize, scale: f32) -> Vec<f32> {
        (0..n).map(|_| self.unit() * scale).collect()
    }
}

/// Bytes where a block keeps half-precision numbers.
fn half_places(format: Format) -> &'static [usize] {
    match format {
        Format::Q4_1 | Format::Q5_1 | Format::Q4K | Format::Q5K => &[0, 2],
        Format::Q2K => &[80, 82],
        Format::Q3K => &[108],
        Format::Q6K => &[208],
        _ => &[0],
    }
}

/// What the bytes of random weights look like.
#[derive(Clone, Copy, Debug)]
enum Fill {
    Random,
    Ones,
    Zeros,
    Extreme,
}

fn weights(r: &mut Random, format: Format, rows: usize, cols: usize, fill: Fill) -> Vec<u8> {
    let blocks = rows * cols / format.block_len();
    let mut bytes: Vec<u8> = (0..blocks * format.block_bytes())
        .map(|_| match fill {
            Fill::Random => r.next() as u8,
            Fill::Ones => 0xff,
            Fill::Zeros => 0,
            Fill::Extreme => [0x00, 0xff, 0x80, 0x7f, 0x0f, 0xf0][r.below(6) as usize],
        })
        .collect();
    if format == Format::F32 {
        let values = r.floats(blocks, 2.0);
        return values.into_iter().flat_map(f32::to_le_bytes).collect();
    }
    for block in bytes.chunks_exact_mut(format.block_bytes()) {
        for &at in half_places(format) {
            let value = if format == Format::Bf16 {
                (r.unit().to_bits() >> 16) as u16
            } else {
                match r.below(8) {
                    0 => 0x0001, // the smallest denormal
                    1 => 0x83ff, // the largest, negative
                    2 => 0x7bff, // 65504
                    3 => 0x8000, // -0
                    _ => half::f16::from_f32_const(r.unit() * 0.1).to_bits(),
                }
            };
            block[at..at + 2].copy_from_slice(&value.to_le_bytes());
        }
    }
    bytes
}

/// Prepared activations with the memory they live in.
struct Prepared {
    q: Vec<i8>,
    d: Vec<f32>,
    sums: Vec<i16>,
}

fn product(k: &Kernels, w: &TensorRef<'_>, x: &[f32]) -> (Vec<f32>, Prepared) {
    let (cols, tokens) = (w.cols(), x.len() / w.cols());
    let mut plan = MemoryPlan::new();
    ActBuf::lay_out(&mut plan, tokens, cols).unwrap();
    let mut memory = vec![0xa5u8; plan.total() as usize + 64];
    let mut arena = Arena::new(&mut memory);
    let mut buf = ActBuf::lay_out(&mut arena, tokens, cols).unwrap();
    let acts: Acts<'_> = k.prepare(&OneWorker, w.format().act_kind(), x, cols, &mut buf);
    let mut out = vec![f32::NAN; w.rows() * tokens];
    k.matmul(&OneWorker, w, &acts, &mut out);
    let prepared = Prepared { q: in_order(k, &acts), d: acts.d.to_vec(), sums: acts.sums.to_vec() };
    (out, prepared)
}

/// Quantised activations token by token, however the kernels want them to lie.
fn in_order(k: &Kernels, acts: &Acts<'_>) -> Vec<i8> {
    let len = match acts.kind {
        ActKind::Float => return Vec::new(),
        ActKind::Q80 => 32,
        ActKind::Q8K => 256,
    };
    let stride = acts.q.len() / acts.tokens;
    let paired = matches!(k.isa(), Isa::Avx2 | Isa::Avx512);
    let mut q = Vec::new();
    for token in acts.q.chunks_exact(stride) {
        for i in 0..acts.cols {
            let (block, at) = (i / len, i % len);
            let place = block / 2 * 2 * len + at / 16 * 32 + block % 2 * 16 + at % 16;
            q.push(token[if paired { place } else { i }]);
        }
    }
    q
}

/// Σ w·x in `f64`, with the activations as the kernels saw them.
fn naive(w: &TensorRef<'_>, x: &[f32], p: &Prepared) -> Vec<(f64, f64)> {
    let (cols, format) = (w.cols(), w.format());
    let tokens = x.len() / cols;
    let mut out = Vec::new();
    for t in 0..tokens {
        for row in 0..w.rows() {
            let bytes = w.row(row).unwrap();
            let (mut sum, mut size) = (0.0, 0.0);
            for i in 0..cols {
                let (block, at) = (i / format.block_len(), i % format.block_len());
                let wi = format.element(&bytes[block * format.block_bytes()..][..format.block_bytes()], at);
                let xi = match format.act_kind() {
                    ActKind::Float => f64::from(x[t * cols + i]),
                    ActKind::Q80 => {
                        let d = p.d[t * (cols / 32).next_multiple_of(8) + i / 32];
                        f64::from(d) * f64::from(p.q[t * cols + i])
                    }
                    ActKind::Q8K => {
                        let d = p.d[t * (cols / 256).next_multiple_of(8) + i / 256];
                        f64::from(d) * f64::from(p.q[t * cols + i])
                    }
                };
                sum += wi * xi;
                size += (wi * xi).abs();
            }
            out.push((sum, size));
        }
    }
    out
}

fn bits(x: &[f32]) -> Vec<u32> {
    x.iter().map(|x| x.to_bits()).collect()
}

#[test]
fn products_agree_bit_for_bit_and_with_the_naive_reading() {
    let (sets, reference) = (sets(), scalar());
    let mut r = Random(0x9e37_79b9_7f4a_7c15);
    for format in Format::ALL {
        let widths: &[usize] = match format.block_len() {
            1 => &[1, 7, 8, 31, 32, 64, 172, 257],
            32 => &[32, 64, 224, 256, 288, 544],
            _ => &[256, 512, 1792, 2048, 2304],
        };
        for (case, &cols) in widths.iter().enumerate() {
            for fill in [Fill::Random, Fill::Extreme, Fill::Ones, Fill::Zeros] {
                // Below, at and above what panels and runs of rows and tiles of tokens hold.
                let tokens = [1, 4, 3, 9, 2, 69][(case + fill as usize) % 6];
                let rows = [1, 5, 35, 8][case % 4];
                // One byte further on every other case: files may align to 1.
                let mut bytes = vec![0; case % 2];
                bytes.extend(weights(&mut r, format, rows, cols, fill));
                let w = TensorRef::new(format, rows, cols, &bytes[case % 2..]).unwrap();
                let scale = [1.0, 1e-4, 300.0][case % 3];
                let mut x = r.floats(tokens * cols, scale);
                if let Fill::Ones = fill {
                    x.fill(-scale); // every activation at -127
                }
                let (want, acts) = product(&reference, &w, &x);
                for set in &sets {
                    let (got, theirs) = product(set, &w, &x);
                    let name =
                        format!("{} {} {rows}x{cols}x{tokens} {fill:?}", set.isa().name(), format.name());
                    assert_eq!(acts.q, theirs.q, "activations, {name}");
                    assert_eq!(bits(&acts.d), bits(&theirs.d), "scales, {name}");
                    assert_eq!(acts.sums, theirs.sums, "sums, {name}");
                    assert_eq!(bits(&want), bits(&got), "{name}");
                }
                for (got, (sum, size)) in want.iter().zip(naive(&w, &x, &acts)) {
                    assert!(
                        (f64::from(*got) - sum).abs() <= size * 2e-6 + 1e-30,
                        "{} {rows}x{cols}x{tokens} {fill:?}: {got} is not {sum} (terms {size})",
                        format.name()
                    );
                }
            }
        }
    }
}

#[test]
fn tokens_in_a_batch_do_not_change_each_other() {
    let k = Kernels::select(&caps());
    let mut r = Random(7);
    for format in Format::ALL {
        let (rows, cols, tokens) = (6, 512, 7);
        let bytes = weights(&mut r, format, rows, cols, Fill::Random);
        let w = TensorRef::new(format, rows, cols, &bytes).unwrap();
        let x = r.floats(tokens * cols, 1.0);
        let (all, _) = product(&k, &w, &x);
        for t in 0..tokens {
            let (one, _) = product(&k, &w, &x[t * cols..][..cols]);
            assert_eq!(bits(&one), bits(&all[t * rows..][..rows]), "{}", format.name());
        }
    }
}

#[test]
fn quantising_keeps_to_its_bounds() {
    let k = scalar();
    let bytes = vec![0u8; 34 * 8];
    let w = TensorRef::new(Format::Q8_0, 1, 256, &bytes).unwrap();
    let mut x = Random(3).floats(256, 5.0);
    x[32..64].fill(0.0);
    x[64..96].fill(1e-30);
    x[96] = f32::NAN;
    x[128] = f32::INFINITY;
    let (_, acts) = product(&k, &w, &x);
    assert!(acts.q.iter().all(|&q| q >= -127));
    assert_eq!(&acts.d[1..3], &[0.0, 0.0]);
    assert!(acts.q[32..96].iter().all(|&q| q == 0));
    for i in (0..32).chain(160..256) {
        let back = acts.d[i / 32] * f32::from(acts.q[i]);
        assert!((back - x[i]).abs() <= acts.d[i / 32] * 0.500_01);
    }
}

#[test]
fn choice_follows_the_capabilities() {
    assert_eq!(Kernels::select(&CpuCaps::default()).isa(), Isa::Scalar);
    for isa in Isa::ALL {
        assert_eq!(Isa::from_name(isa.name()), Some(isa));
    }
    assert_eq!(Isa::from_name("sse9"), None);
    let mut plan = MemoryPlan::new();
    let bytes: &mut [u8] = plan.take(Part::Scratch, "x", 1).unwrap();
    assert!(bytes.is_empty());
}
