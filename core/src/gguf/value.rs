//! Metadata values: numbers, texts and arrays of them.

use core::fmt;

use super::cursor::Cursor;
use super::error::{Fault, GgufError};

/// How deep arrays may lie within arrays. Models in use have no nesting.
const MAX_DEPTH: u32 = 4;

/// The type of a metadata value. The discriminants are those of GGUF.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u32)]
#[allow(missing_docs, reason = "the names are the field's own")]
pub enum ValueType {
    U8 = 0,
    I8 = 1,
    U16 = 2,
    I16 = 3,
    U32 = 4,
    I32 = 5,
    F32 = 6,
    Bool = 7,
    Str = 8,
    Array = 9,
    U64 = 10,
    I64 = 11,
    F64 = 12,
}

impl ValueType {
    /// Every type, in the order of the ids.
    pub const ALL: [ValueType; 13] = [
        ValueType::U8,
        ValueType::I8,
        ValueType::U16,
        ValueType::I16,
        ValueType::U32,
        ValueType::I32,
        ValueType::F32,
        ValueType::Bool,
        ValueType::Str,
        ValueType::Array,
        ValueType::U64,
        ValueType::I64,
        ValueType::F64,
    ];

    /// The type with id `id`.
    pub fn from_id(id: u32) -> Option<Self> {
        Self::ALL.get(usize::try_from(id).ok()?).copied()
    }

    /// Bytes of one value; `None` for texts and arrays, whose sizes vary.
    pub const fn size(self) -> Option<u64> {
        match self {
            ValueType::U8 | ValueType::I8 | ValueType::Bool => Some(1),
            ValueType::U16 | ValueType::I16 => Some(2),
            ValueType::U32 | ValueType::I32 | ValueType::F32 => Some(4),
            ValueType::U64 | ValueType::I64 | ValueType::F64 => Some(8),
            ValueType::Str | ValueType::Array => None,
        }
    }

    /// Least bytes that one value takes.
    const fn least(self) -> u64 {
        match self {
            ValueType::Str => 8,
            ValueType::Array => 12,
            _ => 1,
        }
    }
}

impl fmt::Display for ValueType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            ValueType::U8 => "u8",
            ValueType::I8 => "i8",
            ValueType::U16 => "u16",
            ValueType::I16 => "i16",
            ValueType::U32 => "u32",
            ValueType::I32 => "i32",
            ValueType::F32 => "f32",
            ValueType::Bool => "bool",
            ValueType::Str => "string",
            ValueType::Array => "array",
            ValueType::U64 => "u64",
            ValueType::I64 => "i64",
            ValueType::F64 => "f64",
        })
    }
}

/// A metadata value.
#[derive(Clone, Copy, Debug, PartialEq)]
#[allow(missing_docs, reason = "the names are the field's own")]
pub enum Value<'a> {
    U8(u8),
    I8(i8),
    U16(u16),
    I16(i16),
    U32(u32),
    I32(i32),
    F32(f32),
    Bool(bool),
    Str(&'a str),
    Array(Array<'a>),
    U64(u64),
    I64(i64),
    F64(f64),
}

impl<'a> Value<'a> {
    /// Its type.
    pub fn value_type(&self) -> ValueType {
        match self {
            Value::U8(_) => ValueType::U8,
            Value::I8(_) => ValueType::I8,
            Value::U16(_) => ValueType::U16,
            Value::I16(_) => ValueType::I16,
            Value::U32(_) => ValueType::U32,
            Value::I32(_) => ValueType::I32,
            Value::F32(_) => ValueType::F32,
            Value::Bool(_) => ValueType::Bool,
            Value::Str(_) => ValueType::Str,
            Value::Array(_) => ValueType::Array,
            Value::U64(_) => ValueType::U64,
            Value::I64(_) => ValueType::I64,
            Value::F64(_) => ValueType::F64,
        }
    }

    /// The value as an integer, where it is of an integer type.
    pub fn integer(&self) -> Option<i128> {
        Some(match *self {
            Value::U8(v) => v.into(),
            Value::I8(v) => v.into(),
            Value::U16(v) => v.into(),
            Value::I16(v) => v.into(),
            Value::U32(v) => v.into(),
            Value::I32(v) => v.into(),
            Value::U64(v) => v.into(),
            Value::I64(v) => v.into(),
            _ => return None,
        })
    }

    /// Reads a value of type `kind`. Array contents are walked unless `skip`
    /// knows, from the array's first byte, where it ends.
    pub(super) fn read(
        c: &mut Cursor<'a>,
        kind: ValueType,
        skip: &dyn Fn(usize) -> Option<usize>,
    ) -> Result<Self, GgufError> {
        const WHAT: &str = "value";
        Ok(match kind {
            ValueType::U8 => Value::U8(c.u8(WHAT)?),
            ValueType::I8 => Value::I8(c.u8(WHAT)? as i8),
            ValueType::U16 => Value::U16(c.u16(WHAT)?),
            ValueType::I16 => Value::I16(c.u16(WHAT)? as i16),
            ValueType::U32 => Value::U32(c.u32(WHAT)?),
            ValueType::I32 => Value::I32(c.u32(WHAT)? as i32),
            ValueType::F32 => Value::F32(f32::from_bits(c.u32(WHAT)?)),
            ValueType::Bool => Value::Bool(read_bool(c)?),
            ValueType::Str => Value::Str(read_str(c, "string")?),
            ValueType::Array => Value::Array(Array::read(c, 0, skip)?),
            ValueType::U64 => Value::U64(c.u64(WHAT)?),
            ValueType::I64 => Value::I64(c.u64(WHAT)? as i64),
            ValueType::F64 => Value::F64(f64::from_bits(c.u64(WHAT)?)),
        })
    }
}

pub(super) fn read_str<'a>(c: &mut Cursor<'a>, what: &'static str) -> Result<&'a str, GgufError> {
    let start = *c;
    core::str::from_utf8(c.text(what)?).map_err(|_| start.err(Fault::NotUtf8))
}

pub(super) fn read_type(c: &mut Cursor<'_>) -> Result<ValueType, GgufError> {
    let start = *c;
    let id = c.u32("value type")?;
    ValueType::from_id(id).ok_or_else(|| start.err(Fault::UnknownValueType(id)))
}

fn read_bool(c: &mut Cursor<'_>) -> Result<bool, GgufError> {
    let start = *c;
    match c.u8("value")? {
        0 => Ok(false),
        1 => Ok(true),
        other => Err(start.err(Fault::BadBool(other))),
    }
}

/// A proven array: its item type, count and bytes agree, texts are UTF-8.
///
/// Items are packed, little-endian and unaligned.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Array<'a> {
    item: ValueType,
    len: usize,
    bytes: &'a [u8],
}

impl fmt::Debug for Array<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "[{}; {}]", self.item, self.len)
    }
}

impl<'a> Array<'a> {
    /// Proves that `bytes` are `len` packed items of type `item`.
    ///
    /// Errors as for a file in which byte 0 is `bytes[0]`.
    pub fn new(item: ValueType, len: usize, bytes: &'a [u8]) -> Result<Self, GgufError> {
        let mut c = Cursor::new(bytes, 0);
        let array = Self::read_items(&mut c, item, len as u64, 0, &|_| None)?;
        let extra = Fault::TooMany {
            what: "bytes of array",
            count: bytes.len() as u64,
            max: array.bytes.len() as u64,
        };
        if c.left() > 0 { Err(c.err(extra)) } else { Ok(array) }
    }

    fn read(
        c: &mut Cursor<'a>,
        depth: u32,
        skip: &dyn Fn(usize) -> Option<usize>,
    ) -> Result<Self, GgufError> {
        let item = read_type(c)?;
        let len = c.u64("array length")?;
        Self::read_items(c, item, len, depth, skip)
    }

    fn read_items(
        c: &mut Cursor<'a>,
        item: ValueType,
        len: u64,
        depth: u32,
        skip: &dyn Fn(usize) -> Option<usize>,
    ) -> Result<Self, GgufError> {
        let start = *c;
        let need = len.checked_mul(item.size().unwrap_or(item.least()));
        let ends = || start.err(Fault::Ends { what: "array", need: need.unwrap_or(u64::MAX) });
        // Every item takes at least a byte, so a count that passes is bounded by
        // the file and fits `usize`.
        if need.is_none_or(|need| need > c.left()) {
            return Err(ends());
        }
        match (item.size(), skip(start.at())) {
            (Some(size), _) => _ = c.take(len * size, "array")?,
            (None, Some(end)) => _ = c.take((end.saturating_sub(start.at())) as u64, "array")?,
            (None, None) => walk(c, item, len, depth)?,
        }
        let bytes = start.clone().take((c.at() - start.at()) as u64, "array")?;
        if item == ValueType::Bool
            && let Some(i) = bytes.iter().position(|&b| b > 1)
        {
            let mut bad = start;
            bad.take(i as u64, "array")?;
            return Err(bad.err(Fault::BadBool(bytes[i])));
        }
        Ok(Self { item, len: usize::try_from(len).map_err(|_| ends())?, bytes })
    }

    /// Items in it.
    pub fn len(&self) -> usize {
        self.len
    }

    /// True when it has no items.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Type of the items.
    pub fn item_type(&self) -> ValueType {
        self.item
    }

    /// The packed items.
    pub fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// The texts of an array of strings.
    pub fn strings(&self) -> Option<Strings<'a>> {
        (self.item == ValueType::Str).then(|| Strings { cursor: Cursor::new(self.bytes, 0), left: self.len })
    }

    /// The text at an offset that [`Array::strings`] gave. Any other offset
    /// gives some text of the array or the empty one.
    pub fn string_at(&self, offset: usize) -> &'a str {
        let text = offset.checked_sub(8).and_then(|at| read_str(&mut Cursor::new(self.bytes, at), "").ok());
        text.filter(|_| self.item == ValueType::Str).unwrap_or("")
    }

    /// The inner arrays of an array of arrays.
    pub fn arrays(&self) -> Option<impl Iterator<Item = Array<'a>> + 'a> {
        let mut cursor = Cursor::new(self.bytes, 0);
        (self.item == ValueType::Array)
            .then(|| (0..self.len).map_while(move |_| Array::read(&mut cursor, 1, &|_| None).ok()))
    }

    /// Item `i` of an array of numbers of `N` bytes.
    fn packed<const N: usize>(&self, item: ValueType, i: usize) -> Option<[u8; N]> {
        let at = i.checked_mul(N).filter(|_| self.item == item)?;
        self.bytes.get(at..at.checked_add(N)?)?.try_into().ok()
    }

    /// Item `i` of an array of `u32`.
    pub fn u32_at(&self, i: usize) -> Option<u32> {
        self.packed(ValueType::U32, i).map(u32::from_le_bytes)
    }

    /// Item `i` of an array of `i32`.
    pub fn i32_at(&self, i: usize) -> Option<i32> {
        self.packed(ValueType::I32, i).map(i32::from_le_bytes)
    }

    /// Item `i` of an array of `f32`.
    pub fn f32_at(&self, i: usize) -> Option<f32> {
        self.packed(ValueType::F32, i).map(f32::from_le_bytes)
    }

    /// The items of an array of `u32`.
    pub fn u32s(self) -> Option<impl Iterator<Item = u32> + Clone + 'a> {
        (self.item == ValueType::U32).then(|| words(self.bytes))
    }

    /// The items of an array of `i32`.
    pub fn i32s(self) -> Option<impl Iterator<Item = i32> + Clone + 'a> {
        (self.item == ValueType::I32).then(|| words(self.bytes).map(|w| w as i32))
    }

    /// The items of an array of `f32`.
    pub fn f32s(self) -> Option<impl Iterator<Item = f32> + Clone + 'a> {
        (self.item == ValueType::F32).then(|| words(self.bytes).map(f32::from_bits))
    }
}

fn words(bytes: &[u8]) -> impl Iterator<Item = u32> + Clone + '_ {
    bytes.chunks_exact(4).map(|w| u32::from_le_bytes([w[0], w[1], w[2], w[3]]))
}

/// Passes over items that vary in size, proving each.
fn walk(c: &mut Cursor<'_>, item: ValueType, len: u64, depth: u32) -> Result<(), GgufError> {
    if item == ValueType::Str {
        return (0..len).try_for_each(|_| read_str(c, "string").map(|_| ()));
    }
    if depth >= MAX_DEPTH {
        return Err(c.err(Fault::TooDeep));
    }
    (0..len).try_for_each(|_| Array::read(c, depth + 1, &|_| None).map(|_| ()))
}

/// The texts of an array: each with its offset in [`Array::bytes`].
#[derive(Clone)]
pub struct Strings<'a> {
    cursor: Cursor<'a>,
    left: usize,
}

impl<'a> Iterator for Strings<'a> {
    type Item = (usize, &'a str);

    fn next(&mut self) -> Option<Self::Item> {
        self.left = self.left.checked_sub(1)?;
        let text = read_str(&mut self.cursor, "string").ok()?;
        Some((self.cursor.at() - text.len(), text))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.left, Some(self.left))
    }
}

impl ExactSizeIterator for Strings<'_> {}
