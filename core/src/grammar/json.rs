//! A small JSON reader: the schema's text, checked once and indexed.
//!
//! [`Doc::parse`] writes one [`Item`] per value into memory that the caller
//! gives. Members of an object are two items each, key then value; `next` leads
//! past a value and all that it holds.

use super::error::Why;

/// Deepest nesting of a schema's own text.
const DEPTH: usize = 64;

/// What an item is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Null,
    False,
    True,
    Number,
    Str,
    Array,
    Object,
}

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

/// A string of the text, its escapes not yet read.
#[derive(Clone, Copy)]
pub(crate) struct Text<'d>(&'d str);

impl<'d> Doc<'d> {
    /// Checks and indexes `text`.
    pub(super) fn parse(text: &'d str, items: &'d mut [Item]) -> Result<Self, Why> {
        if u32::try_from(text.len()).is_err() {
            return Err(Why::Limit { what: "bytes of schema", limit: u32::MAX as usize });
        }
        let mut reader = Reader { text: text.as_bytes(), at: 0, items, len: 0 };
        reader.run()?;
        let Reader { items, len, .. } = reader;
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
        let raw = self.raw(at);
        Text(raw.strip_prefix('"').and_then(|r| r.strip_suffix('"')).unwrap_or(""))
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

impl<'d> Text<'d> {
    /// A text without escapes.
    pub(crate) fn plain(text: &'d str) -> Self {
        Self(text)
    }

    /// Its characters.
    pub(crate) fn chars(self) -> impl Iterator<Item = char> + Clone + use<'d> {
        let mut rest = self.0;
        core::iter::from_fn(move || {
            let (c, after) = next_char(rest)?;
            rest = after;
            Some(c)
        })
    }

    pub(crate) fn is(self, other: &str) -> bool {
        self.chars().eq(other.chars())
    }

    pub(crate) fn same(self, other: Text<'_>) -> bool {
        self.chars().eq(other.chars())
    }

    /// The text as it stands between its quotes.
    pub(super) fn raw(self) -> &'d str {
        self.0
    }
}

fn next_char(rest: &str) -> Option<(char, &str)> {
    let c = rest.chars().next()?;
    let after = &rest[c.len_utf8()..];
    if c != '\\' {
        return Some((c, after));
    }
    let kind = after.chars().next()?;
    let after = after.get(1..)?;
    let c = match kind {
        'b' => '\u{8}',
        'f' => '\u{c}',
        'n' => '\n',
        'r' => '\r',
        't' => '\t',
        'u' => return unicode(after),
        other => other,
    };
    Some((c, after))
}

/// The character after `\u`, a pair of surrogates included.
fn unicode(rest: &str) -> Option<(char, &str)> {
    let high = u32::from_str_radix(rest.get(..4)?, 16).ok()?;
    let rest = &rest[4..];
    if !(0xd800..0xdc00).contains(&high) {
        return Some((char::from_u32(high)?, rest));
    }
    let low = u32::from_str_radix(rest.strip_prefix("\\u")?.get(..4)?, 16).ok()?;
    let code = 0x10000 + ((high - 0xd800) << 10) + low.checked_sub(0xdc00)?;
    Some((char::from_u32(code)?, &rest[6..]))
}

struct Reader<'t, 'd> {
    text: &'t [u8],
    at: usize,
    items: &'d mut [Item],
    len: usize,
}

impl Reader<'_, '_> {
    fn run(&mut self) -> Result<(), Why> {
        let (mut open, mut depth) = ([0usize; DEPTH], 0);
        loop {
            self.space();
            if let Some(container) = self.value()? {
                *open.get_mut(depth).ok_or(Why::Limit { what: "levels of nesting", limit: DEPTH })? =
                    container;
                depth += 1;
                if self.is_object(container) {
                    self.key(container)?;
                }
                continue;
            }
            // A value has ended, and perhaps what holds it.
            loop {
                self.space();
                let Some(&container) = open[..depth].last() else {
                    return if self.at == self.text.len() { Ok(()) } else { self.bad("text after the end") };
                };
                let object = self.is_object(container);
                match self.text.get(self.at) {
                    Some(b',') => {
                        self.at += 1;
                        if object {
                            self.key(container)?;
                        }
                        break;
                    }
                    Some(b'}') if object => self.close(container),
                    Some(b']') if !object => self.close(container),
                    _ => return self.bad("a comma or the end of the list is missing"),
                }
                depth -= 1;
            }
        }
    }

    fn bad<T>(&self, what: &'static str) -> Result<T, Why> {
        Err(Why::Syntax { byte: self.at as u32, what })
    }

    fn is_object(&self, container: usize) -> bool {
        self.items[container].kind == Kind::Object as u32
    }

    fn space(&mut self) {
        while matches!(self.text.get(self.at), Some(b' ' | b'\n' | b'\r' | b'\t')) {
            self.at += 1;
        }
    }

    fn push(&mut self, kind: Kind, start: usize) -> Result<usize, Why> {
        let limit = self.items.len();
        let slot = self.items.get_mut(self.len).ok_or(Why::Limit { what: "schema values", limit })?;
        let next = self.len as u32 + 1;
        *slot = Item { start: start as u32, end: self.at as u32, next, kind: kind as u32 };
        self.len += 1;
        Ok(self.len - 1)
    }

    fn close(&mut self, container: usize) {
        self.at += 1;
        self.items[container].end = self.at as u32;
        self.items[container].next = self.len as u32;
    }

    /// Reads a value. A list that is not empty is returned, still open.
    fn value(&mut self) -> Result<Option<usize>, Why> {
        let start = self.at;
        let rest = &self.text[start..];
        for (word, kind) in [(&b"null"[..], Kind::Null), (b"false", Kind::False), (b"true", Kind::True)] {
            if rest.starts_with(word) {
                self.at += word.len();
                return self.push(kind, start).map(|_| None);
            }
        }
        let (kind, end) = match rest.first() {
            Some(b'"') => {
                self.string()?;
                return self.push(Kind::Str, start).map(|_| None);
            }
            Some(b'-' | b'0'..=b'9') => {
                self.number()?;
                return self.push(Kind::Number, start).map(|_| None);
            }
            Some(b'{') => (Kind::Object, b'}'),
            Some(b'[') => (Kind::Array, b']'),
            _ => return self.bad("a value is missing"),
        };
        self.at += 1;
        self.space();
        let container = self.push(kind, start)?;
        if self.text.get(self.at) == Some(&end) {
            self.close(container);
            return Ok(None);
        }
        Ok(Some(container))
    }

    fn key(&mut self, container: usize) -> Result<(), Why> {
        self.space();
        let start = self.at;
        if self.text.get(start) != Some(&b'"') {
            return self.bad("a key is missing");
        }
        self.string()?;
        let key = self.push(Kind::Str, start)?;
        self.unique(container, key)?;
        self.space();
        if self.text.get(self.at) != Some(&b':') {
            return self.bad("a colon is missing");
        }
        self.at += 1;
        Ok(())
    }

    /// A key may not come twice: readers disagree on which one counts.
    fn unique(&self, container: usize, key: usize) -> Result<(), Why> {
        let text = |i: usize| {
            let item = self.items[i];
            let raw = self.text.get(item.start as usize + 1..(item.end as usize).saturating_sub(1));
            Text(raw.and_then(|r| core::str::from_utf8(r).ok()).unwrap_or(""))
        };
        let mut other = container + 1;
        while other < key {
            if text(other).same(text(key)) {
                return Err(Why::Syntax { byte: self.items[key].start, what: "the key is there already" });
            }
            other = (self.items[other + 1].next as usize).max(other + 2);
        }
        Ok(())
    }

    fn string(&mut self) -> Result<(), Why> {
        self.at += 1;
        loop {
            match self.text.get(self.at) {
                Some(b'"') => {
                    self.at += 1;
                    return Ok(());
                }
                Some(b'\\') => self.escape()?,
                Some(0x20..) => self.at += 1,
                _ => return self.bad("a string does not end or holds a raw control character"),
            }
        }
    }

    fn escape(&mut self) -> Result<(), Why> {
        match self.text.get(self.at + 1) {
            Some(b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't') => self.at += 2,
            Some(b'u') => {
                // ASCII digits are checked here, so that the slices are text.
                let rest = &self.text[self.at + 2..];
                let digits = rest.iter().take(4).take_while(|b| b.is_ascii_hexdigit()).count();
                let tail = core::str::from_utf8(rest.get(..10).unwrap_or(rest).utf8_prefix()).unwrap_or("");
                let Some((_, after)) = (if digits == 4 { unicode(tail) } else { None }) else {
                    return self.bad("an escape that stands for no character");
                };
                self.at += 2 + tail.len() - after.len();
            }
            _ => return self.bad("an unknown escape"),
        }
        Ok(())
    }

    fn number(&mut self) -> Result<(), Why> {
        let digits = |r: &mut Self| {
            let start = r.at;
            while matches!(r.text.get(r.at), Some(b'0'..=b'9')) {
                r.at += 1;
            }
            r.at - start
        };
        self.at += usize::from(self.text[self.at] == b'-');
        let zero = self.text.get(self.at) == Some(&b'0');
        let whole = digits(self);
        if whole == 0 || zero && whole > 1 {
            return self.bad("not a number");
        }
        if self.text.get(self.at) == Some(&b'.') {
            self.at += 1;
            if digits(self) == 0 {
                return self.bad("not a number");
            }
        }
        if matches!(self.text.get(self.at), Some(b'e' | b'E')) {
            self.at += 1;
            self.at += usize::from(matches!(self.text.get(self.at), Some(b'+' | b'-')));
            if digits(self) == 0 {
                return self.bad("not a number");
            }
        }
        Ok(())
    }
}

/// The longest part of some bytes that is whole characters.
trait Utf8Prefix {
    fn utf8_prefix(&self) -> &[u8];
}

impl Utf8Prefix for [u8] {
    fn utf8_prefix(&self) -> &[u8] {
        match core::str::from_utf8(self) {
            Ok(_) => self,
            Err(e) => &self[..e.valid_up_to()],
        }
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
