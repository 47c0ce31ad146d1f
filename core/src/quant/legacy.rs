//! Q4_0, Q4_1, Q5_0, Q5_1, Q8_0: 32 weights, one scale `d`, perhaps one
//! minimum `m`, both half precision.
//!
//! ```text
//! Q4_0  d | 16 bytes: weight i in the low nibble of byte i, i+16 in the high
//! Q4_1  d | m | 16 bytes
//! Q5_0  d | 32 high bits, weight i's at bit i | 16 bytes
//! Q5_1  d | m | 32 high bits | 16 bytes
//! Q8_0  d | 32 signed bytes
//! ```

use super::half_at;

fn nibble(bytes: &[u8], i: usize) -> u8 {
    if i < 16 { bytes[i] & 15 } else { bytes[i - 16] >> 4 }
}

fn high_bit(bytes: &[u8], i: usize) -> u8 {
    (bytes[i / 8] >> (i % 8)) & 1
}

pub(super) fn q4_0(b: &[u8], i: usize) -> f64 {
    half_at(b, 0) * (f64::from(nibble(&b[2..], i)) - 8.0)
}

pub(super) fn q4_1(b: &[u8], i: usize) -> f64 {
    half_at(b, 0) * f64::from(nibble(&b[4..], i)) + half_at(b, 2)
}

pub(super) fn q5_0(b: &[u8], i: usize) -> f64 {
    let q = nibble(&b[6..], i) | high_bit(&b[2..6], i) << 4;
    half_at(b, 0) * (f64::from(q) - 16.0)
}

pub(super) fn q5_1(b: &[u8], i: usize) -> f64 {
    let q = nibble(&b[8..], i) | high_bit(&b[4..8], i) << 4;
    half_at(b, 0) * f64::from(q) + half_at(b, 2)
}

pub(super) fn q8_0(b: &[u8], i: usize) -> f64 {
    half_at(b, 0) * f64::from(b[2 + i] as i8)
}
