//! How each format's scales lie within a block, for rows by eights (`panel`) and
//! for two rows or blocks; layouts in `quant/`.

use super::decode::Decode;
use super::k_quants::{Iq4Xs, Q2K, Q3K, Q4K, Q5K, Q6K};
use super::legacy::{Iq4Nl, Q4_0, Q4_1, Q5_0, Q5_1, Q8_0};
use super::matmul::{Block, Min};
use crate::kernels::lanes::{PanelLanes, TwoLanes};
use crate::quant::k3_scales;

/// Scales of eight rows' blocks, lane = row.
#[derive(Clone, Copy)]
pub(in crate::kernels) struct Eight<L: PanelLanes> {
    /// The block's `d` and the half-precision number after it, where
    /// [`Block::MIN`] has one.
    pub(super) d: (L::F, L::F),
    /// One per [`Decode::PER`] sixteens of weights.
    pub(super) s: [<L as PanelLanes>::S; 16],
    /// What meets the sums of activations.
    pub(super) m: [L::M; 8],
}

/// Scales of two blocks as 16-bit numbers, a block in each half: where
/// [`Decode::PER`] is 1 those of even sixteens, then those of odd ones; where it
/// is 2 all eight in the first vector.
pub(in crate::kernels) struct Two<L: TwoLanes> {
    /// What multiplies weights.
    pub(in crate::kernels) s: [L::B; 2],
    /// What meets the sums of activations.
    pub(in crate::kernels) m: [L::B; 2],
}

/// The scales of a format.
pub(in crate::kernels) trait Scaled: Decode {
    /// Of the blocks at `w`, each `stride` bytes from the last.
    ///
    /// # Safety
    /// Eight whole blocks; see [`PanelLanes`].
    unsafe fn eight<L: PanelLanes>(w: *const u8, stride: usize) -> Eight<L>;

    /// Of the blocks at `a` and `b`.
    ///
    /// # Safety
    /// Whole blocks; see [`TwoLanes`].
    unsafe fn two<L: TwoLanes>(a: *const u8, b: *const u8) -> Two<L>;
}

/// `d` of every row's block, and `m` after it where there is one.
#[inline(always)]
unsafe fn halves<L: PanelLanes, B: Block>(w: *const u8, stride: usize) -> (L::F, L::F) {
    // SAFETY: the caller has eight blocks.
    unsafe {
        if matches!(B::MIN, Min::Groups | Min::Block) {
            return L::f_two_halves(w.add(B::D), stride);
        }
        let d = L::f_halves(w.add(B::D), stride);
        (d, d)
    }
}

/// The four bytes of each of four vectors as scales.
macro_rules! sixteen {
    ($L:ident, $f:ident, $t:ident) => {
        sixteen!($L, $f, $t, 0 1 2 3)
    };
    ($L:ident, $f:ident, $t:ident, $($v:literal)*) => {{
        let four = [$([$L::$f::<0>($t[$v]), $L::$f::<1>($t[$v]), $L::$f::<2>($t[$v]), $L::$f::<3>($t[$v])]),*];
        let [a, b, c, d] = four;
        [a[0], a[1], a[2], a[3], b[0], b[1], b[2], b[3], c[0], c[1], c[2], c[3], d[0], d[1], d[2], d[3]]
    }};
}

/// Signed bytes of even sixteens by twos, then those of odd ones: as the sums
/// of activations lie.
#[inline(always)]
unsafe fn pairs<L: PanelLanes>(t: [L::B; 4]) -> [L::M; 8] {
    // SAFETY: the caller has the CPU features.
    unsafe {
        [
            L::m_pair::<0, 2>(t[0]),
            L::m_pair::<0, 2>(t[1]),
            L::m_pair::<0, 2>(t[2]),
            L::m_pair::<0, 2>(t[3]),
            L::m_pair::<1, 3>(t[0]),
            L::m_pair::<1, 3>(t[1]),
            L::m_pair::<1, 3>(t[2]),
            L::m_pair::<1, 3>(t[3]),
        ]
    }
}

/// Q4_K and Q5_K: the first 16 bytes of a block are d, dmin and twelve bytes
/// a, b, c by fours, of six-bit numbers (see `quant/k4.rs`).
macro_rules! k4 {
    ($name:ident) => {
        impl Scaled for $name {
            #[inline(always)]
            unsafe fn eight<L: PanelLanes>(w: *const u8, stride: usize) -> Eight<L> {
                // SAFETY: the caller has eight blocks.
                unsafe {
                    let [d, a, b, c] = L::columns(w, stride);
                    let (six, four, top) = (L::splat(0x3f), L::splat(0x0f), L::splat(0x30));
                    let s0 = L::and(a, six);
                    let s1 = L::or(L::and(c, four), L::and(L::shr::<2>(a), top));
                    let m0 = L::and(b, six);
                    let m1 = L::or(L::shr::<4>(c), L::and(L::shr::<2>(b), top));
                    let t = [s0, s1, s0, s1];
                    let (a, b) = (L::m_pair::<0, 1>(m0), L::m_pair::<2, 3>(m0));
                    let (c, e) = (L::m_pair::<0, 1>(m1), L::m_pair::<2, 3>(m1));
                    Eight { d: L::f_pairs(d), s: sixteen!(L, s_u, t), m: [a, b, c, e, a, b, c, e] }
                }
            }
            #[inline(always)]
            unsafe fn two<L: TwoLanes>(a: *const u8, b: *const u8) -> Two<L> {
                // SAFETY: the caller has two blocks.
                unsafe {
                    let (s, m) = L::six_bits(L::two(a, b));
                    Two { s: [s, s], m: [m, m] }
                }
            }
        }
    };
}
k4!(Q4K);
k4!(Q5K);

impl Scaled for Q6K {
    #[inline(always)]
    unsafe fn eight<L: PanelLanes>(w: *const u8, stride: usize) -> Eight<L> {
        // SAFETY: the caller has eight blocks.
        unsafe {
            let t = L::columns(w.add(192), stride);
            Eight { d: halves::<L, Self>(w, stride), s: sixteen!(L, s_i, t), m: pairs::<L>(t) }
        }
    }
    #[inline(always)]
    unsafe fn two<L: TwoLanes>(a: *const u8, b: *const u8) -> Two<L> {
        // SAFETY: the caller has two blocks.
        unsafe {
            let s = L::even_odd_i(L::two(a.add(192), b.add(192)));
            Two { s, m: s }
        }
    }
}

impl Scaled for Q2K {
    #[inline(always)]
    unsafe fn eight<L: PanelLanes>(w: *const u8, stride: usize) -> Eight<L> {
        // SAFETY: the caller has eight blocks.
        unsafe {
            let (mut s, mut m) = (L::columns(w, stride), L::columns(w, stride));
            for i in 0..4 {
                (s[i], m[i]) = (L::and(s[i], L::splat(15)), L::shr::<4>(m[i]));
            }
            Eight { d: halves::<L, Self>(w, stride), s: sixteen!(L, s_u, s), m: pairs::<L>(m) }
        }
    }
    #[inline(always)]
    unsafe fn two<L: TwoLanes>(a: *const u8, b: *const u8) -> Two<L> {
        // SAFETY: the caller has two blocks.
        unsafe {
            let v = L::two(a, b);
            Two { s: L::even_odd_i(L::and(v, L::splat(15))), m: L::even_odd_i(L::shr::<4>(v)) }
        }
    }
}

/// The scales of one block of Q3_K.
#[inline(always)]
unsafe fn k3(w: *const u8) -> [i8; 16] {
    // SAFETY: the caller has a block.
    unsafe { k3_scales(&w.add(96).cast::<[u8; 12]>().read_unaligned()) }
}

impl Scaled for Q3K {
    #[inline(always)]
    unsafe fn eight<L: PanelLanes>(w: *const u8, stride: usize) -> Eight<L> {
        // SAFETY: the caller has eight blocks.
        unsafe {
            let mut all = [[0i8; 16]; 8];
            for (r, all) in all.iter_mut().enumerate() {
                *all = k3(w.add(r * stride));
            }
            let t = L::columns(all.as_ptr().cast(), 16);
            Eight { d: halves::<L, Self>(w, stride), s: sixteen!(L, s_i, t), m: pairs::<L>(t) }
        }
    }
    #[inline(always)]
    unsafe fn two<L: TwoLanes>(a: *const u8, b: *const u8) -> Two<L> {
        // SAFETY: the caller has two blocks.
        unsafe {
            let (a, b) = (k3(a), k3(b));
            let s = L::even_odd_i(L::two(a.as_ptr().cast(), b.as_ptr().cast()));
            Two { s, m: s }
        }
    }
}

/// The eight scales of one block of IQ4_XS, and eight zeros.
#[inline(always)]
unsafe fn iq4(w: *const u8) -> [i8; 16] {
    // SAFETY: the caller has a block.
    let (high, low) =
        unsafe { (w.add(2).cast::<u16>().read_unaligned(), w.add(4).cast::<u32>().read_unaligned()) };
    let (high, low) = (u32::from(u16::from_le(high)), u32::from_le(low));
    let mut s = [0i8; 16];
    for (g, s) in s[..8].iter_mut().enumerate() {
        *s = ((low >> (4 * g)) & 15 | (high >> (2 * g) & 3) << 4) as i8 - 32;
    }
    s
}

impl Scaled for Iq4Xs {
    #[inline(always)]
    unsafe fn eight<L: PanelLanes>(w: *const u8, stride: usize) -> Eight<L> {
        // SAFETY: the caller has eight blocks.
        unsafe {
            let mut all = [[0i8; 16]; 8];
            for (r, all) in all.iter_mut().enumerate() {
                *all = iq4(w.add(r * stride));
            }
            let t = L::columns(all.as_ptr().cast(), 16);
            Eight { d: halves::<L, Self>(w, stride), s: sixteen!(L, s_i, t), m: pairs::<L>(t) }
        }
    }
    #[inline(always)]
    unsafe fn two<L: TwoLanes>(a: *const u8, b: *const u8) -> Two<L> {
        // SAFETY: the caller has two blocks.
        unsafe {
            let (a, b) = (iq4(a), iq4(b));
            let s = L::first_i(L::two(a.as_ptr().cast(), b.as_ptr().cast()));
            Two { s: [s, s], m: [s, s] }
        }
    }
}

/// Formats of one 32 a block have `d` and no other scales.
macro_rules! legacy {
    ($($name:ident)*) => {$(
        impl Scaled for $name {
            #[inline(always)]
            unsafe fn eight<L: PanelLanes>(w: *const u8, stride: usize) -> Eight<L> {
                // SAFETY: the caller has eight blocks; only `d` is read.
                unsafe {
                    let none = L::splat(0);
                    Eight {
                        d: halves::<L, Self>(w, stride),
                        s: [L::s_u::<0>(none); 16],
                        m: [L::m_pair::<0, 1>(none); 8],
                    }
                }
            }
            #[inline(always)]
            unsafe fn two<L: TwoLanes>(_a: *const u8, _b: *const u8) -> Two<L> {
                // SAFETY: the caller has the CPU features.
                let none = unsafe { [L::splat(0); 2] };
                Two { s: none, m: none }
            }
        }
    )*};
}
legacy!(Q4_0 Q4_1 Q5_0 Q5_1 Q8_0 Iq4Nl);
