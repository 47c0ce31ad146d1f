//! Logits against llama.cpp's, computed on the dequantised weights in `f32`.

use katydid_core::model::Options;
use katydid_core::port::OneWorker;
use katydid_tests::{all_kernels, argmax, ids, json, kernels, patience, shared, with_engine};

/// How much larger than llama.cpp's own error on the quantised file ours may be.
const FACTOR: f64 = 1.25;
const FLOOR: f64 = 1e-6;

fn all_logits(bytes: &[u8], tokens: &[u32], batch: usize, k: katydid_core::kernels::Kernels) -> Vec<f32> {
    with_engine(bytes, Options { context: tokens.len(), batch, drafts: 0 }, k, |engine| {
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
    if patience() > 1 {
        println!("skipped: emulated; the same bits as elsewhere have the same error");
        return;
    }
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

/// FNV-1a (Fowler, Noll and Vo, 1991) of the logits' bits.
fn hash(logits: &[f32]) -> u64 {
    logits
        .iter()
        .flat_map(|x| x.to_le_bytes())
        .fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}

/// The bits that every processor gives: what ties the ARM runs of this test to
/// the others. They change only when the arithmetic is changed on purpose.
const BITS: [(&str, u64); 19] = [
    ("llama-bf16", 0x40d5_55e4_2273_d5dc),
    ("llama-f16", 0x5d67_59a3_75bb_3975),
    ("llama-f32", 0x23c1_6664_f113_0511),
    ("llama-iq4_nl", 0x55eb_a08d_c3e5_e695),
    ("llama-iq4_xs", 0xd4ec_774a_79d0_8d96),
    ("llama-q2_k", 0x43d6_f1d2_4cef_747f),
    ("llama-q3_k_m", 0x1cb0_b68e_4052_9d64),
    ("llama-q4_0", 0xfaa3_65d8_9fee_ae32),
    ("llama-q4_1", 0xada9_8ae4_ce1b_dd81),
    ("llama-q4_k_m", 0x6375_c2da_7c8b_8b02),
    ("llama-q5_0", 0x702f_26ce_aa46_47ea),
    ("llama-q5_1", 0xb10c_02f2_f125_8d70),
    ("llama-q5_k_m", 0x6c8a_5f99_a96a_4a3b),
    ("llama-q6_k", 0x92ef_5660_6be9_79ce),
    ("llama-q8_0", 0x674c_b62c_4086_08cd),
    ("qwen2-q4_k_m", 0x440f_455b_0ccb_9393),
    ("qwen2-q8_0", 0x9d91_4c33_3aca_d622),
    ("qwen3-q4_k_m", 0x95a5_0b01_7c5a_eecc),
    ("qwen3-q8_0", 0x9667_ace0_164c_9462),
];

#[test]
fn bits_are_the_same_on_every_processor() {
    for model in models() {
        let bytes = std::fs::read(&model).unwrap();
        let tokens = ids(&json(&model.with_extension("json"))["tokens"]);
        let name = model.file_stem().unwrap().to_string_lossy().into_owned();
        let want = BITS.iter().find(|(n, _)| *n == name).map(|(_, bits)| *bits);
        // Emulated, only the best set: the others are run where it is worse.
        let sets = all_kernels();
        for k in &sets[if patience() > 1 { sets.len() - 1 } else { 0 }..] {
            let got = hash(&all_logits(&bytes, &tokens, 32, *k));
            assert_eq!(want, Some(got), "{name} on {:?}: {got:#018x}", k.isa());
        }
    }
}

#[test]
fn batches_do_not_change_bits() {
    for model in models().into_iter().step_by(if patience() > 1 { 6 } else { 1 }) {
        let bytes = std::fs::read(&model).unwrap();
        let tokens = ids(&json(&model.with_extension("json"))["tokens"]);
        let whole = hash(&all_logits(&bytes, &tokens, 32, kernels()));
        for batch in [1, 5] {
            let got = hash(&all_logits(&bytes, &tokens, batch, kernels()));
            assert_eq!(got, whole, "{} differs with {batch} tokens at once", model.display());
        }
    }
}
