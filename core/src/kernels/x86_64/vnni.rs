//! [`Lanes`] over AVX-512 VNNI on 256-bit registers: products and sums in one
//! instruction. Wider registers would not read memory faster, and lower the
//! clock on some processors.
// One contract for every method: the caller has the features and gives pointers
// valid for what the method names (see `lanes`).
#![allow(
    clippy::undocumented_unsafe_blocks,
    reason = "each block is a few intrinsics under the trait's contract"
)]

use core::arch::x86_64::*;

use super::shared::{avx2_shared, pairs_i, pairs_u, spread};
use crate::kernels::lanes::Lanes;

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

crate::kernels::stamp!(
    Vnni,
    crate::kernels::Isa::Avx512,
    #[target_feature(enable = "avx2,f16c,avx512f,avx512bw,avx512vl,avx512vnni")]
);
