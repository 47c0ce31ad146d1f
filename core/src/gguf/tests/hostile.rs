//! Files that lie.

use super::*;
use std::string::{String, ToString};
use std::time::Instant;

/// A header put together by hand, lies included.
struct Raw(Vec<u8>);

impl Raw {
    fn new(version: u32, tensors: u64, keys: u64) -> Self {
        Self(b"GGUF".to_vec()).u32(version).u64(tensors).u64(keys)
    }

    fn bytes(mut self, b: &[u8]) -> Self {
        self.0.extend_from_slice(b);
        self
    }

    fn u32(self, v: u32) -> Self {
        self.bytes(&v.to_le_bytes())
    }

    fn u64(self, v: u64) -> Self {
        self.bytes(&v.to_le_bytes())
    }

    fn text(self, t: &[u8]) -> Self {
        self.u64(t.len() as u64).bytes(t)
    }

    fn tensor(self, name: &str, dims: &[u64], kind: u32, offset: u64) -> Self {
        let raw = dims.iter().fold(self.text(name.as_bytes()).u32(dims.len() as u32), |r, d| r.u64(*d));
        raw.u32(kind).u64(offset)
    }

    /// Zeros up to byte `len`.
    fn pad(mut self, len: usize) -> Self {
        self.0.resize(len, 0);
        self
    }

    /// What parsing says.
    #[track_caller]
    fn says(self, what: &str) {
        says(&self.0, what);
    }
}

fn key(name: &[u8], kind: u32) -> Raw {
    Raw::new(3, 0, 1).text(name).u32(kind)
}

fn one_tensor(dims: &[u64], kind: u32, offset: u64) -> Raw {
    Raw::new(3, 1, 0).tensor("t", dims, kind, offset).pad(1024)
}

fn parse(file: &[u8]) -> String {
    match Gguf::parse(file, file.len() as u64) {
        Ok(g) => {
            walk(&g, file.len() as u64, file);
            "ok".to_string()
        }
        Err(e) => {
            assert!(!e.needs_more(), "there is no more than the whole file");
            let said = e.to_string();
            assert!(!said.contains(char::is_control), "{said:?}");
            said
        }
    }
}

#[track_caller]
fn says(file: &[u8], what: &str) {
    let said = parse(file);
    assert!(said.contains(what), "wanted {what:?}, got {said:?}");
}

#[test]
fn other_files() {
    says(b"", "not a GGUF file (it is empty): it is cut short, download it again");
    says(b"GGU", "not a GGUF file (starts with \"GGU\"): it is cut short");
    says(b"GGUF", "the file ends before the 4 bytes that a version needs");
    says(b"hello, this is text", "not a GGUF file (starts with \"hello, t\"): choose a .gguf file");
    says(b"version https://git-lfs", "it is a Git LFS pointer");
    says(b"<!doctype html>", "it is a web page");
    says(b"tjgg\x01\0\0\0", "starts with \"tjgg\\x01\\x00\\x00\\x00\"): it is a GGML file from before GGUF");
    says(b"\x1b[2J\x1b[2J", "starts with \"\\x1b[2J");
    Raw::new(1, 0, 0).says("GGUF version 1, of which we read 2 and 3: re-convert");
    Raw::new(4, 0, 0).says("GGUF version 4, of which we read 2 and 3: update katydid");
    Raw::new(0, 0, 0).says("GGUF version 0");
    Raw::new(0x0300_0000, 0, 0).says("GGUF file for big-endian machines");
    Raw::new(2, 0, 0).says("ok");
}

#[test]
fn counts() {
    Raw::new(3, 1 << 62, 0).says("claims 4611686018427387904 tensors, more than the 65536");
    Raw::new(3, 0, 1 << 60).says("claims 1152921504606846976 keys, more than the 1024");
    Raw::new(3, 65_536, 0).says("the file ends before the 2162688 bytes that a tensor table needs (byte 24)");
    Raw::new(3, 0, 1024).says("that a key table needs");
}

#[test]
fn keys() {
    Raw::new(3, 0, 1)
        .u64(u64::MAX)
        .pad(100)
        .says("ends before the 18446744073709551615 bytes that a key needs");
    Raw::new(3, 0, 1).text(b"").u32(0).pad(100).says("has no name");
    Raw::new(3, 0, 1).text(&[b'k'; 65_536]).u32(0).pad(66_000).says("the name is 65536 bytes long");
    key(b"\xff\xfe", 0).pad(100).says("not UTF-8 (byte 24)");
    key(b"a\0b", 0).pad(100).says("control character in the name");
    Raw::new(3, 0, 2)
        .text(b"k\xc3\xa4")
        .u32(0)
        .bytes(b"1")
        .text(b"k\xc3\xa4")
        .u32(0)
        .bytes(b"2")
        .says("key 'kä': occurs twice (byte 40)");
}

#[test]
fn values() {
    key(b"k", 13).pad(100).says("key 'k': unknown value type 13 (byte 33)");
    key(b"k", u32::MAX).pad(100).says("unknown value type 4294967295");
    key(b"k", 8)
        .u64(u64::MAX)
        .says("key 'k': the file ends before the 18446744073709551615 bytes that a string needs");
    key(b"k", 8).u64(1 << 40).says("key 'k': the file ends before the 1099511627776 bytes");
    key(b"k", 8).text(b"\xff").says("key 'k': text is not UTF-8");
    key(b"k", 8).text(b"a\0b").says("ok");
    key(b"k", 7).bytes(&[7]).says("key 'k': truth value 7, neither 0 nor 1 (byte 37)");
    key(b"k", 10).u32(1).says("that a value needs");
}

#[test]
fn arrays() {
    for (item, least) in [(0, 1), (4, 4), (6, 4), (8, 8), (9, 12), (10, 8)] {
        for count in [u64::MAX, 1 << 63, 1 << 61, 1 << 60, 1 << 32, 100 / least + 1] {
            key(b"k", 9).u32(item).u64(count).pad(49 + 100).says("key 'k': the file ends before the");
        }
    }
    key(b"k", 9).u32(99).u64(1).pad(100).says("unknown value type 99");
    key(b"k", 9).u32(7).u64(3).bytes(&[0, 1, 2]).says("key 'k': truth value 2, neither 0 nor 1 (byte 51)");
    key(b"k", 9).u32(8).u64(2).text(b"ok").text(b"\xff").says("key 'k': text is not UTF-8 (byte 59)");
    let nested = |depth| (0..depth).fold(key(b"k", 9), |raw, _| raw.u32(9).u64(1)).u32(0).u64(1).bytes(&[5]);
    nested(4).says("ok");
    nested(5).says("key 'k': arrays nested too deeply");
    nested(100_000).says("arrays nested too deeply");
}

#[test]
fn alignments() {
    let with = |a: u32, offset: u64| {
        let raw = Raw::new(3, 1, 1).text(b"general.alignment").u32(4).u32(a);
        raw.tensor("t", &[1], 0, offset).pad(1024)
    };
    with(0, 0).says("key 'general.alignment': alignment 0 is not a power of two");
    with(3, 0).says("key 'general.alignment': alignment 3 is not a power of two");
    with(1 << 31, 0).says("tensor 't': ends at byte 2147483652 of a file of 1024 bytes");
    with(1 << 31, 1).says("offset 1 is not a multiple of the alignment 2147483648");
    with(8, 8).says("ok");
    with(1, 5).says("ok");
    with(64, 32).says("offset 32 is not a multiple of the alignment 64");
    key(b"general.alignment", 10).u64(32).says("key 'general.alignment': is u64, not a u32");
    key(b"general.alignment", 8).text(b"32").says("is string, not a u32");
}

#[test]
fn tensors() {
    one_tensor(&[8], 0, 0).says("ok");
    one_tensor(&[], 0, 0).says("tensor 't': 0 dimensions, not 1 to 4");
    one_tensor(&[1; 5], 0, 0).says("5 dimensions");
    Raw::new(3, 1, 0).text(b"t").u32(4096).pad(40_000).says("4096 dimensions");
    Raw::new(3, 1, 0).text(b"t").u32(u32::MAX).pad(100).says("4294967295 dimensions");
    one_tensor(&[8, 0], 0, 0).says("a dimension is zero");
    one_tensor(&[1 << 32, 1 << 32], 0, 0).says("tensor 't': the dimensions are too large");
    one_tensor(&[1 << 63, 2, 2, 2], 0, 0).says("too large");
    one_tensor(&[u64::MAX], 0, 0).says("too large");
    one_tensor(&[31], 2, 0).says("rows of 31 are not whole Q4_0 blocks of 32");
    one_tensor(&[128], 12, 0).says("rows of 128 are not whole Q4_K blocks of 256");
    one_tensor(&[8], 0, 1 << 62).says("ends at byte 46116860184273880");
    one_tensor(&[8], 0, u64::MAX - 31).says("ends at byte 18446744073709551615");
    one_tensor(&[8], 0, 33).says("offset 33 is not a multiple of the alignment 32");
    one_tensor(&[1 << 40], 0, 0).says("of a file of 1024 bytes");
    one_tensor(&[241], 0, 0)
        .says("tensor 't': ends at byte 1028 of a file of 1024 bytes (byte 24): it is cut short");
    one_tensor(&[240], 0, 0).says("ok");
    Raw::new(3, 1, 0).tensor(&"n".repeat(65), &[1], 0, 0).pad(200).says("the name is 65 bytes long");
    Raw::new(3, 1, 0).tensor(&"n".repeat(64), &[1], 0, 0).pad(200).says("ok");
    Raw::new(3, 1, 0).tensor("", &[1], 0, 0).pad(200).says("has no name");
    Raw::new(3, 1, 0).tensor("a\nb", &[1], 0, 0).pad(200).says("control character");
}

#[test]
fn tensor_types() {
    for (id, name) in [(4, "Q4_2"), (16, "IQ2_XXS"), (15, "Q8_K"), (39, "MXFP4"), (34, "TQ1_0")] {
        one_tensor(&[256], id, 0).says(&format!("tensor 't': type {name} (id {id}), which "));
    }
    one_tensor(&[256], 43, 0).says("unknown type id 43");
    one_tensor(&[256], u32::MAX, 0).says("unknown type id 4294967295");
    // Every id is either read or explained.
    for id in 0..43 {
        assert!(
            crate::quant::Format::from_id(id).is_some()
                || !parse(&one_tensor(&[256], id, 0).0).contains("unknown")
        );
    }
}

#[test]
fn pairs_of_tensors() {
    let two = |a: &str, at: u64, b: &str, bt: u64| {
        Raw::new(3, 2, 0).tensor(a, &[16], 0, at).tensor(b, &[16], 0, bt).pad(1024)
    };
    two("a", 0, "b", 64).says("ok");
    two("a", 0, "b", 128).says("ok");
    two("a", 0, "b", 0).says("tensor 'b': begins before the tensor listed before it ends");
    two("a", 0, "b", 32).says("begins before");
    two("a", 64, "b", 0).says("begins before");
    two("a", 0, "a", 64).says("tensor 'a': occurs twice (byte 57)");
}

/// No prefix of a file is a file, except where only the padding at the end is
/// missing.
#[test]
fn cut_anywhere() {
    let file = sample();
    let end =
        Gguf::parse(&file, file.len() as u64).unwrap().tensors().map(|t| t.offset + t.size).max().unwrap();
    for len in 0..file.len() {
        assert_eq!(parse(&file[..len]) == "ok", len as u64 >= end, "cut to {len} bytes");
    }
}

/// Every change of one byte is either refused or gives another sound file.
#[test]
fn every_mutation_of_one_byte() {
    let mut file = sample();
    let header = Gguf::parse(&file, file.len() as u64).unwrap().header_len();
    let mut sound = 0;
    for i in 0..header {
        let was = file[i];
        for b in 0..=255 {
            file[i] = b;
            sound += usize::from(parse(&file) == "ok");
        }
        file[i] = was;
    }
    // Values and letters of names may change, so some must pass.
    assert!(sound > header, "{sound}");
}

#[test]
fn names_that_occur_twice_are_found_wherever_they_are() {
    let n = 1500;
    for (first, second) in [(0, 1), (0, 1499), (511, 512), (512, 513), (700, 1400), (1498, 1499)] {
        let names: Vec<_> =
            (0..n).map(|i| format!("blk.{}.weight", if i == second { first } else { i })).collect();
        let twice = duplicate(names.iter().map(|s| s.as_bytes()));
        assert_eq!(twice, Some(names[first].as_bytes()), "{first} and {second}");
    }
    let names: Vec<_> = (0..n).map(|i| format!("blk.{i}.weight")).collect();
    assert_eq!(duplicate(names.iter().map(|s| s.as_bytes())), None);
}

/// As many tensors as are read at all, with names alike up to the end.
#[test]
fn the_most_tensors() {
    let n = MAX_TENSORS as u32;
    let alike = "x".repeat(56);
    let head = (0..n).fold(Raw::new(3, n.into(), 0), |r, i| {
        r.tensor(&format!("{alike}{i:08}"), &[1], 0, 32 * u64::from(i))
    });
    let data = head.0.len().next_multiple_of(32) as u64;
    let start = Instant::now();
    let g = Gguf::parse(&head.0, data + 32 * u64::from(n)).unwrap();
    println!("{n} tensors parsed in {:?}", start.elapsed());
    assert_eq!(g.tensors().count(), n as usize);
}

/// The slowest headers that fit the limits.
#[test]
#[ignore = "takes a gigabyte of memory and seconds without optimisation; run by name"]
fn the_longest_headers() {
    let room = MAX_HEADER as usize - 64;
    let strings = |raw: Raw, name: String, n: u64| {
        let raw = raw.text(name.as_bytes()).u32(9).u32(8).u64(n);
        let len = raw.0.len() + 8 * n as usize;
        raw.pad(len)
    };
    let many = (0..MAX_KEYS).fold(Raw::new(3, 0, MAX_KEYS), |r, i| {
        strings(r, format!("k{i:04}"), (room as u64 / MAX_KEYS - 40) / 8)
    });
    let one = strings(Raw::new(3, 0, 1), "k".to_string(), (room as u64 - 60) / 8);
    let long = (0..MAX_KEYS)
        .fold(Raw::new(3, 0, MAX_KEYS), |r, i| r.text(format!("{i:065000}").as_bytes()).u32(0).bytes(&[0]));
    for (what, file) in [("arrays", many), ("one array", one), ("long keys", long)] {
        let start = Instant::now();
        let result = Gguf::parse(&file.0, file.0.len() as u64);
        println!("{what}: {} bytes in {:?}", file.0.len(), start.elapsed());
        assert!(result.is_ok());
    }
}
