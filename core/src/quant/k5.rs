//! Q5_K: Q4_K with a fifth bit.
//!
//! ```text
//! d | dmin (half precision)
//! 12 bytes: scales and minimums as in Q4_K
//! 32 bytes: fifth bits; weight i's is bit i/32 of byte i%32
//! 128 bytes: low four bits as in Q4_K
//! weight = d * scale * q - dmin * minimum
//! ```

use super::half_at;

pub(super) fn element(b: &[u8], i: usize) -> f64 {
    let (s, m) = super::k4::scale_min(&b[4..16], i / 32);
    let low = (b[48 + 32 * (i / 64) + i % 32] >> (4 * (i / 32 % 2))) & 15;
    let high = (b[16 + i % 32] >> (i / 32)) & 1;
    half_at(b, 0) * s * f64::from(low | high << 4) - half_at(b, 2) * m
}

/// Writes a block: half-precision `d` and `dmin`, then by group and weight.
pub(super) fn pack(b: &mut [u8], d: u16, dmin: u16, scales: &[u8; 8], mins: &[u8; 8], q: &[u8; 256]) {
    b[..2].copy_from_slice(&d.to_le_bytes());
    b[2..4].copy_from_slice(&dmin.to_le_bytes());
    super::k4::pack_scales_mins(&mut b[4..16], scales, mins);
    b[16..48].fill(0);
    for (i, q) in q.iter().enumerate() {
        b[16 + i % 32] |= (q >> 4) << (i / 32);
    }
    super::k4::pack_nibbles(&mut b[48..], q);
}
