//! Developer commands: `cargo xtask <verb>`.
//!
//! Everything here runs on the machine one develops on; nothing of it ships.

mod bench;
mod cmd;
mod count;
mod cross;
mod eval_model;
mod synth;
mod test;
mod toolchain;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

#[derive(Parser)]
#[command(name = "cargo xtask", about, disable_help_subcommand = true)]
struct Cli {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Subcommand)]
enum Verb {
    /// Time ours beside other programs on the same file
    Bench(bench::Args),
    /// Build a static executable for another kind of machine
    Cross(cross::Args),
    /// Ask a model held-out requests and count the right answers
    EvalModel(eval_model::Args),
    /// Write a model file with random weights
    Synth(synth::Args),
    /// Run the whole test suite: lint, host, cross (QEMU), bare, fuzz
    Test(test::Args),
}

fn main() -> ExitCode {
    let result = match Cli::parse().verb {
        Verb::Bench(args) => bench::main(&args),
        Verb::Cross(args) => cross::main(&args),
        Verb::EvalModel(args) => eval_model::main(&args),
        Verb::Synth(args) => synth::main(&args),
        Verb::Test(args) => test::main(&args),
    };
    // Returning the error would print it with a backtrace where RUST_BACKTRACE is set.
    let Err(e) = result else { return ExitCode::SUCCESS };
    eprintln!("error: {e:#}");
    ExitCode::FAILURE
}
