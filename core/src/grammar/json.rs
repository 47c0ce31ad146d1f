//! The index of a schema's text, which is checked once and gone through often.
//!
//! [`Doc::parse`] writes one [`Item`] per value into memory that the caller
//! gives. Members of an object are two items each, key then value; `next` leads
//! past a value and all that it holds.

use core::ops::Range;

use super::error::Why;
use crate::json::{DEPTH, NotJson, Scan, Sink};
pub(super) use crate::json::{Kind, Text};

/// One value of the text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub(crate) struct Item {
    /// First byte, and the one after the last.
    start: u32,
    end: u32,
    /// The item after this value.
    next: u32,
    kind: u32,
}

impl Item {
    pub(crate) const NONE: Self = Self { start: 0, end: 0, next: 0, kind: 0 };
}

/// A checked text.
#[derive(Clone, Copy)]
pub(super) struct Doc<'d> {
    text: &'d str,
    items: &'d [Item],
}

impl<'d> Doc<'d> {
    /// Checks and indexes `text`.
    pub(super) fn parse(text: &'d str, items: &'d mut [Item]) -> Result<Self, Why> {
        if u32::try_from(text.len()).is_err() {
            return Err(Why::Limit { what: "bytes of schema", limit: u32::MAX as usize });
        }
        let mut index = Index { text, items, len: 0, open: 0, depth: 0 };
        let mut scan = Scan::new(text, 0);
        scan.walk(&mut index)?;
        scan.end()?;
        let Index { items, len, .. } = index;
        Ok(Self { text, items: &items[..len] })
    }

    fn item(&self, at: u32) -> Item {
        self.items.get(at as usize).copied().unwrap_or(Item::NONE)
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.items.len()
    }

    pub(super) fn kind(&self, at: u32) -> Kind {
        const KINDS: [Kind; 7] =
            [Kind::Null, Kind::False, Kind::True, Kind::Number, Kind::Str, Kind::Array, Kind::Object];
        KINDS.get(self.item(at).kind as usize).copied().unwrap_or(Kind::Null)
    }

    /// The text of a value as it stands.
    pub(super) fn raw(&self, at: u32) -> &'d str {
        let item = self.item(at);
        self.text.get(item.start as usize..item.end as usize).unwrap_or("")
    }

    /// The string at `at`; empty where it is none.
    pub(super) fn text(&self, at: u32) -> Text<'d> {
        Text::of(self.raw(at)).unwrap_or(Text::plain(""))
    }

    /// The item after the value at `at`.
    pub(super) fn next(&self, at: u32) -> u32 {
        self.item(at).next
    }

    /// Items of the array at `at`; none where it is none.
    pub(super) fn elements(self, at: u32) -> impl Iterator<Item = u32> + use<'d> {
        let end = if self.kind(at) == Kind::Array { self.next(at) } else { at };
        let mut due = at + 1;
        core::iter::from_fn(move || {
            let this = due;
            due = self.next(this).max(this + 1);
            (this < end).then_some(this)
        })
    }

    /// Keys and values of the object at `at`; none where it is none.
    pub(super) fn members(self, at: u32) -> impl Iterator<Item = (u32, u32)> + use<'d> {
        let end = if self.kind(at) == Kind::Object { self.next(at) } else { at };
        let mut due = at + 1;
        core::iter::from_fn(move || {
            let key = due;
            due = self.next(key + 1).max(key + 2);
            (key < end).then_some((key, key + 1))
        })
    }

    /// The value of a member.
    pub(super) fn get(&self, at: u32, key: &str) -> Option<u32> {
        self.members(at).find(|&(k, _)| self.text(k).is(key)).map(|(_, v)| v)
    }

    /// The value of a member whose key is the text `key`.
    pub(super) fn get_text(&self, at: u32, key: Text<'_>) -> Option<u32> {
        self.members(at).find(|&(k, _)| self.text(k).same(key)).map(|(_, v)| v)
    }

    /// Whether two values are the same; numbers by how they are written but for
    /// trailing zeros of a fraction.
    pub(super) fn same(&self, a: u32, b: u32) -> bool {
        match (self.kind(a), self.kind(b)) {
            (Kind::Str, Kind::Str) => self.text(a).same(self.text(b)),
            (Kind::Number, Kind::Number) => plain_number(self.raw(a)) == plain_number(self.raw(b)),
            (x, y) => x == y && self.raw(a) == self.raw(b),
        }
    }
}

/// `1.50` as `1.5` and `1.0` as `1`.
fn plain_number(text: &str) -> &str {
    if !text.contains('.') || text.contains(['e', 'E']) {
        return text;
    }
    text.trim_end_matches('0').trim_end_matches('.')
}

impl From<NotJson> for Why {
    fn from(e: NotJson) -> Self {
        // No text here is longer than 2^32 bytes.
        Self::Syntax { byte: e.byte as u32, what: e.what }
    }
}

/// Items as they are found.
struct Index<'d> {
    text: &'d str,
    items: &'d mut [Item],
    len: usize,
    /// The innermost list or object. Until it ends, its `next` is the one around
    /// it.
    open: usize,
    depth: usize,
}

impl<'d> Index<'d> {
    fn push(&mut self, kind: Kind, at: Range<usize>) -> Result<usize, Why> {
        let (this, limit) = (self.len, self.items.len());
        let slot = self.items.get_mut(this).ok_or(Why::Limit { what: "schema values", limit })?;
        *slot = Item { start: at.start as u32, end: at.end as u32, next: this as u32 + 1, kind: kind as u32 };
        self.len += 1;
        Ok(this)
    }

    fn key_text(&self, at: usize) -> Option<Text<'d>> {
        let Item { start, end, .. } = self.items[at];
        Text::of(self.text.get(start as usize..end as usize)?)
    }
}

impl Sink for Index<'_> {
    type Error = Why;

    fn value(&mut self, kind: Kind, at: Range<usize>) -> Result<(), Why> {
        let this = self.push(kind, at)?;
        if matches!(kind, Kind::Array | Kind::Object) {
            if self.depth == DEPTH {
                return Err(Why::Limit { what: "levels of nesting", limit: DEPTH });
            }
            self.items[this].next = self.open as u32;
            (self.open, self.depth) = (this, self.depth + 1);
        }
        Ok(())
    }

    /// A key may not come twice: readers disagree on which one counts.
    fn key(&mut self, at: Range<usize>) -> Result<(), Why> {
        let byte = at.start as u32;
        let (key, mut other) = (self.push(Kind::Str, at)?, self.open + 1);
        let text = self.key_text(key);
        while other < key {
            if self.key_text(other).zip(text).is_some_and(|(a, b)| a.same(b)) {
                return Err(Why::Syntax { byte, what: "the key is there already" });
            }
            other = (self.items[other + 1].next as usize).max(other + 2);
        }
        Ok(())
    }

    fn close(&mut self, end: usize) {
        let next = self.len as u32;
        let item = &mut self.items[self.open];
        item.end = end as u32;
        self.open = core::mem::replace(&mut item.next, next) as usize;
        self.depth = self.depth.saturating_sub(1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::string::String;

    fn parse(text: &str) -> Result<usize, Why> {
        let mut items = [Item::NONE; 64];
        Doc::parse(text, &mut items).map(|d| d.len())
    }

    #[test]
    fn reads_what_json_is_and_nothing_else() {
        let good = [
            "null",
            " [ ] ",
            "{}",
            "[1,-0,2.5e-3,\"a\\u00e9\\ud83d\\ude00\"]",
            "{\"a\":{\"b\":[true,false]},\"c\":\"\"}",
        ];
        for text in good {
            assert!(parse(text).is_ok(), "{text}");
        }
        let bad = [
            "",
            "nul",
            "[1,]",
            "{\"a\"}",
            "{\"a\":1,}",
            "01",
            "1.",
            "1e",
            "-",
            "\"\u{1}\"",
            "\"\\x\"",
            "\"\\ud800\"",
            "\"\\udc00\"",
            "\"\\ud800\\u0041\"",
            "[1] 2",
            "{\"a\":1,\"\\u0061\":2}",
            "\"abc",
            "[",
            "{1:2}",
            "\"\\u00é\"",
        ];
        for text in bad {
            assert!(matches!(parse(text), Err(Why::Syntax { .. })), "{text}");
        }
        let deep: String = "[".repeat(65);
        assert!(matches!(parse(&deep), Err(Why::Limit { .. })));
        assert!(matches!(parse(&std::format!("[{}1]", "1,".repeat(64))), Err(Why::Limit { .. })));
    }

    #[test]
    fn members_and_elements_are_walked() {
        let mut items = [Item::NONE; 64];
        let doc = Doc::parse("{\"a\":[1,[2,3],{\"x\":4}],\"\\u0062\":5}", &mut items).unwrap();
        let a = doc.get(0, "a").unwrap();
        assert!(doc.elements(a).map(|e| doc.raw(e)).eq(["1", "[2,3]", "{\"x\":4}"]));
        assert_eq!(doc.raw(doc.get(0, "b").unwrap()), "5");
        assert!(
            doc.get(0, "x").is_none() && doc.elements(0).next().is_none() && doc.members(a).next().is_none()
        );
    }
}
