//! Writing GGUF files, without memory: header, then data, into a sink.
//!
//! [`Emit`] writes as it is told and keeps only counts, so whoever uses it must
//! say beforehand how many keys and tensors there will be. It checks order,
//! counts and sizes, and computes offsets and padding. Keys and tensor names
//! that occur twice it cannot see; [`Gguf::parse`](super::Gguf::parse) does.
//!
//! ```
//! use katydid_core::gguf::{Gguf, Value, emit::{Emit, EmitError}};
//! use katydid_core::quant::Format;
//!
//! # fn main() -> Result<(), EmitError<core::convert::Infallible>> {
//! let mut file = Vec::new();
//! let sink = |bytes: &[u8]| { file.extend_from_slice(bytes); Ok(()) };
//! let mut out = Emit::new(sink, 3, 2, 1)?;
//! out.put("general.architecture", Value::Str("llama"))?;
//! out.strings("tokenizer.ggml.tokens", ["a", "b"].into_iter())?;
//! let slot = out.tensor("norm", &[2], Format::F32)?;
//! out.weights(slot, &[0; 8])?;
//! out.finish()?;
//!
//! let gguf = Gguf::parse(&file, file.len() as u64).unwrap();
//! assert_eq!(gguf.tensor("norm").unwrap().size, 8);
//! # Ok(())
//! # }
//! ```

use core::fmt;

use crate::quant::Format;

use super::tensor::MAX_TENSOR_NAME;
use super::value::{Value, ValueType};
use super::{DEFAULT_ALIGNMENT, KEYS_START, MAX_KEY};

/// Where a tensor's data belongs; [`Emit::tensor`] gives it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slot {
    /// First byte, from the start of the data section.
    pub offset: u64,
    /// Bytes of data.
    pub size: u64,
}

/// A writer of one file into `sink`, which takes bytes in order.
pub struct Emit<W> {
    sink: W,
    alignment: u64,
    keys: u64,
    tensors: u64,
    /// Bytes written; from the first tensor's data on, bytes of data.
    at: u64,
    /// Where the next tensor's data belongs.
    next: u64,
    /// Where the data of the tensor begun must end.
    end: u64,
    /// The header is complete.
    in_data: bool,
}

impl<E, W: FnMut(&[u8]) -> Result<(), E>> Emit<W> {
    /// Begins a file of GGUF version `version` (2 or 3) with as many keys and
    /// tensors as stated.
    pub fn new(sink: W, version: u32, keys: u64, tensors: u64) -> Result<Self, EmitError<E>> {
        ensure(matches!(version, 2 | 3), "GGUF versions are 2 and 3")?;
        let alignment = u64::from(DEFAULT_ALIGNMENT);
        let mut out = Self { sink, alignment, keys, tensors, at: 0, next: 0, end: 0, in_data: false };
        out.raw(b"GGUF")?;
        out.raw(&version.to_le_bytes())?;
        out.raw(&tensors.to_le_bytes())?;
        out.raw(&keys.to_le_bytes())?;
        debug_assert_eq!(out.at, KEYS_START as u64);
        Ok(out)
    }

    /// Writes a key. `general.alignment` also sets the alignment of this file.
    pub fn put(&mut self, key: &str, value: Value<'_>) -> Result<(), EmitError<E>> {
        if key == "general.alignment" {
            let Value::U32(a) = value else { return Err(EmitError::Misuse("the alignment is a u32")) };
            ensure(a.is_power_of_two(), "the alignment is a power of two")?;
            self.alignment = u64::from(a);
        }
        self.key(key, value.value_type())?;
        match value {
            Value::U8(v) => self.raw(&v.to_le_bytes()),
            Value::I8(v) => self.raw(&v.to_le_bytes()),
            Value::U16(v) => self.raw(&v.to_le_bytes()),
            Value::I16(v) => self.raw(&v.to_le_bytes()),
            Value::U32(v) => self.raw(&v.to_le_bytes()),
            Value::I32(v) => self.raw(&v.to_le_bytes()),
            Value::F32(v) => self.raw(&v.to_le_bytes()),
            Value::Bool(v) => self.raw(&[u8::from(v)]),
            Value::Str(v) => self.text(v),
            Value::Array(v) => {
                self.array(v.item_type(), v.len() as u64)?;
                self.raw(v.bytes())
            }
            Value::U64(v) => self.raw(&v.to_le_bytes()),
            Value::I64(v) => self.raw(&v.to_le_bytes()),
            Value::F64(v) => self.raw(&v.to_le_bytes()),
        }
    }

    /// Writes a key whose value is an array of texts.
    pub fn strings<'s>(
        &mut self,
        key: &str,
        texts: impl ExactSizeIterator<Item = &'s str>,
    ) -> Result<(), EmitError<E>> {
        self.list(key, ValueType::Str, texts, |out, text| out.text(text))
    }

    /// Writes a key whose value is an array of `u32`.
    pub fn u32s(&mut self, key: &str, items: impl ExactSizeIterator<Item = u32>) -> Result<(), EmitError<E>> {
        self.list(key, ValueType::U32, items, |out, v| out.raw(&v.to_le_bytes()))
    }

    /// Writes a key whose value is an array of `i32`.
    pub fn i32s(&mut self, key: &str, items: impl ExactSizeIterator<Item = i32>) -> Result<(), EmitError<E>> {
        self.list(key, ValueType::I32, items, |out, v| out.raw(&v.to_le_bytes()))
    }

    /// Writes a key whose value is an array of `f32`.
    pub fn f32s(&mut self, key: &str, items: impl ExactSizeIterator<Item = f32>) -> Result<(), EmitError<E>> {
        self.list(key, ValueType::F32, items, |out, v| out.raw(&v.to_le_bytes()))
    }

    fn list<T>(
        &mut self,
        key: &str,
        item: ValueType,
        items: impl ExactSizeIterator<Item = T>,
        one: impl Fn(&mut Self, T) -> Result<(), EmitError<E>>,
    ) -> Result<(), EmitError<E>> {
        let mut left = items.len();
        self.key(key, ValueType::Array)?;
        self.array(item, left as u64)?;
        for item in items {
            left = left.checked_sub(1).ok_or(EmitError::Misuse("more array items than announced"))?;
            one(self, item)?;
        }
        ensure(left == 0, "fewer array items than announced")
    }

    /// Writes the header's entry of a tensor. Call once all keys are written,
    /// for every tensor before any data; `dims` fastest first.
    pub fn tensor(&mut self, name: &str, dims: &[u64], format: Format) -> Result<Slot, EmitError<E>> {
        ensure(self.keys == 0, "tensors follow the keys")?;
        self.tensors = self.tensors.checked_sub(1).ok_or(EmitError::Misuse("more tensors than announced"))?;
        check_name(name, MAX_TENSOR_NAME as u64)?;
        let size = tensor_size(dims, format)
            .ok_or(EmitError::Misuse("a tensor's dimensions do not make whole blocks"))?;
        let slot = Slot { offset: self.next, size };
        let end = self.next.checked_add(size).and_then(|end| end.checked_next_multiple_of(self.alignment));
        self.next = end.ok_or(EmitError::Misuse("the tensors are too large"))?;
        self.text(name)?;
        self.raw(&(dims.len() as u32).to_le_bytes())?;
        for dim in dims {
            self.raw(&dim.to_le_bytes())?;
        }
        self.raw(&(format as u32).to_le_bytes())?;
        self.raw(&slot.offset.to_le_bytes())?;
        Ok(slot)
    }

    /// Writes all data of a tensor. Tensors' data follow in the order of their
    /// entries.
    pub fn weights(&mut self, slot: Slot, bytes: &[u8]) -> Result<(), EmitError<E>> {
        self.begin(slot)?;
        self.write(bytes)
    }

    /// Begins the data of a tensor, which [`Emit::write`] then gives in pieces.
    pub fn begin(&mut self, slot: Slot) -> Result<(), EmitError<E>> {
        self.pad()?;
        ensure(self.at == slot.offset, "tensor data in another order than the entries")?;
        self.end = slot.offset.checked_add(slot.size).ok_or(EmitError::Misuse("no such slot"))?;
        Ok(())
    }

    /// Writes a piece of the data of the tensor begun.
    pub fn write(&mut self, bytes: &[u8]) -> Result<(), EmitError<E>> {
        let left = self.end.saturating_sub(self.at);
        ensure(self.in_data && bytes.len() as u64 <= left, "more tensor data than its size")?;
        self.raw(bytes)
    }

    /// Ends the file. Errs when anything announced is missing. Without any
    /// tensor data written, the header alone is a whole file only where it has
    /// no tensors.
    pub fn finish(mut self) -> Result<(), EmitError<E>> {
        self.pad()?;
        ensure(self.at == self.next, "less tensor data than the entries announce")
    }

    /// Ends the header, or the data of a tensor, with zeros up to the alignment.
    fn pad(&mut self) -> Result<(), EmitError<E>> {
        ensure(self.keys == 0 && self.tensors == 0, "less in the header than announced")?;
        ensure(!self.in_data || self.at == self.end, "less tensor data than its size")?;
        const ZEROS: [u8; 64] = [0; 64];
        let mut gap = self.at.next_multiple_of(self.alignment) - self.at;
        while gap > 0 {
            let n = gap.min(ZEROS.len() as u64);
            self.raw(&ZEROS[..n as usize])?;
            gap -= n;
        }
        if !self.in_data {
            self.in_data = true;
            self.at = 0;
        }
        // Nothing may be written before the next tensor is begun.
        self.end = self.at;
        Ok(())
    }

    fn key(&mut self, key: &str, kind: ValueType) -> Result<(), EmitError<E>> {
        self.keys = self.keys.checked_sub(1).ok_or(EmitError::Misuse("more keys than announced"))?;
        check_name(key, MAX_KEY)?;
        self.text(key)?;
        self.raw(&(kind as u32).to_le_bytes())
    }

    fn array(&mut self, item: ValueType, len: u64) -> Result<(), EmitError<E>> {
        self.raw(&(item as u32).to_le_bytes())?;
        self.raw(&len.to_le_bytes())
    }

    fn text(&mut self, text: &str) -> Result<(), EmitError<E>> {
        self.raw(&(text.len() as u64).to_le_bytes())?;
        self.raw(text.as_bytes())
    }

    fn raw(&mut self, bytes: &[u8]) -> Result<(), EmitError<E>> {
        (self.sink)(bytes).map_err(EmitError::Sink)?;
        self.at = self.at.saturating_add(bytes.len() as u64);
        Ok(())
    }
}

fn ensure<E>(holds: bool, what: &'static str) -> Result<(), EmitError<E>> {
    if holds { Ok(()) } else { Err(EmitError::Misuse(what)) }
}

fn check_name<E>(name: &str, max: u64) -> Result<(), EmitError<E>> {
    let fits = !name.is_empty() && name.len() as u64 <= max;
    ensure(fits && !name.bytes().any(|b| b.is_ascii_control()), "a name is empty, too long or not text")
}

fn tensor_size(dims: &[u64], format: Format) -> Option<u64> {
    let [cols, rest @ ..] = dims else { return None };
    let usable = rest.len() < 4 && !dims.contains(&0);
    let row = format.row_bytes(*cols).filter(|_| usable)?;
    rest.iter().try_fold(row, |size, dim| size.checked_mul(*dim))
}

/// A file that could not be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EmitError<E> {
    /// The sink failed.
    Sink(E),
    /// The caller asked for something that is not GGUF: a fault of the program.
    Misuse(&'static str),
}

impl<E: fmt::Display> fmt::Display for EmitError<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            EmitError::Sink(e) => write!(f, "cannot write the model file: {e}"),
            EmitError::Misuse(what) => write!(f, "cannot make the model file: {what}"),
        }
    }
}

impl<E: fmt::Debug + fmt::Display> core::error::Error for EmitError<E> {}
