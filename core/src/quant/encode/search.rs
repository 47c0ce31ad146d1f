//! Finding scales: for a handful of weights, the scale (and minimum) that
//! leaves the least weighted squared error after rounding.
//!
//! Once it is settled which level each weight rounds to, the best scale is a
//! least-squares quotient; which levels those are depends on the scale. So a
//! row of candidate scales is tried, each is replaced by the best one for the
//! levels it gives, and the best of all is polished by rounding again.
//!
//! All sums are added in one order, without fused operations: the same bits on
//! every machine.

use crate::quant::IQ4_VALUES;

/// The most weights fitted at once.
const MOST: usize = 32;

/// Weights below this cannot be told from zero once a scale is half precision,
/// whose smallest number is eight times as large.
const TINY: f32 = 1.0 / (1 << 27) as f32;

/// How often a fit is polished by rounding again.
const POLISH: usize = 4;

/// The nearest integer, ties to even, of a number between -2^22 and 2^22.
#[inline(always)]
pub(super) fn round(v: f32) -> f32 {
    // Added to this, a number has no bits left below one.
    const BIG: f32 = 12_582_912.0;
    (v + BIG) - BIG
}

/// The values that a weight can take before it is scaled.
pub(super) trait Levels: Copy {
    /// The level nearest to `v`.
    fn level(self, v: f32) -> f32;

    /// How the level nearest to `v` is written.
    fn code(self, v: f32) -> u8;
}

/// The integers from `lo` to `hi`, written as their distance from `lo`.
#[derive(Clone, Copy)]
pub(super) struct Even {
    pub(super) lo: f32,
    pub(super) hi: f32,
}

impl Levels for Even {
    #[inline(always)]
    fn level(self, v: f32) -> f32 {
        round(v.max(self.lo).min(self.hi))
    }

    #[inline(always)]
    fn code(self, v: f32) -> u8 {
        (self.level(v) - self.lo) as u8
    }
}

/// The sixteen uneven levels of the IQ4 formats.
#[derive(Clone, Copy)]
pub(super) struct Uneven;

/// The code nearest to each half unit from -128 up: `NEAREST[k]` serves values
/// from `k / 2 - 128` to half a unit more. Levels meet at multiples of a half,
/// so none meet inside.
const NEAREST: [u8; 512] = {
    let mut out = [0; 512];
    let mut k = 0;
    while k < 512 {
        // In quarters, the middle of the half unit.
        let v = 2 * k as i32 + 1 - 512;
        let mut code = 0;
        while code < 15
            && (4 * IQ4_VALUES[code + 1] as i32 - v).abs() < (4 * IQ4_VALUES[code] as i32 - v).abs()
        {
            code += 1;
        }
        out[k] = code as u8;
        k += 1;
    }
    out
};

impl Levels for Uneven {
    #[inline(always)]
    fn level(self, v: f32) -> f32 {
        f32::from(IQ4_VALUES[usize::from(self.code(v)) & 15])
    }

    #[inline(always)]
    fn code(self, v: f32) -> u8 {
        let k = (v * 2.0 + 256.0).clamp(0.0, 511.0) as usize;
        NEAREST[k & 511]
    }
}

/// Candidates for a scale: those that send the weight farthest from zero to
/// one of `ends`, or up to `reach` steps of `step` beside it.
#[derive(Clone, Copy)]
pub(super) struct Grid {
    pub(super) ends: &'static [f32],
    pub(super) step: f32,
    pub(super) reach: i32,
}

/// The best scale of `x` with weights `w`; zero where all of `x` is.
pub(super) fn scale<const N: usize>(levels: impl Levels, grid: Grid, x: &[f32; N], w: &[f32; N]) -> f32 {
    let far = x.iter().fold(0.0f32, |far, &v| if v.abs() > far.abs() { v } else { far });
    if far.abs() < TINY {
        return 0.0;
    }
    let mut best = (0.0, 0.0);
    for &end in grid.ends {
        for k in -grid.reach..=grid.reach {
            let found = fit(levels, x, w, (end + grid.step * k as f32) / far);
            best = if found.0 > best.0 { found } else { best };
        }
    }
    for _ in 0..POLISH {
        if best.1 == 0.0 {
            break;
        }
        let found = fit(levels, x, w, 1.0 / best.1);
        if found.0 <= best.0 {
            break;
        }
        best = found;
    }
    best.1
}

/// The best scale for the levels that `x * inverse` rounds to, after how far
/// the error is then below that of zero.
#[inline(always)]
fn fit<const N: usize>(levels: impl Levels, x: &[f32; N], w: &[f32; N], inverse: f32) -> (f32, f32) {
    let (xq, qq) = moments(levels, x, w, inverse);
    if qq > 0.0 { (xq * xq / qq, xq / qq) } else { (0.0, 0.0) }
}

/// `Σ w·x·q` and `Σ w·q²` for the levels `q` nearest to `x * inverse`.
fn moments(levels: impl Levels, x: &[f32], w: &[f32], inverse: f32) -> (f32, f32) {
    let [xq, qq] = sums(x, w, |x, w| {
        let q = levels.level(x * inverse);
        let wq = w * q;
        [wq * x, wq * q]
    });
    (xq, qq)
}

/// `Σ w·q²` of weights scaled by `scale`: how much a change of the scale costs.
pub(super) fn curvature<const N: usize>(levels: impl Levels, x: &[f32; N], w: &[f32; N], scale: f32) -> f32 {
    if scale == 0.0 { 0.0 } else { moments(levels, x, w, 1.0 / scale).1 }
}

/// `Σ w·(x - scale·q)²` for the nearest levels `q`.
pub(super) fn error(levels: impl Levels, x: &[f32], w: &[f32], scale: f32) -> f32 {
    let inverse = if scale == 0.0 { 0.0 } else { 1.0 / scale };
    let [error] = sums(x, w, |x, w| {
        let off = x - scale * levels.level(x * inverse);
        [w * off * off]
    });
    error
}

/// A fit `x ≈ scale·q - min`, for `q` from 0 up.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Affine {
    pub(super) scale: f32,
    pub(super) min: f32,
}

/// What a fit of both scale and minimum may be.
#[derive(Clone, Copy)]
pub(super) struct Span {
    /// The largest level.
    pub(super) top: f32,
    /// The minimum is not below zero.
    pub(super) min_positive: bool,
    /// Candidates spread the weights over `top + step * k` levels for every `k`
    /// from `-below` to `above`.
    pub(super) step: f32,
    pub(super) below: i32,
    pub(super) above: i32,
}

/// The best scale and minimum of `x` with weights `w`.
pub(super) fn affine<const N: usize>(span: Span, x: &[f32; N], w: &[f32; N]) -> Affine {
    let mut lo = x.iter().fold(x[0], |m, &v| m.min(v));
    let hi = x.iter().fold(x[0], |m, &v| m.max(v));
    if span.min_positive {
        lo = lo.min(0.0);
    }
    if hi - lo < TINY {
        return Affine { scale: 0.0, min: -lo };
    }
    // Seen from the lowest weight, so that a common offset costs no precision.
    let y = x.map(|v| v - lo);
    let fixed =
        Fixed { sw: total_of(w), sy: dot(w, &y), most: if span.min_positive { -lo } else { f32::MAX } };
    let levels = Even { lo: 0.0, hi: span.top };
    let mut best = Line { slope: 0.0, offset: 0.0, gain: f32::MIN };
    for k in -span.below..=span.above {
        let inverse = (span.top + span.step * k as f32) / (hi - lo);
        best = best.or(line(levels, &fixed, &y, w, inverse, 0.0));
    }
    for _ in 0..POLISH {
        if best.slope <= 0.0 {
            break;
        }
        let next = line(levels, &fixed, &y, w, 1.0 / best.slope, best.offset);
        if next.gain <= best.gain {
            break;
        }
        best = next;
    }
    Affine { scale: best.slope, min: -(lo + best.offset) }
}

/// Sums that do not depend on the levels; the offset may not pass `most`.
struct Fixed {
    sw: f32,
    sy: f32,
    most: f32,
}

/// `y ≈ slope·q + offset`, and by how much the error is below that of zero.
#[derive(Clone, Copy)]
struct Line {
    slope: f32,
    offset: f32,
    gain: f32,
}

impl Line {
    fn or(self, other: Self) -> Self {
        if other.gain > self.gain { other } else { self }
    }
}

/// The best line for the levels that `(y - offset) * inverse` rounds to.
fn line(levels: Even, fixed: &Fixed, y: &[f32], w: &[f32], inverse: f32, offset: f32) -> Line {
    let [sq, sqq, syq] = sums(y, w, |y, w| {
        let q = levels.level((y - offset) * inverse);
        let wq = w * q;
        [wq, wq * q, wq * y]
    });
    let Fixed { sw, sy, most } = *fixed;
    let none = Line { slope: 0.0, offset: 0.0, gain: f32::MIN };
    if sqq <= 0.0 {
        return none;
    }
    let det = sw * sqq - sq * sq;
    // Where all levels are one, any offset does.
    let (mut slope, mut offset) = (syq / sqq, 0.0);
    if det > 1e-6 * sw * sqq {
        slope = (sw * syq - sy * sq) / det;
        offset = (sqq * sy - sq * syq) / det;
    }
    if offset > most {
        offset = most;
        slope = (syq - offset * sq) / sqq;
    }
    if slope <= 0.0 {
        return none;
    }
    let gain = slope * (2.0 * syq - slope * sqq - 2.0 * offset * sq) + offset * (2.0 * sy - offset * sw);
    Line { slope, offset, gain }
}

/// The least error of `x ≈ scale·q - min` for levels 0 to `top`, and the sums
/// `Σ w·q` and `Σ w·q²` of the levels that give it.
pub(super) fn affine_error(top: f32, x: &[f32], w: &[f32], fit: Affine) -> (f32, f32, f32) {
    let inverse = if fit.scale == 0.0 { 0.0 } else { 1.0 / fit.scale };
    let levels = Even { lo: 0.0, hi: top };
    let [error, sq, sqq] = sums(x, w, |x, w| {
        let q = levels.level((x + fit.min) * inverse);
        let off = x - (fit.scale * q - fit.min);
        let wq = w * q;
        [w * off * off, wq, wq * q]
    });
    (error, sq, sqq)
}

/// `Σ a·b`.
pub(super) fn dot(a: &[f32], b: &[f32]) -> f32 {
    let [sum] = sums(a, b, |a, b| [a * b]);
    sum
}

/// `Σ a`.
pub(super) fn total_of(a: &[f32]) -> f32 {
    let [sum] = sums(a, a, |a, _| [a]);
    sum
}

/// Sums of the `K` numbers that `terms` makes of each pair; at most [`MOST`]
/// pairs.
///
/// Halves are added onto each other, an order that suits vectors of any width.
/// Not inlined, and the numbers laid down in memory first: where the compiler
/// knows the count, it unrolls everything into scalar code, and encoding takes
/// half as long again.
#[inline(never)]
fn sums<const K: usize>(x: &[f32], w: &[f32], terms: impl Fn(f32, f32) -> [f32; K]) -> [f32; K] {
    let mut all = [[0.0; MOST]; K];
    let n = x.len().min(w.len()).min(MOST);
    for (i, (x, w)) in x[..n].iter().zip(&w[..n]).enumerate() {
        let terms = terms(*x, *w);
        for k in 0..K {
            all[k][i] = terms[k];
        }
    }
    all.map(|sums| total(&sums))
}

/// The sum of `s`, by halves.
#[inline(always)]
fn total(s: &[f32; MOST]) -> f32 {
    let a: [f32; 16] = core::array::from_fn(|i| s[i] + s[i + 16]);
    let b: [f32; 8] = core::array::from_fn(|i| a[i] + a[i + 8]);
    let c: [f32; 4] = core::array::from_fn(|i| b[i] + b[i + 4]);
    (c[0] + c[2]) + (c[1] + c[3])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uneven_levels_are_the_nearest() {
        for k in -1400..1400 {
            let v = k as f32 * 0.1 + 0.013;
            let got = (Uneven.level(v) - v).abs();
            let least = IQ4_VALUES.iter().map(|&l| (f32::from(l) - v).abs()).fold(f32::MAX, f32::min);
            assert_eq!(got, least, "{v}");
        }
    }

    #[test]
    fn even_levels_round_and_clamp() {
        let levels = Even { lo: -8.0, hi: 7.0 };
        let cases = [(0.4, 0.0), (0.6, 1.0), (-0.5, 0.0), (-1.5, -2.0), (99.0, 7.0), (-1e12, -8.0)];
        for (v, level) in cases {
            assert_eq!(levels.level(v), level, "{v}");
            assert_eq!(f32::from(levels.code(v)) - 8.0, level);
        }
    }

    #[test]
    fn what_lies_on_a_line_is_found_exactly() {
        let x: [f32; 16] = core::array::from_fn(|i| 0.25 * (i % 4) as f32 - 0.5);
        let span = Span { top: 3.0, min_positive: true, step: 0.1, below: 9, above: 9 };
        let fit = affine(span, &x, &[1.0; 16]);
        assert!((fit.scale - 0.25).abs() < 1e-6 && (fit.min - 0.5).abs() < 1e-6, "{fit:?}");
        let x: [f32; 32] = core::array::from_fn(|i| -0.125 * (i % 16) as f32 + 1.0);
        let grid = Grid { ends: &[-8.0], step: 0.1, reach: 9 };
        let d = scale(Even { lo: -8.0, hi: 7.0 }, grid, &x, &[1.0; 32]);
        assert!((d + 0.125).abs() < 1e-6, "{d}");
    }
}
