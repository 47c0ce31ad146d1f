//! Q2_K: 256 weights in 16 groups of 16, each with a 4-bit scale and minimum.
//!
//! ```text
//! 16 bytes: group g's scale in the low nibble of byte g, its minimum in the high
//! 64 bytes: 2-bit weights; weight i is in byte 32*(i/128) + i%32, at bits 2*(i%128/32)
//! d | dmin (half precision)
//! weight = d * scale * q - dmin * minimum
//! ```

use super::half_at;

pub(super) fn element(b: &[u8], i: usize) -> f64 {
    let s = b[i / 16];
    let q = (b[16 + 32 * (i / 128) + i % 32] >> (2 * (i % 128 / 32))) & 3;
    half_at(b, 80) * f64::from(s & 15) * f64::from(q) - half_at(b, 82) * f64::from(s >> 4)
}
