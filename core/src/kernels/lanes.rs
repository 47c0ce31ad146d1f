//! The vector operations that kernels are written over.
//!
//! One generic function per job; one implementation of [`Lanes`] per
//! instruction set. The contract that gives the same bits everywhere:
//!
//! - Within a weight block everything is integer and exact, so the
//!   implementation may sum in any order and hold partial sums in any shape
//!   ([`Lanes::Acc`]) until [`Lanes::reduce8`].
//! - Between blocks everything is `f32` in eight lanes ([`Lanes::F`]), each
//!   operation rounded once, no fused multiply-add. A lane means the same
//!   element on every instruction set.
//!
//! Inlining contract: generic code and every method here are `unsafe` and
//! `#[inline(always)]` and name no CPU feature; `stamp!` wraps each
//! generic function in one that enables the features. So an implementation
//! must only be called under its features, which is the duty that holding a
//! [`super::Kernels`] discharges.
//!
//! # Safety
//! Every method may only be called when the CPU has the implementation's
//! features; pointer arguments must be readable (or writable) for the number
//! of elements that the method names, at any alignment.

use core::ops::Range;

use super::generic::matmul::{Block, Product, one_by_one};
use crate::quant::k4_scales_mins;

/// See the module's documentation.
#[allow(clippy::missing_safety_doc, reason = "one contract for all, in the module's documentation")]
pub(crate) trait Lanes: Copy + 'static {
    /// 32 bytes.
    type B: Copy;
    /// Partial `i32` sums of one block.
    type Acc: Copy;
    /// The scales of a block's groups.
    type S: Copy;
    /// Eight `i32`.
    type I: Copy;
    /// Eight `f32`.
    type F: Copy;

    /// Whether quantised activations lie by pairs of blocks, sixteen of one and
    /// sixteen of the other in turn, as [`PairLanes`] want them.
    const PAIRED: bool = false;

    /// Whether `one_token` is so good that several tokens do better with it, one
    /// after another, than with the weights decoded once for all.
    const TOKEN_BY_TOKEN: bool = false;

    /// Whether there are registers for the sums of two heads of attention.
    const PAIR_HEADS: bool = true;

    // Bytes.

    /// 32 bytes from memory.
    unsafe fn load(p: *const u8) -> Self::B;
    /// `v` 32 times.
    unsafe fn splat(v: u8) -> Self::B;
    /// Bitwise and.
    unsafe fn and(a: Self::B, b: Self::B) -> Self::B;
    /// Bitwise or.
    unsafe fn or(a: Self::B, b: Self::B) -> Self::B;
    /// Each byte shifted right, zeros in.
    unsafe fn shr<const N: i32>(a: Self::B) -> Self::B;
    /// Each byte shifted left, zeros in.
    unsafe fn shl<const N: i32>(a: Self::B) -> Self::B;
    /// The low nibbles of 16 bytes, then their high nibbles.
    unsafe fn nibbles(p: *const u8) -> Self::B;
    /// `table[i]` for each byte `i` below 16.
    unsafe fn lookup(table: &[i8; 16], i: Self::B) -> Self::B;
    /// The 32 bits of 4 bytes, bit `i` as 0 or 16 in byte `i`.
    unsafe fn bits16(p: *const u8) -> Self::B;

    // Integer dots. Weights `w`, activations `x` in -127..=127.

    /// No sum yet.
    unsafe fn zero() -> Self::Acc;
    /// `acc + Σ w·x`, with `w` in 0..=127.
    unsafe fn dot_u(acc: Self::Acc, w: Self::B, x: Self::B) -> Self::Acc;
    /// `acc + Σ w·x`, with `w` in -128..=127.
    unsafe fn dot_i(acc: Self::Acc, w: Self::B, x: Self::B) -> Self::Acc;
    /// The sum of 16 activations from memory.
    #[inline(always)]
    unsafe fn sum16(p: *const i8) -> i16 {
        // SAFETY: the caller gives 16 readable bytes.
        let q = unsafe { p.cast::<[i8; 16]>().read() };
        q.into_iter().map(i16::from).sum()
    }
    /// The signed scales of 16 groups of 16 weights, from memory.
    unsafe fn scales16(p: *const i8) -> Self::S;
    /// The signed scales of 8 groups of 32 weights, from memory: each counts
    /// for two groups of 16.
    unsafe fn scales8(p: *const i8) -> Self::S;
    /// The scales and the minimums of a block of Q4_K or Q5_K, from its start.
    #[inline(always)]
    unsafe fn scales_mins(block: *const u8) -> (Self::S, Self::S) {
        // SAFETY: the caller points at a block; its packed scales are bytes 4
        // to 16, and all six-bit numbers fit an `i8`.
        unsafe {
            let (s, m) = k4_scales_mins(&block.add(4).cast::<[u8; 12]>().read_unaligned());
            (Self::scales8(s.as_ptr().cast()), Self::scales8(m.as_ptr().cast()))
        }
    }
    /// `acc + s·Σ w·x`, with `w` in 0..=63 and `s` the scale of the `J`th 32
    /// weights, whose two groups have the same one.
    unsafe fn mad_u<const J: usize>(acc: Self::Acc, w: Self::B, x: Self::B, s: Self::S) -> Self::Acc;
    /// The same, with `w` in -127..=127.
    unsafe fn mad_i<const J: usize>(acc: Self::Acc, w: Self::B, x: Self::B, s: Self::S) -> Self::Acc;
    /// `acc + s₀·Σ(first 16) + s₁·Σ(last 16)`, with `w` in 0..=63 and the
    /// scales of the `J`th 32 weights' groups.
    unsafe fn mad2_u<const J: usize>(acc: Self::Acc, w: Self::B, x: Self::B, s: Self::S) -> Self::Acc;
    /// `Σ s·sum` over the 16 groups; `sums` holds those of even groups, then
    /// those of odd groups.
    unsafe fn dot_sums(s: Self::S, sums: *const i16) -> Self::Acc;
    /// `a - (b << N)`.
    unsafe fn less<const N: i32>(a: Self::Acc, b: Self::Acc) -> Self::Acc;
    /// Lane `i` is the whole sum of `parts[i]`.
    unsafe fn reduce8(parts: [Self::Acc; 8]) -> Self::I;
    /// `a - (sums << N)`, with eight `i16` from memory.
    unsafe fn i_less<const N: i32>(a: Self::I, sums: *const i16) -> Self::I;

    // Eight lanes of `f32`.

    /// `x` in every lane.
    unsafe fn f_splat(x: f32) -> Self::F;
    /// Eight `f32` from memory.
    unsafe fn f_load(p: *const f32) -> Self::F;
    /// Eight `f32` to memory.
    unsafe fn f_store(p: *mut f32, a: Self::F);
    /// Sum.
    unsafe fn f_add(a: Self::F, b: Self::F) -> Self::F;
    /// Difference.
    unsafe fn f_sub(a: Self::F, b: Self::F) -> Self::F;
    /// Product.
    unsafe fn f_mul(a: Self::F, b: Self::F) -> Self::F;
    /// Quotient.
    unsafe fn f_div(a: Self::F, b: Self::F) -> Self::F;
    /// `if a > b { a } else { b }`, which settles what becomes of a NaN.
    unsafe fn f_max(a: Self::F, b: Self::F) -> Self::F;
    /// `if a < b { a } else { b }`.
    unsafe fn f_min(a: Self::F, b: Self::F) -> Self::F;
    /// Sign bit cleared.
    unsafe fn f_abs(a: Self::F) -> Self::F;
    /// Zero where `x < limit`, else `v`, also where `x` is a NaN.
    unsafe fn f_zero_lt(x: Self::F, limit: Self::F, v: Self::F) -> Self::F;
    /// `(bits << 23) + bits(1.0)`: 2ⁿ where `a` is `n + 1.5·2²³`.
    unsafe fn f_pow2(a: Self::F) -> Self::F;
    /// `((a0+a4)+(a2+a6)) + ((a1+a5)+(a3+a7))`.
    unsafe fn f_sum(a: Self::F) -> f32;
    /// The sums of four vectors, each as `f_sum` has it.
    #[inline(always)]
    unsafe fn f_sums(a: [Self::F; 4], out: *mut f32) {
        for (i, a) in a.into_iter().enumerate() {
            // SAFETY: there is room for four.
            unsafe { out.add(i).write(Self::f_sum(a)) }
        }
    }
    /// The lanes as numbers.
    unsafe fn f_from_i(a: Self::I) -> Self::F;
    /// Eight `i16` from memory.
    unsafe fn f_from_i16(p: *const i16) -> Self::F;
    /// Eight half-precision numbers from memory.
    unsafe fn f_from_f16(p: *const u16) -> Self::F;
    /// Eight bfloat16 numbers from memory.
    unsafe fn f_from_bf16(p: *const u16) -> Self::F;
    /// Eight half-precision numbers to memory, rounded to nearest even.
    unsafe fn f_to_f16(p: *mut u16, a: Self::F);
    /// Eight `i8` to memory, rounded to nearest even; lanes round to -127..=127.
    unsafe fn f_to_i8(p: *mut i8, a: Self::F);

    /// The half-precision numbers at `p` and 2 bytes further, each `stride`
    /// bytes from the last, eight times.
    #[inline(always)]
    unsafe fn f_two_halves(p: *const u8, stride: usize) -> (Self::F, Self::F) {
        // SAFETY: the caller points at eight such pairs.
        unsafe { (Self::f_halves(p, stride), Self::f_halves(p.add(2), stride)) }
    }
    /// The half-precision numbers at `p`, each `stride` bytes from the last,
    /// eight times.
    #[inline(always)]
    unsafe fn f_halves(p: *const u8, stride: usize) -> Self::F {
        let mut h = [0u16; 8];
        // SAFETY: the caller points at eight such numbers; `h` holds eight.
        unsafe {
            for (i, h) in h.iter_mut().enumerate() {
                *h = p.add(i * stride).cast::<u16>().read_unaligned();
            }
            Self::f_from_f16(h.as_ptr())
        }
    }

    /// Rows `rows` of `p` with token `t` alone: all that decoding does. An
    /// implementation may have its own way of it.
    #[inline(always)]
    unsafe fn one_token<B: Block>(p: &Product, rows: Range<usize>, t: usize) {
        // SAFETY: the caller's promise, passed on.
        unsafe { one_by_one::<Self, B>(p, rows, t) }
    }

    /// Asks for the cache line at `p`, which need not be mapped.
    #[inline(always)]
    unsafe fn prefetch(_p: *const u8) {}
}

/// The operations of kernels whose 32-bit lanes are eight rows of weights
/// (`generic/panel.rs`).
///
/// # Safety
/// As for [`Lanes`].
#[allow(clippy::missing_safety_doc, reason = "one contract for all, in the module's documentation")]
#[cfg_attr(
    not(target_arch = "x86_64"),
    allow(dead_code, reason = "so far x86 alone takes several rows or blocks at once")
)]
pub(crate) trait PanelLanes: Lanes {
    /// Tokens whose sums fit the registers, with two panels: 2 or 4.
    const TILE: usize;
    /// One scale for each row.
    type S: Copy;
    /// Two numbers for each row.
    type M: Copy;

    /// Asks for the cache line at `p`, which need not be mapped, to come near,
    /// but not into the first cache.
    unsafe fn prefetch_later(p: *const u8);

    /// 16 bytes of each of eight rows, `stride` bytes apart: vector `i` has the
    /// bytes 4i..4i + 4 of every row.
    unsafe fn columns(p: *const u8, stride: usize) -> [Self::B; 4];
    /// Byte `I` of each row, below 128, as a scale.
    unsafe fn s_u<const I: i32>(t: Self::B) -> <Self as PanelLanes>::S;
    /// Byte `I` of each row, signed, as a scale.
    unsafe fn s_i<const I: i32>(t: Self::B) -> <Self as PanelLanes>::S;
    /// Bytes `I` and `J` of each row, signed.
    unsafe fn m_pair<const I: i32, const J: i32>(t: Self::B) -> Self::M;
    /// Both half-precision numbers in the 4 bytes of each row.
    unsafe fn f_pairs(t: Self::B) -> (Self::F, Self::F);
    /// Of 32 bits of each of eight rows, bit `i` as 16 on weight `i`: the first
    /// sixteen, then the others.
    unsafe fn column_bits(p: *const u8, stride: usize) -> ([Self::B; 4], [Self::B; 4]);

    /// `sum + s·Σ w·x` over sixteen weights of `P` panels and as many
    /// activations of `T` tokens: weights below 2ᵇⁱᵗˢ, with `bits` 4, 5 or 6, or
    /// signed where it is 8. For 4 bits scales are from `s_u`.
    unsafe fn dot16<const P: usize, const T: usize>(
        bits: u32,
        sum: [[Self::I; T]; P],
        w: [[Self::B; 4]; P],
        x: [*const i8; T],
        s: [<Self as PanelLanes>::S; P],
    ) -> [[Self::I; T]; P];
    /// `sum + Σ w·x`, with `bits` 4, 5 or 8 as above.
    unsafe fn plain16<const P: usize, const T: usize>(
        bits: u32,
        sum: [[Self::I; T]; P],
        w: [[Self::B; 4]; P],
        x: [*const i8; T],
    ) -> [[Self::I; T]; P];
    /// `Σ m·sum` over sixteen sums, which lie as `m`'s pairs do.
    unsafe fn sums16(m: &[Self::M; 8], sums: *const i16) -> Self::I;
    /// `Σ m·(sum + sum 8 further)` over eight, with the first four pairs.
    unsafe fn sums8(m: &[Self::M; 8], sums: *const i16) -> Self::I;

    /// Zero in every lane.
    unsafe fn i_zero() -> Self::I;
    /// `v` in every lane.
    unsafe fn i_splat(v: i32) -> Self::I;
    /// Difference.
    unsafe fn i_sub(a: Self::I, b: Self::I) -> Self::I;
    /// Each lane shifted left.
    unsafe fn i_shl(a: Self::I, n: u32) -> Self::I;
}

/// The operations that read the scales of two blocks, one in each half of a
/// vector (`generic/scales.rs`).
///
/// # Safety
/// As for [`Lanes`].
#[allow(clippy::missing_safety_doc, reason = "one contract for all, in the module's documentation")]
#[cfg_attr(
    not(any(target_arch = "x86_64", target_arch = "aarch64")),
    allow(dead_code, reason = "only some take several rows or blocks at once")
)]
pub(crate) trait TwoLanes: Lanes {
    /// 16 bytes at `a`, then 16 at `b`.
    unsafe fn two(a: *const u8, b: *const u8) -> Self::B;
    /// The eight scales and eight minimums in the first 16 bytes of blocks of
    /// Q4_K or Q5_K, as `i16`.
    unsafe fn six_bits(v: Self::B) -> (Self::B, Self::B);
    /// Bytes with even numbers as `i16`, then those with odd ones.
    unsafe fn even_odd_i(v: Self::B) -> [Self::B; 2];
    /// The first eight bytes of each half as `i16`.
    unsafe fn first_i(v: Self::B) -> Self::B;
}

/// The operations of kernels that hold a block in each half of a vector
/// (`generic/pair.rs`).
///
/// # Safety
/// As for [`Lanes`].
#[allow(clippy::missing_safety_doc, reason = "one contract for all, in the module's documentation")]
#[cfg_attr(
    not(target_arch = "x86_64"),
    allow(dead_code, reason = "so far x86 alone takes several blocks of a row at once")
)]
pub(crate) trait PairLanes: TwoLanes {
    /// A scale of each block.
    type P: Copy;

    /// The first 16 of 32 bytes at `a` and at `b`, then the others.
    unsafe fn two_wide(a: *const u8, b: *const u8) -> (Self::B, Self::B);
    /// Of 32 bits at `a` and at `b`, bit `i` as 16 on weight `i`: the first
    /// sixteen of both, then the others.
    unsafe fn two_bits(a: *const u8, b: *const u8) -> (Self::B, Self::B);
    /// The `i`th of eight `i16` of each half as the scale of weights of `bits`
    /// (see [`PanelLanes::dot16`]).
    unsafe fn pair_scale(bits: u32, v: Self::B, i: usize) -> Self::P;

    /// `acc + s·Σ w·x` over sixteen weights of each block; `x` has sixteen
    /// activations of one, then of the other.
    unsafe fn pair16(bits: u32, acc: Self::Acc, w: Self::B, x: *const i8, s: Self::P) -> Self::Acc;
    /// The same over 32 weights.
    unsafe fn pair32(bits: u32, acc: Self::Acc, w: [Self::B; 2], x: *const i8, s: Self::P) -> Self::Acc;
    /// `acc + Σ w·x` over 32 weights.
    unsafe fn pair_plain(bits: u32, acc: Self::Acc, w: [Self::B; 2], x: *const i8) -> Self::Acc;
    /// `Σ m·(sum + sum 8 further)` over eight, with sums of each block.
    unsafe fn pair_sums8(m: Self::B, sums: [*const i16; 2]) -> Self::Acc;
    /// `Σ m·sum` over sixteen, with the `m` of even ones first.
    unsafe fn pair_sums16(m: [Self::B; 2], sums: [*const i16; 2]) -> Self::Acc;
    /// Lane `2i` is the whole sum of the first half of `parts[i]`, lane `2i + 1`
    /// that of the second.
    unsafe fn pair_reduce(parts: [Self::Acc; 4]) -> Self::I;
}
