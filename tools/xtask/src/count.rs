//! `cargo xtask bench MODEL --count aarch64`: guest instructions per decoded
//! token, or per prompt token, for processors we have no machine of.
//!
//! Programs run under QEMU with the plugin of `tools/icount`. Each runs twice,
//! over a few tokens and more; the difference by the extra tokens is the cost of
//! one, free of loading and of all else that both runs do. Counts repeat exactly. They
//! say nothing of time: of cycles, caches or memory.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, anyhow, bail};
use serde_json::{Value, json};

use crate::bench::{Args, machine, numbers};
use crate::toolchain::Toolchain;
use crate::{cmd, cross};

/// Tokens decoded by the shorter and the longer run.
const DECODED: [usize; 2] = [8, 24];

/// Tokens of the shorter and the longer prompt: whole batches.
const PROMPT: [usize; 2] = [64, 128];

/// A processor QEMU plays, and the instruction set of ours meant for it.
struct Guest {
    arch: &'static str,
    isa: &'static str,
    triple: &'static str,
    emulator: &'static str,
    cpu: &'static str,
}

const GUESTS: [Guest; 4] = [
    guest("aarch64", "neon", "aarch64-unknown-linux-gnu", "qemu-aarch64", "cortex-a72"),
    guest("aarch64", "dotprod", "aarch64-unknown-linux-gnu", "qemu-aarch64", "max,sve=off"),
    guest("aarch64", "i8mm", "aarch64-unknown-linux-gnu", "qemu-aarch64", "max,sve=off"),
    guest("armv7", "neon", "armv7-unknown-linux-gnueabihf", "qemu-arm", "cortex-a7"),
];

const fn guest(
    arch: &'static str,
    isa: &'static str,
    triple: &'static str,
    emulator: &'static str,
    cpu: &'static str,
) -> Guest {
    Guest { arch, isa, triple, emulator, cpu }
}

/// Instructions per token by function.
type Counts = BTreeMap<String, f64>;

pub(crate) fn main(args: &Args) -> Result<()> {
    for arch in &args.count {
        if !GUESTS.iter().any(|g| g.arch == arch) {
            bail!("--count {arch}: give aarch64 or armv7");
        }
    }
    let plugin = plugin()?;
    let mut results = Vec::new();
    for arch in &args.count {
        let mut built: Option<(&str, PathBuf)> = None;
        for guest in GUESTS.iter().filter(|g| g.arch == arch) {
            if args.isa.as_deref().is_some_and(|isa| isa != guest.isa) {
                continue;
            }
            let ours = match &built {
                Some((triple, path)) if *triple == guest.triple => path.clone(),
                _ => katydid(guest.triple)?,
            };
            let emulator = Emulator { guest, plugin: &plugin };
            results.extend(emulator.compare(args, &ours)?);
            built = Some((guest.triple, ours));
        }
    }
    if results.is_empty() {
        bail!(
            "none of these processors has the instruction set {}",
            args.isa.as_deref().unwrap_or("asked for")
        );
    }
    let model = args.model.file_name().map(|n| n.to_string_lossy());
    let record = json!({"machine": machine(), "model": model, "depth": args.depth, "tokens": tokens(args),
        "prefill": args.count_prefill, "instructions_per_token": results});
    match &args.out {
        None => Ok(()),
        Some(out) => std::fs::write(out, format!("{record:#}\n")).with_context(|| out.display().to_string()),
    }
}

/// Builds the plugin.
fn plugin() -> Result<PathBuf> {
    cmd::run(cmd::command(cmd::cargo()).args(["build", "--release", "--package=icount"]))?;
    let name = format!("{}icount{}", std::env::consts::DLL_PREFIX, std::env::consts::DLL_SUFFIX);
    Ok(cmd::target_dir("release").join(name))
}

/// Builds our command as it ships, but with the names of its functions.
fn katydid(triple: &str) -> Result<PathBuf> {
    let mut cargo = Toolchain::hosted(triple)?.cargo("build");
    cargo.args(["--release", "--package=katydid", "--config=profile.release.strip=\"none\""]);
    cross::build(&mut cargo)?.pop().context("katydid has no executable")
}

struct Emulator<'a> {
    guest: &'a Guest,
    plugin: &'a Path,
}

impl Emulator<'_> {
    /// Counts ours and the peers, and prints them.
    fn compare(&self, args: &Args, ours: &Path) -> Result<Vec<Value>> {
        let mut results = Vec::new();
        let mut our_total = None;
        let peers = args.peer.iter().map(|p| {
            p.split_once('=')
                .map(|(n, p)| (n, Path::new(p)))
                .ok_or_else(|| anyhow!("--peer {p} is not NAME=PATH"))
        });
        for program in std::iter::once(Ok(("katydid", ours))).chain(peers) {
            let (name, path) = program?;
            let counts = self.per_token(name, path, args)?;
            let total: f64 = counts.values().sum();
            let ratio = *our_total.get_or_insert(total) / total;
            let (arch, isa) = (self.guest.arch, self.guest.isa);
            let what = if args.count_prefill { "prompt token" } else { "token" };
            println!(
                "{name:<10} {arch} {isa:<8} {:>9.3} million instructions a {what}; ours is {ratio:.3} times that",
                total / 1e6
            );
            let top = largest(&counts, args.functions);
            for (function, n) in &top {
                println!("  {:>10.0} {:>5.1}%  {function}", n, 100.0 * n / total);
            }
            let top: Vec<Value> = top.iter().map(|(f, n)| json!({"name": f, "count": n.round()})).collect();
            results.push(json!({"program": name, "arch": arch, "isa": isa, "cpu": self.guest.cpu,
                "count": total.round(), "ours_over": ratio, "functions": top}));
        }
        Ok(results)
    }

    fn per_token(&self, name: &str, path: &Path, args: &Args) -> Result<Counts> {
        let [fewer, more] = tokens(args);
        let less = self.count(name, path, args, fewer)?;
        let mut counts = self.count(name, path, args, more)?;
        for (function, n) in less {
            *counts.entry(function).or_default() -= n;
        }
        for n in counts.values_mut() {
            *n /= (more - fewer) as f64;
        }
        Ok(counts)
    }

    /// Instructions of one whole run over `n` tokens.
    fn count(&self, name: &str, path: &Path, args: &Args, n: usize) -> Result<Counts> {
        let out = cmd::target_dir("icount.txt");
        if out.exists() {
            std::fs::remove_file(&out)?;
        }
        let mut c = cmd::command(self.guest.emulator);
        c.args(["-cpu", self.guest.cpu, "-plugin"]);
        c.arg(format!("{},out={}", self.plugin.display(), out.display()));
        c.arg(path);
        let add = if args.count_prefill { prefill } else { decode };
        add(&mut c, name, args, n)?;
        c.env("KATYDID_ISA", self.guest.isa);
        let done = c.output().with_context(|| {
            format!("cannot start {} with plugins\n  sudo apt-get install qemu-user", self.guest.emulator)
        })?;
        if !done.status.success() {
            bail!("{} failed ({})\n{}", cmd::show(&c), done.status, String::from_utf8_lossy(&done.stderr));
        }
        parse(&std::fs::read_to_string(&out).with_context(|| format!("{} counted nothing", cmd::show(&c)))?)
    }
}

/// Tokens of the shorter and the longer run.
fn tokens(args: &Args) -> [usize; 2] {
    if args.count_prefill { PROMPT } else { DECODED }
}

/// Adds the arguments that make a program read a prompt of `n` tokens on one
/// thread, in the same batches.
fn prefill(c: &mut Command, name: &str, args: &Args, n: usize) -> Result<()> {
    let model = std::path::absolute(&args.model)?;
    let numbers = numbers([("-p", n), ("-n", 0), ("-r", 1), ("-b", 32)]);
    match name {
        "katydid" => c.arg("bench").arg(model).args(numbers).args(["-j", "1"]),
        "llama.cpp" => c.arg("-m").arg(model).args(numbers).args(["-ub", "32", "-t", "1", "--no-warmup"]),
        other => bail!("no program called {other} counts a prompt: give llama.cpp"),
    };
    Ok(())
}

/// Adds the arguments that make a program decode `n` tokens on one thread.
fn decode(c: &mut Command, name: &str, args: &Args, n: usize) -> Result<()> {
    let model = std::path::absolute(&args.model)?;
    let prompt = format!("{}hello world", "a b ".repeat(args.depth.div_ceil(4)));
    match name {
        "katydid" => {
            c.arg("run").arg(model).args(["-p", &prompt, "-t", "0", "-q", "--ignore-eos", "--no-speculate"]);
            c.args(numbers([("-n", n), ("-j", 1)]));
        }
        // It warms up with a token, in both runs.
        "llama.cpp" => {
            c.arg("-m").arg(model);
            c.args(numbers([("-p", 0), ("-n", n), ("-d", args.depth), ("-t", 1), ("-r", 1)]));
        }
        "picolm" => {
            c.arg(model).args(["-t", "0", "-p", &prompt]).args(numbers([("-n", n), ("-j", 1), ("-s", 1)]));
        }
        other => bail!("no program is called {other}: give llama.cpp or picolm"),
    }
    Ok(())
}

/// Reads what the plugin wrote.
fn parse(text: &str) -> Result<Counts> {
    let mut counts = Counts::new();
    for line in text.lines() {
        let (n, symbol) = line.split_once(' ').ok_or_else(|| anyhow!("not a count: {line}"))?;
        let name = format!("{:#}", rustc_demangle::demangle(symbol));
        *counts.entry(name).or_default() += n.parse::<u64>()? as f64;
    }
    Ok(counts)
}

/// The `n` largest.
fn largest(counts: &Counts, n: usize) -> Vec<(&str, f64)> {
    let mut all: Vec<(&str, f64)> = counts.iter().map(|(f, n)| (f.as_str(), *n)).collect();
    all.sort_by(|a, b| b.1.total_cmp(&a.1));
    all.truncate(n);
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_of_one_name_are_added_and_sorted() {
        let counts =
            parse("5 main\n7 ?\n4 _ZN1a1b17h0123456789abcdefE\n3 _ZN1a1b17hfedcba9876543210E\n").unwrap();
        assert_eq!(largest(&counts, 2), [("?", 7.0), ("a::b", 7.0)]);
        assert!(parse("many main").is_err());
    }
}
