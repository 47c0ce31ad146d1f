//! An answer to a prompt, printed as it comes.

use std::io::{IsTerminal, Read, Write};
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, bail};
use katydid_core::generate::{Counts, Generator};
use katydid_core::grammar::{Constrained, Grammar};
use katydid_core::model::EvalError;
use katydid_core::port::Workers;
use katydid_core::sample::{Constraint, Params};
use katydid_core::text::{Add, Detokenizer, Encode};
use katydid_linux::{MonotonicClock, rss, vm_hwm};

use crate::cache;
use crate::grammar::size;
use crate::interrupt;
use crate::loaded::{Generation, Loaded, Needs, Wanted, with_model};
use crate::model_args::ModelArgs;
use crate::report;
use crate::stops::Stops;
use crate::units::Bytes;
use crate::verbs::encode;

/// Text to go on with.
pub(crate) struct Prompt<'j> {
    pub(crate) text: &'j str,
    /// Whether texts of control tokens in it are read as such.
    pub(crate) special: bool,
}

/// What to answer, and how.
pub(crate) struct Job<'j> {
    pub(crate) model: &'j ModelArgs,
    pub(crate) prompt: Prompt<'j>,
    /// Most tokens.
    pub(crate) n: usize,
    /// Whether to go on where the model would end.
    pub(crate) ignore_eos: bool,
    /// Tokens guessed at once, at most; 0 for never.
    pub(crate) drafts: usize,
    pub(crate) params: &'j Params,
    pub(crate) bias: &'j [(u32, f32)],
    /// What the answer keeps to.
    pub(crate) grammar: Option<Grammar<'j>>,
    /// Texts that end an answer, and are no part of it, as long as no grammar
    /// is at work.
    pub(crate) stops: &'j [&'j str],
    /// Take as large a context as prompt and answer need, where the model was
    /// trained for it and `-c` does not say.
    pub(crate) roomy: bool,
    /// Where the prompt's state is kept.
    pub(crate) cache: Option<&'j Path>,
    /// No statistics, no progress.
    pub(crate) quiet: bool,
}

impl Job<'_> {
    /// Loads the model and answers on stdout.
    pub(crate) fn run(&self) -> Result<()> {
        let generate =
            Generation { last_n: self.params.repeat_last_n, biases: self.bias.len(), drafts: self.drafts };
        let needs = Needs {
            text: true,
            generate: Some(generate),
            grammar: self.grammar.as_ref().map(size).transpose()?,
            sum: self.cache.is_some(),
            ..Needs::default()
        };
        interrupt::catch();
        let spinner = report::spinner(&format!("loading {}", self.model.model.display()), self.quiet);
        let start = Instant::now();
        let wanted = if self.roomy { Wanted::For(self.prompt.text, self.n) } else { Wanted::Usual };
        with_model(self.model, wanted, needs, |mut model| {
            let generator = model.generator(self.params, self.bias)?;
            let mut constraints = self.grammar.map(|_| model.constraints()).transpose()?;
            let constraint = match (&mut constraints, &self.grammar) {
                (Some(room), Some(grammar)) => Some(room.of(grammar)?),
                _ => None,
            };
            let pool = self.model.pool()?;
            spinner.finish_and_clear();
            let load = start.elapsed();
            let ids = self.ids(&model)?;
            let mut run = Run {
                job: self,
                model,
                generator,
                constraint,
                workers: &pool,
                detokenizer: Detokenizer::continuing(false),
                stops: Stops::new(self.stops),
                clock: MonotonicClock::new(),
            };
            let cached = self.cache.map(|path| cache::load(path, run.model.sum, &ids, &mut run.model.engine));
            let mut stats = run.prefill(&ids, cached.unwrap_or(0))?;
            stats.load = load;
            let done = run.generate(&mut stats);
            run.keep(&ids, cached.unwrap_or(0));
            if !self.quiet {
                stats.print(&run.model);
            }
            done
        })
    }

    fn ids(&self, model: &Loaded<'_>) -> Result<Vec<u32>> {
        let how = Encode { bos: Add::Auto, eos: Add::Never, parse_special: self.prompt.special };
        let ids = encode(model.tokenizer()?, self.prompt.text.as_bytes(), how)?;
        let context = model.engine.context();
        if ids.is_empty() {
            bail!("the prompt is empty, and this model has no token to begin with: give a prompt with -p");
        }
        if ids.len() >= context && self.n > 0 {
            bail!(
                "the prompt has {} tokens, which leaves no room in a context window of {context}: shorten it or raise -c",
                ids.len()
            );
        }
        Ok(ids)
    }
}

/// The prompt given, or all of stdin less a last line end.
pub(crate) fn prompt_or_stdin(given: Option<&str>) -> Result<String> {
    if let Some(text) = given {
        return Ok(text.to_owned());
    }
    let mut text = all_of_stdin()?;
    let end = text.strip_suffix('\n').map_or(text.len(), |t| t.strip_suffix('\r').unwrap_or(t).len());
    text.truncate(end);
    Ok(text)
}

/// The prompt on stdin, to the last byte.
pub(crate) fn all_of_stdin() -> Result<String> {
    let mut stdin = std::io::stdin().lock();
    if stdin.is_terminal() {
        bail!("there is no prompt: give one with -p \"…\" or through a pipe");
    }
    let mut text = String::new();
    stdin.read_to_string(&mut text).context("cannot read the prompt from stdin")?;
    Ok(text)
}

/// What ended an answer that a signal ended.
const INTERRUPTED: &str = "interrupted";

/// A generation under way.
struct Run<'r, 'a, 'c> {
    job: &'r Job<'r>,
    model: Loaded<'a>,
    generator: Generator<'a>,
    constraint: Option<Constrained<'c>>,
    workers: &'r dyn Workers,
    detokenizer: Detokenizer,
    stops: Stops<'r>,
    clock: MonotonicClock,
}

/// What happened, and how fast.
#[derive(Default)]
struct Stats {
    load: Duration,
    prompt: usize,
    /// Tokens before those, out of the cache.
    cached: usize,
    prefill: Duration,
    generated: usize,
    decode: Duration,
    guesses: Counts,
    end: &'static str,
    /// Whether the answer had to be ended for the model.
    closed: bool,
}

impl Run<'_, '_, '_> {
    /// Keeps the prompt's state for the next time, where there is more of it than
    /// last time. A cache that cannot be written spoils no answer.
    fn keep(&mut self, ids: &[u32], cached: usize) {
        let Some(path) = self.job.cache else { return };
        let read = ids.len().min(self.model.engine.position());
        if read == 0 || read == cached + 1 && cached > 0 {
            return;
        }
        if let Err(e) = cache::save(path, self.model.sum, &ids[..read], &mut self.model.engine) {
            report::say(format_args!("katydid: the prompt is not kept: {e:#}"));
        }
    }

    fn prefill(&mut self, ids: &[u32], cached: usize) -> Result<Stats> {
        for &id in ids {
            self.generator.prompt(id);
        }
        let rest = &ids[cached..];
        let bar = report::bar("prompt", rest.len() as u64, self.job.quiet);
        let start = Instant::now();
        let mut seen = 0;
        let done = self.model.engine.eval(self.workers, rest, &mut |done| {
            bar.set_position(done as u64);
            seen = done;
            !interrupt::asked()
        });
        bar.finish_and_clear();
        match done {
            Ok(()) | Err(EvalError::Stopped { .. }) => {}
            Err(e) => return Err(e.into()),
        }
        Ok(Stats { prompt: seen, cached, prefill: start.elapsed(), ..Stats::default() })
    }

    /// Generates until the model ends, `-n`, the context's end or Ctrl-C. Errs
    /// where Ctrl-C came within JSON, which is closed all the same.
    fn generate(&mut self, stats: &mut Stats) -> Result<()> {
        let mut out = std::io::stdout().lock();
        let start = Instant::now();
        let mut ended = self.tokens(stats, &mut out, start);
        let mut rest = String::new();
        if ended.is_ok() {
            let closed = self.close(&mut rest);
            ended = closed.and_then(|closed| {
                stats.closed = closed;
                ended
            });
        }
        self.detokenizer.flush(&mut rest)?;
        rest.insert_str(0, self.stops.held());
        // What was generated is written out whatever ended it.
        let written = writeln!(out, "{rest}").and_then(|()| out.flush());
        stats.decode = start.elapsed();
        stats.guesses = self.generator.counts();
        stats.end = match &ended {
            Ok(end) => end,
            Err(e) if report::is_broken_pipe(e) => "nobody reads on",
            Err(_) => "failed",
        };
        let interrupted = matches!(ended, Ok(INTERRUPTED)) && stats.closed;
        ended?;
        written.context(report::CANNOT_WRITE)?;
        // Part of a text is a text. JSON that was closed looks whole, and is not.
        if interrupted { Err(interrupt::Interrupted.into()) } else { Ok(()) }
    }

    /// Ends what a grammar leaves open, as shortly as can be; returns whether
    /// there was anything.
    fn close(&mut self, rest: &mut String) -> Result<bool> {
        let Some(constraint) = &mut self.constraint else { return Ok(false) };
        if constraint.matcher().can_end() {
            return Ok(false);
        }
        let mut ids = vec![0; constraint.min_left()];
        let n = constraint.close(&mut ids).map_err(|e| anyhow!("the answer was cut: {e}; raise -n"))?;
        for &id in &ids[..n] {
            self.detokenizer.push(self.model.tokenizer()?, id, rest)?;
        }
        Ok(true)
    }

    /// The next token.
    fn next(&mut self) -> Result<u32> {
        let within = self.constraint.as_mut().map(|c| c as &mut dyn Constraint);
        Ok(self.generator.next_within(&mut self.model.engine, self.workers, &self.clock, within)?)
    }

    /// Whether nothing may follow.
    fn is_complete(&self) -> bool {
        self.constraint.as_ref().is_some_and(Constrained::is_complete)
    }

    /// Returns what ended it.
    fn tokens(&mut self, stats: &mut Stats, out: &mut impl Write, start: Instant) -> Result<&'static str> {
        let mut text = String::with_capacity(256);
        while stats.generated < self.job.n {
            if interrupt::asked() {
                return Ok(INTERRUPTED);
            }
            if self.is_complete() {
                return Ok("complete");
            }
            let id = self.next()?;
            if self.model.tokenizer()?.is_end(id) && (!self.job.ignore_eos || self.constraint.is_some()) {
                return Ok("the model ended");
            }
            text.clear();
            self.detokenizer.push(self.model.tokenizer()?, id, &mut text)?;
            let free = self.constraint.as_mut().is_none_or(|c| c.matcher().is_free());
            let (shown, stopped) = self.stops.push(&text, free);
            out.write_all(shown.as_bytes()).and_then(|()| out.flush()).context(report::CANNOT_WRITE)?;
            stats.generated += 1;
            stats.decode = start.elapsed();
            if stopped {
                return Ok("the model ended");
            }
            if stats.cached + stats.prompt + stats.generated > self.model.engine.context() {
                return Ok("the context is full; raise -c to go on");
            }
        }
        Ok(if self.is_complete() { "complete" } else { "-n reached" })
    }
}

fn rate(tokens: usize, time: Duration) -> f64 {
    tokens as f64 / time.as_secs_f64().max(1e-9)
}

impl Stats {
    fn print(&self, model: &Loaded<'_>) {
        let first = self.prefill.as_secs_f64() * 1e3;
        report::say(format_args!(
            "prompt {} tokens, {:.1} tok/s · generated {} tokens, {:.1} tok/s · first token after {first:.0} ms (load {:.0} ms) · {}{}",
            self.prompt,
            rate(self.prompt, self.prefill),
            self.generated,
            // The first token's work was the prompt's.
            rate(self.generated.saturating_sub(1), self.decode),
            self.load.as_secs_f64() * 1e3,
            self.end,
            if self.closed { ": the answer was closed in the shortest way" } else { "" },
        ));
        if self.cached > 0 {
            report::say(format_args!("{} tokens before those were in the cache", self.cached));
        }
        if self.guesses.guessed > 0 {
            let Counts { guessed, kept, .. } = self.guesses;
            report::say(format_args!("guessed {guessed} tokens ahead, {kept} came true"));
        }
        let mut memory = format!("memory planned {}", Bytes(model.arena));
        if let Some(now) = rss() {
            memory += &format!(" · resident {} own, {} of the mapped file", Bytes(now.anon), Bytes(now.file));
        }
        if let Some(peak) = vm_hwm() {
            memory += &format!(" · peak {}", Bytes(peak));
        }
        report::say(memory);
    }
}
