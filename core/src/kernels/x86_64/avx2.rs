//! [`Lanes`] over AVX2 and F16C.
// SAFETY of all blocks here: the caller has AVX2 and F16C and gives
// pointers valid for what the method names (see `lanes`).
#![allow(
    clippy::undocumented_unsafe_blocks,
    reason = "each block is a few intrinsics under the trait's contract"
)]

use core::arch::x86_64::*;

use super::pair::{TO_I16, load, pair_shared, spread as spread_i16, two_shared};
use super::panel::{four, panel_shared, spread_byte, two};
use super::shared::{avx2_shared, pairs_i, pairs_u, spread};
use crate::kernels::lanes::{Lanes, PairLanes, PanelLanes, TwoLanes};

/// AVX2 and F16C.
#[derive(Clone, Copy)]
pub(in crate::kernels) struct Avx2;

#[inline(always)]
unsafe fn add_scaled(acc: __m256i, pairs: __m256i, scale: __m256i) -> __m256i {
    unsafe { _mm256_add_epi32(acc, _mm256_madd_epi16(pairs, scale)) }
}

impl Lanes for Avx2 {
    avx2_shared!();

    #[inline(always)]
    unsafe fn dot_u(acc: __m256i, w: __m256i, x: __m256i) -> __m256i {
        unsafe { add_scaled(acc, pairs_u(w, x), _mm256_set1_epi16(1)) }
    }
    #[inline(always)]
    unsafe fn dot_i(acc: __m256i, w: __m256i, x: __m256i) -> __m256i {
        unsafe { add_scaled(acc, pairs_i(w, x), _mm256_set1_epi16(1)) }
    }
    #[inline(always)]
    unsafe fn mad_u<const J: usize>(acc: __m256i, w: __m256i, x: __m256i, s: __m256i) -> __m256i {
        unsafe { add_scaled(acc, pairs_u(w, x), spread::<J>(s)) }
    }
    #[inline(always)]
    unsafe fn mad_i<const J: usize>(acc: __m256i, w: __m256i, x: __m256i, s: __m256i) -> __m256i {
        unsafe { add_scaled(acc, pairs_i(w, x), spread::<J>(s)) }
    }
}

impl PanelLanes for Avx2 {
    panel_shared!();
    /// An `i16` twice a row.
    type S = __m256i;
    const TILE: usize = 2;

    #[inline(always)]
    unsafe fn s_u<const I: i32>(t: __m256i) -> __m256i {
        unsafe { spread_byte::<I, 0, 2>(t) }
    }
    #[inline(always)]
    unsafe fn s_i<const I: i32>(t: __m256i) -> __m256i {
        unsafe { _mm256_srai_epi16::<8>(spread_byte::<I, 1, 3>(t)) }
    }
    #[inline(always)]
    unsafe fn dot16<const P: usize, const T: usize>(
        bits: u32,
        sum: [[__m256i; T]; P],
        w: [[__m256i; 4]; P],
        x: [*const i8; T],
        s: [__m256i; P],
    ) -> [[__m256i; T]; P] {
        // 8·31·127 and 4·63·127 fit an i16.
        let run = match bits {
            4 | 5 => 4,
            6 => 2,
            _ => 1,
        };
        let mut sum = sum;
        let mut k = 0;
        while k < 4 {
            unsafe {
                let mut pairs = [[_mm256_setzero_si256(); T]; P];
                for j in k..k + run {
                    for t in 0..T {
                        let x = four(x[t].add(4 * j));
                        for i in 0..P {
                            let p = if bits == 8 { pairs_i(w[i][j], x) } else { pairs_u(w[i][j], x) };
                            pairs[i][t] = if j == k { p } else { _mm256_add_epi16(pairs[i][t], p) };
                        }
                    }
                }
                for t in 0..T {
                    for i in 0..P {
                        sum[i][t] = add_scaled(sum[i][t], pairs[i][t], s[i]);
                    }
                }
            }
            k += run;
        }
        sum
    }
    #[inline(always)]
    unsafe fn plain16<const P: usize, const T: usize>(
        bits: u32,
        sum: [[__m256i; T]; P],
        w: [[__m256i; 4]; P],
        x: [*const i8; T],
    ) -> [[__m256i; T]; P] {
        unsafe { Self::dot16(bits, sum, w, x, [_mm256_set1_epi16(1); P]) }
    }
}

impl TwoLanes for Avx2 {
    two_shared!();
}

impl PairLanes for Avx2 {
    pair_shared!();

    #[inline(always)]
    unsafe fn pair_scale(_bits: u32, v: __m256i, i: usize) -> __m256i {
        unsafe { spread_i16(&TO_I16, v, i) }
    }
    #[inline(always)]
    unsafe fn pair16(bits: u32, acc: __m256i, w: __m256i, x: *const i8, s: __m256i) -> __m256i {
        unsafe {
            let pairs = if bits == 8 { pairs_i(w, load(x)) } else { pairs_u(w, load(x)) };
            add_scaled(acc, pairs, s)
        }
    }
    #[inline(always)]
    unsafe fn pair32(bits: u32, acc: __m256i, w: [__m256i; 2], x: *const i8, s: __m256i) -> __m256i {
        unsafe {
            if bits == 8 {
                let acc = Self::pair16(bits, acc, w[0], x, s);
                return Self::pair16(bits, acc, w[1], x.add(32), s);
            }
            // 4·63·127 fits an i16.
            let pairs = _mm256_add_epi16(pairs_u(w[0], load(x)), pairs_u(w[1], load(x.add(32))));
            add_scaled(acc, pairs, s)
        }
    }
    #[inline(always)]
    unsafe fn pair_plain(bits: u32, acc: __m256i, w: [__m256i; 2], x: *const i8) -> __m256i {
        unsafe { Self::pair32(bits, acc, w, x, _mm256_set1_epi16(1)) }
    }
}

crate::kernels::stamp!(Avx2, crate::kernels::Isa::Avx2, pair, #[target_feature(enable = "avx2,f16c")]);
