//! NEON with ARMv8.6 matrix products of bytes: `smmla` multiplies two rows of
//! eight weights with eight activations of two tokens. It takes two tokens to
//! serve, so a token alone, and all that is not a product of quantised weights,
//! is left to the dot products.

use core::arch::aarch64::*;
use core::ops::Range;

use super::blocks::Unpack;
use super::dotprod::{self, Dotprod};
use super::squares;
use crate::kernels::generic::k_quants::{Iq4Xs, Q2K, Q3K, Q4K, Q5K, Q6K};
use crate::kernels::generic::legacy::{Iq4Nl, Q4_0, Q4_1, Q5_0, Q5_1, Q8_0};
use crate::kernels::generic::matmul::{Operand, Product};
use crate::kernels::generic::scales::Scaled;
use crate::kernels::lanes::TwoLanes;
use crate::kernels::{Isa, Table};
use crate::quant::Format;

/// The table of this instruction set.
pub(in crate::kernels) static KERNELS: Table = {
    let mut matmul = dotprod::TABLE.matmul;
    macro_rules! quantised {
        ($($format:ident)*) => {$( matmul[Format::$format.index()] = quant::<$format>; )*};
    }
    quantised!(Q4_0 Q4_1 Q5_0 Q5_1 Q8_0 Q2K Q3K Q4K Q5K Q6K Iq4Nl Iq4Xs);
    Table { isa: Isa::I8mm, matmul, ..dotprod::TABLE }
};

/// Rows `rows` of the product `p`, for weights in the format `Q`: tokens by twos,
/// a last odd one alone.
#[target_feature(enable = "neon,dotprod,i8mm")]
unsafe fn quant<Q: Scaled>(p: &Product, rows: Range<usize>) {
    let alone = const { dotprod::TABLE.matmul[Q::FORMAT.index()] };
    // SAFETY: the caller of a table's function keeps its contract, and whoever
    // has these features has dot products.
    unsafe {
        if p.x.tokens == 1 {
            return alone(p, rows);
        }
        let done = squares::several::<Q>(p, rows.clone());
        if done < p.x.tokens {
            alone(&after(p, done), rows);
        }
    }
}

/// The product `p` without its first `n` tokens.
///
/// # Safety
/// There are more.
unsafe fn after(p: &Product, n: usize) -> Product {
    let Operand { q, d, sums, strides, tokens, .. } = p.x;
    // SAFETY: the token `n` exists. Quantised weights meet no `f`.
    unsafe {
        let x = Operand {
            q: q.add(n * strides[0]),
            d: d.add(n * strides[1]),
            sums: sums.add(n * strides[2]),
            tokens: tokens - n,
            ..p.x
        };
        Product { x, out: p.out.add(n * p.stride), ..*p }
    }
}

// A block in each of the two registers.
// SAFETY of all blocks here: as in `dotprod`.
#[allow(clippy::undocumented_unsafe_blocks, reason = "a few intrinsics each under the trait's contract")]
impl TwoLanes for Dotprod {
    #[inline(always)]
    unsafe fn two(a: *const u8, b: *const u8) -> Self::B {
        unsafe { (vld1q_u8(a), vld1q_u8(b)) }
    }
    #[inline(always)]
    unsafe fn six_bits(v: Self::B) -> (Self::B, Self::B) {
        unsafe {
            let unpack = Unpack::new();
            let (a, b) = (unpack.scales_mins(v.0), unpack.scales_mins(v.1));
            let s = Self::first_i((vreinterpretq_u8_s8(a), vreinterpretq_u8_s8(b)));
            let m = (vmovl_high_s8(a), vmovl_high_s8(b));
            (s, (vreinterpretq_u8_s16(m.0), vreinterpretq_u8_s16(m.1)))
        }
    }
    #[inline(always)]
    unsafe fn even_odd_i(v: Self::B) -> [Self::B; 2] {
        unsafe {
            let even = (vuzp1q_u8(v.0, v.1), vuzp1q_u8(v.1, v.0));
            let odd = (vuzp2q_u8(v.0, v.1), vuzp2q_u8(v.1, v.0));
            [Self::first_i(even), Self::first_i(odd)]
        }
    }
    #[inline(always)]
    unsafe fn first_i(v: Self::B) -> Self::B {
        unsafe {
            let a = vmovl_s8(vget_low_s8(vreinterpretq_s8_u8(v.0)));
            let b = vmovl_s8(vget_low_s8(vreinterpretq_s8_u8(v.1)));
            (vreinterpretq_u8_s16(a), vreinterpretq_u8_s16(b))
        }
    }
}
