//! Going through a JSON text: where its values, keys and lists begin and end.

use core::fmt;
use core::ops::Range;

use super::text::{self, Step};

/// Deepest nesting.
pub(crate) const DEPTH: usize = u64::BITS as usize;

/// Where and why a text is no JSON object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotJson {
    /// The byte at which it shows.
    pub byte: usize,
    /// What is wrong there.
    pub what: &'static str,
}

impl NotJson {
    /// Whether the text only ends too soon: more of it could mend it.
    pub(crate) fn is_cut(&self, text: &str) -> bool {
        self.byte >= text.len()
    }
}

impl fmt::Display for NotJson {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "not a JSON object: {} at byte {}", self.what, self.byte)
    }
}

impl core::error::Error for NotJson {}

/// What a value is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Null,
    False,
    True,
    Number,
    Str,
    Array,
    Object,
}

/// What takes notice of a text's parts, in order.
pub(crate) trait Sink {
    type Error: From<NotJson>;

    /// A value, or no more than the bracket that begins it.
    fn value(&mut self, kind: Kind, at: Range<usize>) -> Result<(), Self::Error>;

    /// A key with its quotes.
    fn key(&mut self, at: Range<usize>) -> Result<(), Self::Error>;

    /// The innermost list or object has ended before byte `end`.
    fn close(&mut self, end: usize);
}

/// Takes no notice.
impl Sink for () {
    type Error = NotJson;

    fn value(&mut self, _: Kind, _: Range<usize>) -> Result<(), NotJson> {
        Ok(())
    }

    fn key(&mut self, _: Range<usize>) -> Result<(), NotJson> {
        Ok(())
    }

    fn close(&mut self, _: usize) {}
}

/// A place in a text.
#[derive(Clone, Copy)]
pub(crate) struct Scan<'t> {
    text: &'t str,
    pub(crate) at: usize,
}

/// Which lists are open around a place: a bit each, set for objects.
#[derive(Default)]
struct Open {
    objects: u64,
    depth: usize,
}

impl Open {
    fn push(&mut self, object: bool) {
        self.objects = self.objects << 1 | u64::from(object);
        self.depth += 1;
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
    pub(crate) fn new(text: &'t str, at: usize) -> Self {
        Self { text, at }
    }

    /// Errs at the byte here, if there is one.
    pub(crate) fn bad<T>(&self, what: &'static str) -> Result<T, NotJson> {
        let what = if self.peek().is_none() { "it ends too soon" } else { what };
        Err(NotJson { byte: self.at, what })
    }

    /// The byte here, if there is one.
    pub(crate) fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    /// Goes past `b`, if it is here.
    pub(crate) fn take(&mut self, b: u8) -> bool {
        let here = self.peek() == Some(b);
        self.at += usize::from(here);
        here
    }

    pub(crate) fn space(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\n' | b'\r' | b'\t')) {
            self.at += 1;
        }
    }

    /// Errs unless nothing but white space is left.
    pub(crate) fn end(&mut self) -> Result<(), NotJson> {
        self.space();
        if self.peek().is_none() { Ok(()) } else { self.bad("text after its end") }
    }

    /// Goes past a value and gives its text.
    pub(crate) fn value(&mut self) -> Result<&'t str, NotJson> {
        self.space();
        let start = self.at;
        self.walk(&mut ())?;
        Ok(self.text.get(start..self.at).unwrap_or(""))
    }

    /// Goes past a key and its colon and gives the key with its quotes.
    pub(crate) fn key(&mut self) -> Result<&'t str, NotJson> {
        let key = self.member()?;
        Ok(self.text.get(key).unwrap_or(""))
    }

    /// Goes past a value and tells `sink` of all that it holds.
    pub(crate) fn walk<S: Sink>(&mut self, sink: &mut S) -> Result<(), S::Error> {
        let mut open = Open::default();
        loop {
            self.space();
            let start = self.at;
            let kind = self.token()?;
            sink.value(kind, start..self.at)?;
            if matches!(kind, Kind::Array | Kind::Object) {
                if open.depth == DEPTH {
                    self.at = start;
                    self.bad::<()>("more than 64 lists within each other")?;
                }
                let object = kind == Kind::Object;
                open.push(object);
                self.space();
                if self.peek() != Some(if object { b'}' } else { b']' }) {
                    if object {
                        sink.key(self.member()?)?;
                    }
                    continue;
                }
            }
            if self.close(&mut open, sink)? {
                return Ok(());
            }
        }
    }

    /// A value has ended, or a list without any: ends what it is the last of, up
    /// to a comma. Whether nothing is open any more.
    fn close<S: Sink>(&mut self, open: &mut Open, sink: &mut S) -> Result<bool, S::Error> {
        while let Some(object) = open.top() {
            self.space();
            if self.take(b',') {
                if object {
                    sink.key(self.member()?)?;
                }
                return Ok(false);
            }
            if !self.take(if object { b'}' } else { b']' }) {
                self.bad::<()>("a comma or the end of the list is missing")?;
            }
            sink.close(self.at);
            open.pop();
        }
        Ok(true)
    }

    /// Goes past a key and its colon; where the key stands.
    fn member(&mut self) -> Result<Range<usize>, NotJson> {
        self.space();
        let start = self.at;
        if !self.take(b'"') {
            return self.bad("a key is missing");
        }
        self.string()?;
        let key = start..self.at;
        self.space();
        if self.take(b':') { Ok(key) } else { self.bad("a colon is missing") }
    }

    /// Goes past a value, or the bracket that begins it.
    fn token(&mut self) -> Result<Kind, NotJson> {
        match self.peek() {
            Some(b'n') => self.word("null", Kind::Null),
            Some(b'f') => self.word("false", Kind::False),
            Some(b't') => self.word("true", Kind::True),
            Some(b'-' | b'0'..=b'9') => self.number(),
            _ if self.take(b'"') => self.string(),
            _ if self.take(b'[') => Ok(Kind::Array),
            _ if self.take(b'{') => Ok(Kind::Object),
            _ => self.bad("a value is missing"),
        }
    }

    fn word(&mut self, word: &str, kind: Kind) -> Result<Kind, NotJson> {
        let rest = self.text.as_bytes().get(self.at..).unwrap_or(&[]);
        if rest.starts_with(word.as_bytes()) {
            self.at += word.len();
            return Ok(kind);
        }
        if word.as_bytes().starts_with(rest) {
            self.at = self.text.len();
        }
        self.bad("a value is missing")
    }

    /// The rest of a string.
    fn string(&mut self) -> Result<Kind, NotJson> {
        let mut state = text::BODY;
        while let Some(b) = self.peek() {
            state = match text::step(state, b, false) {
                Step::Within(state) => state,
                Step::Char => text::BODY,
                Step::Close => {
                    self.at += 1;
                    return Ok(Kind::Str);
                }
                Step::Never => return self.bad(text::fault(state)),
            };
            self.at += 1;
        }
        Err(NotJson { byte: self.at, what: "a string does not end" })
    }

    fn number(&mut self) -> Result<Kind, NotJson> {
        self.take(b'-');
        let zero = self.peek() == Some(b'0');
        if self.digits()? > 1 && zero {
            return Err(NotJson { byte: self.at - 1, what: "not a number" });
        }
        if self.take(b'.') {
            self.digits()?;
        }
        if self.take(b'e') || self.take(b'E') {
            let _ = self.take(b'+') || self.take(b'-');
            self.digits()?;
        }
        Ok(Kind::Number)
    }

    fn digits(&mut self) -> Result<usize, NotJson> {
        let start = self.at;
        while matches!(self.peek(), Some(b'0'..=b'9')) {
            self.at += 1;
        }
        if self.at == start { self.bad("not a number") } else { Ok(self.at - start) }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{object, value};
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
                let text = &good[..cut];
                assert!(value(text, 0).is_err_and(|e| e.is_cut(text)), "{text}");
            }
        }
        for bad in
            ["[1 2]", "{1:2}", "{\"a\" 1}", "[01]", "\"\\x\"", "\"\n\"", "[}", "[,]", "[1,]", "nul ", "01"]
        {
            assert!(value(bad, 0).is_err_and(|e| !e.is_cut(bad)), "{bad}");
        }
        assert_eq!(value("{} x", 0), Ok(2));
        let deep = "[".repeat(100);
        assert!(value(&deep, 0).is_err_and(|e| e.byte == 64 && !e.is_cut(&deep)));
    }
}
