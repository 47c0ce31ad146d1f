//! GGUF model files, from alleged to proven.
//!
//! A file *claims* keys, tensors and ranges. [`Gguf::parse`] walks all of it
//! once, with every read bounded, and either proves the claims or says what is
//! wrong and at which byte. What it returns afterwards cannot fail.
//!
//! Nothing is copied and nothing allocated: keys, texts and arrays are views of
//! the header's bytes, found again by walking it. Long arrays are stepped over,
//! so a look-up costs a few microseconds.
//!
//! # Limits
//! At most [`MAX_KEYS`] keys, [`MAX_TENSORS`] tensors and [`MAX_HEADER`] bytes
//! of header, far beyond any model in use. They bound the time that a hostile
//! file can take, of which the search for names that occur twice is the
//! largest part.
//!
//! Format: `docs/gguf.md` of the ggml project (MIT), versions 2 and 3.
//!
//! ```
//! # fn main() -> Result<(), katydid_core::gguf::GgufError> {
//! use katydid_core::gguf::Gguf;
//! // Magic, version 3, no tensors, one key.
//! let mut file = b"GGUF\x03\0\0\0\0\0\0\0\0\0\0\0\x01\0\0\0\0\0\0\0".to_vec();
//! file.extend(b"\x05\0\0\0\0\0\0\0a.key\x04\0\0\0\x2a\0\0\0");
//! let gguf = Gguf::parse(&file, file.len() as u64)?;
//! assert_eq!(gguf.u32("a.key")?, Some(42));
//! # Ok(())
//! # }
//! ```

mod cursor;
pub mod emit;
mod error;
mod names;
mod split;
mod tensor;
mod value;

use crate::Name;
use cursor::Cursor;
use names::{duplicate, read_name};
use value::read_type;

pub use error::{Fault, GgufError, Subject};
pub use split::{Part, Parts, SPLIT_SUFFIX, SplitName, split_name};
pub use tensor::{MAX_TENSOR_NAME, TensorInfo, TensorRef};
pub use value::{Array, Strings, Value, ValueType};

/// Most keys read. Models have below a hundred.
pub const MAX_KEYS: u64 = 1024;
/// Most tensors read, all parts of a split model together. Models have below
/// five thousand.
pub const MAX_TENSORS: u64 = 65_536;
/// Most bytes of header read. Large vocabularies make about 20 MB.
pub const MAX_HEADER: u64 = 256 << 20;
/// Longest key that GGUF allows, in bytes.
pub const MAX_KEY: u64 = 65_535;
/// Alignment of tensors where `general.alignment` does not give one.
pub const DEFAULT_ALIGNMENT: u32 = 32;

/// Bytes before the first key: magic, version, two counts.
const KEYS_START: usize = 24;
/// Least bytes of a key and value: a key of one byte and a `u8`.
const LEAST_ENTRY: u64 = 8 + 1 + 4 + 1;
/// Arrays shorter than this are walked again on every look-up.
const LONG: usize = 16 << 10;

/// A parsed header. Small: pass it by value.
#[derive(Clone, Copy)]
pub struct Gguf<'a> {
    head: &'a [u8],
    version: u32,
    alignment: u32,
    kv_count: u32,
    tensor_count: u32,
    tensors_start: usize,
    data_start: u64,
    skips: Skips,
}

impl core::fmt::Debug for Gguf<'_> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "GGUF v{}, {} keys, {} tensors", self.version, self.kv_count, self.tensor_count)
    }
}

impl<'a> Gguf<'a> {
    /// Proves a file's header.
    ///
    /// `head` is the file from its first byte on: the whole header or more, all
    /// of it for a mapped file. `file_len` is the length of the whole file.
    /// Where `head` turns out too short, [`GgufError::needs_more`] is true.
    ///
    /// Time is linear in the header for up to 512 names, and under a second for
    /// the worst header that fits the limits.
    pub fn parse(head: &'a [u8], file_len: u64) -> Result<Self, GgufError> {
        let len = file_len.min(MAX_HEADER).min(head.len() as u64);
        // No loss: `len` is at most `head.len()`.
        let head = &head[..len as usize];
        Self::parse_head(head, file_len).map_err(|e| short_head(e, len, file_len))
    }

    fn parse_head(head: &'a [u8], file_len: u64) -> Result<Self, GgufError> {
        let mut c = Cursor::new(head, 0);
        let version = magic_and_version(&mut c, file_len)?;
        let tensor_count = count(&mut c, "tensors", MAX_TENSORS)?;
        let kv_count = count(&mut c, "keys", MAX_KEYS)?;
        claim(&c, file_len, "key table", u64::from(kv_count) * LEAST_ENTRY)?;

        let mut entries = Entries { cursor: c, left: kv_count, skips: Skips::default() };
        let mut skips = Skips::default();
        while let Some(entry) = entries.step()? {
            skips.note(&entry.value, entries.cursor.at());
        }
        let mut c = entries.cursor;
        let tensors_start = c.at();
        claim(&c, file_len, "tensor table", u64::from(tensor_count) * tensor::LEAST_INFO)?;
        for _ in 0..tensor_count {
            TensorInfo::read(&mut c)?;
        }
        let mut gguf = Self {
            head: head.get(..c.at()).unwrap_or(head),
            version,
            alignment: DEFAULT_ALIGNMENT,
            kv_count,
            tensor_count,
            tensors_start,
            data_start: 0,
            skips,
        };
        gguf.check_names()?;
        gguf.alignment = gguf.read_alignment()?;
        // No overflow: a header is short and an alignment 32 bits.
        gguf.data_start = (c.at() as u64).next_multiple_of(u64::from(gguf.alignment));
        gguf.check_ranges(file_len)?;
        Ok(gguf)
    }

    fn check_names(&self) -> Result<(), GgufError> {
        if let Some(twice) = duplicate(self.raw_entries().map(|e| e.key.as_bytes())) {
            let at = self.raw_entries().filter(|e| e.key.as_bytes() == twice).nth(1).map_or(0, |e| e.at);
            return Err(GgufError::new(at as u64, Subject::Key(name(twice)), Fault::Duplicate));
        }
        if let Some(twice) = duplicate(self.tensor_names().map(|(_, name)| name)) {
            let at = self.tensor_names().filter(|(_, name)| *name == twice).nth(1);
            let at = at.map_or(0, |(at, _)| at as u64);
            return Err(GgufError::new(at, Subject::Tensor(name(twice)), Fault::Duplicate));
        }
        Ok(())
    }

    /// A 32-bit power of two. The format also asks for a multiple of 8, which
    /// ggml's own reader does not, and neither do we.
    fn read_alignment(&self) -> Result<u32, GgufError> {
        const KEY: &str = "general.alignment";
        let Some(entry) = self.find(KEY) else { return Ok(DEFAULT_ALIGNMENT) };
        match entry.value {
            Value::U32(a) if a.is_power_of_two() => Ok(a),
            Value::U32(a) => Err(entry.err(Fault::BadAlignment(a))),
            _ => Err(entry.wrong_type("a u32")),
        }
    }

    /// Tensors lie in the order of their entries, aligned, apart and inside the
    /// file.
    fn check_ranges(&self, file_len: u64) -> Result<(), GgufError> {
        let alignment = u64::from(self.alignment);
        let mut free = 0;
        for (at, t) in self.raw_tensors() {
            let fail = |fault| Err(GgufError::new(at as u64, Subject::Tensor(Name::new(t.name)), fault));
            if !t.offset.is_multiple_of(alignment) {
                return fail(Fault::Misaligned { offset: t.offset, alignment });
            }
            if t.offset < free {
                return fail(Fault::Overlap);
            }
            let end = t.offset.checked_add(t.size);
            let in_file = end.and_then(|end| end.checked_add(self.data_start));
            let past_end = Fault::PastEnd { end: in_file.unwrap_or(u64::MAX), file_len };
            match end.filter(|_| in_file.is_some_and(|e| e <= file_len)) {
                Some(end) => free = end,
                None => return fail(past_end),
            }
        }
        Ok(())
    }

    /// The file's GGUF version, 2 or 3.
    pub fn version(&self) -> u32 {
        self.version
    }

    /// What tensor offsets are multiples of; a power of two.
    pub fn alignment(&self) -> u64 {
        u64::from(self.alignment)
    }

    /// Keys in the file.
    pub fn kv_count(&self) -> u64 {
        u64::from(self.kv_count)
    }

    /// Tensors in the file.
    pub fn tensor_count(&self) -> u64 {
        u64::from(self.tensor_count)
    }

    /// First byte of the tensor data. A file without tensors may end before it.
    pub fn data_start(&self) -> u64 {
        self.data_start
    }

    /// Bytes of the header, padding excluded: what `head` must hold.
    pub fn header_len(&self) -> usize {
        self.head.len()
    }

    fn raw_entries(&self) -> Entries<'a> {
        Entries { cursor: Cursor::new(self.head, KEYS_START), left: self.kv_count, skips: self.skips }
    }

    /// Tensor entries, each with its place; offsets count from the data section.
    fn raw_tensors(&self) -> impl Iterator<Item = (usize, TensorInfo<'a>)> + Clone + 'a {
        let mut c = Cursor::new(self.head, self.tensors_start);
        (0..self.tensor_count).map_while(move |_| Some((c.at(), TensorInfo::read(&mut c).ok()?)))
    }

    /// Tensor names, each with its entry's place; faster than reading entries.
    fn tensor_names(&self) -> impl Iterator<Item = (usize, &'a [u8])> + Clone + 'a {
        let mut c = Cursor::new(self.head, self.tensors_start);
        (0..self.tensor_count).map_while(move |_| Some((c.at(), TensorInfo::pass(&mut c)?)))
    }

    fn find(&self, key: &str) -> Option<Entry<'a>> {
        self.raw_entries().find(|e| e.key == key)
    }

    /// The value of `key`.
    pub fn get(&self, key: &str) -> Option<Value<'a>> {
        self.find(key).map(|e| e.value)
    }

    /// All keys with their values, in the file's order.
    pub fn entries(&self) -> impl Iterator<Item = (&'a str, Value<'a>)> + Clone + 'a {
        self.raw_entries().map(|e| (e.key, e.value))
    }

    /// All tensors, in the file's order, which is that of their offsets.
    pub fn tensors(&self) -> impl Iterator<Item = TensorInfo<'a>> + Clone + 'a {
        let data_start = self.data_start;
        // No overflow: the end of each is inside the file.
        self.raw_tensors().map(move |(_, t)| TensorInfo { offset: t.offset + data_start, ..t })
    }

    /// The tensor called `name`.
    pub fn tensor(&self, name: &str) -> Option<TensorInfo<'a>> {
        self.tensors().find(|t| t.name == name)
    }

    fn typed<T>(
        &self,
        key: &str,
        wanted: &'static str,
        read: impl Fn(Value<'a>) -> Option<T>,
    ) -> Result<Option<T>, GgufError> {
        let Some(entry) = self.find(key) else { return Ok(None) };
        read(entry.value).map(Some).ok_or_else(|| entry.wrong_type(wanted))
    }

    /// The text of `key`; `None` where there is no such key.
    pub fn str(&self, key: &str) -> Result<Option<&'a str>, GgufError> {
        self.typed(key, "a string", |v| if let Value::Str(s) = v { Some(s) } else { None })
    }

    /// The number of `key`, of any integer type whose value fits.
    pub fn u32(&self, key: &str) -> Result<Option<u32>, GgufError> {
        let Some(entry) = self.find(key) else { return Ok(None) };
        let value = entry.value.integer().ok_or_else(|| entry.wrong_type("an integer"))?;
        u32::try_from(value).map(Some).map_err(|_| entry.out_of_range(value))
    }

    /// The number of `key`, of either floating-point type.
    pub fn f32(&self, key: &str) -> Result<Option<f32>, GgufError> {
        self.typed(key, "an f32", |v| match v {
            Value::F32(x) => Some(x),
            Value::F64(x) => Some(x as f32),
            _ => None,
        })
    }

    /// The truth value of `key`.
    pub fn bool(&self, key: &str) -> Result<Option<bool>, GgufError> {
        self.typed(key, "a bool", |v| if let Value::Bool(b) = v { Some(b) } else { None })
    }

    /// The array of `key`.
    pub fn array(&self, key: &str) -> Result<Option<Array<'a>>, GgufError> {
        self.typed(key, "an array", |v| if let Value::Array(a) = v { Some(a) } else { None })
    }

    /// The array of `key`, whose items must be of type `item`.
    pub fn array_of(&self, key: &str, item: ValueType) -> Result<Option<Array<'a>>, GgufError> {
        let wanted = match item {
            ValueType::Str => "an array of strings",
            ValueType::Array => "an array of arrays",
            ValueType::Bool => "an array of bools",
            ValueType::F32 => "an array of f32s",
            ValueType::F64 => "an array of f64s",
            ValueType::I32 => "an array of i32s",
            ValueType::U32 => "an array of u32s",
            ValueType::I64 => "an array of i64s",
            ValueType::U64 => "an array of u64s",
            ValueType::I8 | ValueType::U8 => "an array of bytes of the right sign",
            ValueType::I16 | ValueType::U16 => "an array of 16-bit integers of the right sign",
        };
        self.typed(key, wanted, |v| match v {
            Value::Array(a) if a.item_type() == item => Some(a),
            _ => None,
        })
    }
}

/// Checks the first eight bytes.
fn magic_and_version(c: &mut Cursor<'_>, file_len: u64) -> Result<u32, GgufError> {
    let start = *c;
    let have = c.left().min(8);
    let mut bytes = [0; 8];
    // No loss: at most 8.
    bytes[..have as usize].copy_from_slice(c.take(have, "magic")?);
    if !bytes.starts_with(b"GGUF") && (have == 8 || have == file_len) {
        return Err(start.err(Fault::NotGguf { start: bytes, len: have as u8 }));
    }
    let mut c2 = start;
    c2.take(4, "magic")?;
    let version = c2.u32("version")?;
    match version {
        2 | 3 => Ok(version),
        // Seen from the other end, a small number.
        v if v != 0 && v & 0xffff == 0 => Err(start.err(Fault::BigEndian)),
        v => Err(start.err(Fault::Version(v))),
    }
}

fn count(c: &mut Cursor<'_>, what: &'static str, max: u64) -> Result<u32, GgufError> {
    let start = *c;
    let count = c.u64("header")?;
    let too_many = start.err(Fault::TooMany { what, count, max });
    u32::try_from(count).ok().filter(|_| count <= max).ok_or(too_many)
}

/// Errs early where a table cannot fit the file.
fn claim(c: &Cursor<'_>, file_len: u64, what: &'static str, need: u64) -> Result<(), GgufError> {
    let room = file_len.saturating_sub(c.at() as u64);
    if need <= room { Ok(()) } else { Err(c.err(Fault::Ends { what, need })) }
}

/// Tells a file that ends too early from a `head` that does.
fn short_head(e: GgufError, have: u64, file_len: u64) -> GgufError {
    let Fault::Ends { need, .. } = e.fault else { return e };
    let end = e.at.saturating_add(need);
    if have == file_len || end > file_len {
        e
    } else if have == MAX_HEADER {
        let fault = Fault::TooMany { what: "bytes of header", count: end, max: MAX_HEADER };
        GgufError { fault, ..e }
    } else {
        GgufError { fault: Fault::MoreHead { have }, ..e }
    }
}

fn name(bytes: &[u8]) -> Name {
    Name::new(core::str::from_utf8(bytes).unwrap_or(""))
}

/// Where the longest arrays end, so that look-ups need not walk them.
#[derive(Clone, Copy, Default)]
struct Skips([(usize, usize); 4]);

impl Skips {
    /// Notes a value that ends at `end`, where it is long and its end not
    /// plain from its length.
    fn note(&mut self, value: &Value<'_>, end: usize) {
        let Value::Array(array) = value else { return };
        if array.bytes().len() >= LONG
            && array.item_type().size().is_none()
            && let Some(slot) = self.0.iter_mut().find(|slot| slot.1 == 0)
        {
            *slot = (end - array.bytes().len(), end);
        }
    }

    fn end_of(&self, start: usize) -> Option<usize> {
        self.0.iter().find(|slot| slot.0 == start && slot.1 > 0).map(|slot| slot.1)
    }
}

/// A key and its value.
struct Entry<'a> {
    at: usize,
    key: &'a str,
    value: Value<'a>,
}

impl Entry<'_> {
    fn err(&self, fault: Fault) -> GgufError {
        GgufError::new(self.at as u64, Subject::Key(Name::new(self.key)), fault)
    }

    fn out_of_range(&self, value: i128) -> GgufError {
        // Every integer type's values lie within 64 bits of zero.
        let size = u64::try_from(value.unsigned_abs()).unwrap_or(u64::MAX);
        self.err(Fault::OutOfRange { negative: value < 0, size })
    }

    fn wrong_type(&self, wanted: &'static str) -> GgufError {
        let (found, array) = match self.value {
            Value::Array(a) => (a.item_type(), true),
            v => (v.value_type(), false),
        };
        self.err(Fault::WrongType { found, array, wanted })
    }
}

/// Walks the key table.
#[derive(Clone)]
struct Entries<'a> {
    cursor: Cursor<'a>,
    left: u32,
    skips: Skips,
}

impl<'a> Entries<'a> {
    fn step(&mut self) -> Result<Option<Entry<'a>>, GgufError> {
        let Some(left) = self.left.checked_sub(1) else { return Ok(None) };
        self.left = left;
        let c = &mut self.cursor;
        let at = c.at();
        let key = read_name(c, "key", MAX_KEY)?;
        let skips = &self.skips;
        let value = read_type(c)
            .and_then(|kind| Value::read(c, kind, &|start| skips.end_of(start)))
            .map_err(|e| GgufError { about: Subject::Key(Name::new(key)), ..e })?;
        Ok(Some(Entry { at, key, value }))
    }
}

impl<'a> Iterator for Entries<'a> {
    type Item = Entry<'a>;

    fn next(&mut self) -> Option<Self::Item> {
        self.step().ok().flatten()
    }
}

#[cfg(test)]
mod tests;
