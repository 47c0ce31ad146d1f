//! [`Lanes`] over NEON with ARMv8.2 dot products: sixteen products and their
//! sums by fours in one instruction.
// SAFETY of all blocks here: the caller has the dot products and gives pointers
// valid for what the method names (see `lanes`).
#![allow(
    clippy::undocumented_unsafe_blocks,
    reason = "each block is a few instructions under the trait's contract"
)]

use core::arch::aarch64::*;
use core::ops::Range;

use super::asm::{block_of_nibbles, half_of_six_bits, over_rows, updated, weights6};
use super::blocks::Mac;
use super::pairs::one_token;
use super::shared::{Scales, neon_shared, scaled};
use crate::kernels::asm::lines;
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
    unsafe { updated!("sdot {0:v}.4s, {1:v}.16b, {2:v}.16b"; sum, w, x) }
}

/// 64 weights of both rows: the low nibbles of 32 bytes of each, then the high
/// ones, with the next 64 activations at `{x}`. `{m}` holds 15; sums run on in
/// `{c0}` and `{c1}`.
macro_rules! nibbles32 {
    ($first:literal, $a0:literal $a1:literal, $b0:literal $b1:literal, $s:literal $j0:literal $j1:literal) => {
        lines!(
            "ld1 {{v0.16b, v1.16b, v2.16b, v3.16b}}, [{x}], #64";
            "and v4.16b, " $a0 ".16b, {m:v}.16b";
            "and v6.16b, " $b0 ".16b, {m:v}.16b";
            "and v5.16b, " $a1 ".16b, {m:v}.16b";
            "and v7.16b, " $b1 ".16b, {m:v}.16b";
            "sdot {c0:v}.4s, v4.16b, v0.16b";
            "sdot {c1:v}.4s, v6.16b, v0.16b";
            "ushr v4.16b, " $a0 ".16b, #4";
            "ushr v6.16b, " $b0 ".16b, #4";
            "sdot {c0:v}.4s, v5.16b, v1.16b";
            "sdot {c1:v}.4s, v7.16b, v1.16b";
            "ushr v5.16b, " $a1 ".16b, #4";
            "ushr v7.16b, " $b1 ".16b, #4";
            $first " {a0:v}.4s, {c0:v}.4s, {s0" $s ":v}.s[" $j0 "]";
            $first " {a1:v}.4s, {c1:v}.4s, {s1" $s ":v}.s[" $j0 "]";
            "sdot {c0:v}.4s, v4.16b, v2.16b";
            "sdot {c1:v}.4s, v6.16b, v2.16b";
            "sdot {c0:v}.4s, v5.16b, v3.16b";
            "sdot {c1:v}.4s, v7.16b, v3.16b";
            "mla {a0:v}.4s, {c0:v}.4s, {s0" $s ":v}.s[" $j1 "]";
            "mla {a1:v}.4s, {c1:v}.4s, {s1" $s ":v}.s[" $j1 "]";
        )
    };
}

/// Half a row of Q6_K, with the activations in `v0` to `v7`.
macro_rules! row6 {
    ($low:literal, $top:literal, $c:literal, $a:literal, $s0:literal, $s1:literal) => {
        concat!(
            weights6!($low, $top),
            sixteen6!("v16" "v0", $c, $a, $s0, "0"),
            sixteen6!("v17" "v1", $c, $a, $s0, "1"),
            sixteen6!("v18" "v2", $c, $a, $s0, "2"),
            sixteen6!("v19" "v3", $c, $a, $s0, "3"),
            sixteen6!("v22" "v4", $c, $a, $s1, "0"),
            sixteen6!("v23" "v5", $c, $a, $s1, "1"),
            sixteen6!("v24" "v6", $c, $a, $s1, "2"),
            sixteen6!("v25" "v7", $c, $a, $s1, "3"),
        )
    };
}

/// Sixteen weights of a row of Q6_K.
macro_rules! sixteen6 {
    ($w:literal $x:literal, $c:literal, $a:literal, $s:literal, $j:literal) => {
        lines!(
            "sdot {" $c ":v}.4s, " $w ".16b, " $x ".16b";
            "mla {" $a ":v}.4s, {" $c ":v}.4s, {" $s ":v}.s[" $j "]";
        )
    };
}

impl Lanes for Dotprod {
    const TOKEN_BY_TOKEN: bool = true;
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
    type S16 = [int32x4_t; 2];

    #[inline(always)]
    unsafe fn start(from: int32x4_t) -> Self::Sum {
        unsafe { (vdupq_n_s32(0), from) }
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
    unsafe fn s16(s: int8x16_t) -> [Self::S16; 2] {
        unsafe {
            let next = vextq_s8::<1>(s, vdupq_n_s8(0));
            let halves = [vsubl_s8(vget_low_s8(s), vget_low_s8(next)), vsubl_high_s8(s, next)];
            halves.map(|s| [vmovl_s16(vget_low_s16(s)), vmovl_high_s16(s)])
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
    unsafe fn block4(w: &mut [*const u8; 2], x: &mut *const i8, s: [Self::S8; 2]) -> [int32x4_t; 2] {
        let (a0, a1);
        // The first product of a sum sets it, so that none is cleared.
        unsafe {
            block_of_nibbles!(
                w, x;
                ["movi {c0:v}.4s, #0", "movi {c1:v}.4s, #0"]
                nibbles32!("mul", "v16" "v17", "v20" "v21", "a" "0" "1"),
                nibbles32!("mla", "v18" "v19", "v22" "v23", "a" "2" "3"),
                nibbles32!("mla", "v16" "v17", "v20" "v21", "b" "0" "1"),
                nibbles32!("mla", "v18" "v19", "v22" "v23", "b" "2" "3");
                s0a = in(vreg) s[0][0],
                s0b = in(vreg) s[0][1],
                s1a = in(vreg) s[1][0],
                s1b = in(vreg) s[1][1],
                c0 = out(vreg) _,
                c1 = out(vreg) _,
                a0 = out(vreg) a0,
                a1 = out(vreg) a1,
            );
        }
        [a0, a1]
    }
    #[inline(always)]
    unsafe fn half6(
        sum: [Self::Sum; 2],
        low: [*const u8; 2],
        top: [*const u8; 2],
        x: *const u8,
        s: [Self::S16; 2],
    ) -> [Self::Sum; 2] {
        let [(mut c0, mut a0), (mut c1, mut a1)] = sum;
        unsafe {
            half_of_six_bits!(
                low, top, x;
                row6!("l0", "t0", "c0", "a0", "s0a", "s0b"),
                row6!("l1", "t1", "c1", "a1", "s1a", "s1b");
                s0a = in(vreg) s[0][0],
                s0b = in(vreg) s[0][1],
                s1a = in(vreg) s[1][0],
                s1b = in(vreg) s[1][1],
                c0 = inout(vreg) c0,
                c1 = inout(vreg) c1,
                a0 = inout(vreg) a0,
                a1 = inout(vreg) a1,
            );
        }
        [(c0, a0), (c1, a1)]
    }
    #[inline(always)]
    unsafe fn total(sum: Self::Sum) -> int32x4_t {
        sum.1
    }
}

/// `acc + sum · s[J mod 4]`. The intrinsic is taken apart and its multiplier
/// copied to all lanes.
#[inline(always)]
unsafe fn mla<const J: i32>(acc: int32x4_t, sum: int32x4_t, s: int32x4_t) -> int32x4_t {
    unsafe { updated!("mla {0:v}.4s, {1:v}.4s, {2:v}.s[{j}]"; acc, sum, s; j = const J % 4) }
}

crate::kernels::stamp!(Dotprod, crate::kernels::Isa::Dotprod, matmul, #[target_feature(enable = "neon,dotprod")]);
