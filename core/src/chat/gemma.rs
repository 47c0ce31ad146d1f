//! How `FunctionGemma` writes data: `{key:<escape>text<escape>,other:[1,2]}`.
//!
//! Facts: Google's "FunctionGemma formatting and best practices" and the
//! template published with the model. A declaration holds the description and
//! then the JSON Schema of the parameters, where names of types are upper case
//! and come last in each object.

use super::{Call, CallResult, Out, ToolSpec};
use crate::json::{self, NotJson, Page, Text};
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
        Ok(object) => value(object, DEPTH, out)?,
        Err(_) => {
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

/// A string, changed to upper case if need be.
fn string(text: Text<'_>, upper: bool, out: &mut dyn Out) -> fmt::Result {
    out.control(ESCAPE)?;
    characters(text, upper, out)?;
    out.control(ESCAPE)
}

/// The characters of a string; whole where it has no escapes.
fn characters(text: Text<'_>, upper: bool, out: &mut dyn Out) -> fmt::Result {
    if !upper && !text.raw().contains('\\') {
        return out.text(text.raw());
    }
    text.chars().try_for_each(|c| {
        let c = if upper { c.to_ascii_uppercase() } else { c };
        out.text(c.encode_utf8(&mut [0; 4]))
    })
}

/// A whole value of JSON.
fn value(text: &str, depth: usize, out: &mut dyn Out) -> fmt::Result {
    if let Some(text) = Text::of(text) {
        return string(text, false, out);
    }
    match text.as_bytes().first() {
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
        for (key, held) in json::members(text).filter(|(key, _)| key.is("type") == last) {
            out.control(if first { "" } else { "," })?;
            first = false;
            characters(key, false, out)?;
            out.control(":")?;
            if key.is("type") {
                types(held, depth - 1, out)?;
            } else if key.is("properties") {
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
    match Text::of(text) {
        Some(name) => string(name, true, out),
        None if text.starts_with('[') && depth > 0 => list(text, out, &mut |held, out| types(held, 0, out)),
        None => value(text, depth, out),
    }
}

/// Reads the object that begins at `at`, writes it as JSON and says where it
/// ends. Lenient where a model may forget: strings without marks, JSON's own
/// strings.
pub(super) fn read(text: &str, at: usize, page: &mut Page<'_>) -> Result<usize, NotJson> {
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
    fn bad<T>(&self) -> Result<T, NotJson> {
        Err(NotJson { byte: self.at, what: "not as FunctionGemma writes" })
    }

    fn ends(&self) -> NotJson {
        NotJson { byte: self.text.len(), what: "it ends too soon" }
    }

    /// The next byte that is no white space.
    fn due(&mut self) -> Result<u8, NotJson> {
        self.at = json::skip(self.text, self.at);
        self.text.as_bytes().get(self.at).copied().ok_or(self.ends())
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
    fn marked(&mut self) -> Result<Option<&'t str>, NotJson> {
        let Some(inner) = self.rest().strip_prefix(ESCAPE) else { return Ok(None) };
        let Some(len) = inner.find(ESCAPE) else {
            return Err(self.ends());
        };
        self.at += 2 * ESCAPE.len() + len;
        Ok(inner.get(..len))
    }

    fn key(&mut self) -> Result<(), NotJson> {
        self.due()?;
        if let Some(key) = self.marked()? {
            self.page.string(key);
        } else if self.rest().starts_with('"') {
            self.json()?;
        } else {
            let Some(len) = self.rest().find([':', ',', '{', '}', '<']) else {
                return Err(self.ends());
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
    fn json(&mut self) -> Result<(), NotJson> {
        let end = json::value(self.text, self.at)?;
        self.page.push(self.text.get(self.at..end).unwrap_or(""));
        self.at = end;
        Ok(())
    }

    fn scalar(&mut self) -> Result<(), NotJson> {
        if let Some(text) = self.marked()? {
            self.page.string(text);
            return Ok(());
        }
        if self.rest().starts_with('"') {
            return self.json();
        }
        let Some(len) = self.rest().find([',', '{', '}', '[', ']', '<']) else {
            return Err(self.ends());
        };
        let text = self.rest().get(..len).unwrap_or("").trim();
        if text.is_empty() {
            return self.bad();
        }
        self.at += len;
        match json::whole(text) {
            Ok(scalar) => self.page.push(scalar),
            Err(_) => self.page.string(text),
        }
        Ok(())
    }
}
