//! llguidance as judge of masks: where both mean the same by a schema, the same
//! tokens may come.
//!
//! Random texts are walked token by token, through tokens that both allow. A
//! token that one alone allows is put down to a cause, told by rough marks of the
//! schema and the place in the text; a cause that is not in [`KNOWN`] fails the
//! test, and so do more tokens of a known one than there were.

use std::collections::BTreeMap;
use std::sync::Arc;

use katydid_core::grammar::{Options, Spacing};
use katydid_core::sample::Constraint;
use katydid_core::text::{TokenKind, Tokenizer};
use katydid_tests::random::Random;
use llguidance::api::TopLevelGrammar;
use llguidance::toktrie::{ApproximateTokEnv, InferenceCapabilities, TokEnv, TokRxInfo, TokTrie};
use llguidance::{JsonCompileOptions, Matcher, ParserFactory};
use serde_json::Value;

use super::support::{compile, constrained, schemas, tiny_vocab, trie};

/// The vocabulary as llguidance takes it: control tokens begin with 0xff.
fn token_env(t: &Tokenizer<'_>) -> TokEnv {
    let n = t.vocab_len() as u32;
    let text = |id: u32| match t.token_kind(id) {
        TokenKind::Normal | TokenKind::Byte | TokenKind::UserDefined => t.bytes(id, false).collect(),
        _ => [b"\xff", id.to_string().as_bytes()].concat(),
    };
    let words: Vec<Vec<u8>> = (0..n).map(text).collect();
    let end = (0..n).find(|&id| t.is_end(id)).unwrap();
    Arc::new(ApproximateTokEnv::new(TokTrie::from(&TokRxInfo::new(n, end), &words)))
}

/// What our reading of a schema leaves out, said aloud: objects that list their
/// members have no others.
fn closed(value: &mut Value) {
    match value {
        Value::Object(map) => {
            if map.contains_key("properties") && !map.contains_key("additionalProperties") {
                map.insert("additionalProperties".into(), false.into());
            }
            map.values_mut().for_each(closed);
        }
        Value::Array(all) => all.iter_mut().for_each(closed),
        _ => {}
    }
}

fn theirs(factory: &ParserFactory, schema: &str) -> Option<Matcher> {
    let mut value: Value = serde_json::from_str(schema).unwrap();
    if !value.is_object() {
        return None;
    }
    closed(&mut value);
    let options = JsonCompileOptions {
        whitespace_flexible: false,
        json_allowed_escapes: Some("nrbtf\\\"u".into()),
        ..JsonCompileOptions::default()
    };
    options.apply_to(&mut value);
    let made = factory.create_parser(TopLevelGrammar::from_json_schema(value));
    made.ok().map(|parser| Matcher::new(Ok(parser))).filter(|m| !m.is_error())
}

/// Why masks differ, and for how many tokens at most. Two differences are of
/// meaning: they do not read `contentSchema`, `nullable` and some formats as we
/// do, and they want members in the schema's order even before others may come.
const KNOWN: [(&str, usize); 11] = [
    // Only we read the schema of JSON within a string.
    ("JSON in a string, ours", 84),
    ("JSON in a string, theirs", 8370),
    // JSON allows it in strings as it is.
    ("delete character, ours", 2561),
    // `\/`, which is JSON but nobody needs.
    ("escape, ours", 107),
    // Keys of any name: ours have no escapes.
    ("escape, theirs", 236),
    // They take dates that no month has.
    ("format, theirs", 11_781),
    // Numbers of any size: our exponents end earlier.
    ("no type, theirs", 68),
    ("nullable, ours", 81),
    ("number, ours", 9),
    // `-0` for an integer.
    ("number, theirs", 992),
    // Further members before those that are listed.
    ("string, ours", 9198),
];

/// What a text is in the middle of.
fn place(text: &[u8]) -> &'static str {
    let (mut inside, mut escape, mut number) = (false, 0, false);
    for &b in text {
        match (inside, b) {
            (true, _) if escape > 0 => escape = if b == b'u' { 4 } else { escape - 1 },
            (true, b'\\') => escape = 1,
            (true, b'"') => inside = false,
            (true, _) => {}
            (false, b'"') => inside = true,
            (false, b'-' | b'0'..=b'9' | b'.' | b'e' | b'E' | b'+') => number = true,
            (false, _) => number = false,
        }
    }
    match (inside, escape > 0, number) {
        (true, true, _) => "escape",
        (true, ..) => "string",
        (_, _, true) => "number",
        _ => "structure",
    }
}

/// Why a token may be allowed by one alone.
fn cause(schema: &str, text: &[u8], token: &[u8], ours: bool) -> String {
    let at = place(text);
    let after = place(&[text, token].concat());
    let who = if ours { "ours" } else { "theirs" };
    let has = |k: &str| schema.contains(k);
    let what = if has("\"format\"") {
        "format"
    } else if has("contentSchema") {
        "JSON in a string"
    } else if has("nullable") {
        "nullable"
    } else if !has("\"type\"") || has("{\"properties\"") {
        "no type"
    } else if token.contains(&0x7f) {
        "delete character"
    } else if at == "escape" || after == "escape" || token.contains(&b'\\') {
        "escape"
    } else if at == "number" || after == "number" {
        "number"
    } else {
        at
    };
    format!("{what}, {who}")
}

#[test]
fn masks_agree_with_llguidance() {
    let t = tiny_vocab();
    let (trie, env) = (trie(&t), token_env(&t));
    let mut factory = ParserFactory::new(&env, InferenceCapabilities::default(), &[]).unwrap();
    factory.quiet();
    let (mut compared, mut masks, mut same) = (0, 0, 0);
    let mut causes: BTreeMap<String, (usize, String)> = BTreeMap::new();
    for schema in schemas() {
        let Some(first) = theirs(&factory, &schema) else { continue };
        compared += 1;
        let options = Options { spacing: Spacing::Compact, ..Options::default() };
        let mut c = constrained(compile(&schema, &options).unwrap(), t, trie);
        let mut random = Random::of(&schema);
        for _ in 0..3 {
            let mut theirs = first.deep_clone();
            c.restart();
            let mut text = Vec::new();
            for _ in 0..40 {
                let mask = c.mask().to_vec();
                let ours = |id: u32| mask[id as usize / 32] >> (id % 32) & 1 == 1;
                let Ok(other) = theirs.compute_mask_or_eos() else { break };
                masks += 1;
                let mut equal = true;
                for id in 0..t.vocab_len() as u32 {
                    if ours(id) != other.is_allowed(id) {
                        equal = false;
                        let token: Vec<u8> = t.bytes(id, false).collect();
                        let why = cause(&schema, &text, &token, ours(id));
                        let example =
                            || format!("{} then {}: {schema}", text.escape_ascii(), token.escape_ascii());
                        causes.entry(why).or_insert_with(|| (0, example())).0 += 1;
                    }
                }
                same += usize::from(equal);
                let both: Vec<u32> = (0..t.vocab_len() as u32)
                    .filter(|&id| ours(id) && other.is_allowed(id) && !t.is_end(id))
                    .collect();
                let Some(&id) = both.get(random.bits() as usize % both.len().max(1)) else { break };
                theirs.consume_token(id).unwrap();
                c.accept(id);
                text.extend(t.bytes(id, false));
            }
        }
    }
    println!("{compared} schemas, {masks} masks, {same} the same");
    for (why, (n, example)) in &causes {
        println!("{n:>7} {why}: {example}");
        let most = KNOWN.iter().find(|(known, _)| known == why).map_or(0, |&(_, most)| most);
        assert!(*n <= most, "{n} tokens for {why}, of which {most} are known: {example}");
    }
    assert!(compared >= 190 && masks >= 10_000 && same * 10 >= masks * 6);
}
