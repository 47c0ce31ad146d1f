//! [`Lanes`] over AVX-512 VNNI on 256-bit registers: products and sums in one
//! instruction. Wider registers would not read memory faster, and lower the
//! clock on some processors.
// SAFETY of all blocks here: the caller has the features and gives pointers
// valid for what the method names (see `lanes`).
#![allow(
    clippy::undocumented_unsafe_blocks,
    reason = "each block is a few intrinsics under the trait's contract"
)]

use core::arch::x86_64::*;

use super::pair::{TO_I16, TO_I32, load, pair_shared, spread as spread_i16, two_shared};
use super::panel::{four, panel_shared, spread_byte, two};
use super::shared::{avx2_shared, pairs_i, pairs_u, spread};
use crate::kernels::lanes::{Lanes, PairLanes, PanelLanes, TwoLanes};

/// AVX-512 VNNI and VL, over AVX2 and F16C.
#[derive(Clone, Copy)]
pub(in crate::kernels) struct Vnni;

impl Lanes for Vnni {
    avx2_shared!();

    #[inline(always)]
    unsafe fn dot_u(acc: __m256i, w: __m256i, x: __m256i) -> __m256i {
        unsafe { _mm256_dpbusd_epi32(acc, w, x) }
    }
    #[inline(always)]
    unsafe fn dot_i(acc: __m256i, w: __m256i, x: __m256i) -> __m256i {
        unsafe { _mm256_dpbusd_epi32(acc, _mm256_sign_epi8(w, w), _mm256_sign_epi8(x, w)) }
    }
    #[inline(always)]
    unsafe fn mad_u<const J: usize>(acc: __m256i, w: __m256i, x: __m256i, s: __m256i) -> __m256i {
        unsafe { _mm256_dpwssd_epi32(acc, pairs_u(w, x), spread::<J>(s)) }
    }
    #[inline(always)]
    unsafe fn mad_i<const J: usize>(acc: __m256i, w: __m256i, x: __m256i, s: __m256i) -> __m256i {
        unsafe { _mm256_dpwssd_epi32(acc, pairs_i(w, x), spread::<J>(s)) }
    }
}

impl PanelLanes for Vnni {
    panel_shared!();
    /// An `i32` a row.
    type S = __m256i;
    const TILE: usize = 4;

    #[inline(always)]
    unsafe fn s_u<const I: i32>(t: __m256i) -> __m256i {
        unsafe { spread_byte::<I, 0, 4>(t) }
    }
    #[inline(always)]
    unsafe fn s_i<const I: i32>(t: __m256i) -> __m256i {
        unsafe { _mm256_srai_epi32::<24>(spread_byte::<I, 3, 4>(t)) }
    }
    #[inline(always)]
    unsafe fn dot16<const P: usize, const T: usize>(
        bits: u32,
        sum: [[__m256i; T]; P],
        w: [[__m256i; 4]; P],
        x: [*const i8; T],
        s: [__m256i; P],
    ) -> [[__m256i; T]; P] {
        unsafe {
            let part = Self::plain16(bits, [[_mm256_setzero_si256(); T]; P], w, x);
            let mut sum = sum;
            for t in 0..T {
                for i in 0..P {
                    sum[i][t] = if bits == 4 {
                        // 16·15·127 fits an i16, and the scale has zeros above.
                        _mm256_dpwssd_epi32(sum[i][t], part[i][t], s[i])
                    } else {
                        _mm256_add_epi32(sum[i][t], _mm256_mullo_epi32(part[i][t], s[i]))
                    };
                }
            }
            sum
        }
    }
    #[inline(always)]
    unsafe fn plain16<const P: usize, const T: usize>(
        bits: u32,
        sum: [[__m256i; T]; P],
        w: [[__m256i; 4]; P],
        x: [*const i8; T],
    ) -> [[__m256i; T]; P] {
        let mut sum = sum;
        for j in 0..4 {
            for t in 0..T {
                unsafe {
                    let x = four(x[t].add(4 * j));
                    for i in 0..P {
                        sum[i][t] = dot(bits, sum[i][t], w[i][j], x);
                    }
                }
            }
        }
        sum
    }
}

/// `sum` and the products of bytes by fours.
#[inline(always)]
unsafe fn dot(bits: u32, sum: __m256i, w: __m256i, x: __m256i) -> __m256i {
    unsafe { if bits == 8 { Vnni::dot_i(sum, w, x) } else { Vnni::dot_u(sum, w, x) } }
}

impl TwoLanes for Vnni {
    two_shared!();
}

impl PairLanes for Vnni {
    pair_shared!();

    #[inline(always)]
    unsafe fn pair_scale(bits: u32, v: __m256i, i: usize) -> __m256i {
        unsafe { spread_i16(if bits == 8 { &TO_I16 } else { &TO_I32 }, v, i) }
    }
    #[inline(always)]
    unsafe fn pair16(bits: u32, acc: __m256i, w: __m256i, x: *const i8, s: __m256i) -> __m256i {
        unsafe {
            if bits == 8 {
                return _mm256_dpwssd_epi32(acc, pairs_i(w, load(x)), s);
            }
            // 4·63·127 fits an i16, and the scale has zeros above.
            _mm256_dpwssd_epi32(acc, _mm256_dpbusd_epi32(_mm256_setzero_si256(), w, load(x)), s)
        }
    }
    #[inline(always)]
    unsafe fn pair32(bits: u32, acc: __m256i, w: [__m256i; 2], x: *const i8, s: __m256i) -> __m256i {
        unsafe {
            if bits == 8 {
                let acc = Self::pair16(bits, acc, w[0], x, s);
                return Self::pair16(bits, acc, w[1], x.add(32), s);
            }
            // 8·31·127 fits an i16.
            let sum = Self::pair_plain(bits, _mm256_setzero_si256(), w, x);
            _mm256_dpwssd_epi32(acc, sum, s)
        }
    }
    #[inline(always)]
    unsafe fn pair_plain(bits: u32, acc: __m256i, w: [__m256i; 2], x: *const i8) -> __m256i {
        unsafe { dot(bits, dot(bits, acc, w[0], load(x)), w[1], load(x.add(32))) }
    }
}

crate::kernels::stamp!(
    Vnni,
    crate::kernels::Isa::Avx512, pair,
    #[target_feature(enable = "avx2,f16c,avx512f,avx512bw,avx512vl,avx512vnni")]
);
