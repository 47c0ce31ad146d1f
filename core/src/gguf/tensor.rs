//! Tensors: where they lie, and the weights themselves.

use crate::Name;
use crate::quant::Format;

use super::cursor::Cursor;
use super::error::{Fault, GgufError, Subject};
use super::names::read_name;

/// Longest tensor name that GGUF allows, in bytes.
pub const MAX_TENSOR_NAME: usize = 64;

/// Least bytes of one tensor's entry in the header: a name of one byte and
/// one dimension.
pub(super) const LEAST_INFO: u64 = 8 + 1 + 4 + 8 + 4 + 8;

/// One tensor of a parsed file: inside the file, whole blocks, overlapping no
/// other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TensorInfo<'a> {
    /// Its name.
    pub name: &'a str,
    /// Its dimensions, fastest first; those not used are 1.
    pub dims: [u64; 4],
    /// How many dimensions the file gives, 1 to 4.
    pub n_dims: u32,
    /// How its numbers are stored.
    pub format: Format,
    /// First byte in the file.
    pub offset: u64,
    /// Bytes it takes.
    pub size: u64,
}

impl<'a> TensorInfo<'a> {
    /// The weights, given the bytes of the whole file.
    ///
    /// Errs when `file` is shorter than the file that was parsed.
    pub fn bind(&self, file: &'a [u8]) -> Result<TensorRef<'a>, GgufError> {
        let err = GgufError::new(self.offset, Subject::Tensor(Name::new(self.name)), Fault::NotInMemory);
        self.slice(file).ok_or(err)
    }

    fn slice(&self, file: &'a [u8]) -> Option<TensorRef<'a>> {
        let start = usize::try_from(self.offset).ok()?;
        let end = start.checked_add(usize::try_from(self.size).ok()?)?;
        let [cols, rest @ ..] = self.dims;
        let rows = rest.into_iter().try_fold(1u64, u64::checked_mul)?;
        TensorRef::new(
            self.format,
            usize::try_from(rows).ok()?,
            usize::try_from(cols).ok()?,
            file.get(start..end)?,
        )
    }

    /// Reads one entry; `offset` still counts from the data section.
    pub(super) fn read(c: &mut Cursor<'a>) -> Result<Self, GgufError> {
        let name = read_name(c, "tensor name", MAX_TENSOR_NAME as u64)?;
        Self::read_rest(c, name).map_err(|e| GgufError { about: Subject::Tensor(Name::new(name)), ..e })
    }

    /// The name of an entry that [`Self::read`] has proven, passing over it.
    pub(super) fn pass(c: &mut Cursor<'a>) -> Option<&'a [u8]> {
        let name = c.text("").ok()?;
        let n_dims = c.u32("").ok()?;
        c.take(u64::from(n_dims) * 8 + 12, "").ok()?;
        Some(name)
    }

    fn read_rest(c: &mut Cursor<'a>, name: &'a str) -> Result<Self, GgufError> {
        let shape = *c;
        let n_dims = c.u32("tensor shape")?;
        let mut dims = [1u64; 4];
        let used = usize::try_from(n_dims).ok().filter(|n| *n > 0).and_then(|n| dims.get_mut(..n));
        for dim in used.ok_or_else(|| shape.err(Fault::Dims(n_dims)))? {
            *dim = c.u64("tensor shape")?;
        }
        let kind = *c;
        let id = c.u32("tensor type")?;
        let format = Format::from_id(id).ok_or_else(|| kind.err(Fault::TensorType(id)))?;
        let offset = c.u64("tensor offset")?;
        if dims.contains(&0) {
            return Err(shape.err(Fault::ZeroDim));
        }
        let [cols, rest @ ..] = dims;
        if !cols.is_multiple_of(format.block_len() as u64) {
            return Err(shape.err(Fault::Blocks { cols, format }));
        }
        let size = format
            .row_bytes(cols)
            .and_then(|row| rest.into_iter().try_fold(row, u64::checked_mul))
            .ok_or_else(|| shape.err(Fault::Overflow))?;
        Ok(Self { name, dims, n_dims, format, offset, size })
    }
}

/// Weights that kernels accept: a matrix of `rows` by `cols`, row after row,
/// whole blocks, all in memory.
///
/// A vector is one row. Tensors of three or four dimensions are matrices below
/// one another.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct TensorRef<'a> {
    format: Format,
    rows: usize,
    cols: usize,
    row_bytes: usize,
    data: &'a [u8],
}

impl core::fmt::Debug for TensorRef<'_> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "{} [{}, {}]", self.format.name(), self.rows, self.cols)
    }
}

impl<'a> TensorRef<'a> {
    /// The matrix in `data`, where its length is exactly right and rows are
    /// whole blocks.
    pub fn new(format: Format, rows: usize, cols: usize, data: &'a [u8]) -> Option<Self> {
        let row_bytes = usize::try_from(format.row_bytes(cols as u64)?).ok()?;
        (row_bytes.checked_mul(rows)? == data.len()).then_some(Self { format, rows, cols, row_bytes, data })
    }

    /// How the numbers are stored.
    pub fn format(&self) -> Format {
        self.format
    }

    /// Rows: outputs of the matrix product.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Weights per row: inputs of the matrix product.
    pub fn cols(&self) -> usize {
        self.cols
    }

    /// Bytes per row.
    pub fn row_bytes(&self) -> usize {
        self.row_bytes
    }

    /// All rows: `rows * row_bytes` bytes, at no particular alignment.
    pub fn data(&self) -> &'a [u8] {
        self.data
    }

    /// The bytes of row `i`, where there is one.
    pub fn row(&self, i: usize) -> Option<&'a [u8]> {
        self.rows_from(i, 1).map(|r| r.data)
    }

    /// The matrix of `n` rows from row `first`, where there are as many.
    pub fn rows_from(&self, first: usize, n: usize) -> Option<Self> {
        let end = first.checked_add(n).filter(|end| *end <= self.rows)?;
        // No overflow: both ends are at most `data.len()`.
        let data = self.data.get(first * self.row_bytes..end * self.row_bytes)?;
        Some(Self { rows: n, data, ..*self })
    }
}
