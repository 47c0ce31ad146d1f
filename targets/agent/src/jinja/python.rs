//! What Hugging Face's templates expect beyond Jinja: Python's methods, its JSON,
//! its dates. What can be made to run or grow without end is left out.

use super::twins::items;
use minijinja::value::{Kwargs, ValueKind};
use minijinja::{AutoEscape, Environment, ErrorKind, State, Value};

/// Widest indentation.
const INDENT: usize = 64;
/// Deepest value that is written as JSON.
const DEPTH: usize = 128;

fn refuse<T>(message: &'static str) -> Result<T, minijinja::Error> {
    Err(minijinja::Error::new(ErrorKind::InvalidOperation, message))
}

/// Jinja as Hugging Face's templates expect it.
pub(super) fn environment() -> Environment<'static> {
    let mut env = Environment::new();
    env.set_trim_blocks(true);
    env.set_lstrip_blocks(true);
    env.set_auto_escape_callback(|_| AutoEscape::None);
    env.set_recursion_limit(200);
    env.set_unknown_method_callback(method);
    env.add_function("raise_exception", |message: String| -> Result<Value, minijinja::Error> {
        Err(minijinja::Error::new(ErrorKind::InvalidOperation, message))
    });
    env.add_filter("tojson", tojson);
    env.add_filter("indent", indent);
    env.add_filter("replace", |text: String, old: String, new: String| {
        if old.is_empty() { refuse("an empty text cannot be replaced") } else { Ok(text.replace(&old, &new)) }
    });
    // What makes much out of little, and no template of a model needs.
    for filter in ["format", "batch", "slice", "pprint", "urlencode"] {
        env.remove_filter(filter);
    }
    env
}

/// Python's methods, but for those that can be made to run or grow without end.
fn method(
    state: &State<'_, '_>,
    value: &Value,
    name: &str,
    args: &[Value],
) -> Result<Value, minijinja::Error> {
    let empty = args.first().and_then(Value::as_str) == Some("");
    match name {
        "count" | "replace" if empty => refuse("an empty text cannot be looked for"),
        "format" => refuse("format is not provided"),
        _ => minijinja_contrib::pycompat::unknown_method_callback(state, value, name, args),
    }
}

fn indent(
    text: String,
    width: Option<usize>,
    first: Option<bool>,
    blank: Option<bool>,
    named: Kwargs,
) -> Result<String, minijinja::Error> {
    let width = width.or(named.get("width")?).unwrap_or(4);
    let first = first.or(named.get("first")?).unwrap_or(false);
    let blank = blank.or(named.get("blank")?).unwrap_or(false);
    named.assert_all_used()?;
    if width > INDENT {
        return refuse("an indentation is wider than 64");
    }
    let mut out = String::new();
    for (i, line) in text.split('\n').enumerate() {
        out += if i > 0 { "\n" } else { "" };
        if (i > 0 || first) && (blank || !line.is_empty()) {
            out.extend(std::iter::repeat_n(' ', width));
        }
        out += line;
    }
    Ok(out)
}

/// JSON as Python writes it: spaces after commas and colons, no escapes but the
/// needed ones.
fn tojson(value: &Value, indent: Option<usize>, named: Kwargs) -> Result<Value, minijinja::Error> {
    let indent = indent.or(named.get("indent")?);
    let _ascii: Option<bool> = named.get("ensure_ascii")?;
    let _sorted: Option<bool> = named.get("sort_keys")?;
    let _separators: Option<Value> = named.get("separators")?;
    named.assert_all_used()?;
    if indent.is_some_and(|width| width > INDENT) {
        return refuse("an indentation is wider than 64");
    }
    let mut out = String::new();
    write_json(value, indent, 0, &mut out)?;
    Ok(Value::from(out))
}

pub(super) fn write_json(
    value: &Value,
    indent: Option<usize>,
    depth: usize,
    out: &mut String,
) -> Result<(), minijinja::Error> {
    if depth > DEPTH {
        return refuse("a value is nested too deep for JSON");
    }
    let line = |out: &mut String, depth: usize| {
        if let Some(width) = indent {
            out.push('\n');
            out.extend(std::iter::repeat_n(' ', width * depth));
        }
    };
    let comma = if indent.is_some() { "," } else { ", " };
    match value.kind() {
        ValueKind::Undefined | ValueKind::None => out.push_str("null"),
        ValueKind::Bool => out.push_str(if value.is_true() { "true" } else { "false" }),
        ValueKind::Number => out.push_str(&value.to_string()),
        ValueKind::Map => {
            out.push('{');
            let mut any = false;
            for key in items(value) {
                out.push_str(if any { comma } else { "" });
                any = true;
                line(out, depth + 1);
                write_string(&key.to_string(), out);
                out.push_str(": ");
                write_json(&value.get_item(&key)?, indent, depth + 1, out)?;
            }
            if any {
                line(out, depth);
            }
            out.push('}');
        }
        ValueKind::Seq | ValueKind::Iterable => {
            out.push('[');
            let mut any = false;
            for item in items(value) {
                out.push_str(if any { comma } else { "" });
                any = true;
                line(out, depth + 1);
                write_json(&item, indent, depth + 1, out)?;
            }
            if any {
                line(out, depth);
            }
            out.push(']');
        }
        _ => write_string(&value.to_string(), out),
    }
    Ok(())
}

fn write_string(text: &str, out: &mut String) {
    // Texts always are JSON strings.
    out.push_str(&serde_json::to_string(text).unwrap_or_default());
}

/// The time, as C's `strftime` writes it, in UTC and English.
pub(super) fn strftime(unix: i64, format: &str) -> String {
    const MONTHS: [&str; 12] = [
        "January",
        "February",
        "March",
        "April",
        "May",
        "June",
        "July",
        "August",
        "September",
        "October",
        "November",
        "December",
    ];
    const DAYS: [&str; 7] = ["Thursday", "Friday", "Saturday", "Sunday", "Monday", "Tuesday", "Wednesday"];
    let (days, second) = (unix.div_euclid(86_400), unix.rem_euclid(86_400));
    let (year, month, day) = date(days);
    let (month_name, day_name) = (MONTHS[month as usize - 1], DAYS[days.rem_euclid(7) as usize]);
    let mut out = String::new();
    let mut chars = format.chars();
    while let Some(c) = chars.next() {
        if c != '%' {
            out.push(c);
            continue;
        }
        match chars.next() {
            Some('Y') => out += &format!("{year:04}"),
            Some('y') => out += &format!("{:02}", year.rem_euclid(100)),
            Some('m') => out += &format!("{month:02}"),
            Some('d') => out += &format!("{day:02}"),
            Some('e') => out += &format!("{day:2}"),
            Some('B') => out += month_name,
            Some('b') => out += &month_name[..3],
            Some('A') => out += day_name,
            Some('a') => out += &day_name[..3],
            Some('H') => out += &format!("{:02}", second / 3600),
            Some('M') => out += &format!("{:02}", second / 60 % 60),
            Some('S') => out += &format!("{:02}", second % 60),
            Some('F') => out += &format!("{year:04}-{month:02}-{day:02}"),
            Some('T') => {
                out += &format!("{:02}:{:02}:{:02}", second / 3600, second / 60 % 60, second % 60);
            }
            Some('%') => out.push('%'),
            Some(other) => out.extend(['%', other]),
            None => out.push('%'),
        }
    }
    out
}

/// Year, month and day of a day since 1970: years begin in March, so that leap
/// days end them.
fn date(days: i64) -> (i64, i64, i64) {
    // Far times would overflow below and mean nothing.
    let days = days.clamp(-100_000_000, 100_000_000) + 719_468;
    let era = days.div_euclid(146_097);
    let of_era = days.rem_euclid(146_097);
    let year = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let month = (5 * of_year + 2) / 153;
    let day = of_year - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    (year + era * 400 + i64::from(month <= 2), month, day)
}
