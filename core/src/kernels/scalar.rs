//! [`Lanes`] over plain arrays: the reference, and what a board without a
//! vector unit runs.

use super::lanes::Lanes;
use super::portable::portable_f32;

/// Plain Rust.
#[derive(Clone, Copy)]
pub(super) struct Scalar;

#[inline(always)]
fn sum(w: &[i32], x: &[u8; 32], from: usize) -> i32 {
    w.iter().zip(&x[from..]).map(|(w, x)| w * i32::from(*x as i8)).sum()
}

#[inline(always)]
fn unsigned(w: [u8; 32]) -> [i32; 32] {
    w.map(i32::from)
}

#[inline(always)]
fn signed(w: [u8; 32]) -> [i32; 32] {
    w.map(|w| i32::from(w as i8))
}

impl Lanes for Scalar {
    type B = [u8; 32];
    type Acc = i32;

    #[inline(always)]
    unsafe fn load(p: *const u8) -> [u8; 32] {
        // SAFETY: the caller gives 32 readable bytes.
        unsafe { p.cast::<[u8; 32]>().read_unaligned() }
    }
    #[inline(always)]
    unsafe fn splat(v: u8) -> [u8; 32] {
        [v; 32]
    }
    #[inline(always)]
    unsafe fn and(a: [u8; 32], b: [u8; 32]) -> [u8; 32] {
        core::array::from_fn(|i| a[i] & b[i])
    }
    #[inline(always)]
    unsafe fn or(a: [u8; 32], b: [u8; 32]) -> [u8; 32] {
        core::array::from_fn(|i| a[i] | b[i])
    }
    #[inline(always)]
    unsafe fn sub(a: [u8; 32], b: [u8; 32]) -> [u8; 32] {
        core::array::from_fn(|i| a[i].wrapping_sub(b[i]))
    }
    #[inline(always)]
    unsafe fn shr<const N: i32>(a: [u8; 32]) -> [u8; 32] {
        a.map(|a| a >> N)
    }
    #[inline(always)]
    unsafe fn shl<const N: i32>(a: [u8; 32]) -> [u8; 32] {
        a.map(|a| a << N)
    }
    #[inline(always)]
    unsafe fn nibbles(p: *const u8) -> [u8; 32] {
        // SAFETY: the caller gives 16 readable bytes.
        let b = unsafe { p.cast::<[u8; 16]>().read_unaligned() };
        core::array::from_fn(|i| if i < 16 { b[i] & 15 } else { b[i - 16] >> 4 })
    }
    #[inline(always)]
    unsafe fn lookup(table: &[i8; 16], i: [u8; 32]) -> [u8; 32] {
        i.map(|i| table[usize::from(i & 15)] as u8)
    }
    #[inline(always)]
    unsafe fn bits16(p: *const u8) -> [u8; 32] {
        // SAFETY: the caller gives 4 readable bytes.
        let bits = u32::from_le(unsafe { p.cast::<u32>().read_unaligned() });
        core::array::from_fn(|i| (((bits >> i) & 1) << 4) as u8)
    }

    #[inline(always)]
    unsafe fn zero() -> i32 {
        0
    }
    #[inline(always)]
    unsafe fn dot_u(acc: i32, w: [u8; 32], x: [u8; 32]) -> i32 {
        acc + sum(&unsigned(w), &x, 0)
    }
    #[inline(always)]
    unsafe fn dot_i(acc: i32, w: [u8; 32], x: [u8; 32]) -> i32 {
        acc + sum(&signed(w), &x, 0)
    }
    #[inline(always)]
    unsafe fn mad_u(acc: i32, w: [u8; 32], x: [u8; 32], s: i16) -> i32 {
        acc + i32::from(s) * sum(&unsigned(w), &x, 0)
    }
    #[inline(always)]
    unsafe fn mad_i(acc: i32, w: [u8; 32], x: [u8; 32], s: i16) -> i32 {
        acc + i32::from(s) * sum(&signed(w), &x, 0)
    }
    #[inline(always)]
    unsafe fn mad2_u(acc: i32, w: [u8; 32], x: [u8; 32], s: [i16; 2]) -> i32 {
        let w = unsigned(w);
        acc + i32::from(s[0]) * sum(&w[..16], &x, 0) + i32::from(s[1]) * sum(&w[16..], &x, 16)
    }
    #[inline(always)]
    unsafe fn mad2_i(acc: i32, w: [u8; 32], x: [u8; 32], s: [i16; 2]) -> i32 {
        let w = signed(w);
        acc + i32::from(s[0]) * sum(&w[..16], &x, 0) + i32::from(s[1]) * sum(&w[16..], &x, 16)
    }
    #[inline(always)]
    unsafe fn dot_i16(a: &[i16; 16], b: *const i16) -> i32 {
        // SAFETY: the caller gives 16 readable `i16`.
        let b = unsafe { b.cast::<[i16; 16]>().read_unaligned() };
        a.iter().zip(b).map(|(&a, b)| i32::from(a) * i32::from(b)).sum()
    }
    #[inline(always)]
    unsafe fn reduce8(parts: [i32; 8]) -> [i32; 8] {
        parts
    }

    portable_f32!();
}
