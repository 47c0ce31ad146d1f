//! Why a schema was refused, and where.

use core::fmt;

use super::json::{Doc, Kind};
use crate::Name;

/// A place in a schema as a JSON pointer (RFC 6901). A long one loses its
/// front.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Pointer {
    len: u8,
    cut: bool,
    bytes: [u8; Pointer::MAX],
}

impl Pointer {
    /// Bytes kept.
    pub const MAX: usize = 120;

    /// The schema itself.
    pub const ROOT: Self = Self { len: 0, cut: false, bytes: [0; Self::MAX] };

    /// The text; empty for the whole schema.
    pub fn as_str(&self) -> &str {
        core::str::from_utf8(&self.bytes[..usize::from(self.len)]).unwrap_or("")
    }

    /// Where item `at` of `doc` is.
    pub(super) fn to(doc: &Doc<'_>, at: u32) -> Self {
        let mut pointer = Self::ROOT;
        let mut here = 0;
        while here != at {
            let inside = |from: u32| from <= at && at < doc.next(from);
            if let Some((key, value)) = doc.members(here).find(|&(k, v)| k == at || inside(v)) {
                pointer.push('/');
                for c in doc.text(key).chars() {
                    match c {
                        '~' => "~0".chars().for_each(|c| pointer.push(c)),
                        '/' => "~1".chars().for_each(|c| pointer.push(c)),
                        c => pointer.push(c),
                    }
                }
                here = if key == at { at } else { value };
            } else if let Some((i, element)) = doc.elements(here).enumerate().find(|&(_, e)| inside(e)) {
                let digits = Name::format(format_args!("/{i}"));
                digits.as_str().chars().for_each(|c| pointer.push(c));
                here = element;
            } else {
                break;
            }
        }
        pointer
    }

    /// Adds a character; where there is no room, the older half goes.
    fn push(&mut self, c: char) {
        let mut utf8 = [0; 4];
        let c = c.encode_utf8(&mut utf8).as_bytes();
        let mut len = usize::from(self.len);
        if len + c.len() > Self::MAX {
            let mut from = len / 2;
            while self.bytes[from] & 0xc0 == 0x80 {
                from += 1;
            }
            self.bytes.copy_within(from..len, 0);
            len -= from;
            self.cut = true;
        }
        self.bytes[len..len + c.len()].copy_from_slice(c);
        self.len = (len + c.len()) as u8;
    }
}

impl fmt::Display for Pointer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.len == 0 {
            return f.write_str("the top");
        }
        if self.cut {
            f.write_str("…")?;
        }
        for c in self.as_str().chars() {
            if c.is_control() { write!(f, "{}", c.escape_default())? } else { write!(f, "{c}")? }
        }
        Ok(())
    }
}

impl fmt::Debug for Pointer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.as_str())
    }
}

/// What is wrong with a schema.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Why {
    /// Its text is not JSON.
    Syntax {
        /// Where.
        byte: u32,
        /// What is wrong there.
        what: &'static str,
    },
    /// A keyword that we do not know or cannot keep.
    Keyword(Name),
    /// A keyword's value is not what it must be.
    Value {
        /// What it must be.
        wanted: &'static str,
    },
    /// A format that we do not know.
    Format(Name),
    /// A pattern that is not understood.
    Pattern {
        /// Character within the pattern.
        at: u32,
        /// What is wrong there.
        what: &'static str,
    },
    /// `$ref` leads nowhere, or out of the schema.
    Ref(Name),
    /// `$ref` leads back to itself without anything in between.
    RefLoop,
    /// Two alternatives of `oneOf` may both hold.
    OneOf {
        /// Numbers of the alternatives, from 0.
        first: u32,
        /// The second.
        second: u32,
    },
    /// `enum` or `const` beside a keyword that would have to be checked.
    Beside(Name),
    /// No value can satisfy it.
    Never,
    /// Values can satisfy it, but the smallest takes more bytes than these.
    TooLong {
        /// Most bytes of it.
        limit: u32,
    },
    /// Larger than the memory given for it.
    Limit {
        /// What there is too much of.
        what: &'static str,
        /// How much fits.
        limit: usize,
    },
}

/// A schema that cannot be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SchemaError {
    /// What is wrong.
    pub why: Why,
    /// Where.
    pub at: Pointer,
}

impl fmt::Display for SchemaError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Why::Syntax { byte, what } = self.why {
            return write!(f, "the schema is not JSON: {what} at byte {byte}");
        }
        write!(f, "schema, at {}: ", self.at)?;
        match self.why {
            Why::Syntax { .. } => Ok(()),
            Why::Keyword(name) => write!(f, "{name} is not supported: take it out or say it otherwise"),
            Why::Value { wanted } => write!(f, "this must be {wanted}"),
            Why::Format(name) => write!(
                f,
                "format {name} is not known: leave it out, give a pattern, or use one of {}",
                super::formats::NAMES
            ),
            Why::Pattern { at, what } => write!(f, "pattern, character {at}: {what}; write it without"),
            Why::Ref(name) => {
                write!(f, "$ref {name} leads nowhere: only references within the schema, #/…, are followed")
            }
            Why::RefLoop => f.write_str("$ref leads back to itself: put something between"),
            Why::OneOf { first, second } => write!(
                f,
                "alternatives {first} and {second} of oneOf may both hold: use anyOf, or give them different types or a required constant"
            ),
            Why::Beside(name) => {
                write!(f, "{name} beside enum or const: leave out the values it forbids, and it")
            }
            Why::Never => f.write_str("no value can satisfy this"),
            Why::TooLong { limit } => write!(
                f,
                "even the smallest value takes more than {limit} bytes, which is too long to write: lower minLength or minItems"
            ),
            Why::Limit { what, limit } => {
                write!(f, "more than {limit} {what}: make the schema smaller or simpler")
            }
        }
    }
}

impl core::error::Error for SchemaError {}

impl Doc<'_> {
    /// Whether a schema may stand here.
    pub(super) fn is_schema(&self, at: u32) -> bool {
        matches!(self.kind(at), Kind::Object | Kind::True | Kind::False)
    }
}

#[cfg(test)]
mod tests {
    use super::super::json::Item;
    use super::*;
    use std::string::ToString;

    #[test]
    fn pointers_lead_to_their_place() {
        let mut items = [Item::NONE; 64];
        let doc = Doc::parse("{\"a/b\":[0,{\"x~\":1}]}", &mut items).unwrap();
        let inner = doc.elements(2).nth(1).unwrap();
        let x = doc.get(inner, "x~").unwrap();
        assert_eq!(Pointer::to(&doc, x).as_str(), "/a~1b/1/x~0");
        assert_eq!(Pointer::to(&doc, 0).to_string(), "the top");
    }

    #[test]
    fn long_pointers_keep_their_end() {
        let mut text = std::string::String::new();
        (0..30).for_each(|i| text += &std::format!("{{\"é-level-{i}\":"));
        text += "1";
        (0..30).for_each(|_| text.push('}'));
        let mut items = [Item::NONE; 64];
        let doc = Doc::parse(&text, &mut items).unwrap();
        let shown = Pointer::to(&doc, doc.len() as u32 - 1).to_string();
        assert!(shown.starts_with('…') && shown.ends_with("/é-level-29"), "{shown}");
    }
}
