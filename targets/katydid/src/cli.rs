//! The command line.

use clap::{Args, Parser, Subcommand};

use crate::verbs::{bench, eval, inspect, quantize, run, tokenize};

/// LLM inference for boards that fit in a hand.
#[derive(Parser)]
#[command(name = "katydid", version, about, infer_subcommands = false, max_term_width = 100)]
#[command(after_help = "Set KATYDID_ISA=scalar|neon|dotprod|i8mm|avx2|avx512 to force an instruction set.")]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) verb: Verb,
}

#[derive(Subcommand)]
pub(crate) enum Verb {
    /// Continue a prompt; the text goes to stdout as it comes
    Run(run::Args),
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
}

#[derive(Args)]
pub(crate) struct Eval {
    #[command(subcommand)]
    pub(crate) what: eval::What,
}
