//! Our own exponential: the same bits on every instruction set.
//!
//! eˣ = 2ⁿ·eʳ with n = round(x·log₂e) and |r| ≤ ½·ln 2; eʳ by its Taylor
//! polynomial of degree 7 in Horner form (truncation error below 2⁻²⁷). The
//! result is zero below −87 so that no denormal arises, and is held at e⁸⁸
//! above 88. Largest error found over all floats in range: 1.3 units in the
//! last place (see the test).

use crate::kernels::lanes::Lanes;

const LOG2_E: f32 = core::f32::consts::LOG2_E;
/// ln 2 in two parts; the first has nine trailing zero bits, so that its
/// product with n is exact.
const LN2_HIGH: f32 = 355.0 / 512.0;
const LN2_LOW: f32 = -2.121_944_4e-4;
/// Adding 1.5·2²³ rounds to an integer.
const ROUND: f32 = 12_582_912.0;
const LOWEST: f32 = -87.0;
const HIGHEST: f32 = 88.0;

/// eˣ in each lane.
///
/// # Safety
/// See [`Lanes`].
#[inline(always)]
pub(super) unsafe fn exp<L: Lanes>(x: L::F) -> L::F {
    // SAFETY: the caller has the CPU features.
    unsafe {
        let lowest = L::f_splat(LOWEST);
        // In this order of arguments a NaN stays one.
        let held = L::f_min(L::f_splat(HIGHEST), L::f_max(lowest, x));
        let magic = L::f_add(L::f_mul(held, L::f_splat(LOG2_E)), L::f_splat(ROUND));
        let n = L::f_sub(magic, L::f_splat(ROUND));
        let r = L::f_sub(held, L::f_mul(n, L::f_splat(LN2_HIGH)));
        let r = L::f_sub(r, L::f_mul(n, L::f_splat(LN2_LOW)));
        L::f_zero_lt(x, lowest, finish::<L>(r, magic))
    }
}

/// 2ˣ in each lane, for x ≤ 0; zero below −125.
///
/// # Safety
/// See [`Lanes`].
#[inline(always)]
pub(super) unsafe fn exp2<L: Lanes>(x: L::F) -> L::F {
    // SAFETY: the caller has the CPU features.
    unsafe {
        let lowest = L::f_splat(-125.0);
        let held = L::f_max(lowest, x);
        let magic = L::f_add(held, L::f_splat(ROUND));
        let n = L::f_sub(magic, L::f_splat(ROUND));
        let r = L::f_mul(L::f_sub(held, n), L::f_splat(core::f32::consts::LN_2));
        L::f_zero_lt(x, lowest, finish::<L>(r, magic))
    }
}

/// 2ⁿ·eʳ, with n in the low bits of `magic`.
#[inline(always)]
unsafe fn finish<L: Lanes>(r: L::F, magic: L::F) -> L::F {
    const TAYLOR: [f32; 7] = [1.0 / 720.0, 1.0 / 120.0, 1.0 / 24.0, 1.0 / 6.0, 0.5, 1.0, 1.0];
    // SAFETY: the caller has the CPU features.
    unsafe {
        let mut p = L::f_splat(1.0 / 5040.0);
        for c in TAYLOR {
            p = L::f_add(L::f_mul(p, r), L::f_splat(c));
        }
        L::f_mul(p, L::f_pow2(magic))
    }
}
