//! Activations of several tokens, laid out by pairs of tokens for [`squares`].
//!
//! [`squares`]: super::squares

use core::arch::aarch64::*;

use crate::kernels::generic::matmul::{Min, Product};
use crate::kernels::generic::scales::Scaled;

/// Columns of a step: one block of 256, or eight of 32.
pub(super) const COLUMNS: usize = 256;

/// 32 bytes.
pub(super) type Bytes = (uint8x16_t, uint8x16_t);

/// The activations of `T` pairs of tokens for one step.
pub(super) struct Step<const T: usize> {
    /// By sixteens of columns: eight of one token and of the other, then again.
    pub(super) x: [[Bytes; T]; COLUMNS / 16],
    /// Of every block, the scales of both tokens, twice.
    pub(super) d: [[float32x4_t; T]; COLUMNS / 32],
    /// For [`Min::Block`]: the sums of both tokens, twice.
    pub(super) sums: [[float32x4_t; T]; COLUMNS / 32],
    /// For [`Min::Groups`].
    pub(super) split: [Split; T],
}

/// Sums of activations as bytes, eight of one token and of the other, of which
/// the high ones count 64 times: even sums, and odd ones where a format meets
/// them apart.
#[derive(Clone, Copy)]
pub(super) struct Split {
    pub(super) high: [uint8x16_t; 2],
    pub(super) low: [uint8x16_t; 2],
}

/// Eight bytes of `a` and of `b`, then again.
#[inline(always)]
pub(super) unsafe fn by_eights(a: uint8x16_t, b: uint8x16_t) -> Bytes {
    // SAFETY: NEON is part of the architecture.
    unsafe {
        let (a, b) = (vreinterpretq_u64_u8(a), vreinterpretq_u64_u8(b));
        (vreinterpretq_u8_u64(vzip1q_u64(a, b)), vreinterpretq_u8_u64(vzip2q_u64(a, b)))
    }
}

/// `a`, `b`, `a`, `b`.
#[inline(always)]
unsafe fn twice(a: f32, b: f32) -> float32x4_t {
    // SAFETY: NEON is part of the architecture.
    unsafe {
        let two = vset_lane_f32::<1>(b, vdup_n_f32(a));
        vcombine_f32(two, two)
    }
}

/// Lays out blocks `b..b + n` of the activations of `T` pairs of tokens.
#[inline(always)]
pub(super) unsafe fn lay_out<F: Scaled, const T: usize>(
    p: &Product,
    step: *mut Step<T>,
    first: usize,
    b: usize,
    n: usize,
) {
    let len = const { F::FORMAT.block_len() };
    // SAFETY: tokens and blocks exist, by the caller's promise.
    unsafe {
        for t in 0..T {
            let token = first + 2 * t;
            let q = p.x.q.add(token * p.x.strides[0] + b * len).cast::<u8>();
            let other = q.add(p.x.strides[0]);
            for h in 0..n * len / 16 {
                let x = by_eights(vld1q_u8(q.add(16 * h)), vld1q_u8(other.add(16 * h)));
                (&raw mut (*step).x[h][t]).write(x);
            }
            let d = p.x.d.add(token * p.x.strides[1] + b);
            let sums = p.x.sums.add(token * p.x.strides[2] + b * if len == 256 { 16 } else { 1 });
            for k in 0..n {
                let d = twice(*d.add(k), *d.add(p.x.strides[1] + k));
                (&raw mut (*step).d[k][t]).write(d);
                if matches!(F::MIN, Min::Block) {
                    let (a, b) = (*sums.add(k), *sums.add(p.x.strides[2] + k));
                    (&raw mut (*step).sums[k][t]).write(twice(f32::from(a), f32::from(b)));
                }
            }
            if matches!(F::MIN, Min::Groups) {
                (&raw mut (*step).split[t]).write(split::<F>(sums, sums.add(p.x.strides[2])));
            }
        }
    }
}

/// Sums of a block of 256 of two tokens: even ones, then odd ones.
#[inline(always)]
unsafe fn split<F: Scaled>(a: *const i16, b: *const i16) -> Split {
    // SAFETY: the caller points at sixteen each. Sums of 32 activations are
    // within ±4064: high parts are within ±64.
    unsafe {
        let (mut even, odd) = ([vld1q_s16(a), vld1q_s16(b)], [vld1q_s16(a.add(8)), vld1q_s16(b.add(8))]);
        if F::PER == 2 {
            even = [vaddq_s16(even[0], odd[0]), vaddq_s16(even[1], odd[1])];
        }
        Split { high: [high(even), high(odd)], low: [low(even), low(odd)] }
    }
}

#[inline(always)]
unsafe fn high(s: [int16x8_t; 2]) -> uint8x16_t {
    // SAFETY: NEON is part of the architecture.
    unsafe { vreinterpretq_u8_s8(vshrn_high_n_s16::<6>(vshrn_n_s16::<6>(s[0]), s[1])) }
}

#[inline(always)]
unsafe fn low(s: [int16x8_t; 2]) -> uint8x16_t {
    // SAFETY: NEON is part of the architecture.
    unsafe { vandq_u8(narrow(s), vdupq_n_u8(63)) }
}

/// The low bytes of both.
#[inline(always)]
pub(super) unsafe fn narrow(s: [int16x8_t; 2]) -> uint8x16_t {
    // SAFETY: NEON is part of the architecture.
    unsafe { vreinterpretq_u8_s8(vmovn_high_s16(vmovn_s16(s[0]), s[1])) }
}
