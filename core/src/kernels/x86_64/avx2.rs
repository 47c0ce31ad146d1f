//! [`Lanes`] over AVX2 and F16C.
// One contract for every method: the caller has AVX2 and F16C and gives
// pointers valid for what the method names (see `lanes`).
#![allow(
    clippy::undocumented_unsafe_blocks,
    reason = "each block is a few intrinsics under the trait's contract"
)]

use core::arch::x86_64::*;

use super::shared::{avx2_shared, pairs_i, pairs_u, spread};
use crate::kernels::lanes::Lanes;

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

crate::kernels::stamp!(Avx2, crate::kernels::Isa::Avx2, #[target_feature(enable = "avx2,f16c")]);
