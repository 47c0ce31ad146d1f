//! Q6_K: 256 weights in 16 groups of 16, each with a signed 8-bit scale.
//!
//! ```text
//! 128 bytes: low four bits; of each half of 128 weights, byte l (0-63) holds
//!            weight l in the low nibble and l+64 in the high
//! 64 bytes:  upper two bits; of each half, byte l (0-31) holds weights l, l+32,
//!            l+64, l+96 from the low bits up
//! 16 bytes:  scales
//! d (half precision)
//! weight = d * scale * (q - 32)
//! ```

use super::half_at;

pub(super) fn element(b: &[u8], i: usize) -> f64 {
    let (half, j) = (i / 128, i % 128);
    let low = (b[64 * half + j % 64] >> (4 * (j / 64))) & 15;
    let high = (b[128 + 32 * half + j % 32] >> (2 * (j / 32))) & 3;
    let q = i32::from(low | high << 4) - 32;
    half_at(b, 208) * f64::from(b[192 + i / 16] as i8) * f64::from(q)
}

/// Writes a block: half-precision `d`, scales, weights offset by 32.
pub(super) fn pack(b: &mut [u8], d: u16, scales: &[i8; 16], q: &[u8; 256]) {
    let (low, rest) = b.split_at_mut(128);
    for (low, q) in low.chunks_exact_mut(64).zip(q.chunks_exact(128)) {
        for (l, byte) in low.iter_mut().enumerate() {
            *byte = q[l] & 15 | q[l + 64] << 4;
        }
    }
    for (high, q) in rest[..64].chunks_exact_mut(32).zip(q.chunks_exact(128)) {
        for (l, byte) in high.iter_mut().enumerate() {
            *byte = (0..4).fold(0, |byte, k| byte | (q[32 * k + l] >> 4) << (2 * k));
        }
    }
    for (byte, s) in rest[64..80].iter_mut().zip(scales) {
        *byte = *s as u8;
    }
    rest[80..].copy_from_slice(&d.to_le_bytes());
}
