//! Tokenizers against real vocabularies: expected ids, round trips, cost.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use katydid_core::arena::{ALIGN, Arena};
use katydid_core::gguf::Gguf;
use katydid_core::plan::{MemoryPlan, Part};
use katydid_core::text::{Detokenizer, Encode, Sizes, Tables, TextError, Tokenizer, scratch_len};
use katydid_tests::patience;
use proptest::prelude::*;

const VOCABS: [&str; 5] = ["gpt-2", "llama-bpe", "llama-spm", "phi-3", "qwen2"];

/// A file of the shared test data, or `None` with a message where it is absent.
fn shared(name: &str) -> Option<Vec<u8>> {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../shared").join(name);
    let bytes = std::fs::read(&path).ok();
    if bytes.is_none() {
        println!("skipped: {} absent", path.display());
    }
    bytes
}

/// A tokenizer over leaked memory, and the bytes its tables take.
fn build(file: Vec<u8>) -> (Tokenizer<'static>, u64) {
    let file: &'static [u8] = file.leak();
    let gguf = Gguf::parse(file, file.len() as u64).unwrap();
    let sizes = Sizes::of(&gguf).unwrap();
    let mut plan = MemoryPlan::new();
    Tables::lay_out(&mut plan, &sizes).unwrap();
    let memory = vec![0xa5; plan.total() as usize + ALIGN].leak();
    let mut arena = Arena::new(memory);
    let tables = Tables::lay_out(&mut arena, &sizes).unwrap();
    (Tokenizer::build(&gguf, tables).unwrap(), plan.part(Part::Tokenizer))
}

fn vocab(name: &str) -> Option<Tokenizer<'static>> {
    shared(&format!("vocab/ggml-vocab-{name}.gguf")).map(|file| build(file).0)
}

fn encode(t: &Tokenizer<'_>, text: &[u8], how: Encode) -> Vec<u32> {
    let mut scratch = vec![u32::MAX; scratch_len(text.len())];
    let mut out = vec![0; text.len() * 3 + 8];
    let n = t.encode(text, how, &mut scratch, &mut out).unwrap();
    out.truncate(n);
    out
}

fn decode(t: &Tokenizer<'_>, ids: &[u32]) -> String {
    let (mut state, mut text) = (Detokenizer::new(false), String::new());
    for &id in ids {
        state.push(t, id, &mut text).unwrap();
    }
    state.flush(&mut text).unwrap();
    text
}

/// All bytes of the tokens, as [`Tokenizer::token_bytes`] gives them.
fn raw(t: &Tokenizer<'_>, ids: &[u32]) -> Vec<u8> {
    let (mut out, mut all) = (vec![0; 1 << 16], Vec::new());
    for &id in ids {
        let n = t.token_bytes(id, false, &mut out).unwrap();
        all.extend_from_slice(&out[..n]);
    }
    all
}

#[test]
fn known_texts_give_known_tokens_and_come_back() {
    for name in VOCABS {
        let Some(t) = vocab(name) else { continue };
        let read =
            |ext| String::from_utf8(shared(&format!("vocab/ggml-vocab-{name}.gguf.{ext}")).unwrap()).unwrap();
        let (texts, ids) = (read("inp"), read("out"));
        let texts: Vec<&str> = texts.split("\n__ggml_vocab_test__\n").filter(|t| !t.is_empty()).collect();
        let expected: Vec<Vec<u32>> =
            ids.lines().map(|l| l.split_whitespace().map(|id| id.parse().unwrap()).collect()).collect();
        let expected: Vec<_> = expected.into_iter().filter(|ids| !ids.is_empty()).collect();
        assert_eq!(texts.len(), expected.len(), "{name}");
        assert!(texts.len() > 40);
        for (text, expected) in texts.iter().zip(expected) {
            let got = encode(&t, text.as_bytes(), Encode::PLAIN);
            assert_eq!(got, expected, "{name}: {text:?}");
            assert_eq!(decode(&t, &got), *text, "{name}");
        }
    }
}

#[test]
fn stories_prompts_begin_with_bos() {
    let Some(model) = shared("models/stories260K.gguf") else { return };
    let cases = shared("models/stories260K.greedy.json").unwrap();
    let (t, _) = build(model);
    let cases: serde_json::Value = serde_json::from_slice(&cases).unwrap();
    for case in cases["cases"].as_array().unwrap() {
        let (prompt, ids) = (case["prompt"].as_str().unwrap(), case["prompt_tokens"].as_array().unwrap());
        let ids: Vec<u32> = ids.iter().map(|id| id.as_u64().unwrap() as u32).collect();
        let got = encode(&t, prompt.as_bytes(), Encode::default());
        assert_eq!(got, ids);
        assert_eq!(decode(&t, &got), prompt);
    }
}

#[test]
fn special_tokens_are_parsed_only_when_asked() {
    if let Some(t) = vocab("qwen2") {
        let (start, end) = (t.find("<|im_start|>").unwrap(), t.find("<|im_end|>").unwrap());
        let text = b"<|im_start|>user\nhi<|im_end|>";
        let plain = encode(&t, text, Encode::PLAIN);
        assert!(!plain.contains(&start) && decode(&t, &plain).as_bytes() == text);
        let parsed = encode(&t, text, Encode { parse_special: true, ..Encode::default() });
        assert_eq!((parsed[0], parsed[parsed.len() - 1]), (start, end));
        assert_eq!(decode(&t, &parsed), "user\nhi");
        assert!(t.is_end(end) && t.is_end(t.eos().unwrap()) && !t.is_end(start));
    }
    if let Some(t) = vocab("llama-bpe") {
        let ids = encode(&t, b"<|eot_id|>", Encode { parse_special: true, ..Encode::default() });
        assert_eq!(ids, [128000, 128009]);
        assert!(t.is_end(128009) && t.is_end(128001));
    }
    if let Some(t) = vocab("phi-3") {
        // Special tokens of Phi-3 take the white space after them along.
        let parse = Encode { parse_special: true, ..Encode::PLAIN };
        assert_eq!(encode(&t, b"<|user|>\n hi<|end|>\n", parse), encode(&t, b"<|user|>hi<|end|>", parse));
        assert_eq!(decode(&t, &encode(&t, b"<|user|>\n hi<|end|>", parse)), "hi");
        assert_eq!(t.token_text(32010), Some("<|user|>"));
    }
}

#[test]
fn llama_spm_never_makes_control_or_byte_tokens_of_text() {
    for name in ["llama-spm", "phi-3"] {
        let Some(t) = vocab(name) else { continue };
        for text in ["<s>", "</s>", "<unk>", "<0x41>", "a<0x0A>b</s> c"] {
            let ids = encode(&t, text.as_bytes(), Encode::PLAIN);
            assert_eq!(decode(&t, &ids), text, "{name}: {ids:?}");
        }
    }
}

#[test]
fn tables_are_small_and_quickly_built() {
    for name in VOCABS {
        let Some(file) = shared(&format!("vocab/ggml-vocab-{name}.gguf")) else { continue };
        let start = Instant::now();
        let (t, bytes) = build(file);
        let took = start.elapsed();
        println!("{name}: {t:?}, {bytes} bytes of tables, built in {took:?}");
        assert!(bytes < if t.vocab_len() < 40_000 { 500_000 } else { 4_500_000 });
        assert!(took < Duration::from_secs(2) * patience());
    }
}

#[test]
fn a_megabyte_without_spaces_is_no_trouble() {
    for name in VOCABS {
        let Some(t) = vocab(name) else { continue };
        for unit in ["a", "ab", "=", "天", " ", "0", "\u{301}"] {
            let text = unit.repeat((1 << 20) / unit.len() / patience() as usize);
            let mut scratch = vec![0; scratch_len(text.len())];
            let mut out = vec![0; text.len() + 8];
            let start = Instant::now();
            let n = t.encode(text.as_bytes(), Encode::PLAIN, &mut scratch, &mut out).unwrap();
            let took = start.elapsed();
            println!("{name}: 1 MB of {unit:?}: {n} tokens in {took:?}");
            assert!(took < Duration::from_secs(2) * patience(), "{name} {unit:?}: {took:?}");
            assert_eq!(decode(&t, &out[..n]), text);
        }
    }
}

#[test]
fn too_little_room_says_how_much_is_needed() {
    let Some(t) = vocab("llama-spm") else { return };
    let text = b"Hello world";
    let ids = encode(&t, text, Encode::default());
    let mut scratch = vec![0; scratch_len(text.len())];
    let need = ids.len() as u64;
    assert_eq!(
        t.encode(text, Encode::default(), &mut scratch, &mut [0; 2]),
        Err(TextError::Out { need, have: 2 })
    );
    let short = t.encode(text, Encode::default(), &mut scratch[..3], &mut [0; 9]);
    assert!(matches!(short, Err(TextError::Scratch { have: 3, .. })));
}

/// Texts of the kinds that tokenizers treat differently, mixed.
fn texts() -> impl Strategy<Value = String> {
    let parts = prop_oneof![
        "[ \t\r\n]{1,4}",
        "[a-zA-Z']{1,9}",
        "[0-9]{1,5}",
        "[!-/:-@\\[-`{-~]{1,4}",
        "\\PC{1,6}",
        Just("'ll".to_owned()),
        Just("<|im_end|>".to_owned()),
        Just("<s>".to_owned()),
    ];
    proptest::collection::vec(parts, 0..12).prop_map(|parts| parts.concat())
}

#[test]
fn texts_come_back() {
    let vocabs: Vec<_> = VOCABS.iter().filter_map(|name| vocab(name)).collect();
    proptest!(ProptestConfig::with_cases(400), |(text in texts())| {
        // SentencePiece cannot tell U+2581 from a space.
        let text = text.replace('\u{2581}', "_");
        for t in &vocabs {
            let ids = encode(t, text.as_bytes(), Encode::PLAIN);
            prop_assert_eq!(decode(t, &ids), text.as_str());
        }
    });
}

#[test]
fn bytes_come_back_and_streams_equal_wholes() {
    let vocabs: Vec<_> = VOCABS.iter().filter_map(|name| vocab(name)).collect();
    let noise = proptest::collection::vec(any::<u8>(), 0..60);
    proptest!(ProptestConfig::with_cases(400), |(bytes in noise, ids in proptest::collection::vec(0..32000u32, 0..20))| {
        for t in &vocabs {
            let got = raw(t, &encode(t, &bytes, Encode::PLAIN));
            let lead = usize::from(t.kind() == "SPM" && !bytes.is_empty());
            prop_assert_eq!(&got[lead..], &bytes[..]);
            // Any tokens at all: the stream is the lossy reading of the whole.
            let (mut state, mut text) = (Detokenizer::continuing(false), String::new());
            let ids: Vec<u32> = ids.iter().copied().filter(|&id| id > 2).collect();
            for &id in &ids {
                state.push(t, id, &mut text).unwrap();
            }
            state.flush(&mut text).unwrap();
            let whole = raw(t, &ids);
            prop_assert_eq!(text, String::from_utf8_lossy(&whole));
        }
    });
}
