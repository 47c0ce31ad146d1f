//! Guessing ahead changes how fast a text comes, never the text.

use katydid_core::arena::{ALIGN, Arena};
use katydid_core::generate::{Generator, Lookup, MOST_DRAFTS};
use katydid_core::model::Options;
use katydid_core::plan::MemoryPlan;
use katydid_core::port::{Clock, OneWorker};
use katydid_core::sample::{self, Params, Sampler};
use katydid_tests::{kernels, shared, with_engine};

const CONTEXT: usize = 300;

/// Time in which `cheap` makes batches cost as much as single tokens.
struct Steps {
    now: std::cell::Cell<u64>,
    cheap: bool,
}

impl Clock for Steps {
    fn micros(&self) -> u64 {
        // Each second reading ends a batch: the odd ones are further apart
        // where batches are dear.
        let n = self.now.get();
        self.now.set(n + if self.cheap { 1 } else { 1 + n % 1000 });
        n
    }
}

/// The text after `prompt`, and how many guesses came true.
fn text(bytes: &[u8], params: &Params, prompt: &[u32], guess: bool, cheap: bool) -> (Vec<u32>, usize) {
    let drafts = if guess { MOST_DRAFTS } else { 0 };
    let options = Options { context: CONTEXT, batch: 16, drafts };
    with_engine(bytes, options, kernels(), |engine| {
        let vocab = engine.config().vocab;
        let mut plan = MemoryPlan::new();
        sample::lay_out(&mut plan, vocab, 0, 64).unwrap();
        Lookup::lay_out(&mut plan, CONTEXT).unwrap();
        let mut memory = vec![0; plan.total() as usize + ALIGN];
        let mut arena = Arena::new(&mut memory);
        let sampler = Sampler::new(sample::lay_out(&mut arena, vocab, 0, 64).unwrap(), params, &[]).unwrap();
        let lookup = Lookup::lay_out(&mut arena, CONTEXT).unwrap();
        let mut generator = Generator::new(sampler, Some(lookup).filter(|_| guess));
        prompt.iter().for_each(|&id| generator.prompt(id));
        engine.eval(&OneWorker, prompt, &mut |_| true).unwrap();
        let clock = Steps { now: 1.into(), cheap };
        let mut ids = Vec::new();
        // One more than fits: the last is chosen but never evaluated.
        while prompt.len() + ids.len() < CONTEXT + 1 {
            ids.push(generator.next(engine, &OneWorker, &clock).unwrap());
        }
        assert!(generator.next(engine, &OneWorker, &clock).is_err(), "the context is full");
        (ids, generator.counts().kept)
    })
}

#[test]
fn the_text_is_the_same_with_and_without_guessing() {
    let Some(model) = shared("models/stories260K.gguf") else { return };
    let bytes = std::fs::read(model).unwrap();
    let prompt = [1, 403, 407, 261, 378];
    let mut kept = 0;
    let wild = |seed| Params { seed, temperature: 1.0, repeat_penalty: 1.1, ..Params::default() };
    for params in
        [Params::greedy(), wild(1), wild(2), Params { seed: 3, temperature: 0.5, ..Params::default() }]
    {
        let (plain, none) = text(&bytes, &params, &prompt, false, true);
        assert_eq!(none, 0);
        for cheap in [true, false] {
            let (guessed, came_true) = text(&bytes, &params, &prompt, true, cheap);
            assert_eq!(plain, guessed, "{params:?}");
            kept += came_true;
        }
    }
    assert!(kept > 50, "only {kept} guesses came true: the test shows nothing");
}
