//! Attention of query heads over the keys and values that they share, in a paged
//! cache, softmax on the way.
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
//!
//! Two heads at once share each conversion of a key or value from half precision,
//! which costs as much as the arithmetic that follows it.

use super::exp::exp2;
use super::steps::{max_lane, to_f16};
use crate::kernels::lanes::Lanes;

/// Tokens per page of the cache.
pub const PAGE: usize = 64;

/// Largest head dimension.
pub const MAX_HEAD_DIM: usize = 512;

/// Query heads and the keys and values that all of them see.
///
/// Row `t` of page `p` starts at `k + p·page_stride + t·row`, where `row` is
/// the head dimension rounded up to 8 and the padding is zero; the same for
/// `v`.
#[derive(Clone, Copy)]
pub(in crate::kernels) struct Heads {
    /// `head_dim` numbers of each head, one after another.
    pub(in crate::kernels) q: *const f32,
    /// How many heads.
    pub(in crate::kernels) count: usize,
    pub(in crate::kernels) k: *const u16,
    pub(in crate::kernels) v: *const u16,
    /// Elements from one page to the next.
    pub(in crate::kernels) page_stride: usize,
    pub(in crate::kernels) head_dim: usize,
    /// Tokens seen; at least 1.
    pub(in crate::kernels) tokens: usize,
    /// As `q`.
    pub(in crate::kernels) out: *mut f32,
}

/// Heads that go over a page together. Their state lies on the stack: 4 KB each.
const TOGETHER: usize = 4;

/// A query, padded with zeros.
type Query = [f32; MAX_HEAD_DIM];

/// Softmax state between pages.
struct Running {
    max: f32,
    sum: f32,
    out: [f32; MAX_HEAD_DIM],
}

/// out = softmax(q·K / sqrt(head_dim)) · V for each head.
///
/// # Safety
/// See [`Lanes`]; `h` describes valid memory and `head_dim` is at most
/// [`MAX_HEAD_DIM`].
#[inline(always)]
pub(in crate::kernels) unsafe fn attend<L: Lanes>(h: &Heads) {
    let mut head = 0;
    while head < h.count {
        let n = (h.count - head).min(TOGETHER);
        // SAFETY: the caller's promise.
        unsafe { some::<L>(h, head, n) };
        head += n;
    }
}

/// Heads `first..first + count`, which go over each page while it is near; at
/// most [`TOGETHER`].
#[inline(always)]
unsafe fn some<L: Lanes>(h: &Heads, first: usize, count: usize) {
    let row = h.head_dim.next_multiple_of(8);
    let mut q = [[0.0f32; MAX_HEAD_DIM]; TOGETHER];
    let mut state =
        [const { Running { max: f32::NEG_INFINITY, sum: 0.0, out: [0.0; MAX_HEAD_DIM] } }; TOGETHER];
    // SAFETY: the caller's promise; pages hold `PAGE` rows, the last fewer.
    unsafe {
        let scale = core::f32::consts::LOG2_E / crate::math::sqrt(h.head_dim as f32);
        for i in 0..count {
            let from = h.q.add((first + i) * h.head_dim);
            core::ptr::copy_nonoverlapping(from, q[i].as_mut_ptr(), h.head_dim);
            round_query::<L>(&mut q[i], row, scale);
        }
        let (mut page, mut left) = (0, h.tokens);
        while left > 0 {
            let n = left.min(PAGE);
            let k = h.k.add(page * h.page_stride);
            let v = h.v.add(page * h.page_stride);
            let mut i = 0;
            while L::PAIR_HEADS && i + 2 <= count {
                one_page::<L, 2>(
                    state[i..i + 2].as_mut_ptr().cast(),
                    q[i..i + 2].as_ptr().cast(),
                    k,
                    v,
                    row,
                    n,
                );
                i += 2;
            }
            while i < count {
                one_page::<L, 1>(state[i..].as_mut_ptr().cast(), q[i..].as_ptr().cast(), k, v, row, n);
                i += 1;
            }
            page += 1;
            left -= n;
        }
        for i in 0..count {
            let to = h.out.add((first + i) * h.head_dim);
            finish::<L>(&mut state[i], row, h.head_dim, to);
        }
    }
}

/// Writes a head's result: what was summed, over the sum of weights.
#[inline(always)]
unsafe fn finish<L: Lanes>(state: &mut Running, row: usize, head_dim: usize, to: *mut f32) {
    // SAFETY: `row` is a multiple of 8 and at most MAX_HEAD_DIM.
    unsafe {
        let inverse = L::f_splat(1.0 / state.sum);
        let mut i = 0;
        while i < row {
            let p = state.out.as_mut_ptr().add(i);
            L::f_store(p, L::f_mul(L::f_load(p), inverse));
            i += 8;
        }
        core::ptr::copy_nonoverlapping(state.out.as_ptr(), to, head_dim);
    }
}

/// q = half(q · scale), over `row` numbers.
#[inline(always)]
unsafe fn round_query<L: Lanes>(q: &mut Query, row: usize, scale: f32) {
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
unsafe fn one_page<L: Lanes, const H: usize>(
    state: *mut [Running; H],
    q: *const [Query; H],
    k: *const u16,
    v: *const u16,
    row: usize,
    n: usize,
) {
    // SAFETY: the caller has `H` of both.
    let (state, q) = unsafe { (&mut *state, &*q) };
    let mut weights = [[f32::NEG_INFINITY; PAGE]; H];
    let mut factors = [[0.0f32; 8]; H];
    // SAFETY: `n` rows of `row` numbers at `k` and `v`; `row` is a multiple of
    // 8 and at most MAX_HEAD_DIM.
    unsafe {
        scores::<L, H>(&mut weights, q, k, row, n);
        for i in 0..H {
            let state = &mut state[i];
            let (page_max, page_sum) = softmax::<L>(&mut weights[i], n);
            let max = if page_max > state.max { page_max } else { state.max };
            let changes = [state.max - max, page_max - max, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0];
            L::f_store(factors[i].as_mut_ptr(), exp2::<L>(L::f_load(changes.as_ptr())));
            state.max = max;
            state.sum = state.sum * factors[i][0] + page_sum * factors[i][1];
        }
        add_values::<L, H>(state, &weights, v, row, n, &factors);
    }
}

/// Dots of queries with `n` keys, four at a time; eight lanes over the dimension.
#[inline(always)]
unsafe fn scores<L: Lanes, const H: usize>(
    out: &mut [[f32; PAGE]; H],
    q: &[Query; H],
    k: *const u16,
    row: usize,
    n: usize,
) {
    let mut t = 0;
    // SAFETY: see `one_page`.
    unsafe {
        while t + 4 <= n {
            dots::<L, H, 4>(out, q, k.add(t * row), row, t);
            t += 4;
        }
        while t < n {
            dots::<L, H, 1>(out, q, k.add(t * row), row, t);
            t += 1;
        }
    }
}

/// Dots of queries with `N` keys at `k`, the scores `t..t + N`.
#[inline(always)]
unsafe fn dots<L: Lanes, const H: usize, const N: usize>(
    out: &mut [[f32; PAGE]; H],
    q: &[Query; H],
    k: *const u16,
    row: usize,
    t: usize,
) {
    // SAFETY: see `one_page`.
    unsafe {
        let mut acc = [[L::f_splat(0.0); N]; H];
        let mut i = 0;
        while i < row {
            for j in 0..N {
                let key = L::f_from_f16(k.add(j * row + i));
                for h in 0..H {
                    acc[h][j] = L::f_add(acc[h][j], L::f_mul(L::f_load(q[h].as_ptr().add(i)), key));
                }
            }
            i += 8;
        }
        for h in 0..H {
            if N == 4 {
                let all = [acc[h][0], acc[h][1 % N], acc[h][2 % N], acc[h][3 % N]];
                L::f_sums(all, out[h][t..t + 4].as_mut_ptr());
            } else {
                out[h][t] = L::f_sum(acc[h][0]);
            }
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

/// out = out·factors[0] + (Σ weight·v)·factors[1] for each head, 32 dimensions at
/// a time.
#[inline(always)]
unsafe fn add_values<L: Lanes, const H: usize>(
    state: &mut [Running; H],
    weights: &[[f32; PAGE]; H],
    v: *const u16,
    row: usize,
    n: usize,
    factors: &[[f32; 8]; H],
) {
    // SAFETY: see `one_page`.
    unsafe {
        let mut i = 0;
        while i + 32 <= row {
            add_wide::<L, H, 4>(state, weights, v.add(i), row, n, factors, i);
            i += 32;
        }
        while i < row {
            add_wide::<L, H, 1>(state, weights, v.add(i), row, n, factors, i);
            i += 8;
        }
    }
}

/// The same for the `8·W` dimensions from `at` on.
#[inline(always)]
unsafe fn add_wide<L: Lanes, const H: usize, const W: usize>(
    state: &mut [Running; H],
    weights: &[[f32; PAGE]; H],
    v: *const u16,
    row: usize,
    n: usize,
    factors: &[[f32; 8]; H],
    at: usize,
) {
    // SAFETY: see `one_page`.
    unsafe {
        let mut acc = [[L::f_splat(0.0); W]; H];
        for t in 0..n {
            for j in 0..W {
                let value = L::f_from_f16(v.add(t * row + 8 * j));
                for h in 0..H {
                    let w = L::f_splat(*weights[h].as_ptr().add(t));
                    acc[h][j] = L::f_add(acc[h][j], L::f_mul(w, value));
                }
            }
        }
        for h in 0..H {
            let (old, new) = (L::f_splat(factors[h][0]), L::f_splat(factors[h][1]));
            for j in 0..W {
                let p = state[h].out.as_mut_ptr().add(at + 8 * j);
                L::f_store(p, L::f_add(L::f_mul(L::f_load(p), old), L::f_mul(acc[h][j], new)));
            }
        }
    }
}
