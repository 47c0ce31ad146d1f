//! The `jsonschema` crate as judge of what grammars accept.

use std::fmt::Write;

use jsonschema::Validator;
use katydid_core::grammar::{Options, Spacing};
use katydid_tests::random::Random;
use serde_json::Value;

use super::support::{compile, matcher, schemas};

/// Judges documents; content that is JSON in a string is judged too.
pub(crate) struct Oracle {
    schema: String,
    validator: Validator,
    contents: Vec<(String, Validator)>,
}

fn validator(schema: &Value) -> Validator {
    jsonschema::options()
        .should_validate_formats(true)
        .build(schema)
        .unwrap_or_else(|e| panic!("{schema}: {e}"))
}

impl Oracle {
    pub(crate) fn new(schema: &str) -> Self {
        let mut value: Value = serde_json::from_str(schema).unwrap();
        let mut contents = Vec::new();
        find_contents(&value, String::new(), &mut contents);
        openapi(&mut value);
        Self { schema: schema.to_owned(), validator: validator(&value), contents }
    }

    pub(crate) fn holds(&self, value: &Value) -> bool {
        let inner = |(path, validator): &(String, Validator)| {
            let texts = strings_at(value, path);
            texts.iter().all(|t| serde_json::from_str(t).is_ok_and(|v| validator.is_valid(&v)))
        };
        self.validator.is_valid(value) && self.contents.iter().all(inner)
    }

    pub(crate) fn check(&self, value: &Value, text: &str) {
        let mut why = String::new();
        for e in self.validator.iter_errors(value) {
            writeln!(why, "{e}").unwrap();
        }
        assert!(self.holds(value), "{}\n{text}\n{why}", self.schema);
    }
}

/// OpenAPI's `nullable`, which the oracle does not know.
fn openapi(value: &mut Value) {
    if let Value::Object(map) = value {
        if map.get("nullable") == Some(&Value::Bool(true)) {
            let known = map["type"].clone();
            map.insert("type".into(), serde_json::json!([known, "null"]));
        }
        map.values_mut().for_each(openapi);
    } else if let Value::Array(all) = value {
        all.iter_mut().for_each(openapi);
    }
}

/// Schemas of string contents, by the members that lead to them.
fn find_contents(schema: &Value, path: String, found: &mut Vec<(String, Validator)>) {
    if let Some(content) = schema.get("contentSchema") {
        found.push((path.clone(), validator(content)));
    }
    let members = schema.get("properties").and_then(Value::as_object);
    members.into_iter().flatten().for_each(|(k, v)| find_contents(v, format!("{path}/{k}"), found));
    if let Some(items) = schema.get("items") {
        find_contents(items, format!("{path}/*"), found);
    }
    let any = schema.get("anyOf").and_then(Value::as_array);
    any.into_iter().flatten().for_each(|v| find_contents(v, path.clone(), found));
}

fn strings_at(value: &Value, path: &str) -> Vec<String> {
    let mut at = vec![value];
    for part in path.split('/').skip(1) {
        at = at
            .into_iter()
            .flat_map(|v| match v {
                Value::Array(all) if part == "*" => all.iter().collect(),
                Value::Object(map) => map.get(part).into_iter().collect(),
                _ => Vec::new(),
            })
            .collect();
    }
    at.into_iter().filter_map(Value::as_str).map(str::to_owned).collect()
}

/// Values of all kinds, and such as schemas ask for.
fn values() -> Vec<String> {
    let mut all: Vec<String> = [
        "null",
        "true",
        "false",
        "[]",
        "{}",
        "\"\"",
        "\"a\"",
        "\"ab\"",
        "\"abc\"",
        "\"on\"",
        "\"b\"",
        "\"é\"",
        "[1]",
        "[1,2]",
        "[\"a\"]",
        "[null]",
        "[true,false]",
        "[1,\"a\"]",
        "[1,\"a\",true]",
        "{\"a\":1}",
        "{\"a\":\"x\"}",
        "{\"b\":\"x\"}",
        "{\"a\":1,\"b\":\"x\"}",
        "{\"a\":1,\"z\":\"x\"}",
        "{\"ab\":1}",
        "{\"v\":1}",
        "{\"v\":1,\"next\":{\"v\":2}}",
        "{\"v\":\"a\",\"kids\":[{\"v\":\"\"}]}",
        "{\"t\":\"a\",\"x\":1}",
        "{\"t\":\"b\",\"y\":\"q\"}",
        "{\"t\":\"b\",\"x\":1}",
        "{\"p\":1,\"q\":2}",
        "{\"p\":1,\"q\":true}",
        "[\"+\",1,[\"-\",2,3]]",
        "[\"r\",\"g\",\"b\"]",
        "[[1,2],[3]]",
        "[[1,2,3]]",
        "{\"k7\":true,\"k13\":false}",
        "\"2024-02-29\"",
        "\"2023-02-29\"",
        "\"12:00:00Z\"",
        "\"2024-02-29T12:00:00+01:00\"",
        "\"24:00:00Z\"",
        "\"550e8400-e29b-41d4-a716-446655440000\"",
        "\"10.0.0.1\"",
        "\"1::8\"",
        "\"a.example\"",
        "\"me@a.example\"",
        "\"http://a.example/x\"",
        "\"P1D\"",
        "\"PT5M\"",
        "\"#00ff7f\"",
        "\"555-1234\"",
        "\"red\"",
        "\"GPIO27\"",
        "\"GPIO28\"",
        "\"xyy\"",
        "\"aab\"",
        "\"\\\"quoted\\\"\"",
        "\"back\\\\slash\"",
        "\"line\\nbreak\"",
        "\"{\"",
        "\"12:34:56\"",
        "\"hello world\"",
        "{\"temperature\":20.5,\"unit\":\"C\"}",
        "{\"pin\":27,\"value\":true}",
        "{\"pin\":28,\"value\":true}",
        "[1,[2,{\"a\":[]}]]",
        "{\"x\":1,\"y\":{\"z\":[true,null]}}",
        "{\"name\":\"get_time\",\"arguments\":{}}",
        "{\"name\":\"set_gpio\",\"arguments\":{\"pin\":3,\"high\":true}}",
    ]
    .map(str::to_owned)
    .into();
    for n in [
        "0", "1", "2", "3", "5", "7", "9", "10", "12", "42", "99", "100", "255", "256", "1000", "65535",
        "99999",
    ] {
        all.push(n.to_owned());
        all.push(format!("-{n}"));
        all.push(format!("{n}.5"));
        all.push(format!("-{n}.25"));
        all.push(format!("{n}.001"));
    }
    all.extend((0..12).map(|n| format!("\"{}\"", "aé".repeat(n))));
    all
}

/// What a grammar accepts is right; what is right in shape and order of
/// members it accepts.
#[test]
fn accepts_nothing_that_the_oracle_refuses() {
    let values = values();
    let (mut accepted, mut refused) = (0, 0);
    for schema in schemas() {
        let oracle = Oracle::new(&schema);
        let options = Options { spacing: Spacing::Compact, closed: false, ..Options::default() };
        let mut m = matcher(compile(&schema, &options).unwrap_or_else(|e| panic!("{schema}: {e}")));
        let parsed: Value = serde_json::from_str(&schema).unwrap();
        let meant = parsed.is_object() && ["type", "enum", "const"].iter().all(|k| parsed.get(k).is_none());
        for text in &values {
            let value: Value = serde_json::from_str(text).unwrap();
            m.restart();
            let ours = m.advance_all(text.bytes()) && m.can_end();
            let theirs = oracle.holds(&value);
            assert!(!ours || theirs, "{schema} accepts {text}");
            accepted += usize::from(ours);
            // Narrower on purpose: formats, types that are meant, numbers.
            let narrower = ["format", "minus", "$ref"].iter().any(|k| schema.contains(k))
                || meant
                || text.starts_with("-0")
                || schema.contains("integer") && text.contains('.');
            if theirs && !ours && !narrower && !text.starts_with(['{', '[']) {
                panic!("{schema} refuses {text}");
            }
            refused += usize::from(theirs && !ours);
        }
    }
    println!("{accepted} accepted by both, {refused} by the oracle alone");
    assert!(accepted > 2000 && refused * 4 < accepted);
}

/// Bytes changed at random: what is still accepted is still right.
#[test]
fn damaged_texts_are_accepted_only_where_right() {
    let rounds = 60 / katydid_tests::patience().min(10) as usize;
    for schema in schemas() {
        let oracle = Oracle::new(&schema);
        let options = Options { spacing: Spacing::Either, ..Options::default() };
        let mut m = matcher(compile(&schema, &options).unwrap());
        let mut random = Random::of(&schema);
        for _ in 0..rounds {
            let text = walk(&mut m, &mut random);
            let value: Value = serde_json::from_slice(&text).unwrap();
            oracle.check(&value, &String::from_utf8_lossy(&text));
            let mut damaged = text.clone();
            let at = random.bits() as usize % damaged.len();
            match random.bits() % 3 {
                0 => damaged[at] = b"0\"}],:{[x\\"[random.bits() as usize % 10],
                1 => _ = damaged.remove(at),
                _ => damaged.insert(at, b"19\"}],.a\xe9"[random.bits() as usize % 9]),
            }
            m.restart();
            if m.advance_all(damaged.iter().copied()) && m.can_end() {
                let value = serde_json::from_slice(&damaged);
                let value: Value =
                    value.unwrap_or_else(|e| panic!("{schema}: {}: {e}", damaged.escape_ascii()));
                oracle.check(&value, &String::from_utf8_lossy(&damaged));
            }
        }
    }
}

/// A text that a grammar accepts: random bytes for a while, then the way out.
fn walk(m: &mut katydid_core::grammar::Matcher<'_>, random: &mut Random) -> Vec<u8> {
    m.restart();
    let mut text = Vec::new();
    let length = random.bits() % 60;
    while (text.len() as u64) < length && !m.is_complete() {
        let first = random.bits() as u8;
        // Structure is likelier than the middle of nowhere.
        let likely = b"\"{}[],:0123456789-.eatrufnls\\ ";
        let b = if random.bits().is_multiple_of(2) {
            likely[random.bits() as usize % likely.len()]
        } else {
            first
        };
        let Some(b) = (0..=255).map(|i| b.wrapping_add(i)).find(|&b| m.accepts([b])) else { break };
        m.advance(b);
        text.push(b);
    }
    let mut out = [0; 1000];
    let (need, n) = (m.min_left(), m.close(&mut out).unwrap());
    assert_eq!(n, need);
    text.extend(&out[..n]);
    text
}
