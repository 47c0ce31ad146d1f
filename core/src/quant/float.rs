//! F32, F16, BF16: a block is one number, little-endian.

pub(super) fn f32(b: &[u8]) -> f64 {
    f64::from(f32::from_le_bytes([b[0], b[1], b[2], b[3]]))
}

pub(super) fn f16(b: &[u8]) -> f64 {
    super::half_at(b, 0)
}

/// The upper half of an `f32`.
pub(super) fn bf16(b: &[u8]) -> f64 {
    f64::from(f32::from_le_bytes([0, 0, b[0], b[1]]))
}
