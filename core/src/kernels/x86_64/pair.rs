//! What AVX2 and AVX-512 have in common in
//! [`TwoLanes`](crate::kernels::lanes::TwoLanes) and
//! [`PairLanes`](crate::kernels::lanes::PairLanes): all but the dots.

use core::arch::x86_64::*;

/// Shuffles that put one of eight `i16` on every place of its half.
#[repr(align(32))]
pub(super) struct Shuffles([[i8; 32]; 8]);

/// On every `i16`.
pub(super) static TO_I16: Shuffles = shuffles(2);
/// On the lower half of every `i32`, zeros above.
pub(super) static TO_I32: Shuffles = shuffles(4);

const fn shuffles(size: usize) -> Shuffles {
    let mut all = [[-1; 32]; 8];
    let mut i = 0;
    while i < 256 {
        let (k, byte) = (i / 32, i % 32);
        if byte % size < 2 {
            all[k][byte] = (2 * k + byte % size) as i8;
        }
        i += 1;
    }
    Shuffles(all)
}

/// The `i`th `i16` of each half, spread as `to` says. Assembly, because a
/// compiler that sees the numbers makes two shuffles of one.
///
/// # Safety
/// The CPU has AVX2; `i` is below 8.
// Not `inline(always)`: the registers ask for the feature here.
#[inline]
#[target_feature(enable = "avx2")]
pub(super) unsafe fn spread(to: &'static Shuffles, v: __m256i, i: usize) -> __m256i {
    let out;
    // SAFETY: the caller's promise; the shuffle lies within `to`.
    unsafe {
        core::arch::asm!(
            "vpshufb {0:y}, {1:y}, [{2}]",
            out(ymm_reg) out,
            in(ymm_reg) v,
            in(reg) to.0.as_ptr().add(i),
            options(pure, readonly, nostack, preserves_flags)
        );
    }
    out
}

/// Sixteen activations of one block, then sixteen of the other.
///
/// # Safety
/// The CPU has AVX2; `x` points at 32 bytes.
#[inline(always)]
pub(super) unsafe fn load(x: *const i8) -> __m256i {
    // SAFETY: the caller's promise.
    unsafe { _mm256_loadu_si256(x.cast()) }
}

/// Fills in `TwoLanes`.
// SAFETY of all blocks here: see the modules that use this.
macro_rules! two_shared {
    () => {
        #[inline(always)]
        unsafe fn two(a: *const u8, b: *const u8) -> __m256i {
            unsafe { two(a, b) }
        }
        #[inline(always)]
        unsafe fn six_bits(v: __m256i) -> (__m256i, __m256i) {
            unsafe {
                // Words d|dmin, a, b, c: low six (four) bits of a, c, b, c>>4 ...
                let shift = _mm256_setr_epi32(0, 0, 0, 4, 0, 0, 0, 4);
                let low = _mm256_srlv_epi32(_mm256_shuffle_epi32::<0b11_10_11_01>(v), shift);
                let low_mask = _mm256_set1_epi64x(0x0f0f_0f0f_3f3f_3f3f);
                // ... and the top two of a and b for the second and fourth.
                let top = _mm256_srli_epi32::<2>(_mm256_shuffle_epi32::<0b10_10_01_01>(v));
                let top_mask = _mm256_set1_epi64x(0x3030_3030_0000_0000);
                let bytes = _mm256_or_si256(_mm256_and_si256(low, low_mask), _mm256_and_si256(top, top_mask));
                let zero = _mm256_setzero_si256();
                (_mm256_unpacklo_epi8(bytes, zero), _mm256_unpackhi_epi8(bytes, zero))
            }
        }
        #[inline(always)]
        unsafe fn even_odd_i(v: __m256i) -> [__m256i; 2] {
            unsafe { [_mm256_srai_epi16::<8>(_mm256_slli_epi16::<8>(v)), _mm256_srai_epi16::<8>(v)] }
        }
        #[inline(always)]
        unsafe fn first_i(v: __m256i) -> __m256i {
            unsafe { _mm256_srai_epi16::<8>(_mm256_unpacklo_epi8(v, v)) }
        }
    };
}
pub(super) use two_shared;

/// Fills in everything of `PairLanes` but scales and dots.
// SAFETY of all blocks here: see the modules that use this.
macro_rules! pair_shared {
    () => {
        type P = __m256i;

        #[inline(always)]
        unsafe fn two_wide(a: *const u8, b: *const u8) -> (__m256i, __m256i) {
            unsafe {
                let (a, b) = (_mm256_loadu_si256(a.cast()), _mm256_loadu_si256(b.cast()));
                let low = _mm256_inserti128_si256::<1>(a, _mm256_castsi256_si128(b));
                (low, _mm256_permute2x128_si256::<0x31>(a, b))
            }
        }
        #[inline(always)]
        unsafe fn two_bits(a: *const u8, b: *const u8) -> (__m256i, __m256i) {
            unsafe {
                // Byte i gets the byte that holds bit i, then keeps only that bit.
                let a = _mm_set1_epi32(a.cast::<i32>().read_unaligned());
                let b = _mm_set1_epi32(b.cast::<i32>().read_unaligned());
                let all = _mm256_set_m128i(b, a);
                let bit = _mm256_set1_epi64x(0x8040_2010_0804_0201_u64 as i64);
                let first = _mm256_setr_epi64x(0, 0x0101_0101_0101_0101, 0, 0x0101_0101_0101_0101);
                let last = _mm256_add_epi8(first, _mm256_set1_epi8(2));
                let low = _mm256_and_si256(_mm256_shuffle_epi8(all, first), bit);
                let high = _mm256_and_si256(_mm256_shuffle_epi8(all, last), bit);
                let sixteen = _mm256_set1_epi8(16);
                (
                    _mm256_and_si256(_mm256_cmpeq_epi8(low, bit), sixteen),
                    _mm256_and_si256(_mm256_cmpeq_epi8(high, bit), sixteen),
                )
            }
        }
        #[inline(always)]
        unsafe fn pair_sums8(m: __m256i, sums: [*const i16; 2]) -> __m256i {
            unsafe {
                let even = two(sums[0].cast(), sums[1].cast());
                let odd = two(sums[0].add(8).cast(), sums[1].add(8).cast());
                _mm256_madd_epi16(m, _mm256_add_epi16(even, odd))
            }
        }
        #[inline(always)]
        unsafe fn pair_sums16(m: [__m256i; 2], sums: [*const i16; 2]) -> __m256i {
            unsafe {
                let even = _mm256_madd_epi16(m[0], two(sums[0].cast(), sums[1].cast()));
                let odd = _mm256_madd_epi16(m[1], two(sums[0].add(8).cast(), sums[1].add(8).cast()));
                _mm256_add_epi32(even, odd)
            }
        }
        #[inline(always)]
        unsafe fn pair_reduce(p: [__m256i; 4]) -> __m256i {
            unsafe {
                // Each horizontal add halves the lanes of two vectors, within
                // halves: then even blocks lie in one, odd ones in the other.
                let sums = _mm256_hadd_epi32(_mm256_hadd_epi32(p[0], p[1]), _mm256_hadd_epi32(p[2], p[3]));
                _mm256_permutevar8x32_epi32(sums, _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7))
            }
        }
    };
}
pub(super) use pair_shared;
