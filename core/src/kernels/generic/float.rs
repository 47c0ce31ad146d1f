//! Dots of F32, F16 and BF16 weights with `f32` activations.
//!
//! Element `i` of a row belongs to lane `i mod 32`: four vectors of eight, so
//! that additions do not wait for each other.

use super::matmul::{Operand, RowDot};
use crate::kernels::lanes::Lanes;
use crate::quant::Format;

/// How one format's numbers become `f32`.
pub(super) trait FloatWeight {
    /// Which format.
    const FORMAT: Format;
    /// Bytes per number.
    const SIZE: usize = Self::FORMAT.block_bytes();

    /// Eight numbers from memory.
    ///
    /// # Safety
    /// See [`Lanes`].
    unsafe fn load<L: Lanes>(p: *const u8) -> L::F;
}

pub(in crate::kernels) struct F32;
pub(in crate::kernels) struct F16;
pub(in crate::kernels) struct Bf16;

macro_rules! float_weight {
    ($name:ident, $load:ident) => {
        impl FloatWeight for $name {
            const FORMAT: Format = Format::$name;

            #[inline(always)]
            unsafe fn load<L: Lanes>(p: *const u8) -> L::F {
                // SAFETY: the caller's promise, passed on.
                unsafe { L::$load(p.cast()) }
            }
        }

        impl RowDot for $name {
            #[inline(always)]
            unsafe fn row<L: Lanes, const T: usize>(
                w: *const u8,
                cols: usize,
                x: &Operand,
                first: usize,
            ) -> [f32; T] {
                // SAFETY: the caller's promise, passed on.
                unsafe { row::<L, $name, T>(w, cols, x, first) }
            }
        }
    };
}
float_weight!(F32, f_load);
float_weight!(F16, f_from_f16);
float_weight!(Bf16, f_from_bf16);

#[inline(always)]
unsafe fn row<L: Lanes, W: FloatWeight, const T: usize>(
    w: *const u8,
    cols: usize,
    x: &Operand,
    first: usize,
) -> [f32; T] {
    // SAFETY: reads stay below `cols`; the last few go through padded copies.
    unsafe {
        let mut acc = [[L::f_splat(0.0); 4]; T];
        let mut at = 0;
        while at + 32 <= cols {
            if T == 1 {
                L::prefetch(w.wrapping_add(at * W::SIZE + 2048));
                L::prefetch(w.wrapping_add(at * W::SIZE + 2048 + 64));
            }
            for v in 0..4 {
                let w = W::load::<L>(w.add((at + 8 * v) * W::SIZE));
                for t in 0..T {
                    let x = L::f_load(x.f.add((first + t) * x.strides[0] + at + 8 * v));
                    acc[t][v] = L::f_add(acc[t][v], L::f_mul(w, x));
                }
            }
            at += 32;
        }
        let mut v = 0;
        while at < cols {
            let n = (cols - at).min(8);
            let mut bytes = [0u8; 32];
            core::ptr::copy_nonoverlapping(w.add(at * W::SIZE), bytes.as_mut_ptr(), n * W::SIZE);
            let w = W::load::<L>(bytes.as_ptr());
            for t in 0..T {
                let mut tail = [0.0; 8];
                core::ptr::copy_nonoverlapping(
                    x.f.add((first + t) * x.strides[0] + at),
                    tail.as_mut_ptr(),
                    n,
                );
                acc[t][v] = L::f_add(acc[t][v], L::f_mul(w, L::f_load(tail.as_ptr())));
            }
            at += n;
            v += 1;
        }
        let mut y = [0.0; T];
        for t in 0..T {
            let a = acc[t];
            y[t] = L::f_sum(L::f_add(L::f_add(a[0], a[2]), L::f_add(a[1], a[3])));
        }
        y
    }
}

/// Sum of squares of `n` numbers at `x`, lanes as in a row.
///
/// # Safety
/// `x` has `n` readable numbers; see [`Lanes`].
#[inline(always)]
pub(super) unsafe fn sum_squares<L: Lanes>(x: *const f32, n: usize) -> f32 {
    let operand = Operand {
        f: x,
        q: core::ptr::null(),
        d: core::ptr::null(),
        sums: core::ptr::null(),
        strides: [0; 3],
        tokens: 1,
    };
    // SAFETY: the row is the operand itself.
    unsafe { row::<L, F32, 1>(x.cast(), n, &operand, 0)[0] }
}
