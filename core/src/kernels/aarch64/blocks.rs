//! The integer half of [`pairs`]: one block of each of two rows with one token.
//!
//! [`pairs`]: super::pairs

use core::arch::aarch64::*;
use core::arch::asm;

use super::asm::updated;
use crate::kernels::generic::matmul::Block;
use crate::kernels::lanes::Lanes;
use crate::quant::Format;

/// 32 bytes.
type Bytes = (uint8x16_t, uint8x16_t);

/// Running sums of scaled products: what differs between instruction sets.
/// Weights are in 0..=63.
#[allow(clippy::missing_safety_doc, reason = "one contract, that of `Lanes`")]
pub(super) trait Mac: Lanes<B = Bytes, Acc = int32x4_t, F = (float32x4_t, float32x4_t)> {
    /// A running sum.
    type Sum: Copy;
    /// Scales of 8 groups of 32 weights.
    type S8: Copy;
    /// Scales of 8 groups of 16 weights.
    type S16: Copy;

    /// A sum that begins with these lanes.
    unsafe fn start(from: int32x4_t) -> Self::Sum;
    /// The scales in the low eight bytes.
    unsafe fn s8(s: int8x16_t) -> Self::S8;
    /// The scales in all bytes, for both halves of a block.
    unsafe fn s16(s: int8x16_t) -> [Self::S16; 2];
    /// Adds the products of the `J`th 32 weights.
    unsafe fn mad8<const J: i32>(sum: Self::Sum, w: Bytes, x: Bytes, s: Self::S8) -> Self::Sum;
    /// The products of a block of each of two rows whose weights are nibbles at
    /// `w`, low ones and high ones of 32 bytes in turn; moves past both.
    unsafe fn block4(w: &mut [*const u8; 2], x: &mut *const i8, s: [Self::S8; 2]) -> [int32x4_t; 2];
    /// Adds the products of half a block of each of two rows of Q6_K: the nibbles
    /// at `low`, the bits above them at `top`.
    unsafe fn half6(
        sum: [Self::Sum; 2],
        low: [*const u8; 2],
        top: [*const u8; 2],
        x: *const u8,
        s: [Self::S16; 2],
    ) -> [Self::Sum; 2];
    /// Four lanes that add up to the sum.
    unsafe fn total(sum: Self::Sum) -> int32x4_t;
}

/// The integer sums of one block of two rows, each in four lanes that add up to
/// it.
pub(super) struct Sums {
    /// Of each row, scaled products.
    pub(super) dot: [int32x4_t; 2],
    /// Of each row, scaled sums of activations; for formats with minimums.
    pub(super) min: [int32x4_t; 2],
}

/// Where both rows, the activations and their scales have been read up to.
pub(super) struct Cursor {
    pub(super) w: [*const u8; 2],
    pub(super) x: *const i8,
    pub(super) sums: *const i16,
    pub(super) d: *const f32,
    /// How far ahead to ask for weights.
    pub(super) ahead: usize,
}

/// Runs `$body` with the constant `$j` bound to each number in turn.
macro_rules! each {
    ($j:ident in [$($v:literal)*] $body:block) => {
        $({ const $j: i32 = $v; $body })*
    };
}

/// Constants that unpack the headers of Q4_K and Q5_K.
#[derive(Clone, Copy)]
pub(super) struct Unpack {
    low: uint8x16_t,
    top: uint8x16_t,
    shift: int8x16_t,
    mask: uint8x16_t,
}

impl Unpack {
    #[inline(always)]
    pub(super) unsafe fn new() -> Self {
        const LOW: [u8; 16] = [4, 5, 6, 7, 12, 13, 14, 15, 8, 9, 10, 11, 12, 13, 14, 15];
        const TOP: [u8; 16] = [0, 0, 0, 0, 4, 5, 6, 7, 0, 0, 0, 0, 8, 9, 10, 11];
        const RIGHT4: u8 = 0xfc;
        const SHIFT: [u8; 16] = [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, RIGHT4, RIGHT4, RIGHT4, RIGHT4];
        const MASK: [u8; 16] = [63, 63, 63, 63, 15, 15, 15, 15, 63, 63, 63, 63, 15, 15, 15, 15];
        // SAFETY: NEON is part of the architecture.
        unsafe {
            let constant = |bytes: &[u8; 16]| hidden(vld1q_u8(bytes.as_ptr()));
            let shift = vreinterpretq_s8_u8(constant(&SHIFT));
            Self { low: constant(&LOW), top: constant(&TOP), shift, mask: constant(&MASK) }
        }
    }

    /// The 8 scales, then the 8 minimums, of the header `v`: words d|dmin, a, b,
    /// c, of which the low bits of a, c, b, c>>4 and the top two of a and b make
    /// up the numbers.
    #[inline(always)]
    pub(super) unsafe fn scales_mins(&self, v: uint8x16_t) -> int8x16_t {
        // SAFETY: NEON is part of the architecture.
        unsafe {
            let low = vshlq_u8(vqtbl1q_u8(v, self.low), self.shift);
            // Words -, a, -, b; the mask keeps bits 4 and 5 of the two named.
            let top = vshrq_n_u8::<2>(vqtbl1q_u8(v, self.top));
            let both = updated!("bit {0:v}.16b, {1:v}.16b, {2:v}.16b"; top, low, self.mask);
            vreinterpretq_s8_u8(both)
        }
    }
}

/// `v`, of which the compiler knows nothing: it would build shuffles by known
/// bytes, and load constants, anew in every turn of a loop.
#[inline(always)]
unsafe fn hidden(v: uint8x16_t) -> uint8x16_t {
    let mut v = v;
    // SAFETY: no instruction at all.
    unsafe { asm!("/* {0:v} */", inout(vreg) v, options(pure, nomem, nostack, preserves_flags)) };
    v
}

/// Sums of the 8 groups of 32 activations.
#[inline(always)]
unsafe fn sums8(sums: *const i16) -> int16x8_t {
    // SAFETY: the caller points at a block's sums: even groups, then odd.
    unsafe { vaddq_s16(vld1q_s16(sums), vld1q_s16(sums.add(8))) }
}

/// Σ of the high eight bytes of `s` with `sums`.
#[inline(always)]
unsafe fn mins(s: int8x16_t, sums: int16x8_t) -> int32x4_t {
    // SAFETY: NEON is part of the architecture.
    unsafe {
        let m = vmovl_high_s8(s);
        vmlal_high_s16(vmull_s16(vget_low_s16(m), vget_low_s16(sums)), m, sums)
    }
}

#[inline(always)]
unsafe fn q4_k<M: Mac>(unpack: &Unpack, at: &mut Cursor) -> Sums {
    // SAFETY: all offsets stay within one block, which the weights end.
    unsafe {
        let packed = at.w.map(|w| unpack.scales_mins(vld1q_u8(w)));
        let sums = sums8(at.sums);
        at.w = at.w.map(|w| w.add(16));
        let dot = M::block4(&mut at.w, &mut at.x, packed.map(|p| M::s8(p)));
        Sums { dot, min: packed.map(|p| mins(p, sums)) }
    }
}

#[inline(always)]
unsafe fn q5_k<M: Mac>(unpack: &Unpack, w: [*const u8; 2], x: *const u8, sums: *const i16) -> Sums {
    // SAFETY: all offsets stay within one block.
    unsafe {
        let heads = w.map(|w| vld1q_u8(w));
        let packed = heads.map(|v| unpack.scales_mins(v));
        let (s, sums) = (packed.map(|p| M::s8(p)), sums8(sums));
        let fifth = w.map(|w| M::load(w.add(16)));
        let mut dot = [M::start(vdupq_n_s32(0)); 2];
        each!(J in [0 1 2 3] {
            let (x0, x1) = (M::load(x.add(64 * J as usize)), M::load(x.add(64 * J as usize + 32)));
            for r in 0..2 {
                let bits = M::load(w[r].add(48 + 32 * J as usize));
                let low = with_bits::<16>(M::and(bits, M::splat(15)), moved::<{ 4 - 2 * J }>(fifth[r]));
                let high = with_bits::<16>(M::shr::<4>(bits), moved::<{ 3 - 2 * J }>(fifth[r]));
                dot[r] = M::mad8::<{ 2 * J }>(dot[r], low, x0, s[r]);
                dot[r] = M::mad8::<{ 2 * J + 1 }>(dot[r], high, x1, s[r]);
            }
        });
        Sums { dot: dot.map(|d| M::total(d)), min: packed.map(|p| mins(p, sums)) }
    }
}

#[inline(always)]
unsafe fn q6_k<M: Mac>(w: [*const u8; 2], x: *const u8, sums: *const i16) -> Sums {
    // SAFETY: all offsets stay within one block.
    unsafe {
        let (even, odd) = (vld1q_s16(sums), vld1q_s16(sums.add(8)));
        let sums = [vzip1q_s16(even, odd), vzip2q_s16(even, odd)];
        let packed = w.map(|w| vld1q_s8(w.add(192).cast()));
        // Weights are 32 less than stored: so much less of the sums.
        let dot = packed.map(|p| M::start(offset6(p, sums)));
        let [s0, s1] = packed.map(|p| M::s16(p));
        let dot = M::half6(dot, w, w.map(|w| w.add(128)), x, [s0[0], s1[0]]);
        let (low, top) = (w.map(|w| w.add(64)), w.map(|w| w.add(160)));
        let dot = M::half6(dot, low, top, x.add(128), [s0[1], s1[1]]).map(|d| M::total(d));
        Sums { dot, min: dot }
    }
}

/// -32·Σ of scales with sums of activations. With intrinsics the compiler would
/// multiply before it adds.
#[inline(always)]
unsafe fn offset6(scales: int8x16_t, sums: [int16x8_t; 2]) -> int32x4_t {
    let offset;
    // SAFETY: NEON is part of the architecture.
    unsafe {
        asm!(
            "smull {0:v}.4s, {1:v}.4h, {3:v}.4h",
            "smlal2 {0:v}.4s, {1:v}.8h, {3:v}.8h",
            "smlal {0:v}.4s, {2:v}.4h, {4:v}.4h",
            "smlal2 {0:v}.4s, {2:v}.8h, {4:v}.8h",
            "shl {0:v}.4s, {0:v}.4s, #5",
            "neg {0:v}.4s, {0:v}.4s",
            out(vreg) offset,
            in(vreg) vmovl_s8(vget_low_s8(scales)),
            in(vreg) vmovl_high_s8(scales),
            in(vreg) sums[0],
            in(vreg) sums[1],
            options(pure, nomem, nostack, preserves_flags)
        );
    }
    offset
}

/// Each byte shifted left by `N`, or right by `-N`.
#[inline(always)]
unsafe fn moved<const N: i32>(b: Bytes) -> Bytes {
    // SAFETY: NEON is part of the architecture.
    unsafe {
        let n = vdupq_n_s8(N as i8);
        if N == 0 { b } else { (vshlq_u8(b.0, n), vshlq_u8(b.1, n)) }
    }
}

/// `a`, but the bits of `MASK` from `b`.
#[inline(always)]
unsafe fn with_bits<const MASK: u8>(a: Bytes, b: Bytes) -> Bytes {
    // SAFETY: NEON is part of the architecture.
    unsafe {
        let mask = vdupq_n_u8(MASK);
        (vbslq_u8(mask, b.0, a.0), vbslq_u8(mask, b.1, a.1))
    }
}

/// The next block of two rows in the format `B`.
#[inline(always)]
pub(super) unsafe fn block<M: Mac, B: Block>(unpack: &Unpack, at: &mut Cursor) -> Sums {
    let (len, bytes) = const { (B::FORMAT.block_len(), B::FORMAT.block_bytes()) };
    // SAFETY: the caller points at whole blocks.
    unsafe {
        let (w, x, sums) = (at.w, at.x, at.sums);
        let done = match const { B::FORMAT } {
            Format::Q4K => q4_k::<M>(unpack, at),
            Format::Q5K => q5_k::<M>(unpack, w, x.cast(), sums),
            Format::Q6K => q6_k::<M>(w, x.cast(), sums),
            _ => {
                // No closure: it would be a function without the CPU features.
                let ([dot0], [min0]) = B::dot::<M, 1>(w[0], [x], [sums]);
                let ([dot1], [min1]) = B::dot::<M, 1>(w[1], [x], [sums]);
                Sums { dot: [dot0, dot1], min: [min0, min1] }
            }
        };
        if !matches!(B::FORMAT, Format::Q4K) {
            at.w = w.map(|w| w.add(bytes));
            at.x = x.add(len);
        }
        at.sums = sums.add(if len == 256 { 16 } else { 1 });
        done
    }
}
