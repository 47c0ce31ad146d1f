//! Writing strings and values as JSON, piece by piece.

use core::fmt::{self, Write};

use super::text::spelling;
use super::{value, whole};

/// Writes `text` as it stands between the quotes of a string.
pub(crate) fn escape(text: &str, out: &mut dyn FnMut(&str) -> fmt::Result) -> fmt::Result {
    let special = |c: char| spelling(c.into(), false);
    text.split_inclusive(|c| special(c).is_some()).try_for_each(|piece| {
        let Some(escape) = piece.chars().next_back().and_then(special) else { return out(piece) };
        // What is escaped is a character of one byte.
        if piece.len() > 1 {
            out(&piece[..piece.len() - 1])?;
        }
        out(escape)
    })
}

/// Writes `text` as a JSON string.
pub(crate) fn quote(text: &str, out: &mut dyn FnMut(&str) -> fmt::Result) -> fmt::Result {
    out("\"")?;
    escape(text, out)?;
    out("\"")
}

/// Writes a JSON text with a space after each comma and colon and no other, as
/// Python's `json.dumps` does and so models' templates; what is no JSON as it
/// stands.
pub(crate) fn spaced(text: &str, out: &mut dyn FnMut(&str) -> fmt::Result) -> fmt::Result {
    let Ok(mut rest) = whole(text) else { return out(text) };
    while let Some(at) = rest.find(['"', ',', ':', ' ', '\n', '\r', '\t']) {
        let (end, after, mark) = match &rest[at..=at] {
            // Whole values end their strings.
            "\"" => value(rest, at).map_or((rest.len(), rest.len(), ""), |end| (end, end, "")),
            "," => (at, at + 1, ", "),
            ":" => (at, at + 1, ": "),
            _ => (at, at + 1, ""),
        };
        for piece in [&rest[..end], mark] {
            if !piece.is_empty() {
                out(piece)?;
            }
        }
        rest = &rest[after..];
    }
    if rest.is_empty() { Ok(()) } else { out(rest) }
}

/// Text in the caller's memory, counted on where it no longer fits.
pub(crate) struct Page<'o> {
    out: &'o mut [u8],
    len: usize,
}

impl<'o> Page<'o> {
    pub(crate) fn new(out: &'o mut [u8]) -> Self {
        Self { out, len: 0 }
    }

    pub(crate) fn push(&mut self, text: &str) {
        let end = self.len.saturating_add(text.len());
        if let Some(room) = self.out.get_mut(self.len..end) {
            room.copy_from_slice(text.as_bytes());
        }
        self.len = end;
    }

    /// A JSON string.
    pub(crate) fn string(&mut self, text: &str) {
        // Pages take everything.
        let _ = quote(text, &mut |s| self.write_str(s));
    }

    /// All the room, what is written in it forgotten.
    pub(crate) fn give_back(self) -> &'o mut [u8] {
        self.out
    }

    /// Bytes that all of it takes.
    pub(crate) fn need(&self) -> usize {
        self.len
    }

    /// What is written, unless some of it did not fit, and the room left.
    pub(crate) fn split(self) -> (Option<&'o str>, &'o mut [u8]) {
        let fits = self.len <= self.out.len();
        let (used, rest) = self.out.split_at_mut(self.len.min(self.out.len()));
        // Whole strings were written, so it is text.
        (core::str::from_utf8(used).ok().filter(|_| fits), rest)
    }
}

impl Write for Page<'_> {
    fn write_str(&mut self, s: &str) -> fmt::Result {
        self.push(s);
        Ok(())
    }
}
