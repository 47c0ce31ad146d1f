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

/// Writes a block: half-precision `d` and `dmin`, then by group and weight.
pub(super) fn pack(b: &mut [u8], d: u16, dmin: u16, scales: &[u8; 16], mins: &[u8; 16], q: &[u8; 256]) {
    for g in 0..16 {
        b[g] = scales[g] | mins[g] << 4;
    }
    pack_pairs(&mut b[16..80], q);
    b[80..82].copy_from_slice(&d.to_le_bytes());
    b[82..84].copy_from_slice(&dmin.to_le_bytes());
}

/// Places the low two bits of 256 weights in 64 bytes; shared with Q3_K.
pub(super) fn pack_pairs(bytes: &mut [u8], q: &[u8; 256]) {
    for (half, q) in bytes.chunks_exact_mut(32).zip(q.chunks_exact(128)) {
        for (l, byte) in half.iter_mut().enumerate() {
            *byte = (0..4).fold(0, |byte, k| byte | (q[32 * k + l] & 3) << (2 * k));
        }
    }
}
