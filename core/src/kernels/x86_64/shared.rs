//! What the sets of x86-64 have in common: all but the sums of byte products.
//!
//! Scales ([`Lanes::S`](crate::kernels::lanes::Lanes::S)) are 16 `i16`: in the
//! lower half those of even groups, in the upper half those of odd ones, so that
//! one shuffle spreads the two scales of 32 weights over their products.

use core::arch::x86_64::*;

/// Pairwise products of unsigned `w` and signed `x`, summed by twos. Exact: the
/// largest sum is 2·128·127, below `i16`'s limit.
///
/// # Safety
/// The CPU has AVX2.
#[inline(always)]
pub(super) unsafe fn pairs_u(w: __m256i, x: __m256i) -> __m256i {
    // SAFETY: the caller's promise.
    unsafe { _mm256_maddubs_epi16(w, x) }
}

/// The same for signed `w`, whose sign moves over to `x`. `x` is never -128,
/// so its negation is exact; `|-128|` is 128 as an unsigned byte.
///
/// # Safety
/// The CPU has AVX2.
#[inline(always)]
pub(super) unsafe fn pairs_i(w: __m256i, x: __m256i) -> __m256i {
    // SAFETY: the caller's promise.
    unsafe { _mm256_maddubs_epi16(_mm256_sign_epi8(w, w), _mm256_sign_epi8(x, w)) }
}

/// The scales of the `J`th 32 weights, each on the eight pairs of its group.
///
/// # Safety
/// The CPU has AVX2.
#[inline(always)]
pub(super) unsafe fn spread<const J: usize>(s: __m256i) -> __m256i {
    // SAFETY: the caller's promise.
    unsafe { _mm256_shuffle_epi8(s, _mm256_set1_epi16(0x0100 + 0x0202 * J as i16)) }
}

/// Fills in everything but the dots and `mad_u`, `mad_i`.
// SAFETY of all blocks here: see the modules that use this.
macro_rules! avx2_shared {
    () => {
        type B = __m256i;
        type Acc = __m256i;
        type S = __m256i;
        type I = __m256i;
        type F = __m256;

        const PAIRED: bool = true;

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
                let spread = _mm256_setr_epi64x(
                    0,
                    0x0101_0101_0101_0101,
                    0x0202_0202_0202_0202,
                    0x0303_0303_0303_0303,
                );
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
        unsafe fn scales16(p: *const i8) -> __m256i {
            unsafe {
                let order = _mm_setr_epi8(0, 2, 4, 6, 8, 10, 12, 14, 1, 3, 5, 7, 9, 11, 13, 15);
                _mm256_cvtepi8_epi16(_mm_shuffle_epi8(_mm_loadu_si128(p.cast()), order))
            }
        }
        #[inline(always)]
        unsafe fn scales8(p: *const i8) -> __m256i {
            unsafe {
                let s = _mm_loadl_epi64(p.cast());
                _mm256_cvtepi8_epi16(_mm_unpacklo_epi64(s, s))
            }
        }
        #[inline(always)]
        unsafe fn scales_mins(block: *const u8) -> (__m256i, __m256i) {
            unsafe {
                // Words d|dmin, a, b, c: low six (four) bits of a, c, b, c>>4 ...
                let v = _mm_loadu_si128(block.cast());
                let low = _mm_srlv_epi32(_mm_shuffle_epi32::<0b11_10_11_01>(v), _mm_setr_epi32(0, 0, 0, 4));
                let low_mask = _mm_setr_epi32(0x3f3f_3f3f, 0x0f0f_0f0f, 0x3f3f_3f3f, 0x0f0f_0f0f);
                // ... and the top two of a and b for the second and fourth.
                let top = _mm_srli_epi32::<2>(_mm_shuffle_epi32::<0b10_10_01_01>(v));
                let top_mask = _mm_setr_epi32(0, 0x3030_3030, 0, 0x3030_3030);
                let both = _mm_or_si128(_mm_and_si128(low, low_mask), _mm_and_si128(top, top_mask));
                let scales = _mm256_cvtepi8_epi16(_mm_unpacklo_epi64(both, both));
                (scales, _mm256_cvtepi8_epi16(_mm_unpackhi_epi64(both, both)))
            }
        }
        #[inline(always)]
        unsafe fn mad2_u<const J: usize>(acc: __m256i, w: __m256i, x: __m256i, s: __m256i) -> __m256i {
            unsafe { Self::mad_u::<J>(acc, w, x, s) }
        }
        #[inline(always)]
        unsafe fn dot_sums(s: __m256i, sums: *const i16) -> __m256i {
            unsafe { _mm256_madd_epi16(s, _mm256_loadu_si256(sums.cast())) }
        }
        #[inline(always)]
        unsafe fn less<const N: i32>(a: __m256i, b: __m256i) -> __m256i {
            unsafe { _mm256_sub_epi32(a, _mm256_slli_epi32::<N>(b)) }
        }
        #[inline(always)]
        unsafe fn i_less<const N: i32>(a: __m256i, sums: *const i16) -> __m256i {
            unsafe {
                let sums = _mm256_cvtepi16_epi32(_mm_loadu_si128(sums.cast()));
                _mm256_sub_epi32(a, _mm256_slli_epi32::<N>(sums))
            }
        }
        #[inline(always)]
        unsafe fn reduce8(p: [__m256i; 8]) -> __m256i {
            unsafe {
                // Each horizontal add halves the lanes of two vectors, within
                // 128-bit halves; the last step adds the halves.
                let a = _mm256_hadd_epi32(_mm256_hadd_epi32(p[0], p[1]), _mm256_hadd_epi32(p[2], p[3]));
                let b = _mm256_hadd_epi32(_mm256_hadd_epi32(p[4], p[5]), _mm256_hadd_epi32(p[6], p[7]));
                _mm256_add_epi32(
                    _mm256_permute2x128_si256::<0x20>(a, b),
                    _mm256_permute2x128_si256::<0x31>(a, b),
                )
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
        unsafe fn f_zero_lt(x: __m256, limit: __m256, v: __m256) -> __m256 {
            unsafe { _mm256_andnot_ps(_mm256_cmp_ps::<_CMP_LT_OQ>(x, limit), v) }
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
        unsafe fn f_sums(a: [__m256; 4], out: *mut f32) {
            unsafe {
                let [a, b, c, d] = [
                    _mm_add_ps(_mm256_castps256_ps128(a[0]), _mm256_extractf128_ps::<1>(a[0])),
                    _mm_add_ps(_mm256_castps256_ps128(a[1]), _mm256_extractf128_ps::<1>(a[1])),
                    _mm_add_ps(_mm256_castps256_ps128(a[2]), _mm256_extractf128_ps::<1>(a[2])),
                    _mm_add_ps(_mm256_castps256_ps128(a[3]), _mm256_extractf128_ps::<1>(a[3])),
                ];
                let ab = _mm_add_ps(_mm_unpacklo_ps(a, b), _mm_unpackhi_ps(a, b));
                let cd = _mm_add_ps(_mm_unpacklo_ps(c, d), _mm_unpackhi_ps(c, d));
                _mm_storeu_ps(out, _mm_add_ps(_mm_movelh_ps(ab, cd), _mm_movehl_ps(cd, ab)));
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
        unsafe fn f_two_halves(p: *const u8, stride: usize) -> (__m256, __m256) {
            unsafe {
                let word = |i: usize| p.add(i * stride).cast::<i32>().read_unaligned();
                let a = _mm_setr_epi32(word(0), word(1), word(2), word(3));
                let b = _mm_setr_epi32(word(4), word(5), word(6), word(7));
                // Numbers to the first half of each vector, their followers to the
                // second.
                let split = _mm_setr_epi8(0, 1, 4, 5, 8, 9, 12, 13, 2, 3, 6, 7, 10, 11, 14, 15);
                let (a, b) = (_mm_shuffle_epi8(a, split), _mm_shuffle_epi8(b, split));
                (_mm256_cvtph_ps(_mm_unpacklo_epi64(a, b)), _mm256_cvtph_ps(_mm_unpackhi_epi64(a, b)))
            }
        }
        #[inline(always)]
        unsafe fn f_halves(p: *const u8, stride: usize) -> __m256 {
            unsafe {
                let half = |i: usize| p.add(i * stride).cast::<i16>().read_unaligned();
                let h =
                    _mm_setr_epi16(half(0), half(1), half(2), half(3), half(4), half(5), half(6), half(7));
                _mm256_cvtph_ps(h)
            }
        }

        #[inline(always)]
        unsafe fn prefetch(p: *const u8) {
            unsafe { _mm_prefetch::<_MM_HINT_T0>(p.cast()) }
        }
    };
}
pub(super) use avx2_shared;
