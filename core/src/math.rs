//! Scalar mathematics that must give the same bits on every target: `core` has
//! no `sqrt`, `sin` or `pow`, so all come from one portable library.

/// Correctly rounded square root.
pub(crate) fn sqrt(x: f32) -> f32 {
    libm::sqrtf(x)
}
