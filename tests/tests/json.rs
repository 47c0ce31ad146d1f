//! The JSON that core reads against `serde_json`: by the doors through which
//! texts come, tools' arguments, schemas and answers.

use katydid_core::agent::Arguments;
use katydid_core::arena::Arena;
use katydid_core::chat::{Broken, CallSyntax, Part, parse};
use katydid_core::grammar::{Grammar, Limits, Memory, Options, Scratch, Why};
use proptest::prelude::*;
use serde_json::Value;

/// Whether `text` is JSON; `None` where we differ on purpose: numbers beyond
/// what serde's are, which are no numbers to it.
fn judged(text: &str) -> Option<Result<Value, ()>> {
    match serde_json::from_str(text) {
        Err(e) if e.to_string().starts_with("number out of range") => None,
        read => Some(read.map_err(drop)),
    }
}

/// Whether a schema's text is taken for JSON; `None` where it is not read to its
/// end: where a key comes twice, which is JSON but no schema, and where it is too
/// large.
fn is_schema_text(text: &str) -> Option<bool> {
    let (mut room, limits) = (vec![0; 1 << 20], Limits::small());
    let mut arena = Arena::new(&mut room);
    let memory = Memory::lay_out(&mut arena, &limits).unwrap();
    let mut scratch = Scratch::lay_out(&mut arena, &limits).unwrap();
    match Grammar::compile(text, &Options::default(), memory, &mut scratch).map_err(|e| e.why) {
        Err(Why::Syntax { what: "the key is there already", .. } | Why::Limit { .. }) => None,
        Err(Why::Syntax { .. }) => Some(false),
        _ => Some(true),
    }
}

fn value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        "\\PC{0,6}|[\0-\u{20}\"\\\\é😀]{0,6}".prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 24, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map("[a-c\"\\\\é]{0,3}", inner, 0..4)
                .prop_map(|members| Value::Object(members.into_iter().collect())),
        ]
    })
}

/// What JSON is made of, and what it is not.
fn pieces() -> impl Strategy<Value = String> {
    let piece = prop::sample::select(vec![
        "{", "}", "[", "]", ",", ":", "\"", "\\", "\\u", "00e9", "d83d", "\\ude00", "\"a\"", "\"b\":", "0",
        "1", "-", ".", "5", "e", "E+", "true", "false", "null", "nul", " ", "\n", "\t", "\u{b}", "\u{1}",
        "é", "/", "n", "\u{feff}",
    ]);
    prop::collection::vec(piece, 0..12).prop_map(|pieces| pieces.concat())
}

/// JSON, mostly with something amiss.
fn texts() -> impl Strategy<Value = String> {
    let spoilt = (value(), any::<prop::sample::Index>(), any::<prop::sample::Index>(), pieces(), 0usize..4)
        .prop_map(|(value, from, to, piece, how)| {
            let text = if how == 0 { format!("{value:#}") } else { value.to_string() };
            let from = text.floor_char_boundary(from.index(text.len() + 1));
            let to = match how {
                0 | 1 => from,
                2 => text.ceil_char_boundary((from + 1).min(text.len())),
                _ => text.ceil_char_boundary(from + to.index(text.len() + 1 - from)),
            };
            let piece = if how == 0 { "" } else { &*piece };
            [&text[..from], piece, &text[to..]].concat()
        });
    prop_oneof![3 => spoilt, 1 => pieces()]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4000))]

    #[test]
    fn what_is_json_is_agreed_on(text in texts()) {
        let Some(read) = judged(&text) else { return Ok(()) };
        let wrapped = format!(" {{\"k\":[{text}\n]}} ");
        if let Some(whole) = judged(&wrapped) {
            prop_assert_eq!(Arguments::read(&wrapped).is_ok(), whole.is_ok());
        }
        if !text.trim().is_empty() {
            let object = read.as_ref().is_ok_and(Value::is_object);
            prop_assert_eq!(Arguments::read(&text).is_ok(), object);
        }
        if let Some(json) = is_schema_text(&text) {
            prop_assert_eq!(json, read.is_ok());
        }
    }

    #[test]
    fn values_are_read_alike(value in value()) {
        let text = format!("{{\"k\":{value}}}");
        let read = Arguments::read(&text).unwrap().get("k").unwrap().unwrap();
        prop_assert_eq!(read.as_str(), value.to_string());
        let characters = read.chars().map(String::from_iter);
        prop_assert_eq!(characters.as_deref(), value.as_str());
        prop_assert_eq!(read.as_bool(), value.as_bool());
        if value.is_i64() {
            prop_assert_eq!(read.as_i64(), value.as_i64());
        }
        if let (Some(members), Some(map)) = (read.as_object(), value.as_object()) {
            let keys: Vec<String> = members.members().map(|(key, _)| key.chars().collect()).collect();
            prop_assert!(keys.iter().eq(map.keys()));
        }
    }

    #[test]
    fn what_begins_like_json_is_cut(value in value(), at in any::<prop::sample::Index>()) {
        let mark = "<tool_call>";
        let text = format!("{mark}{{\"name\":\"a\",\"arguments\":{{\"k\":{value}}}}}");
        let at = text.floor_char_boundary(mark.len() + at.index(text.len() - mark.len()));
        let mut parts = parse(CallSyntax::Hermes, &text[..at], &mut []);
        prop_assert_eq!(parts.next(), Some(Part::Broken { at, why: Broken::Cut }));
        prop_assert!(parts.next().is_none());
    }
}
