//! `cargo xtask bench`: our speed beside other programs' on the same file.
//!
//! Programs take turns, round after round, so that a machine that slows down
//! slows all of them; what counts is the median over rounds of the ratio within
//! a round. Peers are given as paths and are no part of the project.

use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result, anyhow, bail};
use serde_json::{Value, json};

use crate::cmd;

#[derive(clap::Args)]
pub(crate) struct Args {
    /// The model file
    pub(crate) model: PathBuf,
    /// A program to compare with: llama.cpp=PATH of llama-bench, picolm=PATH of picolm
    #[arg(long, value_name = "NAME=PATH")]
    pub(crate) peer: Vec<String>,
    /// Numbers of threads
    #[arg(short = 'j', long, value_name = "N,…", value_delimiter = ',', default_value = "1,2")]
    threads: Vec<usize>,
    /// Prompt tokens
    #[arg(short, long, default_value_t = 64)]
    prompt: usize,
    /// Tokens to decode
    #[arg(short = 'n', long = "tokens", default_value_t = 32)]
    n: usize,
    /// Tokens in the context before decode is timed (not for picolm)
    #[arg(short, long, default_value_t = 0)]
    pub(crate) depth: usize,
    /// Rounds
    #[arg(short, long, default_value_t = 5)]
    rounds: usize,
    /// Instruction set to force on ours, as KATYDID_ISA
    #[arg(long)]
    pub(crate) isa: Option<String>,
    /// Count guest instructions per decoded token instead: aarch64, armv7 (needs qemu-user)
    #[arg(long, value_name = "ARCH,…", value_delimiter = ',')]
    pub(crate) count: Vec<String>,
    /// Count those of a prompt token instead, in batches of 32
    #[arg(long, requires = "count")]
    pub(crate) count_prefill: bool,
    /// Functions to list where instructions are counted
    #[arg(long, value_name = "N", default_value_t = 12)]
    pub(crate) functions: usize,
    /// Write the results as JSON
    #[arg(short, long, value_name = "FILE")]
    pub(crate) out: Option<PathBuf>,
}

/// Tokens per second of one run.
#[derive(Clone, Copy)]
struct Speed {
    prefill: f64,
    decode: f64,
}

/// A program that can be timed.
struct Program {
    name: String,
    path: PathBuf,
}

pub(crate) fn main(args: &Args) -> Result<()> {
    if args.rounds == 0 || !args.model.is_file() {
        bail!("give a model file and at least one round");
    }
    if !args.count.is_empty() {
        return crate::count::main(args);
    }
    cmd::run(cmd::command(cmd::cargo()).args(["build", "--release", "--package=katydid"]))?;
    let mut programs =
        vec![Program { name: "katydid".into(), path: cmd::target_dir("").join("release/katydid") }];
    for peer in &args.peer {
        let (name, path) = peer.split_once('=').ok_or_else(|| anyhow!("--peer {peer} is not NAME=PATH"))?;
        programs.push(Program { name: name.into(), path: path.into() });
    }
    let mut rows = Vec::new();
    for &threads in &args.threads {
        let rounds = (0..args.rounds)
            .map(|_| programs.iter().map(|p| p.speed(args, threads)).collect::<Result<Vec<_>>>())
            .collect::<Result<Vec<_>>>()?;
        for (i, program) in programs.iter().enumerate() {
            rows.push(row(&program.name, threads, i, &rounds));
        }
    }
    let record = json!({"machine": machine(), "model": args.model.file_name().map(|n| n.to_string_lossy()),
        "prompt": args.prompt, "tokens": args.n, "depth": args.depth, "rounds": args.rounds,
        "isa": args.isa, "results": rows});
    match &args.out {
        None => Ok(()),
        Some(out) => std::fs::write(out, format!("{record:#}\n")).with_context(|| out.display().to_string()),
    }
}

/// Medians of program `i`, and of its ratio to ours (program 0) round by round.
fn row(name: &str, threads: usize, i: usize, rounds: &[Vec<Speed>]) -> Value {
    let of = |f: &dyn Fn(&[Speed]) -> f64| median(rounds.iter().map(|r| f(r)).collect());
    let (prefill, decode) = (of(&|r| r[i].prefill), of(&|r| r[i].decode));
    let ours = [of(&|r| r[0].prefill / r[i].prefill), of(&|r| r[0].decode / r[i].decode)];
    println!(
        "{name:<10} {threads} threads: prefill {prefill:>8.2} tok/s, decode {decode:>7.2} tok/s; ours is {:.2} and {:.2} times that",
        ours[0], ours[1]
    );
    json!({"program": name, "threads": threads, "prefill_tok_s": prefill, "decode_tok_s": decode,
        "ours_over_prefill": ours[0], "ours_over_decode": ours[1]})
}

fn median(mut all: Vec<f64>) -> f64 {
    all.sort_by(f64::total_cmp);
    all[all.len() / 2]
}

impl Program {
    fn speed(&self, args: &Args, threads: usize) -> Result<Speed> {
        match self.name.as_str() {
            "katydid" => self.katydid(args, threads),
            "llama.cpp" => self.llama_bench(args, threads),
            "picolm" => self.picolm(args, threads),
            other => bail!("no program is called {other}: give llama.cpp or picolm"),
        }
    }

    fn katydid(&self, args: &Args, threads: usize) -> Result<Speed> {
        let mut c = Command::new(&self.path);
        c.arg("bench").arg(&args.model).args(["--json", "-r", "1"]);
        c.args(numbers([("-p", args.prompt), ("-n", args.n), ("-d", args.depth), ("-j", threads)]));
        if let Some(isa) = &args.isa {
            c.env("KATYDID_ISA", isa);
        }
        let result: Value = serde_json::from_str(&cmd::output(&mut c)?)?;
        let find = |kind: &str| {
            let rows = result["results"].as_array()?;
            rows.iter().find(|r| r["kind"] == kind)?["tok_s"].as_f64()
        };
        speeds(find("prefill"), find("decode"))
    }

    fn llama_bench(&self, args: &Args, threads: usize) -> Result<Speed> {
        let mut c = Command::new(&self.path);
        c.arg("-m").arg(&args.model).args(["-o", "json", "-r", "1"]);
        c.args(numbers([("-p", args.prompt), ("-n", args.n), ("-d", args.depth), ("-t", threads)]));
        let result: Value = serde_json::from_str(&cmd::output(&mut c)?)?;
        let find = |key: &str| {
            let rows = result.as_array()?;
            rows.iter().find(|r| r[key].as_u64() != Some(0))?["avg_ts"].as_f64()
        };
        speeds(find("n_prompt"), find("n_gen"))
    }

    /// Its prompt is text: single letters, about one token each.
    fn picolm(&self, args: &Args, threads: usize) -> Result<Speed> {
        let mut c = Command::new(&self.path);
        let prompt = "a b ".repeat(args.prompt.div_ceil(4));
        c.arg(&args.model).args(["-t", "0", "-p", prompt.trim()]);
        c.args(numbers([("-n", args.n), ("-j", threads), ("-c", args.prompt * 2 + args.n), ("-s", 1)]));
        let done = c.output().with_context(|| self.path.display().to_string())?;
        let text = String::from_utf8_lossy(&done.stderr).into_owned();
        let find = |what: &str| {
            let line = text.lines().find(|l| l.trim_start().starts_with(what))?;
            line.split_once('(')?.1.split_whitespace().next()?.parse().ok()
        };
        speeds(find("Prefill:"), find("Generation:"))
    }
}

pub(crate) fn numbers<const N: usize>(flags: [(&str, usize); N]) -> Vec<String> {
    flags.into_iter().flat_map(|(flag, n)| [flag.to_owned(), n.to_string()]).collect()
}

fn speeds(prefill: Option<f64>, decode: Option<f64>) -> Result<Speed> {
    let missing = || anyhow!("a program printed no speed where one was expected");
    Ok(Speed { prefill: prefill.ok_or_else(missing)?, decode: decode.ok_or_else(missing)? })
}

/// What the numbers were measured on.
pub(crate) fn machine() -> Value {
    let first = |path: &str, key: &str| {
        let text = std::fs::read_to_string(path).ok()?;
        let line = text.lines().find(|l| l.starts_with(key))?;
        Some(line.split_once(':')?.1.trim().to_owned())
    };
    let said = |c: &mut Command| cmd::output(c).map(|s| s.trim().to_owned()).ok();
    json!({"cpu": first("/proc/cpuinfo", "model name"),
        "compiler": said(Command::new("rustc").arg("--version")),
        "commit": said(Command::new("git").args(["rev-parse", "--short", "HEAD"]))})
}
