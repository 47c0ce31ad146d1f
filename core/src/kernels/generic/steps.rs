//! The small `f32` steps between matrix products.

use super::exp::exp;
use super::float::sum_squares;
use crate::kernels::lanes::Lanes;

/// Runs `$body` over eights of `$n` elements. A last short piece goes through
/// padded copies, so each element sees the same operations wherever it lies.
macro_rules! by_eights {
    ($n:expr, $out:expr, [$($v:ident = $src:expr),*], $body:expr) => {{
        let (n, out) = ($n, $out);
        let mut i = 0;
        while i + 8 <= n {
            $(let $v = L::f_load($src.add(i));)*
            L::f_store(out.add(i), $body);
            i += 8;
        }
        if i < n {
            $(let $v = {
                let mut tail = [0.0f32; 8];
                core::ptr::copy_nonoverlapping($src.add(i).cast::<u8>(), tail.as_mut_ptr().cast(), 4 * (n - i));
                L::f_load(tail.as_ptr())
            };)*
            let mut tail = [0.0f32; 8];
            L::f_store(tail.as_mut_ptr(), $body);
            core::ptr::copy_nonoverlapping(tail.as_ptr(), out.add(i), n - i);
        }
    }};
}

/// out = x / sqrt(mean(x²) + eps) · w, over `n` numbers; `out` may be `x`.
/// `w` is little-endian `f32`, at any alignment.
///
/// # Safety
/// See [`Lanes`]; pointers are valid for `n` numbers.
#[inline(always)]
pub(in crate::kernels) unsafe fn rms_norm<L: Lanes>(
    x: *const f32,
    w: *const f32,
    eps: f32,
    out: *mut f32,
    n: usize,
) {
    // SAFETY: the caller's promise.
    unsafe {
        let mean = sum_squares::<L>(x, n) / n as f32;
        let scale = L::f_splat(1.0 / crate::math::sqrt(mean + eps));
        by_eights!(n, out, [a = x, b = w], L::f_mul(L::f_mul(a, scale), b));
    }
}

/// x += y, over `n` numbers; `y` at any alignment.
///
/// # Safety
/// As [`rms_norm`].
#[inline(always)]
pub(in crate::kernels) unsafe fn add<L: Lanes>(x: *mut f32, y: *const f32, n: usize) {
    // SAFETY: the caller's promise.
    unsafe { by_eights!(n, x, [a = x, b = y], L::f_add(a, b)) }
}

/// gate = silu(gate) · up, with silu(x) = x / (1 + e⁻ˣ), over `n` numbers.
///
/// # Safety
/// As [`rms_norm`].
#[inline(always)]
pub(in crate::kernels) unsafe fn silu_mul<L: Lanes>(gate: *mut f32, up: *const f32, n: usize) {
    // SAFETY: the caller's promise.
    unsafe {
        let (zero, one) = (L::f_splat(0.0), L::f_splat(1.0));
        by_eights!(n, gate, [g = gate, u = up], {
            let silu = L::f_div(g, L::f_add(one, exp::<L>(L::f_sub(zero, g))));
            L::f_mul(silu, u)
        });
    }
}

/// Half precision for the KV cache; what would overflow becomes the largest
/// half, but what is infinite or no number already becomes a NaN.
///
/// # Safety
/// As [`rms_norm`].
#[inline(always)]
pub(in crate::kernels) unsafe fn to_f16<L: Lanes>(x: *const f32, out: *mut u16, n: usize) {
    const LARGEST: f32 = 65504.0;
    // SAFETY: the caller's promise; the last piece goes through copies.
    unsafe {
        let (low, high) = (L::f_splat(-LARGEST), L::f_splat(LARGEST));
        let mut i = 0;
        while i < n {
            let len = (n - i).min(8);
            let (mut from, mut to) = ([0.0f32; 8], [0u16; 8]);
            core::ptr::copy_nonoverlapping(x.add(i), from.as_mut_ptr(), len);
            let x = L::f_load(from.as_ptr());
            let x = L::f_add(x, L::f_mul(x, L::f_splat(0.0)));
            L::f_to_f16(to.as_mut_ptr(), L::f_min(high, L::f_max(low, x)));
            core::ptr::copy_nonoverlapping(to.as_ptr(), out.add(i), len);
            i += 8;
        }
    }
}

/// The largest magnitude in `x`, whose length is a multiple of 8; a NaN where
/// any is infinite or no number.
///
/// # Safety
/// See [`Lanes`].
#[inline(always)]
pub(super) unsafe fn max_abs<L: Lanes>(x: &[f32]) -> f32 {
    // SAFETY: reads whole eights of `x`.
    unsafe {
        let (zero, mut largest, mut odd) = (L::f_splat(0.0), L::f_splat(0.0), L::f_splat(0.0));
        let mut i = 0;
        while i < x.len() {
            let x = L::f_load(x.as_ptr().add(i));
            largest = L::f_max(L::f_abs(x), largest);
            // Stays zero but for an infinity or a NaN.
            odd = L::f_add(odd, L::f_mul(x, zero));
            i += 8;
        }
        if L::f_sum(odd) == 0.0 { max_lane::<L>(largest) } else { f32::NAN }
    }
}

/// The largest lane.
///
/// # Safety
/// See [`Lanes`].
#[inline(always)]
pub(super) unsafe fn max_lane<L: Lanes>(a: L::F) -> f32 {
    let mut lanes = [0.0f32; 8];
    // SAFETY: `lanes` holds eight.
    unsafe { L::f_store(lanes.as_mut_ptr(), a) };
    lanes.into_iter().fold(lanes[0], |m, x| if x > m { x } else { m })
}
