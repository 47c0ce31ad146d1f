//! Q4_K: 256 weights in 8 groups of 32, each with a 6-bit scale and minimum.
//!
//! ```text
//! d | dmin (half precision)
//! 12 bytes: 8 scales and 8 minimums of 6 bits (see `scales_mins`)
//! 128 bytes: each run of 32 bytes holds two groups, the first in the low
//!            nibbles, the second in the high
//! weight = d * scale * q - dmin * minimum
//! ```

use super::half_at;

/// The 8 scales and 8 minimums of a block's 12 packed bytes.
///
/// Bytes 0-3 hold scales 0-3 and bytes 4-7 minimums 0-3 in their low six bits;
/// bytes 8-11 hold the low nibbles of scales (low) and minimums (high) 4-7,
/// whose upper two bits are the upper two bits of bytes 0-7.
#[inline(always)]
pub(crate) fn scales_mins(packed: &[u8; 12]) -> ([u8; 8], [u8; 8]) {
    const LOW6: u32 = 0x3f3f_3f3f;
    const LOW4: u32 = 0x0f0f_0f0f;
    const TOP2: u32 = 0x0303_0303;
    let word = |i: usize| u32::from_le_bytes([packed[i], packed[i + 1], packed[i + 2], packed[i + 3]]);
    let (a, b, c) = (word(0), word(4), word(8));
    let scales = u64::from(a & LOW6) | u64::from((c & LOW4) | ((a >> 6) & TOP2) << 4) << 32;
    let mins = u64::from(b & LOW6) | u64::from(((c >> 4) & LOW4) | ((b >> 6) & TOP2) << 4) << 32;
    (scales.to_le_bytes(), mins.to_le_bytes())
}

/// The scale and minimum of group `g`, read bit by bit; shared with Q5_K.
pub(super) fn scale_min(packed: &[u8], g: usize) -> (f64, f64) {
    let (s, m) = if g < 4 {
        (packed[g] & 63, packed[g + 4] & 63)
    } else {
        ((packed[g + 4] & 15) | (packed[g - 4] >> 6) << 4, (packed[g + 4] >> 4) | (packed[g] >> 6) << 4)
    };
    (f64::from(s), f64::from(m))
}

pub(super) fn element(b: &[u8], i: usize) -> f64 {
    let (s, m) = scale_min(&b[4..16], i / 32);
    let q = (b[16 + 32 * (i / 64) + i % 32] >> (4 * (i / 32 % 2))) & 15;
    half_at(b, 0) * s * f64::from(q) - half_at(b, 2) * m
}

/// Packs 8 scales and 8 minimums of 6 bits; shared with Q5_K.
pub(super) fn pack_scales_mins(packed: &mut [u8], scales: &[u8; 8], mins: &[u8; 8]) {
    for g in 0..4 {
        packed[g] = scales[g] | (scales[g + 4] >> 4) << 6;
        packed[g + 4] = mins[g] | (mins[g + 4] >> 4) << 6;
        packed[g + 8] = scales[g + 4] & 15 | mins[g + 4] << 4;
    }
}

/// Places the low nibbles of 256 weights in 128 bytes; shared with Q5_K.
pub(super) fn pack_nibbles(bytes: &mut [u8], q: &[u8; 256]) {
    for (bytes, q) in bytes.chunks_exact_mut(32).zip(q.chunks_exact(64)) {
        for (l, byte) in bytes.iter_mut().enumerate() {
            *byte = q[l] & 15 | q[l + 32] << 4;
        }
    }
}

/// Writes a block: half-precision `d` and `dmin`, then by group and weight.
pub(super) fn pack(b: &mut [u8], d: u16, dmin: u16, scales: &[u8; 8], mins: &[u8; 8], q: &[u8; 256]) {
    b[..2].copy_from_slice(&d.to_le_bytes());
    b[2..4].copy_from_slice(&dmin.to_le_bytes());
    pack_scales_mins(&mut b[4..16], scales, mins);
    pack_nibbles(&mut b[16..], q);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_readings_of_the_scales_agree() {
        let packed: [u8; 12] = core::array::from_fn(|i| (i * 73 + 41) as u8);
        let (s, m) = scales_mins(&packed);
        for g in 0..8 {
            assert_eq!((f64::from(s[g]), f64::from(m[g])), scale_min(&packed, g));
        }
    }
}
