//! `cargo xtask test`: the whole suite.
//!
//! Stages run one after another, all of them even when one fails; the last
//! line says how many checks passed. A tool that is missing is an error before
//! anything runs: nothing is skipped that was not left out on purpose.

mod bare;
mod fuzz;

use std::process::Command;
use std::time::Instant;

use anyhow::{Result, bail};

use crate::cmd;
use crate::toolchain::{self, Toolchain};

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Run these stages only
    #[arg(long, value_delimiter = ',')]
    only: Vec<Stage>,
    /// Leave out the stages that need cross compilers or QEMU: cross and bare
    #[arg(long, conflicts_with = "only")]
    host_only: bool,
    /// How long to run each fuzz target
    #[arg(long, value_name = "SECONDS", default_value_t = 20)]
    fuzz_seconds: u32,
}

/// In the order they run: what fails fastest comes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Stage {
    /// Formatting and clippy, warnings denied
    Lint,
    /// All tests on this machine
    Host,
    /// The same tests as ARM code under QEMU
    Cross,
    /// The core for bare metal, and proof that it needs no allocator
    Bare,
    /// A short run of each fuzzer
    Fuzz,
}

const STAGES: [Stage; 5] = [Stage::Lint, Stage::Host, Stage::Cross, Stage::Bare, Stage::Fuzz];

/// How many checks passed and failed.
#[derive(Clone, Copy, Default, Debug, PartialEq, Eq)]
struct Tally {
    passed: u64,
    failed: u64,
}

impl Tally {
    /// Counts one check.
    fn count(&mut self, ok: bool) {
        if ok { self.passed += 1 } else { self.failed += 1 }
    }

    /// Counts one check that printed nothing of its own, and says how it went.
    fn check(&mut self, what: &str, result: Result<()>) {
        match &result {
            Ok(()) => println!("{what} ... ok"),
            Err(e) => println!("{what} ... FAILED\n{e:#}"),
        }
        self.count(result.is_ok());
    }

    fn add(&mut self, other: Tally) {
        self.passed += other.passed;
        self.failed += other.failed;
    }
}

pub(crate) fn main(args: &Args) -> Result<()> {
    let stages: Vec<Stage> = STAGES.into_iter().filter(|s| args.wants(*s)).collect();
    require(&stages)?;
    let mut total = Tally::default();
    let mut report = Vec::new();
    for stage in stages {
        let name = format!("{stage:?}").to_lowercase();
        println!("\n== {name}");
        let start = Instant::now();
        let tally = stage.run(args).unwrap_or_else(|e| {
            println!("{e:#}");
            Tally { passed: 0, failed: 1 }
        });
        let verdict = if tally.failed == 0 { "ok" } else { "FAILED" };
        let line = format!(
            "{name}: {verdict}, {} passed, {} failed, {:.1} s",
            tally.passed,
            tally.failed,
            start.elapsed().as_secs_f64()
        );
        println!("== {line}");
        report.push(line);
        total.add(tally);
    }
    println!("\n{}\n{} passed, {} failed", report.join("\n"), total.passed, total.failed);
    if total.failed > 0 {
        bail!("the suite failed");
    }
    Ok(())
}

impl Args {
    fn wants(&self, stage: Stage) -> bool {
        let needs_cross = matches!(stage, Stage::Cross | Stage::Bare);
        (self.only.is_empty() || self.only.contains(&stage)) && !(self.host_only && needs_cross)
    }
}

impl Stage {
    fn run(self, args: &Args) -> Result<Tally> {
        match self {
            Stage::Lint => lint(),
            Stage::Host => host(),
            Stage::Cross => cross(),
            Stage::Bare => bare::run(),
            Stage::Fuzz => fuzz::run(args.fuzz_seconds),
        }
    }
}

/// One machine we test as: a target, its emulator and the processor it plays.
struct Machine {
    triple: &'static str,
    emulator: &'static str,
    cpu: &'static str,
    /// Instruction sets that the kernel tests must find on it.
    isas: &'static str,
}

const MACHINES: [Machine; 3] = [
    // The Raspberry Pi 4's: base NEON only.
    Machine {
        triple: "aarch64-unknown-linux-gnu",
        emulator: "qemu-aarch64-static",
        cpu: "cortex-a72",
        isas: "neon",
    },
    // Every extension the emulator knows, among them dotprod and i8mm.
    Machine {
        triple: "aarch64-unknown-linux-gnu",
        emulator: "qemu-aarch64-static",
        cpu: "max",
        isas: "neon,dotprod,i8mm",
    },
    Machine {
        triple: "armv7-unknown-linux-gnueabihf",
        emulator: "qemu-arm-static",
        cpu: "cortex-a7",
        isas: "neon",
    },
];

/// Fails with everything to install when a stage lacks a tool.
fn require(stages: &[Stage]) -> Result<()> {
    let mut missing = Vec::new();
    if stages.contains(&Stage::Cross) {
        for m in &MACHINES {
            missing.extend(Toolchain::hosted(m.triple).err().map(|e| format!("{e:#}")));
            if !cmd::on_path(m.emulator) {
                missing.push(format!("no {}\n  sudo apt-get install qemu-user-static", m.emulator));
            }
        }
    }
    // Debian keeps servers where only root's path looks.
    if stages.contains(&Stage::Host)
        && !cmd::on_path("mosquitto")
        && !std::path::Path::new("/usr/sbin/mosquitto").is_file()
    {
        missing.push(
            "no mosquitto, the broker that the agent is tested with\n  sudo apt-get install mosquitto".into(),
        );
    }
    if stages.contains(&Stage::Bare) {
        missing
            .extend(bare::TARGETS.iter().filter_map(|t| Toolchain::bare(t).err().map(|e| format!("{e:#}"))));
    }
    if stages.contains(&Stage::Fuzz) && !cmd::on_path("c++") {
        missing.push("no C++ compiler, which the fuzzing library needs\n  sudo apt-get install g++".into());
    }
    missing.dedup();
    if missing.is_empty() {
        return Ok(());
    }
    bail!("{}\n(--host-only leaves out what needs cross compilers and QEMU)", missing.join("\n"))
}

fn lint() -> Result<Tally> {
    let mut tally = Tally::default();
    let mut fmt = cmd::command(cmd::cargo());
    tally.check("formatting", cmd::run(fmt.args(["fmt", "--all", "--check"])));
    if fuzz::manifest().is_file() {
        let mut fmt = cmd::command(cmd::cargo());
        fmt.args(["fmt", "--check", "--manifest-path"]).arg(fuzz::manifest());
        tally.check("formatting of the fuzz targets", cmd::run(&mut fmt));
    }
    let mut clippy = cmd::command(cmd::cargo());
    clippy.args(["clippy", "--workspace", "--all-targets", "--", "-D", "warnings"]);
    tally.check("clippy", cmd::run(&mut clippy));
    Ok(tally)
}

fn host() -> Result<Tally> {
    let mut cargo = cmd::command(cmd::cargo());
    cargo_test(cargo.args(["test", "--workspace", "--no-fail-fast"]))
}

fn cross() -> Result<Tally> {
    let mut tally = Tally::default();
    for m in &MACHINES {
        println!("-- {} as {}", m.triple, m.cpu);
        let mut cargo = Toolchain::hosted(m.triple)?.cargo("test");
        toolchain::link_statically(&mut cargo);
        let runner = format!("timeout --kill-after=10 1200 {} -cpu {}", m.emulator, m.cpu);
        cargo.env(format!("{}_RUNNER", toolchain::env_prefix(m.triple)), runner);
        // An emulated case costs ten real ones; the host runs the full number.
        if std::env::var_os("PROPTEST_CASES").is_none() {
            cargo.env("PROPTEST_CASES", "32");
        }
        cargo.env("KATYDID_REQUIRE_ISA", m.isas);
        // Time limits in tests are for real machines.
        cargo.env("KATYDID_PATIENCE", "20");
        // Without debugging information the standard library builds in half the time.
        cargo.args(["--lib", "--tests", "--no-fail-fast", "--config=profile.dev.debug=false"]);
        // Neither does it do its work in time unless it is optimised.
        cargo.arg("--config=profile.dev.package.\"*\".opt-level=2");
        cargo.args(["--package=katydid-core", "--package=katydid-linux", "--package=katydid-tests"]);
        tally.add(cargo_test(&mut cargo)?);
        // The command's own tests run on the host alone: here it must build,
        // which takes half the time where nothing is optimised but the core, whose
        // instructions have immediates that only dead code would get wrong.
        let mut cargo = Toolchain::hosted(m.triple)?.cargo("build");
        toolchain::link_statically(&mut cargo);
        cargo.args(["--package=katydid", "--config=profile.dev.debug=false"]);
        cargo.args([
            "--config=profile.dev.opt-level=0",
            "--config=profile.dev.package.katydid-core.opt-level=2",
        ]);
        tally.check("katydid builds", cmd::run(&mut cargo));
    }
    Ok(tally)
}

/// Runs `cargo test` and adds up what its test executables report. A run that
/// fails without a failing test (it did not build, or was killed) counts as one.
fn cargo_test(cargo: &mut Command) -> Result<Tally> {
    let mut tally = Tally::default();
    let ok = cmd::lines(cargo, |line| {
        println!("{line}");
        tally.add(test_result(line).unwrap_or_default());
    })?;
    if !ok && tally.failed == 0 {
        println!("{} failed", cmd::show(cargo));
        tally.failed = 1;
    }
    Ok(tally)
}

/// Reads `test result: ok. 12 passed; 0 failed; …`.
fn test_result(line: &str) -> Option<Tally> {
    let counts = line.strip_prefix("test result: ")?.split_once(". ")?.1;
    let mut numbers = counts.split("; ").map(|part| part.split(' ').next()?.parse().ok());
    Some(Tally { passed: numbers.next()??, failed: numbers.next()?? })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn result_lines_are_read() {
        let line = "test result: FAILED. 12 passed; 3 failed; 0 ignored; 0 measured; 1 filtered out; finished in 0.0s";
        assert_eq!(test_result(line), Some(Tally { passed: 12, failed: 3 }));
        assert_eq!(test_result("test text::round_trip ... ok"), None);
        assert_eq!(test_result("test result: "), None);
    }

    #[test]
    fn stages_can_be_chosen_or_left_out() {
        let args = |only: &[Stage], host_only| Args { only: only.into(), host_only, fuzz_seconds: 1 };
        assert!(STAGES.iter().all(|s| args(&[], false).wants(*s)));
        assert_eq!(STAGES.map(|s| args(&[], true).wants(s)), [true, true, false, false, true]);
        assert_eq!(STAGES.map(|s| args(&[Stage::Bare], false).wants(s)), [false, false, false, true, false]);
    }
}
