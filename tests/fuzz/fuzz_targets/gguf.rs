//! Any bytes as a model file: never a panic, never a range outside the file,
//! and what was read can be written and read again.
#![no_main]

use std::convert::Infallible;

use katydid_core::gguf::emit::{Emit, EmitError};
use katydid_core::gguf::{Array, Gguf, Part, Parts, TensorInfo, Value, split_name};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let len = data.len() as u64;
    check(data, len);
    // The same as the beginning of a large file.
    check(data, len.saturating_mul(1 << 20));
    check(data, u64::MAX);
    let _ = split_name(data);
});

fn check(head: &[u8], file_len: u64) {
    let gguf = match Gguf::parse(head, file_len) {
        Ok(gguf) => gguf,
        Err(e) => {
            assert!(!e.needs_more() || (head.len() as u64) < file_len);
            assert!(!e.to_string().contains(char::is_control));
            return;
        }
    };
    let mut free = gguf.data_start();
    for t in gguf.tensors() {
        assert!(t.offset >= free && t.offset % gguf.alignment() == 0);
        free = t.offset.checked_add(t.size).unwrap();
        assert!(free <= file_len);
        assert_eq!(gguf.tensor(t.name), Some(t));
        if let Ok(r) = t.bind(head) {
            assert_eq!(r.data().len(), r.rows() * r.row_bytes());
        }
    }
    let whole = head.len() as u64 == file_len;
    assert!(!whole || gguf.tensors().all(|t| t.bind(head).is_ok()));
    for (key, value) in gguf.entries() {
        let _ = (gguf.str(key), gguf.u32(key), gguf.f32(key), gguf.bool(key));
        let again = gguf.get(key).map(|v| v.value_type());
        assert_eq!(again, Some(value.value_type()));
        if let Value::Array(a) = value {
            check_array(&a);
        }
    }
    if let Ok(all) = Parts::new(&[Part { gguf, bytes: head }]) {
        assert_eq!(all.tensors().count() as u64, gguf.tensor_count());
    }
    // At the very end of the address space the writer's padding does not fit.
    if file_len < u64::MAX {
        round_trip(&gguf);
    }
}

fn check_array(a: &Array<'_>) {
    let strings =
        a.strings().into_iter().flatten().map(|(at, text)| assert_eq!(a.string_at(at), text)).count();
    let arrays = a.arrays().into_iter().flatten().map(|inner| check_array(&inner)).count();
    let numbers = a.u32s().map_or(0, Iterator::count)
        + a.i32s().map_or(0, Iterator::count)
        + a.f32s().map_or(0, Iterator::count);
    let found = strings + arrays + numbers;
    assert!(found == a.len() || (found == 0 && a.item_type().size().is_some()));
    let _ = (a.string_at(a.len()), a.u32_at(a.len()), a.f32_at(usize::MAX));
    assert_eq!(Array::new(a.item_type(), a.len(), a.bytes()), Ok(*a));
}

/// Writes the header again, without data, and compares.
fn round_trip(gguf: &Gguf<'_>) {
    let mut head = Vec::new();
    let end = write(gguf, &mut head).unwrap();
    let again = Gguf::parse(&head, (head.len() as u64 + gguf.alignment()).saturating_add(end)).unwrap();
    assert_eq!((again.version(), again.alignment()), (gguf.version(), gguf.alignment()));
    // Compared as text, for a NaN is not equal to itself.
    let same = |(a, b): ((&str, Value<'_>), (&str, Value<'_>))| {
        assert_eq!(format!("{a:?}"), format!("{b:?}"));
        if let (Value::Array(a), Value::Array(b)) = (a.1, b.1) {
            assert_eq!(a, b);
        }
    };
    assert_eq!(gguf.kv_count(), again.kv_count());
    gguf.entries().zip(again.entries()).for_each(same);
    assert_eq!(gguf.tensor_count(), again.tensor_count());
    for (a, b) in gguf.tensors().zip(again.tensors()) {
        assert_eq!(a, TensorInfo { offset: a.offset, ..b });
    }
}

/// Writes the header of `gguf`; returns the bytes of data that belong to it.
fn write(gguf: &Gguf<'_>, into: &mut Vec<u8>) -> Result<u64, EmitError<Infallible>> {
    let sink = |bytes: &[u8]| {
        into.extend_from_slice(bytes);
        Ok(())
    };
    let mut out = Emit::new(sink, gguf.version(), gguf.kv_count(), gguf.tensor_count())?;
    for (key, value) in gguf.entries() {
        out.put(key, value)?;
    }
    let mut end = 0;
    for t in gguf.tensors() {
        let slot = out.tensor(t.name, &t.dims[..t.n_dims as usize], t.format)?;
        end = slot.offset + slot.size;
    }
    Ok(end)
}
