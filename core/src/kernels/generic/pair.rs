//! Weights times the activations of a few tokens, two blocks at once: a block in
//! each half of a vector.
//!
//! ```text
//! for each row
//!     for each group of 8 blocks
//!         integer sums of each pair of blocks    exact, any order
//!         lane b of acc += d·dx · sum            f32, block b of the group
//!     out = sum of the 8 lanes
//! ```
//!
//! Sixteen bytes of each block make a vector, so that one multiplication serves
//! the scales of both; activations lie in the same way
//! ([`Lanes::PAIRED`](crate::kernels::lanes::Lanes::PAIRED)). A row is one
//! stream through memory, asked for well ahead: nearer than a page or two it only
//! gets in the way of what the hardware does by itself.

use core::ops::Range;

use super::decode::{Sink, Source};
use super::matmul::{Min, Product};
use super::scales::{Scaled, Two};
use crate::kernels::lanes::{PairLanes, PanelLanes};

/// How far ahead of its use a row is asked for, in bytes.
const AHEAD: usize = 4096;

/// Computes rows `rows` of the product `p` for all tokens, by panels of rows
/// unless they are few; returns how many those are.
///
/// # Safety
/// The CPU has `L`'s features, and `p` describes valid memory for `rows`.
#[inline(always)]
pub(in crate::kernels) unsafe fn several<L: PairLanes + PanelLanes, F: Scaled>(
    p: &Product,
    rows: Range<usize>,
) -> usize {
    // SAFETY: the caller's promise.
    unsafe {
        match p.x.tokens {
            2 => row_by_row::<L, F, 2>(p, rows),
            3 => row_by_row::<L, F, 3>(p, rows),
            _ => super::panel::matmul::<L, F>(p, rows),
        }
    }
    p.x.tokens
}

/// The same for the only token.
///
/// # Safety
/// As for [`several`].
#[inline(always)]
pub(in crate::kernels) unsafe fn one<L: PairLanes, F: Scaled>(p: &Product, rows: Range<usize>, _t: usize) {
    // SAFETY: the caller's promise.
    unsafe { row_by_row::<L, F, 1>(p, rows) }
}

/// The same for `T` tokens, by pairs of blocks.
///
/// # Safety
/// As for [`several`]; there are `T` tokens.
#[inline(always)]
unsafe fn row_by_row<L: PairLanes, F: Scaled, const T: usize>(p: &Product, rows: Range<usize>) {
    for row in rows {
        // SAFETY: the row is within what the caller promised.
        unsafe {
            let y = one_row::<L, F, T>(p, p.w.add(row * p.row_bytes));
            for (t, y) in y.into_iter().enumerate() {
                p.out.add(t * p.stride + row).write(y);
            }
        }
    }
}

/// Two blocks.
struct Blocks(*const u8, *const u8);

impl<L: PairLanes> Source<L, 1> for Blocks {
    #[inline(always)]
    unsafe fn bytes(&self, at: usize) -> [L::B; 1] {
        // SAFETY: the blocks hold these bytes.
        unsafe { [L::two(self.0.add(at), self.1.add(at))] }
    }
    #[inline(always)]
    unsafe fn wide(&self, at: usize) -> [[L::B; 1]; 2] {
        // SAFETY: as above.
        let (a, b) = unsafe { L::two_wide(self.0.add(at), self.1.add(at)) };
        [[a], [b]]
    }
    #[inline(always)]
    unsafe fn bits(&self, at: usize) -> ([L::B; 1], [L::B; 1]) {
        // SAFETY: as above.
        let (a, b) = unsafe { L::two_bits(self.0.add(at), self.1.add(at)) };
        ([a], [b])
    }
}

/// Meets the blocks' activations.
struct Dot<'a, L: PairLanes, const T: usize> {
    sum: [L::Acc; T],
    x: [*const i8; T],
    scales: &'a Two<L>,
    bits: u32,
    per: usize,
}

impl<L: PairLanes, const T: usize> Sink<L, 1> for Dot<'_, L, T> {
    #[inline(always)]
    unsafe fn sixteen(&mut self, h: usize, w: [L::B; 1]) {
        // SAFETY: `x` points at the blocks' activations.
        unsafe {
            let s = L::pair_scale(self.bits, self.scales.s[h % 2], h / 2);
            for t in 0..T {
                self.sum[t] = L::pair16(self.bits, self.sum[t], w[0], self.x[t].add(32 * h), s);
            }
        }
    }
    #[inline(always)]
    unsafe fn both(&mut self, g: usize, w: [[L::B; 1]; 2]) {
        let w = [w[0][0], w[1][0]];
        for t in 0..T {
            let (sum, x) = (self.sum[t], self.x[t].wrapping_add(64 * g));
            // SAFETY: as above.
            self.sum[t] = unsafe {
                if self.per == 0 {
                    L::pair_plain(self.bits, sum, w, x)
                } else {
                    L::pair32(self.bits, sum, w, x, L::pair_scale(self.bits, self.scales.s[0], g))
                }
            };
        }
    }
}

/// The row of weights at `w` with all tokens, which are `T`.
#[inline(always)]
unsafe fn one_row<L: PairLanes, F: Scaled, const T: usize>(p: &Product, w: *const u8) -> [f32; T] {
    let (len, bytes) = const { (F::FORMAT.block_len(), F::FORMAT.block_bytes()) };
    let blocks = p.cols / len;
    // SAFETY: the row has `blocks` blocks; scales of activations are padded to
    // eights.
    unsafe {
        let mut acc = [L::f_splat(0.0); T];
        let mut at = 0;
        while at + 8 <= blocks {
            acc = group::<L, F, T>(p, acc, w.add(at * bytes), at, 8);
            at += 8;
        }
        if at < blocks {
            acc = group::<L, F, T>(p, acc, w.add(at * bytes), at, blocks - at);
        }
        let mut y = [0.0; T];
        for t in 0..T {
            y[t] = L::f_sum(acc[t]);
        }
        y
    }
}

/// Adds blocks `at..at + n` of a row, which begin at `w`, to `acc`.
#[inline(always)]
unsafe fn group<L: PairLanes, F: Scaled, const T: usize>(
    p: &Product,
    acc: [L::F; T],
    w: *const u8,
    at: usize,
    n: usize,
) -> [L::F; T] {
    let bytes = const { F::FORMAT.block_bytes() };
    // SAFETY: the blocks exist, in the weights and in the activations.
    unsafe {
        let mut dots = [[L::zero(); 4]; T];
        let mut mins = [[L::zero(); 4]; T];
        let large = const { F::FORMAT.block_bytes() >= 64 };
        if !large {
            prefetch::<L>(w.wrapping_add(AHEAD), 8 * bytes);
        }
        for i in 0..n.div_ceil(2) {
            if large {
                prefetch::<L>(w.wrapping_add(AHEAD + 2 * i * bytes), 2 * bytes);
            }
            let w = w.add(2 * i * bytes);
            let (dot, min) = two_blocks::<L, F, T>(p, w, at + 2 * i, 2 * i + 1 < n);
            for t in 0..T {
                dots[t][i] = dot[t];
                mins[t][i] = min[t];
            }
        }
        let two = matches!(F::MIN, Min::Groups | Min::Block);
        let (d, m) = super::matmul::scales::<L>(w.add(F::D), bytes, n, two);
        let mut acc = acc;
        for t in 0..T {
            let dx = L::f_load(p.x.d.add(t * p.x.strides[1] + at));
            let sums = p.x.sums.add(t * p.x.strides[2] + at);
            let sum = L::pair_reduce(dots[t]);
            let sum = match F::MIN {
                Min::Offset(3) => L::i_less::<3>(sum, sums),
                Min::Offset(_) => L::i_less::<4>(sum, sums),
                _ => sum,
            };
            let v = L::f_mul(L::f_mul(d, dx), L::f_from_i(sum));
            let v = match F::MIN {
                Min::None | Min::Offset(_) => v,
                Min::Groups => L::f_sub(v, L::f_mul(L::f_mul(m, dx), L::f_from_i(L::pair_reduce(mins[t])))),
                Min::Block => L::f_add(v, L::f_mul(L::f_mul(m, dx), L::f_from_i16(sums))),
            };
            acc[t] = L::f_add(acc[t], v);
        }
        acc
    }
}

/// Asks for the lines of `n` bytes at `p`, which need not exist.
#[inline(always)]
unsafe fn prefetch<L: PairLanes>(p: *const u8, n: usize) {
    for line in 0..n.div_ceil(64) {
        // SAFETY: any address will do.
        unsafe { L::prefetch(p.wrapping_add(64 * line)) }
    }
}

/// The scaled dots of the block at `w`, number `at`, and of the next with each
/// token, and the scaled sums for [`Min::Groups`]. A last odd block is its own
/// partner, whose sum meets a scale of zero.
#[inline(always)]
unsafe fn two_blocks<L: PairLanes, F: Scaled, const T: usize>(
    p: &Product,
    w: *const u8,
    at: usize,
    next: bool,
) -> ([L::Acc; T], [L::Acc; T]) {
    let (len, bytes) = const { (F::FORMAT.block_len(), F::FORMAT.block_bytes()) };
    // SAFETY: whole blocks, by the caller's promise; activations and their sums
    // have room for whole pairs.
    unsafe {
        let w = Blocks(w, if next { w.add(bytes) } else { w });
        let scales = F::two::<L>(w.0, w.1);
        let mut x = [p.x.q.add(at * len); T];
        for t in 1..T {
            x[t] = x[t].add(t * p.x.strides[0]);
        }
        let mut dot = Dot::<L, T> { sum: [L::zero(); T], x, scales: &scales, bits: F::BITS, per: F::PER };
        F::decode::<L, 1>(&w, &mut dot);
        let (mut sum, mut min) = (dot.sum, [L::zero(); T]);
        for t in 0..T {
            let sums = p.x.sums.wrapping_add(t * p.x.strides[2] + at * 16);
            let sums = [sums, sums.wrapping_add(16)];
            sum[t] = match F::OFFSET {
                Some(2) => L::less::<2>(sum[t], L::pair_sums16(scales.m, sums)),
                Some(_) => L::less::<5>(sum[t], L::pair_sums16(scales.m, sums)),
                None => sum[t],
            };
            min[t] = match (&F::MIN, F::PER) {
                (Min::Groups, 1) => L::pair_sums16(scales.m, sums),
                (Min::Groups, _) => L::pair_sums8(scales.m[0], sums),
                _ => L::zero(),
            };
        }
        (sum, min)
    }
}
