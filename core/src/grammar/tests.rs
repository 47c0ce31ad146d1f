//! Schemas, what they accept, and how texts go on and end.

use std::string::{String, ToString};
use std::vec;

use super::*;
use crate::arena::{ALIGN, Arena};
use crate::plan::MemoryPlan;

/// Memory of just the planned size, never given back.
fn leaked<R>(lay_out: impl Fn(&mut MemoryPlan) -> R) -> Arena<'static> {
    let mut plan = MemoryPlan::new();
    lay_out(&mut plan);
    Arena::new(vec![0xa5; plan.total() as usize + ALIGN].leak())
}

pub(super) fn compile(schema: &str, options: &Options<'_>) -> Result<Grammar<'static>, SchemaError> {
    let limits = Limits { values: 2048, nodes: 512, states: 8192, ..Limits::default() };
    let memory = Memory::lay_out(&mut leaked(|p| Memory::lay_out(p, &limits).map(drop)), &limits).unwrap();
    let mut scratch =
        Scratch::lay_out(&mut leaked(|p| Scratch::lay_out(p, &limits).map(drop)), &limits).unwrap();
    Grammar::compile(schema, options, memory, &mut scratch)
}

pub(super) fn matcher(schema: &str, options: &Options<'_>) -> Matcher<'static> {
    let grammar = compile(schema, options).unwrap_or_else(|e| panic!("{schema}: {e}"));
    let limits = Limits::default();
    let stacks = Stacks::lay_out(&mut leaked(|p| Stacks::lay_out(p, &limits).map(drop)), &limits).unwrap();
    Matcher::new(grammar, stacks).unwrap()
}

const COMPACT: Options<'_> = Options { spacing: Spacing::Compact, closed: true, wrap: None };

fn whole(m: &mut Matcher<'_>, text: &str) -> bool {
    m.restart();
    m.advance_all(text.bytes()) && m.can_end()
}

fn close(m: &mut Matcher<'_>, begun: &str) -> String {
    m.restart();
    assert!(m.advance_all(begun.bytes()), "{begun}");
    let (mut out, need) = ([0; 400], m.min_left());
    let n = m.close(&mut out).unwrap();
    assert_eq!(n, need, "after {begun}: {}", String::from_utf8_lossy(&out[..n]));
    assert!(m.can_end());
    String::from_utf8(out[..n].to_vec()).unwrap()
}

fn forced(m: &mut Matcher<'_>, begun: &str) -> String {
    m.restart();
    assert!(m.advance_all(begun.bytes()), "{begun}");
    let mut out = [0; 400];
    let n = m.forced(&mut out);
    String::from_utf8(out[..n].to_vec()).unwrap()
}

/// Schema, what it accepts, what it does not.
const CASES: &[(&str, &[&str], &[&str])] = &[
    (
        "{}",
        &["null", "true", "[]", "{}", "[1,[2,{\"a\":\"b\"}]]", "-1.5e+3", "\"a\\u00e9é\\n\"", "0"],
        &["nul", "[1,]", "[1", "{\"a\"}", "01", "-", "1.", "\"\n\"", " 1", "[ 1]"],
    ),
    (
        "{\"type\":\"integer\"}",
        &["0", "-7", "123456789012345678"],
        &["-0", "1.5", "1234567890123456789", "1e3"],
    ),
    (
        "{\"type\":\"integer\",\"minimum\":-12,\"maximum\":105}",
        &["-12", "-9", "0", "9", "99", "105"],
        &["-13", "106", "1000", "-100", "-0"],
    ),
    (
        "{\"type\":\"integer\",\"exclusiveMinimum\":2.5,\"exclusiveMaximum\":5}",
        &["3", "4"],
        &["2", "5", "35"],
    ),
    (
        "{\"type\":\"integer\",\"multipleOf\":7,\"minimum\":1,\"maximum\":40}",
        &["7", "14", "35"],
        &["0", "1", "42", "70"],
    ),
    (
        "{\"type\":\"number\",\"minimum\":-0.5,\"exclusiveMaximum\":2}",
        &["-0.5", "-0.25", "0", "1.999", "0.0", "1"],
        &["-0.51", "2", "2.0", "10", "-1", "1e0"],
    ),
    (
        "{\"type\":\"number\",\"multipleOf\":0.05,\"minimum\":0,\"maximum\":1}",
        &["0.05", "0.1", "0.95", "1", "1.0"],
        &["0.01", "0.12", "1.05", "0.001"],
    ),
    (
        "{\"type\":\"string\",\"minLength\":2,\"maxLength\":3}",
        &["\"ab\"", "\"aé\\n\"", "\"\\ud83d\\ude00x\""],
        &["\"a\"", "\"abcd\"", "ab"],
    ),
    ("{\"type\":\"string\",\"pattern\":\"^a+b?$\"}", &["\"a\"", "\"aaab\""], &["\"b\"", "\"abb\"", "\"\""]),
    (
        "{\"type\":\"string\",\"pattern\":\"é[^a-zà-ÿ]\"}",
        &["\"xxéB😀\"", "\"é\\n\"", "\"é\\\"\"", "\"éĀ\""],
        &["\"éa\"", "\"é\"", "\"\\u00e9B\""],
    ),
    (
        "{\"type\":\"string\",\"pattern\":\"^(foo|ba[rz]){2,3}$\",\"maxLength\":6}",
        &["\"foobar\"", "\"bazfoo\""],
        &["\"foo\"", "\"foobarfoo\""],
    ),
    (
        "{\"type\":\"string\",\"format\":\"date\"}",
        &["\"2024-02-29\"", "\"1999-12-31\""],
        &["\"2023-02-29\"", "\"2024-13-01\"", "\"2024-1-1\""],
    ),
    (
        "{\"type\":\"string\",\"format\":\"ipv4\"}",
        &["\"127.0.0.1\"", "\"255.255.255.255\""],
        &["\"256.1.1.1\"", "\"1.1.1\"", "\"01.1.1.1\""],
    ),
    (
        "{\"enum\":[\"a\",\"ab\",1,12,null,[1,{\"x\":2}],{}]}",
        &["\"a\"", "\"ab\"", "1", "12", "null", "[1,{\"x\":2}]", "{}"],
        &["\"abc\"", "2", "123", "[1]"],
    ),
    ("{\"type\":[\"string\",\"null\"],\"enum\":[\"a\",1,null]}", &["\"a\"", "null"], &["1"]),
    (
        "{\"type\":\"object\",\"properties\":{\"a\":{\"type\":\"integer\"},\"ab\":{\"type\":\"boolean\"},\"c\":true},\"required\":[\"ab\"]}",
        &["{\"ab\":true}", "{\"a\":1,\"ab\":false}", "{\"ab\":true,\"c\":[{}]}"],
        &[
            "{}",
            "{\"a\":1}",
            "{\"ab\":true,\"a\":1}",
            "{\"ab\":true,\"ab\":true}",
            "{\"ab\":true,}",
            "{\"x\":1,\"ab\":true}",
            "{,\"ab\":true}",
        ],
    ),
    (
        "{\"type\":\"object\",\"properties\":{\"né\\\"e\":{\"type\":\"null\"},\"a\":{\"type\":\"null\"}},\"additionalProperties\":{\"type\":\"integer\"}}",
        &[
            "{}",
            "{\"né\\\"e\":null,\"n\":1,\"né\":2,\"b\":3}",
            "{\"aa\":1,\"a\":null}",
            "{\"\":1}",
            "{\"x\":1,\"x\":2}",
        ],
        &["{\"a\":1}", "{\"b\":null}", "{\"n\\u0065\":1}", "{\"né\\\"\":1}", "{\"\\u0061\":1}"],
    ),
    (
        "{\"type\":\"object\",\"additionalProperties\":{\"type\":\"null\"}}",
        &["{}", "{\"a\":null,\"b\":null}"],
        &["{\"a\":1}", "{\"a\":null,}"],
    ),
    (
        "{\"type\":\"array\",\"items\":{\"type\":\"integer\"},\"minItems\":1,\"maxItems\":3}",
        &["[1]", "[1,2,3]"],
        &["[]", "[1,2,3,4]", "[null]", "[1,]"],
    ),
    (
        "{\"type\":\"array\",\"prefixItems\":[{\"type\":\"integer\"},{\"type\":\"string\"}],\"items\":{\"type\":\"null\"}}",
        &["[]", "[1]", "[1,\"a\",null,null]"],
        &["[\"a\"]", "[1,\"a\",2]"],
    ),
    (
        "{\"anyOf\":[{\"type\":\"integer\",\"minimum\":5},{\"type\":\"integer\",\"maximum\":2},{\"type\":\"string\"}]}",
        &["5", "2", "-1", "100", "\"\""],
        &["3", "4"],
    ),
    (
        "{\"type\":\"object\",\"properties\":{\"k\":{\"type\":\"string\"},\"v\":{}},\"required\":[\"k\"],\"oneOf\":[{\"properties\":{\"k\":{\"const\":\"a\"},\"v\":{\"type\":\"integer\"}},\"required\":[\"k\",\"v\"]},{\"properties\":{\"k\":{\"enum\":[\"b\",\"c\"]}},\"required\":[\"k\"]}]}",
        &["{\"k\":\"a\",\"v\":1}", "{\"k\":\"b\"}", "{\"k\":\"c\",\"v\":null}"],
        &["{\"k\":\"a\"}", "{\"k\":\"a\",\"v\":\"x\"}", "{\"k\":\"d\"}"],
    ),
    (
        "{\"$ref\":\"#/$defs/t%7e0x\",\"$defs\":{\"t~x\":{\"type\":\"object\",\"properties\":{\"kids\":{\"type\":\"array\",\"items\":{\"$ref\":\"#\"}}}}}}",
        &["{}", "{\"kids\":[{},{\"kids\":[]}]}"],
        &["{\"kids\":[1]}", "{\"kids\":{}}"],
    ),
    (
        "{\"allOf\":[{\"type\":\"object\",\"properties\":{\"a\":{\"minimum\":3}},\"required\":[\"a\"]},{\"properties\":{\"a\":{\"type\":\"integer\",\"maximum\":5},\"b\":{\"type\":\"null\"}}}]}",
        &["{\"a\":3}", "{\"a\":5,\"b\":null}"],
        &["{\"a\":2}", "{\"a\":6}", "{\"b\":null}"],
    ),
    ("{\"type\":\"string\",\"nullable\":true,\"maxLength\":1}", &["null", "\"\"", "\"a\""], &["\"ab\"", "1"]),
    (
        "{\"type\":\"string\",\"contentMediaType\":\"application/json\",\"contentSchema\":{\"type\":\"object\",\"properties\":{\"t\":{\"type\":\"string\"},\"n\":{\"type\":\"integer\"}},\"required\":[\"t\"]}}",
        &[
            "\"{\\\"t\\\":\\\"\\\"}\"",
            "\"{\\\"t\\\":\\\"a\\\\\\\"b\\\\u007b\\\",\\\"n\\\":-1}\"",
            "\"{\\\"t\\\":\\\"\\\\\\\\\\\"}\"",
        ],
        &[
            "\"{\\\"t\\\":\\\"{\\\"}\"",
            "{\"t\":\"\"}",
            "\"{}\"",
            "\"{\\\"t\\\":1}\"",
            "\"{\\\"t\\\":\\\"\\\"\"",
        ],
    ),
];

#[test]
fn schemas_accept_what_they_should() {
    for (schema, good, bad) in CASES {
        let mut m = matcher(schema, &COMPACT);
        for text in *good {
            assert!(whole(&mut m, text), "{schema} refuses {text}");
            // From every prefix there is an end, as near as said.
            for cut in (0..text.len()).filter(|&i| text.is_char_boundary(i)) {
                let end = close(&mut m, &text[..cut]);
                let all = text[..cut].to_string() + &end;
                assert!(whole(&mut m, &all), "{schema}: {all}");
            }
        }
        for text in *bad {
            assert!(!whole(&mut m, text), "{schema} accepts {text}");
        }
    }
}

#[test]
fn spacing_is_kept() {
    let schema = "{\"type\":\"object\",\"properties\":{\"a\":{\"type\":\"array\",\"items\":{\"type\":\"integer\"}},\"b\":{\"const\":{\"x\":[1,2]}}}}";
    let spaced = "{\"a\": [1, 2], \"b\": {\"x\": [1, 2]}}";
    let compact = "{\"a\":[1,2],\"b\":{\"x\":[1,2]}}";
    let mixed = "{\"a\":[1, 2],\"b\": {\"x\":[1,2]}}";
    for (spacing, texts) in [
        (Spacing::Compact, [false, true, false]),
        (Spacing::Spaced, [true, false, false]),
        (Spacing::Either, [false, true, true]),
    ] {
        let mut m = matcher(schema, &Options { spacing, ..Options::default() });
        assert_eq!([spaced, compact, mixed].map(|t| whole(&mut m, t)), texts, "{spacing:?}");
        close(&mut m, "{\"a\":");
        close(&mut m, "{\"");
    }
}

#[test]
fn forced_text_and_shortest_ends() {
    let schema = "{\"type\":\"object\",\"properties\":{\"name\":{\"const\":\"get_time\"},\"arguments\":{\"type\":\"object\",\"properties\":{\"zone\":{\"type\":\"string\",\"minLength\":2}},\"required\":[\"zone\"]}},\"required\":[\"name\",\"arguments\"]}";
    let mut m = matcher(schema, &Options::default());
    assert_eq!(forced(&mut m, ""), "{\"name\": \"get_time\", \"arguments\": {\"zone\": \"");
    assert_eq!(forced(&mut m, "{\"name\": \"get_time\", \"arguments\": {\"zone\": \"UTC\""), "}}");
    let end = close(&mut m, "{\"name\": \"g");
    assert!(end.starts_with("et_time\", \"arguments\": {\"zone\": \"") && end.ends_with("\"}}"), "{end}");
    assert!(m.is_complete());
    m.restart();
    assert_eq!(m.close(&mut [0; 10]), Err(NoEnd { need: 49, have: 10 }));
}

#[test]
fn free_text_until_a_trigger() {
    let triggers = [Trigger { text: "<tool>", part: false }, Trigger { text: "{\"n\"", part: true }];
    let wrap = Wrap { triggers: &triggers, lead: "\n", tail: "\n</tool>", again: true };
    let schema = "{\"type\":\"object\",\"properties\":{\"n\":{\"type\":\"integer\"}},\"required\":[\"n\"]}";
    let mut m = matcher(schema, &Options { wrap: Some(wrap), ..Options::default() });
    assert!(whole(&mut m, "no <tool of {mine}"));
    assert_eq!(forced(&mut m, "well <<tool>"), "\n{\"n\": ");
    assert!(whole(&mut m, "a <tool>\n{\"n\": 1}\n</tool> b {\"n\": 22}\n</tool>"));
    assert!(!whole(&mut m, "a <tool>x") && !whole(&mut m, "a <tool>\n{\"n\": 1"));
    assert_eq!(close(&mut m, "a <tool>\n{\"n\": 1"), "}\n</tool>");
    assert!(m.is_free());
    let once = Wrap { again: false, tail: "", ..wrap };
    let mut m = matcher(schema, &Options { wrap: Some(once), ..Options::default() });
    assert!(whole(&mut m, "so: {\"n\": 5}") && m.is_complete() && !m.advance(b' '));
}

#[test]
fn depth_is_bounded_and_always_closes() {
    let mut m = matcher("{}", &COMPACT);
    let mut n = 0;
    while m.advance(b'[') {
        n += 1;
    }
    assert_eq!(n, Limits::default().depth);
    let mut out = [0; 64];
    assert_eq!(m.close(&mut out), Ok(n));
}

/// Counts have 32 bits.
#[test]
fn counts_may_be_large() {
    let mut m = matcher("{\"type\":\"string\",\"minLength\":70000,\"maxLength\":100000}", &COMPACT);
    assert!(m.advance(b'"') && (0..69_999).all(|_| m.advance(b'a')) && !m.accepts(*b"\""));
    assert_eq!(m.min_left(), 2);
    assert!(m.advance(b'a') && m.accepts(*b"\"") && (70_000..100_000).all(|_| m.advance(b'a')));
    assert!(!m.accepts(*b"a") && m.advance(b'"') && m.can_end());
    let mut m = matcher(
        "{\"type\":\"array\",\"items\":{\"const\":1},\"minItems\":70000,\"maxItems\":70001}",
        &COMPACT,
    );
    assert_eq!(m.min_left(), 140_001);
    assert!(
        m.advance(b'[') && m.advance(b'1') && (0..69_998).all(|_| m.advance_all(*b",1")) && !m.accepts(*b"]")
    );
    assert!(m.advance_all(*b",1") && m.accepts(*b"]") && m.advance_all(*b",1") && !m.accepts(*b","));
    assert!(m.advance(b']') && m.can_end());
    let open = [
        "{\"maxLength\":4294967294}",
        "{\"maxItems\":1000000}",
        "{\"maxItems\":65536,\"items\":{\"type\":\"null\"}}",
    ];
    assert!(open.iter().all(|schema| compile(schema, &COMPACT).is_ok()));
    assert!(
        !whole(&mut matcher(open[1], &COMPACT), "[") && whole(&mut matcher(open[2], &COMPACT), "[null,null]")
    );
    // States tell lengths apart that differ by what 16 bits hold.
    let mut m = matcher("{\"type\":\"string\",\"maxLength\":200000}", &COMPACT);
    let (mut b, ahead) = (matcher("{\"type\":\"string\",\"maxLength\":200000}", &COMPACT), 65_536);
    assert!(m.advance_all(*b"\"a") && b.advance_all(*b"\"a") && m.hash() == b.hash());
    assert!((0..ahead).all(|_| b.advance(b'a')) && m.hash() != b.hash());
}

#[test]
fn what_is_too_long_is_not_called_impossible() {
    for schema in [
        "{\"type\":\"array\",\"items\":{\"type\":\"null\"},\"minItems\":1073741824}",
        "{\"type\":\"string\",\"minLength\":4294967294}",
        "{\"type\":\"array\",\"minItems\":60000,\"items\":{\"type\":\"array\",\"minItems\":60000,\"items\":{\"type\":\"null\"}}}",
    ] {
        let error = compile(schema, &COMPACT).map(|_| ()).unwrap_err().to_string();
        assert!(error.contains("even the smallest value takes more than 16777216 bytes"), "{error}");
    }
    let inner = "{\"type\":\"object\",\"required\":[\"a\"],\"properties\":{\"a\":{\"type\":\"string\",\"minLength\":99999999}}}";
    let error = compile(inner, &COMPACT).map(|_| ()).unwrap_err();
    assert!(error.at.as_str() == "/properties/a" && matches!(error.why, Why::TooLong { .. }), "{error}");
    // A member that may be left out is; one that cannot be is impossible whatever else is long.
    let optional =
        "{\"properties\":{\"a\":{\"type\":\"string\",\"minLength\":99999999},\"b\":{\"type\":\"null\"}}}";
    let mut m = matcher(optional, &COMPACT);
    assert!(whole(&mut m, "{\"b\":null}") && !m.advance_all(*b"{\"a"));
    let both = "{\"required\":[\"b\"],\"properties\":{\"a\":{\"type\":\"string\",\"minLength\":99999999},\"b\":false}}";
    assert_eq!(compile(both, &COMPACT).map(|_| ()).unwrap_err().why, Why::Never);
}

/// How long a schema takes to compile, at best.
fn time_to_compile(schema: &str, limits: &Limits) -> std::time::Duration {
    let once = |()| {
        let start = std::time::Instant::now();
        let mut scratch =
            Scratch::lay_out(&mut leaked(|p| Scratch::lay_out(p, limits).map(drop)), limits).unwrap();
        Grammar::compile(schema, &COMPACT, memory_again(limits), &mut scratch).unwrap();
        start.elapsed()
    };
    [(); 5].map(once).into_iter().min().unwrap()
}

/// Eight times as large takes about eight times as long, not sixty-four.
#[test]
fn large_schemas_take_time_by_their_size() {
    let limits =
        Limits { values: 200_000, nodes: 30_000, lists: 30_000, bytes: 1 << 20, ..Limits::default() };
    let words = |n| (0..n).map(|i| std::format!("\"word number {i}\"")).collect::<std::vec::Vec<_>>();
    let list = |n| std::format!("{{\"enum\":[{}]}}", words(n).join(","));
    let any = |n| {
        let consts = words(n).iter().map(|w| std::format!("{{\"const\":{w}}}")).collect::<std::vec::Vec<_>>();
        std::format!("{{\"anyOf\":[{}]}}", consts.join(","))
    };
    for [small, large] in [[list(2_500), list(20_000)], [any(2_500), any(20_000)]] {
        let times = [&small, &large].map(|schema| time_to_compile(schema, &limits));
        let ratio = times[1].as_secs_f64() / times[0].as_secs_f64();
        assert!(ratio < 24.0, "{} and {} bytes of schema: {times:?}", small.len(), large.len());
    }
}

#[test]
fn constants_are_ended_up_to_the_longest() {
    let limits = Limits { bytes: 1 << 20, ..Limits::default() };
    let compile = |n: usize| {
        let mut scratch =
            Scratch::lay_out(&mut leaked(|p| Scratch::lay_out(p, &limits).map(drop)), &limits).unwrap();
        let schema = std::format!("{{\"const\":\"{}\"}}", "x".repeat(n));
        Grammar::compile(&schema, &COMPACT, memory_again(&limits), &mut scratch)
    };
    let stacks = Stacks::lay_out(&mut leaked(|p| Stacks::lay_out(p, &limits).map(drop)), &limits).unwrap();
    let mut m = Matcher::new(compile(65_532).unwrap(), stacks).unwrap();
    assert!(m.advance(b'"') && (0..65_500).all(|_| m.advance(b'x')));
    let mut out = [0; 33];
    assert_eq!(m.close(&mut out), Ok(33));
    assert!(m.can_end() && out[32] == b'"');
    let error = compile(65_533).map(drop).unwrap_err();
    assert!(error.to_string().contains("more than 65534 bytes in one constant or name"), "{error}");
}

#[test]
fn constants_beyond_what_is_counted_are_an_error() {
    let list =
        std::format!("{{\"enum\":[{}0]}}", (1..65_600).map(|i| std::format!("{i},")).collect::<String>());
    let limits = Limits { values: 70_000, lists: 70_000, bytes: 1 << 20, ..Limits::default() };
    let mut scratch =
        Scratch::lay_out(&mut leaked(|p| Scratch::lay_out(p, &limits).map(drop)), &limits).unwrap();
    let error = Grammar::compile(&list, &COMPACT, memory_again(&limits), &mut scratch).map(drop).unwrap_err();
    assert!(error.to_string().contains("more than 65534 constants in one list"), "{error}");
}

#[test]
fn refusals_say_what_and_where() {
    let cases = [
        ("{\"type\":\"strin\"}", "/type: this must be"),
        ("{\"properties\":{\"a\":{\"if\":{}}}}", "/properties/a/if: if is not supported"),
        ("{\"type\":\"string\",\"format\":\"color\"}", "format color is not known"),
        ("{\"type\":\"string\",\"pattern\":\"a(?=b)\"}", "/pattern: pattern, character 2: look-around"),
        ("{\"type\":\"string\",\"pattern\":\"(a\"}", "does not end"),
        ("{\"type\":\"string\",\"pattern\":\"a{1,900}\"}", "more than 512 repetitions"),
        ("{\"type\":\"string\",\"pattern\":\"((a{99}){99}){99}\"}", "more than 512 steps"),
        ("{\"$ref\":\"#/x\"}", "$ref #/x leads nowhere"),
        ("{\"$ref\":\"http://x/y\"}", "leads nowhere"),
        ("{\"anyOf\":[{\"$ref\":\"#\"},{\"type\":\"null\"}]}", "leads back to itself"),
        ("{\"oneOf\":[{\"type\":\"integer\"},{\"type\":\"number\"}]}", "/oneOf: alternatives 0 and 1"),
        ("{\"enum\":[\"a\"],\"minLength\":3}", "minLength beside enum"),
        ("{\"type\":\"integer\",\"minimum\":3,\"maximum\":2}", "no value can satisfy"),
        ("{\"type\":\"object\",\"properties\":{\"a\":false},\"required\":[\"a\"]}", "no value can satisfy"),
        ("{\"type\":\"array\",\"items\":{\"$ref\":\"#\"},\"minItems\":1}", "no value can satisfy"),
        ("{\"minItems\":-1}", "whole number"),
        ("{\"uniqueItems\":true}", "uniqueItems is not supported"),
        ("{\"a\":1,\"a\":2}", "not JSON"),
        ("[]", "this must be a schema"),
        ("false", "no value"),
    ];
    for (schema, says) in cases {
        let error = compile(schema, &COMPACT).map(|_| ()).unwrap_err().to_string();
        assert!(error.contains(says), "{schema}: {error}");
    }
}

#[test]
fn small_limits_are_errors() {
    for n in 0..12 {
        let limits = Limits {
            values: n * 4,
            nodes: n,
            members: n,
            lists: n,
            bytes: n * 8,
            states: n * 40,
            pattern: n * 4,
            depth: 8,
            threads: 4,
        };
        let mut scratch =
            Scratch::lay_out(&mut leaked(|p| Scratch::lay_out(p, &limits).map(drop)), &limits).unwrap();
        for (schema, ..) in CASES {
            if let Err(e) = Grammar::compile(schema, &COMPACT, memory_again(&limits), &mut scratch) {
                assert!(matches!(e.why, Why::Limit { .. }), "{schema}: {e}");
            }
        }
    }
    let nothing = Memory::lay_out(&mut MemoryPlan::new(), &Limits::default()).unwrap();
    let mut scratch = Scratch::lay_out(&mut MemoryPlan::new(), &Limits::default()).unwrap();
    assert!(Grammar::compile("{}", &COMPACT, nothing, &mut scratch).is_err());
}

fn memory_again(limits: &Limits) -> Memory<'static> {
    Memory::lay_out(&mut leaked(|p| Memory::lay_out(p, limits).map(drop)), limits).unwrap()
}

#[test]
fn equal_states_have_equal_hashes() {
    let mut a = matcher("{}", &COMPACT);
    let mut b = matcher("{}", &COMPACT);
    assert!(a.advance_all("[1,[\"a\",".bytes()) && b.advance_all("[2,[\"bbb\",".bytes()));
    assert_eq!(a.hash(), b.hash());
    a.advance(b'[');
    assert_ne!(a.hash(), b.hash());
}

#[test]
fn a_copy_takes_what_is_used_and_no_more() {
    let schema =
        "{\"properties\":{\"a\":{\"pattern\":\"^x+$\"},\"b\":{\"enum\":[1,\"two\"]}},\"required\":[\"a\"]}";
    let grammar = compile(schema, &Options::default()).unwrap();
    let mut plan = MemoryPlan::new();
    grammar.copy_to(&mut plan).unwrap();
    assert!(plan.total() < 8192, "{}", plan.total());
    let mut arena = leaked(|p| grammar.copy_to(p).map(drop));
    let copy = grammar.copy_to(&mut arena).unwrap();
    assert_eq!((arena.used() as u64, copy.used()), (plan.total(), grammar.used()));
    let limits = Limits::default();
    let stacks = Stacks::lay_out(&mut leaked(|p| Stacks::lay_out(p, &limits).map(drop)), &limits).unwrap();
    let mut m = Matcher::new(copy, stacks).unwrap();
    assert!(whole(&mut m, "{\"a\": \"xx\", \"b\": \"two\"}") && !whole(&mut m, "{\"b\": 1}"));
    assert!(grammar.copy_to(&mut Arena::new(&mut [0; 64])).is_err());
}
