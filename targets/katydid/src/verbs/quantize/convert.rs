//! One tensor: read, convert, written, through buffers of fixed size.
//!
//! Tensors are cut into pieces of whole blocks, whatever their rows, so that
//! any tensor keeps every processor busy and none needs more memory. Pieces are
//! converted in any order and written in theirs: the same bytes on any number
//! of threads.

use std::sync::{Mutex, PoisonError};

use anyhow::{Result, anyhow, bail};
use indicatif::ProgressBar;
use katydid_core::Name;
use katydid_core::gguf::TensorInfo;
use katydid_core::port::{PageError, Pages, Workers};
use katydid_core::quant::{EncodeError, Format, encode};
use katydid_linux::{MappedFile, Pool};

use crate::interrupt;

/// Weights per piece; whole blocks of every format.
const PIECE: usize = 4096;
/// Pieces worked on at once, which also bounds memory: 4 MiB of results.
const PIECES: usize = 256;

/// What one conversion did.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Loss {
    /// Sum of the squares of the errors.
    pub(super) error: f64,
    /// Sum of the squares of the weights.
    pub(super) power: f64,
}

/// Buffers and workers for any number of tensors.
pub(super) struct Converter<'a> {
    pool: &'a Pool,
    bar: &'a ProgressBar,
    pieces: Vec<Mutex<Piece>>,
}

/// The result of one task.
struct Piece {
    bytes: Vec<u8>,
    loss: Loss,
    failed: Option<Failure>,
}

enum Failure {
    Read(PageError),
    Encode(EncodeError),
}

/// A tensor to convert.
#[derive(Clone, Copy)]
pub(super) struct Source<'a> {
    pub(super) file: &'a MappedFile,
    pub(super) tensor: TensorInfo<'a>,
    pub(super) to: Format,
    /// By column, then by matrix where there are several.
    pub(super) importance: Option<&'a [f32]>,
}

impl<'a> Converter<'a> {
    pub(super) fn new(pool: &'a Pool, bar: &'a ProgressBar) -> Self {
        let piece = || Piece { bytes: Vec::with_capacity(4 * PIECE), loss: Loss::default(), failed: None };
        Self { pool, bar, pieces: (0..PIECES).map(|_| Mutex::new(piece())).collect() }
    }

    /// Converts `source` and hands its bytes to `sink`, in order.
    pub(super) fn run(
        &mut self,
        source: Source<'_>,
        mut sink: impl FnMut(&[u8]) -> Result<()>,
    ) -> Result<Loss> {
        let tensor = source.tensor;
        let total = tensor.dims.iter().product::<u64>();
        let batch = (PIECE * PIECES) as u64;
        let mut loss = Loss::default();
        let mut start = 0;
        while start < total {
            if interrupt::asked() {
                bail!("interrupted; nothing was written");
            }
            let end = (start + batch).min(total);
            let bytes = tensor.offset + source.bytes(start)..tensor.offset + source.bytes(end);
            let ahead = tensor.offset + source.bytes((end + batch).min(total));
            source.file.prefetch(bytes.end..ahead);
            self.batch(source, start, end)?;
            for piece in &mut self.pieces[..(end - start).div_ceil(PIECE as u64) as usize] {
                let piece = piece.get_mut().unwrap_or_else(PoisonError::into_inner);
                sink(&piece.bytes)?;
                loss.error += piece.loss.error;
                loss.power += piece.loss.power;
            }
            self.bar.inc(bytes.end - bytes.start);
            source.file.release(bytes);
            start = end;
        }
        Ok(loss)
    }

    /// Converts weights `start` to `end`, one piece per task.
    fn batch(&mut self, source: Source<'_>, start: u64, end: u64) -> Result<()> {
        let pieces = &self.pieces;
        let count = (end - start).div_ceil(PIECE as u64) as usize;
        self.pool.run(count, &|i| {
            let from = start + (i * PIECE) as u64;
            let n = (end - from).min(PIECE as u64) as usize;
            let mut piece = pieces[i].lock().unwrap_or_else(PoisonError::into_inner);
            let done = convert(source, from, n, &mut piece.bytes);
            let (loss, failed) = match done {
                Ok(loss) => (loss, None),
                Err(failed) => (Loss::default(), Some(failed)),
            };
            (piece.loss, piece.failed) = (loss, failed);
        });
        // The first in order, not in time: the same message every run.
        for (i, piece) in self.pieces.iter_mut().enumerate().take(count) {
            let piece = piece.get_mut().unwrap_or_else(PoisonError::into_inner);
            if let Some(failure) = piece.failed.take() {
                return Err(explain(source.tensor, start + (i * PIECE) as u64, failure));
            }
        }
        Ok(())
    }
}

impl Source<'_> {
    /// Bytes of the first `n` weights, whole blocks.
    fn bytes(&self, n: u64) -> u64 {
        let format = self.tensor.format;
        n / format.block_len() as u64 * format.block_bytes() as u64
    }

    /// The importance of weights `from` on.
    fn fill_importance(&self, all: &[f32], from: u64, out: &mut [f32]) {
        let cols = self.tensor.dims[0];
        let matrix = cols * self.tensor.dims[1];
        for (i, w) in (from..).zip(out) {
            // As long as the matrices are many, which was checked.
            *w = all.get((i / matrix * cols + i % cols) as usize).copied().unwrap_or(1.0);
        }
    }
}

/// Converts `n` weights from weight `from` on into `out`.
fn convert(source: Source<'_>, from: u64, n: usize, out: &mut Vec<u8>) -> Result<Loss, Failure> {
    let (old, new) = (source.tensor.format, source.to);
    let size = |format: Format| n / format.block_len() * format.block_bytes();
    let mut raw = [0; 4 * PIECE];
    let raw = &mut raw[..size(old)];
    source.file.read(source.tensor.offset + source.bytes(from), raw).map_err(Failure::Read)?;
    out.resize(size(new), 0);
    if old == new && old.block_len() > 1 {
        out.copy_from_slice(raw);
        return Ok(Loss::default());
    }
    let (mut x, mut w) = ([0.0; PIECE], [0.0; PIECE]);
    let (x, w) = (&mut x[..n], &mut w[..n]);
    old.dequantize(raw, x);
    let importance = source.importance.map(|all| {
        source.fill_importance(all, from, w);
        &*w
    });
    encode(new, x, importance, out).map_err(Failure::Encode)?;
    let mut y = [0.0; PIECE];
    new.dequantize(out, &mut y[..n]);
    let mut loss = Loss::default();
    for (x, y) in x.iter().zip(&y) {
        loss.error += (f64::from(*x) - f64::from(*y)).powi(2);
        loss.power += f64::from(*x).powi(2);
    }
    Ok(loss)
}

fn explain(tensor: TensorInfo<'_>, start: u64, failure: Failure) -> anyhow::Error {
    let name = Name::new(tensor.name);
    let place = |at: usize| {
        let at = start + at as u64;
        format!("row {}, column {}", at / tensor.dims[0], at % tensor.dims[0])
    };
    match failure {
        Failure::Read(e) => anyhow!("tensor '{name}': {e}"),
        Failure::Encode(EncodeError::NotFinite { at, value }) => {
            anyhow!(
                "tensor '{name}': {} is {value}: the model is damaged, convert or download it again",
                place(at)
            )
        }
        Failure::Encode(EncodeError::TooLarge { at, value, format }) => {
            let cure = "use BF16 or F32";
            anyhow!("tensor '{name}': {} is {value:e}, too large for {}: {cure}", place(at), format.name())
        }
        Failure::Encode(e) => anyhow!("tensor '{name}': {e}"),
    }
}
