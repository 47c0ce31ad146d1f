//! Logits against llama.cpp's, computed on the dequantised weights in `f32`.

use katydid_core::model::Options;
use katydid_core::port::OneWorker;
use katydid_tests::{all_kernels, argmax, ids, json, kernels, shared, with_engine};

/// How much larger than llama.cpp's own error on the quantised file ours may be.
const FACTOR: f64 = 1.25;
const FLOOR: f64 = 1e-6;

fn all_logits(bytes: &[u8], tokens: &[u32], batch: usize, k: katydid_core::kernels::Kernels) -> Vec<f32> {
    with_engine(bytes, Options { context: tokens.len(), batch }, k, |engine| {
        let mut rows = Vec::new();
        engine.eval_all(&OneWorker, tokens, &mut |_, row| rows.extend_from_slice(row)).unwrap();
        rows
    })
}

/// Mean squared error over mean square.
fn nmse(got: &[f32], want: &[f32]) -> f64 {
    let error: f64 = got.iter().zip(want).map(|(g, w)| f64::from(g - w).powi(2)).sum();
    error / want.iter().map(|&w| f64::from(w).powi(2)).sum::<f64>()
}

fn models() -> Vec<std::path::PathBuf> {
    let Some(folder) = shared("oracle") else { return Vec::new() };
    let mut all: Vec<_> = std::fs::read_dir(folder).unwrap().map(|e| e.unwrap().path()).collect();
    all.retain(|p| p.extension().is_some_and(|e| e == "gguf"));
    all.sort();
    all
}

#[test]
fn error_against_the_dequantised_model() {
    let mut bad = Vec::new();
    println!(
        "{:<16} {:>10} {:>10} {:>6}  {:>7} {:>7}",
        "model", "ours", "llama.cpp", "ratio", "argmax", "theirs"
    );
    for model in models() {
        let facts = json(&model.with_extension("json"));
        let tokens = ids(&facts["tokens"]);
        let want: Vec<f32> = std::fs::read(model.with_extension("logits.f32"))
            .unwrap()
            .chunks_exact(4)
            .map(|b| f32::from_le_bytes(b.try_into().unwrap()))
            .collect();
        let got = all_logits(&std::fs::read(&model).unwrap(), &tokens, 32, kernels());
        assert_eq!(got.len(), want.len());
        let n = got.len() / tokens.len();
        let same =
            got.chunks_exact(n).zip(want.chunks_exact(n)).filter(|(g, w)| argmax(g) == argmax(w)).count();
        let (ours, peer) = (nmse(&got, &want), facts["peer_nmse"].as_f64().unwrap());
        let name = model.file_stem().unwrap().to_string_lossy().into_owned();
        println!(
            "{name:<16} {ours:>10.3e} {peer:>10.3e} {:>6.2}  {:>7.3} {:>7.3}",
            ours / peer,
            same as f64 / tokens.len() as f64,
            facts["peer_argmax_agreement"].as_f64().unwrap()
        );
        if ours.is_nan() || ours > FACTOR * peer + FLOOR {
            bad.push(name);
        }
    }
    assert!(bad.is_empty(), "error too large: {bad:?}");
}

#[test]
fn same_bits_on_every_instruction_set_and_batch_size() {
    for model in models() {
        let bytes = std::fs::read(&model).unwrap();
        let tokens = ids(&json(&model.with_extension("json"))["tokens"]);
        let mut first: Option<Vec<u32>> = None;
        for k in all_kernels() {
            for batch in [32, 1, 5] {
                let bits: Vec<u32> =
                    all_logits(&bytes, &tokens, batch, k).iter().map(|x| x.to_bits()).collect();
                let same = first.get_or_insert_with(|| bits.clone()) == &bits;
                assert!(same, "{} differs: {:?}, {batch} tokens at once", model.display(), k.isa());
            }
        }
    }
}
