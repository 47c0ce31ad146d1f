//! Attention of one query head over a paged cache, softmax on the way.
//!
//! Each page of up to [`PAGE`] tokens yields a partial result on its own:
//!
//! ```text
//! m = max score, l = Σ 2^(score − m), o = Σ 2^(score − m)·v
//! ```
//!
//! and partials are merged in the order of pages, rescaled to the larger
//! maximum. So a page's partial can be computed anywhere, and the result does
//! not depend on who computed it or how many queries were in the batch.
//!
//! The query is multiplied by log₂e/√d and rounded to half precision, the
//! precision of the keys it meets: so scores are exponents of two as they come,
//! and a kernel may multiply halves directly where the CPU can.

use super::exp::exp2;
use super::steps::{max_lane, to_f16};
use crate::kernels::lanes::Lanes;

/// Tokens per page of the cache.
pub const PAGE: usize = 64;

/// Largest head dimension.
pub const MAX_HEAD_DIM: usize = 512;

/// One query head and the keys and values it sees.
///
/// Row `t` of page `p` starts at `k + p·page_stride + t·row`, where `row` is
/// the head dimension rounded up to 8 and the padding is zero; the same for
/// `v`.
#[derive(Clone, Copy)]
pub(in crate::kernels) struct Head {
    /// `head_dim` numbers.
    pub(in crate::kernels) q: *const f32,
    pub(in crate::kernels) k: *const u16,
    pub(in crate::kernels) v: *const u16,
    /// Elements from one page to the next.
    pub(in crate::kernels) page_stride: usize,
    pub(in crate::kernels) head_dim: usize,
    /// Tokens seen; at least 1.
    pub(in crate::kernels) tokens: usize,
    /// `head_dim` numbers.
    pub(in crate::kernels) out: *mut f32,
}

/// Softmax state between pages.
struct Running {
    max: f32,
    sum: f32,
    out: [f32; MAX_HEAD_DIM],
}

/// out = softmax(q·K / sqrt(head_dim)) · V.
///
/// # Safety
/// See [`Lanes`]; `h` describes valid memory and `head_dim` is at most
/// [`MAX_HEAD_DIM`].
#[inline(always)]
pub(in crate::kernels) unsafe fn attend<L: Lanes>(h: &Head) {
    let row = h.head_dim.next_multiple_of(8);
    let mut q = [0.0f32; MAX_HEAD_DIM];
    let mut state = Running { max: f32::NEG_INFINITY, sum: 0.0, out: [0.0; MAX_HEAD_DIM] };
    // SAFETY: the caller's promise; pages hold `PAGE` rows, the last fewer.
    unsafe {
        core::ptr::copy_nonoverlapping(h.q, q.as_mut_ptr(), h.head_dim);
        round_query::<L>(&mut q, row, core::f32::consts::LOG2_E / crate::math::sqrt(h.head_dim as f32));
        let (mut page, mut left) = (0, h.tokens);
        while left > 0 {
            let n = left.min(PAGE);
            let k = h.k.add(page * h.page_stride);
            let v = h.v.add(page * h.page_stride);
            one_page::<L>(&mut state, &q, k, v, row, n);
            page += 1;
            left -= n;
        }
        let inverse = L::f_splat(1.0 / state.sum);
        let mut i = 0;
        while i < row {
            let p = state.out.as_mut_ptr().add(i);
            L::f_store(p, L::f_mul(L::f_load(p), inverse));
            i += 8;
        }
        core::ptr::copy_nonoverlapping(state.out.as_ptr(), h.out, h.head_dim);
    }
}

/// q = half(q · scale), over `row` numbers.
#[inline(always)]
unsafe fn round_query<L: Lanes>(q: &mut [f32; MAX_HEAD_DIM], row: usize, scale: f32) {
    let mut half = [0u16; MAX_HEAD_DIM];
    // SAFETY: `row` is a multiple of 8 and at most MAX_HEAD_DIM.
    unsafe {
        let scale = L::f_splat(scale);
        let mut i = 0;
        while i < row {
            let p = q.as_mut_ptr().add(i);
            L::f_store(p, L::f_mul(L::f_load(p), scale));
            i += 8;
        }
        to_f16::<L>(q.as_ptr(), half.as_mut_ptr(), row);
        let mut i = 0;
        while i < row {
            L::f_store(q.as_mut_ptr().add(i), L::f_from_f16(half.as_ptr().add(i)));
            i += 8;
        }
    }
}

/// Adds one page of `n` tokens.
#[inline(always)]
unsafe fn one_page<L: Lanes>(
    state: &mut Running,
    q: &[f32; MAX_HEAD_DIM],
    k: *const u16,
    v: *const u16,
    row: usize,
    n: usize,
) {
    let mut weights = [f32::NEG_INFINITY; PAGE];
    // SAFETY: `n` rows of `row` numbers at `k` and `v`; `row` is a multiple of
    // 8 and at most MAX_HEAD_DIM.
    unsafe {
        scores::<L>(&mut weights, q, k, row, n);
        let (page_max, page_sum) = softmax::<L>(&mut weights, n);
        let max = if page_max > state.max { page_max } else { state.max };
        let changes = [state.max - max, page_max - max, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0];
        let mut factors = [0.0f32; 8];
        L::f_store(factors.as_mut_ptr(), exp2::<L>(L::f_load(changes.as_ptr())));
        state.max = max;
        state.sum = state.sum * factors[0] + page_sum * factors[1];
        add_values::<L>(&mut state.out, &weights, v, row, n, factors);
    }
}

/// Dots of `q` with `n` keys, four at a time; eight lanes over the dimension.
#[inline(always)]
unsafe fn scores<L: Lanes>(
    out: &mut [f32; PAGE],
    q: &[f32; MAX_HEAD_DIM],
    k: *const u16,
    row: usize,
    n: usize,
) {
    let mut t = 0;
    // SAFETY: see `one_page`.
    unsafe {
        while t + 4 <= n {
            let mut acc = [L::f_splat(0.0); 4];
            let mut i = 0;
            while i < row {
                let q = L::f_load(q.as_ptr().add(i));
                for (j, acc) in acc.iter_mut().enumerate() {
                    *acc = L::f_add(*acc, L::f_mul(q, L::f_from_f16(k.add((t + j) * row + i))));
                }
                i += 8;
            }
            for (j, acc) in acc.into_iter().enumerate() {
                out[t + j] = L::f_sum(acc);
            }
            t += 4;
        }
        while t < n {
            let mut acc = L::f_splat(0.0);
            let mut i = 0;
            while i < row {
                let q = L::f_load(q.as_ptr().add(i));
                acc = L::f_add(acc, L::f_mul(q, L::f_from_f16(k.add(t * row + i))));
                i += 8;
            }
            out[t] = L::f_sum(acc);
            t += 1;
        }
    }
}

/// Turns `n` scores into 2^(score − max); gives max and sum.
/// Entries past `n` are −∞ and become 0.
#[inline(always)]
unsafe fn softmax<L: Lanes>(scores: &mut [f32; PAGE], n: usize) -> (f32, f32) {
    let p = scores.as_mut_ptr();
    // SAFETY: whole eights below PAGE.
    unsafe {
        let mut max = L::f_splat(f32::NEG_INFINITY);
        let mut i = 0;
        while i < n {
            max = L::f_max(L::f_load(p.add(i)), max);
            i += 8;
        }
        let max = max_lane::<L>(max);
        let (top, mut sum) = (L::f_splat(max), L::f_splat(0.0));
        let mut i = 0;
        while i < n {
            let e = exp2::<L>(L::f_sub(L::f_load(p.add(i)), top));
            L::f_store(p.add(i), e);
            sum = L::f_add(sum, e);
            i += 8;
        }
        (max, L::f_sum(sum))
    }
}

/// out = out·factors[0] + (Σ weight·v)·factors[1], 32 dimensions at a time.
#[inline(always)]
unsafe fn add_values<L: Lanes>(
    out: &mut [f32; MAX_HEAD_DIM],
    weights: &[f32; PAGE],
    v: *const u16,
    row: usize,
    n: usize,
    factors: [f32; 8],
) {
    // SAFETY: see `one_page`.
    unsafe {
        let (old, new) = (L::f_splat(factors[0]), L::f_splat(factors[1]));
        let mut i = 0;
        while i < row {
            let wide = (row - i).min(32) / 8;
            let mut acc = [L::f_splat(0.0); 4];
            if wide == 4 {
                for (t, &w) in weights[..n].iter().enumerate() {
                    let w = L::f_splat(w);
                    for (j, acc) in acc.iter_mut().enumerate() {
                        *acc = L::f_add(*acc, L::f_mul(w, L::f_from_f16(v.add(t * row + i + 8 * j))));
                    }
                }
            } else {
                for (t, &w) in weights[..n].iter().enumerate() {
                    let w = L::f_splat(w);
                    for (j, acc) in acc[..wide].iter_mut().enumerate() {
                        *acc = L::f_add(*acc, L::f_mul(w, L::f_from_f16(v.add(t * row + i + 8 * j))));
                    }
                }
            }
            for (j, acc) in acc[..wide].iter().enumerate() {
                let p = out.as_mut_ptr().add(i + 8 * j);
                L::f_store(p, L::f_add(L::f_mul(L::f_load(p), old), L::f_mul(*acc, new)));
            }
            i += 32;
        }
    }
}
