//! [`Lanes`] over baseline NEON.
//!
//! Bytes multiply into eight `i16`. How many products fit in one of those
//! decides the rhythm: four for weights below 64 (4·63·127 = 32,004), two for
//! any other (2·128·127 = 32,512).
// SAFETY of all blocks here: NEON is part of the architecture, and the caller
// gives pointers valid for what the method names (see `lanes`).
#![allow(
    clippy::undocumented_unsafe_blocks,
    reason = "each block is a few intrinsics under the trait's contract"
)]

use core::arch::aarch64::*;
use core::arch::asm;
use core::ops::Range;

use super::asm::{block_of_nibbles, half_of_six_bits, over_rows, weights6};
use super::blocks::Mac;
use super::pairs::one_token;
use super::shared::{Scales, neon_shared, scaled};
use crate::kernels::asm::lines;
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

/// Adds the products of 32 weights in `$w0` and `$w1` with activations to `$a`,
/// scaled; `$t` is scratch. Four products of weights below 32 fit in an `i16`.
macro_rules! mad8 {
    ($first:literal, $a:literal, $w0:literal $w1:literal, $x0:literal $x1:literal, $t:literal, $s:literal $j:literal) => {
        lines!(
            "smull " $t ".8h, " $w0 ".8b, " $x0 ".8b";
            "smlal2 " $t ".8h, " $w0 ".16b, " $x0 ".16b";
            "smlal " $t ".8h, " $w1 ".8b, " $x1 ".8b";
            "smlal2 " $t ".8h, " $w1 ".16b, " $x1 ".16b";
            $first " {" $a ":v}.4s, " $t ".4h, {" $s ":v}.h[" $j "]";
            "smlal2 {" $a ":v}.4s, " $t ".8h, {" $s ":v}.h[" $j "]";
        )
    };
}

/// 64 weights of both rows: the low nibbles of 32 bytes of each, then the high
/// ones, with the next 64 activations at `{x}`. `{m}` holds 15.
macro_rules! nibbles32 {
    ($first:literal, $a0:literal $a1:literal, $b0:literal $b1:literal, $j0:literal $j1:literal) => {
        concat!(
            "ld1 {{v0.16b, v1.16b, v2.16b, v3.16b}}, [{x}], #64\n",
            "and v4.16b, ", $a0, ".16b, {m:v}.16b\n",
            "and v5.16b, ", $a1, ".16b, {m:v}.16b\n",
            "and v6.16b, ", $b0, ".16b, {m:v}.16b\n",
            "and v7.16b, ", $b1, ".16b, {m:v}.16b\n",
            mad8!($first, "a0", "v4" "v5", "v0" "v1", "v24", "s0" $j0),
            mad8!($first, "a1", "v6" "v7", "v0" "v1", "v25", "s1" $j0),
            "ushr v4.16b, ", $a0, ".16b, #4\n",
            "ushr v5.16b, ", $a1, ".16b, #4\n",
            "ushr v6.16b, ", $b0, ".16b, #4\n",
            "ushr v7.16b, ", $b1, ".16b, #4\n",
            mad8!("smlal", "a0", "v4" "v5", "v2" "v3", "v24", "s0" $j1),
            mad8!("smlal", "a1", "v6" "v7", "v2" "v3", "v25", "s1" $j1),
        )
    };
}

/// Sixteen weights of a row of Q6_K; `$t` is scratch.
macro_rules! sixteen6 {
    ($w:literal $x:literal, $t:literal, $a:literal, $s:literal $j:literal) => {
        lines!(
            "smull " $t ".8h, " $w ".8b, " $x ".8b";
            "smlal2 " $t ".8h, " $w ".16b, " $x ".16b";
            "smlal {" $a ":v}.4s, " $t ".4h, {" $s ":v}.h[" $j "]";
            "smlal2 {" $a ":v}.4s, " $t ".8h, {" $s ":v}.h[" $j "]";
        )
    };
}

/// Half a row of Q6_K, with the activations in `v0` to `v7`.
macro_rules! row6 {
    ($low:literal, $top:literal, $a:literal, $s:literal) => {
        concat!(
            weights6!($low, $top),
            sixteen6!("v16" "v0", "v26", $a, $s "0"),
            sixteen6!("v17" "v1", "v27", $a, $s "1"),
            sixteen6!("v18" "v2", "v26", $a, $s "2"),
            sixteen6!("v19" "v3", "v27", $a, $s "3"),
            sixteen6!("v22" "v4", "v26", $a, $s "4"),
            sixteen6!("v23" "v5", "v27", $a, $s "5"),
            sixteen6!("v24" "v6", "v26", $a, $s "6"),
            sixteen6!("v25" "v7", "v27", $a, $s "7"),
        )
    };
}

impl Lanes for Neon {
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
    type S16 = int16x8_t;

    #[inline(always)]
    unsafe fn start(from: int32x4_t) -> int32x4_t {
        from
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
    unsafe fn block4(w: &mut [*const u8; 2], x: &mut *const i8, s: [Self::S8; 2]) -> [int32x4_t; 2] {
        let (a0, a1);
        // The first product of a sum sets it, so that none is cleared.
        unsafe {
            block_of_nibbles!(
                w, x;
                []
                nibbles32!("smull", "v16" "v17", "v20" "v21", "0" "1"),
                nibbles32!("smlal", "v18" "v19", "v22" "v23", "2" "3"),
                nibbles32!("smlal", "v16" "v17", "v20" "v21", "4" "5"),
                nibbles32!("smlal", "v18" "v19", "v22" "v23", "6" "7");
                s0 = in(vreg_low16) s[0],
                s1 = in(vreg_low16) s[1],
                a0 = out(vreg) a0,
                a1 = out(vreg) a1,
                out("v24") _, out("v25") _,
            );
        }
        [a0, a1]
    }
    #[inline(always)]
    unsafe fn half6(
        sum: [int32x4_t; 2],
        low: [*const u8; 2],
        top: [*const u8; 2],
        x: *const u8,
        s: [int16x8_t; 2],
    ) -> [int32x4_t; 2] {
        let [mut a0, mut a1] = sum;
        unsafe {
            half_of_six_bits!(
                low, top, x;
                row6!("l0", "t0", "a0", "s0"),
                row6!("l1", "t1", "a1", "s1");
                s0 = in(vreg_low16) s[0],
                s1 = in(vreg_low16) s[1],
                a0 = inout(vreg) a0,
                a1 = inout(vreg) a1,
                out("v27") _,
            );
        }
        [a0, a1]
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
