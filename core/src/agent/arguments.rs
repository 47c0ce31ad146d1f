//! What a tool's function is given: typed looks into a JSON object.

use core::fmt::{self, Write};

use crate::Name;
use crate::json::{self, NotJson, Text};

/// A checked JSON object, read in place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arguments<'t> {
    text: &'t str,
}

/// One value of an [`Arguments`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Value<'t> {
    raw: &'t str,
}

/// An argument that is not what it should be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ArgumentError {
    /// The argument.
    pub key: Name,
    /// What is wrong with it.
    pub why: ArgumentWhy,
}

/// What is wrong with an argument.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ArgumentWhy {
    /// It is not there, or null.
    Missing,
    /// It is there twice.
    Twice,
    /// It is something else.
    Kind {
        /// What it must be.
        wanted: &'static str,
    },
    /// Its text is longer than there is room for.
    Room {
        /// Bytes that it takes.
        need: usize,
        /// Bytes that there are.
        have: usize,
    },
}

impl fmt::Display for ArgumentError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let key = &self.key;
        match self.why {
            ArgumentWhy::Missing => write!(f, "the argument \"{key}\" is missing: give it"),
            ArgumentWhy::Twice => write!(f, "the argument \"{key}\" is given twice: give it once"),
            ArgumentWhy::Kind { wanted } => write!(f, "the argument \"{key}\" must be {wanted}"),
            ArgumentWhy::Room { need, have } => {
                write!(f, "the argument \"{key}\" takes {need} bytes but at most {have} fit: shorten it")
            }
        }
    }
}

impl core::error::Error for ArgumentError {}

impl<'t> Arguments<'t> {
    /// Checks that `text` is a JSON object; where it is empty, there are no
    /// arguments.
    pub fn read(text: &'t str) -> Result<Self, NotJson> {
        Ok(Self { text: if text.trim().is_empty() { "{}" } else { json::object(text)? } })
    }

    /// The text of the object.
    pub fn as_str(&self) -> &'t str {
        self.text
    }

    /// Keys and values, in the order in which they are written.
    pub fn members(&self) -> Members<'t> {
        Members(json::members(self.text))
    }

    /// The value of `key`; `None` where it is not there.
    pub fn get(&self, key: &str) -> Result<Option<Value<'t>>, ArgumentError> {
        let mut found = self.members().filter(|(k, _)| k.is(key)).map(|(_, value)| value);
        let value = found.next();
        match found.next() {
            Some(_) => Err(ArgumentError { key: Name::new(key), why: ArgumentWhy::Twice }),
            None => Ok(value),
        }
    }

    /// Whether `key` is there and not null.
    pub fn has(&self, key: &str) -> bool {
        self.members().any(|(k, value)| k.is(key) && !value.is_null())
    }

    /// The value of `key` as `read` sees it.
    fn need<T>(
        &self,
        key: &str,
        wanted: &'static str,
        read: impl FnOnce(Value<'t>) -> Option<T>,
    ) -> Result<T, ArgumentError> {
        let bad = |why| ArgumentError { key: Name::new(key), why };
        let value = self.get(key)?.filter(|v| !v.is_null()).ok_or(bad(ArgumentWhy::Missing))?;
        read(value).ok_or(bad(ArgumentWhy::Kind { wanted }))
    }

    /// The string `key`, its escapes read, in `buffer`.
    pub fn get_str<'b>(&self, key: &str, buffer: &'b mut [u8]) -> Result<&'b str, ArgumentError> {
        let text = self.need(key, "a string", |v| v.text())?;
        let (need, have) = (text.chars().map(char::len_utf8).sum::<usize>(), buffer.len());
        let room = buffer
            .get_mut(..need)
            .ok_or(ArgumentError { key: Name::new(key), why: ArgumentWhy::Room { need, have } })?;
        let mut at = 0;
        for c in text.chars() {
            at += c.encode_utf8(&mut room[at..]).len();
        }
        // Whole characters were written.
        Ok(core::str::from_utf8(room).unwrap_or(""))
    }

    /// The integer `key`.
    pub fn get_i64(&self, key: &str) -> Result<i64, ArgumentError> {
        self.need(key, "an integer", |v| v.as_i64())
    }

    /// The number `key`.
    pub fn get_f64(&self, key: &str) -> Result<f64, ArgumentError> {
        self.need(key, "a number", |v| v.as_f64())
    }

    /// The truth value `key`.
    pub fn get_bool(&self, key: &str) -> Result<bool, ArgumentError> {
        self.need(key, "true or false", |v| v.as_bool())
    }

    /// The object `key`.
    pub fn get_object(&self, key: &str) -> Result<Arguments<'t>, ArgumentError> {
        self.need(key, "an object", |v| v.as_object())
    }

    /// The list `key`.
    pub fn get_list(&self, key: &str) -> Result<Elements<'t>, ArgumentError> {
        self.need(key, "a list", |v| v.as_list())
    }
}

impl<'t> Value<'t> {
    /// Its JSON text.
    pub fn as_str(&self) -> &'t str {
        self.raw
    }

    /// Whether it is null.
    pub fn is_null(&self) -> bool {
        self.raw == "null"
    }

    /// The characters of a string, escapes read.
    pub fn chars(&self) -> Option<impl Iterator<Item = char> + Clone + use<'t>> {
        self.text().map(Text::chars)
    }

    pub(super) fn text(&self) -> Option<Text<'t>> {
        Text::of(self.raw)
    }

    /// An integer; also one that is written with a fraction of zeros or an
    /// exponent, up to 2^53.
    pub fn as_i64(&self) -> Option<i64> {
        if let Ok(n) = self.raw.parse() {
            return Some(n);
        }
        let x = self
            .as_f64()
            .filter(|x| self.raw.contains(['.', 'e', 'E']) && x.abs() <= 9_007_199_254_740_992.0)?;
        let n = x as i64;
        (n as f64 == x).then_some(n)
    }

    /// A number; none where it is too large for one.
    pub fn as_f64(&self) -> Option<f64> {
        // Rust reads words such as `inf`, which are no values here.
        self.raw.parse().ok().filter(|x: &f64| x.is_finite())
    }

    /// A truth value.
    pub fn as_bool(&self) -> Option<bool> {
        match self.raw {
            "true" => Some(true),
            "false" => Some(false),
            _ => None,
        }
    }

    /// An object.
    pub fn as_object(&self) -> Option<Arguments<'t>> {
        self.raw.starts_with('{').then_some(Arguments { text: self.raw })
    }

    /// The values of a list.
    pub fn as_list(&self) -> Option<Elements<'t>> {
        self.raw.starts_with('[').then(|| Elements(json::elements(self.raw)))
    }
}

/// Keys and values of an object.
#[derive(Clone)]
pub struct Members<'t>(json::Members<'t>);

/// The key of a member, its escapes not yet read.
#[derive(Clone, Copy)]
pub struct Key<'t>(Text<'t>);

impl<'t> Key<'t> {
    pub(super) fn new(text: Text<'t>) -> Self {
        Self(text)
    }

    /// Whether it is `text`.
    pub fn is(self, text: &str) -> bool {
        self.0.is(text)
    }

    /// Its characters.
    pub fn chars(self) -> impl Iterator<Item = char> + Clone + use<'t> {
        self.0.chars()
    }

    pub(super) fn same(self, other: Key<'_>) -> bool {
        self.0.same(other.0)
    }

    /// As much of it as a message shows.
    pub(super) fn name(self) -> Name {
        let mut name = Name::new("");
        // Never fails: what does not fit is cut.
        for c in self.chars() {
            let _ = name.write_char(c);
        }
        name
    }
}

impl<'t> Iterator for Members<'t> {
    type Item = (Key<'t>, Value<'t>);

    fn next(&mut self) -> Option<Self::Item> {
        self.0.next().map(|(key, raw)| (Key(key), Value { raw }))
    }
}

/// Values of a list.
#[derive(Clone)]
pub struct Elements<'t>(json::Elements<'t>);

impl<'t> Iterator for Elements<'t> {
    type Item = Value<'t>;

    fn next(&mut self) -> Option<Self::Item> {
        self.0.next().map(|raw| Value { raw })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::string::ToString;
    use std::vec::Vec;

    const TEXT: &str = r#" {"pin": 13, "on":true ,"note":"a\"\u00e9\n","ratio":-2.5e1,"no":null,
        "list":[1, [2], {"x":3}, "4"],"in":{"x":[],"y":{}},"whole":5.0,"big":9223372036854775807,"two":1,"two":2} "#;

    #[test]
    fn values_are_read_by_kind() {
        let a = Arguments::read(TEXT).unwrap();
        let mut buffer = [0xa5; 5];
        assert_eq!(a.get_i64("pin"), Ok(13));
        assert_eq!(a.get_f64("pin"), Ok(13.0));
        assert_eq!(a.get_bool("on"), Ok(true));
        assert_eq!(a.get_str("note", &mut buffer), Ok("a\"é\n"));
        assert_eq!(a.get_f64("ratio"), Ok(-25.0));
        assert_eq!(
            (a.get_i64("ratio"), a.get_i64("whole"), a.get_i64("big")),
            (Ok(-25), Ok(5), Ok(i64::MAX))
        );
        assert!(a.get_list("list").unwrap().map(|v| v.as_str()).eq(["1", "[2]", "{\"x\":3}", "\"4\""]));
        let inner = a.get_object("in").unwrap();
        assert!(inner.get_list("x").unwrap().next().is_none());
        assert!(inner.get_object("y").unwrap().members().next().is_none());
        assert!(a.has("pin") && !a.has("no") && !a.has("x"));
        let empty = Arguments::read(" ").unwrap();
        assert!(empty.members().next().is_none() && !empty.has("pin"));
        assert_eq!(
            a.members().map(|(k, _)| k.chars().collect()).collect::<Vec<std::string::String>>().len(),
            11
        );
    }

    #[test]
    fn what_is_wrong_is_said() {
        let a = Arguments::read(TEXT).unwrap();
        let say = |e: ArgumentError| e.to_string();
        assert_eq!(say(a.get_i64("x").unwrap_err()), "the argument \"x\" is missing: give it");
        assert_eq!(say(a.get_i64("no").unwrap_err()), "the argument \"no\" is missing: give it");
        assert_eq!(say(a.get_i64("note").unwrap_err()), "the argument \"note\" must be an integer");
        assert_eq!(say(a.get_i64("two").unwrap_err()), "the argument \"two\" is given twice: give it once");
        let short = a.get_str("note", &mut [0; 4]).unwrap_err();
        assert_eq!(short.why, ArgumentWhy::Room { need: 5, have: 4 });
        let huge = Arguments::read(r#"{"a":1e999,"b":1.5,"c":12345678901234567890}"#).unwrap();
        assert!(huge.get_f64("a").is_err() && huge.get_i64("a").is_err() && huge.get_i64("b").is_err());
        assert!(huge.get_i64("c").is_err() && huge.get_f64("c").is_ok());
        assert!(Arguments::read("[1]").is_err());
    }
}
