//! Weights times the activations of one token, two blocks at once: a block in
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

/// Computes rows `rows` of the product `p` for all tokens, by panels of rows;
/// returns how many those are.
///
/// # Safety
/// The CPU has `L`'s features, and `p` describes valid memory for `rows`.
#[inline(always)]
pub(in crate::kernels) unsafe fn several<L: PanelLanes, F: Scaled>(p: &Product, rows: Range<usize>) -> usize {
    // SAFETY: the caller's promise.
    unsafe { super::panel::matmul::<L, F>(p, rows) };
    p.x.tokens
}

/// The same for the only token, by pairs of blocks.
///
/// # Safety
/// As for [`several`].
#[inline(always)]
pub(in crate::kernels) unsafe fn one<L: PairLanes, F: Scaled>(p: &Product, rows: Range<usize>, _t: usize) {
    for row in rows {
        // SAFETY: the row is within what the caller promised.
        unsafe {
            let y = one_row::<L, F>(p, p.w.add(row * p.row_bytes));
            p.out.add(row).write(y);
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
struct Dot<'a, L: PairLanes> {
    sum: L::Acc,
    x: *const i8,
    scales: &'a Two<L>,
    bits: u32,
    per: usize,
}

impl<L: PairLanes> Sink<L, 1> for Dot<'_, L> {
    #[inline(always)]
    unsafe fn sixteen(&mut self, h: usize, w: [L::B; 1]) {
        // SAFETY: `x` points at the blocks' activations.
        unsafe {
            let s = L::pair_scale(self.bits, self.scales.s[h % 2], h / 2);
            self.sum = L::pair16(self.bits, self.sum, w[0], self.x.add(32 * h), s);
        }
    }
    #[inline(always)]
    unsafe fn both(&mut self, g: usize, w: [[L::B; 1]; 2]) {
        let (w, x) = ([w[0][0], w[1][0]], self.x.wrapping_add(64 * g));
        // SAFETY: as above.
        unsafe {
            self.sum = if self.per == 0 {
                L::pair_plain(self.bits, self.sum, w, x)
            } else {
                L::pair32(self.bits, self.sum, w, x, L::pair_scale(self.bits, self.scales.s[0], g))
            };
        }
    }
}

/// The row of weights at `w` with the only token.
#[inline(always)]
unsafe fn one_row<L: PairLanes, F: Scaled>(p: &Product, w: *const u8) -> f32 {
    let (len, bytes) = const { (F::FORMAT.block_len(), F::FORMAT.block_bytes()) };
    let blocks = p.cols / len;
    // SAFETY: the row has `blocks` blocks; scales of activations are padded to
    // eights.
    unsafe {
        let mut acc = L::f_splat(0.0);
        let mut at = 0;
        while at + 8 <= blocks {
            acc = group::<L, F>(p, acc, w.add(at * bytes), at, 8);
            at += 8;
        }
        if at < blocks {
            acc = group::<L, F>(p, acc, w.add(at * bytes), at, blocks - at);
        }
        L::f_sum(acc)
    }
}

/// Adds blocks `at..at + n` of a row, which begin at `w`, to `acc`.
#[inline(always)]
unsafe fn group<L: PairLanes, F: Scaled>(p: &Product, acc: L::F, w: *const u8, at: usize, n: usize) -> L::F {
    let bytes = const { F::FORMAT.block_bytes() };
    // SAFETY: the blocks exist, in the weights and in the activations.
    unsafe {
        let mut dots = [L::zero(); 4];
        let mut mins = [L::zero(); 4];
        let large = const { F::FORMAT.block_bytes() >= 64 };
        if !large {
            prefetch::<L>(w.wrapping_add(AHEAD), 8 * bytes);
        }
        for i in 0..n.div_ceil(2) {
            if large {
                prefetch::<L>(w.wrapping_add(AHEAD + 2 * i * bytes), 2 * bytes);
            }
            (dots[i], mins[i]) = two_blocks::<L, F>(p, w.add(2 * i * bytes), at + 2 * i, 2 * i + 1 < n);
        }
        let (dx, sums) = (L::f_load(p.x.d.add(at)), p.x.sums.add(at));
        let two = matches!(F::MIN, Min::Groups | Min::Block);
        let (d, m) = super::matmul::scales::<L>(w.add(F::D), bytes, n, two);
        let sum = L::pair_reduce(dots);
        let sum = match F::MIN {
            Min::Offset(3) => L::i_less::<3>(sum, sums),
            Min::Offset(_) => L::i_less::<4>(sum, sums),
            _ => sum,
        };
        let v = L::f_mul(L::f_mul(d, dx), L::f_from_i(sum));
        let v = match F::MIN {
            Min::None | Min::Offset(_) => v,
            Min::Groups => L::f_sub(v, L::f_mul(L::f_mul(m, dx), L::f_from_i(L::pair_reduce(mins)))),
            Min::Block => L::f_add(v, L::f_mul(L::f_mul(m, dx), L::f_from_i16(sums))),
        };
        L::f_add(acc, v)
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

/// The scaled dots of the block at `w`, number `at`, and of the next, and the
/// scaled sums for [`Min::Groups`]. A last odd block is its own partner, whose
/// sum meets a scale of zero.
#[inline(always)]
unsafe fn two_blocks<L: PairLanes, F: Scaled>(
    p: &Product,
    w: *const u8,
    at: usize,
    next: bool,
) -> (L::Acc, L::Acc) {
    let (len, bytes) = const { (F::FORMAT.block_len(), F::FORMAT.block_bytes()) };
    // SAFETY: whole blocks, by the caller's promise; activations and their sums
    // have room for whole pairs.
    unsafe {
        let w = Blocks(w, if next { w.add(bytes) } else { w });
        let sums = p.x.sums.wrapping_add(at * 16);
        let sums = [sums, sums.wrapping_add(16)];
        let scales = F::two::<L>(w.0, w.1);
        let x = p.x.q.add(at * len);
        let mut dot = Dot::<L> { sum: L::zero(), x, scales: &scales, bits: F::BITS, per: F::PER };
        F::decode::<L, 1>(&w, &mut dot);
        let sum = match F::OFFSET {
            Some(2) => L::less::<2>(dot.sum, L::pair_sums16(scales.m, sums)),
            Some(_) => L::less::<5>(dot.sum, L::pair_sums16(scales.m, sums)),
            None => dot.sum,
        };
        let min = match (&F::MIN, F::PER) {
            (Min::Groups, 1) => L::pair_sums16(scales.m, sums),
            (Min::Groups, _) => L::pair_sums8(scales.m[0], sums),
            _ => L::zero(),
        };
        (sum, min)
    }
}
