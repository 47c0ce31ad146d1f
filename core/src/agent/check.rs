//! Whether arguments keep to a tool's schema, by the schema's grammar.
//!
//! A grammar describes texts that are generated under it: members in the
//! schema's order, one way to put white space and escapes. Arguments may have
//! been written freely, so they are fed to it rewritten that way, a byte at a
//! time and without a copy. What it then accepts satisfies the schema.

use core::fmt;

use super::arguments::{Arguments, Key, Value};
use crate::Name;
use crate::grammar::{Matcher, Spacing};
use crate::json;

/// Why arguments are refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// A required argument is not there.
    Missing(Name),
    /// The schema names no such argument.
    Unknown(Name),
    /// An argument is not what the schema says, or comes twice.
    Value(Name),
    /// The arguments together are not what the schema says.
    Whole,
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Missing(key) => write!(f, "the argument \"{key}\" is missing: give it"),
            Self::Unknown(key) => write!(f, "there is no argument \"{key}\": leave it out"),
            Self::Value(key) => write!(f, "the argument \"{key}\" does not keep to the tool's schema"),
            Self::Whole => f.write_str("the arguments do not keep to the tool's schema"),
        }
    }
}

/// Checks `arguments` against the grammar of `matcher`, made from `schema`.
pub(super) fn keeps(
    matcher: &mut Matcher<'_>,
    schema: &str,
    arguments: Arguments<'_>,
) -> Result<(), Refusal> {
    let schema = Arguments::read(schema).ok();
    if let Some(schema) = schema
        && let Some(key) = missing(schema, arguments)
    {
        return Err(Refusal::Missing(key));
    }
    // A constant with escapes is known as the schema writes it, a pattern
    // without needless ones.
    let mut refusal = Ok(());
    for escapes in [Escapes::AsWritten, Escapes::Fewest] {
        matcher.restart();
        let spaced = matcher.grammar().spacing() == Spacing::Spaced;
        let mut feed = Feed { matcher, spaced, escapes, key: None };
        let fed = feed.object(arguments, schema, 0);
        let key = feed.key;
        if fed.is_some() && matcher.can_end() {
            return Ok(());
        }
        refusal = refusal.and(Err(match (fed, key) {
            (None, Some(key)) if schema.is_some_and(|s| !lists(s, key)) => Refusal::Unknown(key.name()),
            (None, Some(key)) => Refusal::Value(key.name()),
            _ => Refusal::Whole,
        }));
    }
    refusal
}

/// The first argument that `schema` requires and that is not there.
fn missing(schema: Arguments<'_>, arguments: Arguments<'_>) -> Option<Name> {
    let mut required = schema.get_list("required").ok()?.filter_map(|v| v.text()).map(Key::new);
    required.find(|&key| !arguments.members().any(|(k, _)| k.same(key))).map(Key::name)
}

/// Whether `schema` lists a property `key`.
fn lists(schema: Arguments<'_>, key: Key<'_>) -> bool {
    schema.get_object("properties").is_ok_and(|p| p.members().any(|(k, _)| k.same(key)))
}

/// How strings are fed.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Escapes {
    AsWritten,
    Fewest,
}

/// Writes values to a matcher. All of it gives `None` once the matcher refuses.
struct Feed<'m, 'g, 't> {
    matcher: &'m mut Matcher<'g>,
    spaced: bool,
    escapes: Escapes,
    /// The argument under way.
    key: Option<Key<'t>>,
}

impl<'t> Feed<'_, '_, 't> {
    fn bytes(&mut self, text: &str) -> Option<()> {
        text.bytes().all(|b| self.matcher.advance(b)).then_some(())
    }

    /// A comma or colon.
    fn mark(&mut self, mark: &str) -> Option<()> {
        self.bytes(mark)?;
        if self.spaced { self.bytes(" ") } else { Some(()) }
    }

    /// `depth` is bounded: deeper values do not pass as JSON.
    fn value(&mut self, value: Value<'t>, schema: Option<Arguments<'_>>, depth: u32) -> Option<()> {
        if let Some(object) = value.as_object() {
            self.object(object, schema, depth + 1)
        } else if let Some(list) = value.as_list() {
            let items = schema.and_then(|s| s.get_object("items").ok());
            self.bytes("[")?;
            for (i, value) in list.enumerate() {
                if i > 0 {
                    self.mark(",")?;
                }
                self.value(value, items, depth + 1)?;
            }
            self.bytes("]")
        } else {
            match value.chars().filter(|_| self.escapes == Escapes::Fewest) {
                Some(chars) => self.string(chars),
                None => self.bytes(value.as_str()),
            }
        }
    }

    /// Members that `schema` lists come first, in its order.
    fn object(&mut self, object: Arguments<'t>, schema: Option<Arguments<'_>>, depth: u32) -> Option<()> {
        let properties = schema.and_then(|s| s.get_object("properties").ok());
        let mut n = 0;
        self.bytes("{")?;
        for (listed, schema) in properties.iter().flat_map(|p| p.members()) {
            for (key, value) in object.members().filter(|(k, _)| k.same(listed)) {
                self.member(key, value, schema.as_object(), depth, &mut n)?;
            }
        }
        for (key, value) in object.members() {
            if !properties.is_some_and(|p| p.members().any(|(k, _)| k.same(key))) {
                self.member(key, value, None, depth, &mut n)?;
            }
        }
        if depth == 0 {
            self.key = None;
        }
        self.bytes("}")
    }

    fn member(
        &mut self,
        key: Key<'t>,
        value: Value<'t>,
        schema: Option<Arguments<'_>>,
        depth: u32,
        n: &mut usize,
    ) -> Option<()> {
        if depth == 0 {
            self.key = Some(key);
        }
        if *n > 0 {
            self.mark(",")?;
        }
        *n += 1;
        self.string(key.chars())?;
        self.mark(":")?;
        self.value(value, schema, depth)
    }

    fn string(&mut self, mut chars: impl Iterator<Item = char>) -> Option<()> {
        self.bytes("\"")?;
        let mut put = |s: &str| self.bytes(s).ok_or(fmt::Error);
        chars.try_for_each(|c| json::escape(c.encode_utf8(&mut [0; 4]), &mut put)).ok()?;
        self.bytes("\"")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arena::Arena;
    use crate::grammar::{Grammar, Limits, Memory, Options, Scratch, Stacks};

    fn check(schema: &str, spacing: Spacing, arguments: &str) -> Result<(), Refusal> {
        let (mut room, limits) = (std::vec![0; 1 << 20], Limits::small());
        let mut arena = Arena::new(&mut room);
        let memory = Memory::lay_out(&mut arena, &limits).unwrap();
        let stacks = Stacks::lay_out(&mut arena, &limits).unwrap();
        let mut scratch = Scratch::lay_out(&mut arena, &limits).unwrap();
        let options = Options { spacing, ..Options::default() };
        let grammar = Grammar::compile(schema, &options, memory, &mut scratch).unwrap();
        let mut matcher = Matcher::new(grammar, stacks).unwrap();
        keeps(&mut matcher, schema, Arguments::read(arguments).unwrap())
    }

    const SCHEMA: &str = r#"{"type":"object","properties":{
        "pin":{"type":"integer","minimum":0,"maximum":27},
        "mode":{"enum":["in","out","\u00e9t\u00e9"]},
        "tag":{"type":"string","pattern":"^[a-zé]{1,4}$"},
        "at":{"type":"array","items":{"type":"object","properties":{"x":{"type":"number"},"y":{"type":"number"}},"required":["y"]}}
        },"required":["pin"]}"#;

    #[test]
    fn free_writing_passes_where_the_values_are_right() {
        let good = [
            r#"{"pin":1}"#,
            r#" { "mode" : "out" , "pin" : 27 } "#,
            r#"{"\u0070in":0,"tag":"\u0061\u00e9"}"#,
            r#"{"mode":"\u00e9t\u00e9","pin":3}"#,
            r#"{"at":[{"y":1,"x":-2.5},{"y":3}],"tag":"é","pin":3}"#,
            r#"{"at":[],"pin":3}"#,
        ];
        for text in good {
            for spacing in [Spacing::Compact, Spacing::Spaced, Spacing::Either] {
                assert_eq!(check(SCHEMA, spacing, text), Ok(()), "{text} {spacing:?}");
            }
        }
    }

    #[test]
    fn what_is_wrong_is_found() {
        let name = Name::new;
        let bad = [
            ("{}", Refusal::Missing(name("pin"))),
            (r#"{"pin":28}"#, Refusal::Value(name("pin"))),
            (r#"{"pin":"1"}"#, Refusal::Value(name("pin"))),
            (r#"{"pin":1,"pin":2}"#, Refusal::Value(name("pin"))),
            (r#"{"led":true,"pin":1}"#, Refusal::Unknown(name("led"))),
            (r#"{"mode":"up","pin":1}"#, Refusal::Value(name("mode"))),
            (r#"{"tag":"abcde","pin":1}"#, Refusal::Value(name("tag"))),
            (r#"{"at":[{"x":1}],"pin":1}"#, Refusal::Value(name("at"))),
            (r#"{"at":[{"y":1,"z":1}],"pin":1}"#, Refusal::Value(name("at"))),
        ];
        for (text, why) in bad {
            assert_eq!(check(SCHEMA, Spacing::Spaced, text), Err(why), "{text}");
        }
        assert_eq!(
            check(
                r#"{"anyOf":[{"properties":{"a":{"type":"null"}},"required":["a"]}]}"#,
                Spacing::Spaced,
                "{}"
            ),
            Err(Refusal::Whole)
        );
    }
}
