//! Files cut short, with bytes changed, or with weights that are no numbers.

use katydid_core::port::OneWorker;
use katydid_core::quant::Format;
use katydid_core::sample::{SampleError, argmax};
use katydid_tests::random::Random;
use katydid_tests::tiny::{Shape, Tiny};
use katydid_tests::{all_kernels, with_engine};
use proptest::prelude::*;

use crate::load::{OPTIONS, load, refused};

/// Norms and biases that are not numbers are found at load.
#[test]
fn vectors_that_are_not_finite() {
    let shape = Shape { biases: true, ..Shape::SMALL };
    let names =
        ["blk.0.attn_norm.weight", "blk.1.attn_q.bias", "blk.1.ffn_norm.weight", "output_norm.weight"];
    for (name, bad) in names.into_iter().flat_map(|n| [(n, f32::NAN), (n, f32::INFINITY)]) {
        let mut model = Tiny::new(&shape);
        model.fill(name, |i| if i == 7 { bad } else { 1.0 });
        let message = refused(&model.bytes(), name);
        assert!(message.contains(&format!("tensor '{name}' holds no finite number at 7")), "{message}");
    }
}

/// In matrices, whatever reaches the stream of a token is a clear error when
/// the next one is chosen.
#[test]
fn matrices_that_are_not_numbers() {
    for format in [Format::F32, Format::F16, Format::Q8_0, Format::Q4_0] {
        let shape = Shape { format, ..Shape::SMALL };
        for name in [
            "token_embd.weight",
            "blk.0.attn_q.weight",
            "blk.0.attn_k.weight",
            "blk.1.attn_v.weight",
            "blk.0.attn_output.weight",
            "blk.0.ffn_gate.weight",
            "blk.1.ffn_up.weight",
            "blk.1.ffn_down.weight",
            "output.weight",
        ] {
            let mut model = Tiny::new(&shape);
            let tensor = model.tensor(name);
            match format {
                Format::F32 => tensor.data.fill(0xff),
                _ => {
                    // The first number, or the first block's scale.
                    let row = tensor.data.len() / tensor.dims[1] as usize;
                    tensor.data.chunks_exact_mut(row).for_each(|r| r[..2].copy_from_slice(&[0xff, 0x7f]));
                }
            }
            for k in all_kernels() {
                let ended = with_engine(&model.bytes(), OPTIONS, k, |engine| {
                    engine.eval(&OneWorker, &[5, 6, 7], &mut |_| true).unwrap();
                    argmax(engine.logits())
                });
                let clear = matches!(ended, Err(SampleError::Nan { .. }));
                assert!(clear, "{format:?} {name} {:?}: {ended:?}", k.isa());
            }
        }
    }
}

#[test]
fn cut_at_every_byte() {
    let file = Tiny::new(&Shape::LEAST).bytes();
    // The last tensor is short: what is missing to its end is padding.
    let end = file.len() - file.iter().rev().take_while(|b| **b == 0).count().min(31);
    for len in 0..file.len() {
        match load(&file[..len], OPTIONS) {
            Ok(()) => assert!(len >= end, "cut to {len} of {}", file.len()),
            Err(message) => assert!(!message.is_empty() && !message.contains('\n'), "{len}: {message}"),
        }
    }
    load(&file, OPTIONS).unwrap();
}

proptest! {
    /// Any bytes changed: an error, or a model that runs.
    #[test]
    fn bytes_changed(flips in prop::collection::vec((any::<prop::sample::Index>(), 1u8..), 8), all in any::<bool>()) {
        let file = Tiny::new(&Shape::LEAST).bytes();
        let header = file.windows(11).position(|w| w == b"token_embd.").unwrap() + 1000;
        let mut bytes = file.clone();
        for (at, bits) in flips {
            // Every other case keeps the changes; the others make one at a time.
            if !all {
                bytes.copy_from_slice(&file);
            }
            bytes[at.index(header)] ^= bits;
            if let Err(message) = load(&bytes, OPTIONS) {
                prop_assert!(!message.is_empty() && !message.contains('\n'), "{}", message);
            }
        }
    }

    /// The same for matrices of nothing but noise.
    #[test]
    fn weights_changed(seed in any::<u64>(), format in prop::sample::select(&[Format::F32, Format::F16, Format::Bf16, Format::Q8_0, Format::Q4_0][..])) {
        let mut model = Tiny::new(&Shape { format, embd: 32, ffn: 32, heads: 4, head_dim: 8, ..Shape::LEAST });
        let mut random = Random::of(&seed.to_string());
        for tensor in model.tensors.iter_mut().filter(|t| t.dims.len() > 1) {
            tensor.data.iter_mut().for_each(|b| *b = random.bits() as u8);
        }
        load(&model.bytes(), OPTIONS).unwrap();
    }
}
