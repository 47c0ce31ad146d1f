//! Activations to 8 bits, once per matrix product.
//!
//! A block of 32 or 256 gets d = max|x|/127 and q = round(x·(127/max|x|)), half
//! to even; `d` stays `f32`. Blocks whose largest magnitude is below 1e-20
//! become zero, so that no product of scales is ever denormal: a half-precision
//! weight scale is at least 2⁻²⁴.

use super::steps::max_abs;
use crate::kernels::lanes::Lanes;

/// Below this a block counts as zero.
const TINY: f32 = 1e-20;

/// Quantises `x`, whole blocks of `BLOCK`: `q` at least as long as `x`, one `d`
/// per block (the rest of `d` is zeroed), one of `sums` per `SUM` elements (the
/// rest zeroed; within a block those of even groups come first).
///
/// Where [`Lanes::PAIRED`], two blocks lie in `q` by sixteens in turn, and `q`
/// has room for whole pairs.
///
/// # Safety
/// See [`Lanes`]. Slices have the lengths named.
#[inline(always)]
pub(in crate::kernels) unsafe fn quantize<L: Lanes, const BLOCK: usize, const SUM: usize>(
    x: &[f32],
    q: &mut [i8],
    d: &mut [f32],
    sums: &mut [i16],
) {
    let blocks = x.len() / BLOCK;
    d[blocks..].fill(0.0);
    sums[x.len() / SUM..].fill(0);
    for b in 0..blocks {
        let x = &x[b * BLOCK..][..BLOCK];
        let mut apart = [0i8; BLOCK];
        let block = if L::PAIRED { &mut apart[..] } else { &mut q[b * BLOCK..][..BLOCK] };
        // SAFETY: the caller has the CPU features.
        d[b] = unsafe { one_block::<L>(x, block) };
        for (g, q) in block.chunks_exact(SUM).enumerate() {
            // Of 16 groups the even come first, then the odd.
            let at = if BLOCK == SUM { b } else { b * (BLOCK / SUM) + g / 2 + g % 2 * (BLOCK / SUM / 2) };
            // SAFETY: as above; `q` is one or two sixteens.
            sums[at] = unsafe { q.chunks_exact(16).map(|q| L::sum16(q.as_ptr())).sum() };
        }
        if L::PAIRED {
            for (h, sixteen) in apart.chunks_exact(16).enumerate() {
                q[b / 2 * 2 * BLOCK + 32 * h + b % 2 * 16..][..16].copy_from_slice(sixteen);
            }
        }
    }
}

#[inline(always)]
unsafe fn one_block<L: Lanes>(x: &[f32], q: &mut [i8]) -> f32 {
    // SAFETY: `x` and `q` have the same length, a multiple of 8.
    unsafe {
        let largest = max_abs::<L>(x);
        if largest.is_nan() || largest < TINY {
            q.fill(0);
            // A NaN goes on as the scale, so that nothing hides it.
            return if largest.is_nan() { largest } else { 0.0 };
        }
        // Products are at most 127 and two roundings, so none rounds past it.
        let to = L::f_splat(127.0 / largest);
        let mut i = 0;
        while i < x.len() {
            L::f_to_i8(q.as_mut_ptr().add(i), L::f_mul(L::f_load(x.as_ptr().add(i)), to));
            i += 8;
        }
        largest / 127.0
    }
}
