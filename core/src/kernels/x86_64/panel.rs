//! What AVX2 and AVX-512 have in common in [`PanelLanes`]: all but the dots.

use core::arch::x86_64::*;

/// Fills in everything of [`PanelLanes`](crate::kernels::lanes::PanelLanes) but
/// `S`, the scales and the dots of weights.
// SAFETY of all blocks here: see the modules that use this.
macro_rules! panel_shared {
    () => {
        /// Two `i16` a row.
        type M = __m256i;

        #[inline(always)]
        unsafe fn prefetch_later(p: *const u8) {
            unsafe { _mm_prefetch::<_MM_HINT_T1>(p.cast()) }
        }
        #[inline(always)]
        unsafe fn columns(p: *const u8, stride: usize) -> [__m256i; 4] {
            unsafe {
                // Rows r and r + 4 side by side, then fours of rows are turned.
                let (q, s2, s3) = (p.add(4 * stride), 2 * stride, 3 * stride);
                let (r0, r1) = (two(p, q), two(p.add(stride), q.add(stride)));
                let (r2, r3) = (two(p.add(s2), q.add(s2)), two(p.add(s3), q.add(s3)));
                let (a, b) = (_mm256_unpacklo_epi32(r0, r1), _mm256_unpacklo_epi32(r2, r3));
                let (c, d) = (_mm256_unpackhi_epi32(r0, r1), _mm256_unpackhi_epi32(r2, r3));
                [
                    _mm256_unpacklo_epi64(a, b),
                    _mm256_unpackhi_epi64(a, b),
                    _mm256_unpacklo_epi64(c, d),
                    _mm256_unpackhi_epi64(c, d),
                ]
            }
        }
        #[inline(always)]
        unsafe fn m_pair<const I: i32, const J: i32>(t: __m256i) -> __m256i {
            unsafe {
                // To the upper bytes, so that the shift brings the sign.
                let to = _mm256_setr_epi8(
                    -1,
                    I as i8,
                    -1,
                    J as i8,
                    -1,
                    I as i8 + 4,
                    -1,
                    J as i8 + 4,
                    -1,
                    I as i8 + 8,
                    -1,
                    J as i8 + 8,
                    -1,
                    I as i8 + 12,
                    -1,
                    J as i8 + 12,
                    -1,
                    I as i8,
                    -1,
                    J as i8,
                    -1,
                    I as i8 + 4,
                    -1,
                    J as i8 + 4,
                    -1,
                    I as i8 + 8,
                    -1,
                    J as i8 + 8,
                    -1,
                    I as i8 + 12,
                    -1,
                    J as i8 + 12,
                );
                _mm256_srai_epi16::<8>(_mm256_shuffle_epi8(t, to))
            }
        }
        #[inline(always)]
        unsafe fn f_pairs(t: __m256i) -> (__m256, __m256) {
            unsafe {
                // Within halves of four rows: the first numbers, then the second.
                let split = _mm256_setr_epi8(
                    0, 1, 4, 5, 8, 9, 12, 13, 2, 3, 6, 7, 10, 11, 14, 15, 0, 1, 4, 5, 8, 9, 12, 13, 2, 3, 6,
                    7, 10, 11, 14, 15,
                );
                let t = _mm256_permute4x64_epi64::<0b11_01_10_00>(_mm256_shuffle_epi8(t, split));
                (
                    _mm256_cvtph_ps(_mm256_castsi256_si128(t)),
                    _mm256_cvtph_ps(_mm256_extracti128_si256::<1>(t)),
                )
            }
        }
        #[inline(always)]
        unsafe fn column_bits(p: *const u8, stride: usize) -> ([__m256i; 4], [__m256i; 4]) {
            unsafe {
                let mut rows = [0i32; 8];
                for (r, row) in rows.iter_mut().enumerate() {
                    *row = p.add(r * stride).cast::<i32>().read_unaligned();
                }
                let mut bits = _mm256_loadu_si256(rows.as_ptr().cast());
                let bit = _mm256_set1_epi32(0x0804_0201);
                let first = _mm256_setr_epi8(
                    0, 0, 0, 0, 4, 4, 4, 4, 8, 8, 8, 8, 12, 12, 12, 12, 0, 0, 0, 0, 4, 4, 4, 4, 8, 8, 8, 8,
                    12, 12, 12, 12,
                );
                let mut all = [_mm256_setzero_si256(); 8];
                for v in &mut all {
                    let one = _mm256_and_si256(_mm256_shuffle_epi8(bits, first), bit);
                    *v = _mm256_and_si256(_mm256_cmpeq_epi8(one, bit), _mm256_set1_epi8(16));
                    bits = _mm256_srli_epi32::<4>(bits);
                }
                ([all[0], all[1], all[2], all[3]], [all[4], all[5], all[6], all[7]])
            }
        }
        #[inline(always)]
        unsafe fn sums16(m: &[__m256i; 8], sums: *const i16) -> __m256i {
            unsafe {
                let mut sum = _mm256_setzero_si256();
                for (i, m) in m.iter().enumerate() {
                    let two = _mm256_set1_epi32(sums.add(2 * i).cast::<i32>().read_unaligned());
                    sum = _mm256_add_epi32(sum, _mm256_madd_epi16(*m, two));
                }
                sum
            }
        }
        #[inline(always)]
        unsafe fn sums8(m: &[__m256i; 8], sums: *const i16) -> __m256i {
            unsafe {
                let both = _mm_add_epi16(_mm_loadu_si128(sums.cast()), _mm_loadu_si128(sums.add(8).cast()));
                let both = _mm256_broadcastsi128_si256(both);
                let a = _mm256_madd_epi16(m[0], _mm256_shuffle_epi32::<0b00_00_00_00>(both));
                let b = _mm256_madd_epi16(m[1], _mm256_shuffle_epi32::<0b01_01_01_01>(both));
                let c = _mm256_madd_epi16(m[2], _mm256_shuffle_epi32::<0b10_10_10_10>(both));
                let d = _mm256_madd_epi16(m[3], _mm256_shuffle_epi32::<0b11_11_11_11>(both));
                _mm256_add_epi32(_mm256_add_epi32(a, b), _mm256_add_epi32(c, d))
            }
        }

        #[inline(always)]
        unsafe fn i_zero() -> __m256i {
            unsafe { _mm256_setzero_si256() }
        }
        #[inline(always)]
        unsafe fn i_splat(v: i32) -> __m256i {
            unsafe { _mm256_set1_epi32(v) }
        }
        #[inline(always)]
        unsafe fn i_sub(a: __m256i, b: __m256i) -> __m256i {
            unsafe { _mm256_sub_epi32(a, b) }
        }
        #[inline(always)]
        unsafe fn i_shl(a: __m256i, n: u32) -> __m256i {
            unsafe { _mm256_sll_epi32(a, _mm_cvtsi32_si128(n as i32)) }
        }
    };
}
pub(super) use panel_shared;

/// Four activations in every lane.
///
/// # Safety
/// The CPU has AVX2; `x` points at four bytes.
#[inline(always)]
pub(super) unsafe fn four(x: *const i8) -> __m256i {
    // SAFETY: the caller's promise.
    unsafe { _mm256_set1_epi32(x.cast::<i32>().read_unaligned()) }
}

/// 16 bytes at `low`, then 16 at `high`.
///
/// # Safety
/// The CPU has AVX2; the pointers are readable for 16 bytes.
#[inline(always)]
pub(super) unsafe fn two(low: *const u8, high: *const u8) -> __m256i {
    // SAFETY: the caller's promise.
    unsafe {
        let low = _mm256_castsi128_si256(_mm_loadu_si128(low.cast()));
        _mm256_inserti128_si256::<1>(low, _mm_loadu_si128(high.cast()))
    }
}

/// Byte `I` of each lane to the places `A` and `B` of the lane's four bytes (no
/// place where 4), zeros elsewhere.
///
/// # Safety
/// The CPU has AVX2.
#[inline(always)]
pub(super) unsafe fn spread_byte<const I: i32, const A: i32, const B: i32>(t: __m256i) -> __m256i {
    let (a, b, c, d) = const {
        let mut lanes = [[-1i8; 4]; 4];
        let mut l = 0;
        while l < 4 {
            if A < 4 {
                lanes[l][A as usize] = (I + 4 * l as i32) as i8;
            }
            if B < 4 {
                lanes[l][B as usize] = (I + 4 * l as i32) as i8;
            }
            l += 1;
        }
        (word(lanes[0]), word(lanes[1]), word(lanes[2]), word(lanes[3]))
    };
    // SAFETY: the caller's promise.
    unsafe { _mm256_shuffle_epi8(t, _mm256_setr_epi32(a, b, c, d, a, b, c, d)) }
}

/// Four bytes as a number.
const fn word(b: [i8; 4]) -> i32 {
    i32::from_le_bytes([b[0] as u8, b[1] as u8, b[2] as u8, b[3] as u8])
}
