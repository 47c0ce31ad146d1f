//! Answers that models write or might.

use super::*;
use crate::json;
use proptest::prelude::*;

fn read(syntax: CallSyntax, text: &str) -> Vec<String> {
    let mut room = vec![0; text.len() * 6];
    parse(syntax, text, &mut room)
        .map(|part| match part {
            Part::Text(text) => format!("say {text}"),
            Part::Thought(text) => format!("think {text}"),
            Part::Call { name, arguments } => format!("call {name} {arguments}"),
            Part::Broken { at, why } => format!("broken {at} {why:?}"),
        })
        .collect()
}

#[test]
fn what_a_style_writes_is_read_again() {
    for style in Style::ALL {
        let before = render(style, &TOOLS, &CALLS[..1]);
        let turns = [CALLS[0], Turn::Assistant("Let me see."), CALLS[1], CALLS[2], CALLS[3]];
        let all = render(style, &TOOLS, &turns);
        let answer = all.strip_prefix(&before).unwrap();
        let mut room = [0; 4096];
        let end = style.ends().iter().filter_map(|end| answer.find(end)).min().unwrap();
        let mut calls = Vec::new();
        for part in parse(style.syntax(), &answer[..end], &mut room) {
            match part {
                Part::Call { name, arguments } => calls.push((name, arguments.replace(' ', ""))),
                Part::Text(text) => assert_eq!(text.trim(), "Let me see.", "{style}"),
                other => panic!("{style}: {other:?} in {answer}"),
            }
        }
        let expected = [
            ("get_weather", "{\"city\":\"Ulm\\\"old\\\"<b>\",\"n\":[1,{}]}".to_string()),
            ("lamp_on", "{}".to_string()),
        ];
        assert_eq!(calls, expected, "{style}: {answer}");
    }
}

#[test]
fn hermes_answers() {
    let h = |text: &str| read(CallSyntax::Hermes, text);
    let one = "<tool_call>\n{\"name\": \"a\", \"arguments\": {\"x\": \"</tool_call>\"}}\n</tool_call>";
    let call = "call a {\"x\": \"</tool_call>\"}";
    assert_eq!(h(one), [call]);
    assert_eq!(h(&format!("Hm. \n{one}\n{one} Done.")), ["say Hm.", call, call, "say Done."]);
    assert_eq!(h(&format!("<think>\nq {one}\n</think>\n\n{one}")), [&*format!("think q {one}"), call]);
    assert_eq!(h("wait\n</think>\n\nYes."), ["think wait", "say Yes."]);
    assert_eq!(h("<think>on and on"), ["think on and on"]);
    assert_eq!(h("<think>\n\n</think>\n\nYes."), ["say Yes."]);
    // The end is missing at the end, or before the next.
    assert_eq!(h("<tool_call>{\"name\":\"a\",\"parameters\":{}}"), ["call a {}"]);
    assert_eq!(h("<tool_call>{\"name\":\"a\"}\n<tool_call>{\"name\":\"b\"}"), ["call a {}", "call b {}"]);
    assert_eq!(h("<tool_call>\n{\"name\": \"a\", \"argu"), ["broken 31 Cut"]);
    assert_eq!(h("<tool_call>\n{'name'}</tool_call> So"), ["broken 13 Syntax", "say So"]);
    assert_eq!(h("<tool_call>{\"name\":\"a\"}}</tool_call>"), ["broken 23 Syntax"]);
    assert_eq!(h("<tool_call>{\"arguments\":{}}</tool_call>"), ["broken 11 Name"]);
    assert_eq!(h("<tool_call>{\"name\":\"a\",\"arguments\":[1]}</tool_call>"), ["broken 11 Arguments"]);
    assert_eq!(
        h(r#"<tool_call>{"name":"a","arguments":{"x":"\ud800"}}</tool_call> So"#),
        ["broken 47 Syntax", "say So"]
    );
    // JSON in a string, escapes in a name.
    let wire = "<tool_call>{\"name\":\"\\u0061b\",\"arguments\":\"{\\\"x\\\": \\\"\\\\n\\\"}\"}</tool_call>";
    assert_eq!(h(wire), ["call ab {\"x\": \"\\n\"}"]);
    assert_eq!(h("A < b and {c} [d]."), ["say A < b and {c} [d]."]);
    assert_eq!(
        parse(CallSyntax::Hermes, wire, &mut [0; 1]).next(),
        Some(Part::Broken { at: 11, why: Broken::Room })
    );
    assert!(h("").is_empty() && h(" \n").is_empty());
}

#[test]
fn calls_without_marks() {
    let one = "{\"name\": \"a\", \"parameters\": {\"x\": 1}}";
    let call = "call a {\"x\": 1}";
    for syntax in [CallSyntax::Hermes, CallSyntax::Llama3, CallSyntax::Json, CallSyntax::Mistral] {
        let r = |text: &str| read(syntax, text);
        assert_eq!(r(one), [call]);
        assert_eq!(r(&format!("\n```json\n{one}\n```\n")), [call]);
        assert_eq!(r(&format!("```\n{one}")), [call]);
        assert_eq!(r(&format!("[{one}, {one}]")), [call, call]);
        assert_eq!(r(&format!("{one}; {one}\n{one}")), [call, call, call]);
        let wire = format!(
            "{{\"tool_calls\": [{{\"id\": \"c\", \"type\": \"function\", \"function\": {one}}}], \"n\": 1}}"
        );
        assert_eq!(r(&wire), [call]);
        assert_eq!(r(&format!("{{\"type\": \"function\", \"function\": {one}}}")), [call]);
        assert_eq!(r(&format!("<think>{one}</think>{one}")), [&*format!("think {one}"), call]);
        // Other JSON is what was asked for.
        for json in ["{\"name\": \"Ada\", \"born\": 1815}", "[]", "[1, 2]", "{\"tool_calls\": []}", "{}"] {
            assert_eq!(r(json), [format!("say {json}")]);
        }
    }
    assert_eq!(read(CallSyntax::Llama3, &format!("<|python_tag|>{one}")), [call]);
    assert_eq!(read(CallSyntax::Json, &format!("So: {one} ok")), ["say So:", call, "say ok"]);
    assert_eq!(read(CallSyntax::Json, "{\"name\": \"a\", \"argum"), ["broken 20 Cut"]);
    assert_eq!(read(CallSyntax::Hermes, &format!("So: {one}")), [format!("say So: {one}")]);
}

#[test]
fn mistral_and_gemma_answers() {
    let m = |text: &str| read(CallSyntax::Mistral, text);
    let one = "{\"name\": \"a\", \"arguments\": {}, \"id\": \"123456789\"}";
    assert_eq!(m(&format!("[TOOL_CALLS] [{one}, {one}]")), ["call a {}", "call a {}"]);
    assert_eq!(m(&format!("Hm[TOOL_CALLS]{one}")), ["say Hm", "call a {}"]);
    assert_eq!(m("[TOOL_CALLS]a[ARGS]{\"x\": 1}[TOOL_CALLS]b[ARGS]{}"), ["call a {\"x\": 1}", "call b {}"]);
    assert_eq!(m("[TOOL_CALLS]a[CALL_ID]123456789[ARGS]{}"), ["call a {}"]);
    assert_eq!(m(&format!("[TOOL_CALLS] [{one}, {{\"name\"")), ["call a {}", "broken 72 Cut"]);
    assert_eq!(m("[TOOL_CALLS] [x] [TOOL_CALLS]"), ["broken 14 Syntax", "broken 29 Cut"]);
    assert_eq!(m("[TOOL_CALLS]"), ["broken 12 Cut"]);
    let g = |text: &str| read(CallSyntax::FunctionGemma, text);
    assert_eq!(
        g(
            "<start_function_call>call:a{x:<escape>7 \"{}\" \n<escape>,y:[1,true,{z:null}]}<end_function_call>"
        ),
        ["call a {\"x\":\"7 \\\"{}\\\" \\n\",\"y\":[1,true,{\"z\":null}]}"]
    );
    assert_eq!(
        g("<start_function_call>call:a{u:celsius, t:-2.5,s:\"q\"}"),
        ["call a {\"u\":\"celsius\",\"t\":-2.5,\"s\":\"q\"}"]
    );
    assert_eq!(g("<start_function_call>call:a{}<end_function_call>Ok"), ["call a {}", "say Ok"]);
    assert_eq!(g("<start_function_call>call:a{x:<escape>"), ["broken 38 Cut"]);
    assert_eq!(g("<start_function_call>call:{}<end_function_call>"), ["broken 26 Name"]);
    assert_eq!(g("<start_function_call>call:a{x}<end_function_call>"), ["broken 29 Syntax"]);
}

#[test]
fn grammars_fit_what_is_read() {
    use crate::arena::Arena;
    use crate::grammar::{Grammar, Limits, Matcher, Memory, Options, Scratch, Stacks, tools};
    let list = [tools::Tool { name: "a", parameters: "{\"properties\":{\"x\":{\"type\":\"integer\"}}}" }];
    let mut page = [0; 2048];
    for (syntax, answer) in [
        (CallSyntax::Hermes, "Hm <tool_call>\n{\"name\": \"a\", \"arguments\": {\"x\": 1}}\n</tool_call>"),
        (CallSyntax::Mistral, "[TOOL_CALLS] [{\"name\": \"a\", \"arguments\": {\"x\": 1}}]"),
        (CallSyntax::Llama3, "{\"name\": \"a\", \"parameters\": {\"x\": 1}}"),
        (CallSyntax::Json, "Hm {\"name\": \"a\", \"arguments\": {\"x\": 1}}"),
    ] {
        let grammar = syntax.grammar(2).unwrap();
        let schema = tools::schema(&list, grammar.form, &mut page).unwrap();
        let options = Options { wrap: Some(grammar.wrap()), ..Options::default() };
        let (mut bytes, limits) = (vec![0; 1 << 21], Limits::default());
        let mut arena = Arena::new(&mut bytes);
        let memory = Memory::lay_out(&mut arena, &limits).unwrap();
        let stacks = Stacks::lay_out(&mut arena, &limits).unwrap();
        let mut scratch = Scratch::lay_out(&mut arena, &limits).unwrap();
        let grammar = Grammar::compile(schema, &options, memory, &mut scratch).unwrap();
        let mut matcher = Matcher::new(grammar, stacks).unwrap();
        assert!(matcher.advance_all(answer.bytes()) && matcher.can_end(), "{answer}");
        assert_eq!(read(syntax, answer).last().unwrap(), "call a {\"x\": 1}");
    }
    assert!(CallSyntax::FunctionGemma.grammar(1).is_none());
}

const SYNTAXES: [CallSyntax; 5] = [
    CallSyntax::Hermes,
    CallSyntax::Llama3,
    CallSyntax::Mistral,
    CallSyntax::FunctionGemma,
    CallSyntax::Json,
];

/// Texts out of the pieces that answers are made of.
fn pieces() -> impl Strategy<Value = String> {
    let piece = prop::sample::select(vec![
        "<tool_call>",
        "</tool_call>",
        "[TOOL_CALLS]",
        "[ARGS]",
        "<start_function_call>",
        "<end_function_call>",
        "<escape>",
        "<think>",
        "</think>",
        "{\"name\"",
        ":",
        "\"a\"",
        ",",
        "\"arguments\"",
        "{",
        "}",
        "[",
        "]",
        "```",
        "```json\n",
        ";",
        " ",
        "\n",
        "\\",
        "\"",
        "\"tool_calls\"",
        "\"function\"",
        "call:",
        "é",
        "1",
        "x",
        "{\"name\": \"b\", \"arguments\": {}}",
        "\"\\u00e9\"",
        "<|python_tag|>",
        "null",
    ]);
    prop::collection::vec(piece, 0..24).prop_map(|pieces| pieces.concat())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn any_answer_is_read(text in pieces(), room in 0usize..64, syntax in 0usize..5) {
        let mut buffer = vec![0; room];
        let (mut parts, mut within) = (0, 0);
        let start = text.as_ptr() as usize;
        let inside = |s: &str| {
            let at = s.as_ptr() as usize;
            if (start..=start + text.len()).contains(&at) { s.len() } else { 0 }
        };
        for part in parse(SYNTAXES[syntax], &text, &mut buffer) {
            parts += 1;
            match part {
                Part::Text(s) | Part::Thought(s) => {
                    prop_assert_eq!(inside(s), s.len());
                    within += s.len();
                }
                Part::Call { name, arguments } => {
                    within += inside(name) + if arguments == "{}" { 0 } else { inside(arguments) };
                    prop_assert!(json::object(arguments).is_ok(), "{}", arguments);
                }
                Part::Broken { at, .. } => prop_assert!(at <= text.len()),
            }
        }
        prop_assert!(parts <= text.len() + 1 && within <= text.len(), "{parts} {within} {text}");
    }

    #[test]
    fn any_text_is_read(text in "\\PC{0,60}", syntax in 0usize..5) {
        let mut buffer = [0; 64];
        prop_assert!(parse(SYNTAXES[syntax], &text, &mut buffer).count() <= text.len() + 1);
    }

    #[test]
    fn any_call_comes_back(
        name in "[a-z_\"\\\\é]{1,12}", key in "[a-z \"\\\\<\\[é]{1,8}", text in "\\PC{0,20}|[\n\t<>{}\"\\\\]{0,9}", style in 0usize..10
    ) {
        let style = Style::ALL[style];
        let gemma = style == Style::FunctionGemma;
        prop_assume!(!gemma || !(text.contains("<escape>") || key.contains('<') || key.trim() != key
            || key.contains('"')));
        let mut arguments = String::from("{");
        for (text, after) in [(&key, ": "), (&text, "}")] {
            json::quote(text, &mut |s| fmt::Write::write_str(&mut arguments, s)).unwrap();
            arguments.push_str(after);
        }
        let before = render(style, &[], &[Turn::User("x")]);
        let all = render(style, &[], &[Turn::User("x"), Turn::Call(Call { id: "1", name: &name, arguments: &arguments })]);
        let answer = all.strip_prefix(&before).unwrap();
        let end = answer.rfind(style.ends()[0]).unwrap();
        let mut room = vec![0; answer.len() * 6];
        let parts: Vec<_> = parse(style.syntax(), &answer[..end], &mut room).collect();
        let spaced = if gemma { arguments.replacen(": ", ":", 1) } else { arguments.clone() };
        prop_assert_eq!(parts, [Part::Call { name: &name, arguments: &spaced }]);
    }
}
