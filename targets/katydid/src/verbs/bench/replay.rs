//! What guessing ahead gains on a given text: the model is made to say it, once
//! with guesses and once without.
//!
//! A model with random weights never repeats itself as a trained one does when
//! it copies. What guessing costs and gains depends on the text and on the
//! model's size only, so the text comes from a file.

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use katydid_core::generate::{Counts, MOST_DRAFTS};
use katydid_core::port::Workers;
use katydid_core::sample::{Constraint, Params};
use katydid_core::text::{Add, Encode};
use katydid_linux::MonotonicClock;

use super::median_of;
use crate::loaded::{Generation, Needs, Wanted, with_model};
use crate::model_args::{ModelArgs, pool};
use crate::verbs::encode;

/// The line between the prompt and the answer.
const BETWEEN: &str = "\n---\n";

/// Most bytes of prompt and answer: more than any context takes in a sitting.
const MOST: u64 = 16 << 20;

/// A text that was repeated.
pub(super) struct Replay {
    pub(super) threads: usize,
    pub(super) prompt: usize,
    pub(super) tokens: usize,
    /// Tokens a second without guesses.
    pub(super) plain: f64,
    /// Median over rounds of the time without guesses over that with.
    pub(super) gain: f64,
    pub(super) counts: Counts,
}

/// Allows nothing but the tokens of a text, in order.
struct Script<'s>(std::slice::Iter<'s, u32>);

impl Constraint for Script<'_> {
    fn allows(&mut self, id: u32) -> bool {
        self.0.as_slice().first().is_none_or(|&next| next == id)
    }

    fn forbid(&mut self, logits: &mut [f32]) {
        let Some(&next) = self.0.as_slice().first() else { return };
        for (id, logit) in logits.iter_mut().enumerate() {
            *logit = if id == next as usize { 0.0 } else { f32::NEG_INFINITY };
        }
    }

    fn accept(&mut self, _: u32) {
        self.0.next();
    }
}

/// Times the text in the file at `text` for each number of threads.
pub(super) fn replay(
    model: &ModelArgs,
    text: &Path,
    threads: &[usize],
    rounds: usize,
) -> Result<Vec<Replay>> {
    let whole = crate::files::text(text, MOST, "a text to repeat")?;
    let Some((prompt, answer)) = whole.split_once(BETWEEN) else {
        bail!("{} has no line '---' between a prompt and an answer", text.display());
    };
    let answer = answer.trim_end_matches('\n');
    if answer.is_empty() {
        bail!("{} has no answer after its line '---': there is nothing to time", text.display());
    }
    // No token is shorter than a byte, but for the one that begins.
    let model = &ModelArgs { context: Some(model.context.unwrap_or(whole.len() + 2)), ..model.clone() };
    threads.iter().map(|&n| one(model, prompt, answer, n, rounds)).collect()
}

fn one(model: &ModelArgs, prompt: &str, answer: &str, threads: usize, rounds: usize) -> Result<Replay> {
    let (mut plain, mut gains) = (Vec::new(), Vec::new());
    let mut last = None;
    for _ in 0..rounds {
        let without = said(model, prompt, answer, threads, 0)?;
        let with = said(model, prompt, answer, threads, MOST_DRAFTS)?;
        plain.push(without.tokens as f64 / without.time.as_secs_f64());
        gains.push(without.time.as_secs_f64() / with.time.as_secs_f64());
        last = Some(with);
    }
    let Some(last) = last else { bail!("no round was run") };
    Ok(Replay {
        threads,
        prompt: last.prompt,
        tokens: last.tokens,
        plain: median_of(plain),
        gain: median_of(gains),
        counts: last.counts,
    })
}

/// An answer said once.
struct Said {
    prompt: usize,
    tokens: usize,
    time: Duration,
    counts: Counts,
}

fn said(model: &ModelArgs, prompt: &str, answer: &str, threads: usize, drafts: usize) -> Result<Said> {
    let params = Params::greedy();
    let needs = Needs {
        text: true,
        generate: Some(Generation { last_n: params.repeat_last_n, biases: 0, drafts }),
        ..Needs::default()
    };
    with_model(model, Wanted::Usual, needs, |mut model| {
        let pool = pool(threads)?;
        let workers: &dyn Workers = &pool;
        let clock = MonotonicClock::new();
        let mut generator = model.generator(&params, &[])?;
        let whole = Encode { bos: Add::Auto, eos: Add::Never, parse_special: false };
        let prompt = encode(model.tokenizer()?, prompt.as_bytes(), whole)?;
        let answer = encode(model.tokenizer()?, answer.as_bytes(), Encode { bos: Add::Never, ..whole })?;
        prompt.iter().for_each(|&id| generator.prompt(id));
        model.engine.eval(workers, &prompt, &mut |_| true)?;
        let mut script = Script(answer.iter());
        let start = Instant::now();
        for &id in &answer {
            let next = generator.next_within(&mut model.engine, workers, &clock, Some(&mut script))?;
            if next != id {
                bail!("token {id} was due, but {next} came");
            }
        }
        let time = start.elapsed();
        Ok(Said { prompt: prompt.len(), tokens: answer.len(), time, counts: generator.counts() })
    })
}
