//! [`Lanes`] over plain arrays: the reference, and what a board without a
//! vector unit runs.

use super::lanes::Lanes;
use super::portable::{portable_f16, portable_f32, portable_scales};

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
    portable_scales!();

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
    unsafe fn mad_u<const J: usize>(acc: i32, w: [u8; 32], x: [u8; 32], s: [i16; 16]) -> i32 {
        acc + i32::from(s[J]) * sum(&unsigned(w), &x, 0)
    }
    #[inline(always)]
    unsafe fn mad_i<const J: usize>(acc: i32, w: [u8; 32], x: [u8; 32], s: [i16; 16]) -> i32 {
        acc + i32::from(s[J]) * sum(&signed(w), &x, 0)
    }
    #[inline(always)]
    unsafe fn mad2_u<const J: usize>(acc: i32, w: [u8; 32], x: [u8; 32], s: [i16; 16]) -> i32 {
        let w = unsigned(w);
        acc + i32::from(s[J]) * sum(&w[..16], &x, 0) + i32::from(s[8 + J]) * sum(&w[16..], &x, 16)
    }
    #[inline(always)]
    unsafe fn dot_sums(s: [i16; 16], sums: *const i16) -> i32 {
        // SAFETY: the caller gives 16 readable `i16`.
        let sums = unsafe { sums.cast::<[i16; 16]>().read_unaligned() };
        s.into_iter().zip(sums).map(|(s, sum)| i32::from(s) * i32::from(sum)).sum()
    }
    #[inline(always)]
    unsafe fn less<const N: i32>(a: i32, b: i32) -> i32 {
        a - (b << N)
    }
    #[inline(always)]
    unsafe fn reduce8(parts: [i32; 8]) -> [i32; 8] {
        parts
    }

    portable_f32!();
    portable_f16!();
}
