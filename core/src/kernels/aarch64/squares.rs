//! Weights times activations of several tokens, by squares of two rows and two
//! tokens: what reading a prompt spends its time on.
//!
//! ```text
//! for each run of up to 32 rows
//!     for each tile of 8, 4, 2 or 1 pairs of tokens
//!         for each step of 256 columns
//!             lay the activations by pairs of tokens     once for all rows
//!             for each pair of rows
//!                 decode the weights                     once for the tile
//!                 integer sums of each square            exact, any order
//!                 acc[block mod 8] += d·dx · sum         f32
//!         out = sum of the 8 accumulators, in the order of `f_sum`
//! ```
//!
//! The same additions as one row after another (`generic::matmul`), so the same
//! bits: there the eight accumulators are lanes, here they are vectors, with a
//! lane for each of the four products of rows and tokens. Weights of two rows
//! are laid by eights before they are decoded, while they are still packed.

use core::arch::aarch64::*;
use core::mem::MaybeUninit;
use core::ops::Range;

use super::asm::updated;
use super::dotprod::Dotprod;
use super::tokens::{Bytes, COLUMNS, Split, Step, by_eights, lay_out, narrow};
use crate::kernels::generic::decode::{Sink, Source};
use crate::kernels::generic::matmul::{Min, Product};
use crate::kernels::generic::scales::{Scaled, Two};
use crate::kernels::lanes::Lanes;

/// Rows that share each laying out of activations. Their accumulators lie on the
/// stack: 512 bytes for two rows and two tokens.
const ROWS: usize = 32;

/// Runs `$body` with the constant `$t` bound to each number below `$n`, at most 8.
/// A loop would be unrolled or not as the compiler likes, and what it indexes
/// kept in memory where it is not.
macro_rules! for_each {
    ($t:ident < $n:ident $body:block) => { for_each!($t < $n $body, 0 1 2 3 4 5 6 7) };
    ($t:ident < $n:ident $body:block, $($v:literal)*) => {$(
        if $v < $n {
            const $t: usize = $v;
            $body
        }
    )*};
}

/// Computes rows `rows` of the product `p` for whole pairs of tokens; returns how
/// many tokens those are.
///
/// # Safety
/// The CPU has matrix products, and `p` describes valid memory for `rows`.
#[inline(always)]
pub(super) unsafe fn several<F: Scaled>(p: &Product, rows: Range<usize>) -> usize {
    let tokens = p.x.tokens / 2 * 2;
    let mut row = rows.start;
    while row < rows.end {
        let n = (rows.end - row).min(ROWS);
        let mut t = 0;
        while t < tokens {
            // SAFETY: rows and tokens are within what the caller promised.
            t += unsafe {
                match tokens - t {
                    16.. => tile::<F, 8>(p, row, n, t),
                    8.. => tile::<F, 4>(p, row, n, t),
                    4.. => tile::<F, 2>(p, row, n, t),
                    _ => tile::<F, 1>(p, row, n, t),
                }
            };
        }
        row += n;
    }
    tokens
}

/// Sums of `T` squares, by number of the block modulo 8.
type Sums<const T: usize> = [[float32x4_t; T]; 8];

/// Rows `row..row + n` with `T` pairs of tokens from `first` on; returns how many
/// tokens that is.
#[target_feature(enable = "neon,dotprod,i8mm")]
unsafe fn tile<F: Scaled, const T: usize>(p: &Product, row: usize, n: usize, first: usize) -> usize {
    let (len, bytes) = const { (F::FORMAT.block_len(), F::FORMAT.block_bytes()) };
    let blocks = p.cols / len;
    let mut acc = MaybeUninit::<[Sums<T>; ROWS / 2]>::uninit();
    let acc = acc.as_mut_ptr().cast::<Sums<T>>();
    let mut step = MaybeUninit::<Step<T>>::uninit();
    // SAFETY: rows, tokens and blocks are within what the caller promised, and
    // what is read was written. Prefetching past the end is harmless.
    unsafe {
        for i in 0..n.div_ceil(2) {
            acc.add(i).write([[vdupq_n_f32(0.0); T]; 8]);
        }
        let mut b = 0;
        while b < blocks {
            let some = (blocks - b).min(COLUMNS / len);
            lay_out::<F, T>(p, step.as_mut_ptr(), first, b, some);
            for i in 0..n.div_ceil(2) {
                let at = p.w.add((row + 2 * i) * p.row_bytes + b * bytes);
                // A last row without a partner is its own.
                let mut w = Rows { a: at, b: if 2 * i + 1 < n { at.add(p.row_bytes) } else { at } };
                ask_ahead::<F>(&w);
                for k in 0..some {
                    let acc = (*acc.add(i)).as_mut_ptr().add((b + k) % 8);
                    block::<F, T>(&w, step.as_ptr(), k, &mut *acc);
                    w = Rows { a: w.a.add(bytes), b: w.b.add(bytes) };
                }
            }
            b += some;
        }
        for i in 0..n.div_ceil(2) {
            put::<T>(p, row + 2 * i, 2 * i + 1 < n, first, &*acc.add(i));
        }
    }
    2 * T
}

/// A block of each of two rows.
struct Rows {
    a: *const u8,
    b: *const u8,
}

/// Asks for the next step of both rows, which need not be there.
#[inline(always)]
unsafe fn ask_ahead<F: Scaled>(w: &Rows) {
    let bytes = const { F::FORMAT.block_bytes() * (COLUMNS / F::FORMAT.block_len()) };
    for line in 0..bytes.div_ceil(64) {
        // SAFETY: any address will do.
        unsafe {
            Dotprod::prefetch(w.a.wrapping_add(bytes + 64 * line));
            Dotprod::prefetch(w.b.wrapping_add(bytes + 64 * line));
        }
    }
}

impl Source<Dotprod, 1> for Rows {
    #[inline(always)]
    unsafe fn bytes(&self, at: usize) -> [Bytes; 1] {
        // SAFETY: the rows' blocks hold these bytes.
        unsafe { [by_eights(vld1q_u8(self.a.add(at)), vld1q_u8(self.b.add(at)))] }
    }
    #[inline(always)]
    unsafe fn wide(&self, at: usize) -> [[Bytes; 1]; 2] {
        // SAFETY: as above.
        unsafe { [self.bytes(at), self.bytes(at + 16)] }
    }
    #[inline(always)]
    unsafe fn bits(&self, at: usize) -> ([Bytes; 1], [Bytes; 1]) {
        // SAFETY: as above.
        unsafe {
            let (a, b) = (Dotprod::bits16(self.a.add(at)), Dotprod::bits16(self.b.add(at)));
            ([by_eights(a.0, b.0)], [by_eights(a.1, b.1)])
        }
    }
}

/// Meets two rows' weights with `T` pairs of tokens.
struct Dot<const T: usize> {
    sum: [int32x4_t; T],
    /// The block's activations, by sixteens.
    x: *const [Bytes; T],
    /// Both rows' scales twice, for each [`Decode::PER`] sixteens.
    ///
    /// [`Decode::PER`]: crate::kernels::generic::decode::Decode::PER
    s: *const int32x4_t,
    per: usize,
    /// What weights are stored too large by.
    offset: u8,
}

impl<const T: usize> Dot<T> {
    /// The weights, where they are stored too large.
    #[inline(always)]
    unsafe fn signed(&self, w: Bytes) -> Bytes {
        if self.offset == 0 {
            return w;
        }
        // SAFETY: NEON is part of the architecture.
        unsafe {
            let offset = vdupq_n_u8(self.offset);
            (vsubq_u8(w.0, offset), vsubq_u8(w.1, offset))
        }
    }
}

impl<const T: usize> Sink<Dotprod, 1> for Dot<T> {
    #[inline(always)]
    unsafe fn sixteen(&mut self, h: usize, w: [Bytes; 1]) {
        // SAFETY: the activations are a block's.
        unsafe {
            let (w, s, x) = (self.signed(w[0]), *self.s.add(h), &*self.x.add(h));
            for_each!(I < T {
                self.sum[I] = mla(self.sum[I], sixteen(vdupq_n_s32(0), w, x[I]), s);
            });
        }
    }
    #[inline(always)]
    unsafe fn both(&mut self, g: usize, w: [[Bytes; 1]; 2]) {
        // SAFETY: as above.
        unsafe {
            let (v, w) = (self.signed(w[0][0]), self.signed(w[1][0]));
            let (x, y) = (&*self.x.add(2 * g), &*self.x.add(2 * g + 1));
            for_each!(I < T {
                if self.per == 0 {
                    self.sum[I] = sixteen(sixteen(self.sum[I], v, x[I]), w, y[I]);
                } else {
                    let sum = sixteen(sixteen(vdupq_n_s32(0), v, x[I]), w, y[I]);
                    self.sum[I] = mla(self.sum[I], sum, *self.s.add(g));
                }
            });
        }
    }
}

/// `sum` and the products of sixteen weights and activations.
#[inline(always)]
unsafe fn sixteen(sum: int32x4_t, w: Bytes, x: Bytes) -> int32x4_t {
    // SAFETY: the caller has the CPU features.
    unsafe { smmla(smmla(sum, w.0, x.0), w.1, x.1) }
}

/// `sum` and the products of two rows of eight signed weights with eight
/// activations of two tokens: both tokens of the first row, then of the second.
/// The intrinsic is not stable yet.
#[inline(always)]
unsafe fn smmla(sum: int32x4_t, w: uint8x16_t, x: uint8x16_t) -> int32x4_t {
    // SAFETY: the caller has the CPU features.
    unsafe { updated!("smmla {0:v}.4s, {1:v}.16b, {2:v}.16b"; sum, w, x) }
}

/// `acc + sum · s`. The intrinsic is taken apart.
#[inline(always)]
unsafe fn mla(acc: int32x4_t, sum: int32x4_t, s: int32x4_t) -> int32x4_t {
    // SAFETY: NEON is part of the architecture.
    unsafe { updated!("mla {0:v}.4s, {1:v}.4s, {2:v}.4s"; acc, sum, s) }
}

/// Each of eight numbers of both rows: the first row's twice, the second's twice.
#[inline(always)]
unsafe fn spread(v: Bytes) -> [int32x4_t; 8] {
    // SAFETY: NEON is part of the architecture.
    unsafe {
        let (a, b) = (vreinterpretq_s16_u8(v.0), vreinterpretq_s16_u8(v.1));
        let (low, high) = (vzip1q_s16(a, b), vzip2q_s16(a, b));
        let (a, b) = (vmovl_s16(vget_low_s16(low)), vmovl_high_s16(low));
        let (c, d) = (vmovl_s16(vget_low_s16(high)), vmovl_high_s16(high));
        [
            vzip1q_s32(a, a),
            vzip2q_s32(a, a),
            vzip1q_s32(b, b),
            vzip2q_s32(b, b),
            vzip1q_s32(c, c),
            vzip2q_s32(c, c),
            vzip1q_s32(d, d),
            vzip2q_s32(d, d),
        ]
    }
}

/// Writes the scales of weights in the order of groups: 16, or 8, or none.
#[inline(always)]
unsafe fn scales<F: Scaled>(two: &Two<Dotprod>, to: *mut int32x4_t) {
    // SAFETY: the room is for sixteen.
    unsafe {
        if F::PER == 0 {
            return;
        }
        for v in 0..if F::PER == 1 { 2 } else { 1 } {
            let s = spread(two.s[v]);
            for i in 0..8 {
                let at = if F::PER == 1 { 2 * i + v } else { i };
                to.add(at).write(s[i]);
            }
        }
    }
}

/// `d` of both rows' blocks, each twice, and `m` where there is one.
#[inline(always)]
unsafe fn heads<F: Scaled>(w: &Rows) -> (float32x4_t, float32x4_t) {
    // SAFETY: the blocks hold the numbers.
    unsafe {
        let (a, b) = (w.a.add(F::D), w.b.add(F::D));
        let (a, b) = if matches!(F::MIN, Min::Groups | Min::Block) {
            (a.cast::<u32>().read_unaligned(), b.cast::<u32>().read_unaligned())
        } else {
            let (a, b) = (a.cast::<u16>().read_unaligned(), b.cast::<u16>().read_unaligned());
            (u32::from(a), u32::from(b))
        };
        let h = vset_lane_u32::<1>(b, vdup_n_u32(a));
        let v = vcvt_f32_f16(vreinterpret_f16_u32(h));
        (vtrn1q_f32(v, v), vtrn2q_f32(v, v))
    }
}

/// `Σ m·sum` of each square, for [`Min::Groups`].
#[inline(always)]
unsafe fn mins<F: Scaled>(m: &[uint8x16_t; 2], s: &Split) -> int32x4_t {
    // SAFETY: the caller has the CPU features.
    unsafe {
        let mut sum = smmla(vdupq_n_s32(0), m[0], s.high[0]);
        if F::PER == 1 {
            sum = smmla(sum, m[1], s.high[1]);
        }
        sum = smmla(vshlq_n_s32::<6>(sum), m[0], s.low[0]);
        if F::PER == 1 {
            sum = smmla(sum, m[1], s.low[1]);
        }
        sum
    }
}

/// Both rows' numbers as bytes.
#[inline(always)]
unsafe fn as_bytes(v: Bytes) -> uint8x16_t {
    // SAFETY: NEON is part of the architecture.
    unsafe { narrow([vreinterpretq_s16_u8(v.0), vreinterpretq_s16_u8(v.1)]) }
}

/// Adds the `k`th block of the step to the sums of all squares.
#[inline(always)]
unsafe fn block<F: Scaled, const T: usize>(
    w: &Rows,
    step: *const Step<T>,
    k: usize,
    acc: &mut [float32x4_t; T],
) {
    let offset = const {
        match (F::OFFSET, F::MIN) {
            (Some(n), _) | (None, Min::Offset(n)) => 1 << n,
            _ => 0,
        }
    };
    // SAFETY: the step was laid out for this block; its `sums` and `split` where
    // the format has use for them.
    unsafe {
        let two = F::two::<Dotprod>(w.a, w.b);
        let x = (&raw const (*step).x).cast::<[Bytes; T]>().add(k * const { F::FORMAT.block_len() / 16 });
        // Not within `Dot`, which is to live in registers.
        let mut s = MaybeUninit::<[int32x4_t; 16]>::uninit();
        let s = s.as_mut_ptr().cast::<int32x4_t>();
        scales::<F>(&two, s);
        let mut dot = Dot { sum: [vdupq_n_s32(0); T], x, s, per: F::PER, offset };
        F::decode::<Dotprod, 1>(w, &mut dot);
        let (d, m) = heads::<F>(w);
        let groups = [as_bytes(two.m[0]), as_bytes(two.m[1])];
        for_each!(I < T {
            let dx = (*step).d[k][I];
            let mut v = vmulq_f32(vmulq_f32(d, dx), vcvtq_f32_s32(dot.sum[I]));
            match F::MIN {
                Min::None | Min::Offset(_) => {}
                Min::Groups => {
                    let sum = vcvtq_f32_s32(mins::<F>(&groups, &(*step).split[I]));
                    v = vsubq_f32(v, vmulq_f32(vmulq_f32(m, dx), sum));
                }
                Min::Block => v = vaddq_f32(v, vmulq_f32(vmulq_f32(m, dx), (*step).sums[k][I])),
            }
            acc[I] = vaddq_f32(acc[I], v);
        });
    }
}

/// Writes the results of row `row`, and of the next where there is a `second`, for
/// `T` pairs of tokens.
#[inline(always)]
unsafe fn put<const T: usize>(p: &Product, row: usize, second: bool, first: usize, a: &Sums<T>) {
    // SAFETY: rows and tokens are within `out`, by the caller's promise.
    unsafe {
        for t in 0..T {
            let even = vaddq_f32(vaddq_f32(a[0][t], a[4][t]), vaddq_f32(a[2][t], a[6][t]));
            let odd = vaddq_f32(vaddq_f32(a[1][t], a[5][t]), vaddq_f32(a[3][t], a[7][t]));
            let sum = vaddq_f32(even, odd);
            let out = p.out.add((first + 2 * t) * p.stride + row);
            let other = out.add(p.stride);
            out.write(vgetq_lane_f32::<0>(sum));
            other.write(vgetq_lane_f32::<1>(sum));
            if second {
                out.add(1).write(vgetq_lane_f32::<2>(sum));
                other.add(1).write(vgetq_lane_f32::<3>(sum));
            }
        }
    }
}
