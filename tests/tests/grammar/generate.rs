//! Random logits through a grammar: whatever they want, the text is right.

use katydid_core::arena::{ALIGN, Arena};
use katydid_core::grammar::{Options, Spacing};
use katydid_core::plan::MemoryPlan;
use katydid_core::sample::{self, Constraint, Params, Sampler};
use katydid_core::text::Tokenizer;
use katydid_tests::random::Random;
use serde_json::Value;

use super::oracle::Oracle;
use super::support::{compile, constrained, schemas, tiny_vocab, trie, vocab};

/// Generations for each schema.
const EACH: usize = 10;

/// Most tokens of a text; then it is closed.
const MOST: usize = 120;

/// Every schema of the file, `each` times: returns how many texts ended by
/// themselves.
fn run(t: Tokenizer<'static>, each: usize) -> usize {
    let (trie, vocab) = (trie(&t), t.vocab_len());
    let mut plan = MemoryPlan::new();
    sample::lay_out(&mut plan, vocab, 0, 0).map(drop).unwrap();
    let (mut ended, mut logits) = (0, vec![0.0; vocab]);
    for (which, schema) in schemas().iter().enumerate() {
        let oracle = Oracle::new(schema);
        let spacing = [Spacing::Spaced, Spacing::Compact, Spacing::Either][which % 3];
        let grammar = compile(schema, &Options { spacing, ..Options::default() }).unwrap();
        let mut c = constrained(grammar, t, trie);
        let mut random = Random::of(schema);
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
                    logits.iter_mut().for_each(|l| *l = random.unit() * 8.0);
                    sampler.sample_within(&mut logits, &mut c).unwrap()
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

#[test]
fn two_thousand_texts_of_a_small_vocabulary() {
    let each = EACH / katydid_tests::patience().min(10) as usize;
    let ended = run(tiny_vocab(), each.max(1));
    println!("{ended} of {} ended by themselves", 200 * each);
    assert!(ended > 40 * each);
}

#[test]
fn texts_of_a_large_vocabulary() {
    let Some(t) = vocab("qwen2") else { return };
    if katydid_tests::patience() == 1 {
        println!("{} of 200 ended by themselves", run(t, 1));
    }
}
