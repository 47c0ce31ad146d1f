//! Integer dots of the 256-weight formats; layouts in `quant/k*.rs`, `iq4.rs`.

use super::matmul::{Block, Min};
use crate::kernels::lanes::Lanes;
use crate::quant::{Format, IQ4_VALUES, k3_scales, k4_scales_mins};

pub(in crate::kernels) struct Q2K;
pub(in crate::kernels) struct Q3K;
pub(in crate::kernels) struct Q4K;
pub(in crate::kernels) struct Q5K;
pub(in crate::kernels) struct Q6K;
pub(in crate::kernels) struct Iq4Xs;

/// Runs `$body` with the constant `$j` bound to 0, 1, 2, 3: shifts need
/// constants.
macro_rules! for_four {
    ($j:ident, $body:block) => {{
        macro_rules! one {
            ($v:literal) => {{
                const $j: usize = $v;
                $body
            }};
        }
        one!(0);
        one!(1);
        one!(2);
        one!(3);
    }};
}

impl Block for Q2K {
    const FORMAT: Format = Format::Q2K;
    const D: usize = 80;
    const MIN: Min = Min::Groups(82);

    #[inline(always)]
    unsafe fn dot<L: Lanes, const T: usize>(
        w: *const u8,
        x: [*const i8; T],
        sums: [*const i16; T],
    ) -> ([L::Acc; T], [L::Acc; T]) {
        // SAFETY: all offsets stay within one block.
        unsafe {
            let packed = w.cast::<[u8; 16]>().read_unaligned();
            let s = packed.map(|p| i16::from(p & 15));
            let m = packed.map(|p| i16::from(p >> 4));
            let three = L::splat(3);
            let mut acc = [L::zero(); T];
            for half in 0..2 {
                let bits = L::load(w.add(16 + 32 * half));
                for_four!(J, {
                    let q = L::and(L::shr::<{ 2 * J as i32 }>(bits), three);
                    let g = 8 * half + 2 * J;
                    for t in 0..T {
                        acc[t] = L::mad2_u(acc[t], q, L::load(x[t].add(16 * g).cast()), [s[g], s[g + 1]]);
                    }
                });
            }
            (acc, sums.map(|sums| L::dot_i16(&m, sums)))
        }
    }
}

impl Block for Q3K {
    const FORMAT: Format = Format::Q3K;
    const D: usize = 108;
    const MIN: Min = Min::None;

    #[inline(always)]
    unsafe fn dot<L: Lanes, const T: usize>(
        w: *const u8,
        x: [*const i8; T],
        _sums: [*const i16; T],
    ) -> ([L::Acc; T], [L::Acc; T]) {
        // SAFETY: all offsets stay within one block.
        unsafe {
            let s = k3_scales(&w.add(96).cast::<[u8; 12]>().read_unaligned());
            let (one, three, four) = (L::splat(1), L::splat(3), L::splat(4));
            let mut high = L::load(w);
            let mut acc = [L::zero(); T];
            for half in 0..2 {
                let bits = L::load(w.add(32 + 32 * half));
                for_four!(J, {
                    let low = L::and(L::shr::<{ 2 * J as i32 }>(bits), three);
                    let top = L::shl::<2>(L::and(L::shr::<{ J as i32 }>(high), one));
                    let q = L::sub(L::or(low, top), four);
                    let g = 8 * half + 2 * J;
                    let scales = [i16::from(s[g]), i16::from(s[g + 1])];
                    for t in 0..T {
                        acc[t] = L::mad2_i(acc[t], q, L::load(x[t].add(16 * g).cast()), scales);
                    }
                });
                high = L::shr::<4>(high);
            }
            (acc, [L::zero(); T])
        }
    }
}

impl Block for Q4K {
    const FORMAT: Format = Format::Q4K;
    const D: usize = 0;
    const MIN: Min = Min::Groups(2);

    #[inline(always)]
    unsafe fn dot<L: Lanes, const T: usize>(
        w: *const u8,
        x: [*const i8; T],
        sums: [*const i16; T],
    ) -> ([L::Acc; T], [L::Acc; T]) {
        // SAFETY: all offsets stay within one block.
        unsafe {
            let (s, m) = k4_scales_mins(&w.add(4).cast::<[u8; 12]>().read_unaligned());
            let low4 = L::splat(15);
            let mut acc = [L::zero(); T];
            for j in 0..4 {
                let bits = L::load(w.add(16 + 32 * j));
                let (low, high) = (L::and(bits, low4), L::shr::<4>(bits));
                let (s0, s1) = (i16::from(s[2 * j]), i16::from(s[2 * j + 1]));
                for t in 0..T {
                    let x = x[t].add(64 * j).cast::<u8>();
                    acc[t] = L::mad_u(acc[t], low, L::load(x), s0);
                    acc[t] = L::mad_u(acc[t], high, L::load(x.add(32)), s1);
                }
            }
            (acc, sums.map(|sums| L::dot_mins(m, sums)))
        }
    }
}

impl Block for Q5K {
    const FORMAT: Format = Format::Q5K;
    const D: usize = 0;
    const MIN: Min = Min::Groups(2);

    #[inline(always)]
    unsafe fn dot<L: Lanes, const T: usize>(
        w: *const u8,
        x: [*const i8; T],
        sums: [*const i16; T],
    ) -> ([L::Acc; T], [L::Acc; T]) {
        // SAFETY: all offsets stay within one block.
        unsafe {
            let (s, m) = k4_scales_mins(&w.add(4).cast::<[u8; 12]>().read_unaligned());
            let (low4, one) = (L::splat(15), L::splat(1));
            let fifth = L::load(w.add(16));
            let mut acc = [L::zero(); T];
            for_four!(J, {
                let bits = L::load(w.add(48 + 32 * J));
                let top0 = L::shl::<4>(L::and(L::shr::<{ 2 * J as i32 }>(fifth), one));
                let top1 = L::shl::<4>(L::and(L::shr::<{ 2 * J as i32 + 1 }>(fifth), one));
                let (low, high) = (L::or(L::and(bits, low4), top0), L::or(L::shr::<4>(bits), top1));
                let (s0, s1) = (i16::from(s[2 * J]), i16::from(s[2 * J + 1]));
                for t in 0..T {
                    let x = x[t].add(64 * J).cast::<u8>();
                    acc[t] = L::mad_u(acc[t], low, L::load(x), s0);
                    acc[t] = L::mad_u(acc[t], high, L::load(x.add(32)), s1);
                }
            });
            (acc, sums.map(|sums| L::dot_mins(m, sums)))
        }
    }
}

impl Block for Q6K {
    const FORMAT: Format = Format::Q6K;
    const D: usize = 208;
    const MIN: Min = Min::None;

    #[inline(always)]
    unsafe fn dot<L: Lanes, const T: usize>(
        w: *const u8,
        x: [*const i8; T],
        _sums: [*const i16; T],
    ) -> ([L::Acc; T], [L::Acc; T]) {
        // SAFETY: all offsets stay within one block.
        unsafe {
            let s = w.add(192).cast::<[i8; 16]>().read_unaligned();
            let (low4, two_bits, offset) = (L::splat(15), L::splat(3), L::splat(32));
            let mut acc = [L::zero(); T];
            for half in 0..2 {
                let low = [L::load(w.add(64 * half)), L::load(w.add(64 * half + 32))];
                let high = L::load(w.add(128 + 32 * half));
                for_four!(J, {
                    let nibble = if J < 2 { L::and(low[J % 2], low4) } else { L::shr::<4>(low[J % 2]) };
                    let top = L::shl::<4>(L::and(L::shr::<{ 2 * J as i32 }>(high), two_bits));
                    let q = L::sub(L::or(nibble, top), offset);
                    let g = 8 * half + 2 * J;
                    let scales = [i16::from(s[g]), i16::from(s[g + 1])];
                    for t in 0..T {
                        acc[t] = L::mad2_i(acc[t], q, L::load(x[t].add(16 * g).cast()), scales);
                    }
                });
            }
            (acc, [L::zero(); T])
        }
    }
}

impl Block for Iq4Xs {
    const FORMAT: Format = Format::Iq4Xs;
    const D: usize = 0;
    const MIN: Min = Min::None;

    #[inline(always)]
    unsafe fn dot<L: Lanes, const T: usize>(
        w: *const u8,
        x: [*const i8; T],
        _sums: [*const i16; T],
    ) -> ([L::Acc; T], [L::Acc; T]) {
        // SAFETY: all offsets stay within one block.
        unsafe {
            let high = u16::from_le(w.add(2).cast::<u16>().read_unaligned());
            let low = u32::from_le(w.add(4).cast::<u32>().read_unaligned());
            let mut acc = [L::zero(); T];
            for g in 0..8 {
                let s = (low >> (4 * g)) as i16 & 15 | ((high >> (2 * g)) as i16 & 3) << 4;
                let q = L::lookup(&IQ4_VALUES, L::nibbles(w.add(8 + 16 * g)));
                for t in 0..T {
                    acc[t] = L::mad_i(acc[t], q, L::load(x[t].add(32 * g).cast()), s - 32);
                }
            }
            (acc, [L::zero(); T])
        }
    }
}
