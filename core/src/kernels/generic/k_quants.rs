//! Integer dots of the 256-weight formats; layouts in `quant/k*.rs`, `iq4.rs`.

use super::matmul::{Block, Min};
use crate::kernels::lanes::Lanes;
use crate::quant::{Format, IQ4_VALUES, k3_scales};

pub(in crate::kernels) struct Q2K;
pub(in crate::kernels) struct Q3K;
pub(in crate::kernels) struct Q4K;
pub(in crate::kernels) struct Q5K;
pub(in crate::kernels) struct Q6K;
pub(in crate::kernels) struct Iq4Xs;

/// Runs `$body` with the constants `$j` bound to 0, 1, 2, 3 in turn: shifts and
/// lanes need constants.
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

/// The activations of the `j`th 32 weights.
#[inline(always)]
unsafe fn load<L: Lanes>(x: *const i8, j: usize) -> L::B {
    // SAFETY: the caller points at a block of 256.
    unsafe { L::load(x.add(32 * j).cast()) }
}

impl Block for Q2K {
    const FORMAT: Format = Format::Q2K;
    const D: usize = 80;
    const MIN: Min = Min::Groups;

    #[inline(always)]
    unsafe fn dot<L: Lanes, const T: usize>(
        w: *const u8,
        x: [*const i8; T],
        sums: [*const i16; T],
    ) -> ([L::Acc; T], [L::Acc; T]) {
        // SAFETY: all offsets stay within one block.
        unsafe {
            let packed = w.cast::<[u8; 16]>().read_unaligned();
            let s = L::scales16(packed.map(|p| (p & 15) as i8).as_ptr());
            let m = L::scales16(packed.map(|p| (p >> 4) as i8).as_ptr());
            let three = L::splat(3);
            let mut acc = [L::zero(); T];
            macro_rules! half {
                ($half:literal) => {{
                    let bits = L::load(w.add(16 + 32 * $half));
                    for_four!(J, {
                        const AT: usize = 4 * $half + J;
                        let q = L::and(L::shr::<{ 2 * J as i32 }>(bits), three);
                        for t in 0..T {
                            acc[t] = L::mad2_u::<AT>(acc[t], q, load::<L>(x[t], AT), s);
                        }
                    });
                }};
            }
            half!(0);
            half!(1);
            (acc, sums.map(|sums| L::dot_sums(m, sums)))
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
        sums: [*const i16; T],
    ) -> ([L::Acc; T], [L::Acc; T]) {
        // SAFETY: all offsets stay within one block.
        unsafe {
            let s = L::scales16(k3_scales(&w.add(96).cast::<[u8; 12]>().read_unaligned()).as_ptr());
            let (one, three) = (L::splat(1), L::splat(3));
            let high = L::load(w);
            let mut acc = [L::zero(); T];
            macro_rules! half {
                ($half:literal) => {{
                    let bits = L::load(w.add(32 + 32 * $half));
                    for_four!(J, {
                        const AT: usize = 4 * $half + J;
                        let low = L::and(L::shr::<{ 2 * J as i32 }>(bits), three);
                        let q = L::or(low, L::shl::<2>(L::and(L::shr::<{ AT as i32 }>(high), one)));
                        for t in 0..T {
                            acc[t] = L::mad2_u::<AT>(acc[t], q, load::<L>(x[t], AT), s);
                        }
                    });
                }};
            }
            half!(0);
            half!(1);
            (less_offset::<L, T, 2>(acc, s, sums), [L::zero(); T])
        }
    }
}

/// Takes the formats' constant offset of 2ᴺ off every weight: off the sums, all
/// at once, rather than off each weight.
#[inline(always)]
unsafe fn less_offset<L: Lanes, const T: usize, const N: i32>(
    acc: [L::Acc; T],
    s: L::S,
    sums: [*const i16; T],
) -> [L::Acc; T] {
    let mut acc = acc;
    for t in 0..T {
        // SAFETY: the caller points at a block's sums.
        acc[t] = unsafe { L::less::<N>(acc[t], L::dot_sums(s, sums[t])) };
    }
    acc
}

impl Block for Q4K {
    const FORMAT: Format = Format::Q4K;
    const D: usize = 0;
    const MIN: Min = Min::Groups;

    #[inline(always)]
    unsafe fn dot<L: Lanes, const T: usize>(
        w: *const u8,
        x: [*const i8; T],
        sums: [*const i16; T],
    ) -> ([L::Acc; T], [L::Acc; T]) {
        // SAFETY: all offsets stay within one block.
        unsafe {
            let (s, m) = L::scales_mins(w);
            let low4 = L::splat(15);
            let mut acc = [L::zero(); T];
            for_four!(J, {
                const LOW: usize = 2 * J;
                const HIGH: usize = 2 * J + 1;
                let bits = L::load(w.add(16 + 32 * J));
                let (low, high) = (L::and(bits, low4), L::shr::<4>(bits));
                for t in 0..T {
                    acc[t] = L::mad_u::<LOW>(acc[t], low, load::<L>(x[t], LOW), s);
                    acc[t] = L::mad_u::<HIGH>(acc[t], high, load::<L>(x[t], HIGH), s);
                }
            });
            (acc, sums.map(|sums| L::dot_sums(m, sums)))
        }
    }
}

impl Block for Q5K {
    const FORMAT: Format = Format::Q5K;
    const D: usize = 0;
    const MIN: Min = Min::Groups;

    #[inline(always)]
    unsafe fn dot<L: Lanes, const T: usize>(
        w: *const u8,
        x: [*const i8; T],
        sums: [*const i16; T],
    ) -> ([L::Acc; T], [L::Acc; T]) {
        // SAFETY: all offsets stay within one block.
        unsafe {
            let (s, m) = L::scales_mins(w);
            let (low4, one) = (L::splat(15), L::splat(1));
            let fifth = L::load(w.add(16));
            let mut acc = [L::zero(); T];
            for_four!(J, {
                const LOW: usize = 2 * J;
                const HIGH: usize = 2 * J + 1;
                let bits = L::load(w.add(48 + 32 * J));
                let top0 = L::shl::<4>(L::and(L::shr::<{ LOW as i32 }>(fifth), one));
                let top1 = L::shl::<4>(L::and(L::shr::<{ HIGH as i32 }>(fifth), one));
                let (low, high) = (L::or(L::and(bits, low4), top0), L::or(L::shr::<4>(bits), top1));
                for t in 0..T {
                    acc[t] = L::mad_u::<LOW>(acc[t], low, load::<L>(x[t], LOW), s);
                    acc[t] = L::mad_u::<HIGH>(acc[t], high, load::<L>(x[t], HIGH), s);
                }
            });
            (acc, sums.map(|sums| L::dot_sums(m, sums)))
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
        sums: [*const i16; T],
    ) -> ([L::Acc; T], [L::Acc; T]) {
        // SAFETY: all offsets stay within one block.
        unsafe {
            let s = L::scales16(w.add(192).cast());
            let (low4, top2) = (L::splat(15), L::splat(0x30));
            let mut acc = [L::zero(); T];
            macro_rules! half {
                ($half:literal) => {{
                    let low = [L::load(w.add(64 * $half)), L::load(w.add(64 * $half + 32))];
                    let high = L::load(w.add(128 + 32 * $half));
                    for_four!(J, {
                        const AT: usize = 4 * $half + J;
                        let nibble = if J < 2 { L::and(low[J % 2], low4) } else { L::shr::<4>(low[J % 2]) };
                        // The pair of bits J, moved to bits 4 and 5.
                        let top = match J {
                            0 => L::shl::<4>(high),
                            1 => L::shl::<2>(high),
                            2 => high,
                            _ => L::shr::<2>(high),
                        };
                        let q = L::or(nibble, L::and(top, top2));
                        for t in 0..T {
                            acc[t] = L::mad2_u::<AT>(acc[t], q, load::<L>(x[t], AT), s);
                        }
                    });
                }};
            }
            half!(0);
            half!(1);
            (less_offset::<L, T, 5>(acc, s, sums), [L::zero(); T])
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
            let mut scales = [0i8; 8];
            for (g, s) in scales.iter_mut().enumerate() {
                *s = ((low >> (4 * g)) & 15 | (u32::from(high) >> (2 * g) & 3) << 4) as i8 - 32;
            }
            let s = L::scales8(scales.as_ptr());
            let mut acc = [L::zero(); T];
            for_four!(J, {
                const LOW: usize = 2 * J;
                const HIGH: usize = 2 * J + 1;
                let low = L::lookup(&IQ4_VALUES, L::nibbles(w.add(8 + 16 * LOW)));
                let high = L::lookup(&IQ4_VALUES, L::nibbles(w.add(8 + 16 * HIGH)));
                for t in 0..T {
                    acc[t] = L::mad_i::<LOW>(acc[t], low, load::<L>(x[t], LOW), s);
                    acc[t] = L::mad_i::<HIGH>(acc[t], high, load::<L>(x[t], HIGH), s);
                }
            });
            (acc, [L::zero(); T])
        }
    }
}
