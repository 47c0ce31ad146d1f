//! What the sets of 64-bit ARM have in common: bytes, `f32`, and folding sums.
//!
//! The `f32` half is exact as it stands: AArch64 vector arithmetic rounds to
//! nearest even and keeps denormals, as the scalar unit does. Products are
//! added by a separate instruction, never fused.

use core::arch::aarch64::*;

/// Scales of even and of odd groups of 16 weights.
#[derive(Clone, Copy)]
pub(in crate::kernels) struct Scales {
    pub(super) even: int16x8_t,
    pub(super) odd: int16x8_t,
}

/// `acc + sum · s[J]`.
///
/// # Safety
/// `J` is below 8; see `Lanes`.
#[inline(always)]
pub(super) unsafe fn scaled<const J: usize>(acc: int32x4_t, sum: int32x4_t, s: int16x8_t) -> int32x4_t {
    // SAFETY: NEON is part of the architecture.
    unsafe {
        let (low, high) = (vmovl_s16(vget_low_s16(s)), vmovl_high_s16(s));
        match J {
            0 => vmlaq_laneq_s32::<0>(acc, sum, low),
            1 => vmlaq_laneq_s32::<1>(acc, sum, low),
            2 => vmlaq_laneq_s32::<2>(acc, sum, low),
            3 => vmlaq_laneq_s32::<3>(acc, sum, low),
            4 => vmlaq_laneq_s32::<0>(acc, sum, high),
            5 => vmlaq_laneq_s32::<1>(acc, sum, high),
            6 => vmlaq_laneq_s32::<2>(acc, sum, high),
            _ => vmlaq_laneq_s32::<3>(acc, sum, high),
        }
    }
}

/// Fills in everything but the byte products: `B`, `Acc`, `I` and `F` are
/// pairs of 128-bit registers, `Acc` a single one.
// SAFETY of all blocks here: see the modules that use this.
macro_rules! neon_shared {
    () => {
        type B = (uint8x16_t, uint8x16_t);
        type Acc = int32x4_t;
        type S = Scales;
        type I = (int32x4_t, int32x4_t);
        type F = (float32x4_t, float32x4_t);

        #[inline(always)]
        unsafe fn load(p: *const u8) -> Self::B {
            unsafe { (vld1q_u8(p), vld1q_u8(p.add(16))) }
        }
        #[inline(always)]
        unsafe fn splat(v: u8) -> Self::B {
            unsafe { (vdupq_n_u8(v), vdupq_n_u8(v)) }
        }
        #[inline(always)]
        unsafe fn and(a: Self::B, b: Self::B) -> Self::B {
            unsafe { (vandq_u8(a.0, b.0), vandq_u8(a.1, b.1)) }
        }
        #[inline(always)]
        unsafe fn or(a: Self::B, b: Self::B) -> Self::B {
            unsafe { (vorrq_u8(a.0, b.0), vorrq_u8(a.1, b.1)) }
        }
        #[inline(always)]
        unsafe fn shr<const N: i32>(a: Self::B) -> Self::B {
            // The instruction has no shift by zero.
            unsafe {
                match N {
                    0 => a,
                    1 => (vshrq_n_u8::<1>(a.0), vshrq_n_u8::<1>(a.1)),
                    2 => (vshrq_n_u8::<2>(a.0), vshrq_n_u8::<2>(a.1)),
                    3 => (vshrq_n_u8::<3>(a.0), vshrq_n_u8::<3>(a.1)),
                    4 => (vshrq_n_u8::<4>(a.0), vshrq_n_u8::<4>(a.1)),
                    5 => (vshrq_n_u8::<5>(a.0), vshrq_n_u8::<5>(a.1)),
                    6 => (vshrq_n_u8::<6>(a.0), vshrq_n_u8::<6>(a.1)),
                    7 => (vshrq_n_u8::<7>(a.0), vshrq_n_u8::<7>(a.1)),
                    _ => unreachable!("bytes have 8 bits"),
                }
            }
        }
        #[inline(always)]
        unsafe fn shl<const N: i32>(a: Self::B) -> Self::B {
            unsafe { (vshlq_n_u8::<N>(a.0), vshlq_n_u8::<N>(a.1)) }
        }
        #[inline(always)]
        unsafe fn nibbles(p: *const u8) -> Self::B {
            unsafe {
                let b = vld1q_u8(p);
                (vandq_u8(b, vdupq_n_u8(15)), vshrq_n_u8::<4>(b))
            }
        }
        #[inline(always)]
        unsafe fn lookup(table: &[i8; 16], i: Self::B) -> Self::B {
            unsafe {
                let t = vld1q_u8(table.as_ptr().cast());
                (vqtbl1q_u8(t, i.0), vqtbl1q_u8(t, i.1))
            }
        }
        #[inline(always)]
        unsafe fn bits16(p: *const u8) -> Self::B {
            unsafe {
                // Byte i gets the byte that holds bit i, then that bit decides.
                let all = vreinterpretq_u8_u32(vdupq_n_u32(p.cast::<u32>().read_unaligned()));
                let first = vcombine_u8(vdup_n_u8(0), vdup_n_u8(1));
                let bit = vreinterpretq_u8_u64(vdupq_n_u64(0x8040_2010_0804_0201));
                let sixteen = vdupq_n_u8(16);
                let low = vtstq_u8(vqtbl1q_u8(all, first), bit);
                let high = vtstq_u8(vqtbl1q_u8(all, vorrq_u8(first, vdupq_n_u8(2))), bit);
                (vandq_u8(low, sixteen), vandq_u8(high, sixteen))
            }
        }

        #[inline(always)]
        unsafe fn zero() -> int32x4_t {
            unsafe { vdupq_n_s32(0) }
        }
        #[inline(always)]
        unsafe fn sum16(p: *const i8) -> i16 {
            unsafe { vaddlvq_s8(vld1q_s8(p)) }
        }
        #[inline(always)]
        unsafe fn scales16(p: *const i8) -> Scales {
            unsafe {
                let s = vld1q_s8(p);
                let (even, odd) = (vuzp1q_s8(s, s), vuzp2q_s8(s, s));
                Scales { even: vmovl_s8(vget_low_s8(even)), odd: vmovl_s8(vget_low_s8(odd)) }
            }
        }
        #[inline(always)]
        unsafe fn scales8(p: *const i8) -> Scales {
            unsafe {
                let both = vmovl_s8(vld1_s8(p));
                Scales { even: both, odd: both }
            }
        }
        #[inline(always)]
        unsafe fn dot_sums(s: Scales, sums: *const i16) -> int32x4_t {
            unsafe {
                let (even, odd) = (vld1q_s16(sums), vld1q_s16(sums.add(8)));
                let sum = vmull_s16(vget_low_s16(s.even), vget_low_s16(even));
                let sum = vmlal_high_s16(sum, s.even, even);
                let sum = vmlal_s16(sum, vget_low_s16(s.odd), vget_low_s16(odd));
                vmlal_high_s16(sum, s.odd, odd)
            }
        }
        #[inline(always)]
        unsafe fn less<const N: i32>(a: int32x4_t, b: int32x4_t) -> int32x4_t {
            unsafe { vsubq_s32(a, vshlq_n_s32::<N>(b)) }
        }
        #[inline(always)]
        unsafe fn i_less<const N: i32>(a: Self::I, sums: *const i16) -> Self::I {
            unsafe {
                let sums = vld1q_s16(sums);
                let (low, high) = (vmovl_s16(vget_low_s16(sums)), vmovl_high_s16(sums));
                (vsubq_s32(a.0, vshlq_n_s32::<N>(low)), vsubq_s32(a.1, vshlq_n_s32::<N>(high)))
            }
        }
        #[inline(always)]
        unsafe fn reduce8(p: [int32x4_t; 8]) -> Self::I {
            unsafe {
                // Each pairwise add halves the lanes of two vectors.
                let a = vpaddq_s32(vpaddq_s32(p[0], p[1]), vpaddq_s32(p[2], p[3]));
                let b = vpaddq_s32(vpaddq_s32(p[4], p[5]), vpaddq_s32(p[6], p[7]));
                (a, b)
            }
        }

        #[inline(always)]
        unsafe fn f_splat(x: f32) -> Self::F {
            unsafe { (vdupq_n_f32(x), vdupq_n_f32(x)) }
        }
        #[inline(always)]
        unsafe fn f_load(p: *const f32) -> Self::F {
            unsafe { (vld1q_f32(p), vld1q_f32(p.wrapping_add(4))) }
        }
        #[inline(always)]
        unsafe fn f_store(p: *mut f32, a: Self::F) {
            unsafe {
                vst1q_f32(p, a.0);
                vst1q_f32(p.wrapping_add(4), a.1);
            }
        }
        #[inline(always)]
        unsafe fn f_add(a: Self::F, b: Self::F) -> Self::F {
            unsafe { (vaddq_f32(a.0, b.0), vaddq_f32(a.1, b.1)) }
        }
        #[inline(always)]
        unsafe fn f_sub(a: Self::F, b: Self::F) -> Self::F {
            unsafe { (vsubq_f32(a.0, b.0), vsubq_f32(a.1, b.1)) }
        }
        #[inline(always)]
        unsafe fn f_mul(a: Self::F, b: Self::F) -> Self::F {
            unsafe { (vmulq_f32(a.0, b.0), vmulq_f32(a.1, b.1)) }
        }
        #[inline(always)]
        unsafe fn f_div(a: Self::F, b: Self::F) -> Self::F {
            unsafe { (vdivq_f32(a.0, b.0), vdivq_f32(a.1, b.1)) }
        }
        // Compare and select: the instructions named max and min treat NaN
        // otherwise.
        #[inline(always)]
        unsafe fn f_max(a: Self::F, b: Self::F) -> Self::F {
            unsafe {
                (vbslq_f32(vcgtq_f32(a.0, b.0), a.0, b.0), vbslq_f32(vcgtq_f32(a.1, b.1), a.1, b.1))
            }
        }
        #[inline(always)]
        unsafe fn f_min(a: Self::F, b: Self::F) -> Self::F {
            unsafe {
                (vbslq_f32(vcltq_f32(a.0, b.0), a.0, b.0), vbslq_f32(vcltq_f32(a.1, b.1), a.1, b.1))
            }
        }
        #[inline(always)]
        unsafe fn f_abs(a: Self::F) -> Self::F {
            unsafe { (vabsq_f32(a.0), vabsq_f32(a.1)) }
        }
        #[inline(always)]
        unsafe fn f_zero_lt(x: Self::F, limit: Self::F, v: Self::F) -> Self::F {
            unsafe {
                let keep = |x, limit, v| {
                    let v = vreinterpretq_u32_f32(v);
                    vreinterpretq_f32_u32(vbicq_u32(v, vcltq_f32(x, limit)))
                };
                (keep(x.0, limit.0, v.0), keep(x.1, limit.1, v.1))
            }
        }
        #[inline(always)]
        unsafe fn f_pow2(a: Self::F) -> Self::F {
            unsafe {
                let one = vdupq_n_s32(0x3f80_0000);
                let low = vaddq_s32(vshlq_n_s32::<23>(vreinterpretq_s32_f32(a.0)), one);
                let high = vaddq_s32(vshlq_n_s32::<23>(vreinterpretq_s32_f32(a.1)), one);
                (vreinterpretq_f32_s32(low), vreinterpretq_f32_s32(high))
            }
        }
        #[inline(always)]
        unsafe fn f_sum(a: Self::F) -> f32 {
            unsafe {
                let four = vaddq_f32(a.0, a.1);
                let two = vadd_f32(vget_low_f32(four), vget_high_f32(four));
                vget_lane_f32::<0>(two) + vget_lane_f32::<1>(two)
            }
        }
        #[inline(always)]
        unsafe fn f_sums(a: [Self::F; 4], out: *mut f32) {
            unsafe {
                let [a, b, c, d] = [
                    vreinterpretq_f64_f32(vaddq_f32(a[0].0, a[0].1)),
                    vreinterpretq_f64_f32(vaddq_f32(a[1].0, a[1].1)),
                    vreinterpretq_f64_f32(vaddq_f32(a[2].0, a[2].1)),
                    vreinterpretq_f64_f32(vaddq_f32(a[3].0, a[3].1)),
                ];
                let (ab, ab2) = (vzip1q_f64(a, b), vzip2q_f64(a, b));
                let (cd, cd2) = (vzip1q_f64(c, d), vzip2q_f64(c, d));
                let ab = vaddq_f32(vreinterpretq_f32_f64(ab), vreinterpretq_f32_f64(ab2));
                let cd = vaddq_f32(vreinterpretq_f32_f64(cd), vreinterpretq_f32_f64(cd2));
                vst1q_f32(out, vpaddq_f32(ab, cd));
            }
        }
        #[inline(always)]
        unsafe fn f_from_i(a: Self::I) -> Self::F {
            unsafe { (vcvtq_f32_s32(a.0), vcvtq_f32_s32(a.1)) }
        }
        #[inline(always)]
        unsafe fn f_from_i16(p: *const i16) -> Self::F {
            unsafe {
                let h = vld1q_s16(p);
                (vcvtq_f32_s32(vmovl_s16(vget_low_s16(h))), vcvtq_f32_s32(vmovl_high_s16(h)))
            }
        }
        #[inline(always)]
        unsafe fn f_from_f16(p: *const u16) -> Self::F {
            unsafe {
                let h = vreinterpretq_f16_u16(vld1q_u16(p));
                (vcvt_f32_f16(vget_low_f16(h)), vcvt_high_f32_f16(h))
            }
        }
        #[inline(always)]
        unsafe fn f_from_bf16(p: *const u16) -> Self::F {
            unsafe {
                let h = vld1q_u16(p);
                let (low, high) = (vshll_n_u16::<16>(vget_low_u16(h)), vshll_high_n_u16::<16>(h));
                (vreinterpretq_f32_u32(low), vreinterpretq_f32_u32(high))
            }
        }
        #[inline(always)]
        unsafe fn f_to_f16(p: *mut u16, a: Self::F) {
            unsafe {
                let h = vcvt_high_f16_f32(vcvt_f16_f32(a.0), a.1);
                vst1q_u16(p, vreinterpretq_u16_f16(h));
            }
        }
        #[inline(always)]
        unsafe fn f_to_i8(p: *mut i8, a: Self::F) {
            unsafe {
                let h = vmovn_high_s32(vmovn_s32(vcvtnq_s32_f32(a.0)), vcvtnq_s32_f32(a.1));
                vst1_s8(p, vmovn_s16(h));
            }
        }

        #[inline(always)]
        unsafe fn prefetch(p: *const u8) {
            // Not `nomem`: that would let it move across the loads it is for.
            unsafe {
                core::arch::asm!("prfm pldl1keep, [{0}]", in(reg) p, options(nostack, readonly, preserves_flags));
            }
        }
    };
}
pub(super) use neon_shared;
