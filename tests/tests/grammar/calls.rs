//! How much sooner tool calls are written where what the grammar forces is
//! evaluated together. Run it optimised, on a quiet machine, with a model:
//!
//! `KATYDID_MODEL=FILE cargo test --release -p katydid-tests --test grammar -- --ignored --nocapture calls`
//!
//! Prints a line of JSON that `tools/bench/record` keeps.

use std::time::Instant;

use katydid_core::generate::Generator;
use katydid_core::grammar::tools::{self, Form, Tool};
use katydid_core::grammar::{Constrained, Options};
use katydid_core::model::{Engine, Options as ModelOptions};
use katydid_core::plan::MemoryPlan;
use katydid_core::port::Workers;
use katydid_core::sample::{self, Constraint, Params, Sampler};
use katydid_core::text::Tokenizer;
use katydid_linux::{MonotonicClock, Pinning, Pool};
use katydid_tests::{kernels, with_engine};
use serde_json::json;

use super::support::{arena, compile, constrained, tokenizer, trie};

/// What an assistant at home or on a board is given. Free strings are short, for
/// a model without training never ends them.
const TOOLS: [Tool<'_>; 5] = [
    Tool {
        name: "get_weather",
        parameters: r#"{"properties":{"city":{"type":"string","minLength":4,"maxLength":12},"unit":{"enum":["celsius","fahrenheit"]}},"required":["city","unit"]}"#,
    },
    Tool {
        name: "set_gpio",
        parameters: r#"{"properties":{"pin":{"type":"integer","minimum":0,"maximum":27},"value":{"type":"boolean"}},"required":["pin","value"]}"#,
    },
    Tool {
        name: "read_temperature",
        parameters: r#"{"properties":{"sensor":{"enum":["indoor","outdoor"]}},"required":["sensor"]}"#,
    },
    Tool {
        name: "set_timer",
        parameters: r#"{"properties":{"minutes":{"type":"integer","minimum":1,"maximum":180},"label":{"type":"string","minLength":3,"maxLength":10}},"required":["minutes","label"]}"#,
    },
    Tool {
        name: "send_message",
        parameters: r#"{"properties":{"recipient":{"type":"string","minLength":3,"maxLength":8},"text":{"type":"string","minLength":12,"maxLength":24}},"required":["recipient","text"]}"#,
    },
];

/// How tokens that the grammar forces are come by.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Way {
    /// All at once.
    Together,
    /// One by one, not sampled.
    Alone,
    /// Like any other: evaluated one by one, each sampled under a mask.
    Sampled,
}

/// A grammar that forces nothing, but whose masks leave only the token that is
/// forced: the same text the long way.
struct Long<'c>(&'c mut Constrained<'static>);

impl Long<'_> {
    fn forced_id(&mut self) -> Option<u32> {
        let mut ids = [0; 64];
        (self.0.forced(&mut ids) > 0).then_some(ids[0])
    }
}

impl Constraint for Long<'_> {
    fn allows(&mut self, id: u32) -> bool {
        self.forced_id().is_none_or(|forced| forced == id) && self.0.allows(id)
    }

    fn forbid(&mut self, logits: &mut [f32]) {
        self.0.forbid(logits);
        if let Some(forced) = self.forced_id() {
            let kept = logits[forced as usize];
            logits.fill(f32::NEG_INFINITY);
            logits[forced as usize] = kept;
        }
    }

    fn accept(&mut self, id: u32) {
        self.0.accept(id);
    }

    fn forced(&mut self, _: &mut [u32]) -> usize {
        0
    }
}

struct Call {
    ids: Vec<u32>,
    seconds: f64,
    forced: usize,
    runs: usize,
}

fn call(
    engine: &mut Engine<'_>,
    workers: &dyn Workers,
    c: &mut Constrained<'static>,
    t: &Tokenizer<'static>,
    seed: u64,
    way: Way,
) -> Call {
    let vocab = t.vocab_len();
    let mut space = arena(|p: &mut MemoryPlan| drop(sample::lay_out(p, vocab, 0, 0)));
    // The likeliest token each time, so that no draw of chance goes to a token
    // that is forced; calls differ by their prompts.
    let memory = sample::lay_out(&mut space, vocab, 0, 0).unwrap();
    let sampler = Sampler::new(memory, &Params { repeat_last_n: 0, ..Params::greedy() }, &[]).unwrap();
    let mut generator = Generator::new(sampler, None);
    generator.batch_forced(way == Way::Together);
    engine.rewind(0);
    let prompt: Vec<u32> = (0..12).map(|i| 300 + 97 * i + seed as u32).collect();
    prompt.iter().for_each(|&id| generator.prompt(id));
    engine.eval(workers, &prompt, &mut |_| true).unwrap();
    c.restart();
    let clock = MonotonicClock::new();
    let mut ids = Vec::new();
    let start = Instant::now();
    while !c.is_complete() && ids.len() < 200 {
        let id = if way == Way::Sampled {
            generator.next_within(engine, workers, &clock, Some(&mut Long(c)))
        } else {
            generator.next_within(engine, workers, &clock, Some(&mut *c))
        };
        ids.push(id.unwrap());
    }
    let seconds = start.elapsed().as_secs_f64();
    let counts = generator.counts();
    Call { ids, seconds, forced: counts.forced, runs: counts.runs }
}

#[test]
#[ignore = "a benchmark"]
fn time_of_tool_calls() {
    let Some(path) = std::env::var_os("KATYDID_MODEL") else {
        println!("skipped: KATYDID_MODEL names no model");
        return;
    };
    let file: &'static [u8] = std::fs::read(path).unwrap().leak();
    let t = tokenizer(file.to_vec());
    let mut schema = [0; 4096];
    let schema = tools::schema(&TOOLS, Form::Call { arguments: "arguments" }, &mut schema).unwrap();
    let grammar = compile(schema, &Options::default()).unwrap();
    let mut c = constrained(grammar, t, trie(&t));
    let threads = std::env::var("KATYDID_THREADS").map_or(2, |n| n.parse().unwrap());
    let pool = Pool::new(threads, Pinning::Cores).unwrap();
    let rounds = std::env::var("KATYDID_CALLS").map_or(6, |n| n.parse().unwrap());
    let options = ModelOptions { context: 256, batch: 64, drafts: 0 };
    with_engine(file, options, kernels(), |engine| {
        let mut sums = [0.0; 3];
        let (mut tokens, mut forced, mut runs) = (0, 0, 0);
        for seed in 0..rounds {
            let ways = [Way::Together, Way::Alone, Way::Sampled];
            let calls = ways.map(|way| call(engine, &pool, &mut c, &t, seed, way));
            assert!(calls.iter().all(|c| c.ids == calls[0].ids), "the same tokens");
            let text: Vec<u8> = calls[0].ids.iter().flat_map(|&id| t.bytes(id, false)).collect();
            let seconds = calls.each_ref().map(|c| c.seconds);
            println!(
                "{:.2} {:.2} {:.2} s, {} tokens, {} forced: {}",
                seconds[0],
                seconds[1],
                seconds[2],
                calls[0].ids.len(),
                calls[0].forced,
                String::from_utf8_lossy(&text)
            );
            (0..3).for_each(|i| sums[i] += seconds[i]);
            tokens += calls[0].ids.len();
            forced += calls[0].forced;
            runs += calls[0].runs;
        }
        let round = |x: f64| (x * 100.0).round() / 100.0;
        println!(
            "{}",
            json!({
                "calls": rounds, "threads": threads, "vocabulary": t.vocab_len(),
                "tokens": tokens, "forced": forced, "runs_together": runs,
                "seconds": {"together": round(sums[0]), "one_by_one": round(sums[1]), "all_sampled": round(sums[2])},
                "ratio_to_one_by_one": round(sums[1] / sums[0]),
                "ratio_to_all_sampled": round(sums[2] / sums[0]),
            })
        );
    });
}
