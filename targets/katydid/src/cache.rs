//! Prompts already evaluated, kept in a file.
//!
//! ```text
//! "KATYDKV1", model, bytes per token, tokens, ids, keys and values, sum
//! ```
//!
//! All numbers are 64-bit little-endian but the ids, which are 32-bit. `model` is
//! a sum over the length of each model file, its header and samples of its data;
//! the last sum is over all before it. Anything that does not fit is passed over
//! with a message, and evaluated anew.

use std::fs::File;
use std::io::{BufReader, Read};
use std::path::Path;

use anyhow::{Context, Result, bail};
use katydid_core::model::Engine;
use katydid_core::port::Pages;

use crate::loaded::Files;
use crate::output::{Partial, replaceable};
use crate::report;

const MAGIC: &[u8; 8] = b"KATYDKV1";

/// Bytes of the numbers before the ids.
const HEAD: usize = 32;

/// Samples of each model file, and their size.
const SAMPLES: usize = 256;
const SAMPLE: usize = 4096;

/// A sum that tells accidents from what was meant; not for enemies.
#[derive(Clone, Copy)]
struct Sum(u64);

impl Sum {
    const NEW: Self = Self(0xcbf2_9ce4_8422_2325);

    fn add(&mut self, bytes: &[u8]) {
        let mut mix = |word: u64| {
            let mixed = (self.0 ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15);
            self.0 = mixed ^ (mixed >> 29);
        };
        let words = bytes.chunks_exact(8);
        let rest = words.remainder();
        words.for_each(|w| mix(w.iter().rev().fold(0, |n, &b| n << 8 | u64::from(b))));
        mix(rest.iter().rev().fold(rest.len() as u64, |n, &b| n << 8 | u64::from(b)));
    }
}

/// What tells one model from another: sizes, headers, and samples of the data,
/// so that a model of gigabytes need not be read for it.
pub(crate) fn model_sum(files: &Files, headers: &[katydid_core::gguf::Part<'_>]) -> u64 {
    let mut sum = Sum::NEW;
    for ((_, file), part) in files.files().iter().zip(headers) {
        sum.add(&file.len().to_le_bytes());
        let start = usize::try_from(part.gguf.data_start()).unwrap_or(usize::MAX).min(part.bytes.len());
        let (header, data) = part.bytes.split_at(start);
        sum.add(header);
        let step = (data.len() / SAMPLES).max(SAMPLE);
        data.chunks(step).for_each(|chunk| sum.add(&chunk[..chunk.len().min(SAMPLE)]));
    }
    sum.0
}

/// Reads what `path` holds of the beginning of `ids` into `engine`; returns how
/// many tokens that were, 0 where there is no such file or it is of no use.
pub(crate) fn load(path: &Path, model: u64, ids: &[u32], engine: &mut Engine<'_>) -> usize {
    // Opening a pipe would wait for whoever writes to it.
    if std::fs::metadata(path).is_ok_and(|meta| !meta.is_file()) {
        report::say(format_args!("katydid: {} is no ordinary file; evaluating anew", path.display()));
        return 0;
    }
    let file = match File::open(path) {
        Ok(file) => file,
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => return 0,
        Err(e) => {
            report::say(format_args!("katydid: cannot open {}: {e}; evaluating anew", path.display()));
            return 0;
        }
    };
    match read(file, model, ids, engine) {
        Ok(n) => n,
        Err(why) => {
            engine.rewind(0);
            report::say(format_args!("katydid: {}: {why}; evaluating anew", path.display()));
            0
        }
    }
}

/// A file being read, summed.
struct Summed {
    file: BufReader<File>,
    sum: Sum,
}

impl Summed {
    fn fill(&mut self, bytes: &mut [u8]) -> Result<(), &'static str> {
        self.file.read_exact(bytes).map_err(|_| "the cache is cut short or cannot be read")?;
        self.sum.add(bytes);
        Ok(())
    }

    fn number(&mut self) -> Result<u64, &'static str> {
        let mut bytes = [0; 8];
        self.fill(&mut bytes)?;
        Ok(u64::from_le_bytes(bytes))
    }
}

fn read(file: File, model: u64, ids: &[u32], engine: &mut Engine<'_>) -> Result<usize, &'static str> {
    let meta = file.metadata().map_err(|_| "the cache cannot be read")?;
    let mut file = Summed { file: BufReader::with_capacity(1 << 20, file), sum: Sum::NEW };
    let mut magic = [0; 8];
    file.fill(&mut magic)?;
    if magic != *MAGIC {
        return Err("this is no prompt cache, or one of another version");
    }
    if file.number()? != model {
        return Err("the cache was made with another model");
    }
    let (each, count) = (file.number()?, file.number()?);
    if each != engine.state_bytes() as u64 {
        return Err("the cache was made with another model");
    }
    let whole =
        each.checked_add(4).and_then(|n| n.checked_mul(count)).and_then(|n| n.checked_add(HEAD as u64 + 8));
    if whole != Some(meta.len()) {
        return Err("the cache is cut short");
    }
    // No more than the file's length says.
    let count = usize::try_from(count).map_err(|_| "the cache is too large")?;
    let mut same = 0;
    for i in 0..count {
        let mut id = [0; 4];
        file.fill(&mut id)?;
        if same == i && ids.get(i) == Some(&u32::from_le_bytes(id)) {
            same += 1;
        }
    }
    // The last token is evaluated in any case, for its logits.
    let n = same.min(ids.len().saturating_sub(1));
    let mut failed = None;
    let done = engine.read_state(count, n, &mut |bytes| {
        failed = file.fill(bytes).err();
        failed.is_none()
    });
    if !done {
        return Err(failed.unwrap_or("the cache cannot be read"));
    }
    let sum = file.sum.0;
    if file.number()? != sum {
        return Err("the cache is damaged");
    }
    Ok(n)
}

/// Errs where `path` holds something that is no cache, which nobody would want
/// replaced.
fn is_ours(path: &Path) -> Result<()> {
    let mut start = Vec::new();
    match std::fs::File::open(path) {
        Ok(file) => file.take(MAGIC.len() as u64).read_to_end(&mut start)?,
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(()),
        Err(e) => return Err(e).with_context(|| format!("cannot look into {}", path.display())),
    };
    if !MAGIC.starts_with(&start) {
        bail!("{} holds something else; name another file", path.display());
    }
    Ok(())
}

/// Writes what `engine` remembers of `ids`, its first tokens, to `path`: all or
/// nothing, and what was there stays until then.
pub(crate) fn save(path: &Path, model: u64, ids: &[u32], engine: &mut Engine<'_>) -> Result<()> {
    let each = engine.state_bytes();
    let size = HEAD as u64 + (ids.len() as u64) * (each as u64 + 4) + 8;
    replaceable(path)?;
    is_ours(path)?;
    let mut file = Partial::create(path, size)?;
    let (mut sum, mut failed) = (Sum::NEW, None);
    let mut put = |bytes: &[u8]| {
        sum.add(bytes);
        failed = file.write(bytes).err();
        failed.is_none()
    };
    let number = |n: u64| n.to_le_bytes();
    let done = put(MAGIC)
        && put(&number(model))
        && put(&number(each as u64))
        && put(&number(ids.len() as u64))
        && ids.iter().all(|id| put(&id.to_le_bytes()))
        && engine.write_state(ids.len(), &mut put);
    let sum = sum.0;
    match failed {
        Some(e) => Err(e),
        None if done => file.write(&sum.to_le_bytes()),
        None => Ok(()),
    }
    .with_context(|| format!("cannot write {}", path.display()))?;
    file.commit(path)
}
