//! [`Lanes`] over the NEON of 32-bit ARM, for integers only: its `f32`
//! arithmetic flushes denormals, so that half stays with the scalar unit.
//!
//! The intrinsics for this target are not stable and the build does not assume
//! NEON, so each operation is a line or two of assembly that brings its own
//! `.fpu neon`. A 64-bit register travels as an `f64`: a type that lives in
//! those registers and whose moves keep every bit. No arithmetic is ever done
//! on it as a number. Operands are in `d0` to `d15`; scratch is `q8` and up, but
//! must be declared by halves: a compiler told of no NEON keeps values in `d16`
//! and up, yet passes over a clobbered `q8` in silence.
//!
//! Bytes multiply into `i16`; how many products fit in one decides the rhythm:
//! four for weights below 64 (4·63·127 = 32,004), two for any other
//! (2·128·127 = 32,512).
// SAFETY of all blocks here: the caller has NEON and gives pointers valid
// for what the method names (see `lanes`).
#![allow(
    clippy::undocumented_unsafe_blocks,
    reason = "each block is a few instructions under the trait's contract"
)]

use core::arch::asm;
use core::ops::Range;

use super::pairs;
use crate::kernels::generic::matmul::{Block, Product, one_by_one};
use crate::kernels::lanes::Lanes;
use crate::kernels::portable::{f16_to_f32, portable_f32, portable_scales};

/// NEON for integers.
#[derive(Clone, Copy)]
pub(in crate::kernels) struct Neon;

/// The contents of a 64-bit register.
type D = f64;

/// The register that holds these bits.
#[inline(always)]
fn d(bits: u64) -> D {
    D::from_bits(bits)
}

/// Two scales as the lanes of a register.
#[inline(always)]
fn scales(s: [i16; 2]) -> D {
    let [low, high] = s.map(|s| u64::from(i32::from(s) as u32));
    d(high << 32 | low)
}

/// Lets `$result` be what the instructions make of registers `{1}`, `{2}` ….
macro_rules! pure {
    ($($text:literal),* ; $($v:expr),* $(; $name:ident = const $n:expr)?) => {{
        let result: D;
        asm!(
            ".fpu neon", $($text),*,
            lateout(dreg_low16) result,
            $(in(dreg_low16) $v,)*
            $($name = const $n,)?
            options(pure, nomem, nostack, preserves_flags)
        );
        result
    }};
}

/// Adds to `$acc` (`{0}`) what the instructions make of the weights `{1}` to
/// `{4}`, the activations `{5}` to `{8}` and perhaps the scales `{9}`. The
/// accumulator is written last, so its register may be an input's too.
macro_rules! products {
    ($acc:expr, $w:expr, $x:expr $(, $s:expr)?; $($text:literal),*) => {{
        let result: D;
        asm!(
            ".fpu neon", $($text),*,
            inlateout(dreg_low16) $acc => result,
            in(dreg_low16) $w[0],
            in(dreg_low16) $w[1],
            in(dreg_low16) $w[2],
            in(dreg_low16) $w[3],
            in(dreg_low16) $x[0],
            in(dreg_low16) $x[1],
            in(dreg_low16) $x[2],
            in(dreg_low16) $x[3],
            $(in(dreg_low16) $s,)?
            out("d16") _,
            out("d17") _,
            out("d18") _,
            out("d19") _,
            options(pure, nomem, nostack, preserves_flags)
        );
        result
    }};
}

impl Lanes for Neon {
    const TOKEN_BY_TOKEN: bool = true;
    /// Sixteen registers of 128 bits hold the sums of one.
    const PAIR_HEADS: bool = false;
    type B = [D; 4];
    type Acc = D;

    #[inline(always)]
    unsafe fn load(p: *const u8) -> [D; 4] {
        let (a, b, c, d): (D, D, D, D);
        unsafe {
            asm!(
                ".fpu neon",
                "vld1.8 {{{0}}}, [{p}]!",
                "vld1.8 {{{1}}}, [{p}]!",
                "vld1.8 {{{2}}}, [{p}]!",
                "vld1.8 {{{3}}}, [{p}]",
                out(dreg_low16) a,
                out(dreg_low16) b,
                out(dreg_low16) c,
                out(dreg_low16) d,
                p = inout(reg) p => _,
                options(pure, readonly, nostack, preserves_flags)
            );
        }
        [a, b, c, d]
    }
    #[inline(always)]
    unsafe fn splat(v: u8) -> [D; 4] {
        // The same register four times.
        [d(u64::from_ne_bytes([v; 8])); 4]
    }
    #[inline(always)]
    unsafe fn and(a: [D; 4], b: [D; 4]) -> [D; 4] {
        core::array::from_fn(|i| unsafe { pure!("vand {0}, {1}, {2}"; a[i], b[i]) })
    }
    #[inline(always)]
    unsafe fn or(a: [D; 4], b: [D; 4]) -> [D; 4] {
        core::array::from_fn(|i| unsafe { pure!("vorr {0}, {1}, {2}"; a[i], b[i]) })
    }
    #[inline(always)]
    unsafe fn shr<const N: i32>(a: [D; 4]) -> [D; 4] {
        if N == 0 {
            return a; // the instruction has no shift by zero
        }
        a.map(|a| unsafe { pure!("vshr.u8 {0}, {1}, #{n}"; a; n = const N) })
    }
    #[inline(always)]
    unsafe fn shl<const N: i32>(a: [D; 4]) -> [D; 4] {
        a.map(|a| unsafe { pure!("vshl.i8 {0}, {1}, #{n}"; a; n = const N) })
    }
    #[inline(always)]
    unsafe fn nibbles(p: *const u8) -> [D; 4] {
        let (a, b, c, d): (D, D, D, D);
        unsafe {
            asm!(
                ".fpu neon",
                "vld1.8 {{d16, d17}}, [{p}]",
                "vmov.i8 d18, #15",
                "vand {0}, d16, d18",
                "vand {1}, d17, d18",
                "vshr.u8 {2}, d16, #4",
                "vshr.u8 {3}, d17, #4",
                lateout(dreg_low16) a,
                lateout(dreg_low16) b,
                lateout(dreg_low16) c,
                lateout(dreg_low16) d,
                p = in(reg) p,
                out("d16") _,
                out("d17") _,
                out("d18") _,
                out("d19") _,
                options(pure, readonly, nostack, preserves_flags)
            );
        }
        [a, b, c, d]
    }
    #[inline(always)]
    unsafe fn lookup(table: &[i8; 16], i: [D; 4]) -> [D; 4] {
        i.map(|i| unsafe {
            let result: D;
            asm!(
                ".fpu neon",
                "vld1.8 {{d16, d17}}, [{t}]",
                "vtbl.8 {0}, {{d16, d17}}, {1}",
                lateout(dreg_low16) result,
                in(dreg_low16) i,
                t = in(reg) table,
                out("d16") _,
                out("d17") _,
                options(pure, readonly, nostack, preserves_flags)
            );
            result
        })
    }
    #[inline(always)]
    unsafe fn bits16(p: *const u8) -> [D; 4] {
        unsafe {
            let bytes = p.cast::<[u8; 4]>().read_unaligned();
            let (bit, sixteen) = (d(0x8040_2010_0804_0201), d(0x1010_1010_1010_1010));
            bytes.map(|b| {
                let spread = d(u64::from_ne_bytes([b; 8]));
                let set = pure!("vtst.8 {0}, {1}, {2}"; spread, bit);
                pure!("vand {0}, {1}, {2}"; set, sixteen)
            })
        }
    }

    #[inline(always)]
    unsafe fn zero() -> D {
        unsafe { pure!("vmov.i32 {0}, #0";) }
    }
    #[inline(always)]
    unsafe fn dot_u(acc: D, w: [D; 4], x: [D; 4]) -> D {
        unsafe { Self::dot_i(acc, w, x) }
    }
    #[inline(always)]
    unsafe fn dot_i(acc: D, w: [D; 4], x: [D; 4]) -> D {
        unsafe {
            products!(acc, w, x;
                "vmull.s8 q8, {1}, {5}",
                "vmull.s8 q9, {3}, {7}",
                "vmlal.s8 q8, {2}, {6}",
                "vmlal.s8 q9, {4}, {8}",
                "vpadal.s16 {0}, d16",
                "vpadal.s16 {0}, d17",
                "vpadal.s16 {0}, d18",
                "vpadal.s16 {0}, d19")
        }
    }
    #[inline(always)]
    unsafe fn mad_u<const J: usize>(acc: D, w: [D; 4], x: [D; 4], s: [i16; 16]) -> D {
        unsafe {
            products!(acc, w, x, scales([s[J], 0]);
                "vmull.s8 q8, {1}, {5}",
                "vmlal.s8 q8, {2}, {6}",
                "vmlal.s8 q8, {3}, {7}",
                "vmlal.s8 q8, {4}, {8}",
                "vpaddl.s16 d16, d16",
                "vpadal.s16 d16, d17",
                "vmla.i32 {0}, d16, {9}[0]")
        }
    }
    #[inline(always)]
    unsafe fn mad_i<const J: usize>(acc: D, w: [D; 4], x: [D; 4], s: [i16; 16]) -> D {
        unsafe {
            products!(acc, w, x, scales([s[J], 0]);
                "vmull.s8 q8, {1}, {5}",
                "vmull.s8 q9, {3}, {7}",
                "vmlal.s8 q8, {2}, {6}",
                "vmlal.s8 q9, {4}, {8}",
                "vpaddl.s16 d16, d16",
                "vpadal.s16 d16, d17",
                "vpadal.s16 d16, d18",
                "vpadal.s16 d16, d19",
                "vmla.i32 {0}, d16, {9}[0]")
        }
    }
    #[inline(always)]
    unsafe fn mad2_u<const J: usize>(acc: D, w: [D; 4], x: [D; 4], s: [i16; 16]) -> D {
        unsafe {
            products!(acc, w, x, scales([s[J], s[8 + J]]);
                "vmull.s8 q8, {1}, {5}",
                "vmull.s8 q9, {3}, {7}",
                "vmlal.s8 q8, {2}, {6}",
                "vmlal.s8 q9, {4}, {8}",
                "vpaddl.s16 d16, d16",
                "vpaddl.s16 d18, d18",
                "vpadal.s16 d16, d17",
                "vpadal.s16 d18, d19",
                "vmul.i32 d16, d16, {9}[0]",
                "vmla.i32 d16, d18, {9}[1]",
                "vadd.i32 {0}, {0}, d16")
        }
    }
    #[inline(always)]
    unsafe fn dot_sums(s: [i16; 16], sums: *const i16) -> D {
        let result: D;
        unsafe {
            asm!(
                ".fpu neon",
                "vld1.16 {{d16-d19}}, [{a}]",
                "vld1.16 {{d20-d23}}, [{b}]",
                "vmull.s16 q12, d16, d20",
                "vmlal.s16 q12, d17, d21",
                "vmlal.s16 q12, d18, d22",
                "vmlal.s16 q12, d19, d23",
                "vadd.i32 {0}, d24, d25",
                lateout(dreg_low16) result,
                a = in(reg) s.as_ptr(),
                b = in(reg) sums,
                out("d16") _,
                out("d17") _,
                out("d18") _,
                out("d19") _,
                out("d20") _,
                out("d21") _,
                out("d22") _,
                out("d23") _,
                out("d24") _,
                out("d25") _,
                options(pure, readonly, nostack, preserves_flags)
            );
        }
        result
    }
    #[inline(always)]
    unsafe fn less<const N: i32>(a: D, b: D) -> D {
        unsafe {
            let shifted = pure!("vshl.i32 {0}, {1}, #{n}"; b; n = const N);
            pure!("vsub.i32 {0}, {1}, {2}"; a, shifted)
        }
    }
    #[inline(always)]
    unsafe fn reduce8(p: [D; 8]) -> [i32; 8] {
        let mut out = [0; 8];
        for i in 0..4 {
            let two = unsafe { pure!("vpadd.i32 {0}, {1}, {2}"; p[2 * i], p[2 * i + 1]) }.to_bits();
            out[2 * i] = two as i32;
            out[2 * i + 1] = (two >> 32) as i32;
        }
        out
    }

    #[inline(always)]
    unsafe fn prefetch(p: *const u8) {
        // Not `nomem`: that would let it move across the loads it is for.
        unsafe { asm!("pld [{0}]", in(reg) p, options(nostack, readonly, preserves_flags)) }
    }

    #[inline(always)]
    unsafe fn one_token<B: Block>(p: &Product, rows: Range<usize>, t: usize) {
        if const { pairs::knows(B::FORMAT) } {
            unsafe { pairs::one_token::<B>(p, rows, t) }
        } else {
            unsafe { one_by_one::<Self, B>(p, rows, t) }
        }
    }

    #[inline(always)]
    unsafe fn f_from_f16(p: *const u16) -> [f32; 8] {
        let mut out = [0.0f32; 8];
        let (odd0, odd1): (u32, u32);
        // Exponents are 112 less than those of `f32`, all fields 13 bits lower.
        // Zeros, denormals, infinities and NaN are otherwise.
        unsafe {
            asm!(
                ".fpu neon",
                "vld1.16 {{d16, d17}}, [{p}]",
                "vmov.i16 q9, #0x7c00",
                "vand q10, q8, q9",
                "vceq.i16 q11, q10, q9",
                "vceq.i16 q10, q10, #0",
                "vorr q10, q10, q11",
                "vorr d20, d20, d21",
                "vmov {odd0}, {odd1}, d20",
                "vmov.i16 q9, #0x8000",
                "vand q11, q8, q9",
                "vbic q8, q8, q9",
                "vshll.u16 q12, d16, #13",
                "vshll.u16 q13, d17, #13",
                "vmov.i32 q9, #0x38000000",
                "vadd.i32 q12, q12, q9",
                "vadd.i32 q13, q13, q9",
                "vshll.i16 q14, d22, #16",
                "vshll.i16 q15, d23, #16",
                "vorr q12, q12, q14",
                "vorr q13, q13, q15",
                "vst1.32 {{d24-d27}}, [{out}]",
                p = in(reg) p,
                out = in(reg) out.as_mut_ptr(),
                odd0 = out(reg) odd0,
                odd1 = out(reg) odd1,
                out("d16") _, out("d17") _, out("d18") _, out("d19") _,
                out("d20") _, out("d21") _, out("d22") _, out("d23") _,
                out("d24") _, out("d25") _, out("d26") _, out("d27") _,
                out("d28") _, out("d29") _, out("d30") _, out("d31") _,
                options(nostack, preserves_flags)
            );
            if odd0 | odd1 != 0 {
                out = p.cast::<[u16; 8]>().read_unaligned().map(f16_to_f32);
            }
        }
        out
    }

    portable_scales!();
    portable_f32!();
}

crate::kernels::stamp!(Neon, crate::kernels::Isa::Neon, matmul);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_half_converts_beside_any_other() {
        if !crate::kernels::testing::caps().flags().neon {
            return;
        }
        for h in 0..=u16::MAX {
            // Beside halves that are common, so that both ways are taken.
            let eight = [h, 0x3c00, 0xb800, h ^ 1, 0x0400, 0x7bff, 0xc001, h];
            // SAFETY: the CPU has NEON; eight numbers.
            let got = unsafe { Neon::f_from_f16(eight.as_ptr()) };
            assert_eq!(got.map(f32::to_bits), eight.map(|h| f16_to_f32(h).to_bits()), "{h:#06x}");
        }
    }
}
