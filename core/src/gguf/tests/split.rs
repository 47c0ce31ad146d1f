//! Models over several files.

use super::super::split::{Part, Parts, SplitName, split_name};
use super::*;
use std::string::ToString;

/// Part `no` of `count`, of `tensors` in all, holding the tensors `names`.
fn part(no: u32, count: u32, tensors: i32, names: &[&str]) -> Vec<u8> {
    let mut file = Vec::new();
    let sink = |bytes: &[u8]| {
        file.extend_from_slice(bytes);
        Ok::<(), Infallible>(())
    };
    let mut out = Emit::new(sink, 3, 3, names.len() as u64).unwrap();
    out.put("split.no", Value::U16(no as u16)).unwrap();
    out.put("split.count", Value::U16(count as u16)).unwrap();
    out.put("split.tensors.count", Value::I32(tensors)).unwrap();
    let slots: Vec<_> = names.iter().map(|n| out.tensor(n, &[1], Format::F32).unwrap()).collect();
    for slot in slots {
        out.weights(slot, &[no as u8; 4]).unwrap();
    }
    out.finish().unwrap();
    file
}

/// What [`Parts::new`] says about `files`: its tensor count, or the message.
fn check(files: &[Vec<u8>]) -> std::string::String {
    let parse = |f| Gguf::parse(f, f.len() as u64).unwrap();
    let parts: Vec<_> = files.iter().map(|f| Part { gguf: parse(f), bytes: f }).collect();
    match Parts::new(&parts) {
        Ok(all) => all.tensors().count().to_string(),
        Err(e) => e.to_string(),
    }
}

#[test]
fn parts_make_one_model() {
    let files = [part(0, 2, 3, &["a", "b"]), part(1, 2, 3, &["c"])];
    let parse = |f: &'static [u8]| Gguf::parse(f, f.len() as u64).unwrap();
    let parts = files.clone().map(|f| {
        let bytes: &'static [u8] = f.leak();
        Part { gguf: parse(bytes), bytes }
    });
    let all = Parts::new(&parts).unwrap();
    assert_eq!(all.meta().tensor_count(), 2);
    assert_eq!(all.tensor("c").unwrap().unwrap().data(), [1; 4]);
    assert_eq!(all.find("b").unwrap().0, 0);
    assert_eq!(all.tensor("d"), Ok(None));
    let elsewhere = parts.map(|p| Part { bytes: &[], ..p });
    assert!(Parts::new(&elsewhere).unwrap().tensor("c").is_err());
}

#[test]
fn parts_that_do_not_belong_together_are_refused() {
    let [a, b] = [part(0, 2, 3, &["a", "b"]), part(1, 2, 3, &["c"])];
    assert_eq!(check(&[sample()]), "3");
    assert_eq!(check(&[part(0, 1, 1, &["a"])]), "1");
    assert_eq!(check(&[a.clone(), b.clone()]), "3");
    let says = |files: &[Vec<u8>], what: &str| {
        let said = check(files);
        assert!(said.contains(what), "{said}");
    };
    says(&[], "0 given");
    says(core::slice::from_ref(&a), "split into 2 files, of which 1 given");
    says(&[b.clone(), a.clone()], "part 2 of a split model in place of part 1");
    says(core::slice::from_ref(&b), "part 2 of a split model in place of part 1");
    says(&[a.clone(), a.clone()], "part 1 of a split model in place of part 2");
    says(&[a.clone(), b.clone(), b.clone()], "of");
    says(&[a.clone(), part(1, 3, 3, &["c"])], "split into 3 files");
    says(&[a.clone(), part(1, 2, 3, &["b"])], "tensor 'b': occurs twice");
    says(&[a.clone(), part(1, 2, 3, &["c", "d"])], "hold 4 tensors together, not 3");
    says(&[part(0, 2, -1, &["a"]), part(1, 2, 3, &[])], "-1 is out of range");
    says(&[a, sample()], "without 'split.count'");
    says(&[sample(), b], "without 'split.count'");
}

#[test]
fn names_of_parts() {
    let name = split_name(b"/m/big-00002-of-00013.gguf").unwrap();
    assert_eq!(name, SplitName { prefix: b"/m/big", number: 2, count: 13 });
    assert_eq!(&name.suffix(13), b"-00013-of-00013.gguf");
    assert_eq!(&name.suffix(1), b"-00001-of-00013.gguf");
    let no =
        ["", ".gguf", "big.gguf", "x-00000-of-00003.gguf", "x-00004-of-00003.gguf", "x-0000a-of-00003.gguf"];
    for path in
        no.into_iter().chain(["x-00001-of-00003.ggup", "x_00001-of-00003.gguf", "x-00001-of+00003.gguf"])
    {
        assert_eq!(split_name(path.as_bytes()), None, "{path}");
    }
}
