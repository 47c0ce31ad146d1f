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
    let mut out = [0; 16];
    for (g, s) in out.iter_mut().enumerate() {
        let low = if g < 8 { packed[g] & 15 } else { packed[g - 8] >> 4 };
        let high = (packed[8 + g % 4] >> (2 * (g / 4))) & 3;
        *s = (low | high << 4) as i8 - 32;
    }
    out
}

pub(super) fn element(b: &[u8], i: usize) -> f64 {
    let mut packed = [0; 12];
    packed.copy_from_slice(&b[96..108]);
    let low = (b[32 + 32 * (i / 128) + i % 32] >> (2 * (i % 128 / 32))) & 3;
    let high = (b[i % 32] >> (i / 32)) & 1;
    let q = i32::from(low | high << 2) - 4;
    half_at(b, 108) * f64::from(scales(&packed)[i / 16]) * f64::from(q)
}
