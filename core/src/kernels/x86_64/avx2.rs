//! [`Lanes`] over AVX2 and F16C.
// One contract for every method: the caller has AVX2 and F16C and gives
// pointers valid for what the method names (see `lanes`).
#![allow(
    clippy::undocumented_unsafe_blocks,
    reason = "each block is one intrinsic under the trait's contract"
)]

use core::arch::x86_64::*;

use crate::kernels::lanes::Lanes;

/// AVX2 and F16C.
#[derive(Clone, Copy)]
pub(in crate::kernels) struct Avx2;

/// Pairwise products of unsigned `w` and signed `x`, summed by twos. Exact: the
/// largest sum is 2·128·127, below `i16`'s limit.
#[inline(always)]
unsafe fn pairs_u(w: __m256i, x: __m256i) -> __m256i {
    unsafe { _mm256_maddubs_epi16(w, x) }
}

/// The same for signed `w`, whose sign moves over to `x`. `x` is never -128,
/// so its negation is exact; `|-128|` is 128 as an unsigned byte.
#[inline(always)]
unsafe fn pairs_i(w: __m256i, x: __m256i) -> __m256i {
    unsafe { _mm256_maddubs_epi16(_mm256_sign_epi8(w, w), _mm256_sign_epi8(x, w)) }
}

#[inline(always)]
unsafe fn add_scaled(acc: __m256i, pairs: __m256i, scale: __m256i) -> __m256i {
    unsafe { _mm256_add_epi32(acc, _mm256_madd_epi16(pairs, scale)) }
}

#[inline(always)]
unsafe fn two_scales(s: [i16; 2]) -> __m256i {
    unsafe { _mm256_set_m128i(_mm_set1_epi16(s[1]), _mm_set1_epi16(s[0])) }
}

impl Lanes for Avx2 {
    type B = __m256i;
    type Acc = __m256i;
    type I = __m256i;
    type F = __m256;

    #[inline(always)]
    unsafe fn load(p: *const u8) -> __m256i {
        unsafe { _mm256_loadu_si256(p.cast()) }
    }
    #[inline(always)]
    unsafe fn splat(v: u8) -> __m256i {
        unsafe { _mm256_set1_epi8(v as i8) }
    }
    #[inline(always)]
    unsafe fn and(a: __m256i, b: __m256i) -> __m256i {
        unsafe { _mm256_and_si256(a, b) }
    }
    #[inline(always)]
    unsafe fn or(a: __m256i, b: __m256i) -> __m256i {
        unsafe { _mm256_or_si256(a, b) }
    }
    #[inline(always)]
    unsafe fn sub(a: __m256i, b: __m256i) -> __m256i {
        unsafe { _mm256_sub_epi8(a, b) }
    }
    #[inline(always)]
    unsafe fn shr<const N: i32>(a: __m256i) -> __m256i {
        unsafe { _mm256_and_si256(_mm256_srli_epi16::<N>(a), _mm256_set1_epi8((0xff_u8 >> N) as i8)) }
    }
    #[inline(always)]
    unsafe fn shl<const N: i32>(a: __m256i) -> __m256i {
        unsafe { _mm256_and_si256(_mm256_slli_epi16::<N>(a), _mm256_set1_epi8((0xff_u8 << N) as i8)) }
    }
    #[inline(always)]
    unsafe fn nibbles(p: *const u8) -> __m256i {
        unsafe {
            let b = _mm_loadu_si128(p.cast());
            let both = _mm256_set_m128i(_mm_srli_epi16::<4>(b), b);
            _mm256_and_si256(both, _mm256_set1_epi8(15))
        }
    }
    #[inline(always)]
    unsafe fn lookup(table: &[i8; 16], i: __m256i) -> __m256i {
        unsafe {
            let t = _mm256_broadcastsi128_si256(_mm_loadu_si128(table.as_ptr().cast()));
            _mm256_shuffle_epi8(t, i)
        }
    }
    #[inline(always)]
    unsafe fn bits16(p: *const u8) -> __m256i {
        unsafe {
            // Byte i gets the byte that holds bit i, then keeps only that bit.
            let all = _mm256_set1_epi32(p.cast::<i32>().read_unaligned());
            let spread =
                _mm256_setr_epi64x(0, 0x0101_0101_0101_0101, 0x0202_0202_0202_0202, 0x0303_0303_0303_0303);
            let bit = _mm256_set1_epi64x(0x8040_2010_0804_0201_u64 as i64);
            let one = _mm256_and_si256(_mm256_shuffle_epi8(all, spread), bit);
            _mm256_and_si256(_mm256_cmpeq_epi8(one, bit), _mm256_set1_epi8(16))
        }
    }

    #[inline(always)]
    unsafe fn zero() -> __m256i {
        unsafe { _mm256_setzero_si256() }
    }
    #[inline(always)]
    unsafe fn dot_u(acc: __m256i, w: __m256i, x: __m256i) -> __m256i {
        unsafe { add_scaled(acc, pairs_u(w, x), _mm256_set1_epi16(1)) }
    }
    #[inline(always)]
    unsafe fn dot_i(acc: __m256i, w: __m256i, x: __m256i) -> __m256i {
        unsafe { add_scaled(acc, pairs_i(w, x), _mm256_set1_epi16(1)) }
    }
    #[inline(always)]
    unsafe fn mad_u(acc: __m256i, w: __m256i, x: __m256i, s: i16) -> __m256i {
        unsafe { add_scaled(acc, pairs_u(w, x), _mm256_set1_epi16(s)) }
    }
    #[inline(always)]
    unsafe fn mad_i(acc: __m256i, w: __m256i, x: __m256i, s: i16) -> __m256i {
        unsafe { add_scaled(acc, pairs_i(w, x), _mm256_set1_epi16(s)) }
    }
    #[inline(always)]
    unsafe fn mad2_u(acc: __m256i, w: __m256i, x: __m256i, s: [i16; 2]) -> __m256i {
        unsafe { add_scaled(acc, pairs_u(w, x), two_scales(s)) }
    }
    #[inline(always)]
    unsafe fn mad2_i(acc: __m256i, w: __m256i, x: __m256i, s: [i16; 2]) -> __m256i {
        unsafe { add_scaled(acc, pairs_i(w, x), two_scales(s)) }
    }
    #[inline(always)]
    unsafe fn dot_i16(a: &[i16; 16], b: *const i16) -> __m256i {
        unsafe { _mm256_madd_epi16(_mm256_loadu_si256(a.as_ptr().cast()), _mm256_loadu_si256(b.cast())) }
    }
    #[inline(always)]
    unsafe fn reduce8(p: [__m256i; 8]) -> __m256i {
        unsafe {
            // Each horizontal add halves the lanes of two vectors, within
            // 128-bit halves; the last step adds the halves.
            let a = _mm256_hadd_epi32(_mm256_hadd_epi32(p[0], p[1]), _mm256_hadd_epi32(p[2], p[3]));
            let b = _mm256_hadd_epi32(_mm256_hadd_epi32(p[4], p[5]), _mm256_hadd_epi32(p[6], p[7]));
            _mm256_add_epi32(_mm256_permute2x128_si256::<0x20>(a, b), _mm256_permute2x128_si256::<0x31>(a, b))
        }
    }

    #[inline(always)]
    unsafe fn f_splat(x: f32) -> __m256 {
        unsafe { _mm256_set1_ps(x) }
    }
    #[inline(always)]
    unsafe fn f_load(p: *const f32) -> __m256 {
        unsafe { _mm256_loadu_ps(p) }
    }
    #[inline(always)]
    unsafe fn f_store(p: *mut f32, a: __m256) {
        unsafe { _mm256_storeu_ps(p, a) }
    }
    #[inline(always)]
    unsafe fn f_add(a: __m256, b: __m256) -> __m256 {
        unsafe { _mm256_add_ps(a, b) }
    }
    #[inline(always)]
    unsafe fn f_sub(a: __m256, b: __m256) -> __m256 {
        unsafe { _mm256_sub_ps(a, b) }
    }
    #[inline(always)]
    unsafe fn f_mul(a: __m256, b: __m256) -> __m256 {
        unsafe { _mm256_mul_ps(a, b) }
    }
    #[inline(always)]
    unsafe fn f_div(a: __m256, b: __m256) -> __m256 {
        unsafe { _mm256_div_ps(a, b) }
    }
    #[inline(always)]
    unsafe fn f_max(a: __m256, b: __m256) -> __m256 {
        unsafe { _mm256_max_ps(a, b) }
    }
    #[inline(always)]
    unsafe fn f_min(a: __m256, b: __m256) -> __m256 {
        unsafe { _mm256_min_ps(a, b) }
    }
    #[inline(always)]
    unsafe fn f_abs(a: __m256) -> __m256 {
        unsafe { _mm256_andnot_ps(_mm256_set1_ps(-0.0), a) }
    }
    #[inline(always)]
    unsafe fn f_keep_ge(x: __m256, limit: __m256, v: __m256) -> __m256 {
        unsafe { _mm256_and_ps(_mm256_cmp_ps::<_CMP_GE_OQ>(x, limit), v) }
    }
    #[inline(always)]
    unsafe fn f_pow2(a: __m256) -> __m256 {
        unsafe {
            let n = _mm256_slli_epi32::<23>(_mm256_castps_si256(a));
            _mm256_castsi256_ps(_mm256_add_epi32(n, _mm256_set1_epi32(0x3f80_0000)))
        }
    }
    #[inline(always)]
    unsafe fn f_sum(a: __m256) -> f32 {
        unsafe {
            let four = _mm_add_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps::<1>(a));
            let two = _mm_add_ps(four, _mm_movehl_ps(four, four));
            _mm_cvtss_f32(_mm_add_ss(two, _mm_movehdup_ps(two)))
        }
    }
    #[inline(always)]
    unsafe fn f_from_i(a: __m256i) -> __m256 {
        unsafe { _mm256_cvtepi32_ps(a) }
    }
    #[inline(always)]
    unsafe fn f_from_i16(p: *const i16) -> __m256 {
        unsafe { _mm256_cvtepi32_ps(_mm256_cvtepi16_epi32(_mm_loadu_si128(p.cast()))) }
    }
    #[inline(always)]
    unsafe fn f_from_f16(p: *const u16) -> __m256 {
        unsafe { _mm256_cvtph_ps(_mm_loadu_si128(p.cast())) }
    }
    #[inline(always)]
    unsafe fn f_from_bf16(p: *const u16) -> __m256 {
        unsafe {
            let wide = _mm256_cvtepu16_epi32(_mm_loadu_si128(p.cast()));
            _mm256_castsi256_ps(_mm256_slli_epi32::<16>(wide))
        }
    }
    #[inline(always)]
    unsafe fn f_to_f16(p: *mut u16, a: __m256) {
        unsafe { _mm_storeu_si128(p.cast(), _mm256_cvtps_ph::<_MM_FROUND_TO_NEAREST_INT>(a)) }
    }
    #[inline(always)]
    unsafe fn f_to_i8(p: *mut i8, a: __m256) {
        unsafe {
            let i = _mm256_cvtps_epi32(a);
            let h = _mm_packs_epi32(_mm256_castsi256_si128(i), _mm256_extracti128_si256::<1>(i));
            _mm_storel_epi64(p.cast(), _mm_packs_epi16(h, h));
        }
    }
    #[inline(always)]
    unsafe fn prefetch(p: *const u8) {
        unsafe { _mm_prefetch::<_MM_HINT_T0>(p.cast()) }
    }
}

crate::kernels::stamp!(Avx2, crate::kernels::Isa::Avx2, #[target_feature(enable = "avx2,f16c")]);
