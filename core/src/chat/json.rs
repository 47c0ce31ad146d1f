//! Reading and writing JSON texts piece by piece, without an index: what answers
//! of models and arguments of calls need. Schemas, which are gone through many
//! times, have [`crate::grammar`]'s reader instead.

use super::Out;
use core::fmt;

/// Deepest nesting that is read.
const DEPTH: u32 = 64;

/// Why a text is no JSON value, and where.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Fault {
    /// Byte in the text.
    pub(super) at: usize,
    /// The text ends before the value does.
    pub(super) cut: bool,
}

/// The first byte from `at` on that is no white space.
pub(super) fn skip(text: &str, mut at: usize) -> usize {
    while matches!(text.as_bytes().get(at), Some(b' ' | b'\n' | b'\r' | b'\t')) {
        at += 1;
    }
    at
}

/// Checks the value that begins at `at`, and says where it ends.
pub(super) fn value(text: &str, at: usize) -> Result<usize, Fault> {
    let mut reader = Reader { bytes: text.as_bytes(), at };
    // A bit for each open bracket: set for objects.
    let (mut open, mut depth) = (0u64, 0u32);
    loop {
        reader.space();
        let byte = reader.due()?;
        match byte {
            b'{' | b'[' => {
                if depth == DEPTH {
                    return reader.bad();
                }
                let object = byte == b'{';
                reader.at += 1;
                reader.space();
                if reader.due()? != if object { b'}' } else { b']' } {
                    open = open << 1 | u64::from(object);
                    depth += 1;
                    if object {
                        reader.key()?;
                    }
                    continue;
                }
                reader.at += 1;
            }
            _ => reader.scalar(byte)?,
        }
        // A value has ended, and perhaps what holds it.
        loop {
            if depth == 0 {
                return Ok(reader.at);
            }
            reader.space();
            let object = open & 1 == 1;
            match reader.due()? {
                b',' => {
                    reader.at += 1;
                    if object {
                        reader.key()?;
                    }
                    break;
                }
                b'}' if object => {}
                b']' if !object => {}
                _ => return reader.bad(),
            }
            reader.at += 1;
            open >>= 1;
            depth -= 1;
        }
    }
}

/// `text` without white space around it, if it is one whole value.
pub(super) fn whole(text: &str) -> Option<&str> {
    let text = text.trim_matches([' ', '\n', '\r', '\t']);
    (value(text, 0) == Ok(text.len())).then_some(text)
}

/// Like [`whole`], for objects.
pub(super) fn object(text: &str) -> Option<&str> {
    whole(text).filter(|t| t.starts_with('{'))
}

struct Reader<'t> {
    bytes: &'t [u8],
    at: usize,
}

impl Reader<'_> {
    fn bad<T>(&self) -> Result<T, Fault> {
        Err(Fault { at: self.at, cut: self.at >= self.bytes.len() })
    }

    fn due(&self) -> Result<u8, Fault> {
        self.bytes.get(self.at).copied().ok_or(Fault { at: self.at, cut: true })
    }

    fn space(&mut self) {
        while matches!(self.bytes.get(self.at), Some(b' ' | b'\n' | b'\r' | b'\t')) {
            self.at += 1;
        }
    }

    /// A key and its colon.
    fn key(&mut self) -> Result<(), Fault> {
        self.space();
        if self.due()? != b'"' {
            return self.bad();
        }
        self.string()?;
        self.space();
        if self.due()? != b':' {
            return self.bad();
        }
        self.at += 1;
        Ok(())
    }

    fn scalar(&mut self, byte: u8) -> Result<(), Fault> {
        match byte {
            b'"' => self.string(),
            b'-' | b'0'..=b'9' => self.number(),
            b't' => self.word(b"true"),
            b'f' => self.word(b"false"),
            b'n' => self.word(b"null"),
            _ => self.bad(),
        }
    }

    fn word(&mut self, word: &[u8]) -> Result<(), Fault> {
        for &byte in word {
            if self.due()? != byte {
                return self.bad();
            }
            self.at += 1;
        }
        Ok(())
    }

    fn string(&mut self) -> Result<(), Fault> {
        self.at += 1;
        loop {
            match self.due()? {
                b'"' => {
                    self.at += 1;
                    return Ok(());
                }
                b'\\' => {
                    self.at += 1;
                    match self.due()? {
                        b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't' => self.at += 1,
                        b'u' => {
                            self.at += 1;
                            for _ in 0..4 {
                                if !self.due()?.is_ascii_hexdigit() {
                                    return self.bad();
                                }
                                self.at += 1;
                            }
                        }
                        _ => return self.bad(),
                    }
                }
                0x20.. => self.at += 1,
                _ => return self.bad(),
            }
        }
    }

    fn digits(&mut self) -> Result<usize, Fault> {
        let start = self.at;
        while matches!(self.bytes.get(self.at), Some(b'0'..=b'9')) {
            self.at += 1;
        }
        if self.at == start { self.bad() } else { Ok(self.at - start) }
    }

    fn number(&mut self) -> Result<(), Fault> {
        self.at += usize::from(self.due()? == b'-');
        let zero = self.due()? == b'0';
        if self.digits()? > 1 && zero {
            return self.bad();
        }
        if self.bytes.get(self.at) == Some(&b'.') {
            self.at += 1;
            self.digits()?;
        }
        if matches!(self.bytes.get(self.at), Some(b'e' | b'E')) {
            self.at += 1;
            self.at += usize::from(matches!(self.bytes.get(self.at), Some(b'+' | b'-')));
            self.digits()?;
        }
        Ok(())
    }
}

/// Members of a whole object, keys with their quotes. None of what is no object.
pub(super) fn members(object: &str) -> impl Iterator<Item = (&str, &str)> {
    let mut at = if object.starts_with('{') { 1 } else { object.len() };
    core::iter::from_fn(move || {
        let start = skip(object, at);
        let key = object.get(start..value(object, start).ok()?)?;
        let colon = skip(object, start + key.len());
        let start = skip(object, colon + 1);
        let held = object.get(start..value(object, start).ok()?)?;
        at = skip(object, start + held.len()) + 1;
        Some((key, held))
    })
}

/// Elements of a whole list. None of what is no list.
pub(super) fn elements(list: &str) -> impl Iterator<Item = &str> {
    let mut at = if list.starts_with('[') { 1 } else { list.len() };
    core::iter::from_fn(move || {
        let start = skip(list, at);
        let held = list.get(start..value(list, start).ok()?)?;
        at = skip(list, start + held.len()) + 1;
        Some(held)
    })
}

/// The characters of a string value; none of what is no string. Halves of
/// surrogate pairs read as U+FFFD.
pub(super) fn chars(string: &str) -> impl Iterator<Item = char> {
    let inner = string.strip_prefix('"').and_then(|s| s.strip_suffix('"')).unwrap_or("");
    let mut rest = inner.chars();
    let hex = |digits: &str| digits.get(..4).and_then(|d| u32::from_str_radix(d, 16).ok()).unwrap_or(0xfffd);
    core::iter::from_fn(move || {
        let c = rest.next()?;
        if c != '\\' {
            return Some(c);
        }
        Some(match rest.next()? {
            'b' => '\u{8}',
            'f' => '\u{c}',
            'n' => '\n',
            'r' => '\r',
            't' => '\t',
            'u' => {
                let text = rest.as_str();
                let mut code = hex(text);
                let mut used = 4;
                let low = text.get(4..).and_then(|t| t.strip_prefix("\\u")).map_or(0, hex);
                if (0xd800..0xdc00).contains(&code) && (0xdc00..0xe000).contains(&low) {
                    code = 0x10000 + ((code - 0xd800) << 10) + (low - 0xdc00);
                    used = 10;
                }
                rest = text.get(used..).unwrap_or("").chars();
                char::from_u32(code).unwrap_or('\u{fffd}')
            }
            other => other,
        })
    })
}

/// Whether a string value says `what`.
pub(super) fn is(string: &str, what: &str) -> bool {
    string.starts_with('"') && chars(string).eq(what.chars())
}

/// Writes a character as it stands within a JSON string.
pub(super) fn escaped(c: char, out: &mut dyn FnMut(&str) -> fmt::Result) -> fmt::Result {
    match c {
        '"' => out("\\\""),
        '\\' => out("\\\\"),
        '\n' => out("\\n"),
        '\r' => out("\\r"),
        '\t' => out("\\t"),
        '\u{8}' => out("\\b"),
        '\u{c}' => out("\\f"),
        '\0'..='\u{1f}' => {
            const HEX: &[u8; 16] = b"0123456789abcdef";
            let code = c as usize;
            let spelt = [b'\\', b'u', b'0', b'0', HEX[code >> 4], HEX[code & 15]];
            out(core::str::from_utf8(&spelt).unwrap_or("\\u0000"))
        }
        _ => out(c.encode_utf8(&mut [0; 4])),
    }
}

/// Writes `text` as a JSON string.
pub(super) fn write_string(text: &str, out: &mut dyn Out) -> fmt::Result {
    out.text("\"")?;
    let mut rest = text;
    while let Some(at) = rest.find(|c: char| c < ' ' || c == '"' || c == '\\') {
        let (plain, special) = rest.split_at(at);
        if !plain.is_empty() {
            out.text(plain)?;
        }
        // What was found is a character of one byte.
        let c = special.chars().next().unwrap_or(' ');
        escaped(c, &mut |s| out.text(s))?;
        rest = special.get(1..).unwrap_or("");
    }
    if !rest.is_empty() {
        out.text(rest)?;
    }
    out.text("\"")
}

/// Writes a JSON text with a space after each comma and colon and no other, as
/// Python's `json.dumps` does and so models' templates; what is no JSON as it
/// stands.
pub(super) fn write_spaced(text: &str, out: &mut dyn Out) -> fmt::Result {
    let Some(mut rest) = whole(text) else { return out.text(text) };
    while let Some(at) = rest.find(['"', ',', ':', ' ', '\n', '\r', '\t']) {
        // Whole values end their strings.
        let end = if rest[at..].starts_with('"') { value(rest, at).unwrap_or(rest.len()) } else { at };
        if end > 0 {
            out.text(&rest[..end])?;
        }
        let after = &rest[end..];
        if end == at {
            match after.as_bytes().first() {
                Some(b',') => out.text(", ")?,
                Some(b':') => out.text(": ")?,
                _ => {}
            }
            rest = after.get(1..).unwrap_or("");
        } else {
            rest = after;
        }
    }
    if rest.is_empty() { Ok(()) } else { out.text(rest) }
}

#[cfg(test)]
mod tests {
    use super::super::Plain;
    use super::*;
    use proptest::prelude::*;
    use std::string::String;
    use std::vec::Vec;

    #[test]
    fn values_end_where_they_do() {
        for good in [
            "null",
            "[]",
            "{}",
            "[1, -0.5e+3,\"\\u00e9\\\"]\" ,{}]",
            "{\"a\":{\"b\":[true,false]},\"c\":\"\"}",
        ] {
            assert_eq!(value(good, 0), Ok(good.len()), "{good}");
            for cut in 1..good.len() {
                let Err(fault) = value(&good[..cut], 0) else { panic!("{}", &good[..cut]) };
                assert!(fault.cut, "{}", &good[..cut]);
            }
        }
        for bad in ["[1 2]", "{1:2}", "{\"a\" 1}", "[01]", "\"\\x\"", "\"\n\"", "[}", "[,]", "[1,]", "nul "] {
            assert!(value(bad, 0).is_err_and(|f| !f.cut), "{bad}");
        }
        assert_eq!(value("{} x", 0), Ok(2));
        let deep = "[".repeat(100);
        assert_eq!(value(&deep, 0), Err(Fault { at: 64, cut: false }));
    }

    #[test]
    fn strings_are_read_and_written() {
        let text: String = chars("\"a\\u00e9\\ud83d\\ude00\\ud800x\\n\\/\"").collect();
        assert_eq!(text, "aé😀\u{fffd}x\n/");
        assert!(is("\"n\\u0061me\"", "name") && !is("name", "name"));
        let mut out = String::new();
        write_string("a\"\\\n\u{1}é", &mut Plain(&mut out)).unwrap();
        assert_eq!(out, "\"a\\\"\\\\\\n\\u0001é\"");
        out.clear();
        write_spaced(" {\"a,b\":[1 ,2],\n\"c\" : \"\"} ", &mut Plain(&mut out)).unwrap();
        assert_eq!(out, "{\"a,b\": [1, 2], \"c\": \"\"}");
        let all: Vec<_> = members("{ \"a\" : [1, 2] , \"b\":{}}").collect();
        assert_eq!(all, [("\"a\"", "[1, 2]"), ("\"b\"", "{}")]);
        assert!(elements("[ 1 ,\"]\", [ ] ]").eq(["1", "\"]\"", "[ ]"]));
    }

    proptest! {
        #[test]
        fn nothing_panics(text in "[\\[\\]{},:\"\\\\ue0-2 xé\n]{0,40}", at in 0usize..50) {
            let _ = value(&text, at);
            let _ = members(&text).count() + elements(&text).count() + chars(&text).count();
            let mut out = String::new();
            write_spaced(&text, &mut Plain(&mut out)).unwrap();
            if whole(&text).is_some() {
                prop_assert!(whole(&out).is_some());
            }
        }

        #[test]
        fn strings_come_back(text in "\\PC*|[\0-\u{20}\"\\\\]*") {
            let mut out = String::new();
            write_string(&text, &mut Plain(&mut out)).unwrap();
            prop_assert_eq!(whole(&out), Some(&*out));
            prop_assert_eq!(chars(&out).collect::<String>(), text);
        }
    }
}
