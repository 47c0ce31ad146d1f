//! JSON values whose members keep the order in which they were written.
//!
//! A grammar wants the members of an object in its schema's order, and a model
//! should see a schema as its author wrote it, so neither may be sorted.

use std::fmt;

use serde::de::{self, Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};

/// A JSON value.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// `null`.
    Null,
    /// `true` or `false`.
    Bool(bool),
    /// Any number that fits 64 bits.
    Number(serde_json::Number),
    /// A string.
    String(String),
    /// A list.
    Array(Vec<Value>),
    /// Members in order; no key comes twice.
    Object(Vec<(String, Value)>),
}

impl Value {
    /// Reads a JSON text. Errs on anything else, on a key that comes twice, and
    /// on more than some hundred levels.
    pub fn parse(text: &str) -> Result<Self, serde_json::Error> {
        serde_json::from_str(text)
    }

    /// The member `key` of an object.
    pub fn get(&self, key: &str) -> Option<&Value> {
        self.members().iter().find(|(k, _)| k == key).map(|(_, v)| v)
    }

    /// The members of an object; none for anything else.
    pub fn members(&self) -> &[(String, Value)] {
        if let Self::Object(members) = self { members } else { &[] }
    }

    /// The text of a string.
    pub fn as_str(&self) -> Option<&str> {
        if let Self::String(s) = self { Some(s) } else { None }
    }

    /// What it is, for people.
    pub(crate) fn kind(&self) -> &'static str {
        match self {
            Self::Null => "null",
            Self::Bool(_) => "a boolean",
            Self::Number(_) => "a number",
            Self::String(_) => "a string",
            Self::Array(_) => "a list",
            Self::Object(_) => "an object",
        }
    }

    /// The text of a value that is one word: a string as it is, numbers and
    /// booleans as in JSON. `None` for others.
    pub(crate) fn plain(&self) -> Option<String> {
        match self {
            Self::String(s) => Some(s.clone()),
            Self::Bool(_) | Self::Number(_) => Some(self.to_string()),
            Self::Null | Self::Array(_) | Self::Object(_) => None,
        }
    }
}

/// Compact JSON.
impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Null => f.write_str("null"),
            Self::Bool(b) => write!(f, "{b}"),
            Self::Number(n) => write!(f, "{n}"),
            Self::String(s) => quote(s, f),
            Self::Array(items) => {
                f.write_str("[")?;
                for (i, item) in items.iter().enumerate() {
                    write!(f, "{}{item}", if i > 0 { "," } else { "" })?;
                }
                f.write_str("]")
            }
            Self::Object(members) => {
                f.write_str("{")?;
                for (i, (key, value)) in members.iter().enumerate() {
                    f.write_str(if i > 0 { "," } else { "" })?;
                    quote(key, f)?;
                    write!(f, ":{value}")?;
                }
                f.write_str("}")
            }
        }
    }
}

/// Writes `text` as a JSON string.
fn quote(text: &str, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    f.write_str(&serde_json::to_string(text).map_err(|_| fmt::Error)?)
}

/// A floating point number, as the integer it equals where it equals one: models
/// write `21.0` for an integer.
fn float(x: f64) -> Option<serde_json::Number> {
    const EXACT: f64 = 9_007_199_254_740_992.0;
    if x.fract() == 0.0 && x.abs() < EXACT {
        Some((x as i64).into())
    } else {
        serde_json::Number::from_f64(x)
    }
}

impl<'de> Deserialize<'de> for Value {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_any(Reader)
    }
}

struct Reader;

impl<'de> Visitor<'de> for Reader {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, b: bool) -> Result<Value, E> {
        Ok(Value::Bool(b))
    }

    fn visit_i64<E>(self, n: i64) -> Result<Value, E> {
        Ok(Value::Number(n.into()))
    }

    fn visit_u64<E>(self, n: u64) -> Result<Value, E> {
        Ok(Value::Number(n.into()))
    }

    fn visit_f64<E: de::Error>(self, x: f64) -> Result<Value, E> {
        float(x).map(Value::Number).ok_or_else(|| E::custom("a number that is not finite"))
    }

    fn visit_str<E>(self, s: &str) -> Result<Value, E> {
        Ok(Value::String(s.into()))
    }

    fn visit_string<E>(self, s: String) -> Result<Value, E> {
        Ok(Value::String(s))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Value, A::Error> {
        let mut items = Vec::new();
        while let Some(item) = seq.next_element()? {
            items.push(item);
        }
        Ok(Value::Array(items))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Value, A::Error> {
        let mut members: Vec<(String, Value)> = Vec::new();
        let mut seen = std::collections::HashSet::new();
        while let Some((key, value)) = map.next_entry::<String, Value>()? {
            if key.starts_with("$__toml_private") {
                return Err(de::Error::custom("JSON has no dates: write it as a string"));
            }
            if !seen.insert(key.clone()) {
                return Err(de::Error::custom(format_args!("the key {key:?} comes twice")));
            }
            members.push((key, value));
        }
        Ok(Value::Object(members))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn order_is_kept_and_text_comes_back() {
        let text = r#"{"z":1,"a":[true,null,-2.5,"é\"\n"],"m":{}}"#;
        let value = Value::parse(text).unwrap();
        assert_eq!(value.to_string(), text);
        assert_eq!(value.get("z").and_then(Value::plain).as_deref(), Some("1"));
        assert_eq!(Value::parse("[21.0, 1e2, 0.5]").unwrap().to_string(), "[21,100,0.5]");
    }

    #[test]
    fn doubles_floods_and_rubbish_are_refused() {
        assert!(Value::parse(r#"{"a":1,"a":2}"#).unwrap_err().to_string().contains("twice"));
        assert!(Value::parse(&"[".repeat(100_000)).is_err());
        for bad in ["", "{", "nul", "1 2", "\"\\ud800\"", "{\"a\":1e999}"] {
            assert!(Value::parse(bad).is_err(), "{bad}");
        }
    }
}
