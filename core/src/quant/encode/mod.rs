//! Writing weights in block formats.
//!
//! [`encode`] minimises the squared error of each block, each weight's error
//! weighted by its importance where that is known. A weight's importance is the
//! mean square of the activations it meets: the sum is then what the error does
//! to the product, as far as one can tell without the activations themselves.
//!
//! The same numbers give the same bits on every machine: see [`search`].

mod k_quants;
mod legacy;
mod search;

use core::fmt;

use half::{bf16, f16};

use super::{Format, iq4, k2, k3, k4, k5, k6};
use k_quants::{MinShape, Signed, SignedShape, WithMins};
use search::{Even, Grid, Span, Uneven};

/// Half precision ends here; a block's scale or minimum is half precision.
pub const MAX_WEIGHT: f32 = 65504.0;

/// Writes a row of weights, or any part of one that is whole blocks.
///
/// `importance` has one number per weight, not negative and finite; only their
/// proportions within a block of 256 (or of the format, where that is less)
/// matter. `out` takes as many bytes as [`Format::row_bytes`] says. On an
/// error `out` is unspecified.
pub fn encode(
    format: Format,
    row: &[f32],
    importance: Option<&[f32]>,
    out: &mut [u8],
) -> Result<(), EncodeError> {
    let bytes = format.row_bytes(row.len() as u64);
    if bytes != Some(out.len() as u64) || importance.is_some_and(|i| i.len() != row.len()) {
        return Err(EncodeError::Shape { format, weights: row.len(), bytes: out.len() });
    }
    check(format, row)?;
    if let Some(at) = importance.and_then(|i| i.iter().position(|v| !(v.is_finite() && *v >= 0.0))) {
        return Err(EncodeError::Importance { at });
    }
    match format {
        Format::F32 => each(row, out, |x| x.to_le_bytes()),
        Format::F16 => each(row, out, |x| f16::from_f32_const(x).to_le_bytes()),
        Format::Bf16 => each(row, out, |x| bf16::from_f32_const(x).to_le_bytes()),
        _ if format.block_len() == 32 => {
            blocks::<32>(row, importance, out, format.block_bytes(), |x, w, b| small(format, x, w, b));
        }
        _ => blocks::<256>(row, importance, out, format.block_bytes(), |x, w, b| large(format, x, w, b)),
    }
    Ok(())
}

/// Errs on the first weight that `format` cannot hold.
fn check(format: Format, row: &[f32]) -> Result<(), EncodeError> {
    // What rounds to infinity does not fit; half a step above the largest does.
    let most = match format {
        Format::F32 => f32::MAX,
        Format::Bf16 => f32::from_bits(0x7f7f_7fff),
        Format::F16 => 65519.996,
        _ => MAX_WEIGHT,
    };
    // Without a branch per weight: the search for the culprit comes later.
    if row.iter().fold(true, |fine, v| fine & (v.abs() <= most)) {
        return Ok(());
    }
    let bad = row.iter().enumerate().find(|(_, v)| v.is_nan() || v.abs() > most);
    let Some((at, &value)) = bad else { return Ok(()) };
    Err(if value.is_finite() {
        EncodeError::TooLarge { at, value, format }
    } else {
        EncodeError::NotFinite { at, value }
    })
}

fn each<const N: usize>(row: &[f32], out: &mut [u8], write: impl Fn(f32) -> [u8; N]) {
    for (x, out) in row.iter().zip(out.as_chunks_mut::<N>().0) {
        *out = write(*x);
    }
}

/// Calls `write` for each block with its weights' relative importance.
fn blocks<const N: usize>(
    row: &[f32],
    importance: Option<&[f32]>,
    out: &mut [u8],
    bytes: usize,
    write: impl Fn(&[f32; N], &[f32; N], &mut [u8]),
) {
    let mut w = [1.0; N];
    let mut importance = importance.map(|i| i.as_chunks::<N>().0.iter());
    for (x, out) in row.as_chunks::<N>().0.iter().zip(out.chunks_exact_mut(bytes)) {
        if let Some(block) = importance.as_mut().and_then(Iterator::next) {
            w = relative(block);
        }
        write(x, &w, out);
    }
}

/// Importance about one: no sum of squares can then overflow. Weights that no
/// activation was ever seen to meet keep a little, lest they become anything.
fn relative<const N: usize>(importance: &[f32; N]) -> [f32; N] {
    const LEAST: f32 = 1e-4;
    let mean = importance.iter().map(|v| f64::from(*v)).sum::<f64>() / N as f64;
    if mean <= 0.0 {
        return [1.0; N];
    }
    importance.map(|v| (f64::from(v) / mean) as f32 + LEAST)
}

/// A half-precision number: its bits and its value.
#[derive(Clone, Copy, Debug)]
struct Half {
    bits: u16,
    value: f32,
}

impl Half {
    /// One over it, or zero for zero.
    fn inverse(self) -> f32 {
        if self.value == 0.0 { 0.0 } else { 1.0 / self.value }
    }
}

/// The nearest finite half-precision number.
fn to_half(x: f32) -> Half {
    let half = f16::from_f32_const(x.clamp(-MAX_WEIGHT, MAX_WEIGHT));
    Half { bits: half.to_bits(), value: half.to_f32_const() }
}

/// Candidates around both ends of four and five bits.
const Q4: Grid = Grid { ends: &[-8.0, 7.0], step: 0.15, reach: 6 };
const Q5: Grid = Grid { ends: &[-16.0, 15.0], step: 0.2, reach: 4 };
const IQ4: Grid = Grid { ends: &[-127.0, 113.0], step: 2.5, reach: 5 };
const Q4_1: Span = Span { top: 15.0, min_positive: false, step: 0.15, below: 4, above: 8 };
const Q5_1: Span = Span { top: 31.0, min_positive: false, step: 0.2, below: 3, above: 6 };

fn small(format: Format, x: &[f32; 32], w: &[f32; 32], b: &mut [u8]) {
    use super::legacy::{pack, pack_q8_0};
    let even = |lo: f32, hi: f32| Even { lo, hi };
    match format {
        Format::Q4_0 => {
            let s = legacy::scaled(even(-8.0, 7.0), Q4, x, w);
            pack(b, &[s.d.bits], false, &s.codes);
        }
        Format::Q5_0 => {
            let s = legacy::scaled(even(-16.0, 15.0), Q5, x, w);
            pack(b, &[s.d.bits], true, &s.codes);
        }
        Format::Q4_1 => {
            let s = legacy::offset(Q4_1, x, w);
            pack(b, &[s.d.bits, s.m.bits], false, &s.codes);
        }
        Format::Q5_1 => {
            let s = legacy::offset(Q5_1, x, w);
            pack(b, &[s.d.bits, s.m.bits], true, &s.codes);
        }
        Format::Iq4Nl => {
            let s = legacy::scaled(Uneven, IQ4, x, w);
            iq4::pack_nl(b, s.d.bits, &s.codes);
        }
        _ => {
            let (d, codes) = legacy::bytes(x, w);
            pack_q8_0(b, d.bits, &codes);
        }
    }
}

const fn with_mins(top: f32, most: f32, step: f32, below: i32, above: i32) -> MinShape {
    let ends: &[f32] = if most > 15.0 { &[63.0] } else { &[15.0] };
    let span = Span { top, min_positive: true, step, below, above };
    MinShape { span, most, grid: Grid { ends, step: 0.2, reach: 4 } }
}

const Q2K: MinShape = with_mins(3.0, 15.0, 0.1, 9, 9);
const Q4K: MinShape = with_mins(15.0, 63.0, 0.15, 4, 8);
const Q5K: MinShape = with_mins(31.0, 63.0, 0.2, 3, 6);
const Q3K: SignedShape<Even> = SignedShape {
    levels: Even { lo: -4.0, hi: 3.0 },
    grid: Grid { ends: &[-4.0, 3.0], step: 0.12, reach: 7 },
    scales: Even { lo: -32.0, hi: 31.0 },
    scale_grid: Grid { ends: &[-32.0, 31.0], step: 0.2, reach: 4 },
};
const Q6K: SignedShape<Even> = SignedShape {
    levels: Even { lo: -32.0, hi: 31.0 },
    grid: Grid { ends: &[-32.0, 31.0], step: 0.2, reach: 4 },
    scales: Even { lo: -128.0, hi: 127.0 },
    scale_grid: Grid { ends: &[-128.0], step: 0.25, reach: 2 },
};
const XS: SignedShape<Uneven> = SignedShape {
    levels: Uneven,
    grid: IQ4,
    scales: Even { lo: -32.0, hi: 31.0 },
    scale_grid: Grid { ends: &[-32.0, 31.0], step: 0.2, reach: 4 },
};

fn large(format: Format, x: &[f32; 256], w: &[f32; 256], b: &mut [u8]) {
    match format {
        Format::Q2K => {
            let WithMins { d, dmin, scales, mins, codes } =
                k_quants::with_mins(Q2K, groups16(x), groups16(w));
            k2::pack(b, d.bits, dmin.bits, &scales, &mins, &codes);
        }
        Format::Q3K => {
            let Signed { d, scales, codes } = k_quants::signed(Q3K, groups16(x), groups16(w));
            k3::pack(b, d.bits, &scales, &codes);
        }
        Format::Q4K => {
            let WithMins { d, dmin, scales, mins, codes } =
                k_quants::with_mins(Q4K, groups32(x), groups32(w));
            k4::pack(b, d.bits, dmin.bits, &scales, &mins, &codes);
        }
        Format::Q5K => {
            let WithMins { d, dmin, scales, mins, codes } =
                k_quants::with_mins(Q5K, groups32(x), groups32(w));
            k5::pack(b, d.bits, dmin.bits, &scales, &mins, &codes);
        }
        Format::Q6K => {
            let Signed { d, scales, codes } = k_quants::signed(Q6K, groups16(x), groups16(w));
            k6::pack(b, d.bits, &scales, &codes);
        }
        _ => {
            let Signed { d, scales, codes } = k_quants::signed(XS, groups32(x), groups32(w));
            iq4::pack_xs(b, d.bits, &scales, &codes);
        }
    };
}

/// A block as 16 groups of 16.
fn groups16(x: &[f32; 256]) -> &[[f32; 16]; 16] {
    x.as_chunks().0.as_array().unwrap_or(&[[0.0; 16]; 16])
}

/// A block as 8 groups of 32.
fn groups32(x: &[f32; 256]) -> &[[f32; 32]; 8] {
    x.as_chunks().0.as_array().unwrap_or(&[[0.0; 32]; 8])
}

/// Weights that could not be written.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum EncodeError {
    /// The buffers are not of one size, or not whole blocks.
    Shape {
        /// The format asked for.
        format: Format,
        /// Weights given.
        weights: usize,
        /// Bytes to write to.
        bytes: usize,
    },
    /// A weight is NaN or infinite.
    NotFinite {
        /// Which, from the first given.
        at: usize,
        /// What it is.
        value: f32,
    },
    /// A weight is outside what the format can hold.
    TooLarge {
        /// Which, from the first given.
        at: usize,
        /// What it is.
        value: f32,
        /// The format asked for.
        format: Format,
    },
    /// An importance is negative, NaN or infinite.
    Importance {
        /// Which, from the first given.
        at: usize,
    },
}

impl fmt::Display for EncodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            EncodeError::Shape { format, weights, bytes } => {
                write!(f, "{weights} weights are not {bytes} bytes of {}", format.name())
            }
            EncodeError::NotFinite { at, value } => write!(f, "weight {at} is {value}: the model is damaged"),
            EncodeError::TooLarge { at, value, format } => {
                write!(f, "weight {at} is {value:e}, more than {} can hold: use BF16 or F32", format.name())
            }
            EncodeError::Importance { at } => {
                write!(f, "the importance of weight {at} is negative or not finite")
            }
        }
    }
}

impl core::error::Error for EncodeError {}

#[cfg(test)]
mod tests;
