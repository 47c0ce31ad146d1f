//! `katydid eval`: numbers for tests and comparisons.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, anyhow, bail};
use katydid_core::sample::argmax;
use katydid_core::text::{Add, Encode};

use super::{encode, line_of, parse_ids};
use crate::interrupt;
use crate::loaded::{Files, Loaded, Needs, Wanted, with_model};
use crate::model_args::ModelArgs;
use crate::output::{self, Partial};
use crate::report;

#[derive(clap::Subcommand)]
pub(crate) enum What {
    /// Write the logits after each of the given tokens: rows of little-endian f32
    Logits {
        #[command(flatten)]
        model: ModelArgs,
        /// Token ids, such as 1,403,407
        #[arg(long, value_name = "IDS")]
        tokens: String,
        /// File to write
        #[arg(long, value_name = "FILE")]
        out: PathBuf,
    },
    /// Print the ids that follow the given tokens, always the likeliest
    Greedy {
        #[command(flatten)]
        model: ModelArgs,
        /// Token ids, such as 1,403,407
        #[arg(long, value_name = "IDS")]
        tokens: String,
        /// How many to print
        #[arg(short, value_name = "N", default_value_t = 32)]
        n: usize,
    },
    /// Print the perplexity of a text: windows of the context's size, of each
    /// the second half counted (as llama.cpp does)
    Perplexity {
        #[command(flatten)]
        model: ModelArgs,
        /// Text file
        #[arg(short, long, value_name = "FILE")]
        file: PathBuf,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
}

pub(crate) fn run(what: &What) -> Result<()> {
    match what {
        What::Logits { model, tokens, out } => logits(model, &parse_ids(tokens)?, out),
        What::Greedy { model, tokens, n } => greedy(model, &parse_ids(tokens)?, *n),
        What::Perplexity { model, file, json } => perplexity(model, file, *json),
    }
}

fn logits(args: &ModelArgs, tokens: &[u32], path: &Path) -> Result<()> {
    let files = Files::open(&args.model)?;
    let inputs: Vec<&Path> = files.files().iter().map(|(path, _)| path.as_path()).collect();
    output::check(path, &inputs, true)?;
    with_model(args, Wanted::Tokens(tokens.len()), Needs::default(), |mut model| {
        let pool = args.pool()?;
        let row = model.engine.config().vocab * size_of::<f32>();
        let mut out = Partial::create(path, (tokens.len() * row) as u64)?;
        let mut written = Ok(());
        model.engine.eval_all(&pool, tokens, &mut |_, row| {
            for x in row {
                if written.is_ok() {
                    written = out.write(&x.to_le_bytes());
                }
            }
        })?;
        written.with_context(|| format!("cannot write {}", path.display()))?;
        out.commit(path)
    })
}

fn greedy(args: &ModelArgs, tokens: &[u32], n: usize) -> Result<()> {
    let context = tokens.len().checked_add(n).ok_or_else(|| anyhow!("-n {n} is too large"))?;
    with_model(args, Wanted::Tokens(context), Needs::default(), |mut model| {
        let pool = args.pool()?;
        let mut ids = Vec::new();
        model.engine.eval(&pool, tokens, &mut |_| true)?;
        while ids.len() < n {
            let id = argmax(model.engine.logits())?;
            ids.push(id);
            if ids.len() < n {
                model.engine.eval(&pool, &[id], &mut |_| true)?;
            }
        }
        report::result(line_of(&ids))
    })
}

/// Sums over the tokens counted.
#[derive(Default)]
struct Surprise {
    tokens: usize,
    nats: f64,
    windows: usize,
}

impl Surprise {
    fn perplexity(&self) -> f64 {
        (self.nats / self.tokens as f64).exp()
    }

    /// Prints the perplexity of as many of `windows` as were counted.
    fn print(&self, window: usize, windows: usize, json: bool) -> Result<()> {
        let (perplexity, tokens, done) = (self.perplexity(), self.tokens, self.windows);
        if json {
            return report::result(serde_json::json!({"perplexity": perplexity, "tokens": tokens,
                "window": window, "windows": done, "interrupted": done < windows}));
        }
        let cut = if done < windows { format!(" (interrupted: {done} of {windows})") } else { String::new() };
        report::result(format_args!(
            "perplexity {perplexity:.4} over {tokens} tokens, {done} windows of {window}{cut}"
        ))
    }
}

fn perplexity(args: &ModelArgs, file: &Path, json: bool) -> Result<()> {
    let text = std::fs::read(file).with_context(|| format!("cannot read {}", file.display()))?;
    interrupt::catch();
    with_model(args, Wanted::Usual, Needs { text: true, ..Needs::default() }, |mut model| {
        let tokenizer = model.tokenizer()?;
        let how = Encode { bos: Add::Never, eos: Add::Never, parse_special: false };
        let ids = encode(tokenizer, &text, how)?;
        let bos = tokenizer.bos().filter(|_| tokenizer.adds_bos());
        let window = model.engine.context();
        // The least with a token to count: the second half's last has no successor.
        if window < 3 {
            bail!("the context (-c) is {window}, but a window must be at least 3 tokens");
        }
        if ids.len() < window {
            bail!(
                "the text has {} tokens, fewer than one window of {window}: lower -c or take a longer text",
                ids.len()
            );
        }
        let windows = ids.len() / window;
        let bar = report::bar("windows", windows as u64, false);
        let pool = args.pool()?;
        let mut sum = Surprise::default();
        for chunk in ids.chunks_exact(window) {
            one_window(&mut model, &pool, chunk, bos, &mut sum)?;
            bar.inc(1);
            if interrupt::asked() {
                break;
            }
        }
        bar.finish_and_clear();
        sum.print(window, windows, json)
    })
}

/// The second half of a window, each token predicted from all before it. The
/// model's first token takes the place of the window's own.
fn one_window(
    model: &mut Loaded<'_>,
    pool: &katydid_linux::Pool,
    chunk: &[u32],
    bos: Option<u32>,
    sum: &mut Surprise,
) -> Result<()> {
    let mut tokens = chunk.to_vec();
    if let Some(bos) = bos {
        tokens[0] = bos;
    }
    model.engine.rewind(0);
    model.engine.eval_all(pool, &tokens, &mut |i, row| {
        if i >= chunk.len() / 2 && i + 1 < chunk.len() {
            sum.nats += nats(row, chunk[i + 1]);
            sum.tokens += 1;
        }
    })?;
    sum.windows += 1;
    if !sum.nats.is_finite() {
        bail!("the model gives logits that are no numbers: it is damaged or was converted badly");
    }
    Ok(())
}

/// −ln of the probability that `row` gives to `id`.
fn nats(row: &[f32], id: u32) -> f64 {
    let max = row.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let total: f64 = row.iter().map(|&x| f64::from(x - max).exp()).sum();
    total.ln() - f64::from(row[id as usize] - max)
}
