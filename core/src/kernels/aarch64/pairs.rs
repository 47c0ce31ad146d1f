//! Two rows of weights at once with one token: what decoding spends its time on.
//!
//! Both rows meet each load of activations. Four blocks of each make a quad:
//! their integer sums are folded by pairwise additions as they come and stored,
//! and one load that takes every fourth number apart then gives vectors with a
//! lane per block, as the law of lanes wants (see `generic::matmul`).

use core::arch::aarch64::*;
use core::arch::asm;
use core::ops::Range;

use super::blocks::{Cursor, Mac, Unpack, block};
use crate::kernels::asm::ask_ahead;
use crate::kernels::generic::matmul::{AHEAD, Block, Min, Product};

/// How far ahead of its use a block is asked for at most, in bytes.
const FARTHEST: usize = 16 << 10;

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

/// Computes the next `n` blocks of both rows, at most four.
#[inline(always)]
unsafe fn quad<M: Mac, B: Block>(unpack: &Unpack, wait: &mut Waiting, at: &mut Cursor, n: usize) -> Quad {
    // SAFETY: the caller has `n` blocks. Prefetching past the end is harmless.
    unsafe {
        let (mut sums, mut i) = (wait.sums.as_mut_ptr().cast::<i32>(), 0);
        while i < n {
            for w in at.w {
                ask_ahead!("prfm pldl1keep, [{0}, #{n}]", B, w.wrapping_add(at.ahead), 0);
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
unsafe fn two_rows<M: Mac, B: Block>(
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
pub(super) unsafe fn one_token<M: Mac, B: Block>(p: &Product, rows: Range<usize>, t: usize) {
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
