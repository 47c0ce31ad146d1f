//! Q3_K: 256 weights in 16 groups of 16, each with a signed 6-bit scale.
//!
//! ```text
//! 32 bytes: high bits; weight i's is bit i/32 of byte i%32, and 0 means subtract 4
//! 64 bytes: low 2 bits, placed as in Q2_K
//! 12 bytes: 16 scales of 6 bits, offset by 32; low nibbles of scales 0-7 and
//!           8-15 share bytes 0-7, the upper pairs of bits fill bytes 8-11
//! d (half precision)
//! weight = d * (scale - 32) * (q - 4)
//! ```

use super::half_at;

/// The 16 group scales of a block's 12 packed bytes, offset removed.
#[inline(always)]
pub(crate) fn scales(packed: &[u8; 12]) -> [i8; 16] {
    const LOW4: u32 = 0x0f0f_0f0f;
    const TWO: u32 = 0x0303_0303;
    let word = |i: usize| u32::from_le_bytes([packed[i], packed[i + 1], packed[i + 2], packed[i + 3]]);
    let (a, b, c) = (word(0), word(4), word(8));
    let low = [a & LOW4, b & LOW4, (a >> 4) & LOW4, (b >> 4) & LOW4];
    let mut out = [0; 16];
    for i in 0..4 {
        let six_bits = low[i] | ((c >> (2 * i)) & TWO) << 4;
        // Minus 32 in each byte: the top bit set lends, and is then put right.
        let signed = ((six_bits | 0x8080_8080) - 0x2020_2020) ^ 0x8080_8080;
        for (s, byte) in out[4 * i..].iter_mut().zip(signed.to_le_bytes()) {
            *s = byte as i8;
        }
    }
    out
}

/// The scale of group `g`, read bit by bit.
fn scale(packed: &[u8], g: usize) -> i8 {
    let low = if g < 8 { packed[g] & 15 } else { packed[g - 8] >> 4 };
    let high = (packed[8 + g % 4] >> (2 * (g / 4))) & 3;
    (low | high << 4) as i8 - 32
}

pub(super) fn element(b: &[u8], i: usize) -> f64 {
    let low = (b[32 + 32 * (i / 128) + i % 32] >> (2 * (i % 128 / 32))) & 3;
    let high = (b[i % 32] >> (i / 32)) & 1;
    let q = i32::from(low | high << 2) - 4;
    half_at(b, 108) * f64::from(scale(&b[96..108], i / 16)) * f64::from(q)
}

/// Writes a block: half-precision `d`, scales -32 to 31, weights offset by 4.
pub(super) fn pack(b: &mut [u8], d: u16, scales: &[i8; 16], q: &[u8; 256]) {
    b[..32].fill(0);
    for (i, q) in q.iter().enumerate() {
        b[i % 32] |= (q >> 2) << (i / 32);
    }
    super::k2::pack_pairs(&mut b[32..96], q);
    let packed = &mut b[96..108];
    packed.fill(0);
    for (g, s) in scales.iter().enumerate() {
        let s = (s + 32) as u8;
        packed[g % 8] |= (s & 15) << (4 * (g / 8));
        packed[8 + g % 4] |= (s >> 4) << (2 * (g / 4));
    }
    b[108..].copy_from_slice(&d.to_le_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_readings_of_the_scales_agree() {
        for seed in 0..=255u8 {
            let packed: [u8; 12] = core::array::from_fn(|i| (i as u8).wrapping_mul(73).wrapping_add(seed));
            for (g, s) in scales(&packed).into_iter().enumerate() {
                assert_eq!(s, scale(&packed, g));
            }
        }
    }
}
