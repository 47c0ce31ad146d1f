//! Integer dots of the 32-weight formats; layouts in `quant/legacy.rs`.

use super::matmul::{Block, Min};
use crate::kernels::lanes::Lanes;
use crate::quant::{Format, IQ4_VALUES};

macro_rules! legacy {
    ($name:ident, $d:expr, $min:expr, $dot:ident, |$w:ident| $decode:expr) => {
        pub(in crate::kernels) struct $name;

        impl Block for $name {
            const FORMAT: Format = Format::$name;
            const D: usize = $d;
            const MIN: Min = $min;

            #[inline(always)]
            unsafe fn dot<L: Lanes, const T: usize>(
                $w: *const u8,
                x: [*const i8; T],
                _sums: [*const i16; T],
            ) -> ([L::Acc; T], [L::Acc; T]) {
                // SAFETY: the offsets stay within one block, which `w` and `x`
                // point at.
                unsafe {
                    let q = $decode;
                    let mut acc = [L::zero(); T];
                    for t in 0..T {
                        acc[t] = L::$dot(acc[t], q, L::load(x[t].cast()));
                    }
                    (acc, [L::zero(); T])
                }
            }
        }
    };
}

legacy!(Q4_0, 0, Min::Offset(3), dot_u, |w| L::nibbles(w.add(2)));
legacy!(Q4_1, 0, Min::Block, dot_u, |w| L::nibbles(w.add(4)));
legacy!(Q5_0, 0, Min::Offset(4), dot_u, |w| L::or(L::nibbles(w.add(6)), L::bits16(w.add(2))));
legacy!(Q5_1, 0, Min::Block, dot_u, |w| L::or(L::nibbles(w.add(8)), L::bits16(w.add(4))));
legacy!(Q8_0, 0, Min::None, dot_i, |w| L::load(w.add(2)));
legacy!(Iq4Nl, 0, Min::None, dot_i, |w| L::lookup(&IQ4_VALUES, L::nibbles(w.add(2))));
