//! `katydid quantize`: a smaller file of a large one.

mod convert;
mod imatrix;
mod summary;

use std::cell::Cell;
use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::{Context, Result, anyhow, bail};
use katydid_core::Name;
use katydid_core::gguf::emit::{Emit, EmitError, Slot};
use katydid_core::gguf::{Gguf, Parts, TensorInfo, Value};
use katydid_core::quant::Format;
use katydid_core::quant::mix::{Choice, Mix, ModelFacts, is_values};

use crate::loaded::Files;
use crate::model_args::{pool, threads};
use crate::output::{self, Partial};
use crate::units::Bytes;
use crate::{interrupt, report};
use convert::{Converter, Loss, Source};
use imatrix::Imatrix;
use summary::{Row, Summary};

#[derive(clap::Args)]
#[command(after_help = TYPES)]
pub(crate) struct Args {
    /// GGUF file to read, best in F32, F16 or BF16; of a split model, any part
    input: PathBuf,
    /// File to write
    output: PathBuf,
    /// What to make of it, such as Q4_K_M
    #[arg(value_name = "TYPE", value_parser = parse_mix)]
    mix: Mix,
    /// Importance matrix (llama-imatrix, GGUF or .dat): which columns matter
    #[arg(long, value_name = "FILE")]
    imatrix: Option<PathBuf>,
    /// Threads [default: one per processor]
    #[arg(short = 'j', long, value_name = "N")]
    threads: Option<usize>,
    /// Say what would be written, and how large, but write nothing
    #[arg(long)]
    dry_run: bool,
    /// Replace the file to write where it exists
    #[arg(long)]
    force: bool,
    /// Quantise what is quantised already; the errors add up
    #[arg(long)]
    allow_requantize: bool,
    /// List every tensor
    #[arg(short, long, conflicts_with = "json")]
    verbose: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
    /// No progress
    #[arg(short, long)]
    quiet: bool,
}

const TYPES: &str = "\
Types, largest first: F32 BF16 F16 Q8_0 Q6_K Q5_K_M Q5_K_S Q5_1 Q5_0 Q4_K_M Q4_K_S Q4_1 IQ4_NL Q4_0
IQ4_XS Q3_K_L Q3_K_M Q3_K_S Q2_K. Q4_K_M is a good first choice. Tensors whose rows are not whole
blocks of a type take the nearest one that fits.";

fn parse_mix(text: &str) -> Result<Mix, String> {
    let known = || Mix::ALL.map(|m| m.name).join(" ");
    Mix::from_name(text).ok_or_else(|| format!("known types are {}", known()))
}

/// What becomes of one tensor.
#[derive(Clone, Copy)]
struct Job<'a> {
    part: usize,
    tensor: TensorInfo<'a>,
    choice: Choice,
    to: Format,
}

pub(crate) fn run(args: &Args) -> Result<()> {
    let start = Instant::now();
    let threads = threads(args.threads);
    let files = Files::open(&args.input)?;
    let inputs: Vec<&Path> = files.files().iter().map(|(path, _)| path.as_path()).collect();
    if !args.dry_run {
        output::check(&args.output, &inputs, args.force)?;
    }
    let headers = files.parse()?;
    let name = args.input.display();
    let parts = Parts::new(&headers).map_err(|e| anyhow!("{name}: {e}"))?;
    let imatrix = args.imatrix.as_deref().map(Imatrix::open).transpose()?;
    let facts = facts(&parts, imatrix.is_some()).with_context(|| name.to_string())?;
    let jobs = jobs(&parts, &args.mix, &facts);
    check_lossy(args, &jobs)?;
    let keys = Keys::new(parts.meta(), args, imatrix.as_ref());
    let size = size(&parts, &keys, &jobs)?;
    let rows = if args.dry_run {
        jobs.iter().map(|job| Row::new(job, Loss::default(), false)).collect()
    } else {
        write(args, &files, &keys, &jobs, imatrix.as_ref(), threads, size)?
    };
    let summary =
        Summary { rows, read: files.len(), written: size, time: start.elapsed(), dry: args.dry_run };
    summary.print(args.verbose, args.json)
}

/// What the mix must know of the model.
fn facts(parts: &Parts<'_>, importance: bool) -> Result<ModelFacts> {
    let meta = parts.meta();
    let arch = meta.str("general.architecture")?.unwrap_or("");
    let number = |key: &str| -> Result<u32> {
        match meta.get(&format!("{arch}.{key}")) {
            // One number per layer: they differ where a model prunes itself.
            Some(Value::Array(a)) => {
                Ok(a.u32_at(0).or(a.i32_at(0).and_then(|n| n.try_into().ok())).unwrap_or(0))
            }
            _ => Ok(meta.u32(&format!("{arch}.{key}"))?.unwrap_or(0)),
        }
    };
    let heads = number("attention.head_count")?;
    Ok(ModelFacts {
        layers: number("block_count")?,
        heads,
        kv_heads: match number("attention.head_count_kv")? {
            0 => heads,
            n => n,
        },
        experts: number("expert_count")?,
        value_tensors: parts.tensors().filter(|(_, t)| is_values(t.name)).count() as u32,
        tied: !parts.tensors().any(|(_, t)| t.name == "output.weight"),
        llama: arch == "llama",
        importance,
    })
}

fn jobs<'a>(parts: &Parts<'a>, mix: &Mix, facts: &ModelFacts) -> Vec<Job<'a>> {
    let job = |(part, tensor): (usize, TensorInfo<'a>)| {
        let choice = mix.choose(facts, tensor.name, tensor.dims[0], tensor.n_dims);
        let to = match choice {
            Choice::Keep => tensor.format,
            Choice::Take(format) | Choice::Fallback { instead: format, .. } => format,
        };
        Job { part, tensor, choice, to }
    };
    parts.tensors().map(job).collect()
}

/// Errs, or warns, where what is quantised would be quantised again.
fn check_lossy(args: &Args, jobs: &[Job<'_>]) -> Result<()> {
    let again = |j: &&Job<'_>| j.tensor.format.block_len() > 1 && j.to != j.tensor.format;
    // Eight bits lose so little that what follows decides the error.
    let coarse = |j: &&Job<'_>| again(j) && j.tensor.format != Format::Q8_0;
    if let Some(job) = jobs.iter().find(coarse).filter(|_| !args.allow_requantize) {
        bail!(
            "tensor '{}' is {} already: quantising it again adds up the errors; begin with an F32, F16, BF16 or \
             Q8_0 file, or give --allow-requantize",
            Name::new(job.tensor.name),
            job.tensor.format.name()
        );
    }
    let count = jobs.iter().filter(again).count();
    if count > 0 && !args.quiet {
        eprintln!(
            "katydid: {count} tensors are quantised already; an F16 or BF16 file would give a better result"
        );
    }
    Ok(())
}

/// The keys of the file to write.
struct Keys<'a> {
    meta: &'a Gguf<'a>,
    /// Replaced where they stand in the file, else added.
    own: Vec<(&'static str, Value<'a>)>,
}

impl<'a> Keys<'a> {
    fn new(meta: &'a Gguf<'a>, args: &'a Args, imatrix: Option<&'a Imatrix>) -> Self {
        let mut own = vec![("general.file_type", Value::U32(args.mix.file_type))];
        // Version 2 of ggml's block formats is the only one since 2023.
        own.push(("general.quantization_version", Value::U32(2)));
        let name = args.imatrix.as_deref().and_then(Path::to_str);
        if let Some(imatrix) = imatrix {
            own.extend(name.map(|name| ("quantize.imatrix.file", Value::Str(name))));
            own.extend(imatrix.dataset.as_deref().map(|d| ("quantize.imatrix.dataset", Value::Str(d))));
            own.push(("quantize.imatrix.entries_count", Value::U32(imatrix.len() as u32)));
            own.extend(imatrix.chunks.map(|n| ("quantize.imatrix.chunks_count", Value::U32(n))));
        }
        Self { meta, own }
    }

    /// Keys of the file read that stay; one file's have no parts.
    fn kept(&self) -> impl Iterator<Item = (&'a str, Value<'a>)> {
        let split = |key: &str| matches!(key, "split.no" | "split.count" | "split.tensors.count");
        self.meta.entries().filter(move |(key, _)| !split(key))
    }

    fn added(&self) -> impl Iterator<Item = (&'a str, Value<'a>)> {
        self.own.iter().copied().filter(|(key, _)| self.meta.get(key).is_none())
    }

    fn count(&self) -> u64 {
        (self.kept().count() + self.added().count()) as u64
    }

    /// Writes keys and tensor entries.
    fn header<E, W: FnMut(&[u8]) -> Result<(), E>>(
        &self,
        jobs: &[Job<'_>],
        sink: W,
    ) -> Result<(Emit<W>, Vec<Slot>), EmitError<E>> {
        let mut out = Emit::new(sink, 3, self.count(), jobs.len() as u64)?;
        for (key, value) in self.kept() {
            let own = self.own.iter().find(|(name, _)| *name == key);
            out.put(key, own.map_or(value, |(_, value)| *value))?;
        }
        for (key, value) in self.added() {
            out.put(key, value)?;
        }
        let slot = |j: &Job<'_>| out.tensor(j.tensor.name, &j.tensor.dims[..j.tensor.n_dims as usize], j.to);
        let slots = jobs.iter().map(slot).collect::<Result<_, _>>()?;
        Ok((out, slots))
    }
}

/// Bytes of the file to write.
fn size(parts: &Parts<'_>, keys: &Keys<'_>, jobs: &[Job<'_>]) -> Result<u64> {
    let header = Cell::new(0u64);
    let count = |bytes: &[u8]| -> Result<(), std::convert::Infallible> {
        header.set(header.get() + bytes.len() as u64);
        Ok(())
    };
    let (_, slots) = keys.header(jobs, count)?;
    let alignment = parts.meta().alignment();
    let data = slots.last().map_or(0, |s| (s.offset + s.size).next_multiple_of(alignment));
    Ok(header.get().next_multiple_of(alignment) + data)
}

fn write(
    args: &Args,
    files: &Files,
    keys: &Keys<'_>,
    jobs: &[Job<'_>],
    imatrix: Option<&Imatrix>,
    threads: usize,
    size: u64,
) -> Result<Vec<Row>> {
    interrupt::catch();
    let pool = pool(threads)?;
    let mut partial = Partial::create(&args.output, size)?;
    let failed = || format!("{} ({} needed)", args.output.display(), Bytes(size));
    let total = jobs.iter().map(|j| j.tensor.size).sum();
    let bar = report::byte_bar("quantizing", total, args.quiet || args.json);
    let mut converter = Converter::new(&pool, &bar);
    let (mut out, slots) = keys.header(jobs, |bytes: &[u8]| partial.write(bytes)).with_context(failed)?;
    let mut rows = Vec::with_capacity(jobs.len());
    for (job, slot) in jobs.iter().zip(slots) {
        let importance = match imatrix {
            Some(imatrix) if job.to.block_len() > 1 => imatrix.get(&job.tensor)?,
            _ => None,
        };
        let file = &files.files()[job.part].1;
        let source = Source { file, tensor: job.tensor, to: job.to, importance };
        out.begin(slot).with_context(failed)?;
        let loss = converter.run(source, |bytes| out.write(bytes).with_context(failed))?;
        rows.push(Row::new(job, loss, importance.is_some()));
    }
    out.finish().with_context(failed)?;
    partial.commit(&args.output)?;
    bar.finish_and_clear();
    let missing = rows.iter().filter(|r| r.quantised() && !r.importance).count();
    if imatrix.is_some() && missing > 0 && !args.quiet {
        eprintln!("katydid: the importance matrix does not know {missing} of the tensors quantised");
    }
    Ok(rows)
}
