//! Keywords: which are known, what they say about types and bounds.

use super::{Conj, Res, Why};
use crate::Name;
use crate::grammar::json::{Doc, Kind};
use crate::grammar::number::{Bound, Decimal, Numbers};

/// A set of types.
pub(super) type Types = u8;
pub(super) const NULL: Types = 1;
pub(super) const BOOL: Types = 2;
pub(super) const INTEGER: Types = 4;
/// Numbers that are not whole.
pub(super) const FRACTION: Types = 8;
pub(super) const STRING: Types = 16;
pub(super) const ARRAY: Types = 32;
pub(super) const OBJECT: Types = 64;
pub(super) const NUMBER: Types = INTEGER | FRACTION;
pub(super) const ALL: Types = 127;

/// Keywords that say something about values of one type only.
const BOUND: [(&str, Types); 22] = [
    ("properties", OBJECT),
    ("required", OBJECT),
    ("additionalProperties", OBJECT),
    ("items", ARRAY),
    ("prefixItems", ARRAY),
    ("additionalItems", ARRAY),
    ("minItems", ARRAY),
    ("maxItems", ARRAY),
    ("uniqueItems", ARRAY),
    ("minLength", STRING),
    ("maxLength", STRING),
    ("pattern", STRING),
    ("format", STRING),
    ("contentMediaType", STRING),
    ("contentSchema", STRING),
    ("minimum", NUMBER),
    ("maximum", NUMBER),
    ("exclusiveMinimum", NUMBER),
    ("exclusiveMaximum", NUMBER),
    ("multipleOf", NUMBER),
    ("minProperties", OBJECT),
    ("maxProperties", OBJECT),
];

/// Keywords about any value.
const GENERAL: [&str; 8] = ["type", "enum", "const", "anyOf", "oneOf", "allOf", "$ref", "nullable"];

/// Keywords that change nothing.
const NOTES: [&str; 17] = [
    "$schema",
    "$id",
    "id",
    "$comment",
    "$defs",
    "definitions",
    "$anchor",
    "title",
    "description",
    "default",
    "example",
    "examples",
    "deprecated",
    "readOnly",
    "writeOnly",
    "contentEncoding",
    "discriminator",
];

/// Errs on a keyword of `loc` that we do not know. `x-…` are notes.
pub(super) fn check_keywords(doc: &Doc<'_>, loc: u32) -> Res<()> {
    for (key, value) in doc.members(loc) {
        let text = doc.text(key);
        let raw = text.raw();
        let known = BOUND.iter().any(|b| b.0 == raw) || GENERAL.contains(&raw) || NOTES.contains(&raw);
        // Said, but says nothing.
        let idle = match raw {
            "uniqueItems" => doc.kind(value) == Kind::False,
            "minProperties" => doc.raw(value) == "0",
            "maxProperties" => false,
            "contentEncoding" => false,
            _ => true,
        };
        if !(known && idle || raw.starts_with("x-")) {
            return Err((Why::Keyword(Name::new(raw)), key));
        }
    }
    Ok(())
}

/// Errs unless `list` is a list of schemas, not empty.
pub(super) fn schemas(doc: &Doc<'_>, list: u32) -> Res<()> {
    if doc.elements(list).next().is_none() || !doc.elements(list).all(|s| doc.is_schema(s)) {
        return Err((Why::Value { wanted: "a list of schemas" }, list));
    }
    Ok(())
}

/// The first bounding keyword of a set that is about one of `types`.
pub(super) fn bounding(doc: &Doc<'_>, conj: &Conj, types: Types) -> Option<&'static str> {
    let said = |key: &str| conj.locs().any(|loc| doc.get(loc, key).is_some());
    BOUND.iter().find(|b| b.1 & types != 0 && said(b.0)).map(|b| b.0)
}

/// The types that a set allows. Where it names none but bounds values of some,
/// those are meant.
pub(super) fn types(doc: &Doc<'_>, conj: &Conj) -> Res<Types> {
    let (mut types, mut named, mut implied) = (ALL, false, 0);
    for loc in conj.locs() {
        if doc.kind(loc) == Kind::False {
            return Ok(0);
        }
        let null = doc.get(loc, "nullable").is_some_and(|n| doc.kind(n) == Kind::True);
        if let Some(value) = doc.get(loc, "type") {
            named = true;
            types &= type_names(doc, value)? | if null { NULL } else { 0 };
        }
        let listed = doc.get(loc, "enum").is_some() || doc.get(loc, "const").is_some();
        implied |= if listed { ALL } else { 0 } | if null { NULL } else { 0 };
        for (key, about) in BOUND {
            implied |= if doc.get(loc, key).is_some() { about } else { 0 };
        }
    }
    Ok(if !named && implied & !NULL != 0 { implied } else { types })
}

fn type_names(doc: &Doc<'_>, value: u32) -> Res<Types> {
    let one = |at: u32| {
        let text = doc.text(at);
        let names = [
            ("null", NULL),
            ("boolean", BOOL),
            ("integer", INTEGER),
            ("number", NUMBER),
            ("string", STRING),
            ("array", ARRAY),
            ("object", OBJECT),
        ];
        let known = names.iter().find(|n| doc.kind(at) == Kind::Str && text.is(n.0));
        known.map(|n| n.1).ok_or((Why::Value { wanted: "the name of a JSON type, or a list of such" }, at))
    };
    if doc.kind(value) != Kind::Array {
        return one(value);
    }
    doc.elements(value).try_fold(0, |types, at| Ok(types | one(at)?))
}

/// The type of a value.
pub(super) fn type_of(doc: &Doc<'_>, at: u32) -> Types {
    match doc.kind(at) {
        Kind::Null => NULL,
        Kind::False | Kind::True => BOOL,
        Kind::Number if Decimal::read(doc.raw(at)).is_some_and(|d| d.is_whole()) => INTEGER,
        Kind::Number => FRACTION,
        Kind::Str => STRING,
        Kind::Array => ARRAY,
        Kind::Object => OBJECT,
    }
}

/// A count such as `minItems` says: the largest, or with `least` the smallest,
/// of those in the set.
pub(super) fn count(doc: &Doc<'_>, conj: &Conj, key: &str, least: bool) -> Res<Option<u32>> {
    let mut found: Option<u32> = None;
    for value in conj.locs().filter_map(|loc| doc.get(loc, key)) {
        let n = if doc.kind(value) == Kind::Number { Decimal::read(doc.raw(value)) } else { None };
        let wanted = Why::Value { wanted: "a whole number from 0 to 4294967294" };
        let n = n.and_then(|d| d.count()).filter(|&n| n < u32::MAX).ok_or((wanted, value))?;
        found = Some(found.map_or(n, |f| if least { f.min(n) } else { f.max(n) }));
    }
    Ok(found)
}

/// Bounds on numbers.
pub(super) fn numbers(doc: &Doc<'_>, conj: &Conj, integer: bool) -> Res<Numbers> {
    let mut numbers = Numbers { integer, ..Numbers::default() };
    let lows = [("minimum", false), ("exclusiveMinimum", true)];
    let highs = [("maximum", false), ("exclusiveMaximum", true)];
    for loc in conj.locs() {
        for (key, out) in lows {
            if let Some(value) = doc.get(loc, key) {
                numbers.low = tighter(numbers.low, (decimal(doc, value)?, out), false);
            }
        }
        for (key, out) in highs {
            if let Some(value) = doc.get(loc, key) {
                numbers.high = tighter(numbers.high, (decimal(doc, value)?, out), true);
            }
        }
        let Some(value) = doc.get(loc, "multipleOf") else { continue };
        let wanted = Why::Value { wanted: "a number above 0 and, times a power of ten, at most 10000" };
        let divisor = decimal(doc, value)?.scaled().filter(|d| (1..=10_000).contains(&d.0));
        let divisor = divisor.ok_or((wanted, value))?;
        if numbers.divisor.is_some_and(|d| d != divisor) {
            return Err((Why::Keyword(Name::new("multipleOf beside another multipleOf")), value));
        }
        numbers.divisor = Some(divisor);
    }
    Ok(numbers)
}

fn decimal(doc: &Doc<'_>, value: u32) -> Res<Decimal> {
    let wanted = Why::Value { wanted: "a number of at most 24 digits on each side of the point" };
    let number = if doc.kind(value) == Kind::Number { Decimal::read(doc.raw(value)) } else { None };
    number.ok_or((wanted, value))
}

/// The bound of two that leaves less.
fn tighter(known: Bound, new: (Decimal, bool), high: bool) -> Bound {
    use core::cmp::Ordering::{Equal, Greater};
    let Some(old) = known else { return Some(new) };
    match new.0.compare(&old.0) {
        Equal => Some((old.0, old.1 || new.1)),
        order if (order == Greater) != high => Some(new),
        _ => Some(old),
    }
}
