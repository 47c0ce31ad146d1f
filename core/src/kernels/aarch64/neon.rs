//! [`Lanes`] over baseline NEON.
//!
//! Bytes multiply into eight `i16`. How many products fit in one of those
//! decides the rhythm: four for weights below 64 (4·63·127 = 32,004), two for
//! any other (2·128·127 = 32,512).
// One contract for every method: pointers are valid for what the method names
// (see `lanes`), and NEON is part of the architecture.
#![allow(
    clippy::undocumented_unsafe_blocks,
    reason = "each block is a few intrinsics under the trait's contract"
)]

use core::arch::aarch64::*;
use core::arch::asm;

use super::shared::{Scales, neon_shared, scaled};
use core::ops::Range;

use super::pairs::{Mac, one_token};
use crate::kernels::generic::matmul::{Block, Product};
use crate::kernels::lanes::Lanes;

/// Baseline NEON.
#[derive(Clone, Copy)]
pub(in crate::kernels) struct Neon;

/// `w[i]·x[i] + w[i + 8]·x[i + 8]`.
#[inline(always)]
unsafe fn pairs(w: uint8x16_t, x: uint8x16_t) -> int16x8_t {
    unsafe {
        let (w, x) = (vreinterpretq_s8_u8(w), vreinterpretq_s8_u8(x));
        vmlal_high_s8(vmull_s8(vget_low_s8(w), vget_low_s8(x)), w, x)
    }
}

/// `pairs` added to `sum`.
#[inline(always)]
unsafe fn more_pairs(sum: int16x8_t, w: uint8x16_t, x: uint8x16_t) -> int16x8_t {
    unsafe {
        let (w, x) = (vreinterpretq_s8_u8(w), vreinterpretq_s8_u8(x));
        vmlal_high_s8(vmlal_s8(sum, vget_low_s8(w), vget_low_s8(x)), w, x)
    }
}

impl Lanes for Neon {
    neon_shared!();

    #[inline(always)]
    unsafe fn one_token<B: Block>(p: &Product, rows: Range<usize>, t: usize) {
        unsafe { one_token::<Self, B>(p, rows, t) }
    }

    #[inline(always)]
    unsafe fn dot_u(acc: int32x4_t, w: Self::B, x: Self::B) -> int32x4_t {
        unsafe { Self::dot_i(acc, w, x) }
    }
    #[inline(always)]
    unsafe fn dot_i(acc: int32x4_t, w: Self::B, x: Self::B) -> int32x4_t {
        unsafe { vpadalq_s16(vpadalq_s16(acc, pairs(w.0, x.0)), pairs(w.1, x.1)) }
    }
    #[inline(always)]
    unsafe fn mad_u<const J: usize>(acc: int32x4_t, w: Self::B, x: Self::B, s: Scales) -> int32x4_t {
        unsafe { scaled::<J>(acc, vpaddlq_s16(more_pairs(pairs(w.0, x.0), w.1, x.1)), s.even) }
    }
    #[inline(always)]
    unsafe fn mad_i<const J: usize>(acc: int32x4_t, w: Self::B, x: Self::B, s: Scales) -> int32x4_t {
        unsafe { scaled::<J>(acc, vpadalq_s16(vpaddlq_s16(pairs(w.0, x.0)), pairs(w.1, x.1)), s.even) }
    }
    #[inline(always)]
    unsafe fn mad2_u<const J: usize>(acc: int32x4_t, w: Self::B, x: Self::B, s: Scales) -> int32x4_t {
        unsafe {
            let acc = scaled::<J>(acc, vpaddlq_s16(pairs(w.0, x.0)), s.even);
            scaled::<J>(acc, vpaddlq_s16(pairs(w.1, x.1)), s.odd)
        }
    }
}

impl Mac for Neon {
    type Sum = int32x4_t;
    type S8 = int16x8_t;
    type S16 = [int16x8_t; 2];

    #[inline(always)]
    unsafe fn start() -> int32x4_t {
        unsafe { vdupq_n_s32(0) }
    }
    #[inline(always)]
    unsafe fn s8(s: int8x16_t) -> int16x8_t {
        unsafe { vmovl_s8(vget_low_s8(s)) }
    }
    #[inline(always)]
    unsafe fn s16(s: int8x16_t) -> [int16x8_t; 2] {
        unsafe { [vmovl_s8(vget_low_s8(s)), vmovl_high_s8(s)] }
    }
    #[inline(always)]
    unsafe fn mad8<const J: i32>(sum: int32x4_t, w: Self::B, x: Self::B, s: int16x8_t) -> int32x4_t {
        unsafe { mlal::<J>(sum, more_pairs(pairs(w.0, x.0), w.1, x.1), s) }
    }
    #[inline(always)]
    unsafe fn mad16<const J: i32>(sum: int32x4_t, w: Self::B, x: Self::B, s: [int16x8_t; 2]) -> int32x4_t {
        unsafe {
            let (a, b) = (pairs(w.0, x.0), pairs(w.1, x.1));
            let s = s[J as usize / 4];
            match J % 4 {
                0 => mlal::<1>(mlal::<0>(sum, a, s), b, s),
                1 => mlal::<3>(mlal::<2>(sum, a, s), b, s),
                2 => mlal::<5>(mlal::<4>(sum, a, s), b, s),
                _ => mlal::<7>(mlal::<6>(sum, a, s), b, s),
            }
        }
    }
    #[inline(always)]
    unsafe fn total(sum: int32x4_t) -> int32x4_t {
        sum
    }
}

/// `acc + p · s[J]`, the eight products folded to four.
#[inline(always)]
unsafe fn mlal<const J: i32>(acc: int32x4_t, p: int16x8_t, s: int16x8_t) -> int32x4_t {
    let mut acc = acc;
    // With intrinsics sums are taken apart into a tree, for which there are
    // neither registers nor instructions to spare.
    unsafe {
        asm!(
            "smlal {0:v}.4s, {1:v}.4h, {2:v}.h[{j}]",
            "smlal2 {0:v}.4s, {1:v}.8h, {2:v}.h[{j}]",
            inout(vreg) acc,
            in(vreg) p,
            in(vreg_low16) s,
            j = const J,
            options(pure, nomem, nostack, preserves_flags)
        );
    }
    acc
}

crate::kernels::stamp!(Neon, crate::kernels::Isa::Neon, matmul, #[target_feature(enable = "neon")]);
