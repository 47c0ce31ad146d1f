//! How `FunctionGemma` writes data: `{key:<escape>text<escape>,other:[1,2]}`.
//!
//! Facts: Google's "FunctionGemma formatting and best practices" and the
//! template published with the model. A declaration holds the description and
//! then the JSON Schema of the parameters, where names of types are upper case
//! and come last in each object.

use super::{Call, CallResult, Out, ToolSpec, json};
use core::fmt;

/// Deepest nesting that is written; what is deeper is written as its JSON text.
const DEPTH: usize = 16;

const ESCAPE: &str = "<escape>";

pub(super) fn declaration(tool: &ToolSpec<'_>, out: &mut dyn Out) -> fmt::Result {
    out.control("<start_function_declaration>declaration:")?;
    out.text(tool.name)?;
    out.control("{description:")?;
    plain(tool.description, out)?;
    out.control(",parameters:")?;
    let none = "{\"type\":\"object\",\"properties\":{}}";
    schema(json::object(tool.parameters).unwrap_or(none), DEPTH, out)?;
    out.control("}<end_function_declaration>")
}

pub(super) fn call(call: Call<'_>, out: &mut dyn Out) -> fmt::Result {
    out.control("<start_function_call>call:")?;
    out.text(call.name)?;
    value(json::object(call.arguments).unwrap_or("{}"), DEPTH, out)?;
    out.control("<end_function_call>")
}

pub(super) fn response(result: CallResult<'_>, out: &mut dyn Out) -> fmt::Result {
    out.control("<start_function_response>response:")?;
    out.text(result.name)?;
    match json::object(result.content) {
        Some(object) => value(object, DEPTH, out)?,
        None => {
            out.control("{value:")?;
            plain(result.content, out)?;
            out.control("}")?;
        }
    }
    out.control("<end_function_response>")
}

fn plain(text: &str, out: &mut dyn Out) -> fmt::Result {
    out.control(ESCAPE)?;
    out.text(text)?;
    out.control(ESCAPE)
}

/// A string value of JSON, changed to upper case if need be.
fn string(text: &str, upper: bool, out: &mut dyn Out) -> fmt::Result {
    out.control(ESCAPE)?;
    characters(text, upper, out)?;
    out.control(ESCAPE)
}

/// The characters of a string value; whole where it has no escapes.
fn characters(text: &str, upper: bool, out: &mut dyn Out) -> fmt::Result {
    let inner = text.strip_prefix('"').and_then(|t| t.strip_suffix('"')).unwrap_or("");
    if !upper && !inner.contains('\\') {
        return out.text(inner);
    }
    json::chars(text).try_for_each(|c| {
        let c = if upper { c.to_ascii_uppercase() } else { c };
        out.text(c.encode_utf8(&mut [0; 4]))
    })
}

/// A whole value of JSON.
fn value(text: &str, depth: usize, out: &mut dyn Out) -> fmt::Result {
    match text.as_bytes().first() {
        Some(b'"') => string(text, false, out),
        Some(b'{') if depth > 0 => {
            out.control("{")?;
            for (i, (key, held)) in json::members(text).enumerate() {
                out.control(if i > 0 { "," } else { "" })?;
                characters(key, false, out)?;
                out.control(":")?;
                value(held, depth - 1, out)?;
            }
            out.control("}")
        }
        Some(b'[') if depth > 0 => list(text, out, &mut |held, out| value(held, depth - 1, out)),
        Some(b'{' | b'[') => plain(text, out),
        _ => out.text(text),
    }
}

fn list(
    text: &str,
    out: &mut dyn Out,
    each: &mut dyn FnMut(&str, &mut dyn Out) -> fmt::Result,
) -> fmt::Result {
    out.control("[")?;
    for (i, held) in json::elements(text).enumerate() {
        out.control(if i > 0 { "," } else { "" })?;
        each(held, out)?;
    }
    out.control("]")
}

/// A JSON Schema, or a part of one.
fn schema(text: &str, depth: usize, out: &mut dyn Out) -> fmt::Result {
    if !text.starts_with('{') || depth == 0 {
        return value(text, depth, out);
    }
    out.control("{")?;
    let mut first = true;
    for last in [false, true] {
        for (key, held) in json::members(text).filter(|(key, _)| json::is(key, "type") == last) {
            out.control(if first { "" } else { "," })?;
            first = false;
            characters(key, false, out)?;
            out.control(":")?;
            if json::is(key, "type") {
                types(held, depth - 1, out)?;
            } else if json::is(key, "properties") {
                properties(held, depth - 1, out)?;
            } else {
                schema(held, depth - 1, out)?;
            }
        }
    }
    out.control("}")
}

/// Members that are named by people: `type` may be one of their names.
fn properties(text: &str, depth: usize, out: &mut dyn Out) -> fmt::Result {
    if !text.starts_with('{') || depth == 0 {
        return value(text, depth, out);
    }
    out.control("{")?;
    for (i, (key, held)) in json::members(text).enumerate() {
        out.control(if i > 0 { "," } else { "" })?;
        characters(key, false, out)?;
        out.control(":")?;
        schema(held, depth - 1, out)?;
    }
    out.control("}")
}

fn types(text: &str, depth: usize, out: &mut dyn Out) -> fmt::Result {
    match text.as_bytes().first() {
        Some(b'"') => string(text, true, out),
        Some(b'[') if depth > 0 => list(text, out, &mut |held, out| types(held, 0, out)),
        _ => value(text, depth, out),
    }
}

/// Text in the caller's room, counted on where it no longer fits.
pub(super) struct Page<'o> {
    out: &'o mut [u8],
    len: usize,
}

impl<'o> Page<'o> {
    pub(super) fn new(out: &'o mut [u8]) -> Self {
        Self { out, len: 0 }
    }

    pub(super) fn push(&mut self, text: &str) {
        let end = self.len.saturating_add(text.len());
        if let Some(room) = self.out.get_mut(self.len..end) {
            room.copy_from_slice(text.as_bytes());
        }
        self.len = end;
    }

    /// A JSON string.
    fn string(&mut self, text: &str) {
        self.push("\"");
        for c in text.chars() {
            // Pages take everything.
            let _ = json::escaped(c, &mut |s| {
                self.push(s);
                Ok(())
            });
        }
        self.push("\"");
    }

    pub(super) fn fits(&self) -> bool {
        self.len <= self.out.len()
    }

    /// What is written, and the room left.
    pub(super) fn split(self) -> (&'o [u8], &'o mut [u8]) {
        let at = self.len.min(self.out.len());
        let (used, rest) = self.out.split_at_mut(at);
        (used, rest)
    }

    pub(super) fn give_back(self) -> &'o mut [u8] {
        self.out
    }
}

/// Reads the object that begins at `at`, writes it as JSON and says where it
/// ends. Lenient where a model may forget: strings without marks, JSON's own
/// strings.
pub(super) fn read(text: &str, at: usize, page: &mut Page<'_>) -> Result<usize, json::Fault> {
    let mut reader = Reader { text, at, page };
    let (mut open, mut depth) = (0u64, 0u32);
    loop {
        let byte = reader.due()?;
        if matches!(byte, b'{' | b'[') {
            if depth == u64::BITS {
                return reader.bad();
            }
            let object = byte == b'{';
            reader.bracket(byte);
            if reader.due()? != if object { b'}' } else { b']' } {
                open = open << 1 | u64::from(object);
                depth += 1;
                if object {
                    reader.key()?;
                }
                continue;
            }
            reader.bracket(if object { b'}' } else { b']' });
        } else {
            reader.scalar()?;
        }
        loop {
            if depth == 0 {
                return Ok(reader.at);
            }
            let object = open & 1 == 1;
            let byte = reader.due()?;
            match byte {
                b',' => {
                    reader.bracket(byte);
                    if object {
                        reader.key()?;
                    }
                    break;
                }
                b'}' if object => reader.bracket(byte),
                b']' if !object => reader.bracket(byte),
                _ => return reader.bad(),
            }
            open >>= 1;
            depth -= 1;
        }
    }
}

struct Reader<'t, 'p, 'o> {
    text: &'t str,
    at: usize,
    page: &'p mut Page<'o>,
}

impl<'t> Reader<'t, '_, '_> {
    fn bad<T>(&self) -> Result<T, json::Fault> {
        Err(json::Fault { at: self.at, cut: self.at >= self.text.len() })
    }

    /// The next byte that is no white space.
    fn due(&mut self) -> Result<u8, json::Fault> {
        self.at = json::skip(self.text, self.at);
        self.text.as_bytes().get(self.at).copied().ok_or(json::Fault { at: self.text.len(), cut: true })
    }

    fn rest(&self) -> &'t str {
        self.text.get(self.at..).unwrap_or("")
    }

    /// Copies a bracket or comma.
    fn bracket(&mut self, byte: u8) {
        self.page.push(match byte {
            b'{' => "{",
            b'}' => "}",
            b'[' => "[",
            b']' => "]",
            _ => ",",
        });
        self.at += 1;
    }

    /// The text between two marks, if one is here.
    fn marked(&mut self) -> Result<Option<&'t str>, json::Fault> {
        let Some(inner) = self.rest().strip_prefix(ESCAPE) else { return Ok(None) };
        let Some(len) = inner.find(ESCAPE) else {
            return Err(json::Fault { at: self.text.len(), cut: true });
        };
        self.at += 2 * ESCAPE.len() + len;
        Ok(inner.get(..len))
    }

    fn key(&mut self) -> Result<(), json::Fault> {
        self.due()?;
        if let Some(key) = self.marked()? {
            self.page.string(key);
        } else if self.rest().starts_with('"') {
            self.json()?;
        } else {
            let Some(len) = self.rest().find([':', ',', '{', '}', '<']) else {
                return Err(json::Fault { at: self.text.len(), cut: true });
            };
            let key = self.rest().get(..len).unwrap_or("").trim();
            self.at += len;
            if key.is_empty() {
                return self.bad();
            }
            self.page.string(key);
        }
        if self.due()? != b':' {
            return self.bad();
        }
        self.page.push(":");
        self.at += 1;
        Ok(())
    }

    /// A JSON value as it stands.
    fn json(&mut self) -> Result<(), json::Fault> {
        let end = json::value(self.text, self.at)?;
        self.page.push(self.text.get(self.at..end).unwrap_or(""));
        self.at = end;
        Ok(())
    }

    fn scalar(&mut self) -> Result<(), json::Fault> {
        if let Some(text) = self.marked()? {
            self.page.string(text);
            return Ok(());
        }
        if self.rest().starts_with('"') {
            return self.json();
        }
        let Some(len) = self.rest().find([',', '{', '}', '[', ']', '<']) else {
            return Err(json::Fault { at: self.text.len(), cut: true });
        };
        let text = self.rest().get(..len).unwrap_or("").trim();
        if text.is_empty() {
            return self.bad();
        }
        self.at += len;
        match json::whole(text) {
            Some(scalar) => self.page.push(scalar),
            None => self.page.string(text),
        }
        Ok(())
    }
}
