//! A model that keeps to a grammar: the same text with and without guessing
//! ahead and with forced tokens one by one or together, and always right.

use std::cell::Cell;

use katydid_core::arena::{ALIGN, Arena};
use katydid_core::generate::{Counts, Generator, Lookup, MOST_DRAFTS};
use katydid_core::gguf::Gguf;
use katydid_core::grammar::tools::{self, Form, Tool};
use katydid_core::grammar::{
    Constrained, Grammar, Limits, MaskMemory, Matcher, Memory, Options, Scratch, Stacks, Trie, TrieMemory,
    TrieSizes,
};
use katydid_core::model::Options as ModelOptions;
use katydid_core::plan::MemoryPlan;
use katydid_core::port::{Clock, OneWorker};
use katydid_core::sample::{self, Params, Sampler};
use katydid_core::text::{Sizes, Tables, Tokenizer};
use katydid_tests::tiny::{Shape, Tiny};
use katydid_tests::{kernels, shared, with_engine};

const CONTEXT: usize = 256;

/// Time that passes one microsecond a look.
struct Steps(Cell<u64>);

impl Clock for Steps {
    fn micros(&self) -> u64 {
        self.0.set(self.0.get() + 1);
        self.0.get()
    }
}

/// Just the memory that `lay_out` takes.
fn arena(lay_out: impl FnOnce(&mut MemoryPlan)) -> Arena<'static> {
    let mut plan = MemoryPlan::new();
    lay_out(&mut plan);
    Arena::new(vec![0xa5; plan.total() as usize + ALIGN].leak())
}

/// A constraint over the vocabulary of a model file.
fn constraint(file: &'static [u8], schema: &str) -> (Constrained<'static>, Tokenizer<'static>) {
    let gguf = Gguf::parse(file, file.len() as u64).unwrap();
    let (sizes, limits) = (Sizes::of(&gguf).unwrap(), Limits::default());
    let tables = Tables::lay_out(&mut arena(|p| drop(Tables::lay_out(p, &sizes))), &sizes).unwrap();
    let t = Tokenizer::build(&gguf, tables).unwrap();
    let memory = Memory::lay_out(&mut arena(|p| drop(Memory::lay_out(p, &limits))), &limits).unwrap();
    let mut scratch = Scratch::lay_out(&mut arena(|p| drop(Scratch::lay_out(p, &limits))), &limits).unwrap();
    let grammar = Grammar::compile(schema, &Options::default(), memory, &mut scratch).unwrap();
    let stacks = Stacks::lay_out(&mut arena(|p| drop(Stacks::lay_out(p, &limits))), &limits).unwrap();
    let sizes = TrieSizes::of(&t);
    let memory = TrieMemory::lay_out(&mut arena(|p| drop(TrieMemory::lay_out(p, &sizes))), &sizes).unwrap();
    let trie = Trie::build(&t, memory).unwrap();
    let masks = |p: &mut MemoryPlan| drop(MaskMemory::lay_out(p, t.vocab_len(), 4));
    let masks = MaskMemory::lay_out(&mut arena(masks), t.vocab_len(), 4).unwrap();
    (Constrained::new(Matcher::new(grammar, stacks).unwrap(), trie, t, masks), t)
}

struct Run {
    ids: Vec<u32>,
    text: String,
    counts: Counts,
}

fn run(file: &'static [u8], schema: &str, params: &Params, guess: bool, batched: bool) -> Run {
    let (mut c, t) = constraint(file, schema);
    let options = ModelOptions { context: CONTEXT, batch: 64, drafts: if guess { MOST_DRAFTS } else { 0 } };
    with_engine(file, options, kernels(), |engine| {
        let vocab = engine.config().vocab;
        let mut space = arena(|p| {
            drop(sample::lay_out(p, vocab, 0, 64));
            drop(Lookup::lay_out(p, CONTEXT));
        });
        let sampler = Sampler::new(sample::lay_out(&mut space, vocab, 0, 64).unwrap(), params, &[]).unwrap();
        let lookup = Lookup::lay_out(&mut space, CONTEXT).unwrap();
        let mut generator = Generator::new(sampler, Some(lookup).filter(|_| guess));
        generator.batch_forced(batched);
        let prompt = [1, 403 % vocab as u32, 261];
        prompt.iter().for_each(|&id| generator.prompt(id));
        engine.eval(&OneWorker, &prompt, &mut |_| true).unwrap();
        let clock = Steps(1.into());
        let mut ids = Vec::new();
        while !c.is_complete() && prompt.len() + ids.len() < 200 {
            let id = generator.next_within(engine, &OneWorker, &clock, Some(&mut c)).unwrap();
            if t.is_end(id) {
                break;
            }
            ids.push(id);
        }
        let mut rest = [0; 400];
        let n = c.close(&mut rest).unwrap();
        ids.extend(&rest[..n]);
        let bytes: Vec<u8> = ids.iter().flat_map(|&id| t.bytes(id, false)).collect();
        Run { ids, text: String::from_utf8(bytes).unwrap(), counts: generator.counts() }
    })
}

const TOOLS: [Tool<'_>; 3] = [
    Tool {
        name: "set_gpio",
        parameters: r#"{"properties":{"pin":{"type":"integer","minimum":0,"maximum":27},"value":{"type":"boolean"}},"required":["pin","value"]}"#,
    },
    Tool {
        name: "read_temperature",
        parameters: r#"{"properties":{"sensor":{"enum":["indoor","outdoor"]}},"required":["sensor"]}"#,
    },
    Tool { name: "get_time", parameters: "" },
];

#[test]
fn the_text_is_the_same_however_it_is_evaluated() {
    let tiny: &'static [u8] = Tiny::new(&Shape { context: CONTEXT, ..Shape::SMALL }).bytes().leak();
    let mut models = vec![tiny];
    if let Some(path) = shared("models/stories260K.gguf") {
        models.push(std::fs::read(path).unwrap().leak());
    }
    let mut out = [0; 4096];
    let calls = Form::Calls { arguments: "arguments", least: 2, most: 3 };
    let calls = tools::schema(&TOOLS, calls, &mut out).unwrap().to_owned();
    let free = r#"{"type":"array","items":{"type":"string","maxLength":30},"minItems":3,"maxItems":4}"#;
    for file in models {
        for (schema, forces) in [(calls.as_str(), true), (free, false)] {
            for params in [
                Params::greedy(),
                Params { seed: 1, temperature: 1.5, top_k: 0, ..Params::default() },
                Params { seed: 2, temperature: 0.7, repeat_penalty: 1.1, ..Params::default() },
            ] {
                let plain = run(file, schema, &params, false, false);
                let value: serde_json::Value = serde_json::from_str(&plain.text).unwrap();
                assert!(value.as_array().unwrap().len() >= 2, "{}", plain.text);
                for (guess, batched) in [(false, true), (true, false), (true, true)] {
                    let other = run(file, schema, &params, guess, batched);
                    assert_eq!(plain.ids, other.ids, "{params:?} {guess} {batched}");
                    if forces && batched && !guess {
                        println!(
                            "{} tokens, {} forced: {} runs of the model instead of {}",
                            plain.ids.len(),
                            other.counts.forced,
                            other.counts.runs,
                            plain.counts.runs
                        );
                        assert!(other.counts.forced * 2 > plain.ids.len());
                        assert!(
                            other.counts.runs * 2 < plain.counts.runs,
                            "{} {}",
                            other.counts.runs,
                            plain.counts.runs
                        );
                    }
                }
            }
        }
    }
}
