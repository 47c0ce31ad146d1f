use std::prelude::rust_2024::*;
use std::{format, println, vec};

use super::*;

/// Numbers that look Gaussian: sums of twelve uniform ones.
struct Random(u64);

impl Random {
    fn uniform(&mut self) -> f32 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 40) as f32 / (1 << 24) as f32
    }

    fn normal(&mut self) -> f32 {
        (0..12).map(|_| self.uniform()).sum::<f32>() - 6.0
    }
}

fn gaussian(n: usize, seed: u64) -> Vec<f32> {
    let mut r = Random(seed);
    (0..n).map(|_| 0.02 * r.normal()).collect()
}

fn bytes_of(format: Format, x: &[f32], importance: Option<&[f32]>) -> Vec<u8> {
    let mut bytes = vec![0xa5; format.row_bytes(x.len() as u64).unwrap() as usize];
    encode(format, x, importance, &mut bytes).unwrap();
    bytes
}

fn round_trip(format: Format, x: &[f32], importance: Option<&[f32]>) -> Vec<f32> {
    let mut y = vec![0.0; x.len()];
    format.dequantize(&bytes_of(format, x, importance), &mut y);
    y
}

/// Root mean square of the error over that of `x`, weighted.
fn loss(x: &[f32], y: &[f32], w: &[f32]) -> f64 {
    let of = |f: &dyn Fn(usize) -> f64| (0..x.len()).map(|i| f64::from(w[i]) * f(i)).sum::<f64>();
    let error = of(&|i| (f64::from(x[i]) - f64::from(y[i])).powi(2));
    (error / of(&|i| f64::from(x[i]).powi(2))).sqrt()
}

/// Most relative error on Gaussian weights, on uniform ones, and on Gaussian
/// ones of which one in a hundred is ten times too large: one part in a hundred
/// above what the search reaches.
const BOUNDS: [(Format, [f64; 3]); 15] = [
    (Format::F32, [0.0, 0.0, 0.0]),
    (Format::F16, [0.0003, 0.0003, 0.0003]),
    (Format::Bf16, [0.0018, 0.0016, 0.0017]),
    (Format::Q4_0, [0.0792, 0.0602, 0.1390]),
    (Format::Q4_1, [0.0690, 0.0548, 0.0891]),
    (Format::Q5_0, [0.0391, 0.0285, 0.0704]),
    (Format::Q5_1, [0.0339, 0.0268, 0.0429]),
    (Format::Q8_0, [0.0051, 0.0037, 0.0093]),
    (Format::Q2K, [0.2626, 0.2205, 0.2744]),
    (Format::Q3K, [0.1421, 0.1198, 0.1833]),
    (Format::Q4K, [0.0694, 0.0549, 0.0904]),
    (Format::Q5K, [0.0348, 0.0274, 0.0446]),
    (Format::Q6K, [0.0167, 0.0128, 0.0251]),
    (Format::Iq4Nl, [0.0728, 0.0627, 0.1058]),
    (Format::Iq4Xs, [0.0732, 0.0631, 0.1072]),
];

#[test]
fn error_on_common_distributions() {
    const N: usize = 256 * 64;
    let mut r = Random(2);
    let uniform: Vec<f32> = (0..N).map(|_| r.uniform() - 0.5).collect();
    let outliers: Vec<f32> =
        (0..N).map(|_| r.normal() * if r.uniform() < 0.01 { 0.2 } else { 0.02 }).collect();
    let mut bad = Vec::new();
    for (format, most) in BOUNDS {
        for (x, most) in [&gaussian(N, 1), &uniform, &outliers].into_iter().zip(most) {
            let loss = loss(x, &round_trip(format, x, None), &[1.0; N]);
            println!("{:<7} {loss:.5} of {most}", format.name());
            if loss > most {
                bad.push((format.name(), loss, most));
            }
        }
    }
    assert!(bad.is_empty(), "{bad:?}");
}

#[test]
fn zeros_stay_zero() {
    for format in Format::ALL {
        for zero in [0.0, -0.0] {
            assert!(round_trip(format, &[zero; 512], None).iter().all(|y| *y == 0.0), "{}", format.name());
        }
    }
}

#[test]
fn constant_rows_keep_their_value() {
    for format in Format::ALL {
        for value in [0.37, -0.37, 0.02, 1e-3, -2e4, 65504.0, -65504.0] {
            let y = round_trip(format, &[value; 256], None);
            let off = y.iter().map(|y| (y / value - 1.0).abs()).fold(0.0, f32::max);
            // Two roundings to half precision, or BF16's one. Of the scales of
            // small weights, half precision keeps three bits.
            let most = if value == 1e-3 { 2e-2 } else { 4e-3 };
            assert!(off < most, "{} of {value}: {off}", format.name());
        }
    }
}

#[test]
fn tiny_weights_become_zero_or_stay_tiny() {
    let mut r = Random(3);
    for format in Format::ALL {
        for size in [f32::from_bits(1), 1e-40, 1e-30, 1e-10, 1e-8, 1e-7, 1e-6] {
            let x: Vec<f32> = (0..512).map(|_| size * (r.uniform() - 0.5)).collect();
            let y = round_trip(format, &x, None);
            // Never further off than their size and half precision's smallest step.
            let off = x.iter().zip(&y).map(|(x, y)| (x - y).abs()).fold(0.0, f32::max);
            assert!(off <= size + 6e-8, "{} of {size:e}: {off:e}", format.name());
        }
    }
}

#[test]
fn a_lone_outlier_does_not_spoil_other_groups() {
    let mut x = gaussian(256, 5);
    x[3] = 40.0;
    for format in Format::ALL {
        let y = round_trip(format, &x, None);
        assert!((y[3] / 40.0 - 1.0).abs() < 0.13, "{}: {}", format.name(), y[3]);
        assert!(y.iter().all(|y| y.is_finite()));
    }
}

#[test]
fn what_a_format_can_say_it_says_exactly() {
    // A level pattern that reaches both ends of the format's range.
    let ramp = |n: i32, lo: i32| -> Vec<f32> { (0..256).map(|i| (lo + i % n) as f32 * 0.125).collect() };
    let cases = [
        (Format::Q4_0, ramp(16, -8)),
        (Format::Q4_1, ramp(16, -3)),
        (Format::Q5_0, ramp(32, -16)),
        (Format::Q5_1, ramp(32, 5)),
        (Format::Q8_0, (0..256).map(|i| ((i % 32) * 8 - 121) as f32 / 64.0).collect()),
        (Format::Iq4Nl, (0..256).map(|i| f32::from(iq4::VALUES[i % 16]) * 0.5).collect()),
    ];
    for (format, x) in cases {
        let y = round_trip(format, &x, None);
        assert!(loss(&x, &y, &[1.0; 256]) < 3e-4, "{}", format.name());
    }
    // What was quantised once is not changed by quantising it again.
    for format in [Format::Q4_0, Format::Q5_0, Format::Q8_0] {
        let once = round_trip(format, &gaussian(2048, 9), None);
        assert!(loss(&once, &round_trip(format, &once, None), &[1.0; 2048]) < 2e-3, "{}", format.name());
    }
}

#[test]
fn importance_lowers_the_error_that_matters() {
    const N: usize = 256 * 32;
    let x = gaussian(N, 11);
    let mut r = Random(12);
    let w: Vec<f32> = (0..N).map(|_| (4.0 * r.uniform()).exp()).collect();
    for format in Format::ALL {
        let (plain, with) = (round_trip(format, &x, None), round_trip(format, &x, Some(&w)));
        let (before, after) = (loss(&x, &plain, &w), loss(&x, &with, &w));
        println!("{:<7} {before:.5} -> {after:.5}", format.name());
        if format.block_len() == 1 {
            assert_eq!(plain, with);
        } else {
            assert!(after < before * 0.99, "{}: {before} -> {after}", format.name());
        }
    }
}

#[test]
fn only_proportions_of_importance_matter() {
    let x = gaussian(512, 13);
    let mut r = Random(14);
    let w: Vec<f32> = (0..512).map(|_| r.uniform() + 0.1).collect();
    for format in Format::ALL {
        for scale in [1e30, 2f32.powi(-100)] {
            let scaled: Vec<f32> = w.iter().map(|w| w * scale).collect();
            let (a, b) = (round_trip(format, &x, Some(&w)), round_trip(format, &x, Some(&scaled)));
            assert!((loss(&x, &a, &w) - loss(&x, &b, &w)).abs() < 1e-4, "{}", format.name());
        }
        // All zero says nothing.
        assert_eq!(round_trip(format, &x, Some(&[0.0; 512])), round_trip(format, &x, None));
        let one = |i: usize| if i == 7 { f32::MAX } else { 0.0 };
        let lone: Vec<f32> = (0..512).map(one).collect();
        assert!(round_trip(format, &x, Some(&lone)).iter().all(|y| y.is_finite()));
    }
}

#[test]
fn what_cannot_be_written_is_named() {
    for format in Format::ALL {
        let mut out = vec![0; format.row_bytes(512).unwrap() as usize];
        for bad in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
            let mut x = gaussian(512, 1);
            x[300] = bad;
            let err = encode(format, &x, None, &mut out).unwrap_err();
            assert!(matches!(err, EncodeError::NotFinite { at: 300, .. }), "{err}");
        }
        let mut x = gaussian(512, 1);
        x[511] = -1e6;
        let done = encode(format, &x, None, &mut out);
        if matches!(format, Format::F32 | Format::Bf16) {
            done.unwrap();
        } else {
            let err = done.unwrap_err();
            assert_eq!(err, EncodeError::TooLarge { at: 511, value: -1e6, format });
            assert!(format!("{err}").contains("BF16"), "{err}");
        }
        let x = gaussian(512, 1);
        for bad in [f32::NAN, -1.0, f32::INFINITY] {
            let mut w = [1.0; 512];
            w[9] = bad;
            let err = encode(format, &x, Some(&w), &mut out).unwrap_err();
            assert_eq!(err, EncodeError::Importance { at: 9 });
        }
        let short = out.len() - 1;
        assert!(encode(format, &x, None, &mut out[..short]).is_err());
        assert!(encode(format, &x, Some(&[1.0]), &mut out).is_err());
    }
    assert!(encode(Format::Q4K, &[0.0; 32], None, &mut [0; 18]).is_err());
    encode(Format::Bf16, &[3.38e38], None, &mut [0; 2]).unwrap();
    assert!(encode(Format::Bf16, &[f32::MAX], None, &mut [0; 2]).is_err());
    encode(Format::F16, &[65519.0], None, &mut [0; 2]).unwrap();
    assert!(encode(Format::F16, &[65520.0], None, &mut [0; 2]).is_err());
}

#[test]
fn a_row_in_parts_is_the_row_at_once() {
    let x = gaussian(4 * 256, 21);
    for format in Format::ALL {
        let whole = bytes_of(format, &x, None);
        let parts: Vec<u8> = x.chunks_exact(256).flat_map(|part| bytes_of(format, part, None)).collect();
        assert_eq!(whole, parts, "{}", format.name());
    }
}

/// The same bits on every machine: hashes of what x86-64 wrote. Whoever changes
/// the search on purpose changes them.
#[test]
fn the_bytes_are_the_same_everywhere() {
    let x: Vec<f32> = gaussian(1024, 31);
    let mut r = Random(32);
    let w: Vec<f32> = (0..1024).map(|_| r.uniform() + 0.01).collect();
    let mut got = Vec::new();
    for format in Format::ALL {
        let mut hash = 0xcbf2_9ce4_8422_2325u64;
        for importance in [None, Some(&w[..])] {
            for byte in bytes_of(format, &x, importance) {
                hash = (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
            }
        }
        got.push(hash);
    }
    println!("{got:#x?}");
    assert_eq!(got, HASHES);
}

const HASHES: [u64; 15] = [
    0x6a5c_5366_ec6c_c9e5,
    0x7f16_d082_7270_1a7d,
    0xb4d9_e087_4a88_1d75,
    0xf414_9304_0ac8_40a9,
    0x841d_7322_3482_2958,
    0x0cf3_b736_9752_4baa,
    0x1546_ddc4_f58c_6478,
    0x45a1_af51_dd43_0f99,
    0xaaa4_f116_3aa7_6182,
    0x199c_45d8_44de_47ac,
    0x3a61_4ad0_e550_0b9b,
    0x14e9_d9ea_7af7_59dc,
    0x0e5a_1c50_dac4_1201,
    0x7d49_b1b1_33fb_9b19,
    0xabcb_abbf_046e_d06c,
];

proptest::proptest! {
    #![proptest_config(proptest::prelude::ProptestConfig::with_cases(64))]
    #[test]
    fn any_bits_are_written_finite_or_refused(bits in proptest::collection::vec(proptest::num::u32::ANY, 256)) {
        let x: Vec<f32> = bits.iter().map(|b| f32::from_bits(*b)).collect();
        // The same, shrunk until every format can hold it.
        let tame: Vec<f32> = x.iter().map(|v| if v.abs() <= MAX_WEIGHT { *v } else { v.signum() }).collect();
        let tame: Vec<f32> = tame.iter().map(|v| if v.is_nan() { 1.0 } else { *v }).collect();
        for format in Format::ALL {
            let mut out = vec![0; format.row_bytes(256).unwrap() as usize];
            let fine = x.iter().all(|v| v.is_finite());
            proptest::prop_assert!(fine || encode(format, &x, None, &mut out).is_err());
            let y = round_trip(format, &tame, Some(&tame.iter().map(|v| v.abs()).collect::<Vec<_>>()));
            proptest::prop_assert!(y.iter().all(|y| y.is_finite()), "{}", format.name());
            // Nothing is further off than the whole range.
            let most = tame.iter().fold(0.0f32, |m, v| m.max(v.abs()));
            proptest::prop_assert!(y.iter().all(|y| y.abs() <= 2.1 * most + 1e-6), "{}", format.name());
        }
    }
}
