//! IQ4_NL and IQ4_XS: 4-bit indices into a table of unevenly spaced values.
//!
//! ```text
//! IQ4_NL  d | 16 bytes: nibbles placed as in Q4_0
//! IQ4_XS  d | 16 bits: upper two bits of 8 group scales, group g's at bit 2g |
//!         4 bytes: their low nibbles, two to a byte |
//!         128 bytes: 8 groups of 16 bytes, each as in IQ4_NL
//!         weight = d * (scale - 32) * VALUES[q]
//! ```

use super::half_at;

/// The 16 levels, finer near zero. From ggml's `kvalues_iq4nl`.
pub(crate) const VALUES: [i8; 16] =
    [-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113];

fn level(bytes: &[u8], i: usize) -> f64 {
    let q = if i < 16 { bytes[i] & 15 } else { bytes[i - 16] >> 4 };
    f64::from(VALUES[usize::from(q)])
}

pub(super) fn nl(b: &[u8], i: usize) -> f64 {
    half_at(b, 0) * level(&b[2..], i)
}

pub(super) fn xs(b: &[u8], i: usize) -> f64 {
    let g = i / 32;
    let high = (u16::from_le_bytes([b[2], b[3]]) >> (2 * g)) & 3;
    let low = (b[4 + g / 2] >> (4 * (g % 2))) & 15;
    let scale = i32::from(low) + 16 * i32::from(high) - 32;
    half_at(b, 0) * f64::from(scale) * level(&b[8 + 16 * g..], i % 32)
}

/// Writes an IQ4_NL block: half-precision `d`, codes of 32 weights.
pub(super) fn pack_nl(b: &mut [u8], d: u16, q: &[u8; 32]) {
    b[..2].copy_from_slice(&d.to_le_bytes());
    super::legacy::pack_nibbles(&mut b[2..], q);
}

/// Writes an IQ4_XS block: half-precision `d`, scales -32 to 31, codes.
pub(super) fn pack_xs(b: &mut [u8], d: u16, scales: &[i8; 8], q: &[u8; 256]) {
    b[..2].copy_from_slice(&d.to_le_bytes());
    let mut high = 0;
    b[4..8].fill(0);
    for (g, s) in scales.iter().enumerate() {
        let s = (s + 32) as u8;
        high |= u16::from(s >> 4) << (2 * g);
        b[4 + g / 2] |= (s & 15) << (4 * (g % 2));
    }
    b[2..4].copy_from_slice(&high.to_le_bytes());
    for (bytes, q) in b[8..].chunks_exact_mut(16).zip(q.as_chunks::<32>().0) {
        super::legacy::pack_nibbles(bytes, q);
    }
}
