//! `katydid run`: continue a prompt.

use std::io::{IsTerminal, Read, Write};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use katydid_core::generate::{Counts, Generator, MOST_DRAFTS};
use katydid_core::model::EvalError;
use katydid_core::port::Workers;
use katydid_core::sample::Params;
use katydid_core::text::{Add, Detokenizer, Encode};
use katydid_linux::{MonotonicClock, rss, vm_hwm};

use super::encode;
use crate::interrupt;
use crate::loaded::{Generation, Loaded, Needs, with_model};
use crate::model_args::ModelArgs;
use crate::report;
use crate::units::Bytes;

#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    model: ModelArgs,
    /// What to continue [default: all of stdin, less a last line end]
    #[arg(short, long, allow_hyphen_values = true)]
    prompt: Option<String>,
    /// Most tokens to generate
    #[arg(short = 'n', long = "tokens", value_name = "N", default_value_t = 256)]
    n: usize,
    /// Do not end where the model wants to
    #[arg(long)]
    ignore_eos: bool,
    /// Read texts like <|im_end|> in the prompt as control tokens
    #[arg(long)]
    special: bool,
    /// Do not guess repeated text ahead; the result is the same either way
    #[arg(long)]
    no_speculate: bool,
    /// No statistics, no progress
    #[arg(short, long)]
    quiet: bool,
    #[command(flatten)]
    sampling: Sampling,
}

#[derive(clap::Args)]
#[command(next_help_heading = "Sampling")]
struct Sampling {
    /// 0 is greedy; higher is wilder
    #[arg(short, long, value_name = "T", default_value_t = 0.8, allow_negative_numbers = true)]
    temperature: f32,
    /// Only the K likeliest tokens; 0 for all
    #[arg(long, value_name = "K", default_value_t = 40)]
    top_k: usize,
    /// Only the likeliest tokens that together have this probability
    #[arg(short = 'k', long, value_name = "P", default_value_t = 0.95)]
    top_p: f32,
    /// Only tokens with this share of the likeliest's probability
    #[arg(long, value_name = "P", default_value_t = 0.05)]
    min_p: f32,
    /// Discourages recent tokens; 1 is off
    #[arg(long, value_name = "X", default_value_t = 1.0)]
    repeat_penalty: f32,
    /// How many tokens are recent
    #[arg(long, value_name = "N", default_value_t = 64)]
    repeat_last_n: usize,
    /// Discourages tokens by how often they came
    #[arg(long, value_name = "X", default_value_t = 0.0, allow_negative_numbers = true)]
    frequency_penalty: f32,
    /// Discourages tokens that came at all
    #[arg(long, value_name = "X", default_value_t = 0.0, allow_negative_numbers = true)]
    presence_penalty: f32,
    /// Adds to a token's logit; ID=-inf bans it. May be repeated
    #[arg(long, value_name = "ID=X", value_parser = parse_bias)]
    logit_bias: Vec<(u32, f32)>,
    /// Start of the random numbers: one seed, one text
    #[arg(short, long, value_name = "N", default_value_t = 0)]
    seed: u64,
}

impl Sampling {
    fn params(&self) -> Params {
        Params {
            temperature: self.temperature,
            top_k: self.top_k,
            top_p: self.top_p,
            min_p: self.min_p,
            repeat_penalty: self.repeat_penalty,
            repeat_last_n: self.repeat_last_n,
            frequency_penalty: self.frequency_penalty,
            presence_penalty: self.presence_penalty,
            seed: self.seed,
        }
    }
}

fn parse_bias(text: &str) -> Result<(u32, f32), String> {
    let parse = || {
        let (id, bias) = text.split_once('=')?;
        Some((id.trim().parse().ok()?, bias.trim().parse().ok()?))
    };
    parse().ok_or_else(|| format!("'{text}' is not like 13=-2.5 or 13=-inf"))
}

pub(crate) fn run(args: &Args) -> Result<()> {
    let params = args.sampling.params();
    params.check()?;
    let prompt = prompt(args)?;
    let generate = Generation {
        last_n: params.repeat_last_n,
        biases: args.sampling.logit_bias.len(),
        drafts: if args.no_speculate { 0 } else { MOST_DRAFTS },
    };
    let needs = Needs { text: true, generate: Some(generate) };
    interrupt::catch();
    let spinner = report::spinner(&format!("loading {}", args.model.model.display()), args.quiet);
    let start = Instant::now();
    with_model(&args.model, None, needs, |mut model| {
        let generator = model.generator(&params, &args.sampling.logit_bias)?;
        let pool = args.model.pool()?;
        spinner.finish_and_clear();
        let load = start.elapsed();
        let ids = prompt_ids(args, &model, prompt.as_bytes())?;
        let mut run = Run {
            args,
            model,
            generator,
            workers: &pool,
            detokenizer: Detokenizer::continuing(false),
            clock: MonotonicClock::new(),
        };
        let mut stats = run.prefill(&ids)?;
        stats.load = load;
        let done = run.generate(&mut stats);
        if !args.quiet {
            stats.print(&run.model);
        }
        done
    })
}

fn prompt(args: &Args) -> Result<String> {
    if let Some(text) = &args.prompt {
        return Ok(text.clone());
    }
    let mut stdin = std::io::stdin().lock();
    if stdin.is_terminal() {
        bail!("there is no prompt: give one with -p \"…\" or through a pipe");
    }
    let mut text = String::new();
    stdin.read_to_string(&mut text).context("cannot read the prompt from stdin")?;
    let end = text.strip_suffix('\n').map_or(text.len(), |t| t.strip_suffix('\r').unwrap_or(t).len());
    text.truncate(end);
    Ok(text)
}

fn prompt_ids(args: &Args, model: &Loaded<'_>, prompt: &[u8]) -> Result<Vec<u32>> {
    let how = Encode { bos: Add::Auto, eos: Add::Never, parse_special: args.special };
    let ids = encode(model.tokenizer()?, prompt, how)?;
    let context = model.engine.context();
    if ids.is_empty() {
        bail!("the prompt is empty, and this model has no token to begin with: give a prompt with -p");
    }
    if ids.len() >= context && args.n > 0 {
        bail!(
            "the prompt has {} tokens, which leaves no room in a context of {context}: shorten it or raise -c",
            ids.len()
        );
    }
    Ok(ids)
}

/// A generation under way.
struct Run<'r, 'a> {
    args: &'r Args,
    model: Loaded<'a>,
    generator: Generator<'a>,
    workers: &'r dyn Workers,
    detokenizer: Detokenizer,
    clock: MonotonicClock,
}

/// What happened, and how fast.
#[derive(Default)]
struct Stats {
    load: Duration,
    prompt: usize,
    prefill: Duration,
    generated: usize,
    decode: Duration,
    guesses: Counts,
    end: &'static str,
}

impl Run<'_, '_> {
    fn prefill(&mut self, ids: &[u32]) -> Result<Stats> {
        for &id in ids {
            self.generator.prompt(id);
        }
        let bar = report::bar("prompt", ids.len() as u64, self.args.quiet);
        let start = Instant::now();
        let mut seen = 0;
        let done = self.model.engine.eval(self.workers, ids, &mut |done| {
            bar.set_position(done as u64);
            seen = done;
            !interrupt::asked()
        });
        bar.finish_and_clear();
        match done {
            Ok(()) | Err(EvalError::Stopped { .. }) => {}
            Err(e) => return Err(e.into()),
        }
        Ok(Stats { prompt: seen, prefill: start.elapsed(), ..Stats::default() })
    }

    /// Generates until the model ends, `-n`, the context's end or Ctrl-C.
    fn generate(&mut self, stats: &mut Stats) -> Result<()> {
        let mut out = std::io::stdout().lock();
        let start = Instant::now();
        let ended = self.tokens(stats, &mut out, start);
        let mut rest = String::new();
        self.detokenizer.flush(&mut rest)?;
        // What was generated is written out whatever ended it.
        let written = writeln!(out, "{rest}").and_then(|()| out.flush());
        stats.decode = start.elapsed();
        stats.guesses = self.generator.counts();
        stats.end = match &ended {
            Ok(end) => end,
            Err(e) if report::is_broken_pipe(e) => "nobody reads on",
            Err(_) => "failed",
        };
        ended?;
        written.context(report::CANNOT_WRITE)
    }

    /// Returns what ended it.
    fn tokens(&mut self, stats: &mut Stats, out: &mut impl Write, start: Instant) -> Result<&'static str> {
        let mut text = String::with_capacity(256);
        while stats.generated < self.args.n {
            if interrupt::asked() {
                return Ok("interrupted");
            }
            let id = self.generator.next(&mut self.model.engine, self.workers, &self.clock)?;
            if self.model.tokenizer()?.is_end(id) && !self.args.ignore_eos {
                return Ok("the model ended");
            }
            text.clear();
            self.detokenizer.push(self.model.tokenizer()?, id, &mut text)?;
            out.write_all(text.as_bytes()).and_then(|()| out.flush()).context(report::CANNOT_WRITE)?;
            stats.generated += 1;
            stats.decode = start.elapsed();
            if stats.prompt + stats.generated > self.model.engine.context() {
                return Ok("the context is full; raise -c to go on");
            }
        }
        Ok("-n reached")
    }
}

fn rate(tokens: usize, time: Duration) -> f64 {
    tokens as f64 / time.as_secs_f64().max(1e-9)
}

impl Stats {
    fn print(&self, model: &Loaded<'_>) {
        let first = self.prefill.as_secs_f64() * 1e3;
        report::say(format_args!(
            "prompt {} tokens, {:.1} tok/s · generated {} tokens, {:.1} tok/s · first token after {first:.0} ms (load {:.0} ms) · {}",
            self.prompt,
            rate(self.prompt, self.prefill),
            self.generated,
            // The first token's work was the prompt's.
            rate(self.generated.saturating_sub(1), self.decode),
            self.load.as_secs_f64() * 1e3,
            self.end
        ));
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
