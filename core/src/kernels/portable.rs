//! The `f32` half of [`Lanes`](super::lanes::Lanes) in plain Rust, for
//! instruction sets whose vector unit is not exact (AArch32 NEON flushes
//! denormals) or absent. Compilers may vectorise it; they may not reorder it.

/// Scales as 16 numbers, those of even groups first.
macro_rules! portable_scales {
    () => {
        type S = [i16; 16];

        #[inline(always)]
        unsafe fn scales16(p: *const i8) -> [i16; 16] {
            // SAFETY: the caller gives 16 readable bytes.
            let s = unsafe { p.cast::<[i8; 16]>().read_unaligned() };
            core::array::from_fn(|i| i16::from(s[2 * (i % 8) + i / 8]))
        }
        #[inline(always)]
        unsafe fn scales8(p: *const i8) -> [i16; 16] {
            // SAFETY: the caller gives 8 readable bytes.
            let s = unsafe { p.cast::<[i8; 8]>().read_unaligned() };
            core::array::from_fn(|i| i16::from(s[i % 8]))
        }
    };
}
pub(super) use portable_scales;

/// Fills in the `F` and `I` methods over `[f32; 8]` and `[i32; 8]`.
macro_rules! portable_f32 {
    () => {
        type I = [i32; 8];
        type F = [f32; 8];

        #[inline(always)]
        unsafe fn i_less<const N: i32>(a: [i32; 8], sums: *const i16) -> [i32; 8] {
            // SAFETY: the caller gives eight readable `i16`.
            let sums = unsafe { sums.cast::<[i16; 8]>().read_unaligned() };
            core::array::from_fn(|i| a[i] - (i32::from(sums[i]) << N))
        }
        #[inline(always)]
        unsafe fn f_splat(x: f32) -> [f32; 8] {
            [x; 8]
        }
        #[inline(always)]
        unsafe fn f_load(p: *const f32) -> [f32; 8] {
            // SAFETY: the caller gives eight readable `f32`.
            unsafe { p.cast::<[f32; 8]>().read_unaligned() }
        }
        #[inline(always)]
        unsafe fn f_store(p: *mut f32, a: [f32; 8]) {
            // SAFETY: the caller gives eight writable `f32`.
            unsafe { p.cast::<[f32; 8]>().write_unaligned(a) }
        }
        #[inline(always)]
        unsafe fn f_add(a: [f32; 8], b: [f32; 8]) -> [f32; 8] {
            core::array::from_fn(|i| a[i] + b[i])
        }
        #[inline(always)]
        unsafe fn f_sub(a: [f32; 8], b: [f32; 8]) -> [f32; 8] {
            core::array::from_fn(|i| a[i] - b[i])
        }
        #[inline(always)]
        unsafe fn f_mul(a: [f32; 8], b: [f32; 8]) -> [f32; 8] {
            core::array::from_fn(|i| a[i] * b[i])
        }
        #[inline(always)]
        unsafe fn f_div(a: [f32; 8], b: [f32; 8]) -> [f32; 8] {
            core::array::from_fn(|i| a[i] / b[i])
        }
        #[inline(always)]
        unsafe fn f_max(a: [f32; 8], b: [f32; 8]) -> [f32; 8] {
            core::array::from_fn(|i| if a[i] > b[i] { a[i] } else { b[i] })
        }
        #[inline(always)]
        unsafe fn f_min(a: [f32; 8], b: [f32; 8]) -> [f32; 8] {
            core::array::from_fn(|i| if a[i] < b[i] { a[i] } else { b[i] })
        }
        #[inline(always)]
        unsafe fn f_abs(a: [f32; 8]) -> [f32; 8] {
            a.map(|x| f32::from_bits(x.to_bits() & 0x7fff_ffff))
        }
        #[inline(always)]
        unsafe fn f_zero_lt(x: [f32; 8], limit: [f32; 8], v: [f32; 8]) -> [f32; 8] {
            core::array::from_fn(|i| if x[i] < limit[i] { 0.0 } else { v[i] })
        }
        #[inline(always)]
        unsafe fn f_pow2(a: [f32; 8]) -> [f32; 8] {
            a.map(|x| f32::from_bits((x.to_bits() << 23).wrapping_add(0x3f80_0000)))
        }
        #[inline(always)]
        unsafe fn f_sum(a: [f32; 8]) -> f32 {
            ((a[0] + a[4]) + (a[2] + a[6])) + ((a[1] + a[5]) + (a[3] + a[7]))
        }
        #[inline(always)]
        unsafe fn f_from_i(a: [i32; 8]) -> [f32; 8] {
            a.map(|x| x as f32)
        }
        #[inline(always)]
        unsafe fn f_from_i16(p: *const i16) -> [f32; 8] {
            // SAFETY: the caller gives eight readable `i16`.
            unsafe { p.cast::<[i16; 8]>().read_unaligned() }.map(f32::from)
        }
        #[inline(always)]
        unsafe fn f_from_bf16(p: *const u16) -> [f32; 8] {
            // SAFETY: the caller gives eight readable `u16`.
            unsafe { p.cast::<[u16; 8]>().read_unaligned() }.map(|h| f32::from_bits(u32::from(h) << 16))
        }
        #[inline(always)]
        unsafe fn f_to_f16(p: *mut u16, a: [f32; 8]) {
            let h = a.map(|x| half::f16::from_f32_const(x).to_bits());
            // SAFETY: the caller gives eight writable `u16`.
            unsafe { p.cast::<[u16; 8]>().write_unaligned(h) }
        }
        #[inline(always)]
        unsafe fn f_to_i8(p: *mut i8, a: [f32; 8]) {
            // Adding 1.5·2²³ rounds to nearest even and leaves the integer in
            // the low bits.
            let q = a.map(|x| (x + 12_582_912.0).to_bits() as i8);
            // SAFETY: the caller gives eight writable `i8`.
            unsafe { p.cast::<[i8; 8]>().write_unaligned(q) }
        }
    };
}
pub(super) use portable_f32;

/// Fills in `f_from_f16`.
macro_rules! portable_f16 {
    () => {
        #[inline(always)]
        unsafe fn f_from_f16(p: *const u16) -> [f32; 8] {
            // SAFETY: the caller gives eight readable `u16`.
            unsafe { p.cast::<[u16; 8]>().read_unaligned() }.map($crate::kernels::portable::f16_to_f32)
        }
    };
}
pub(super) use portable_f16;

/// Half precision to single, exact, without branches on the common path:
/// shift the fields into place, rescale by a power of two, patch infinities.
#[inline(always)]
pub(super) fn f16_to_f32(h: u16) -> f32 {
    let magnitude = f32::from_bits(u32::from(h & 0x7fff) << 13) * f32::from_bits(0x7780_0000); // 2¹¹²
    let bits = magnitude.to_bits() | u32::from(h & 0x8000) << 16;
    if h & 0x7c00 == 0x7c00 {
        f32::from_bits(bits | 0x7f80_0000 | u32::from(h & 0x3ff) << 13)
    } else {
        f32::from_bits(bits)
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn every_half_converts_exactly() {
        for h in 0..=u16::MAX {
            let want = half::f16::from_bits(h).to_f32_const();
            let got = super::f16_to_f32(h);
            assert!(got.to_bits() == want.to_bits() || (got.is_nan() && want.is_nan()), "{h:#06x}");
        }
    }
}
