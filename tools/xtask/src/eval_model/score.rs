//! Whether an answer is the one expected.

use katydid_core::chat::{Part, parse};
use serde_json::Value;

use super::runner::{Answer, syntax};
use super::suite::{Expected, Sample};

/// What became of a sample.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Score {
    /// It is a match.
    pub(super) right: bool,
    /// Its calls are whole, are JSON and name tools of the list.
    pub(super) valid: bool,
    /// Where words are expected: they are the very words.
    pub(super) verbatim: bool,
}

/// Judges an answer. One that is `constrained` has been closed where it was cut,
/// and so may be valid, if hardly right.
pub(super) fn judge(sample: &Sample, answer: &Answer, constrained: bool) -> Score {
    let mut room = vec![0; 6 * answer.text.len()];
    let (mut calls, mut words, mut valid) = (Vec::new(), String::new(), answer.whole || constrained);
    for part in parse(syntax(), &answer.text, &mut room) {
        match part {
            Part::Call { name, arguments } => match serde_json::from_str(arguments) {
                Ok(arguments) => {
                    valid &= sample.has_tool(name);
                    calls.push(Expected { name: name.to_owned(), arguments });
                }
                Err(_) => valid = false,
            },
            Part::Broken { .. } => valid = false,
            Part::Text(text) => words.push_str(text),
            Part::Thought(_) => {}
        }
    }
    let verbatim = sample.calls.is_empty() && calls.is_empty() && words.trim() == sample.says;
    let right = match (&sample.holds, sample.calls.is_empty()) {
        (_, false) => same_calls(&calls, &sample.calls),
        (Some(holds), true) => calls.is_empty() && words.contains(holds.as_str()),
        (None, true) => calls.is_empty() && !words.trim().is_empty(),
    };
    Score { right: right && valid && answer.whole, valid, verbatim }
}

/// Whether both have the same calls, in any order.
fn same_calls(got: &[Expected], want: &[Expected]) -> bool {
    let mut left: Vec<&Expected> = want.iter().collect();
    got.len() == want.len()
        && got.iter().all(|g| {
            let found = left.iter().position(|w| w.name == g.name && same(&g.arguments, &w.arguments));
            found.map(|i| left.swap_remove(i)).is_some()
        })
}

/// Equal as JSON values: `1` and `1.0` are one number, members have no order.
fn same(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Number(a), Value::Number(b)) => a == b || a.as_f64() == b.as_f64(),
        (Value::Array(a), Value::Array(b)) => a.len() == b.len() && a.iter().zip(b).all(|(a, b)| same(a, b)),
        (Value::Object(a), Value::Object(b)) => {
            a.len() == b.len() && a.iter().all(|(k, v)| b.get(k).is_some_and(|w| same(v, w)))
        }
        _ => a == b,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn score(expected: &str, text: &str) -> Score {
        let tools = r#"[{"name":"lamp","parameters":{"type":"object"}}]"#;
        let sample = format!(r#"{{"kind":"k","tools":{tools},"messages":[],{expected}}}"#);
        let answer = Answer { text: text.to_owned(), whole: true, tokens: 1 };
        judge(&serde_json::from_str(&sample).unwrap(), &answer, false)
    }

    #[test]
    fn calls_match_as_values_in_any_order() {
        let one = |a: &str| format!("<tool_call>\n{{\"name\": \"lamp\", \"arguments\": {a}}}\n</tool_call>");
        let want =
            r#""calls":[{"name":"lamp","arguments":{"a":1,"b":["x"]}},{"name":"lamp","arguments":{}}]"#;
        let two = |a: &str, b: &str| score(want, &format!("{}\n{}", one(a), one(b)));
        assert!(two(r#"{"b": ["x"], "a": 1.0}"#, "{}").right);
        assert!(two("{}", r#"{"a": 1, "b": ["x"]}"#).right);
        for bad in [r#"{"a": "1", "b": ["x"]}"#, r#"{"a": 1}"#, r#"{"a": 1, "b": ["X"]}"#] {
            let score = two("{}", bad);
            assert!(!score.right && score.valid, "{bad}");
        }
        assert!(!score(want, &one("{}")).right);
        assert!(!two("{}", "{").valid);
        let other = score(want, &one("{}").replace("lamp", "lump"));
        assert!(!other.right && !other.valid);
    }

    #[test]
    fn words_are_right_where_nothing_is_called() {
        let ask = r#""says":"Which room should I use?""#;
        assert_eq!(
            score(ask, "Which room should I use?"),
            Score { right: true, valid: true, verbatim: true }
        );
        assert_eq!(score(ask, "Which?"), Score { right: true, valid: true, verbatim: false });
        assert!(!score(ask, "").right);
        assert!(!score(ask, "<tool_call>\n{\"name\": \"lamp\", \"arguments\": {}}\n</tool_call>").right);
        let report = r#""says":"It is 7.","holds":"7""#;
        assert!(score(report, "That is 7 degrees.").right);
        assert!(!score(report, "That is 8 degrees.").right);
    }
}
