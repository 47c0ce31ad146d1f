//! Blocks of 32 weights with one scale, perhaps one minimum.

use super::search::{Even, Grid, Levels, Span, affine, error, round, scale};
use super::{Half, to_half};

/// A block of one scale and 32 codes.
pub(super) struct Scaled {
    pub(super) d: Half,
    pub(super) codes: [u8; 32],
}

/// Fits a scale.
pub(super) fn scaled(levels: impl Levels, grid: Grid, x: &[f32; 32], w: &[f32; 32]) -> Scaled {
    let d = to_half(scale(levels, grid, x, w));
    let inverse = d.inverse();
    Scaled { d, codes: x.map(|v| levels.code(v * inverse)) }
}

/// A block of scale, minimum (added, as these formats do) and 32 codes.
pub(super) struct Offset {
    pub(super) d: Half,
    pub(super) m: Half,
    pub(super) codes: [u8; 32],
}

/// Fits a scale and a minimum.
pub(super) fn offset(span: Span, x: &[f32; 32], w: &[f32; 32]) -> Offset {
    let fit = affine(span, x, w);
    let (d, m) = (to_half(fit.scale), to_half(-fit.min));
    let inverse = d.inverse();
    let levels = Even { lo: 0.0, hi: span.top };
    Offset { d, m, codes: x.map(|v| levels.code((v - m.value) * inverse)) }
}

/// Q8_0: the largest weight decides the scale, unless a slightly better one is
/// found by rounding twice.
pub(super) fn bytes(x: &[f32; 32], w: &[f32; 32]) -> (Half, [i8; 32]) {
    let levels = Even { lo: -127.0, hi: 127.0 };
    let far = x.iter().fold(0.0f32, |far, v| far.max(v.abs()));
    let plain = to_half(far / 127.0);
    let fitted = to_half(scale(levels, Grid { ends: &[127.0], step: 0.0, reach: 0 }, x, w));
    let better = error(levels, x, w, fitted.value) < error(levels, x, w, plain.value);
    let d = if better { fitted } else { plain };
    let inverse = d.inverse();
    (d, x.map(|v| round((v * inverse).clamp(-127.0, 127.0)) as i8))
}
