//! Texts with places for arguments, and what may stand in each.
//!
//! `{name}` is the argument of that name, `{{` and `}}` are braces,
//! `${env:NAME}` and `${file:PATH}` are secrets. Where a text goes decides what
//! an argument may do there, so each use has its own way of rendering: nothing
//! that a model writes ever becomes syntax.

use std::fmt;

use crate::secret::{Secret, Secrets};
use crate::value::Value;

/// A piece of a template.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Part {
    Text(String),
    Secret(Secret),
    Argument(String),
}

/// A text with places for arguments.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Template {
    source: String,
    parts: Vec<Part>,
    /// The whole is `{name...}`.
    spread: bool,
}

/// Where a template's text goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Escape {
    /// As it is.
    Plain,
    /// Percent-encoded: part of a URL.
    Url,
    /// Within a level of an MQTT topic: no wildcards, no control characters.
    Topic,
}

/// Why an argument cannot stand where the template has it.
pub(crate) type Refused = String;

impl Template {
    /// Reads a template. Errs on stray braces, on names not in `arguments`, and
    /// where a secret is not to be found.
    pub(crate) fn parse(source: &str, arguments: &[&str], secrets: &mut Secrets) -> Result<Self, String> {
        let mut parts = Vec::new();
        let mut text = String::new();
        let mut rest = source;
        let mut spread = false;
        while let Some(c) = rest.chars().next() {
            if let Some(after) = rest.strip_prefix("{{").or_else(|| rest.strip_prefix("}}")) {
                text.push(c);
                rest = after;
            } else if let Some((inside, after)) = braced(rest, "${", source)? {
                flush(&mut text, &mut parts);
                parts.push(Part::Secret(secrets.reference(inside)?));
                rest = after;
            } else if let Some((inside, after)) = braced(rest, "{", source)? {
                flush(&mut text, &mut parts);
                let name = inside.strip_suffix("...").unwrap_or(inside);
                spread |= name != inside;
                known(name, arguments, source)?;
                parts.push(Part::Argument(name.into()));
                rest = after;
            } else if c == '}' {
                return Err(format!("{source:?}: a }} without {{ (write }}}} for a brace)"));
            } else {
                text.push(c);
                rest = &rest[c.len_utf8()..];
            }
        }
        flush(&mut text, &mut parts);
        if spread && parts.len() != 1 {
            return Err(format!("{source:?}: {{name...}} must stand alone"));
        }
        Ok(Self { source: source.into(), parts, spread })
    }

    /// The template as its author wrote it.
    pub(crate) fn source(&self) -> &str {
        &self.source
    }

    /// The arguments it names.
    pub(crate) fn arguments(&self) -> impl Iterator<Item = &str> {
        self.parts
            .iter()
            .filter_map(|p| if let Part::Argument(name) = p { Some(name.as_str()) } else { None })
    }

    /// Whether it is the same whatever the arguments.
    pub(crate) fn is_fixed(&self) -> bool {
        self.arguments().next().is_none()
    }

    pub(crate) fn has_secret(&self) -> bool {
        self.parts.iter().any(|p| matches!(p, Part::Secret(_)))
    }

    /// Whether it is `{name...}`.
    pub(crate) fn is_spread(&self) -> bool {
        self.spread
    }

    /// The name, where the template is one argument and nothing else.
    fn lone(&self) -> Option<&str> {
        match self.parts.as_slice() {
            [Part::Argument(name)] => Some(name),
            _ => None,
        }
    }

    /// The text; `None` where an argument that it names is absent.
    pub(crate) fn render(&self, arguments: &Value, escape: Escape) -> Result<Option<String>, Refused> {
        let mut out = String::new();
        for part in &self.parts {
            match part {
                Part::Text(text) => out.push_str(text),
                Part::Secret(secret) => out.push_str(secret.reveal()),
                Part::Argument(name) => match present(arguments, name) {
                    None => return Ok(None),
                    Some(value) => out.push_str(&escape.apply(name, &word(name, value)?)?),
                },
            }
        }
        Ok(Some(out))
    }

    /// As [`Self::render`] for a place that cannot be left out.
    pub(crate) fn render_whole(&self, arguments: &Value, escape: Escape) -> Result<String, Refused> {
        self.render(arguments, escape)?.ok_or_else(|| {
            let missing: Vec<&str> = self.arguments().filter(|n| present(arguments, n).is_none()).collect();
            format!("the argument {} is needed here", missing.join(", "))
        })
    }

    /// The items of an argument list that the template stands for. `dash`:
    /// whether one may begin with `-` although the template does not say so.
    pub(crate) fn items(&self, arguments: &Value, dash: bool) -> Result<Option<Vec<String>>, Refused> {
        let items = match self.lone().filter(|_| self.spread) {
            Some(name) => match present(arguments, name) {
                None => return Ok(None),
                Some(Value::Array(values)) => {
                    values.iter().map(|v| word(name, v)).collect::<Result<_, _>>()?
                }
                Some(value) => vec![word(name, value)?],
            },
            None => match self.render(arguments, Escape::Plain)? {
                None => return Ok(None),
                Some(item) => vec![item],
            },
        };
        let ours = matches!(self.parts.first(), Some(Part::Text(t)) if t.starts_with('-'));
        for item in &items {
            if item.contains('\0') {
                return Err("an argument of a program cannot hold a zero byte".into());
            }
            if item.starts_with('-') && !ours && !dash {
                return Err(format!("{item:?} begins with '-', which the program would take for an option"));
            }
        }
        Ok(Some(items))
    }

    /// The value that a template within JSON stands for: an argument alone keeps
    /// its type, anything else is a string.
    pub(crate) fn value(&self, arguments: &Value) -> Result<Option<Value>, Refused> {
        match self.lone() {
            Some(name) => Ok(present(arguments, name).cloned()),
            None => Ok(self.render(arguments, Escape::Plain)?.map(Value::String)),
        }
    }
}

/// As its author wrote it: secrets are references there.
impl fmt::Debug for Template {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.source)
    }
}

fn flush(text: &mut String, parts: &mut Vec<Part>) {
    if !text.is_empty() {
        parts.push(Part::Text(std::mem::take(text)));
    }
}

/// What stands between `open` and `}`, and what follows.
fn braced<'s>(rest: &'s str, open: &str, source: &str) -> Result<Option<(&'s str, &'s str)>, String> {
    let Some(inside) = rest.strip_prefix(open) else { return Ok(None) };
    inside
        .split_once('}')
        .map(Some)
        .ok_or_else(|| format!("{source:?}: {open} without }} (write {{{{ for a brace)"))
}

fn known(name: &str, arguments: &[&str], source: &str) -> Result<(), String> {
    if arguments.contains(&name) {
        return Ok(());
    }
    let have =
        if arguments.is_empty() { "it has none".into() } else { format!("it has {}", arguments.join(", ")) };
    Err(format!("{source:?}: the tool has no parameter {name:?} ({have}; write {{{{ for a brace)"))
}

/// The argument `name`; null counts as absent.
fn present<'v>(arguments: &'v Value, name: &str) -> Option<&'v Value> {
    arguments.get(name).filter(|v| **v != Value::Null)
}

fn word(name: &str, value: &Value) -> Result<String, Refused> {
    value.plain().ok_or_else(|| format!("{name} is {}, where one word is needed", value.kind()))
}

impl Escape {
    fn apply(self, name: &str, text: &str) -> Result<String, Refused> {
        match self {
            Self::Plain => Ok(text.into()),
            Self::Url => Ok(percent(text)),
            Self::Topic => match text.chars().find(|c| matches!(c, '/' | '+' | '#') || c.is_control()) {
                Some(c) => Err(format!("{name}: a level of a topic cannot hold {c:?}")),
                None => Ok(text.into()),
            },
        }
    }
}

/// `text` with all but letters, digits and `-_.~` percent-encoded.
pub(crate) fn percent(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for b in text.bytes() {
        if b.is_ascii_alphanumeric() || b"-_.~".contains(&b) {
            out.push(char::from(b));
        } else {
            out.push_str(&format!("%{b:02X}"));
        }
    }
    out
}

/// JSON in which strings are templates.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Tree {
    Leaf(Template),
    Fixed(Value),
    List(Vec<Tree>),
    Members(Vec<(String, Tree)>),
}

impl Tree {
    pub(crate) fn parse(value: &Value, arguments: &[&str], secrets: &mut Secrets) -> Result<Self, String> {
        Ok(match value {
            Value::String(s) => Self::Leaf(Template::parse(s, arguments, secrets)?),
            Value::Array(items) => {
                let parsed = items.iter().map(|v| Self::parse(v, arguments, secrets));
                Self::List(parsed.collect::<Result<_, _>>()?)
            }
            Value::Object(members) => {
                let parsed =
                    members.iter().map(|(k, v)| Ok((k.clone(), Self::parse(v, arguments, secrets)?)));
                Self::Members(parsed.collect::<Result<_, String>>()?)
            }
            other => Self::Fixed(other.clone()),
        })
    }

    /// The value; what names an absent argument is left out.
    pub(crate) fn render(&self, arguments: &Value) -> Result<Option<Value>, Refused> {
        Ok(Some(match self {
            Self::Leaf(template) => return template.value(arguments),
            Self::Fixed(value) => value.clone(),
            Self::List(items) => {
                let values = items.iter().filter_map(|t| t.render(arguments).transpose());
                Value::Array(values.collect::<Result<_, _>>()?)
            }
            Self::Members(members) => {
                let values = members.iter();
                let values = values
                    .filter_map(|(k, t)| Some(t.render(arguments).transpose()?.map(|v| (k.clone(), v))));
                Value::Object(values.collect::<Result<_, _>>()?)
            }
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NAMES: [&str; 4] = ["a", "b", "list", "on"];

    fn template(source: &str) -> Template {
        Template::parse(source, &NAMES, &mut Secrets::new("/".as_ref())).unwrap()
    }

    fn args(text: &str) -> Value {
        Value::parse(text).unwrap()
    }

    #[test]
    fn an_item_stays_one_item() {
        let hostile = args(r#"{"a":"x; rm -rf / $(id) `id` \"'\n *","b":7,"list":["p q","r"],"on":true}"#);
        let item = |source| template(source).items(&hostile, false).unwrap().unwrap();
        assert_eq!(item("{a}"), ["x; rm -rf / $(id) `id` \"'\n *"]);
        assert_eq!(item("--n={b}{{{on}}}"), ["--n=7{true}"]);
        assert_eq!(item("{list...}"), ["p q", "r"]);
        assert!(template("{list}").items(&hostile, false).unwrap_err().contains("is a list"));
        assert_eq!(template("-x{a}").items(&args("{}"), false), Ok(None), "left out where absent");
        assert_eq!(template("{a}").items(&args(r#"{"a":null}"#), false), Ok(None));
    }

    #[test]
    fn options_cannot_be_smuggled_in() {
        for (source, value) in
            [("{a}", r#""-rf""#), ("{a}x", r#""-""#), ("{b}", "-5"), ("{list...}", r#"["x","--y"]"#)]
        {
            let name = if source.contains("list") { "list" } else { &source[1..2] };
            let arguments = args(&format!("{{{name:?}:{value}}}"));
            assert!(template(source).items(&arguments, false).unwrap_err().contains("option"), "{source}");
            assert!(template(source).items(&arguments, true).is_ok());
        }
        assert_eq!(template("-n{b}").items(&args(r#"{"b":-5}"#), false), Ok(Some(vec!["-n-5".into()])));
        assert!(template("{a}").items(&args(r#"{"a":"x\u0000y"}"#), true).is_err());
    }

    #[test]
    fn urls_and_topics_keep_their_form() {
        let arguments = args(r##"{"a":"../x?y=1&z#é","b":"home/+"}"##);
        let url = template("/v1/{a}").render(&arguments, Escape::Url).unwrap().unwrap();
        assert_eq!(url, "/v1/..%2Fx%3Fy%3D1%26z%23%C3%A9");
        for bad in ["/", "+", "#", "\\u0000", "\\n"] {
            let arguments = args(&format!("{{\"b\":\"x{bad}\"}}"));
            assert!(
                template("t/{b}").render(&arguments, Escape::Topic).unwrap_err().contains("topic"),
                "{bad}"
            );
        }
        let missing = template("{a}{b}").render_whole(&args(r#"{"a":"x"}"#), Escape::Plain).unwrap_err();
        assert_eq!(missing, "the argument b is needed here");
    }

    #[test]
    fn mistakes_in_templates_are_named() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("s"), "the-secret").unwrap();
        let mut secrets = Secrets::new(dir.path());
        for (source, says) in [
            ("{c}", "no parameter \"c\" (it has a, b, list, on"),
            ("{a", "without }"),
            ("a}", "without {"),
            ("x{list...}", "stand alone"),
            ("${env:KATYDID_NO}", "not set"),
        ] {
            let error = Template::parse(source, &NAMES, &mut secrets).unwrap_err();
            assert!(error.contains(says), "{source}: {error}");
        }
        let with = Template::parse("Bearer ${file:s} {a}", &NAMES, &mut secrets).unwrap();
        assert!(with.has_secret() && !format!("{with:?}").contains("the-secret"));
        // An argument is a value: references in it stay text.
        let text = with.render(&args(r#"{"a":"${file:s}{b}"}"#), Escape::Plain).unwrap().unwrap();
        assert_eq!(text, "Bearer the-secret ${file:s}{b}");
    }

    #[test]
    fn json_keeps_types_and_drops_what_is_absent() {
        let source = args(r#"{"t":"{b}","s":"n {b}","l":["{a}",1,"{list}"],"gone":"{a}"}"#);
        let tree = Tree::parse(&source, &NAMES, &mut Secrets::new("/".as_ref())).unwrap();
        let made = tree.render(&args(r#"{"b":3,"list":["\",\"x"]}"#)).unwrap().unwrap();
        assert_eq!(made.to_string(), r#"{"t":3,"s":"n 3","l":[1,["\",\"x"]]}"#);
    }
}
