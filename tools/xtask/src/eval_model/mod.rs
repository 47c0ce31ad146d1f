//! `cargo xtask eval-model`: how often a model answers held-out requests rightly.

mod runner;
mod score;
mod suite;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::Result;
use serde_json::{Value, json};

use crate::cmd;
use runner::{Answer, Runner, with_runner};
use score::{Score, judge};
use suite::Sample;

const MATCH: &str = "\
What is a match:
  calls     as many calls as expected, each with the same name and the same
            arguments as JSON values: 1 is 1.0, members have no order, and the
            order of calls does not matter; an argument too many is none
  ask_back, no_tool
            words, and no call; 'verbatim' counts those that are the very words
  report    no call, and words that hold the value or the error of the result
An answer that is cut, broken or names a tool that is not in the list is never
a match; 'valid' counts the others.";

#[derive(clap::Args)]
#[command(after_help = MATCH)]
pub(crate) struct Args {
    /// The model file
    model: PathBuf,
    /// Samples, one JSON object a line [default: tools/train/eval/heldout.jsonl]
    #[arg(long, value_name = "FILE")]
    suite: Option<PathBuf>,
    /// Only this kind; may be repeated
    #[arg(long, value_name = "KIND")]
    kind: Vec<String>,
    /// At most so many samples of each kind
    #[arg(long, value_name = "N")]
    limit: Option<usize>,
    /// Show so many failures of each kind, with and without grammar
    #[arg(long, value_name = "N", default_value_t = 0)]
    failures: usize,
    /// Threads
    #[arg(short = 'j', long, value_name = "N", default_value_t = 1)]
    threads: usize,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Whether answers keep to the grammar of calls.
const MODES: [(&str, bool); 2] = [("free", false), ("grammar", true)];

/// Sums over the samples of a kind.
#[derive(Clone, Copy, Default)]
struct Tally {
    all: usize,
    right: usize,
    valid: usize,
    verbatim: usize,
}

impl Tally {
    fn add(&mut self, score: Score) {
        self.all += 1;
        self.right += usize::from(score.right);
        self.valid += usize::from(score.valid);
        self.verbatim += usize::from(score.verbatim);
    }

    fn plus(self, o: Self) -> Self {
        Self {
            all: self.all + o.all,
            right: self.right + o.right,
            valid: self.valid + o.valid,
            verbatim: self.verbatim + o.verbatim,
        }
    }

    fn json(self) -> Value {
        json!({"samples": self.all, "right": self.right, "valid": self.valid, "verbatim": self.verbatim})
    }
}

/// Tallies of a kind: free, and within the grammar.
type Table = BTreeMap<String, [Tally; 2]>;

pub(crate) fn main(args: &Args) -> Result<()> {
    let own = cmd::root().join("tools/train/eval/heldout.jsonl");
    let samples = suite::read(args.suite.as_deref().unwrap_or(&own))?;
    let start = Instant::now();
    let table = with_runner(&args.model, args.threads.max(1), |mut runner| {
        let mut table = Table::new();
        for sample in &samples {
            if args.kind.is_empty() || args.kind.contains(&sample.kind) {
                one(args, &mut runner, sample, &mut table)?;
            }
        }
        Ok(table)
    })?;
    print(args, &table, start.elapsed().as_secs_f64());
    Ok(())
}

/// Answers a sample both ways.
fn one(args: &Args, runner: &mut Runner<'_>, sample: &Sample, table: &mut Table) -> Result<()> {
    let tallies = table.entry(sample.kind.clone()).or_default();
    if args.limit.is_some_and(|most| tallies[0].all >= most) {
        return Ok(());
    }
    let (tools, turns) = (sample.tools(), sample.turns());
    for ((mode, constrained), tally) in MODES.into_iter().zip(tallies) {
        let answer = runner.answer(&tools, &turns, constrained)?;
        let answer = answer.unwrap_or(Answer { text: String::new(), whole: false, tokens: 0 });
        let score = judge(sample, &answer, constrained);
        tally.add(score);
        if !score.right && tally.all - tally.right <= args.failures {
            show(sample, mode, &answer);
        }
    }
    Ok(())
}

fn show(sample: &Sample, mode: &str, answer: &Answer) {
    let names: Vec<&str> = sample.tools().iter().map(|t| t.name).collect();
    eprintln!("{} · {mode} · tools {}", sample.kind, names.join(" "));
    eprintln!("  asked     {}", sample.request().replace('\n', " "));
    if sample.calls.is_empty() {
        eprintln!("  expected  {}", sample.holds.as_deref().unwrap_or(&sample.says));
    }
    for call in &sample.calls {
        eprintln!("  expected  {} {}", call.name, call.arguments);
    }
    let cut = if answer.whole { "" } else { " (cut)" };
    eprintln!("  answered  {}{cut}", answer.text.replace('\n', " "));
}

fn print(args: &Args, table: &Table, seconds: f64) {
    let all = table.values().fold([Tally::default(); 2], |[a, b], [c, d]| [a.plus(*c), b.plus(*d)]);
    if args.json {
        let both = |[free, grammar]: &[Tally; 2]| json!({"free": free.json(), "grammar": grammar.json()});
        let kinds: BTreeMap<&String, Value> = table.iter().map(|(k, t)| (k, both(t))).collect();
        let model = Path::new(&args.model).file_name().map(|n| n.to_string_lossy().into_owned());
        println!("{}", json!({"model": model, "kinds": kinds, "all": both(&all), "seconds": seconds}));
        return;
    }
    let percent = |part: usize, all: usize| 100.0 * part as f64 / all.max(1) as f64;
    println!(
        "{:<12} {:>7} {:>9} {:>9} {:>9} {:>9} {:>9}",
        "kind", "samples", "free", "valid", "grammar", "valid", "verbatim"
    );
    let row = |kind: &str, [free, grammar]: &[Tally; 2]| {
        let p = |n, t: &Tally| percent(n, t.all);
        println!(
            "{kind:<12} {:>7} {:>8.1}% {:>8.1}% {:>8.1}% {:>8.1}% {:>8.1}%",
            free.all,
            p(free.right, free),
            p(free.valid, free),
            p(grammar.right, grammar),
            p(grammar.valid, grammar),
            p(free.verbatim, free),
        );
    };
    table.iter().for_each(|(kind, tallies)| row(kind, tallies));
    row("all", &all);
    println!("{seconds:.1} s");
}
