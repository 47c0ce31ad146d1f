//! `katydid bench`: tokens per second, prefill and decode.

mod replay;

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use anyhow::Result;
use katydid_core::model::Engine;
use katydid_core::port::{Pages, Workers};
use serde_json::json;

use crate::loaded::{Files, Needs, Wanted, with_model};
use crate::model_args::{ModelArgs, kernels, pool};
use crate::report;
use crate::units::{MOST_THREADS, MOST_TOKENS, whole};

#[derive(clap::Args)]
pub(crate) struct Args {
    /// GGUF file; of a split model, any part
    model: std::path::PathBuf,
    /// Prompt tokens to evaluate; 0 leaves prefill out
    #[arg(short, long, value_name = "N", default_value_t = 64, value_parser = whole(0, MOST_TOKENS))]
    prompt: usize,
    /// Tokens to decode; 0 leaves decode out
    #[arg(short = 'n', long = "tokens", value_name = "N", default_value_t = 32, value_parser = whole(0, MOST_TOKENS))]
    n: usize,
    /// Tokens already in the context before decode is timed
    #[arg(short, long, value_name = "N", default_value_t = 0, value_parser = whole(0, MOST_TOKENS))]
    depth: usize,
    /// Numbers of threads, such as 1,2 [default: one per processor core]
    #[arg(short = 'j', long, value_name = "N,…", value_delimiter = ',', value_parser = whole(1, MOST_THREADS))]
    threads: Vec<usize>,
    /// Prompt tokens worked on at once
    #[arg(short, long, value_name = "N", default_value_t = katydid_core::model::Options::BATCH, value_parser = whole(1, MOST_TOKENS))]
    batch: usize,
    /// Times each is measured; the median counts
    #[arg(short, long, value_name = "N", default_value_t = 3, value_parser = whole(1, 1_000_000))]
    repeat: usize,
    /// Also time a plain read of the whole file from memory
    #[arg(long)]
    bandwidth: bool,
    /// Instead, make the model say the text of FILE, with and without guessing
    /// ahead: a prompt, a line '---', an answer
    #[arg(long, value_name = "FILE")]
    replay: Option<std::path::PathBuf>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// A plain read of the model's file.
struct Read {
    threads: usize,
    gb_s: f64,
}

/// One measurement.
struct Row {
    kind: &'static str,
    tokens: usize,
    threads: usize,
    context: usize,
    tok_s: f64,
}

pub(crate) fn run(args: &Args) -> Result<()> {
    let threads =
        if args.threads.is_empty() { vec![katydid_linux::default_threads()] } else { args.threads.clone() };
    let context = args.prompt.max(args.depth.saturating_add(args.n)).max(1);
    let mut model = ModelArgs {
        model: args.model.clone(),
        context: Some(context),
        threads: None,
        batch: args.batch,
        ram: None,
    };
    if let Some(text) = &args.replay {
        model.context = None;
        let replays = replay::replay(&model, text, &threads, args.repeat)?;
        return print_replays(args, &replays);
    }
    let isa = kernels()?.isa().name();
    let mut rows = Vec::new();
    let mut reads = Vec::new();
    let files = Files::open(&args.model)?;
    with_model(&model, Wanted::Usual, Needs::default(), |mut model| {
        let steps = threads.len().saturating_mul(args.repeat).saturating_mul(2);
        let bar = report::bar("bench", steps as u64, false);
        for &threads in &threads {
            let pool = pool(threads)?;
            // Once untimed: pages get mapped, threads woken.
            prefill(&mut model.engine, &pool, args.prompt.clamp(1, 32))?;
            if args.bandwidth {
                let gb_s = median(args.repeat, || Ok(read(&files, &pool)))?;
                reads.push(Read { threads, gb_s });
            }
            if args.prompt > 0 {
                let tok_s = median(args.repeat, || {
                    bar.inc(1);
                    prefill(&mut model.engine, &pool, args.prompt)
                })?;
                rows.push(Row { kind: "prefill", tokens: args.prompt, threads, context: 0, tok_s });
            }
            if args.n > 0 {
                let tok_s = median(args.repeat, || {
                    bar.inc(1);
                    decode(&mut model.engine, &pool, args.n, args.depth)
                })?;
                rows.push(Row { kind: "decode", tokens: args.n, threads, context: args.depth, tok_s });
            }
        }
        bar.finish_and_clear();
        Ok(())
    })?;
    print(args, isa, &rows, &reads)
}

fn print(args: &Args, isa: &str, rows: &[Row], reads: &[Read]) -> Result<()> {
    if args.json {
        let list: Vec<_> = rows
            .iter()
            .map(|r| {
                json!({"kind": r.kind, "tokens": r.tokens, "threads": r.threads, "context": r.context, "tok_s": r.tok_s})
            })
            .collect();
        let reads: Vec<_> = reads.iter().map(|r| json!({"threads": r.threads, "gb_s": r.gb_s})).collect();
        return report::result(json!({"isa": isa, "results": list, "reads": reads}));
    }
    for r in reads {
        report::result(format_args!("read     {} threads, {:.1} GB/s", r.threads, r.gb_s))?;
    }
    report::result(format_args!(
        "{:<8} {:>7} {:>8} {:>8} {:>10}   {isa}",
        "", "tokens", "threads", "context", "tok/s"
    ))?;
    for r in rows {
        report::result(format_args!(
            "{:<8} {:>7} {:>8} {:>8} {:>10.2}",
            r.kind, r.tokens, r.threads, r.context, r.tok_s
        ))?;
    }
    Ok(())
}

fn print_replays(args: &Args, replays: &[replay::Replay]) -> Result<()> {
    if args.json {
        let list: Vec<_> = replays
            .iter()
            .map(|r| {
                json!({"kind": "replay", "prompt": r.prompt, "tokens": r.tokens, "threads": r.threads,
                    "plain_tok_s": r.plain, "gain": r.gain, "guessed": r.counts.guessed, "kept": r.counts.kept,
                    "runs": r.counts.runs})
            })
            .collect();
        return report::result(json!({"isa": kernels()?.isa().name(), "results": list}));
    }
    for r in replays {
        report::result(format_args!(
            "{} tokens after {}, {} threads: {:.2} tok/s, {:.2} times that with guesses ({} guessed, {} came true)",
            r.tokens, r.prompt, r.threads, r.plain, r.gain, r.counts.guessed, r.counts.kept
        ))?;
    }
    Ok(())
}

fn median(repeat: usize, mut one: impl FnMut() -> Result<f64>) -> Result<f64> {
    Ok(median_of((0..repeat).map(|_| one()).collect::<Result<Vec<f64>>>()?))
}

/// The middle one of a list that is not empty.
fn median_of(mut all: Vec<f64>) -> f64 {
    all.sort_by(f64::total_cmp);
    all[all.len() / 2]
}

/// GB/s of reading every byte of the files once, in pieces that threads take as
/// they can.
fn read(files: &Files, workers: &dyn Workers) -> f64 {
    const PIECE: usize = 1 << 20;
    let maps = files.files().iter().filter_map(|(_, file)| file.map());
    let pieces: Vec<&[u8]> = maps.flat_map(|map| map.chunks(PIECE)).collect();
    let next = AtomicUsize::new(0);
    let start = Instant::now();
    workers.run(workers.count(), &|_| {
        let mut sum = [0u64; 8];
        while let Some(piece) = pieces.get(next.fetch_add(1, Ordering::Relaxed)) {
            for line in piece.as_chunks::<64>().0 {
                let (words, _) = line.as_chunks::<8>();
                for (sum, word) in sum.iter_mut().zip(words) {
                    *sum ^= u64::from_ne_bytes(*word);
                }
            }
        }
        std::hint::black_box(sum);
    });
    files.len() as f64 / start.elapsed().as_secs_f64() / 1e9
}

/// Ids that mean nothing but exist in any vocabulary.
fn ids(engine: &Engine<'_>, n: usize) -> Vec<u32> {
    (0..n).map(|i| ((i * 7919 + 3) % engine.config().vocab) as u32).collect()
}

fn prefill(engine: &mut Engine<'_>, workers: &dyn Workers, n: usize) -> Result<f64> {
    let ids = ids(engine, n);
    engine.rewind(0);
    let start = Instant::now();
    engine.eval(workers, &ids, &mut |_| true)?;
    Ok(n as f64 / start.elapsed().as_secs_f64())
}

fn decode(engine: &mut Engine<'_>, workers: &dyn Workers, n: usize, depth: usize) -> Result<f64> {
    let ids = ids(engine, depth + n);
    engine.rewind(0);
    if depth > 0 {
        engine.eval(workers, &ids[..depth], &mut |_| true)?;
    }
    let start = Instant::now();
    for id in &ids[depth..] {
        engine.eval(workers, std::slice::from_ref(id), &mut |_| true)?;
    }
    Ok(n as f64 / start.elapsed().as_secs_f64())
}
