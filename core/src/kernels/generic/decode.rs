//! How each format's bytes become weights, sixteen at a time, whatever vectors
//! hold them; layouts in `quant/`.
//!
//! A [`Source`] gives sixteen bytes of several rows as `N` vectors; the same
//! shifts and masks make weights of them, which a [`Sink`] takes. So a format is
//! read in one place, for one token and two rows as for many tokens and eight
//! rows.

use super::k_quants::{Iq4Xs, Q2K, Q3K, Q4K, Q5K, Q6K};
use super::legacy::{Iq4Nl, Q4_0, Q4_1, Q5_0, Q5_1, Q8_0};
use super::matmul::Block;
use crate::kernels::lanes::Lanes;
use crate::quant::IQ4_VALUES;

/// Gives bytes of the rows' blocks.
pub(in crate::kernels) trait Source<L: Lanes, const N: usize> {
    /// The sixteen bytes `at` and on of every row's block.
    ///
    /// # Safety
    /// They lie within the block; see [`Lanes`].
    unsafe fn bytes(&self, at: usize) -> [L::B; N];

    /// The 32 bytes `at` and on, as two times sixteen.
    ///
    /// # Safety
    /// As for [`Source::bytes`].
    unsafe fn wide(&self, at: usize) -> [[L::B; N]; 2];

    /// Of the 32 bits at byte `at` of every row's block, bit `i` as 16 on
    /// weight `i`: the first sixteen, then the others.
    ///
    /// # Safety
    /// As for [`Source::bytes`].
    unsafe fn bits(&self, at: usize) -> ([L::B; N], [L::B; N]);
}

/// Takes decoded weights. A trait rather than a closure, which would not have
/// the CPU features of the function that it ends up in.
pub(in crate::kernels) trait Sink<L: Lanes, const N: usize> {
    /// The sixteen weights `h` of a block.
    ///
    /// # Safety
    /// `h` is within the block; see [`Lanes`].
    unsafe fn sixteen(&mut self, h: usize, w: [L::B; N]);

    /// The 32 weights `g` of a block, which share a scale.
    ///
    /// # Safety
    /// As for [`Sink::sixteen`].
    unsafe fn both(&mut self, g: usize, w: [[L::B; N]; 2]);
}

/// How a format's weights are to be multiplied.
pub(in crate::kernels) trait Decode: Block {
    /// Weights are below 2 to this; 8 where they are signed.
    const BITS: u32;
    /// Sixteens of weights that share a scale: 1, or 2, or 0 where a block has
    /// no scales within.
    const PER: usize;
    /// Whether what every sixteen's scale multiplies is 2 to this too much,
    /// which sums of activations take off.
    const OFFSET: Option<u32> = None;

    /// Gives `sink` all weights of the blocks.
    ///
    /// # Safety
    /// See [`Lanes`].
    unsafe fn decode<L: Lanes, const N: usize>(w: &impl Source<L, N>, sink: &mut impl Sink<L, N>);
}

/// The same operation on `N` vectors.
macro_rules! on_each {
    ($($name:ident($($a:ident),*) $(<$K:ident>)? = $body:expr;)*) => {$(
        #[inline(always)]
        unsafe fn $name<L: Lanes, const N: usize $(, const $K: i32)?>(v: [L::B; N], $($a: L::B),*) -> [L::B; N] {
            let mut v = v;
            for v in &mut v {
                // SAFETY: the caller has the CPU features.
                *v = unsafe { $body(*v, $($a),*) };
            }
            v
        }
    )*};
}
on_each! {
    and(mask) = L::and;
    shr()<K> = L::shr::<K>;
    shl()<K> = L::shl::<K>;
    iq4() = iq4_one::<L>;
}

#[inline(always)]
unsafe fn iq4_one<L: Lanes>(i: L::B) -> L::B {
    // SAFETY: the caller has the CPU features.
    unsafe { L::lookup(&IQ4_VALUES, i) }
}

#[inline(always)]
unsafe fn or<L: Lanes, const N: usize>(v: [L::B; N], w: [L::B; N]) -> [L::B; N] {
    let mut v = v;
    for i in 0..N {
        // SAFETY: the caller has the CPU features.
        v[i] = unsafe { L::or(v[i], w[i]) };
    }
    v
}

impl Decode for Q4K {
    const BITS: u32 = 4;
    const PER: usize = 2;

    #[inline(always)]
    unsafe fn decode<L: Lanes, const N: usize>(w: &impl Source<L, N>, sink: &mut impl Sink<L, N>) {
        // SAFETY: offsets stay within a block.
        unsafe {
            let low4 = L::splat(15);
            for j in 0..4 {
                // 32 bytes: low nibbles of one 32, high ones of the next.
                let [a, b] = w.wide(16 + 32 * j);
                sink.both(2 * j, [and::<L, N>(a, low4), and::<L, N>(b, low4)]);
                sink.both(2 * j + 1, [shr::<L, N, 4>(a), shr::<L, N, 4>(b)]);
            }
        }
    }
}

impl Decode for Q5K {
    const BITS: u32 = 5;
    const PER: usize = 2;

    #[inline(always)]
    unsafe fn decode<L: Lanes, const N: usize>(w: &impl Source<L, N>, sink: &mut impl Sink<L, N>) {
        // SAFETY: offsets stay within a block.
        unsafe {
            let (low4, top) = (L::splat(15), L::splat(16));
            // Bit j of a byte is the fifth bit of a weight of the jth 32.
            let mut fifth = w.wide(16);
            for j in 0..4 {
                let v = w.wide(48 + 32 * j);
                let (mut low, mut high) = (v, v);
                for i in 0..2 {
                    let bit = and::<L, N>(shl::<L, N, 4>(fifth[i]), top);
                    low[i] = or::<L, N>(and::<L, N>(v[i], low4), bit);
                    let bit = and::<L, N>(shl::<L, N, 3>(fifth[i]), top);
                    high[i] = or::<L, N>(shr::<L, N, 4>(v[i]), bit);
                    fifth[i] = shr::<L, N, 2>(fifth[i]);
                }
                sink.both(2 * j, low);
                sink.both(2 * j + 1, high);
            }
        }
    }
}

impl Decode for Q6K {
    const BITS: u32 = 6;
    const PER: usize = 1;
    const OFFSET: Option<u32> = Some(5);

    #[inline(always)]
    unsafe fn decode<L: Lanes, const N: usize>(w: &impl Source<L, N>, sink: &mut impl Sink<L, N>) {
        // SAFETY: offsets stay within a block.
        unsafe {
            let (low4, top) = (L::splat(15), L::splat(0x30));
            for half in 0..2 {
                // The high bits of a byte serve four 32s, the low ones two.
                let high = w.wide(128 + 32 * half);
                let (a, b) = (w.wide(64 * half), w.wide(64 * half + 32));
                for q in 0..2 {
                    let (high, a, b, at) = (high[q], a[q], b[q], 8 * half + q);
                    let bits = and::<L, N>(shl::<L, N, 4>(high), top);
                    sink.sixteen(at, or::<L, N>(and::<L, N>(a, low4), bits));
                    let bits = and::<L, N>(shl::<L, N, 2>(high), top);
                    sink.sixteen(at + 2, or::<L, N>(and::<L, N>(b, low4), bits));
                    sink.sixteen(at + 4, or::<L, N>(shr::<L, N, 4>(a), and::<L, N>(high, top)));
                    let bits = and::<L, N>(shr::<L, N, 2>(high), top);
                    sink.sixteen(at + 6, or::<L, N>(shr::<L, N, 4>(b), bits));
                }
            }
        }
    }
}

impl Decode for Q2K {
    const BITS: u32 = 4;
    const PER: usize = 1;

    #[inline(always)]
    unsafe fn decode<L: Lanes, const N: usize>(w: &impl Source<L, N>, sink: &mut impl Sink<L, N>) {
        // SAFETY: offsets stay within a block.
        unsafe {
            let three = L::splat(3);
            for q in 0..4 {
                let v = w.bytes(16 + 16 * q);
                let at = 8 * (q / 2) + q % 2;
                sink.sixteen(at, and::<L, N>(v, three));
                sink.sixteen(at + 2, and::<L, N>(shr::<L, N, 2>(v), three));
                sink.sixteen(at + 4, and::<L, N>(shr::<L, N, 4>(v), three));
                sink.sixteen(at + 6, shr::<L, N, 6>(v));
            }
        }
    }
}

impl Decode for Q3K {
    // Three bits, but signed scales.
    const BITS: u32 = 5;
    const PER: usize = 1;
    const OFFSET: Option<u32> = Some(2);

    #[inline(always)]
    unsafe fn decode<L: Lanes, const N: usize>(w: &impl Source<L, N>, sink: &mut impl Sink<L, N>) {
        // SAFETY: offsets stay within a block.
        unsafe {
            let (three, top) = (L::splat(3), L::splat(4));
            for q in 0..2 {
                // Bit j of a byte is the third bit of a weight of the jth 32.
                let mut third = w.bytes(16 * q);
                for half in 0..2 {
                    let v = w.bytes(32 + 32 * half + 16 * q);
                    let at = 8 * half + q;
                    let bits = and::<L, N>(shl::<L, N, 2>(third), top);
                    sink.sixteen(at, or::<L, N>(and::<L, N>(v, three), bits));
                    let bits = and::<L, N>(shl::<L, N, 1>(third), top);
                    sink.sixteen(at + 2, or::<L, N>(and::<L, N>(shr::<L, N, 2>(v), three), bits));
                    let bits = and::<L, N>(third, top);
                    sink.sixteen(at + 4, or::<L, N>(and::<L, N>(shr::<L, N, 4>(v), three), bits));
                    let bits = and::<L, N>(shr::<L, N, 1>(third), top);
                    sink.sixteen(at + 6, or::<L, N>(shr::<L, N, 6>(v), bits));
                    third = shr::<L, N, 4>(third);
                }
            }
        }
    }
}

impl Decode for Iq4Xs {
    const BITS: u32 = 8;
    const PER: usize = 2;

    #[inline(always)]
    unsafe fn decode<L: Lanes, const N: usize>(w: &impl Source<L, N>, sink: &mut impl Sink<L, N>) {
        // SAFETY: offsets stay within a block.
        unsafe {
            let low4 = L::splat(15);
            for g in 0..8 {
                let v = w.bytes(8 + 16 * g);
                sink.both(g, [iq4::<L, N>(and::<L, N>(v, low4)), iq4::<L, N>(shr::<L, N, 4>(v))]);
            }
        }
    }
}

/// Formats of one 32 a block, whose nibbles may get a fifth bit.
macro_rules! legacy {
    ($name:ident, $bits:literal, |$w:ident, $L:ident, $N:ident| $decode:expr) => {
        impl Decode for $name {
            const BITS: u32 = $bits;
            const PER: usize = 0;

            #[inline(always)]
            unsafe fn decode<$L: Lanes, const $N: usize>(
                $w: &impl Source<$L, $N>,
                sink: &mut impl Sink<$L, $N>,
            ) {
                // SAFETY: offsets stay within a block.
                unsafe { sink.both(0, $decode) }
            }
        }
    };
}

/// Low nibbles of sixteen bytes, then the high ones.
#[inline(always)]
unsafe fn nibbles<L: Lanes, const N: usize>(v: [L::B; N]) -> [[L::B; N]; 2] {
    // SAFETY: the caller has the CPU features.
    unsafe { [and::<L, N>(v, L::splat(15)), shr::<L, N, 4>(v)] }
}

/// Nibbles at `at` with the fifth bits at `bits`.
#[inline(always)]
unsafe fn five<L: Lanes, const N: usize>(w: &impl Source<L, N>, at: usize, bits: usize) -> [[L::B; N]; 2] {
    // SAFETY: the caller's promise.
    unsafe {
        let ([a, b], (c, d)) = (nibbles::<L, N>(w.bytes(at)), w.bits(bits));
        [or::<L, N>(a, c), or::<L, N>(b, d)]
    }
}

legacy!(Q4_0, 4, |w, L, N| nibbles::<L, N>(w.bytes(2)));
legacy!(Q4_1, 4, |w, L, N| nibbles::<L, N>(w.bytes(4)));
legacy!(Q5_0, 5, |w, L, N| five::<L, N>(w, 6, 2));
legacy!(Q5_1, 5, |w, L, N| five::<L, N>(w, 8, 4));
legacy!(Q8_0, 8, |w, L, N| w.wide(2));
legacy!(Iq4Nl, 8, |w, L, N| {
    let [a, b] = nibbles::<L, N>(w.bytes(2));
    [iq4::<L, N>(a), iq4::<L, N>(b)]
});
