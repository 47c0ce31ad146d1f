//! Random logits and models through a grammar: whatever they want, the text is
//! right.

use katydid_core::arena::{ALIGN, Arena};
use katydid_core::grammar::{Options, Spacing};
use katydid_core::model::Options as ModelOptions;
use katydid_core::plan::MemoryPlan;
use katydid_core::port::OneWorker;
use katydid_core::sample::{self, Constraint, Params, Sampler};
use katydid_core::text::Tokenizer;
use katydid_tests::random::Random;
use katydid_tests::tiny::{Shape, Tiny};
use katydid_tests::{kernels, shared, with_engine};
use serde_json::Value;

use super::oracle::Oracle;
use super::support::{compile, constrained, schemas, tiny_vocab, tokenizer, trie, vocab};

/// Generations for each schema.
const EACH: usize = 10;

/// Most tokens of a text; then it is closed.
const MOST: usize = 120;

/// Every schema of the file, `each` times: returns how many texts ended by
/// themselves. `logits` fills in those after the tokens given.
fn run(t: Tokenizer<'static>, each: usize, mut logits: impl FnMut(&[u32], &mut [f32])) -> usize {
    let (trie, vocab) = (trie(&t), t.vocab_len());
    let mut plan = MemoryPlan::new();
    sample::lay_out(&mut plan, vocab, 0, 0).map(drop).unwrap();
    let (mut ended, mut wanted) = (0, vec![0.0; vocab]);
    for (which, schema) in schemas().iter().enumerate() {
        let oracle = Oracle::new(schema);
        let spacing = [Spacing::Spaced, Spacing::Compact, Spacing::Either][which % 3];
        let grammar = compile(schema, &Options { spacing, ..Options::default() }).unwrap();
        let mut c = constrained(grammar, t, trie);
        for seed in 0..each {
            let mut memory = vec![0; plan.total() as usize + ALIGN];
            let memory = sample::lay_out(&mut Arena::new(&mut memory), vocab, 0, 0).unwrap();
            let params = Params {
                temperature: 1.5,
                seed: seed as u64,
                top_k: 0,
                repeat_last_n: 0,
                ..Params::default()
            };
            let mut sampler = Sampler::new(memory, &params, &[]).unwrap();
            c.restart();
            let mut ids = Vec::new();
            let (mut forced, mut n) = ([0; 64], 0);
            while ids.len() < MOST && !c.is_complete() {
                let id = if n > 0 {
                    forced[0]
                } else {
                    logits(&ids, &mut wanted);
                    sampler.sample_within(&mut wanted, &mut c).unwrap()
                };
                if t.is_end(id) {
                    break;
                }
                assert!(c.allows(id));
                c.accept(id);
                ids.push(id);
                n = if seed % 2 == 0 { c.forced(&mut forced) } else { 0 };
            }
            ended += usize::from(c.matcher().can_end());
            let (mut rest, left) = ([0; 1000], c.min_left());
            let n = c.close(&mut rest).unwrap();
            assert!(n <= left);
            ids.extend(&rest[..n]);
            let text: Vec<u8> = ids.iter().flat_map(|&id| t.bytes(id, false)).collect();
            let text = String::from_utf8(text).unwrap();
            let value: Value =
                serde_json::from_str(&text).unwrap_or_else(|e| panic!("{schema}: {text}: {e}"));
            oracle.check(&value, &text);
        }
    }
    ended
}

/// Logits without a model.
fn chance() -> impl FnMut(&[u32], &mut [f32]) {
    let mut random = Random::of("logits");
    move |_, logits| logits.iter_mut().for_each(|l| *l = random.unit() * 8.0)
}

/// A model's, run on each new token.
fn run_model(file: &[u8], each: usize) -> usize {
    let options = ModelOptions { context: 256, batch: 16, drafts: 0 };
    with_engine(file, options, kernels(), |engine| {
        let mut seen = Vec::new();
        run(tokenizer(file.to_vec()), each, |ids, logits| {
            if seen.is_empty() || !ids.starts_with(&seen[1..]) || ids.len() < seen.len() {
                engine.rewind(0);
                seen = vec![1];
                engine.eval(&OneWorker, &seen, &mut |_| true).unwrap();
            }
            let new = &ids[seen.len() - 1..];
            if !new.is_empty() {
                engine.eval(&OneWorker, new, &mut |_| true).unwrap();
                seen.extend(new);
            }
            logits.copy_from_slice(engine.logits());
        })
    })
}

fn each() -> usize {
    (EACH / katydid_tests::patience().min(10) as usize).max(1)
}

#[test]
fn two_thousand_texts_of_a_small_vocabulary() {
    let ended = run(tiny_vocab(), each(), chance());
    println!("{ended} of {} ended by themselves", 200 * each());
    assert!(ended > 40 * each());
}

/// A thousand texts each of a model with random weights and a trained one.
#[test]
fn two_thousand_texts_of_models() {
    let each = each().div_ceil(2);
    let trained = shared("models/stories260K.gguf").map(|path| std::fs::read(path).unwrap());
    for file in std::iter::once(Tiny::new(&Shape::SMALL).bytes()).chain(trained) {
        println!("{} of {} ended by themselves", run_model(&file, each), 200 * each);
    }
}

#[test]
fn texts_of_a_large_vocabulary() {
    let Some(t) = vocab("qwen2") else { return };
    if katydid_tests::patience() == 1 {
        println!("{} of 200 ended by themselves", run(t, 1, chance()));
    }
}
