//! A real trained network writes the text that llama.cpp writes.

use katydid_core::model::Options;
use katydid_core::port::OneWorker;
use katydid_tests::{all_kernels, argmax, ids, json, shared, with_engine};

#[test]
fn greedy_text_of_a_trained_model() {
    let (Some(model), Some(cases)) =
        (shared("models/stories260K.gguf"), shared("models/stories260K.greedy.json"))
    else {
        return;
    };
    let bytes = std::fs::read(model).unwrap();
    for kernels in all_kernels() {
        for case in json(&cases)["cases"].as_array().unwrap() {
            let (prompt, want) = (ids(&case["prompt_tokens"]), ids(&case["greedy_tokens"]));
            let got = with_engine(&bytes, Options { context: 256, batch: 7, drafts: 0 }, kernels, |engine| {
                engine.eval(&OneWorker, &prompt, &mut |_| true).unwrap();
                let mut got = Vec::new();
                for _ in 0..want.len() {
                    let id = argmax(engine.logits());
                    got.push(id);
                    engine.eval(&OneWorker, &[id], &mut |_| true).unwrap();
                }
                got
            });
            assert_eq!(got, want, "{:?} {}", kernels.isa(), case["prompt"]);
        }
    }
}
