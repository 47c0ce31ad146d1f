//! Random blocks of every format, written directly.
//!
//! The quantised numbers are uniformly random; scales are fixed up so that the
//! weights have mean 0 and standard deviation [`STD`], as in a freshly
//! initialised model, whose logits are tame whatever its depth.

use half::{bf16, f16};
use katydid_core::quant::Format;

/// The weights' standard deviation.
pub(super) const STD: f32 = 0.02;

/// Root mean square of the integers `lo..=hi`.
fn rms(lo: i32, hi: i32) -> f32 {
    let sum: i32 = (lo..=hi).map(|v| v * v).sum();
    (sum as f32 / (hi - lo + 1) as f32).sqrt()
}

/// Root mean square of IQ4's sixteen values.
const IQ4_RMS: f32 = 67.44;

/// A stream of random blocks.
pub(super) struct Blocks {
    state: u64,
}

impl Blocks {
    /// The stream of tensor `index` of the file with seed `seed`.
    pub(super) fn new(seed: u64, index: u64) -> Self {
        let mut new = Self { state: seed };
        new.state = new.next() ^ index.wrapping_mul(0xd134_2543_de82_ef95);
        new
    }

    /// SplitMix64: fast, and good enough to have no pattern a matrix would feel.
    fn next(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.state;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Uniform with mean 0 and standard deviation 1.
    fn unit(&mut self) -> f32 {
        ((self.next() >> 40) as f32 / (1 << 23) as f32 - 1.0) * 3f32.sqrt()
    }

    fn bytes(&mut self, out: &mut [u8]) {
        for chunk in out.chunks_mut(8) {
            chunk.copy_from_slice(&self.next().to_le_bytes()[..chunk.len()]);
        }
    }

    /// Appends `count` numbers in F32 a little around one: a norm's weights.
    pub(super) fn near_one(&mut self, count: usize, out: &mut Vec<u8>) {
        for _ in 0..count {
            out.extend_from_slice(&(1.0 + STD * self.unit()).to_le_bytes());
        }
    }

    /// Appends `count` blocks of `format`.
    pub(super) fn weights(&mut self, format: Format, count: usize, out: &mut Vec<u8>) {
        let start = out.len();
        out.resize(start + count * format.block_bytes(), 0);
        for block in out[start..].chunks_exact_mut(format.block_bytes()) {
            self.block(format, block);
        }
    }

    fn block(&mut self, format: Format, b: &mut [u8]) {
        self.bytes(b);
        match format {
            Format::F32 => b.copy_from_slice(&(STD * self.unit()).to_le_bytes()),
            Format::F16 => put(b, 0, STD * self.unit()),
            Format::Bf16 => b.copy_from_slice(&bf16::from_f32(STD * self.unit()).to_le_bytes()),
            // A scale of either sign makes up for quants that lean to one side.
            Format::Q4_0 => put(b, 0, self.sign() * STD / rms(-8, 7)),
            Format::Q5_0 => put(b, 0, self.sign() * STD / rms(-16, 15)),
            Format::Q8_0 => put(b, 0, self.sign() * STD / rms(-128, 127)),
            Format::Iq4Nl => put(b, 0, self.sign() * STD / IQ4_RMS),
            // The minimum puts the middle of the quants at zero.
            Format::Q4_1 => centred(b, 0, 15, 1.0, -1.0),
            Format::Q5_1 => centred(b, 0, 31, 1.0, -1.0),
            Format::Q2K => {
                for s in &mut b[..16] {
                    let scale = 8 | (*s & 7); // 8 to 15, the minimum the same
                    *s = scale | scale << 4;
                }
                centred(b, 80, 3, rms(8, 15), 1.0);
            }
            Format::Q4K => {
                equal_scales_and_mins(&mut b[4..16]);
                centred(b, 0, 15, rms(32, 63), 1.0);
            }
            Format::Q5K => {
                equal_scales_and_mins(&mut b[4..16]);
                centred(b, 0, 31, rms(32, 63), 1.0);
            }
            // Six-bit scales around zero.
            Format::Q3K => put(b, 108, self.sign() * STD / (rms(-32, 31) * rms(-4, 3))),
            Format::Iq4Xs => put(b, 0, self.sign() * STD / (rms(-32, 31) * IQ4_RMS)),
            Format::Q6K => put(b, 208, self.sign() * STD / (rms(-128, 127) * rms(-32, 31))),
        }
    }

    fn sign(&mut self) -> f32 {
        if self.next() >> 63 == 0 { 1.0 } else { -1.0 }
    }
}

/// Writes `x` in half precision at byte `at`.
fn put(block: &mut [u8], at: usize, x: f32) {
    block[at..at + 2].copy_from_slice(&f16::from_f32(x).to_le_bytes());
}

/// Writes scale and minimum of quants `0..=max`, whose groups have scales of
/// root mean square `scales`, equal to their minimums; `min_sign` is that with
/// which the format adds the minimum.
fn centred(block: &mut [u8], at: usize, max: i32, scales: f32, min_sign: f32) {
    let middle = max as f32 / 2.0;
    // Integers 0..=max about their middle; doubled, to be integers again.
    let spread = (0..=max).map(|q| (2 * q - max).pow(2)).sum::<i32>() as f32 / (4 * (max + 1)) as f32;
    let d = STD / (spread.sqrt() * scales);
    put(block, at, d);
    put(block, at + 2, min_sign * d * middle);
}

/// Makes the eight scales 32 to 63, from random bytes, and each minimum equal
/// to its scale. (Packing: see `quant/k4.rs`.)
fn equal_scales_and_mins(packed: &mut [u8]) {
    for i in 0..4 {
        // Bit 5 of groups 0-3 set; the upper two bits are those of groups 4-7.
        packed[i] |= 0xa0;
        packed[4 + i] = packed[i];
        packed[8 + i] = (packed[8 + i] & 15) * 0x11;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn weights_of_every_format_are_centred_and_of_the_right_size() {
        for format in Format::ALL {
            let count = 400_000 / format.block_len();
            let mut bytes = Vec::new();
            Blocks::new(1, 2).weights(format, count, &mut bytes);
            let mut weights = vec![0.0; count * format.block_len()];
            format.dequantize(&bytes, &mut weights);
            assert!(weights.iter().all(|w| w.is_finite()), "{}", format.name());
            let n = weights.len() as f64;
            let mean = weights.iter().map(|w| f64::from(*w)).sum::<f64>() / n;
            let std = (weights.iter().map(|w| f64::from(*w).powi(2)).sum::<f64>() / n - mean * mean).sqrt();
            let name = format.name();
            assert!((std / f64::from(STD) - 1.0).abs() < 0.02, "{name}: standard deviation {std}");
            assert!(mean.abs() < 0.01 * f64::from(STD), "{name}: mean {mean}");
        }
    }

    #[test]
    fn tensors_differ_from_each_other() {
        let first = |index| Blocks::new(1, index).next();
        assert_ne!(first(0), first(1));
        assert_eq!(first(3), first(3));
    }
}
