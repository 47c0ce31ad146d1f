//! Results that cannot be written, and results for machines.

use std::fs::OpenOptions;
use std::process::{Command, Stdio};
use std::sync::OnceLock;

use serde_json::Value;

use super::{changed, folder, good, katydid, model, text};

/// Every way to print something, with a text of many tokens.
fn verbs() -> Vec<Vec<String>> {
    static WORDS: OnceLock<String> = OnceLock::new();
    let words = WORDS.get_or_init(|| {
        let path = folder().join("words.txt");
        std::fs::write(&path, "some words to measure ".repeat(20)).unwrap();
        path.to_str().unwrap().to_owned()
    });
    let model = model();
    let all: [&[&str]; 11] = [
        &["run", model, "-p", "ab", "-n", "4"],
        &["inspect", model],
        &["inspect", model, "--keys", "--tensors", "--buffers"],
        &["inspect", model, "--json"],
        &["tokenize", model, "-p", "ab"],
        &["tokenize", model, "-p", "5 6", "--decode"],
        &["eval", "greedy", model, "--tokens", "5"],
        &["eval", "perplexity", model, "-f", words, "-c", "16"],
        &["eval", "perplexity", model, "-f", words, "-c", "16", "--json"],
        &["bench", model, "-p", "2", "-n", "2", "-r", "1"],
        &["bench", model, "-p", "2", "-n", "2", "-r", "1", "--json"],
    ];
    all.iter().map(|args| args.iter().map(|a| (*a).to_owned()).collect()).collect()
}

fn full() -> Stdio {
    OpenOptions::new().write(true).open("/dev/full").unwrap().into()
}

#[test]
fn what_cannot_be_written_is_a_failure() {
    for args in verbs() {
        let output = Command::new(env!("CARGO_BIN_EXE_katydid")).args(&args).stdout(full()).output().unwrap();
        let err = text(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{args:?}: {err}");
        assert!(err.contains("No space left on device"), "{args:?}: {err}");
    }
    let mut logits = katydid(["eval", "logits", model(), "--tokens", "5", "--out", "/dev/full"]);
    super::fails(&mut logits, "/dev/full is a device, pipe or socket; name a file");
    let mut logits = katydid(["eval", "logits", model(), "--tokens", "5", "--out", model()]);
    super::fails(&mut logits, "is the file to read: choose another name");
    let mut logits = katydid(["eval", "logits", model(), "--tokens", "5", "--out", "/no/such/folder"]);
    super::fails(&mut logits, "cannot write /no/such/folder: No such file");
}

#[test]
fn nobody_reads_the_result() {
    for args in verbs() {
        let mut child = Command::new(env!("CARGO_BIN_EXE_katydid"))
            .args(&args)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        drop(child.stdout.take());
        let output = child.wait_with_output().unwrap();
        let err = text(&output.stderr);
        assert_eq!(output.status.code(), Some(0), "{args:?}: {err}");
    }
}

#[test]
fn nobody_reads_the_messages() {
    for args in verbs() {
        let run = |err: Stdio| {
            let mut command = Command::new(env!("CARGO_BIN_EXE_katydid"));
            command.args(&args).stdin(Stdio::null()).stderr(err).output().unwrap()
        };
        let output = run(full());
        assert!(output.status.success(), "{args:?}: {}", output.status);
        assert!(!output.stdout.is_empty());
    }
    let status = Command::new(env!("CARGO_BIN_EXE_katydid"))
        .args(["inspect", "/no/such/file"])
        .stderr(full())
        .status()
        .unwrap();
    assert_eq!(status.code(), Some(1));
}

fn json(args: &[&str]) -> Value {
    serde_json::from_str(&good(&mut katydid(args))).expect("JSON")
}

#[test]
fn inspect_adds_up() {
    for args in [&[][..], &["-c", "77", "-j", "3"], &["-b", "5", "-j", "1"]] {
        let facts = json(&[&["inspect", model(), "--json"], args].concat());
        let memory = &facts["memory"];
        let number = |v: &Value| v.as_u64().expect("a number");
        let parts: u64 = memory["parts"].as_object().unwrap().values().map(number).sum();
        let buffers: u64 = memory["buffers"].as_array().unwrap().iter().map(|b| number(&b["bytes"])).sum();
        let (stacks, total) = (number(&memory["thread stacks"]), number(&memory["total"]));
        assert_eq!((parts, parts + stacks), (buffers, total), "{args:?}");
        assert_eq!(number(&facts["bytes"]), std::fs::metadata(model()).unwrap().len());
        let printed = good(&mut katydid([&["inspect", model()], args].concat()));
        let line = printed.lines().find(|l| l.trim_start().starts_with("total")).unwrap();
        assert_eq!(line.split_whitespace().nth(1), Some(total.to_string().as_str()), "{printed}");
        for (part, bytes) in memory["parts"].as_object().unwrap() {
            let line = printed.lines().find(|l| l.trim_start().starts_with(part.as_str())).unwrap();
            assert!(line.contains(&format!(" {bytes} B")), "{part}: {line}");
        }
    }
    assert!(json(&["inspect", &changed("odd.gguf", |m| _ = m.unset("llama.block_count")), "--json"])["memory"]
        ["error"]
        .as_str()
        .unwrap()
        .contains("llama.block_count"));
}

#[test]
fn bench_in_its_agreed_form() {
    let all = json(&["bench", model(), "-p", "6", "-n", "3", "-d", "4", "-j", "1,2", "-r", "1", "--json"]);
    let rows = all["results"].as_array().unwrap();
    let row = |r: &Value| {
        (
            r["kind"].as_str().unwrap().to_owned(),
            r["tokens"].as_u64(),
            r["threads"].as_u64(),
            r["context"].as_u64(),
        )
    };
    let want =
        |kind: &str, tokens, threads, context| (kind.to_owned(), Some(tokens), Some(threads), Some(context));
    let got: Vec<_> = rows.iter().map(row).collect();
    let both = |j| [want("prefill", 6, j, 0), want("decode", 3, j, 4)];
    assert_eq!(got, [both(1), both(2)].concat());
    assert!(rows.iter().all(|r| r["tok_s"].as_f64().is_some_and(|x| x.is_finite() && x > 0.0)), "{all}");
    let only = json(&["bench", model(), "-p", "0", "-n", "2", "-r", "1", "--json"]);
    assert_eq!(only["results"].as_array().unwrap().len(), 1);
}

#[test]
fn tokens_in_three_forms() {
    let ids = good(&mut katydid(["tokenize", model(), "-p", "ab zz", "--ids"]));
    let list = json(&["tokenize", model(), "-p", "ab zz", "--json"]);
    let all: Vec<String> = list.as_array().unwrap().iter().map(|t| t["id"].to_string()).collect();
    assert_eq!(ids, all.join(" ") + "\n");
    assert_eq!(good(&mut katydid(["tokenize", model(), "-p", "ab zz"])).lines().count(), all.len());
    assert_eq!(good(&mut katydid(["tokenize", model(), "--decode", "-p", &ids])), "ab zz");
    assert_eq!(good(&mut katydid(["tokenize", model(), "-p", "", "--ids"])), "\n");
    assert_eq!(good(&mut katydid(["tokenize", model(), "-p", "", "--ids", "--bos"])), "1\n");
}
