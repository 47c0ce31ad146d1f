//! `katydid inspect`: what a file holds, and the memory it will take.

use std::io::Write;

use anyhow::{Context, Result, anyhow};
use katydid_core::generate::MOST_DRAFTS;
use katydid_core::gguf::{Parts, Value};
use katydid_core::model::{Config, Options};
use katydid_core::plan::{MemoryPlan, OverBudget, Part};
use katydid_core::quant::Format;
use serde_json::{Map, json};

use crate::loaded::{Files, Generation, Needs, plan, stacks};
use crate::model_args::ModelArgs;
use crate::report;
use crate::units::Bytes;

#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    model: ModelArgs,
    /// List every key
    #[arg(long)]
    keys: bool,
    /// List every tensor
    #[arg(long)]
    tensors: bool,
    /// List every planned buffer
    #[arg(long)]
    buffers: bool,
    /// Print JSON, with all of these
    #[arg(long)]
    json: bool,
}

/// What the file says, as far as it can be run.
struct Facts<'p, 'a> {
    parts: &'p Parts<'a>,
    file_len: u64,
    threads: usize,
    /// Or why it cannot be run.
    model: Result<(Config, Options, MemoryPlan)>,
}

pub(crate) fn run(args: &Args) -> Result<()> {
    let files = Files::open(&args.model.model)?;
    let headers = files.parse()?;
    let name = args.model.model.display();
    let parts = Parts::new(&headers).map_err(|e| anyhow!("{name}: {e}"))?;
    let facts = Facts {
        parts: &parts,
        file_len: files.len(),
        threads: args.model.threads(),
        model: model(args, &parts),
    };
    let mut out = std::io::stdout().lock();
    let printed = match args.json {
        true => writeln!(out, "{:#}", facts.json()).map_err(Into::into),
        false => facts.print(args, &mut out),
    };
    printed.and_then(|()| Ok(out.flush()?)).context(report::CANNOT_WRITE)?;
    match (facts.model, args.model.ram) {
        (Ok((_, _, plan)), Some(have)) => {
            let need = plan.total().saturating_add(stacks(facts.threads));
            if need <= have {
                Ok(())
            } else {
                Err(OverBudget { need, have }).with_context(|| name.to_string())
            }
        }
        _ => Ok(()),
    }
}

fn model(args: &Args, parts: &Parts<'_>) -> Result<(Config, Options, MemoryPlan)> {
    let config = Config::read(parts)?;
    // As `katydid run` takes it with its default settings.
    let last_n = katydid_core::sample::Params::default().repeat_last_n;
    let generate = Some(Generation { last_n, biases: 0, drafts: MOST_DRAFTS });
    let options = args.model.options(config.context, None, MOST_DRAFTS);
    let plan = plan(parts, &config, &options, Needs { text: true, generate, ..Needs::default() })?;
    Ok((config, options, plan))
}

impl Facts<'_, '_> {
    /// Tensors, weights and bytes of each format that occurs.
    fn formats(&self) -> Vec<(Format, usize, u64, u64)> {
        let of = |format| {
            let mine = self.parts.tensors().filter(|(_, t)| t.format == format);
            mine.fold((format, 0, 0, 0), |(f, n, weights, bytes), (_, t)| {
                (f, n + 1, weights + t.dims.iter().product::<u64>(), bytes + t.size)
            })
        };
        Format::ALL.into_iter().map(of).filter(|(_, n, ..)| *n > 0).collect()
    }

    fn print(&self, args: &Args, out: &mut impl Write) -> Result<()> {
        let meta = self.parts.meta();
        let text = |key| meta.str(key).ok().flatten().unwrap_or("-");
        let weights: u64 = self.formats().iter().map(|f| f.2).sum();
        writeln!(out, "name          {}", katydid_core::Name::new(text("general.name")))?;
        writeln!(out, "architecture  {}", katydid_core::Name::new(text("general.architecture")))?;
        writeln!(
            out,
            "file          GGUF v{}, {}, {} keys, {} tensors, {:.1} M weights",
            meta.version(),
            Bytes(self.file_len),
            meta.kv_count(),
            self.parts.tensors().count(),
            weights as f64 / 1e6
        )?;
        for (format, n, weights, bytes) in self.formats() {
            let share = format!("{:.1} M weights", weights as f64 / 1e6);
            writeln!(out, "  {:<10}  {n:>4} tensors, {share:>18}, {:>9}", format.name(), Bytes(bytes))?;
        }
        if args.keys {
            self.print_keys(out)?;
        }
        if args.tensors {
            for (_, t) in self.parts.tensors() {
                let dims = &t.dims[..t.n_dims as usize];
                writeln!(
                    out,
                    "  {:<32} {:<7} {dims:?} at {}, {}",
                    t.name,
                    t.format.name(),
                    t.offset,
                    Bytes(t.size)
                )?;
            }
        }
        match &self.model {
            Err(e) => writeln!(out, "cannot be run: {e:#}")?,
            Ok((config, options, plan)) => {
                print_config(config, out)?;
                self.print_plan(args, options, plan, out)?;
            }
        }
        Ok(())
    }

    fn print_keys(&self, out: &mut impl Write) -> Result<()> {
        for (key, value) in self.parts.meta().entries() {
            match value {
                Value::Str(s) => writeln!(out, "  {key} = {:?}", cut(s))?,
                Value::Array(a) => writeln!(out, "  {key} = {} × {:?}", a.len(), a.item_type())?,
                other => writeln!(out, "  {key} = {}", key_json(other))?,
            }
        }
        Ok(())
    }

    fn print_plan(
        &self,
        args: &Args,
        options: &Options,
        plan: &MemoryPlan,
        out: &mut impl Write,
    ) -> Result<()> {
        writeln!(
            out,
            "memory for a context of {}, batches of {}, {} threads:",
            options.context, options.batch, self.threads
        )?;
        for part in Part::ALL {
            writeln!(out, "  {:<14} {:>12} B  {:>9}", part.name(), plan.part(part), Bytes(plan.part(part)))?;
            for e in plan.entries().iter().filter(|e| args.buffers && e.part == part) {
                writeln!(out, "    {:<30} {:>12} B", e.name, e.bytes)?;
            }
        }
        let stacks = stacks(self.threads);
        writeln!(out, "  {:<14} {stacks:>12} B  {:>9}", "thread stacks", Bytes(stacks))?;
        let total = plan.total() + stacks;
        writeln!(out, "  {:<14} {total:>12} B  {:>9}", "total", Bytes(total))?;
        writeln!(out, "  beside the file's {}, which stays mapped", Bytes(self.file_len))?;
        Ok(())
    }

    fn json(&self) -> serde_json::Value {
        let keys: Map<String, serde_json::Value> =
            self.parts.meta().entries().map(|(k, v)| (k.to_owned(), key_json(v))).collect();
        let tensors: Vec<_> = self
            .parts
            .tensors()
            .map(|(part, t)| {
                json!({"name": t.name, "format": t.format.name(), "dims": t.dims[..t.n_dims as usize],
                       "part": part, "offset": t.offset, "bytes": t.size})
            })
            .collect();
        let memory = match &self.model {
            Err(e) => json!({"error": format!("{e:#}")}),
            Ok((_, options, plan)) => {
                let parts: Map<String, serde_json::Value> =
                    Part::ALL.iter().map(|p| (p.name().to_owned(), plan.part(*p).into())).collect();
                let buffers: Vec<_> = plan
                    .entries()
                    .iter()
                    .map(|e| json!({"name": e.name, "part": e.part.name(), "bytes": e.bytes}))
                    .collect();
                json!({"context": options.context, "batch": options.batch, "threads": self.threads, "parts": parts,
                       "buffers": buffers, "thread stacks": stacks(self.threads), "total": plan.total() + stacks(self.threads)})
            }
        };
        json!({"version": self.parts.meta().version(), "bytes": self.file_len, "keys": keys, "tensors": tensors, "memory": memory})
    }
}

fn print_config(c: &Config, out: &mut impl Write) -> Result<()> {
    writeln!(
        out,
        "shape         {} layers, {} wide, {} heads of {} ({} for keys and values), feed-forward {}",
        c.layers, c.embd, c.heads, c.head_dim, c.kv_heads, c.ffn
    )?;
    writeln!(out, "              vocabulary {}, trained on {} tokens", c.vocab, c.context)?;
    Ok(())
}

/// The start of a long text.
fn cut(s: &str) -> String {
    let mut short: String = s.chars().take(80).collect();
    if short.len() < s.len() {
        short.push('…');
    }
    short
}

fn key_json(value: Value<'_>) -> serde_json::Value {
    match value {
        Value::U8(x) => x.into(),
        Value::I8(x) => x.into(),
        Value::U16(x) => x.into(),
        Value::I16(x) => x.into(),
        Value::U32(x) => x.into(),
        Value::I32(x) => x.into(),
        Value::F32(x) => x.into(),
        Value::Bool(x) => x.into(),
        Value::Str(x) => x.into(),
        Value::U64(x) => x.into(),
        Value::I64(x) => x.into(),
        Value::F64(x) => x.into(),
        Value::Array(a) => json!({"array": format!("{:?}", a.item_type()), "len": a.len()}),
    }
}
