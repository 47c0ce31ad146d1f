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

crate::kernels::stamp!(Dotprod, crate::kernels::Isa::Dotprod, matmul, #[target_feature(enable = "neon,dotprod")]);
