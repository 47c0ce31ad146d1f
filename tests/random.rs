//! Seeded random weights.

use katydid_core::quant::Format;

/// SplitMix64 (Steele, Lea and Flood, 2014).
pub struct Random(u64);

impl Random {
    /// The numbers that belong to `name`.
    pub fn of(name: &str) -> Self {
        Self(name.bytes().fold(0, |h: u64, b| h.wrapping_mul(131).wrapping_add(u64::from(b))))
    }

    /// 64 random bits.
    pub fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// From -1 to 1.
    pub fn unit(&mut self) -> f32 {
        (self.bits() >> 40) as f32 / (1 << 23) as f32 - 1.0
    }

    /// `bytes` bytes of weights in `format`, of a size that a network likes.
    pub fn weights(&mut self, format: Format, bytes: usize) -> Vec<u8> {
        if format == Format::F32 {
            return (0..bytes / 4).flat_map(|_| (self.unit() * 0.5).to_le_bytes()).collect();
        }
        let mut data: Vec<u8> = (0..bytes).map(|_| self.bits() as u8).collect();
        let (block, scales) = scales(format);
        // The high byte of a half: 2⁻⁸ for a block's scale; for weights that are
        // floats themselves about 2⁻⁶, the sign and fraction random.
        let tame = |high: u8| match format {
            Format::F16 => high & 0x83 | 0x24,
            Format::Bf16 => high & 0x80 | 0x3c,
            _ => 0x1c,
        };
        for block in data.chunks_exact_mut(block) {
            scales.iter().for_each(|at| block[at + 1] = tame(block[at + 1]));
        }
        data
    }
}

/// Bytes of a block, and where its half-precision scales lie.
fn scales(format: Format) -> (usize, &'static [usize]) {
    match format {
        Format::F32 => (4, &[]),
        Format::F16 | Format::Bf16 => (2, &[0]),
        Format::Q4_0 | Format::Iq4Nl => (18, &[0]),
        Format::Q4_1 => (20, &[0, 2]),
        Format::Q5_0 => (22, &[0]),
        Format::Q5_1 => (24, &[0, 2]),
        Format::Q8_0 => (34, &[0]),
        Format::Q2K => (84, &[80, 82]),
        Format::Q3K => (110, &[108]),
        Format::Q4K => (144, &[0, 2]),
        Format::Q5K => (176, &[0, 2]),
        Format::Q6K => (210, &[208]),
        Format::Iq4Xs => (136, &[0]),
    }
}
