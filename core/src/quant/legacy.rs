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

/// Places the low nibbles of 32 weights in 16 bytes; shared with IQ4.
pub(super) fn pack_nibbles(bytes: &mut [u8], q: &[u8; 32]) {
    for (i, byte) in bytes.iter_mut().enumerate().take(16) {
        *byte = q[i] & 15 | q[i + 16] << 4;
    }
}

/// Writes a block of four or five bits: the half-precision numbers (`d`, and
/// `m` where the format has one), fifth bits where `five`, nibbles.
pub(super) fn pack(b: &mut [u8], halves: &[u16], five: bool, q: &[u8; 32]) {
    let (head, rest) = b.split_at_mut(2 * halves.len());
    for (bytes, half) in head.chunks_exact_mut(2).zip(halves) {
        bytes.copy_from_slice(&half.to_le_bytes());
    }
    let nibbles = if five {
        let (high, nibbles) = rest.split_at_mut(4);
        let bits = q.iter().rev().fold(0u32, |bits, q| bits << 1 | u32::from(q >> 4));
        high.copy_from_slice(&bits.to_le_bytes());
        nibbles
    } else {
        rest
    };
    pack_nibbles(nibbles, q);
}

/// Writes a Q8_0 block.
pub(super) fn pack_q8_0(b: &mut [u8], d: u16, q: &[i8; 32]) {
    b[..2].copy_from_slice(&d.to_le_bytes());
    for (byte, q) in b[2..].iter_mut().zip(q) {
        *byte = *q as u8;
    }
}
