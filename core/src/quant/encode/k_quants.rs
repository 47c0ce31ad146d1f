//! Blocks of 256 whose groups have small integer scales of their own, which
//! one half-precision number scales in turn.
//!
//! Both kinds go the same way: fit each group by itself; fit the block's scale
//! to the groups' scales, each weighted by what an error in it costs; choose
//! each group's integers anew by the error they really leave; and at last fit
//! the block's scale to everything chosen.

use super::search::{
    Affine, Even, Grid, Levels, Span, affine, affine_error, curvature, dot, error, round, scale, total_of,
};
use super::{Half, to_half};

/// The smallest half-precision number with all its bits, and the smallest.
const SMALLEST_NORMAL: f32 = 1.0 / (1 << 14) as f32;
const SMALLEST: f32 = 1.0 / (1 << 24) as f32;

/// A block whose groups have a scale and a minimum.
#[derive(Clone, Copy)]
pub(super) struct WithMins<const G: usize> {
    pub(super) d: Half,
    pub(super) dmin: Half,
    pub(super) scales: [u8; G],
    pub(super) mins: [u8; G],
    pub(super) codes: [u8; 256],
}

/// The sizes of a format with minimums.
#[derive(Clone, Copy)]
pub(super) struct MinShape {
    pub(super) span: Span,
    /// The largest group scale or minimum.
    pub(super) most: f32,
    pub(super) grid: Grid,
}

/// Fits `x` in `G` groups of `N`.
pub(super) fn with_mins<const G: usize, const N: usize>(
    shape: MinShape,
    x: &[[f32; N]; G],
    w: &[[f32; N]; G],
) -> WithMins<G> {
    let top = shape.span.top;
    let mut fits = [Affine::default(); G];
    let (mut cost_scale, mut cost_min) = ([0.0; G], [0.0; G]);
    for g in 0..G {
        fits[g] = affine(shape.span, &x[g], &w[g]);
        cost_scale[g] = affine_error(top, &x[g], &w[g], fits[g]).2;
        cost_min[g] = total_of(&w[g]);
    }
    let levels = Even { lo: 0.0, hi: shape.most };
    let mut out = WithMins {
        d: block_scale(levels, shape.grid, &fits.map(|f| f.scale), &cost_scale),
        dmin: block_scale(levels, shape.grid, &fits.map(|f| f.min), &cost_min),
        scales: [0; G],
        mins: [0; G],
        codes: [0; 256],
    };
    let mut sum = out.choose(shape, x, w, &fits);
    for _ in 0..2 {
        let Some((d, dmin)) = out.refit(top, x, w) else { break };
        let mut next = WithMins { d, dmin, ..out };
        let fits = core::array::from_fn(|g| next.fit(g));
        let error = next.choose(shape, x, w, &fits);
        if error >= sum {
            break;
        }
        (out, sum) = (next, error);
    }
    out.round(top, x);
    out
}

impl<const G: usize> WithMins<G> {
    fn fit(&self, g: usize) -> Affine {
        self.fit_of(f32::from(self.scales[g]), f32::from(self.mins[g]))
    }

    fn fit_of(&self, scale: f32, min: f32) -> Affine {
        Affine { scale: self.d.value * scale, min: self.dmin.value * min }
    }

    /// Chooses each group's integers near `fits`; returns the error left.
    fn choose<const N: usize>(
        &mut self,
        shape: MinShape,
        x: &[[f32; N]; G],
        w: &[[f32; N]; G],
        fits: &[Affine; G],
    ) -> f32 {
        let mut sum = 0.0;
        for g in 0..G {
            let (scale, min, error) = self.choose_one(shape, &x[g], &w[g], fits[g]);
            self.scales[g] = scale as u8;
            self.mins[g] = min as u8;
            sum += error;
        }
        sum
    }

    /// Scale, minimum and error of one group.
    fn choose_one<const N: usize>(
        &self,
        shape: MinShape,
        x: &[f32; N],
        w: &[f32; N],
        fit: Affine,
    ) -> (f32, f32, f32) {
        let levels = Even { lo: 0.0, hi: shape.most };
        let nearest = |v: f32, d: Half| if d.value == 0.0 { 0.0 } else { levels.level(v / d.value) };
        let (scale, min) = (nearest(fit.scale, self.d), nearest(fit.min, self.dmin));
        let (sw, sx) = (total_of(w), dot(w, x));
        let mut best = (scale, min, f32::MAX);
        for step in [0.0, -1.0, 1.0] {
            let scale = scale + step;
            if scale < 0.0 || scale > shape.most {
                continue;
            }
            let mut min = min;
            // The levels decide the best minimum, and it the levels.
            for _ in 0..3 {
                let fit = self.fit_of(scale, min);
                let (error, sq, _) = affine_error(shape.span.top, x, w, fit);
                if error < best.2 {
                    best = (scale, min, error);
                }
                let next = if sw > 0.0 { nearest((fit.scale * sq - sx) / sw, self.dmin) } else { min };
                if next == min {
                    break;
                }
                min = next;
            }
        }
        best
    }

    /// The half-precision scales that suit the integers best.
    fn refit<const N: usize>(&self, top: f32, x: &[[f32; N]; G], w: &[[f32; N]; G]) -> Option<(Half, Half)> {
        // x ≈ d·a - dmin·b, where a = scale·q and b = min of its group.
        let (mut aa, mut ab, mut bb, mut xa, mut xb) = (0.0, 0.0, 0.0, 0.0, 0.0);
        let levels = Even { lo: 0.0, hi: top };
        for g in 0..G {
            let fit = self.fit(g);
            let inverse = if fit.scale == 0.0 { 0.0 } else { 1.0 / fit.scale };
            let q = x[g].map(|v| levels.level((v + fit.min) * inverse));
            let wq: [f32; N] = core::array::from_fn(|i| w[g][i] * q[i]);
            let (s, m) = (f64::from(self.scales[g]), f64::from(self.mins[g]));
            let of = |a: &[f32; N], b: &[f32; N]| f64::from(dot(a, b));
            aa += s * s * of(&wq, &q);
            ab += s * m * of(&w[g], &q);
            bb += m * m * f64::from(total_of(&w[g]));
            xa += s * of(&wq, &x[g]);
            xb += m * of(&w[g], &x[g]);
        }
        let (d, dmin) = if bb > 0.0 {
            let det = aa * bb - ab * ab;
            if det <= 1e-9 * aa * bb {
                return None;
            }
            ((xa * bb - xb * ab) / det, (xa * ab - xb * aa) / det)
        } else if aa > 0.0 {
            (xa / aa, 0.0)
        } else {
            return None;
        };
        (d > 0.0 && dmin >= 0.0).then(|| (to_half(d as f32), to_half(dmin as f32)))
    }

    /// Settles the codes.
    fn round<const N: usize>(&mut self, top: f32, x: &[[f32; N]; G]) {
        let levels = Even { lo: 0.0, hi: top };
        for (g, codes) in self.codes.as_chunks_mut::<N>().0.iter_mut().enumerate().take(G) {
            let (s, m) = (f32::from(self.scales[g]), f32::from(self.mins[g]));
            let fit = Affine { scale: self.d.value * s, min: self.dmin.value * m };
            let inverse = if fit.scale == 0.0 { 0.0 } else { 1.0 / fit.scale };
            for (code, &v) in codes.iter_mut().zip(&x[g]) {
                *code = levels.code((v + fit.min) * inverse);
            }
        }
    }
}

/// The half-precision scale of the groups' scales `x`.
///
/// Most are so small that half precision has few bits left for them: then the
/// nearest may be too small for the largest group, and the next one up better.
fn block_scale<const G: usize>(levels: Even, grid: Grid, x: &[f32; G], w: &[f32; G]) -> Half {
    let nearest = to_half(scale(levels, grid, x, w));
    if nearest.value.abs() >= SMALLEST_NORMAL {
        return nearest;
    }
    let mut best = (nearest, error(levels, x, w, nearest.value));
    for steps in [-1.0, 1.0, 2.0] {
        let away = SMALLEST.copysign(nearest.value);
        let other = to_half(nearest.value + steps * away);
        let error = error(levels, x, w, other.value);
        if error < best.1 {
            best = (other, error);
        }
    }
    best.0
}

/// A block whose groups have a signed scale.
#[derive(Clone, Copy)]
pub(super) struct Signed<const G: usize> {
    pub(super) d: Half,
    pub(super) scales: [i8; G],
    pub(super) codes: [u8; 256],
}

/// The sizes of a format with signed scales.
#[derive(Clone, Copy)]
pub(super) struct SignedShape<L> {
    pub(super) levels: L,
    pub(super) grid: Grid,
    /// The group scales.
    pub(super) scales: Even,
    pub(super) scale_grid: Grid,
}

/// Fits `x` in `G` groups of `N`.
pub(super) fn signed<const G: usize, const N: usize, L: Levels>(
    shape: SignedShape<L>,
    x: &[[f32; N]; G],
    w: &[[f32; N]; G],
) -> Signed<G> {
    let fits: [f32; G] = core::array::from_fn(|g| scale(shape.levels, shape.grid, &x[g], &w[g]));
    let costs: [f32; G] = core::array::from_fn(|g| curvature(shape.levels, &x[g], &w[g], fits[g]));
    let d = block_scale(shape.scales, shape.scale_grid, &fits, &costs);
    let mut out = Signed { d, scales: [0; G], codes: [0; 256] };
    let mut sum = out.choose(shape, x, w, &fits);
    for _ in 0..2 {
        let Some(d) = out.refit(shape, x, w) else { break };
        let fits = out.scales.map(|s| d.value * f32::from(s));
        let mut next = Signed { d, ..out };
        let error = next.choose(shape, x, w, &fits);
        if error >= sum {
            break;
        }
        (out, sum) = (next, error);
    }
    out.round(shape.levels, x);
    out
}

impl<const G: usize> Signed<G> {
    /// Chooses each group's integer near `fits`; returns the error left.
    fn choose<const N: usize, L: Levels>(
        &mut self,
        shape: SignedShape<L>,
        x: &[[f32; N]; G],
        w: &[[f32; N]; G],
        fits: &[f32; G],
    ) -> f32 {
        let mut sum = 0.0;
        for g in 0..G {
            let near = if self.d.value == 0.0 { 0.0 } else { shape.scales.level(fits[g] / self.d.value) };
            let mut best = (near, f32::MAX);
            for step in [0.0, -1.0, 1.0] {
                let s = near + step;
                if s < shape.scales.lo || s > shape.scales.hi {
                    continue;
                }
                let error = error(shape.levels, &x[g], &w[g], self.d.value * s);
                if error < best.1 {
                    best = (s, error);
                }
            }
            self.scales[g] = round(best.0) as i8;
            sum += best.1;
        }
        sum
    }

    /// The half-precision scale that suits the integers best.
    fn refit<const N: usize, L: Levels>(
        &self,
        shape: SignedShape<L>,
        x: &[[f32; N]; G],
        w: &[[f32; N]; G],
    ) -> Option<Half> {
        let (mut xa, mut aa) = (0.0, 0.0);
        for g in 0..G {
            let s = f32::from(self.scales[g]);
            let scale = self.d.value * s;
            let inverse = if scale == 0.0 { 0.0 } else { 1.0 / scale };
            let q = x[g].map(|v| shape.levels.level(v * inverse));
            let wq: [f32; N] = core::array::from_fn(|i| w[g][i] * q[i]);
            xa += f64::from(s) * f64::from(dot(&wq, &x[g]));
            aa += f64::from(s) * f64::from(s) * f64::from(dot(&wq, &q));
        }
        (aa > 0.0 && xa != 0.0).then(|| to_half((xa / aa) as f32))
    }

    /// Settles the codes.
    fn round<const N: usize>(&mut self, levels: impl Levels, x: &[[f32; N]; G]) {
        for (g, codes) in self.codes.as_chunks_mut::<N>().0.iter_mut().enumerate().take(G) {
            let scale = self.d.value * f32::from(self.scales[g]);
            let inverse = if scale == 0.0 { 0.0 } else { 1.0 / scale };
            for (code, &v) in codes.iter_mut().zip(&x[g]) {
                *code = levels.code(v * inverse);
            }
        }
    }
}
