//! [`Lanes`] over NEON with ARMv8.2 dot products: sixteen products and their
//! sums by fours in one instruction.
// One contract for every method: the caller has the dot products and gives
// pointers valid for what the method names (see `lanes`).
#![allow(
    clippy::undocumented_unsafe_blocks,
    reason = "each block is a few instructions under the trait's contract"
)]

use core::arch::aarch64::*;
use core::arch::asm;

use super::shared::{Scales, neon_shared, scaled};
use core::ops::Range;

use super::pairs::{self, Mac};
use crate::kernels::generic::matmul::{Block, Product};
use crate::kernels::lanes::Lanes;

/// NEON and dot products.
#[derive(Clone, Copy)]
pub(in crate::kernels) struct Dotprod;

/// Lane `i` of `sum` plus the products of bytes `4i..4i + 4`. The intrinsic is
/// not stable yet. Weights are at most 127 in every use, so that the signed
/// form serves the unsigned ones too.
#[inline(always)]
unsafe fn sdot(sum: int32x4_t, w: uint8x16_t, x: uint8x16_t) -> int32x4_t {
    let mut sum = sum;
    unsafe {
        asm!(
            "sdot {0:v}.4s, {1:v}.16b, {2:v}.16b",
            inout(vreg) sum,
            in(vreg) w,
            in(vreg) x,
            options(pure, nomem, nostack, preserves_flags)
        );
    }
    sum
}

impl Lanes for Dotprod {
    neon_shared!();

    #[inline(always)]
    unsafe fn one_token<B: Block>(p: &Product, rows: Range<usize>, t: usize) {
        unsafe { pairs::one_token::<Self, B>(p, rows, t) }
    }

    #[inline(always)]
    unsafe fn dot_u(acc: int32x4_t, w: Self::B, x: Self::B) -> int32x4_t {
        unsafe { Self::dot_i(acc, w, x) }
    }
    #[inline(always)]
    unsafe fn dot_i(acc: int32x4_t, w: Self::B, x: Self::B) -> int32x4_t {
        unsafe { sdot(sdot(acc, w.0, x.0), w.1, x.1) }
    }
    #[inline(always)]
    unsafe fn mad_u<const J: usize>(acc: int32x4_t, w: Self::B, x: Self::B, s: Scales) -> int32x4_t {
        unsafe { Self::mad_i::<J>(acc, w, x, s) }
    }
    #[inline(always)]
    unsafe fn mad_i<const J: usize>(acc: int32x4_t, w: Self::B, x: Self::B, s: Scales) -> int32x4_t {
        unsafe { scaled::<J>(acc, Self::dot_i(vdupq_n_s32(0), w, x), s.even) }
    }
    #[inline(always)]
    unsafe fn mad2_u<const J: usize>(acc: int32x4_t, w: Self::B, x: Self::B, s: Scales) -> int32x4_t {
        unsafe {
            let acc = scaled::<J>(acc, sdot(vdupq_n_s32(0), w.0, x.0), s.even);
            scaled::<J>(acc, sdot(vdupq_n_s32(0), w.1, x.1), s.odd)
        }
    }
}

impl Mac for Dotprod {
    /// The sum of all products so far, and the sum of those sums times their
    /// scales' differences: Σ sⱼ·pⱼ = Σ (sⱼ − sⱼ₊₁)·(p₀ + … + pⱼ), so that no
    /// register has to be cleared between groups.
    type Sum = (int32x4_t, int32x4_t);
    type S8 = [int32x4_t; 2];
    type S16 = [int32x4_t; 4];

    #[inline(always)]
    unsafe fn start() -> Self::Sum {
        unsafe { (vdupq_n_s32(0), vdupq_n_s32(0)) }
    }
    #[inline(always)]
    unsafe fn s8(s: int8x16_t) -> Self::S8 {
        unsafe {
            let s = vget_low_s8(s);
            let s = vsubl_s8(s, vext_s8::<1>(s, vdup_n_s8(0)));
            [vmovl_s16(vget_low_s16(s)), vmovl_high_s16(s)]
        }
    }
    #[inline(always)]
    unsafe fn s16(s: int8x16_t) -> Self::S16 {
        unsafe {
            let next = vextq_s8::<1>(s, vdupq_n_s8(0));
            let (a, b) = (vsubl_s8(vget_low_s8(s), vget_low_s8(next)), vsubl_high_s8(s, next));
            let low = [vmovl_s16(vget_low_s16(a)), vmovl_high_s16(a)];
            [low[0], low[1], vmovl_s16(vget_low_s16(b)), vmovl_high_s16(b)]
        }
    }
    #[inline(always)]
    unsafe fn mad8<const J: i32>(sum: Self::Sum, w: Self::B, x: Self::B, s: Self::S8) -> Self::Sum {
        unsafe {
            let all = sdot(sdot(sum.0, w.0, x.0), w.1, x.1);
            (all, mla::<J>(sum.1, all, s[J as usize / 4]))
        }
    }
    #[inline(always)]
    unsafe fn mad16<const J: i32>(sum: Self::Sum, w: Self::B, x: Self::B, s: Self::S16) -> Self::Sum {
        unsafe {
            let s = s[J as usize / 2];
            let all = sdot(sum.0, w.0, x.0);
            let acc = if J % 2 == 0 { mla::<0>(sum.1, all, s) } else { mla::<2>(sum.1, all, s) };
            let all = sdot(all, w.1, x.1);
            (all, if J % 2 == 0 { mla::<1>(acc, all, s) } else { mla::<3>(acc, all, s) })
        }
    }
    #[inline(always)]
    unsafe fn total(sum: Self::Sum) -> int32x4_t {
        sum.1
    }
}

/// `acc + sum · s[J mod 4]`.
#[inline(always)]
unsafe fn mla<const J: i32>(acc: int32x4_t, sum: int32x4_t, s: int32x4_t) -> int32x4_t {
    let mut acc = acc;
    // The intrinsic is taken apart and its multiplier copied to all lanes.
    unsafe {
        asm!(
            "mla {0:v}.4s, {1:v}.4s, {2:v}.s[{j}]",
            inout(vreg) acc,
            in(vreg) sum,
            in(vreg) s,
            j = const J % 4,
            options(pure, nomem, nostack, preserves_flags)
        );
    }
    acc
}

crate::kernels::stamp!(Dotprod, crate::kernels::Isa::Dotprod, matmul, #[target_feature(enable = "neon,dotprod")]);
