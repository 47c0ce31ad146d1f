//! Tests of the whole reader: real files, round trips, hostile files.

mod hostile;
mod round_trip;
mod split;

use super::emit::{Emit, EmitError};
use super::*;
use crate::quant::Format;
use core::convert::Infallible;
use std::vec::Vec;
use std::{format, println};

type Made = Result<(), EmitError<Infallible>>;

/// A file with everything in it, small enough to cut and mutate everywhere.
fn sample() -> Vec<u8> {
    let mut file = Vec::new();
    write_sample(|bytes| {
        file.extend_from_slice(bytes);
        Ok(())
    })
    .unwrap();
    file
}

fn write_sample(sink: impl FnMut(&[u8]) -> Result<(), Infallible>) -> Made {
    let mut out = Emit::new(sink, 3, 9, 3)?;
    out.put("general.architecture", Value::Str("llama"))?;
    out.put("llama.block_count", Value::U32(1))?;
    out.put("eps", Value::F32(1e-5))?;
    out.put("flag", Value::Bool(true))?;
    out.strings("tokens", ["a", "", "ü"].into_iter())?;
    out.f32s("scores", [0.5, -1.0].into_iter())?;
    let inner = b"\x07\0\0\0\x02\0\0\0\0\0\0\0\x01\0";
    out.put("nested", Value::Array(Array::new(ValueType::Array, 1, inner).unwrap()))?;
    out.put("big", Value::I64(-5))?;
    out.put("general.alignment", Value::U32(64))?;
    let a = out.tensor("a.weight", &[32, 2], Format::Q4_0)?;
    let b = out.tensor("b.weight", &[3], Format::F32)?;
    let c = out.tensor("c.weight", &[4, 2, 3], Format::F16)?;
    out.weights(a, &[1; 36])?;
    out.weights(b, &[2; 12])?;
    out.begin(c)?;
    out.write(&[3; 20])?;
    out.write(&[4; 28])?;
    out.finish()
}

/// Uses every accessor, checking what is promised about each.
fn walk(g: &Gguf<'_>, file_len: u64, file: &[u8]) {
    assert!(g.alignment().is_power_of_two());
    for (key, value) in g.entries() {
        assert_eq!(g.get(key).map(|v| v.value_type()), Some(value.value_type()));
        // Any answer will do; none may panic.
        _ = (g.str(key), g.u32(key), g.f32(key), g.bool(key), value.integer());
        let Ok(Some(a)) = g.array(key) else { continue };
        walk_array(&a);
    }
    assert_eq!(g.entries().count() as u64, g.kv_count());
    assert_eq!(g.tensors().count() as u64, g.tensor_count());
    let mut free = g.data_start();
    for t in g.tensors() {
        assert!(t.offset >= free && t.offset % g.alignment() == 0);
        free = t.offset + t.size;
        assert!(free <= file_len);
        assert_eq!(g.tensor(t.name), Some(t));
        if file_len == file.len() as u64 {
            let r = t.bind(file).unwrap();
            assert_eq!(r.data().len(), r.rows() * r.row_bytes());
            assert!(r.row(r.rows() - 1).is_some() && r.row(r.rows()).is_none());
        }
    }
}

fn walk_array(a: &Array<'_>) {
    if let Some(strings) = a.strings() {
        assert_eq!(strings.clone().count(), a.len());
        for (at, text) in strings {
            assert_eq!(a.string_at(at), text);
        }
    }
    if let Some(arrays) = a.arrays() {
        let mut n = 0;
        for inner in arrays {
            walk_array(&inner);
            n += 1;
        }
        assert_eq!(n, a.len());
    }
    _ = (a.string_at(0), a.string_at(9), a.string_at(usize::MAX), a.u32_at(usize::MAX), a.f32_at(0));
    assert_eq!(
        a.u32s().map_or(0, Iterator::count),
        if a.item_type() == ValueType::U32 { a.len() } else { 0 }
    );
    assert_eq!(
        a.i32s().map_or(0, Iterator::count),
        if a.item_type() == ValueType::I32 { a.len() } else { 0 }
    );
    assert_eq!(
        a.f32s().map_or(0, Iterator::count),
        if a.item_type() == ValueType::F32 { a.len() } else { 0 }
    );
}

/// Every file of the shared test data parses, and all of it is reachable.
#[test]
fn real_files_parse() {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../shared");
    for folder in ["models", "oracle", "vocab"] {
        let Ok(dir) = std::fs::read_dir(root.join(folder)) else {
            println!("skipped: shared/{folder} absent");
            continue;
        };
        for path in dir.map(|e| e.unwrap().path()) {
            if path.extension().is_some_and(|e| e == "gguf") {
                let bytes = std::fs::read(&path).unwrap();
                let g = Gguf::parse(&bytes, bytes.len() as u64).unwrap_or_else(|e| panic!("{path:?}: {e}"));
                walk(&g, bytes.len() as u64, &bytes);
                assert!(g.str("general.architecture").unwrap().is_some());
                assert!(g.array_of("tokenizer.ggml.tokens", ValueType::Str).unwrap().is_some());
            }
        }
    }
}

#[test]
fn reads_what_the_sample_says() {
    let file = sample();
    let g = Gguf::parse(&file, file.len() as u64).unwrap();
    walk(&g, file.len() as u64, &file);
    assert_eq!((g.version(), g.alignment(), g.kv_count(), g.tensor_count()), (3, 64, 9, 3));
    assert_eq!(g.u32("llama.block_count"), Ok(Some(1)));
    assert_eq!(g.f32("eps"), Ok(Some(1e-5)));
    assert_eq!(g.bool("flag"), Ok(Some(true)));
    assert_eq!(g.u32("none"), Ok(None));
    let tokens: Vec<_> = g.array("tokens").unwrap().unwrap().strings().unwrap().collect();
    assert_eq!(tokens, [(8, "a"), (17, ""), (25, "ü")]);
    assert_eq!(g.array("scores").unwrap().unwrap().f32_at(1), Some(-1.0));
    assert_eq!(g.array("scores").unwrap().unwrap().f32_at(2), None);
    let a = g.tensor("a.weight").unwrap().bind(&file).unwrap();
    assert_eq!((a.format(), a.rows(), a.cols(), a.data()), (Format::Q4_0, 2, 32, &[1; 36][..]));
    let c = g.tensor("c.weight").unwrap();
    assert_eq!((c.dims, c.n_dims), ([4, 2, 3, 1], 3));
    assert_eq!(c.bind(&file).unwrap().rows(), 6);
    assert!(c.bind(&file[..file.len() - 64]).is_err());
}

#[test]
fn getters_name_key_found_and_wanted() {
    let file = sample();
    let g = Gguf::parse(&file, file.len() as u64).unwrap();
    let said = |e: GgufError| format!("{e}");
    assert!(said(g.u32("eps").unwrap_err()).starts_with("key 'eps': is f32, not an integer (byte "));
    assert!(said(g.u32("big").unwrap_err()).starts_with("key 'big': -5 is out of range"));
    assert!(
        said(g.str("tokens").unwrap_err()).starts_with("key 'tokens': is array of strings, not a string")
    );
    let e = g.array_of("scores", ValueType::Str).unwrap_err();
    assert!(said(e).starts_with("key 'scores': is array of f32s, not an array of strings"));
}

/// The header alone is enough, and less of it asks for more.
#[test]
fn a_short_head_asks_for_more() {
    let file = sample();
    let len = file.len() as u64;
    let header = Gguf::parse(&file, len).unwrap().header_len();
    for n in 0..header {
        let e = Gguf::parse(&file[..n], len).unwrap_err();
        assert!(e.needs_more(), "{n}: {e}");
    }
    let g = Gguf::parse(&file[..header], len).unwrap();
    walk(&g, len, &[]);
}
