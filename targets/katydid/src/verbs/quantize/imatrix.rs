//! Importance matrices, as llama.cpp's `llama-imatrix` writes them.
//!
//! For each matrix of a model, the mean square of what came in at each column
//! while some text was read.
//!
//! - GGUF (`general.type` is `imatrix`): tensors `NAME.in_sum2`, columns by
//!   matrices, sums of squares; `NAME.counts`, how many vectors each matrix
//!   saw; keys `imatrix.datasets`, `imatrix.chunk_count`.
//! - The older binary form, all numbers little-endian 32 bits: count of
//!   entries; each a length and name, a number of calls, a count and as many
//!   `f32`; after them, perhaps, chunks, and a length and name of the text.

use std::collections::HashMap;
use std::path::Path;

use anyhow::{Context, Result, anyhow, bail, ensure};
use katydid_core::Name;
use katydid_core::gguf::{Gguf, TensorInfo, Value};
use katydid_core::port::Pages;
use katydid_core::quant::Format;
use katydid_linux::MappedFile;

/// An importance matrix in memory.
#[derive(Debug, Default)]
pub(super) struct Imatrix {
    entries: HashMap<String, Vec<f32>>,
    /// The text it was made with, where the file says.
    pub(super) dataset: Option<String>,
    /// Pieces of text read.
    pub(super) chunks: Option<u32>,
}

impl Imatrix {
    pub(super) fn open(path: &Path) -> Result<Self> {
        let file = MappedFile::open(path)?;
        let bytes = file.map().with_context(|| format!("cannot map {} into memory", path.display()))?;
        let read = if bytes.starts_with(b"GGUF") { Self::gguf(bytes) } else { Self::legacy(bytes) };
        read.with_context(|| format!("importance matrix {}", path.display()))
    }

    /// Matrices it knows.
    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    /// The importance of `tensor`'s columns, matrix after matrix.
    pub(super) fn get(&self, tensor: &TensorInfo<'_>) -> Result<Option<&[f32]>> {
        let Some(entry) = self.entries.get(tensor.name) else { return Ok(None) };
        let [cols, _, matrices, more] = tensor.dims;
        let want = cols.checked_mul(matrices).and_then(|n| n.checked_mul(more));
        if want == Some(entry.len() as u64) {
            return Ok(Some(entry));
        }
        // Some matrices count every token's own column here, which is of no use.
        if tensor.name.contains("token_embd") {
            return Ok(None);
        }
        bail!(
            "the importance matrix has {} columns for tensor '{}', which has {}: it belongs to another model",
            entry.len(),
            Name::new(tensor.name),
            want.unwrap_or(u64::MAX)
        )
    }

    fn gguf(bytes: &[u8]) -> Result<Self> {
        let gguf = Gguf::parse(bytes, bytes.len() as u64)?;
        let kind = gguf.str("general.type")?.unwrap_or("missing");
        ensure!(
            kind == "imatrix",
            "'general.type' is {:?}, not \"imatrix\": it is another kind of file",
            Name::new(kind)
        );
        let tensors: HashMap<&str, TensorInfo<'_>> = gguf.tensors().map(|t| (t.name, t)).collect();
        let mut out = Self { chunks: gguf.u32("imatrix.chunk_count")?, ..Self::default() };
        if let Some(Value::Array(names)) = gguf.get("imatrix.datasets") {
            out.dataset = names.strings().and_then(|mut names| names.next()).map(|(_, name)| name.to_owned());
        }
        for (full, sums) in &tensors {
            let Some(name) = full.strip_suffix(".in_sum2") else { continue };
            let counts = tensors.get(format!("{name}.counts").as_str());
            let counts = counts.ok_or_else(|| anyhow!("'{}' has no counts", Name::new(name)))?;
            let entry = average(numbers(sums, bytes)?, &numbers(counts, bytes)?);
            out.entries.insert(name.to_owned(), entry.with_context(|| format!("'{}'", Name::new(name)))?);
        }
        ensure!(!out.entries.is_empty(), "it holds no importances");
        Ok(out)
    }

    fn legacy(bytes: &[u8]) -> Result<Self> {
        let mut r = Reader { left: bytes };
        let mut out = Self::default();
        let count = r.count(13).context("not an importance matrix")?;
        for i in 0..count {
            let name = r.text().with_context(|| format!("entry {i}"))?;
            let about = || format!("'{}'", Name::new(&name));
            let calls = r.int().with_context(about)?;
            let n = r.count(4).with_context(about)?;
            let sums: Vec<f32> = r
                .take(4 * n)
                .with_context(about)?
                .as_chunks()
                .0
                .iter()
                .map(|b| f32::from_le_bytes(*b))
                .collect();
            let calls = if calls > 0 { calls as f32 } else { 1.0 };
            let entry = average(sums, &[calls]).with_context(about)?;
            ensure!(out.entries.insert(name.clone(), entry).is_none(), "'{}' occurs twice", Name::new(&name));
        }
        ensure!(!out.entries.is_empty(), "it holds no importances");
        if !r.left.is_empty() {
            out.chunks = u32::try_from(r.int()?).ok();
            out.dataset = r.text().ok();
        }
        Ok(out)
    }
}

/// The numbers of an F32 tensor.
fn numbers(tensor: &TensorInfo<'_>, file: &[u8]) -> Result<Vec<f32>> {
    let name = Name::new(tensor.name);
    ensure!(tensor.format == Format::F32, "'{name}' is {}, not F32", tensor.format.name());
    let bytes = tensor.bind(file)?;
    Ok(bytes.data().as_chunks().0.iter().map(|b| f32::from_le_bytes(*b)).collect())
}

/// Divides each matrix's sums by its count; a matrix that saw nothing is even.
fn average(mut sums: Vec<f32>, counts: &[f32]) -> Result<Vec<f32>> {
    ensure!(!sums.is_empty() && !counts.is_empty(), "it is empty");
    ensure!(sums.len().is_multiple_of(counts.len()), "{} sums for {} counts", sums.len(), counts.len());
    ensure!(counts.iter().all(|c| c.is_finite() && *c >= 0.0), "a count is negative or not finite");
    let cols = sums.len() / counts.len();
    for (sums, count) in sums.chunks_exact_mut(cols).zip(counts) {
        for sum in sums {
            *sum = if *count > 0.0 { *sum / count } else { 1.0 };
            ensure!(sum.is_finite() && *sum >= 0.0, "an importance is negative or not finite");
        }
    }
    Ok(sums)
}

/// Reads the older form.
struct Reader<'a> {
    left: &'a [u8],
}

impl<'a> Reader<'a> {
    fn take(&mut self, n: usize) -> Result<&'a [u8]> {
        let short = || anyhow!("the file ends too early: it is cut short or no importance matrix");
        let (bytes, left) = self.left.split_at_checked(n).ok_or_else(short)?;
        self.left = left;
        Ok(bytes)
    }

    fn int(&mut self) -> Result<i32> {
        let mut bytes = [0; 4];
        bytes.copy_from_slice(self.take(4)?);
        Ok(i32::from_le_bytes(bytes))
    }

    /// A count of things of at least `least` bytes each, which the rest of the
    /// file must be able to hold.
    fn count(&mut self, least: usize) -> Result<usize> {
        let n = self.int()?;
        match usize::try_from(n) {
            Ok(n) if n >= 1 && n <= self.left.len() / least => Ok(n),
            _ => bail!("a count of {n} makes no sense: it is damaged or no importance matrix"),
        }
    }

    fn text(&mut self) -> Result<String> {
        let n = self.count(1)?;
        Ok(std::str::from_utf8(self.take(n)?).context("a name is not UTF-8")?.to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn legacy(entries: &[(&str, i32, &[f32])]) -> Vec<u8> {
        let mut out = (entries.len() as i32).to_le_bytes().to_vec();
        for (name, calls, sums) in entries {
            out.extend((name.len() as i32).to_le_bytes());
            out.extend(name.as_bytes());
            out.extend(calls.to_le_bytes());
            out.extend((sums.len() as i32).to_le_bytes());
            out.extend(sums.iter().flat_map(|s| s.to_le_bytes()));
        }
        out
    }

    #[test]
    fn the_older_form() {
        let mut bytes = legacy(&[("a.weight", 2, &[1.0, 3.0]), ("b.weight", 0, &[5.0])]);
        let plain = Imatrix::legacy(&bytes).unwrap();
        assert_eq!(plain.entries["a.weight"], [0.5, 1.5]);
        assert_eq!(plain.entries["b.weight"], [5.0]);
        bytes.extend(7i32.to_le_bytes());
        bytes.extend(4i32.to_le_bytes());
        bytes.extend(b"wiki");
        let full = Imatrix::legacy(&bytes).unwrap();
        assert_eq!((full.chunks, full.dataset.as_deref()), (Some(7), Some("wiki")));
    }

    #[test]
    fn the_older_form_damaged() {
        let good = legacy(&[("a.weight", 2, &[1.0, 3.0])]);
        for n in 0..good.len() {
            assert!(Imatrix::legacy(&good[..n]).is_err(), "{n} bytes");
        }
        for i in 0..good.len() {
            for bit in 0..8 {
                let mut bad = good.clone();
                bad[i] ^= 1 << bit;
                // Whatever it says, it comes back.
                let _ = Imatrix::legacy(&bad);
            }
        }
        for bad in [f32::NAN, f32::INFINITY, -1.0] {
            assert!(Imatrix::legacy(&legacy(&[("a", 1, &[bad])])).is_err());
        }
        assert!(Imatrix::legacy(&legacy(&[("a", 1, &[1.0]), ("a", 1, &[1.0])])).is_err());
    }

    #[test]
    fn matrices_that_saw_nothing_are_even() {
        assert_eq!(average(vec![2.0, 4.0, 0.0, 0.0], &[2.0, 0.0]).unwrap(), [1.0, 2.0, 1.0, 1.0]);
        assert!(average(vec![1.0; 3], &[1.0, 1.0]).is_err());
        assert!(average(vec![1.0], &[f32::NAN]).is_err());
    }
}
