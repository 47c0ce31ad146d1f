//! Weights times activations: one driver for every format.
//!
//! ```text
//! for each row of weights
//!     for each tile of up to 4 tokens            weights decoded once per tile
//!         for each group of 8 blocks
//!             integer sums of each block         exact, any order
//!             lane b of acc += d·dx · sum        f32, block b of the group
//!         out = sum of the 8 lanes
//! ```
//!
//! A lane belongs to a block, not to elements of a block: the integers of eight
//! blocks are folded into one vector by a tree of horizontal adds, which costs
//! about one instruction a block, and every instruction set then does the same
//! eight `f32` additions. A row is one stream through memory, prefetched.

use core::ops::Range;

use crate::kernels::lanes::Lanes;
use crate::quant::Format;

/// Tokens that share one decoding of the weights.
const TILE: usize = 4;

/// Rows that stay in the nearest cache while one token after another meets them.
const NEAR: usize = 16;

/// How far ahead of its use a row is asked for, in bytes.
pub(in crate::kernels) const AHEAD: usize = 2048;

/// What a format adds to d·q. A second half-precision number `m` follows the
/// scale where there is one.
pub(in crate::kernels) enum Min {
    /// Nothing.
    None,
    /// weight = d·(q − 2ⁿ), taken off the sum of a block.
    Offset(u32),
    /// weight = d·q − m·min, with a minimum per group; sums come from `dot`.
    Groups,
    /// weight = d·q + m.
    Block,
}

/// A quantised format: its place for scales and its integer dot.
pub(in crate::kernels) trait Block {
    /// Which format.
    const FORMAT: Format;
    /// Byte of the half-precision scale, which `m` follows.
    const D: usize;
    /// The minimum.
    const MIN: Min;

    /// Integer sums of one block at `w` with each token's block: first the
    /// scaled dots, then the scaled sums for [`Min::Groups`] (else unused).
    ///
    /// # Safety
    /// `w`, `x` and `sums` point at whole blocks; see [`Lanes`].
    unsafe fn dot<L: Lanes, const T: usize>(
        w: *const u8,
        x: [*const i8; T],
        sums: [*const i16; T],
    ) -> ([L::Acc; T], [L::Acc; T]);
}

/// Activations of several tokens, as pointers.
#[derive(Clone, Copy)]
pub(in crate::kernels) struct Operand {
    pub(in crate::kernels) f: *const f32,
    pub(in crate::kernels) q: *const i8,
    pub(in crate::kernels) d: *const f32,
    pub(in crate::kernels) sums: *const i16,
    /// Elements from one token to the next in `f` and `q`, in `d`, in `sums`.
    pub(in crate::kernels) strides: [usize; 3],
    pub(in crate::kernels) tokens: usize,
}

/// One product: rows of weights with every token, `out[t·stride + row]`.
#[derive(Clone, Copy)]
pub(in crate::kernels) struct Product {
    pub(in crate::kernels) w: *const u8,
    pub(in crate::kernels) row_bytes: usize,
    pub(in crate::kernels) cols: usize,
    pub(in crate::kernels) x: Operand,
    pub(in crate::kernels) out: *mut f32,
    pub(in crate::kernels) stride: usize,
}

// SAFETY: only pointers and sizes; `Kernels::matmul` gives disjoint rows of
// `out` to different threads and shares the rest read-only.
unsafe impl Sync for Product {}

/// Dots one row of weights with `T` tokens: what a format supplies.
pub(in crate::kernels) trait RowDot {
    /// # Safety
    /// As for [`matmul`]; `first + T` is at most the number of tokens.
    unsafe fn row<L: Lanes, const T: usize>(w: *const u8, cols: usize, x: &Operand, first: usize)
    -> [f32; T];
}

/// Computes rows `rows` of the product `p`, whatever dots the format of `R`.
///
/// # Safety
/// The CPU has `L`'s features, and `p` describes valid memory for `rows`.
#[inline(always)]
pub(in crate::kernels) unsafe fn by_rows<L: Lanes, R: RowDot>(p: &Product, rows: Range<usize>) {
    for row in rows {
        // SAFETY: `row` and the tokens are within what the caller promised.
        unsafe {
            let w = p.w.add(row * p.row_bytes);
            let mut t = 0;
            while t + TILE <= p.x.tokens {
                put(p, row, t, R::row::<L, TILE>(w, p.cols, &p.x, t));
                t += TILE;
            }
            while t < p.x.tokens {
                put(p, row, t, R::row::<L, 1>(w, p.cols, &p.x, t));
                t += 1;
            }
        }
    }
}

#[inline(always)]
unsafe fn put<const T: usize>(p: &Product, row: usize, first: usize, y: [f32; T]) {
    for (t, y) in y.into_iter().enumerate() {
        // SAFETY: the row and token are within `out`, by `matmul`'s contract.
        unsafe { p.out.add((first + t) * p.stride + row).write(y) }
    }
}

/// Computes rows `rows` of the product `p` for whole tiles of tokens, for weights
/// in the format `B`; returns how many tokens those are.
///
/// # Safety
/// As for [`by_rows`].
#[inline(always)]
pub(in crate::kernels) unsafe fn several<L: Lanes, B: Block>(p: &Product, rows: Range<usize>) -> usize {
    if L::TOKEN_BY_TOKEN {
        let mut row = rows.start;
        while row < rows.end {
            let near = row..(row + NEAR).min(rows.end);
            for t in 0..p.x.tokens {
                // SAFETY: the caller's promise, for fewer rows.
                unsafe { L::one_token::<B>(p, near.clone(), t) };
            }
            row = near.end;
        }
        return p.x.tokens;
    }
    let tokens = p.x.tokens - p.x.tokens % TILE;
    let whole = Product { x: Operand { tokens, ..p.x }, ..*p };
    // SAFETY: the caller's promise, for fewer tokens.
    unsafe { by_rows::<L, B>(&whole, rows) };
    tokens
}

/// The same for token `t` alone.
///
/// # Safety
/// As for [`by_rows`]; the token is one of `p`'s.
#[inline(always)]
pub(in crate::kernels) unsafe fn one<L: Lanes, B: Block>(p: &Product, rows: Range<usize>, t: usize) {
    // SAFETY: the caller's promise.
    unsafe { L::one_token::<B>(p, rows, t) }
}

/// Rows `rows` of `p` with token `t` alone, one after another.
///
/// # Safety
/// As for [`by_rows`]; the token is one of `p`'s.
#[inline(always)]
pub(in crate::kernels) unsafe fn one_by_one<L: Lanes, B: Block>(p: &Product, rows: Range<usize>, t: usize) {
    for row in rows {
        // SAFETY: the caller's promise.
        unsafe { put(p, row, t, B::row::<L, 1>(p.w.add(row * p.row_bytes), p.cols, &p.x, t)) }
    }
}

impl<B: Block> RowDot for B {
    #[inline(always)]
    unsafe fn row<L: Lanes, const T: usize>(
        w: *const u8,
        cols: usize,
        x: &Operand,
        first: usize,
    ) -> [f32; T] {
        let blocks = cols / const { B::FORMAT.block_len() };
        // SAFETY: `b` stays below the row's blocks; scales are padded to eights.
        unsafe {
            let mut acc = [L::f_splat(0.0); T];
            let mut b = 0;
            while b + 8 <= blocks {
                acc = group::<L, B, T>(acc, w, b, 8, x, first);
                b += 8;
            }
            if b < blocks {
                acc = group::<L, B, T>(acc, w, b, blocks - b, x, first);
            }
            let mut y = [0.0; T];
            for t in 0..T {
                y[t] = L::f_sum(acc[t]);
            }
            y
        }
    }
}

/// Adds blocks `b..b + n` of the row at `w` to `acc`; `n` is at most 8.
#[inline(always)]
unsafe fn group<L: Lanes, B: Block, const T: usize>(
    acc: [L::F; T],
    w: *const u8,
    b: usize,
    n: usize,
    x: &Operand,
    first: usize,
) -> [L::F; T] {
    let (len, bytes) = const { (B::FORMAT.block_len(), B::FORMAT.block_bytes()) };
    let sums_per_block = if len == 256 { 16 } else { 1 };
    let mut acc = acc;
    // SAFETY: blocks `b..b + n` exist, by the caller's promise. Prefetching
    // past the end is harmless.
    unsafe {
        let w = w.add(b * bytes);
        if T == 1 {
            for line in 0..(8 * bytes).div_ceil(64) {
                L::prefetch(w.wrapping_add(AHEAD + 64 * line));
            }
        }
        let mut dots = [[L::zero(); 8]; T];
        let mut mins = [[L::zero(); 8]; T];
        for i in 0..n {
            let mut q = [core::ptr::null(); T];
            let mut sums = [core::ptr::null(); T];
            for t in 0..T {
                q[t] = x.q.add((first + t) * x.strides[0] + (b + i) * len);
                sums[t] = x.sums.add((first + t) * x.strides[2] + (b + i) * sums_per_block);
            }
            let (dot, min) = B::dot::<L, T>(w.add(i * bytes), q, sums);
            for t in 0..T {
                dots[t][i] = dot[t];
                mins[t][i] = min[t];
            }
        }
        let (d, m) = scales::<L>(w.add(B::D), bytes, n, matches!(B::MIN, Min::Groups | Min::Block));
        for t in 0..T {
            let dx = L::f_load(x.d.add((first + t) * x.strides[1] + b));
            let sums = x.sums.add((first + t) * x.strides[2] + b);
            let sum = L::reduce8(dots[t]);
            let sum = match B::MIN {
                Min::Offset(3) => L::i_less::<3>(sum, sums),
                Min::Offset(_) => L::i_less::<4>(sum, sums),
                _ => sum,
            };
            let mut v = L::f_mul(L::f_mul(d, dx), L::f_from_i(sum));
            match B::MIN {
                Min::None | Min::Offset(_) => {}
                Min::Groups => {
                    let sum = L::f_from_i(L::reduce8(mins[t]));
                    v = L::f_sub(v, L::f_mul(L::f_mul(m, dx), sum));
                }
                Min::Block => {
                    v = L::f_add(v, L::f_mul(L::f_mul(m, dx), L::f_from_i16(sums)));
                }
            }
            acc[t] = L::f_add(acc[t], v);
        }
    }
    acc
}

/// The scales of `n` blocks from `p` on, and their `m` where `two`; zero beyond.
#[inline(always)]
pub(super) unsafe fn scales<L: Lanes>(p: *const u8, stride: usize, n: usize, two: bool) -> (L::F, L::F) {
    // SAFETY: the caller has `n` blocks from here; `h` holds eights.
    unsafe {
        if n == 8 {
            if two {
                return L::f_two_halves(p, stride);
            }
            let d = L::f_halves(p, stride);
            return (d, d);
        }
        let mut h = [[0u16; 8]; 2];
        for i in 0..n {
            h[0][i] = p.add(i * stride).cast::<u16>().read_unaligned();
            if two {
                h[1][i] = p.add(i * stride + 2).cast::<u16>().read_unaligned();
            }
        }
        (L::f_from_f16(h[0].as_ptr()), L::f_from_f16(h[1].as_ptr()))
    }
}
