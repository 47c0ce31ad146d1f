//! JSON text gone through in place: no index, no memory, no limit but nesting.

use core::fmt;

use crate::grammar::text::{self, Step};

/// Deepest nesting.
const DEPTH: u32 = 64;

/// Where and why a text is no JSON object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotJson {
    /// The byte at which it shows.
    pub byte: usize,
    /// What is wrong there.
    pub what: &'static str,
}

impl fmt::Display for NotJson {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "not a JSON object: {} at byte {}", self.what, self.byte)
    }
}

impl core::error::Error for NotJson {}

/// A place in a text.
#[derive(Clone, Copy)]
pub(super) struct Scan<'t> {
    text: &'t str,
    pub(super) at: usize,
}

/// Which lists are open around a place: a bit each, set for objects.
#[derive(Default)]
struct Open {
    objects: u64,
    depth: u32,
}

impl Open {
    fn push(&mut self, object: bool) -> bool {
        self.objects = self.objects << 1 | u64::from(object);
        self.depth += 1;
        self.depth <= DEPTH
    }

    fn pop(&mut self) {
        self.objects >>= 1;
        self.depth -= 1;
    }

    /// Whether the innermost is an object.
    fn top(&self) -> Option<bool> {
        (self.depth > 0).then_some(self.objects & 1 == 1)
    }
}

impl<'t> Scan<'t> {
    pub(super) fn new(text: &'t str) -> Self {
        Self { text, at: 0 }
    }

    pub(super) fn bad<T>(&self, what: &'static str) -> Result<T, NotJson> {
        Err(NotJson { byte: self.at, what })
    }

    /// The byte here, if there is one.
    pub(super) fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    /// Goes past `b`, if it is here.
    pub(super) fn take(&mut self, b: u8) -> bool {
        let here = self.peek() == Some(b);
        self.at += usize::from(here);
        here
    }

    pub(super) fn space(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\n' | b'\r' | b'\t')) {
            self.at += 1;
        }
    }

    /// Goes past a value and gives its text.
    pub(super) fn value(&mut self) -> Result<&'t str, NotJson> {
        self.space();
        let start = self.at;
        self.skip()?;
        Ok(self.text.get(start..self.at).unwrap_or(""))
    }

    /// Goes past a key and its colon and gives what stands between its quotes.
    pub(super) fn key(&mut self) -> Result<&'t str, NotJson> {
        self.space();
        let start = self.at + 1;
        if self.peek() != Some(b'"') {
            return self.bad("a key is missing");
        }
        self.string()?;
        let end = self.at - 1;
        self.space();
        if self.take(b':') {
            Ok(self.text.get(start..end).unwrap_or(""))
        } else {
            self.bad("a colon is missing")
        }
    }

    fn skip(&mut self) -> Result<(), NotJson> {
        let mut open = Open::default();
        loop {
            self.space();
            match self.peek() {
                Some(b @ (b'{' | b'[')) => {
                    self.at += 1;
                    if !open.push(b == b'{') {
                        return self.bad("more than 64 lists within each other");
                    }
                    self.space();
                    // `}` and `]` come two after their counterparts in ASCII.
                    if self.peek() != Some(b + 2) {
                        if b == b'{' {
                            self.key()?;
                        }
                        continue;
                    }
                }
                Some(b'"') => self.string()?,
                Some(b'-' | b'0'..=b'9') => self.number()?,
                _ => self.word()?,
            }
            if self.close(&mut open)? {
                return Ok(());
            }
        }
    }

    /// A value has ended: ends what it is the last of, up to a comma. Whether
    /// nothing is open any more.
    fn close(&mut self, open: &mut Open) -> Result<bool, NotJson> {
        while let Some(object) = open.top() {
            self.space();
            match (self.peek(), object) {
                (Some(b','), _) => {
                    self.at += 1;
                    if object {
                        self.key()?;
                    }
                    return Ok(false);
                }
                (Some(b'}'), true) | (Some(b']'), false) => self.at += 1,
                (None, _) => return self.bad("it ends too soon"),
                _ => return self.bad("a comma or the end of the list is missing"),
            }
            open.pop();
        }
        Ok(true)
    }

    fn word(&mut self) -> Result<(), NotJson> {
        let rest = &self.text.as_bytes()[self.at.min(self.text.len())..];
        for word in [&b"null"[..], b"false", b"true"] {
            if rest.starts_with(word) {
                self.at += word.len();
                return Ok(());
            }
        }
        self.bad(if rest.is_empty() { "it ends too soon" } else { "a value is missing" })
    }

    fn string(&mut self) -> Result<(), NotJson> {
        self.at += 1;
        let mut state = text::BODY;
        while let Some(b) = self.peek() {
            state = match text::step(state, b, false) {
                Step::Within(state) => state,
                Step::Char => text::BODY,
                Step::Close => {
                    self.at += 1;
                    return Ok(());
                }
                Step::Never => return self.bad("a string may not hold this"),
            };
            self.at += 1;
        }
        self.bad("a string does not end")
    }

    fn digits(&mut self) -> usize {
        let start = self.at;
        while matches!(self.peek(), Some(b'0'..=b'9')) {
            self.at += 1;
        }
        self.at - start
    }

    fn number(&mut self) -> Result<(), NotJson> {
        self.take(b'-');
        let zero = self.peek() == Some(b'0');
        let whole = self.digits();
        let mut good = whole == 1 || whole > 1 && !zero;
        if self.take(b'.') {
            good &= self.digits() > 0;
        }
        if self.take(b'e') || self.take(b'E') {
            let _ = self.take(b'+') || self.take(b'-');
            good &= self.digits() > 0;
        }
        if good { Ok(()) } else { self.bad("not a number") }
    }
}

/// Checks that `text` is an object and nothing else; gives it without the
/// white space around.
pub(super) fn object(text: &str) -> Result<&str, NotJson> {
    let mut scan = Scan::new(text);
    scan.space();
    if scan.peek() != Some(b'{') {
        return scan.bad("no { begins it");
    }
    let object = scan.value()?;
    scan.space();
    if scan.at == text.len() { Ok(object) } else { scan.bad("text after its end") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::format;

    #[test]
    fn reads_what_json_is_and_nothing_else() {
        let good = [
            "null",
            "[ ]",
            "{}",
            "-0",
            "2.5e-3",
            "1E+9",
            r#"[1,[true,false],{"a":{"b":[{}]},"c":""}]"#,
            r#""a\u00e9\ud83d\ude00é""#,
        ];
        for value in good {
            assert_eq!(
                object(&format!(" {{ \"k\" : {value} }} ")).map(str::len),
                Ok(value.len() + 10),
                "{value}"
            );
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
            r#""\x""#,
            r#""\ud800""#,
            r#""\udc00""#,
            "\"abc",
            "[",
            "{1:2}",
            "]",
            "}",
            "[}",
            "{]",
            "{,}",
            "1 2",
            "\"\\u00é\"",
        ];
        for value in bad {
            assert!(object(&format!("{{\"k\":{value}}}")).is_err(), "{value}");
        }
        for text in ["", "[]", "{} {}", "{}x", "1", "{", "\"{}\"", "{\"a\":1"] {
            assert!(object(text).is_err(), "{text}");
        }
        let deep = |n: usize| format!("{{\"k\":{}{}}}", "[".repeat(n), "]".repeat(n));
        assert!(object(&deep(63)).is_ok() && object(&deep(64)).is_err() && object(&deep(100_000)).is_err());
    }
}
