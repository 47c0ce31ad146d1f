//! What the shared test data does not cover, against a forward pass written
//! plainly from the formulas in `f64`.

mod naive;

use katydid_core::gguf::Gguf;
use katydid_core::kernels::Kernels;
use katydid_core::model::Options;
use katydid_core::port::{OneWorker, Workers};
use katydid_core::quant::Format;
use katydid_fake::ScrambledWorkers;
use katydid_tests::tiny::{Meta, Shape, Tiny};
use katydid_tests::{all_kernels, kernels, with_engine};
use naive::{Naive, Rope};

/// Mean squared error over mean square that half-precision keys, values and
/// queries may cause.
const NMSE: f64 = 1e-6;
/// What a feature must change at least, so that its test can see it.
const CHANGE: f64 = 1e-3;

fn tokens(n: usize) -> Vec<u32> {
    (0..n).map(|i| (i * 7919 % 251 + 3) as u32).collect()
}

fn logits(bytes: &[u8], tokens: &[u32], batch: usize, kernels: Kernels, workers: &dyn Workers) -> Vec<f32> {
    with_engine(bytes, Options { context: tokens.len(), batch, drafts: 0 }, kernels, |engine| {
        let mut all = Vec::new();
        engine.eval_all(workers, tokens, &mut |_, row| all.extend_from_slice(row)).unwrap();
        all
    })
}

fn nmse(got: &[f32], want: &[f64]) -> f64 {
    assert_eq!(got.len(), want.len());
    let error: f64 = got.iter().zip(want).map(|(g, w)| (f64::from(*g) - w).powi(2)).sum();
    error / want.iter().map(|w| w.powi(2)).sum::<f64>()
}

/// Compares the engine over `model` with the formulas, on every instruction
/// set, and makes sure that `plain`, the model without the feature, differs.
fn check(what: &str, shape: &Shape, model: &Tiny, rope: Rope, n: usize, plain: Option<(&Tiny, Rope)>) {
    let (tokens, bytes) = (tokens(n), model.bytes());
    let want = Naive::new(shape, model, rope).logits(&tokens);
    let mut first: Option<Vec<f32>> = None;
    for k in all_kernels() {
        let got = logits(&bytes, &tokens, 32, k, &OneWorker);
        let error = nmse(&got, &want);
        println!("{what}: {error:.2e} {:?}", k.isa());
        assert!(error < NMSE, "{what}: {error:.2e} {:?}", k.isa());
        assert!(first.get_or_insert_with(|| got.clone()) == &got, "{what}: other bits {:?}", k.isa());
    }
    if let Some((model, rope)) = plain {
        let other = Naive::new(shape, model, rope).logits(&tokens);
        let change = nmse(&first.unwrap(), &other);
        assert!(change > CHANGE, "{what} makes no difference: {change:.2e}");
    }
}

const SMALL: Shape = Shape::SMALL;

#[test]
fn architectures() {
    for (arch, halves) in [("llama", false), ("qwen2", true), ("qwen3", true)] {
        let shape = Shape { arch, ..SMALL };
        let (model, rope) = (Tiny::new(&shape), Rope { halves, ..Rope::of(&shape) });
        check(arch, &shape, &model, rope.clone(), 24, Some((&model, Rope { halves: !halves, ..rope })));
    }
}

#[test]
fn tied_output() {
    let shape = Shape { tied: true, ..SMALL };
    let model = Tiny::new(&shape);
    check("tied", &shape, &model, Rope::of(&shape), 24, Some((&Tiny::new(&SMALL), Rope::of(&SMALL))));
}

#[test]
fn biases_of_llama() {
    let shape = Shape { biases: true, ..SMALL };
    let model = Tiny::new(&shape);
    check("all biases", &shape, &model, Rope::of(&shape), 24, Some((&Tiny::new(&SMALL), Rope::of(&SMALL))));
    let mut without_out = model.clone();
    without_out.tensors.retain(|t| !t.name.ends_with("attn_output.bias"));
    check("qkv biases", &shape, &without_out, Rope::of(&shape), 24, Some((&model, Rope::of(&shape))));
}

#[test]
fn frequencies_of_rotation() {
    let (plain, rope) = (Tiny::new(&SMALL), Rope::of(&SMALL));
    let against = Some((&plain, rope.clone()));

    let mut model = plain.clone();
    model.set("llama.rope.freq_base", Meta::F32(500.0));
    check("base", &SMALL, &model, Rope { base: 500.0, ..rope.clone() }, 24, against.clone());

    let mut model = plain.clone();
    model.set("llama.rope.scaling.type", "linear".into());
    model.set("llama.rope.scaling.factor", Meta::F32(4.0));
    check("linear scaling", &SMALL, &model, Rope { scale: 4.0, ..rope.clone() }, 24, against.clone());

    let mut model = plain.clone();
    model.set("llama.rope.scale_linear", Meta::F32(2.0));
    check("old linear scaling", &SMALL, &model, Rope { scale: 2.0, ..rope.clone() }, 24, against.clone());

    let mut model = plain.clone();
    model.add_tensor("rope_freqs.weight", &[8], Format::F32);
    model.fill("rope_freqs.weight", |i| if i < 3 { 1.5 } else { 8.0 });
    let factors = (0..8).map(|i| if i < 3 { 1.5 } else { 8.0 }).collect();
    check("Llama 3 factors", &SMALL, &model, Rope { factors, ..rope }, 24, against);
}

#[test]
fn part_of_a_head_rotated() {
    for (arch, halves) in [("llama", false), ("qwen2", true)] {
        let shape = Shape { arch, ..SMALL };
        let plain = Tiny::new(&shape);
        let rope = Rope { halves, ..Rope::of(&shape) };
        for dim in [8, 6, 2] {
            let mut model = plain.clone();
            model.set(&format!("{arch}.rope.dimension_count"), Meta::U32(dim as u32));
            let partial = Rope { dim, ..rope.clone() };
            check(arch, &shape, &model, partial, 24, Some((&plain, rope.clone())));
        }
    }
}

#[test]
fn heads_of_odd_sizes_and_groups() {
    for (heads, kv_heads, head_dim) in
        [(4, 4, 16), (4, 1, 16), (4, 2, 20), (3, 1, 2), (2, 2, 36), (6, 2, 130)]
    {
        for arch in ["llama", "qwen3"] {
            let shape = Shape { arch, heads, kv_heads, head_dim, layers: 1, ..SMALL };
            let rope = Rope { halves: arch == "qwen3", ..Rope::of(&shape) };
            check(
                &format!("{arch} {heads}/{kv_heads} of {head_dim}"),
                &shape,
                &Tiny::new(&shape),
                rope,
                24,
                None,
            );
        }
    }
}

#[test]
fn pages_of_the_cache() {
    for (n, head_dim) in [(63, 16), (64, 16), (65, 16), (129, 16), (140, 20)] {
        let shape = Shape { head_dim, layers: 1, ..SMALL };
        check(&format!("{n} tokens"), &shape, &Tiny::new(&shape), Rope::of(&shape), n, None);
    }
}

fn bits(rows: &[f32]) -> Vec<u32> {
    rows.iter().map(|x| x.to_bits()).collect()
}

/// The same logits however the work is cut up and in whatever order it is done.
#[test]
fn same_bits_for_any_batch_and_order() {
    for format in [Format::F32, Format::F16, Format::Q8_0, Format::Q4_0] {
        let model = Tiny::new(&Shape { format, head_dim: 24, layers: 1, ..SMALL }).bytes();
        let tokens = tokens(130);
        let want = bits(&logits(&model, &tokens, 130, kernels(), &OneWorker));
        for batch in [1, 32, 65, 129] {
            let got = bits(&logits(&model, &tokens, batch, kernels(), &OneWorker));
            assert!(got == want, "{format:?}, {batch} at once");
        }
        for (seed, threads, batch) in [(1, 1, 32), (2, 1, 1), (3, 2, 7), (4, 3, 130)] {
            let workers = ScrambledWorkers::with_threads(seed, threads);
            let got = bits(&logits(&model, &tokens[..66], batch, kernels(), &workers));
            assert!(got == want[..got.len()], "{format:?}, seed {seed}, {threads} threads");
        }
    }
}

/// What was forgotten leaves no trace.
#[test]
fn rewound_and_run_again() {
    let model = Tiny::new(&SMALL).bytes();
    let (tokens, workers) = (tokens(140), ScrambledWorkers::new(5));
    let want = bits(&logits(&model, &tokens, 32, kernels(), &OneWorker));
    let vocab = Gguf::parse(&model, model.len() as u64).unwrap().tensor("token_embd.weight").unwrap().dims[1];
    with_engine(&model, Options { context: 140, batch: 9, drafts: 0 }, kernels(), |engine| {
        let others: Vec<u32> = tokens.iter().rev().copied().collect();
        for back_to in [0, 1, 63, 64, 65, 128, 139] {
            engine.rewind(0);
            if back_to > 0 {
                engine.eval(&workers, &tokens[..back_to], &mut |_| true).unwrap();
            }
            // Something else first, then the tokens that belong there.
            engine.eval(&workers, &others[back_to..], &mut |_| true).unwrap();
            engine.rewind(back_to);
            assert_eq!(engine.position(), back_to);
            let mut got = Vec::new();
            engine.eval_all(&workers, &tokens[back_to..], &mut |_, row| got.extend(bits(row))).unwrap();
            assert!(got == want[back_to * vocab as usize..], "back to {back_to}");
        }
    });
}
