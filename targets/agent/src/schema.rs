//! Schemas of arguments: compiled by the core's grammar when tools are loaded,
//! and matched again against whatever a model wrote.

use katydid_core::arena::Arena;
use katydid_core::chat::ToolSpec;
use katydid_core::grammar::tools::{self, Form, Tool, ToolsError};
use katydid_core::grammar::{Grammar, Limits, Matcher, Memory, Options, Scratch, Spacing, Stacks, Why};
use katydid_core::plan::MemoryPlan;

use crate::value::Value;

/// Most bytes of a call's arguments.
pub const MOST_ARGUMENT_BYTES: usize = 64 << 10;

/// Levels to which members are put in order.
const LEVELS: usize = 32;

/// A schema that compiles.
#[derive(Debug)]
pub struct Schema {
    value: Value,
    text: String,
    limits: Limits,
}

impl Schema {
    /// Checks a schema: it must be an object's and compile.
    pub fn new(value: Value) -> Result<Self, String> {
        match value.get("type") {
            None => {}
            Some(Value::String(s)) if s == "object" => {}
            Some(other) => {
                return Err(format!("arguments are an object, so \"type\" must be \"object\", not {other}"));
            }
        }
        if !matches!(value, Value::Object(_)) {
            return Err(format!("a schema must be an object, not {}", value.kind()));
        }
        let text = value.to_string();
        let limits = fitting(&text)?;
        Ok(Self { value, text, limits })
    }

    /// The schema as JSON, compact.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Names of the arguments.
    pub(crate) fn names(&self) -> Vec<&str> {
        let properties = self.value.get("properties").map_or(&[][..], Value::members);
        properties.iter().map(|(name, _)| name.as_str()).collect()
    }

    pub(crate) fn is_required(&self, name: &str) -> bool {
        self.required().any(|n| n == name)
    }

    /// The schema of one argument.
    pub(crate) fn property(&self, name: &str) -> Option<&Value> {
        self.value.get("properties")?.get(name)
    }

    fn required(&self) -> impl Iterator<Item = &str> {
        let list =
            if let Some(Value::Array(list)) = self.value.get("required") { list.as_slice() } else { &[] };
        list.iter().filter_map(Value::as_str)
    }

    /// Reads arguments, which may be anything at all. Errs with what is wrong,
    /// in words that a model can act on.
    pub fn read(&self, text: &str) -> Result<Value, String> {
        if text.len() > MOST_ARGUMENT_BYTES {
            return Err(format!(
                "the arguments take {} bytes, at most {MOST_ARGUMENT_BYTES} are read",
                text.len()
            ));
        }
        let text = if text.trim().is_empty() { "{}" } else { text };
        let mut value = Value::parse(text).map_err(|e| format!("the arguments are not JSON: {e}"))?;
        // Some models write the object as a string.
        if let Value::String(inner) = &value
            && let Ok(object @ Value::Object(_)) = Value::parse(inner)
        {
            value = object;
        }
        if !matches!(value, Value::Object(_)) {
            return Err(format!("the arguments must be an object, not {}", value.kind()));
        }
        self.check_names(&value)?;
        self.put_in_order(&mut value, &self.value, LEVELS);
        let compact = value.to_string();
        match matches(&self.text, &self.limits, Some(compact.as_bytes())) {
            Ok(None) => Ok(self.with_defaults(value)),
            Ok(Some(at)) => Err(format!("{} The schema is {}", place(&compact, at), self.text)),
            Err(fail) => Err(fail.says),
        }
    }

    /// The commonest mistakes, by name.
    fn check_names(&self, value: &Value) -> Result<(), String> {
        if let Some(name) = self.required().find(|n| value.get(n).is_none()) {
            return Err(format!("the argument {name:?} is missing. The schema is {}", self.text));
        }
        let names = self.names();
        let open = self.value.members().iter().any(|(k, v)| {
            k == "additionalProperties" && *v != Value::Bool(false)
                || k == "allOf"
                || k == "anyOf"
                || k == "$ref"
        });
        match value.members().iter().find(|(k, _)| !open && !names.contains(&k.as_str())) {
            Some((key, _)) if names.is_empty() => {
                Err(format!("there is no argument {key:?}: the tool takes none"))
            }
            Some((key, _)) => Err(format!("there is no argument {key:?}: there are {}", names.join(", "))),
            None => Ok(()),
        }
    }

    /// Puts members in the order of the schema, which is the one that grammars
    /// know, as far as `properties`, `items` and references lead.
    fn put_in_order(&self, value: &mut Value, schema: &Value, levels: usize) {
        let Some(levels) = levels.checked_sub(1) else { return };
        let schema = match schema.get("$ref").and_then(Value::as_str) {
            Some(reference) => self.follow(reference).unwrap_or(schema),
            None => schema,
        };
        match value {
            Value::Object(members) => {
                let Some(properties) = schema.get("properties").map(Value::members) else { return };
                let rank = |key: &str| properties.iter().position(|(k, _)| k == key).unwrap_or(usize::MAX);
                members.sort_by_key(|(key, _)| rank(key));
                for (key, value) in members {
                    if let Some((_, schema)) = properties.iter().find(|(k, _)| k == key) {
                        self.put_in_order(value, schema, levels);
                    }
                }
            }
            Value::Array(items) => {
                if let Some(schema) = schema.get("items") {
                    items.iter_mut().for_each(|item| self.put_in_order(item, schema, levels));
                }
            }
            _ => {}
        }
    }

    /// Where a reference such as `#/$defs/point` leads.
    fn follow(&self, reference: &str) -> Option<&Value> {
        let path = reference.strip_prefix("#/")?;
        path.split('/').try_fold(&self.value, |at, key| at.get(&key.replace("~1", "/").replace("~0", "~")))
    }

    /// Adds what the schema says an absent argument is.
    fn with_defaults(&self, mut value: Value) -> Value {
        let defaults = self.names().into_iter().filter_map(|n| Some((n, self.property(n)?.get("default")?)));
        let missing: Vec<(String, Value)> = defaults
            .filter(|(n, _)| value.get(n).is_none())
            .map(|(n, v)| (n.to_owned(), v.clone()))
            .collect();
        if let Value::Object(members) = &mut value {
            members.extend(missing);
        }
        value
    }
}

/// Finds limits that the grammar of all calls of `tools` fits: what a matcher
/// that constrains a model must be given. Errs where none does.
pub fn limits_of_calls(tools: &[ToolSpec<'_>]) -> Result<Limits, String> {
    let list: Vec<Tool<'_>> = tools.iter().map(|t| Tool { name: t.name, parameters: t.parameters }).collect();
    let form = Form::Calls { arguments: "arguments", least: 1, most: 8 };
    let need = match tools::schema(&list, form, &mut []) {
        Err(ToolsError::Room { need, .. }) => need,
        Err(e) => return Err(e.to_string()),
        Ok(_) => 0,
    };
    let mut out = vec![0; need];
    fitting(tools::schema(&list, form, &mut out).map_err(|e| e.to_string())?)
}

/// The least of some limits that `schema` fits.
fn fitting(schema: &str) -> Result<Limits, String> {
    let mut error = String::new();
    for limits in [Limits::small(), Limits::default(), large()] {
        match matches(schema, &limits, None) {
            Ok(_) => return Ok(limits),
            // Larger limits may do.
            Err(Fail { room: true, says }) => error = says,
            Err(Fail { says, .. }) => return Err(says),
        }
    }
    Err(error)
}

/// Enough for the largest schema that a person writes.
fn large() -> Limits {
    Limits {
        values: 65536,
        nodes: 16384,
        members: 16384,
        lists: 32768,
        bytes: 262_144,
        states: 32768,
        pattern: 512,
        depth: 100,
        threads: 256,
    }
}

struct Fail {
    /// More memory may help.
    room: bool,
    says: String,
}

impl Fail {
    fn other(error: impl ToString) -> Self {
        Self { room: false, says: error.to_string() }
    }
}

/// Compiles `schema`, and matches `text` if there is one: the byte at which it
/// first goes wrong, or `None`.
///
/// Grammars borrow their memory, so it is taken anew for each call: some tens
/// of microseconds for a usual schema, and nothing is held between calls.
fn matches(schema: &str, limits: &Limits, text: Option<&[u8]>) -> Result<Option<usize>, Fail> {
    let mut plan = MemoryPlan::default();
    Memory::lay_out(&mut plan, limits).map_err(Fail::other)?;
    Stacks::lay_out(&mut plan, limits).map_err(Fail::other)?;
    Scratch::lay_out(&mut plan, limits).map_err(Fail::other)?;
    let bytes = usize::try_from(plan.total()).map_err(Fail::other)?;
    let mut room = vec![0u8; bytes.saturating_add(katydid_core::arena::ALIGN)];
    let mut arena = Arena::new(&mut room);
    let memory = Memory::lay_out(&mut arena, limits).map_err(Fail::other)?;
    let stacks = Stacks::lay_out(&mut arena, limits).map_err(Fail::other)?;
    let mut scratch = Scratch::lay_out(&mut arena, limits).map_err(Fail::other)?;
    let options = Options { spacing: Spacing::Compact, ..Options::default() };
    let grammar = Grammar::compile(schema, &options, memory, &mut scratch)
        .map_err(|e| Fail { room: matches!(e.why, Why::Limit { .. }), says: e.to_string() })?;
    let Some(text) = text else { return Ok(None) };
    let mut matcher = Matcher::new(grammar, stacks).ok_or_else(|| Fail::other("no memory"))?;
    let bad = text.iter().position(|&b| !matcher.advance(b));
    Ok(bad.or_else(|| (!matcher.can_end()).then_some(text.len())))
}

/// Shows where a text goes wrong.
fn place(text: &str, at: usize) -> String {
    const AROUND: usize = 40;
    let floor = |mut i: usize| {
        while !text.is_char_boundary(i) {
            i -= 1;
        }
        i
    };
    let at = floor(at.min(text.len()));
    let from = floor(at.saturating_sub(AROUND));
    let to = floor(text.len().min(at + AROUND));
    format!("the arguments do not fit from here on: {}⟨here⟩{}.", &text[from..at], &text[at..to])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn schema(text: &str) -> Schema {
        Schema::new(Value::parse(text).unwrap()).unwrap()
    }

    const LAMP: &str = r##"{"type":"object","properties":{
        "room":{"enum":["kitchen","hall"]},
        "level":{"type":"integer","minimum":0,"maximum":100},
        "at":{"$ref":"#/$defs/point"},
        "unit":{"type":"string","default":"%"}},
        "required":["room"],
        "$defs":{"point":{"type":"object","properties":{"y":{"type":"number"},"x":{"type":"number"}},"required":["y","x"]}}}"##;

    #[test]
    fn arguments_are_read_whatever_their_order() {
        let lamp = schema(LAMP);
        assert_eq!(lamp.names(), ["room", "level", "at", "unit"]);
        let read = lamp
            .read("{ \"at\": {\"x\": 1, \"y\": 2.5}, \"level\": 7.0,\n\"room\": \"h\\u0061ll\" }")
            .unwrap();
        assert_eq!(read.to_string(), r#"{"room":"hall","level":7,"at":{"y":2.5,"x":1},"unit":"%"}"#);
        assert!(lamp.read(r#""{\"room\":\"hall\"}""#).is_ok(), "an object in a string");
    }

    #[test]
    fn what_does_not_fit_is_explained() {
        let lamp = schema(LAMP);
        let large = format!(r#"{{"room":"{}"}}"#, "x".repeat(70_000));
        for (text, says) in [
            ("", "\"room\" is missing"),
            ("nonsense", "not JSON"),
            ("[1]", "must be an object"),
            (r#"{"room":"hall","lamp":1}"#, "no argument \"lamp\": there are room, level"),
            (r#"{"room":"cellar"}"#, "{\"room\":\"⟨here⟩cellar\"}"),
            (r#"{"room":"hall","level":101}"#, "do not fit"),
            (r#"{"room":"hall","level":"7"}"#, "do not fit"),
            (r#"{"room":"hall","room":"kitchen"}"#, "twice"),
            (r#"{"room":"hall","at":{"x":1}}"#, "do not fit"),
            (&large, "at most"),
        ] {
            let error = lamp.read(text).unwrap_err();
            assert!(error.contains(says), "{text}: {error}");
        }
    }

    #[test]
    fn bad_schemas_are_refused() {
        for (text, says) in [
            (r#"{"type":"string"}"#, "must be \"object\""),
            ("[]", "must be an object"),
            (r#"{"type":"object","properties":{"a":{"type":"strin"}}}"#, "properties/a"),
            (r#"{"type":"object","not":{}}"#, "not"),
            (r##"{"type":"object","properties":{"a":{"$ref":"#/none"}}}"##, "leads nowhere"),
            (r#"{"type":"object","properties":{"a":{"pattern":"("}}}"#, "pattern"),
        ] {
            let error = Schema::new(Value::parse(text).unwrap()).unwrap_err();
            assert!(error.contains(says), "{text}: {error}");
        }
    }

    #[test]
    fn large_schemas_get_more_room() {
        let members: Vec<String> = (0..600).map(|i| format!(r#""p{i}":{{"type":"integer"}}"#)).collect();
        let large = schema(&format!(r#"{{"type":"object","properties":{{{}}}}}"#, members.join(",")));
        assert!(large.read(r#"{"p599":599,"p0":3}"#).is_ok());
        assert!(large.read(r#"{"p599":true}"#).is_err());
    }
}
