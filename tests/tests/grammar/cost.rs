//! What masks cost. Run it optimised, on a quiet machine:
//!
//! `cargo test --release -p katydid-tests --test grammar -- --ignored --nocapture cost`
//!
//! Prints a line of JSON that `tools/bench/record` keeps.

use std::time::Instant;

use katydid_core::grammar::{
    Constrained, Limits, MaskMemory, Memory, Options, Stacks, Trie, TrieMemory, TrieSizes,
};
use katydid_core::plan::{MemoryPlan, Part};
use katydid_core::sample::Constraint;
use katydid_tests::random::Random;
use serde_json::json;

use super::support::{arena, compile, compile_within, constrained, schemas, vocab};

/// Schema and a text after which its mask is made.
const STATES: [(&str, &str, &str); 32] = [
    ("start of an object", "{\"type\":\"object\",\"properties\":{\"name\":{}}}", "{"),
    ("any value", "{}", ""),
    ("string", "{\"type\":\"string\"}", "\"a"),
    ("string of at most 12", "{\"type\":\"string\",\"maxLength\":12}", "\"a"),
    ("key of any name", "{\"type\":\"object\"}", "{\"a"),
    (
        "key, some names taken",
        "{\"properties\":{\"a\":{},\"be\":{},\"see\":{}},\"additionalProperties\":{}}",
        "{\"",
    ),
    ("integer", "{\"type\":\"integer\"}", "1"),
    ("letters", "{\"pattern\":\"^[a-zA-Z ]+$\"}", "\"a"),
    ("anything, then z", "{\"pattern\":\"z$\"}", "\"a"),
    (
        "three patterns",
        "{\"pattern\":\"z$\",\"allOf\":[{\"pattern\":\"^a\"},{\"pattern\":\"b\"}],\"maxLength\":30}",
        "\"a",
    ),
    (
        "string within a string",
        "{\"contentMediaType\":\"application/json\",\"contentSchema\":{\"type\":\"string\"}}",
        "\"\\\"a",
    ),
    ("no vowels", "{\"pattern\":\"^[^aeiou]*$\"}", "\"b"),
    ("no e", "{\"pattern\":\"^[^e]*$\"}", "\"b"),
    ("half the alphabet", "{\"pattern\":\"^[a-m]*$\"}", "\"b"),
    ("hexadecimal", "{\"pattern\":\"^[0-9a-f]+$\"}", "\"b"),
    ("Chinese characters", "{\"pattern\":\"^[\\u4e00-\\u9fa5]+$\"}", "\""),
    ("no Chinese characters", "{\"pattern\":\"^[^\\u4e00-\\u9fa5]+$\"}", "\""),
    ("few of any character", "{\"pattern\":\"^.{1,10}$\"}", "\"abcdefg"),
    ("no digits", "{\"pattern\":\"^\\\\D*$\"}", "\"a"),
    ("two words", "{\"pattern\":\"^\\\\S+ \\\\S+$\"}", "\"a"),
    ("vowels, then 20 but no x", "{\"pattern\":\"^(a|e|i)*[^x]{0,20}$\"}", "\"b"),
    ("small letters, spaces", "{\"pattern\":\"^[a-z ]*$\"}", "\"b"),
    ("up to 200 of any", "{\"pattern\":\"^.{0,200}$\"}", "\"b"),
    ("no e, 50 at most", "{\"pattern\":\"^[^e]*$\",\"maxLength\":50}", "\"b"),
    ("no E", "{\"pattern\":\"^[^E]*$\"}", "\"b"),
    ("e and t only in pairs", "{\"pattern\":\"^([^et]|ee|tt)*$\"}", "\"b"),
    ("not th", "{\"pattern\":\"^([^t]|t[^h])*$\"}", "\"b"),
    ("two e at most", "{\"pattern\":\"^[^e]*e?[^e]*e?[^e]*$\"}", "\"b"),
    ("no accents", "{\"pattern\":\"^[^\\u00e0-\\u00ff]*$\"}", "\"b"),
    (
        "no e or no t or no a",
        "{\"anyOf\":[{\"pattern\":\"^[^e]*$\"},{\"pattern\":\"^[^t]*$\"},{\"pattern\":\"^[^a]*$\"}]}",
        "\"b",
    ),
    ("ing, then more", "{\"pattern\":\"(ing|tion)[^x]+$\"}", "\"a"),
    (
        "eight kinds of string",
        "{\"anyOf\":[{\"pattern\":\"a$\"},{\"pattern\":\"b$\"},{\"pattern\":\"c$\"},{\"pattern\":\"d$\"},{\"pattern\":\"e$\"},{\"pattern\":\"f$\"},{\"pattern\":\"g$\"},{\"type\":\"string\"}]}",
        "\"a",
    ),
];

fn micros(start: Instant) -> f64 {
    start.elapsed().as_secs_f64() * 1e6
}

#[test]
#[ignore = "a benchmark"]
fn cost_of_masks() {
    let Some(t) = vocab("qwen2") else { return };
    let sizes = TrieSizes::of(&t);
    let mut plan = MemoryPlan::new();
    TrieMemory::lay_out(&mut plan, &sizes).map(drop).unwrap();
    let trie_bytes = plan.part(Part::Grammar);
    let memory = TrieMemory::lay_out(&mut arena(|p| drop(TrieMemory::lay_out(p, &sizes))), &sizes).unwrap();
    let start = Instant::now();
    let trie = Trie::build(&t, memory).unwrap();
    let build = micros(start) / 1e3;
    let limits = Limits::default();
    let size = |f: &dyn Fn(&mut MemoryPlan)| {
        let mut plan = MemoryPlan::new();
        f(&mut plan);
        plan.total()
    };
    let bytes = json!({
        "trie": trie_bytes,
        "mask": size(&|p| drop(MaskMemory::lay_out(p, t.vocab_len(), 1))),
        "grammar, default limits": size(&|p| drop(Memory::lay_out(p, &limits))),
        "grammar, small limits": size(&|p| drop(Memory::lay_out(p, &Limits::small()))),
        "matcher, default limits": size(&|p| drop(Stacks::lay_out(p, &limits))),
        "matcher, small limits": size(&|p| drop(Stacks::lay_out(p, &Limits::small()))),
    });
    let mut rows = Vec::new();
    let large = Limits { states: 60_000, ..limits };
    for (name, schema, text) in STATES {
        let grammar = compile_within(schema, &Options::default(), &large).unwrap();
        let mut best = f64::MAX;
        let mut allowed = 0;
        for _ in 0..20 {
            let mut c = constrained(grammar, t, trie);
            assert!(c.matcher().advance_all(text.bytes()), "{name}");
            let start = Instant::now();
            let mask = c.mask();
            best = best.min(micros(start));
            allowed = mask.iter().map(|w| w.count_ones()).sum::<u32>();
        }
        println!("{name:<24} {best:>8.1} µs, {allowed} tokens");
        rows.push(json!({"state": name, "us": (best * 10.0).round() / 10.0, "tokens": allowed}));
    }
    let (worst, typical) = generations(&trie);
    println!(
        "{}",
        json!({"vocabulary": "qwen2", "tokens": t.vocab_len(), "trie_build_ms": build.round(),
        "bytes": bytes, "masks": rows, "schemas_worst_us": worst.round(), "schemas_mean_us_per_token": typical})
    );
}

/// Random texts of all schemas: the dearest mask, and what a token costs on
/// average, checks and masks and all. Each is timed three times, for the machine
/// may be busy.
fn generations(trie: &Trie<'static>) -> (f64, f64) {
    let t = vocab("qwen2").unwrap();
    let (mut worst, mut total, mut tokens) = (0.0f64, 0.0, 0);
    for schema in schemas() {
        let grammar = compile(&schema, &Options::default()).unwrap();
        let mut thrice = [(); 3].map(|()| constrained(grammar, t, *trie));
        let mut random = Random::of(&schema);
        for _ in 0..40 {
            let mut mask = Vec::new();
            let mut least = |c: &mut Constrained<'static>| {
                let start = Instant::now();
                let made = c.mask();
                let time = micros(start);
                mask = made.to_vec();
                time
            };
            let time = thrice.iter_mut().map(&mut least).fold(f64::MAX, f64::min);
            if time > worst {
                worst = time;
                println!("dearest so far {time:.0} µs: {schema}");
            }
            let open: Vec<u32> = (0..t.vocab_len() as u32)
                .filter(|&id| mask[id as usize / 32] >> (id % 32) & 1 == 1 && !t.is_end(id))
                .collect();
            let Some(&id) = open.get(random.bits() as usize % open.len().max(1)) else { break };
            let accept = |c: &mut Constrained<'static>| {
                let start = Instant::now();
                assert!(c.allows(id));
                c.accept(id);
                micros(start)
            };
            total += time + thrice.iter_mut().map(accept).fold(f64::MAX, f64::min);
            tokens += 1;
        }
    }
    (worst, (total / f64::from(tokens) * 10.0).round() / 10.0)
}
