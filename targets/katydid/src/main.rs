//! The `katydid` command for Linux, Android and hosts: reads the command line,
//! wires ports to the core, loops.
//!
//! stdout carries the result, stderr progress and statistics. Exit codes: 0 ok,
//! 1 failure, 2 usage, 130 an answer for programs that was interrupted.

mod answer;
mod cache;
mod chat_template;
mod cli;
mod conversation;
mod files;
mod grammar;
mod interrupt;
mod loaded;
mod model_args;
mod output;
mod report;
mod stops;
mod talk;
mod units;
mod verbs;

use std::process::ExitCode;

fn main() -> ExitCode {
    interrupt::explain_bus_errors();
    interrupt::outlive_file_limits();
    let done = match cli::parse() {
        cli::Verb::Picolm(a) => verbs::picolm::run(&a),
        cli::Verb::Run(a) => verbs::run::run(&a),
        cli::Verb::Chat(a) => verbs::chat::run(&a),
        cli::Verb::Agent(a) => verbs::agent::run(&a.what),
        cli::Verb::Inspect(a) => verbs::inspect::run(&a),
        cli::Verb::Tokenize(a) => verbs::tokenize::run(&a),
        cli::Verb::Eval(a) => verbs::eval::run(&a.what),
        cli::Verb::Bench(a) => verbs::bench::run(&a),
        cli::Verb::Quantize(a) => verbs::quantize::run(&a),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        // Whoever read our output has had enough: not a failure of ours.
        Err(e) if report::is_broken_pipe(&e) => ExitCode::SUCCESS,
        Err(e) => {
            report::say(format_args!("katydid: {e:#}"));
            match e.is::<interrupt::Interrupted>() {
                true => interrupt::INTERRUPTED.into(),
                false => ExitCode::FAILURE,
            }
        }
    }
}
