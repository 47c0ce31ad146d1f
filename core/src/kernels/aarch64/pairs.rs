//! Two rows of weights at once with one token: what decoding spends its time on.
//!
//! Both rows meet each load of activations. Four blocks of each make a quad:
//! their integer sums are folded by pairwise additions as they come and stored,
//! and one load that takes every fourth number apart then gives vectors with a
//! lane per block, as the law of lanes wants (see `generic::matmul`).

use core::arch::aarch64::*;
use core::arch::asm;
use core::ops::Range;

use crate::kernels::generic::matmul::{AHEAD, Block, Min, Product};
use crate::kernels::lanes::Lanes;
use crate::quant::Format;

/// How far ahead of its use a block is asked for at most, in bytes.
const FARTHEST: usize = 16 << 10;

/// 32 bytes.
type Bytes = (uint8x16_t, uint8x16_t);

/// Running sums of scaled products: what differs between instruction sets.
/// Weights are in 0..=63.
#[allow(clippy::missing_safety_doc, reason = "one contract, that of `Lanes`")]
pub(super) trait Mac: Lanes {
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
struct Sums {
    /// Of each row, scaled products.
    dot: [int32x4_t; 2],
    /// Of each row, scaled sums of activations; for formats with minimums.
    min: [int32x4_t; 2],
}

/// Runs `$body` with the constant `$j` bound to each number in turn.
macro_rules! each {
    ($j:ident in [$($v:literal)*] $body:block) => {
        $({ const $j: i32 = $v; $body })*
    };
}

#[inline(always)]
unsafe fn load(p: *const u8, at: usize) -> Bytes {
    // SAFETY: the caller has 32 bytes there.
    unsafe { (vld1q_u8(p.add(at)), vld1q_u8(p.add(at + 16))) }
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
            let mut both = vshrq_n_u8::<2>(vqtbl1q_u8(v, self.top));
            asm!(
                "bit {0:v}.16b, {1:v}.16b, {2:v}.16b",
                inout(vreg) both,
                in(vreg) low,
                in(vreg) self.mask,
                options(pure, nomem, nostack, preserves_flags)
            );
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
        let fifth = w.map(|w| load(w, 16));
        let mut dot = [M::start(vdupq_n_s32(0)); 2];
        each!(J in [0 1 2 3] {
            let (x0, x1) = (load(x, 64 * J as usize), load(x, 64 * J as usize + 32));
            for r in 0..2 {
                let bits = load(w[r], 48 + 32 * J as usize);
                let low = with_bits::<16>(low4(bits), moved::<{ 4 - 2 * J }>(fifth[r]));
                let high = with_bits::<16>(high4(bits), moved::<{ 3 - 2 * J }>(fifth[r]));
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

#[inline(always)]
unsafe fn low4(b: Bytes) -> Bytes {
    // SAFETY: NEON is part of the architecture.
    unsafe { and::<15>(b) }
}

#[inline(always)]
unsafe fn and<const MASK: u8>(b: Bytes) -> Bytes {
    // SAFETY: NEON is part of the architecture.
    unsafe { (vandq_u8(b.0, vdupq_n_u8(MASK)), vandq_u8(b.1, vdupq_n_u8(MASK))) }
}

#[inline(always)]
unsafe fn high4(b: Bytes) -> Bytes {
    // SAFETY: NEON is part of the architecture.
    unsafe { (vshrq_n_u8::<4>(b.0), vshrq_n_u8::<4>(b.1)) }
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
unsafe fn block<M: Mac<Acc = int32x4_t>, B: Block>(unpack: &Unpack, at: &mut Cursor) -> Sums {
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

/// Sixteen columns of half a row of Q6_K made to weights: nibbles in `$l0` and
/// `$l1`, bits above them in `$top`, with scratch `$t`. `{m3}` holds 3 and `{m48}`
/// 48. The weights end up in `$l0`, `$l1`, `$h0` and `$h1`.
macro_rules! six_bits {
    ($l0:literal $l1:literal $top:literal, $h0:literal $h1:literal, $t:literal) => {
        concat!(
            "ushr ",
            $h0,
            ".16b, ",
            $l0,
            ".16b, #4\n",
            "and ",
            $t,
            ".16b, ",
            $top,
            ".16b, {m3:v}.16b\n",
            "ushr ",
            $h1,
            ".16b, ",
            $l1,
            ".16b, #4\n",
            "sli ",
            $l0,
            ".16b, ",
            $t,
            ".16b, #4\n",
            "ushr ",
            $t,
            ".16b, ",
            $top,
            ".16b, #2\n",
            "bit ",
            $h0,
            ".16b, ",
            $top,
            ".16b, {m48:v}.16b\n",
            "and ",
            $t,
            ".16b, ",
            $t,
            ".16b, {m3:v}.16b\n",
            "ushr ",
            $top,
            ".16b, ",
            $top,
            ".16b, #6\n",
            "sli ",
            $l1,
            ".16b, ",
            $t,
            ".16b, #4\n",
            "sli ",
            $h1,
            ".16b, ",
            $top,
            ".16b, #4\n",
        )
    };
}
pub(super) use six_bits;

/// Whole sums of four blocks, a lane each, and the words that hold their scales.
struct Quad {
    dot: [int32x4_t; 2],
    min: [int32x4_t; 2],
    heads: [uint32x4_t; 2],
}

/// Where sums wait for their quad to be full.
#[repr(C)]
struct Waiting {
    /// Per block: products of both rows and their minimums, in turn.
    sums: [[i32; 4]; 4],
    heads: [[u32; 4]; 2],
    /// The first and the second four lanes of both rows.
    acc: [[[f32; 4]; 2]; 2],
}

/// Where both rows, the activations and their scales have been read up to.
struct Cursor {
    w: [*const u8; 2],
    x: *const i8,
    sums: *const i16,
    d: *const f32,
    /// How far ahead to ask for weights.
    ahead: usize,
}

/// Computes the next `n` blocks of both rows, at most four.
#[inline(always)]
unsafe fn quad<M: Mac<Acc = int32x4_t>, B: Block>(
    unpack: &Unpack,
    wait: &mut Waiting,
    at: &mut Cursor,
    n: usize,
) -> Quad {
    // SAFETY: the caller has `n` blocks. Prefetching past the end is harmless.
    unsafe {
        let (mut sums, mut i) = (wait.sums.as_mut_ptr().cast::<i32>(), 0);
        while i < n {
            for w in at.w {
                ask_ahead::<B>(w.wrapping_add(at.ahead));
            }
            for r in 0..2 {
                let head = at.w[r].add(B::D);
                wait.heads[r][i] = if has_m::<B>() {
                    head.cast::<u32>().read_unaligned()
                } else {
                    u32::from(head.cast::<u16>().read_unaligned())
                };
            }
            let b = block::<M, B>(unpack, at);
            if matches!(B::MIN, Min::Groups) {
                let (a, b) = (vpaddq_s32(b.dot[0], b.min[0]), vpaddq_s32(b.dot[1], b.min[1]));
                vst1q_s32(sums, vpaddq_s32(a, b));
            } else {
                let both = vpaddq_s32(b.dot[0], b.dot[1]);
                vst1q_s32(sums, vpaddq_s32(both, both));
            }
            sums = sums.add(4);
            i += 1;
        }
        let s = apart(wait.sums.as_ptr().cast());
        let heads = [vld1q_u32(wait.heads[0].as_ptr()), vld1q_u32(wait.heads[1].as_ptr())];
        if matches!(B::MIN, Min::Groups) {
            Quad { dot: [s[0], s[2]], min: [s[1], s[3]], heads }
        } else {
            Quad { dot: [s[0], s[1]], min: [s[0], s[1]], heads }
        }
    }
}

/// Whether a second number follows the scale.
const fn has_m<B: Block>() -> bool {
    matches!(B::MIN, Min::Groups | Min::Block)
}

/// Asks for the cache lines of a block at `w`, which need not be there.
#[inline(always)]
unsafe fn ask_ahead<B: Block>(w: *const u8) {
    // SAFETY: needs no mapped memory. Not `nomem`: that would let it move across
    // the loads it is for.
    unsafe {
        macro_rules! line {
            ($($n:literal)*) => {$(
                if 64 * $n < const { B::FORMAT.block_bytes() } {
                    asm!(
                        "prfm pldl1keep, [{0}, #{n}]",
                        in(reg) w,
                        n = const 64 * $n,
                        options(nostack, readonly, preserves_flags)
                    );
                }
            )*};
        }
        line!(0 1 2 3 4);
    }
}

/// Sixteen numbers, every fourth of which goes to the same vector.
#[inline(always)]
unsafe fn apart(p: *const i32) -> [int32x4_t; 4] {
    let (a, b, c, d);
    // The intrinsic becomes loads and a dozen shuffles.
    // SAFETY: the caller gives sixteen numbers.
    unsafe {
        asm!(
            "ld4 {{v16.4s, v17.4s, v18.4s, v19.4s}}, [{0}]",
            in(reg) p,
            out("v16") a,
            out("v17") b,
            out("v18") c,
            out("v19") d,
            options(nostack, readonly, preserves_flags)
        );
    }
    [a, b, c, d]
}

/// The `f32` half of a quad: adds it to those lanes of both rows.
#[inline(always)]
unsafe fn finish<B: Block>(acc: &mut [[f32; 4]; 2], q: &Quad, d: *const f32, sums: *const i16) {
    // SAFETY: the caller's scales and sums are padded to eights.
    unsafe {
        let dx = vld1q_f32(d);
        let half = |h| vcvt_f32_f16(vreinterpret_f16_u16(h));
        for r in 0..2 {
            let d = half(vmovn_u32(q.heads[r]));
            let dot = match B::MIN {
                Min::Offset(3) => vsubq_s32(q.dot[r], vshll_n_s16::<3>(vld1_s16(sums))),
                Min::Offset(_) => vsubq_s32(q.dot[r], vshll_n_s16::<4>(vld1_s16(sums))),
                _ => q.dot[r],
            };
            let mut v = vmulq_f32(vmulq_f32(d, dx), vcvtq_f32_s32(dot));
            let m = |sum| {
                let m = half(vshrn_n_u32::<16>(q.heads[r]));
                vmulq_f32(vmulq_f32(m, dx), vcvtq_f32_s32(sum))
            };
            match B::MIN {
                Min::None | Min::Offset(_) => {}
                Min::Groups => v = vsubq_f32(v, m(q.min[r])),
                Min::Block => v = vaddq_f32(v, m(vmovl_s16(vld1_s16(sums)))),
            }
            let at = acc[r].as_mut_ptr();
            vst1q_f32(at, vaddq_f32(vld1q_f32(at), v));
        }
    }
}

/// Two rows at `w` with the token that the cursor points at.
#[inline(always)]
unsafe fn two_rows<M: Mac<Acc = int32x4_t, F = (float32x4_t, float32x4_t)>, B: Block>(
    unpack: &Unpack,
    wait: &mut Waiting,
    at: Cursor,
    blocks: usize,
) -> [f32; 2] {
    let (mut at, mut left, mut half) = (at, blocks, 0);
    wait.acc = [[[0.0; 4]; 2]; 2];
    // SAFETY: there are as many blocks; scales and sums are padded to eights.
    unsafe {
        while left > 0 {
            let n = left.min(4);
            if n < 4 {
                // What is left of another quad counts for nothing.
                wait.heads = [[0; 4]; 2];
            }
            let (d, sums) = (at.d, at.sums);
            let q = quad::<M, B>(unpack, wait, &mut at, n);
            finish::<B>(&mut wait.acc[half], &q, d, sums);
            half ^= 1;
            at.d = d.wrapping_add(4);
            left -= n;
        }
        [0, 1].map(|r| {
            let (low, high) = (wait.acc[0][r].as_ptr(), wait.acc[1][r].as_ptr());
            M::f_sum((vld1q_f32(low), vld1q_f32(high)))
        })
    }
}

/// Rows `rows` of the product `p` for token `t`.
///
/// # Safety
/// As for `generic::matmul::matmul`.
#[inline(always)]
pub(super) unsafe fn one_token<M: Mac<Acc = int32x4_t, F = (float32x4_t, float32x4_t)>, B: Block>(
    p: &Product,
    rows: Range<usize>,
    t: usize,
) {
    let blocks = p.cols / const { B::FORMAT.block_len() };
    // The same place in the next two rows, so that each line is asked for once;
    // not so far that it would be gone again.
    let ahead = if 2 * p.row_bytes <= FARTHEST { 2 * p.row_bytes } else { AHEAD };
    // SAFETY: rows and token are within what the caller promised.
    unsafe {
        let unpack = Unpack::new();
        let mut wait = Waiting { sums: [[0; 4]; 4], heads: [[0; 4]; 2], acc: [[[0.0; 4]; 2]; 2] };
        let x = p.x.q.add(t * p.x.strides[0]);
        let d = p.x.d.add(t * p.x.strides[1]);
        let sums = p.x.sums.add(t * p.x.strides[2]);
        let out = p.out.add(t * p.stride);
        let mut w = p.w.add(rows.start * p.row_bytes);
        let mut row = rows.start;
        while row < rows.end {
            // A last row without a partner is its own.
            let second = if row + 1 < rows.end { w.add(p.row_bytes) } else { w };
            let y =
                two_rows::<M, B>(&unpack, &mut wait, Cursor { w: [w, second], x, sums, d, ahead }, blocks);
            out.add(row).write(y[0]);
            if row + 1 < rows.end {
                out.add(row + 1).write(y[1]);
            }
            w = w.wrapping_add(2 * p.row_bytes);
            row += 2;
        }
    }
}
