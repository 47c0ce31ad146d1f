//! Weights times activations of several tokens, eight rows at once: a lane
//! belongs to a row.
//!
//! ```text
//! for each two panels of 8 rows
//!     for each run of up to 64 tokens
//!         for each block of the rows
//!             turn 8 × 16 bytes so that a vector holds 4 bytes of every row
//!             decode them                        once for all tokens
//!             for each tile of 2 or 4 tokens     as registers allow
//!                 integer sums, lane = row       exact, any order
//!                 acc[block mod 8] += d·dx · sum f32
//!         out = sum of the 8 accumulators, in the order of `f_sum`
//! ```
//!
//! The same additions as one row after another (`matmul`), so the same bits:
//! there the eight accumulators are lanes, here they are vectors. Four
//! activations are broadcast to meet four weights of every row, and no sum
//! crosses lanes.

use core::mem::MaybeUninit;
use core::ops::Range;

use super::decode::{Sink, Source};
use super::matmul::{Min, Product};
use super::scales::{Eight, Scaled};
use crate::kernels::lanes::{Lanes, PanelLanes};

/// Rows of a panel.
const ROWS: usize = 8;

/// Panels that share each load of activations.
const PANELS: usize = 2;

/// Most tokens that share one decoding of the weights. Their accumulators lie
/// on the stack: 512 bytes a token.
const TOKENS: usize = 64;

/// Computes rows `rows` of the product `p`.
///
/// # Safety
/// The CPU has `L`'s features, and `p` describes valid memory for `rows`.
#[inline(always)]
pub(super) unsafe fn matmul<L: PanelLanes, F: Scaled>(p: &Product, rows: Range<usize>) {
    let mut row = rows.start;
    while row < rows.end {
        let left = rows.end - row;
        // Rows that are left over are panels of one row eight times.
        let (panels, count) = match left {
            0..ROWS => (1, 1),
            ROWS..16 => (1, ROWS),
            _ => (PANELS, ROWS),
        };
        let some = Rows {
            // SAFETY: the row is one of the product's.
            w: unsafe { p.w.add(row * p.row_bytes) },
            stride: if count == 1 { 0 } else { p.row_bytes },
            first: row,
            count,
        };
        let mut t = 0;
        while t < p.x.tokens {
            let n = (p.x.tokens - t).min(TOKENS);
            // SAFETY: rows and tokens are within what the caller promised.
            unsafe {
                if panels == PANELS {
                    run::<L, F, PANELS>(p, &some, t, n);
                } else {
                    run::<L, F, 1>(p, &some, t, n);
                }
            }
            t += n;
        }
        row += panels * count;
    }
}

/// Rows of weights: one panel or more.
struct Rows {
    w: *const u8,
    stride: usize,
    first: usize,
    /// Different rows in a panel.
    count: usize,
}

/// A block of each of the rows.
struct Column {
    w: *const u8,
    stride: usize,
}

impl<L: PanelLanes> Source<L, 4> for Column {
    #[inline(always)]
    unsafe fn bytes(&self, at: usize) -> [L::B; 4] {
        // SAFETY: the rows' blocks hold these bytes.
        unsafe { L::columns(self.w.add(at), self.stride) }
    }
    #[inline(always)]
    unsafe fn wide(&self, at: usize) -> [[L::B; 4]; 2] {
        // SAFETY: as above.
        unsafe { [L::columns(self.w.add(at), self.stride), L::columns(self.w.add(at + 16), self.stride)] }
    }
    #[inline(always)]
    unsafe fn bits(&self, at: usize) -> ([L::B; 4], [L::B; 4]) {
        // SAFETY: as above.
        unsafe { L::column_bits(self.w.add(at), self.stride) }
    }
}

/// Keeps the weights of a block.
struct Keep<L: PanelLanes>(*mut [L::B; 4]);

impl<L: PanelLanes> Sink<L, 4> for Keep<L> {
    #[inline(always)]
    unsafe fn sixteen(&mut self, h: usize, w: [L::B; 4]) {
        // SAFETY: the room is for sixteen.
        unsafe { self.0.add(h).write(w) }
    }
    #[inline(always)]
    unsafe fn both(&mut self, g: usize, w: [[L::B; 4]; 2]) {
        // SAFETY: as above.
        unsafe {
            self.0.add(2 * g).write(w[0]);
            self.0.add(2 * g + 1).write(w[1]);
        }
    }
}

/// Weights of one block of `P` panels: sixteen by sixteen.
type Decoded<L, const P: usize> = [[[<L as Lanes>::B; 4]; 16]; P];

/// Sums of a token, by panel and by number of the block modulo 8.
type Sums<L, const P: usize> = [[<L as Lanes>::F; 8]; P];

/// Tokens `first..first + n`: a block's weights are decoded once and kept close.
#[inline(always)]
unsafe fn run<L: PanelLanes, F: Scaled, const P: usize>(p: &Product, rows: &Rows, first: usize, n: usize) {
    let (len, bytes) = const { (F::FORMAT.block_len(), F::FORMAT.block_bytes()) };
    let mut acc = MaybeUninit::<[Sums<L, P>; TOKENS]>::uninit();
    let acc = acc.as_mut_ptr().cast::<Sums<L, P>>();
    let mut q = MaybeUninit::<Decoded<L, P>>::uninit();
    let q = q.as_mut_ptr();
    // SAFETY: the blocks of the rows exist; `n` is at most TOKENS, and what is
    // read was written. Prefetching past the end is harmless.
    unsafe {
        for t in 0..n {
            acc.add(t).write([[L::f_splat(0.0); 8]; P]);
        }
        let next = rows.w.wrapping_add(P * ROWS * rows.stride);
        for b in 0..p.cols / len {
            for line in 0..(P * ROWS * bytes).div_ceil(64) {
                L::prefetch_later(next.wrapping_add(P * ROWS * b * bytes + 64 * line));
            }
            let w = rows.w.add(b * bytes);
            let mut scales = [F::eight::<L>(w, rows.stride); P];
            for i in 0..P {
                let w = w.add(i * ROWS * rows.stride);
                if i > 0 {
                    scales[i] = F::eight::<L>(w, rows.stride);
                }
                let keep = q.cast::<[[L::B; 4]; 16]>().add(i).cast();
                F::decode::<L, 4>(&Column { w, stride: rows.stride }, &mut Keep::<L>(keep));
            }
            let mut t = 0;
            while t + L::TILE <= n {
                if L::TILE == 4 {
                    tile::<L, F, P, 4>(p, &*q, &scales, acc.add(t), first + t, b);
                } else {
                    tile::<L, F, P, 2>(p, &*q, &scales, acc.add(t), first + t, b);
                }
                t += L::TILE;
            }
            while t < n {
                tile::<L, F, P, 1>(p, &*q, &scales, acc.add(t), first + t, b);
                t += 1;
            }
        }
        for t in 0..n {
            for (i, acc) in (*acc.add(t)).iter().enumerate() {
                put::<L>(p, rows, rows.first + i * ROWS, first + t, acc);
            }
        }
    }
}

/// Adds block `b` to the sums of tokens `first..first + T`.
#[inline(always)]
unsafe fn tile<L: PanelLanes, F: Scaled, const P: usize, const T: usize>(
    p: &Product,
    q: &Decoded<L, P>,
    scales: &[Eight<L>; P],
    acc: *mut Sums<L, P>,
    first: usize,
    b: usize,
) {
    // SAFETY: `run` has written the weights and sums of a block.
    unsafe {
        let mut token = [Token::at::<F>(p, first, b); T];
        for t in 1..T {
            token[t] = Token::at::<F>(p, first + t, b);
        }
        let mut sum = [[L::i_zero(); T]; P];
        for h in 0..const { F::FORMAT.block_len() / 16 } {
            let (mut w, mut x) = ([q[0][h]; P], [token[0].q.add(32 * h); T]);
            for i in 1..P {
                w[i] = q[i][h];
            }
            for t in 1..T {
                x[t] = token[t].q.add(32 * h);
            }
            if F::PER == 0 {
                sum = L::plain16(F::BITS, sum, w, x);
            } else {
                let g = if F::PER == 2 { h / 2 } else { h };
                let mut s = [scales[0].s[g]; P];
                for i in 1..P {
                    s[i] = scales[i].s[g];
                }
                sum = L::dot16(F::BITS, sum, w, x, s);
            }
        }
        for t in 0..T {
            for i in 0..P {
                let acc = &mut (*acc.add(t))[i][b % 8];
                *acc = L::f_add(*acc, token[t].value::<L, F>(sum[i][t], &scales[i]));
            }
        }
    }
}

/// One token's activations for one block: by sixteens, each 32 from the last.
#[derive(Clone, Copy)]
struct Token {
    q: *const i8,
    sums: *const i16,
    d: f32,
}

impl Token {
    #[inline(always)]
    unsafe fn at<F: Scaled>(p: &Product, t: usize, b: usize) -> Self {
        let len = const { F::FORMAT.block_len() };
        let per_block = if len == 256 { 16 } else { 1 };
        // SAFETY: the token and block exist.
        unsafe {
            Self {
                q: p.x.q.add(t * p.x.strides[0] + b / 2 * 2 * len + b % 2 * 16),
                sums: p.x.sums.add(t * p.x.strides[2] + b * per_block),
                d: *p.x.d.add(t * p.x.strides[1] + b),
            }
        }
    }

    /// What a block adds, from the sum of its scaled products.
    #[inline(always)]
    unsafe fn value<L: PanelLanes, F: Scaled>(&self, sum: L::I, scales: &Eight<L>) -> L::F {
        // SAFETY: `sums` points at this block's.
        unsafe {
            let dx = L::f_splat(self.d);
            let sum = match (F::OFFSET, &F::MIN) {
                (Some(n), _) => L::i_sub(sum, L::i_shl(L::sums16(&scales.m, self.sums), n)),
                (None, Min::Offset(n)) => L::i_sub(sum, L::i_splat(i32::from(*self.sums) << n)),
                _ => sum,
            };
            let v = L::f_mul(L::f_mul(scales.d.0, dx), L::f_from_i(sum));
            match F::MIN {
                Min::None | Min::Offset(_) => v,
                Min::Groups => {
                    let sum = if F::PER == 1 {
                        L::sums16(&scales.m, self.sums)
                    } else {
                        L::sums8(&scales.m, self.sums)
                    };
                    L::f_sub(v, L::f_mul(L::f_mul(scales.d.1, dx), L::f_from_i(sum)))
                }
                Min::Block => {
                    let sum = L::f_splat(f32::from(*self.sums));
                    L::f_add(v, L::f_mul(L::f_mul(scales.d.1, dx), sum))
                }
            }
        }
    }
}

/// Writes token `t`'s results for the panel that begins with row `row`.
#[inline(always)]
unsafe fn put<L: PanelLanes>(p: &Product, rows: &Rows, row: usize, t: usize, a: &[L::F; 8]) {
    // SAFETY: the rows and token are within `out`, by `matmul`'s contract.
    unsafe {
        let even = L::f_add(L::f_add(a[0], a[4]), L::f_add(a[2], a[6]));
        let odd = L::f_add(L::f_add(a[1], a[5]), L::f_add(a[3], a[7]));
        let sum = L::f_add(even, odd);
        let out = p.out.add(t * p.stride + row);
        if rows.count == ROWS {
            L::f_store(out, sum);
        } else {
            let mut all = [0.0f32; 8];
            L::f_store(all.as_mut_ptr(), sum);
            out.write(all[0]);
        }
    }
}
