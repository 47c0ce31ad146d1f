//! The command line.

use clap::{Args, CommandFactory, Parser, Subcommand};

use crate::verbs::{agent, bench, chat, eval, inspect, picolm, quantize, run, tokenize};

/// LLM inference for boards that fit in a hand.
#[derive(Parser)]
#[command(name = "katydid", version, about, infer_subcommands = false, max_term_width = 100)]
#[command(
    after_help = "katydid MODEL.gguf [OPTIONS] takes picolm's options; see katydid MODEL.gguf --help.\n\
Set KATYDID_ISA=scalar|neon|dotprod|i8mm|avx2|avx512 to force an instruction set."
)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) verb: Verb,
}

#[derive(Subcommand)]
pub(crate) enum Verb {
    /// Continue a prompt; the text goes to stdout as it comes
    Run(run::Args),
    /// Talk with a model
    Chat(chat::Args),
    /// Answer requests with tools: katydid agent MODEL.gguf --tools tools.toml
    Agent(Agent),
    /// Show what a model file holds and the memory it will take
    Inspect(inspect::Args),
    /// Turn text into token ids, or ids into text
    Tokenize(tokenize::Args),
    /// Measure a model: logits, greedy ids, perplexity
    Eval(Eval),
    /// Measure speed
    Bench(bench::Args),
    /// Make a smaller model file of a large one
    Quantize(quantize::Args),
    /// The same as a path in the place of a verb
    #[command(hide = true)]
    Picolm(picolm::Args),
}

/// What the command line says. A model file in the place of a verb stands for
/// picolm's command line.
pub(crate) fn parse() -> Verb {
    let mut args: Vec<_> = std::env::args_os().collect();
    if args.get(1).is_some_and(|first| is_model(first)) {
        args.insert(1, "picolm".into());
    }
    if args.get(1).is_some_and(|verb| verb == "agent") && args.get(2).is_some_and(|a| !is_of_agent(a)) {
        args.insert(2, "run".into());
    }
    Cli::parse_from(args).verb
}

/// Whether an argument says what an agent is to do other than to run.
fn is_of_agent(argument: &std::ffi::OsStr) -> bool {
    ["run", "check", "install", "help", "-h", "--help"].iter().any(|&word| argument == word)
}

/// Whether an argument names a file, and no verb.
fn is_model(first: &std::ffi::OsStr) -> bool {
    let bytes = first.as_encoded_bytes();
    let verb = || first.to_str().is_some_and(|name| Cli::command().find_subcommand(name).is_some());
    let path = || bytes.contains(&b'/') || bytes.ends_with(b".gguf") || std::path::Path::new(first).is_file();
    !bytes.starts_with(b"-") && path() && !verb()
}

#[derive(Args)]
pub(crate) struct Agent {
    #[command(subcommand)]
    pub(crate) what: agent::What,
}

#[derive(Args)]
pub(crate) struct Eval {
    #[command(subcommand)]
    pub(crate) what: eval::What,
}
