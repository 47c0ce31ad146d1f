//! Flags that every verb running a model shares.

use std::path::PathBuf;

use anyhow::{Result, bail};
use katydid_core::kernels::{Isa, Kernels};
use katydid_core::model::Options;
use katydid_linux::{Pinning, Pool, cpu_caps, default_threads};

use crate::units::{MOST_THREADS, MOST_TOKENS, parse_bytes, whole};

/// Tokens remembered where neither `-c` nor the model says less.
const DEFAULT_CONTEXT: usize = 2048;

#[derive(clap::Args, Clone)]
pub(crate) struct ModelArgs {
    /// GGUF file; of a split model, any part
    pub(crate) model: PathBuf,
    /// Tokens to remember [default: what the model was trained for, at most 2048]
    #[arg(short, long, value_name = "N", value_parser = whole(1, MOST_TOKENS))]
    pub(crate) context: Option<usize>,
    /// Threads [default: one per processor core]
    #[arg(short = 'j', long, value_name = "N", value_parser = whole(1, MOST_THREADS))]
    pub(crate) threads: Option<usize>,
    /// Prompt tokens worked on at once; more is faster and takes more memory
    #[arg(short, long, value_name = "N", default_value_t = Options::BATCH, value_parser = whole(1, MOST_TOKENS))]
    pub(crate) batch: usize,
    /// Most memory to plan, beside the mapped file, such as 200M or 1.5G
    #[arg(long, value_name = "SIZE", value_parser = parse_bytes)]
    pub(crate) ram: Option<u64>,
}

impl ModelArgs {
    /// Options for a model trained on `trained` tokens, or for exactly `wanted`
    /// where the user does not say, with room to check up to `drafts` guesses.
    pub(crate) fn options(&self, trained: usize, wanted: Option<usize>, drafts: usize) -> Options {
        let context = self.context.or(wanted).unwrap_or(usual(trained));
        with_context(context, self.batch, drafts)
    }

    /// How many threads to run.
    pub(crate) fn threads(&self) -> usize {
        threads(self.threads)
    }

    /// The pool that runs them.
    pub(crate) fn pool(&self) -> Result<Pool> {
        pool(self.threads())
    }
}

/// The context where nobody says, of a model trained on `trained` tokens.
pub(crate) fn usual(trained: usize) -> usize {
    trained.min(DEFAULT_CONTEXT)
}

/// How many threads `-j` asks for; one per processor where it is not given.
pub(crate) fn threads(asked: Option<usize>) -> usize {
    asked.unwrap_or_else(default_threads)
}

/// Options in which nothing is larger than can ever fill.
pub(crate) fn with_context(context: usize, batch: usize, drafts: usize) -> Options {
    let batch = batch.min(context.max(1));
    Options { context, batch, drafts: drafts.min(batch.saturating_sub(1)) }
}

/// A pool of `n` threads, each on a processor of its own.
pub(crate) fn pool(n: usize) -> Result<Pool> {
    Pool::new(n, Pinning::Cores).map_err(|e| anyhow::anyhow!("cannot start {n} threads: {e}; lower -j"))
}

/// The best kernels for this processor, or those that `KATYDID_ISA` names.
pub(crate) fn kernels() -> Result<Kernels> {
    let caps = cpu_caps();
    let wish = std::env::var("KATYDID_ISA").ok().filter(|name| !name.is_empty());
    let Some(name) = wish else { return Ok(Kernels::select(&caps)) };
    let here: Vec<&str> =
        Isa::ALL.into_iter().filter(|&isa| Kernels::of(isa, &caps).is_some()).map(Isa::name).collect();
    match Isa::from_name(&name).and_then(|isa| Kernels::of(isa, &caps)) {
        Some(kernels) => Ok(kernels),
        None => bail!("KATYDID_ISA is '{name}'; this processor and build have: {}", here.join(" ")),
    }
}
