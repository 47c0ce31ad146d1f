//! Short runs of the fuzz targets in `tests/fuzz`.
//!
//! They are built with coverage counters and AddressSanitizer by the stable
//! compiler. A finding is kept under `target/fuzz/findings` and fails the run.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

use super::Tally;
use crate::cmd;
use crate::toolchain;

/// What the fuzzing library steers by: edge counters, their addresses, and the
/// operands of comparisons. Checks stay on, so that an overflow is a finding.
const FLAGS: &str = "-Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4 \
    -Cllvm-args=-sanitizer-coverage-inline-8bit-counters -Cllvm-args=-sanitizer-coverage-pc-table \
    -Cllvm-args=-sanitizer-coverage-trace-compares -Ccodegen-units=1 -Copt-level=2 \
    -Cdebug-assertions=yes -Coverflow-checks=yes -Cdebuginfo=1 --cfg=fuzzing";

pub(super) fn manifest() -> PathBuf {
    cmd::root().join("tests/fuzz/Cargo.toml")
}

pub(super) fn run(seconds: u32) -> Result<Tally> {
    let names = targets()?;
    let folder = build()?;
    let mut tally = Tally::default();
    for name in names {
        tally.check(&format!("fuzzing {name} for {seconds} s"), fuzz(&folder.join(&name), &name, seconds));
    }
    Ok(tally)
}

/// The executables of the fuzz package.
fn targets() -> Result<Vec<String>> {
    ensure!(manifest().is_file(), "{} is not there", manifest().display());
    let mut cargo = cmd::command(cmd::cargo());
    cargo.args(["metadata", "--no-deps", "--format-version=1", "--manifest-path"]).arg(manifest());
    let metadata: serde_json::Value = serde_json::from_str(&cmd::output(&mut cargo)?)?;
    let all = metadata["packages"].as_array().into_iter().flatten();
    let all = all.flat_map(|p| p["targets"].as_array().into_iter().flatten());
    let bins = all.filter(|t| t["kind"][0] == "bin").filter_map(|t| t["name"].as_str());
    let names: Vec<String> = bins.map(String::from).collect();
    ensure!(!names.is_empty(), "{} has no targets", manifest().display());
    Ok(names)
}

/// Builds every target; returns the folder they are in.
fn build() -> Result<PathBuf> {
    let host = toolchain::host()?;
    let out = cmd::target_dir("fuzz");
    let mut cargo = cmd::command(cmd::cargo());
    cargo.args(["build", "--release", "--bins", "--target", &host, "--manifest-path"]).arg(manifest());
    cargo.arg("--target-dir").arg(&out);
    // Sanitizers are unstable; our code uses nothing else that is.
    cargo.env("RUSTC_BOOTSTRAP", "1");
    let asan = if has_asan(&host)? {
        " -Zsanitizer=address"
    } else {
        println!("this compiler has no AddressSanitizer: fuzzing without it");
        ""
    };
    cargo.env("RUSTFLAGS", format!("{FLAGS}{asan}"));
    cmd::run(&mut cargo)?;
    Ok(out.join(host).join("release"))
}

fn has_asan(host: &str) -> Result<bool> {
    let dir = toolchain::library_dir(host)?;
    let entries = std::fs::read_dir(&dir).with_context(|| format!("{}", dir.display()))?;
    Ok(entries.flatten().any(|e| e.file_name().to_string_lossy().ends_with("_rt.asan.a")))
}

/// Runs one target on the seeds kept with it and what earlier runs found.
fn fuzz(program: &Path, name: &str, seconds: u32) -> Result<()> {
    let work = cmd::target_dir("fuzz");
    let (corpus, findings) = (work.join("corpus").join(name), work.join("findings").join(name));
    for dir in [&corpus, &findings] {
        std::fs::create_dir_all(dir).with_context(|| format!("{}", dir.display()))?;
    }
    let mut c = cmd::command(program);
    c.arg(format!("-max_total_time={seconds}")).args(["-timeout=10", "-rss_limit_mb=2048"]);
    c.args(["-print_final_stats=1", "-verbosity=0"]);
    c.arg(format!("-artifact_prefix={}/", findings.display())).arg(corpus);
    let seeds = cmd::root().join("tests/fuzz/seeds").join(name);
    if seeds.is_dir() {
        c.arg(seeds);
    }
    let said = quiet(&mut c).with_context(|| format!("inputs that fail are in {}", findings.display()))?;
    let tried = executed(&said).context("the fuzzer does not say how many inputs it tried")?;
    ensure!(tried > 0, "the fuzzer tried no input");
    println!("{name}: {tried} inputs");
    Ok(())
}

/// How many inputs a fuzzer's closing statistics report.
fn executed(said: &str) -> Option<u64> {
    let count = said.lines().find_map(|l| l.strip_prefix("stat::number_of_executed_units:"))?;
    count.trim().parse().ok()
}

/// Runs `c` and returns what it said on standard error; shows it only when `c`
/// failed.
fn quiet(c: &mut Command) -> Result<String> {
    let out = c.output().with_context(|| format!("cannot start {c:?}"))?;
    let said = String::from_utf8_lossy(&out.stderr).into_owned();
    if !out.status.success() {
        println!("{said}");
    }
    ensure!(out.status.success(), "{} failed ({})", cmd::show(c), out.status);
    Ok(said)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_count_of_inputs_is_read() {
        assert_eq!(
            executed("Done\nstat::number_of_executed_units: 59411\nstat::peak_rss_mb: 1"),
            Some(59_411)
        );
        assert_eq!(executed("==1== ERROR"), None);
    }
}
