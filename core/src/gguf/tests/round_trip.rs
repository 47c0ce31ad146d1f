//! What the writer writes, the reader reads.

use super::*;
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::string::{String, ToString};

/// A value with its own memory.
#[derive(Clone, Debug)]
enum Owned {
    Number(ValueType, [u8; 8]),
    Text(String),
    Numbers(ValueType, usize, Vec<u8>),
    Texts(Vec<String>),
}

impl Owned {
    fn value<'a>(&'a self, packed: &'a mut Vec<u8>) -> Value<'a> {
        match self {
            Owned::Number(kind, bytes) => number(*kind, *bytes),
            Owned::Text(text) => Value::Str(text),
            Owned::Numbers(kind, len, bytes) => Value::Array(Array::new(*kind, *len, bytes).unwrap()),
            Owned::Texts(texts) => {
                for text in texts {
                    packed.extend((text.len() as u64).to_le_bytes());
                    packed.extend(text.as_bytes());
                }
                Value::Array(Array::new(ValueType::Str, texts.len(), packed).unwrap())
            }
        }
    }
}

fn number(kind: ValueType, b: [u8; 8]) -> Value<'static> {
    let word = u64::from_le_bytes(b);
    match kind {
        ValueType::U8 => Value::U8(b[0]),
        ValueType::I8 => Value::I8(b[0] as i8),
        ValueType::U16 => Value::U16(word as u16),
        ValueType::I16 => Value::I16(word as i16),
        ValueType::U32 => Value::U32(word as u32),
        ValueType::I32 => Value::I32(word as i32),
        // NaN is unequal to itself: keep to whole numbers.
        ValueType::F32 => Value::F32(word as u32 as f32),
        ValueType::F64 => Value::F64(word as f64),
        ValueType::U64 => Value::U64(word),
        ValueType::I64 => Value::I64(word as i64),
        _ => Value::Bool(b[0] & 1 == 1),
    }
}

fn a_number() -> impl Strategy<Value = ValueType> {
    prop::sample::select(ValueType::ALL.into_iter().filter(|t| t.size().is_some()).collect::<Vec<_>>())
}

fn a_value() -> impl Strategy<Value = Owned> {
    prop_oneof![
        (a_number(), any::<[u8; 8]>()).prop_map(|(kind, b)| Owned::Number(kind, b)),
        ".{0,12}".prop_map(Owned::Text),
        (a_number(), prop::collection::vec(0..2u8, 0..80)).prop_map(|(kind, mut bytes)| {
            let size = kind.size().unwrap() as usize;
            let len = bytes.len() / size;
            bytes.truncate(len * size);
            Owned::Numbers(kind, len, bytes)
        }),
        prop::collection::vec(".{0,6}", 0..6).prop_map(Owned::Texts),
    ]
}

type Tensors = BTreeMap<String, (Vec<u64>, Format)>;

fn some_tensors() -> impl Strategy<Value = Tensors> {
    let format = prop::sample::select(Format::ALL.to_vec());
    let shape = (format, prop::collection::vec(1..4u64, 1..5)).prop_map(|(format, mut dims)| {
        dims[0] *= format.block_len() as u64;
        (dims, format)
    });
    prop::collection::btree_map("[a-zä.]{1,32}", shape, 0..6)
}

fn size((dims, format): &(Vec<u64>, Format)) -> usize {
    (format.row_bytes(dims[0]).unwrap() * dims[1..].iter().product::<u64>()) as usize
}

/// The bytes of tensor `i`.
fn data(i: usize, len: usize) -> Vec<u8> {
    (0..len).map(|j| (i * 31 + j) as u8).collect()
}

fn write(
    file: &mut Vec<u8>,
    version: u32,
    alignment: u32,
    keys: &BTreeMap<String, Owned>,
    tensors: &Tensors,
) -> Made {
    let sink = |bytes: &[u8]| {
        file.extend_from_slice(bytes);
        Ok(())
    };
    let mut out = Emit::new(sink, version, keys.len() as u64 + 1, tensors.len() as u64)?;
    for (key, value) in keys {
        out.put(key, value.value(&mut Vec::new()))?;
    }
    out.put("general.alignment", Value::U32(alignment))?;
    let mut slots = Vec::new();
    for (name, (dims, format)) in tensors {
        slots.push(out.tensor(name, dims, *format)?);
    }
    for (i, slot) in slots.into_iter().enumerate() {
        out.weights(slot, &data(i, slot.size as usize))?;
    }
    out.finish()
}

proptest! {
    #[test]
    fn parse_inverts_emit(
        version in 2..4u32,
        log_alignment in 0..9u32,
        keys in prop::collection::btree_map("[a-zé._]{1,20}", a_value(), 0..8),
        tensors in some_tensors(),
    ) {
        let mut file = Vec::new();
        write(&mut file, version, 1 << log_alignment, &keys, &tensors).unwrap();
        let g = Gguf::parse(&file, file.len() as u64).map_err(|e| TestCaseError::fail(e.to_string()))?;
        walk(&g, file.len() as u64, &file);
        prop_assert_eq!((g.version(), g.alignment()), (version, 1 << log_alignment));
        let mut found = g.entries();
        for (key, value) in &keys {
            let mut packed = Vec::new();
            prop_assert_eq!(found.next(), Some((key.as_str(), value.value(&mut packed))));
        }
        prop_assert_eq!(g.tensor_count(), tensors.len() as u64);
        for (i, (t, (name, shape))) in g.tensors().zip(&tensors).enumerate() {
            prop_assert_eq!((t.name, t.format, t.n_dims as usize), (name.as_str(), shape.1, shape.0.len()));
            prop_assert_eq!(&t.dims[..shape.0.len()], &shape.0[..]);
            let weights = t.bind(&file).unwrap();
            let wanted = data(i, size(shape));
            prop_assert_eq!(weights.data(), &wanted[..]);
        }
    }
}

/// The writer refuses what would not be a file.
#[test]
fn the_writer_refuses_misuse() {
    let sink = |_: &[u8]| Ok::<(), Infallible>(());
    assert!(Emit::new(sink, 1, 0, 0).is_err());
    assert!(Emit::new(sink, 3, 1, 0).unwrap().finish().is_err());
    assert!(Emit::new(sink, 3, 0, 0).unwrap().put("k", Value::U8(1)).is_err());
    assert!(Emit::new(sink, 3, 1, 0).unwrap().put("", Value::U8(1)).is_err());
    assert!(Emit::new(sink, 3, 1, 0).unwrap().put("general.alignment", Value::U32(3)).is_err());
    assert!(Emit::new(sink, 3, 1, 1).unwrap().tensor("t", &[1], Format::F32).is_err());
    let tensor = |dims: &[u64], format| Emit::new(sink, 3, 0, 1).unwrap().tensor("t", dims, format).is_ok();
    assert!(tensor(&[256], Format::Q4K));
    for dims in [&[][..], &[0], &[255], &[256, 1, 1, 1, 1], &[256, u64::MAX]] {
        assert!(!tensor(dims, Format::Q4K), "{dims:?}");
    }
    let mut out = Emit::new(sink, 3, 0, 2).unwrap();
    let (a, b) = (out.tensor("a", &[8], Format::F32).unwrap(), out.tensor("b", &[8], Format::F32).unwrap());
    assert!(out.write(&[0]).is_err());
    assert!(out.weights(b, &[0; 32]).is_err());
    assert!(out.weights(a, &[0; 33]).is_err());
    assert!(out.write(&[0; 31]).is_ok());
    assert!(out.begin(b).is_err());
    assert!(out.write(&[0]).is_ok());
    assert!(out.weights(b, &[0; 31]).is_ok());
    assert!(out.finish().is_err());
}
