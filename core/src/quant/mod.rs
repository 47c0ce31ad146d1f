//! Block formats: how GGUF stores weights.
//!
//! Each file documents one block's layout by one function, `element`, which
//! gives the exact value of one weight as `f64`. It is the slow, obvious
//! reading of the format: tests compare the kernels against it, and embedding
//! rows, of which a token needs only one, are read through it.
//!
//! Layouts follow ggml's `ggml-common.h` (MIT), which defines the formats.

mod encode;
mod float;
mod iq4;
mod k2;
mod k3;
mod k4;
mod k5;
mod k6;
mod legacy;
pub mod mix;

pub use encode::{EncodeError, MAX_WEIGHT, encode};
pub(crate) use iq4::VALUES as IQ4_VALUES;
pub(crate) use k3::scales as k3_scales;
pub(crate) use k4::scales_mins as k4_scales_mins;

/// How a tensor's numbers are stored. The discriminants are ggml's type ids,
/// as written in GGUF files.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u32)]
#[allow(missing_docs, reason = "the names are the field's own")]
pub enum Format {
    F32 = 0,
    F16 = 1,
    Q4_0 = 2,
    Q4_1 = 3,
    Q5_0 = 6,
    Q5_1 = 7,
    Q8_0 = 8,
    Q2K = 10,
    Q3K = 11,
    Q4K = 12,
    Q5K = 13,
    Q6K = 14,
    Iq4Nl = 20,
    Iq4Xs = 23,
    Bf16 = 30,
}

/// The form activations take to meet a weight format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ActKind {
    /// `f32` as they are.
    Float,
    /// 8-bit in blocks of 32 with one scale each.
    Q80,
    /// 8-bit in blocks of 256 with one scale each.
    Q8K,
}

impl Format {
    /// Every format, in the order of the tables in the documentation.
    pub const ALL: [Format; 15] = [
        Format::F32,
        Format::F16,
        Format::Bf16,
        Format::Q4_0,
        Format::Q4_1,
        Format::Q5_0,
        Format::Q5_1,
        Format::Q8_0,
        Format::Q2K,
        Format::Q3K,
        Format::Q4K,
        Format::Q5K,
        Format::Q6K,
        Format::Iq4Nl,
        Format::Iq4Xs,
    ];

    /// The format with ggml type id `id`, where we read it.
    pub fn from_id(id: u32) -> Option<Self> {
        Self::ALL.into_iter().find(|f| *f as u32 == id)
    }

    /// Position in [`Format::ALL`].
    pub const fn index(self) -> usize {
        let mut i = 0;
        while i < Self::ALL.len() {
            if Self::ALL[i] as u32 == self as u32 {
                return i;
            }
            i += 1;
        }
        unreachable!()
    }

    /// ggml's name.
    pub const fn name(self) -> &'static str {
        match self {
            Format::F32 => "F32",
            Format::F16 => "F16",
            Format::Bf16 => "BF16",
            Format::Q4_0 => "Q4_0",
            Format::Q4_1 => "Q4_1",
            Format::Q5_0 => "Q5_0",
            Format::Q5_1 => "Q5_1",
            Format::Q8_0 => "Q8_0",
            Format::Q2K => "Q2_K",
            Format::Q3K => "Q3_K",
            Format::Q4K => "Q4_K",
            Format::Q5K => "Q5_K",
            Format::Q6K => "Q6_K",
            Format::Iq4Nl => "IQ4_NL",
            Format::Iq4Xs => "IQ4_XS",
        }
    }

    /// Weights per block.
    pub const fn block_len(self) -> usize {
        match self {
            Format::F32 | Format::F16 | Format::Bf16 => 1,
            Format::Q4_0 | Format::Q4_1 | Format::Q5_0 | Format::Q5_1 | Format::Q8_0 | Format::Iq4Nl => 32,
            Format::Q2K | Format::Q3K | Format::Q4K | Format::Q5K | Format::Q6K | Format::Iq4Xs => 256,
        }
    }

    /// Bytes per block.
    pub const fn block_bytes(self) -> usize {
        match self {
            Format::F32 => 4,
            Format::F16 | Format::Bf16 => 2,
            Format::Q4_0 | Format::Iq4Nl => 18,
            Format::Q4_1 => 20,
            Format::Q5_0 => 22,
            Format::Q5_1 => 24,
            Format::Q8_0 => 34,
            Format::Q2K => 84,
            Format::Q3K => 110,
            Format::Q4K => 144,
            Format::Q5K => 176,
            Format::Q6K => 210,
            Format::Iq4Xs => 136,
        }
    }

    /// Bytes of a row of `cols` weights, where `cols` is whole blocks and the
    /// size can be represented.
    pub const fn row_bytes(self, cols: u64) -> Option<u64> {
        if !cols.is_multiple_of(self.block_len() as u64) {
            return None;
        }
        (cols / self.block_len() as u64).checked_mul(self.block_bytes() as u64)
    }

    /// What activations become before they meet this format.
    pub const fn act_kind(self) -> ActKind {
        match self.block_len() {
            1 => ActKind::Float,
            32 => ActKind::Q80,
            _ => ActKind::Q8K,
        }
    }

    /// The exact value of weight `i` of `block`.
    ///
    /// Panics when `block` is not [`Self::block_bytes`] long or `i` is outside.
    pub fn element(self, block: &[u8], i: usize) -> f64 {
        assert!(block.len() == self.block_bytes() && i < self.block_len());
        match self {
            Format::F32 => float::f32(block),
            Format::F16 => float::f16(block),
            Format::Bf16 => float::bf16(block),
            Format::Q4_0 => legacy::q4_0(block, i),
            Format::Q4_1 => legacy::q4_1(block, i),
            Format::Q5_0 => legacy::q5_0(block, i),
            Format::Q5_1 => legacy::q5_1(block, i),
            Format::Q8_0 => legacy::q8_0(block, i),
            Format::Q2K => k2::element(block, i),
            Format::Q3K => k3::element(block, i),
            Format::Q4K => k4::element(block, i),
            Format::Q5K => k5::element(block, i),
            Format::Q6K => k6::element(block, i),
            Format::Iq4Nl => iq4::nl(block, i),
            Format::Iq4Xs => iq4::xs(block, i),
        }
    }

    /// Writes a row of weights as `f32`, each rounded once from its exact value.
    ///
    /// Panics when `row` and `out` do not describe the same number of weights.
    pub fn dequantize(self, row: &[u8], out: &mut [f32]) {
        assert!(row.len().is_multiple_of(self.block_bytes()));
        assert_eq!(row.len() / self.block_bytes() * self.block_len(), out.len());
        match self {
            Format::F32 => read::<1, 4>(row, out, |b, _| float::f32(b)),
            Format::F16 => read::<1, 2>(row, out, |b, _| float::f16(b)),
            Format::Bf16 => read::<1, 2>(row, out, |b, _| float::bf16(b)),
            Format::Q4_0 => read::<32, 18>(row, out, |b, i| legacy::q4_0(b, i)),
            Format::Q4_1 => read::<32, 20>(row, out, |b, i| legacy::q4_1(b, i)),
            Format::Q5_0 => read::<32, 22>(row, out, |b, i| legacy::q5_0(b, i)),
            Format::Q5_1 => read::<32, 24>(row, out, |b, i| legacy::q5_1(b, i)),
            Format::Q8_0 => read::<32, 34>(row, out, |b, i| legacy::q8_0(b, i)),
            Format::Q2K => read::<256, 84>(row, out, |b, i| k2::element(b, i)),
            Format::Q3K => read::<256, 110>(row, out, |b, i| k3::element(b, i)),
            Format::Q4K => read::<256, 144>(row, out, |b, i| k4::element(b, i)),
            Format::Q5K => read::<256, 176>(row, out, |b, i| k5::element(b, i)),
            Format::Q6K => read::<256, 210>(row, out, |b, i| k6::element(b, i)),
            Format::Iq4Nl => read::<32, 18>(row, out, |b, i| iq4::nl(b, i)),
            Format::Iq4Xs => read::<256, 136>(row, out, |b, i| iq4::xs(b, i)),
        }
    }
}

/// Reads blocks of `LEN` weights in `BYTES` bytes; sizes that the compiler
/// knows make the plain reading of a whole row several times as fast.
#[inline(always)]
fn read<const LEN: usize, const BYTES: usize>(
    row: &[u8],
    out: &mut [f32],
    element: impl Fn(&[u8; BYTES], usize) -> f64,
) {
    for (block, out) in row.as_chunks::<BYTES>().0.iter().zip(out.as_chunks_mut::<LEN>().0) {
        for (i, y) in out.iter_mut().enumerate() {
            *y = element(block, i) as f32;
        }
    }
}

/// The little-endian half-precision number at byte `at`.
fn half_at(block: &[u8], at: usize) -> f64 {
    f64::from(half::f16::from_bits(u16::from_le_bytes([block[at], block[at + 1]])).to_f32_const())
}

#[cfg(test)]
mod tests {
    use super::Format;

    #[test]
    fn ids_and_indices_round_trip() {
        for (i, f) in Format::ALL.into_iter().enumerate() {
            assert_eq!(Format::from_id(f as u32), Some(f));
            assert_eq!(f.index(), i);
        }
        assert_eq!(Format::from_id(4), None); // Q4_2, removed from ggml
        assert_eq!(Format::from_id(u32::MAX), None);
    }

    #[test]
    fn rows_are_whole_blocks() {
        assert_eq!(Format::Q4K.row_bytes(2048), Some(1152));
        assert_eq!(Format::Q4K.row_bytes(2047), None);
        assert_eq!(Format::F32.row_bytes(u64::MAX), None);
    }
}
