//! Calls without marks: telling JSON that is a call from JSON that is not.

use super::calls::{MISTRAL, Part, Parts, State, opening};
use crate::json;

/// What a bare call begins with.
const BARE: &str = "{\"name\"";

/// The parts of a call as they are written.
#[derive(Clone, Copy)]
pub(super) struct Fields<'t> {
    pub(super) name: Option<&'t str>,
    pub(super) arguments: Option<&'t str>,
}

impl Fields<'_> {
    pub(super) fn is_call(&self) -> bool {
        self.name.is_some_and(|name| name.starts_with('"')) && self.arguments.is_some()
    }
}

/// A call's parts, at the top of an object or in its `function`.
pub(super) fn fields(object: &str) -> Fields<'_> {
    let mut found = Fields { name: None, arguments: None };
    let mut inner = object;
    for _ in 0..2 {
        let mut function = None;
        for (key, value) in json::members(inner) {
            if key.is("name") {
                found.name = Some(value);
            } else if key.is("arguments") || key.is("parameters") {
                found.arguments = found.arguments.or(Some(value));
            } else if key.is("function") && value.starts_with('{') {
                function = Some(value);
            }
        }
        match function {
            Some(object) if found.name.is_none() => inner = object,
            _ => break,
        }
    }
    found
}

/// Whether a whole value is a call, a list of calls, or OpenAI's `tool_calls`.
pub(super) fn is_calls(value: &str) -> bool {
    let all = |list: &str| {
        let mut count = 0;
        json::elements(list).all(|call| {
            count += 1;
            fields(call).is_call()
        }) && count > 0
    };
    if value.starts_with('[') {
        return all(value);
    }
    match json::members(value).find(|(key, _)| key.is("tool_calls")) {
        Some((_, list)) => all(list),
        None => fields(value).is_call(),
    }
}

/// A text without the fence of backticks, or Llama's mark of code, around it.
pub(super) fn unfenced(text: &str) -> &str {
    let text = text.trim();
    let text = text.strip_prefix("<|python_tag|>").unwrap_or(text).trim_start();
    let Some(inner) = text.strip_prefix("```") else { return text };
    let inner = inner.trim_start_matches(|c: char| c.is_ascii_alphanumeric() || c == '_');
    inner.trim().strip_suffix("```").unwrap_or(inner).trim()
}

/// What stands at a bracket in free text.
pub(super) enum Bare {
    Call,
    /// No call; look on from there.
    Other {
        end: usize,
    },
}

impl<'t> Parts<'t> {
    /// Whether a call without marks begins at a bracket.
    pub(super) fn bare_at(&self, at: usize) -> Bare {
        let other = Bare::Other { end: at + 1 };
        if opening(self.syntax).is_some() || !self.rest(at).starts_with(BARE) {
            return other;
        }
        match json::value(self.text, at) {
            Ok(end) if fields(self.slice(at, end)).is_call() => Bare::Call,
            Ok(end) => Bare::Other { end },
            Err(fault) if fault.is_cut(self.text) => Bare::Call,
            // Faults lie at bytes that may be within a character.
            Err(fault) => Bare::Other { end: self.text.ceil_char_boundary(fault.byte.max(at + 1)) },
        }
    }

    /// Looks whether an answer without marks is a call as a whole, or several.
    pub(super) fn sequence(&mut self, text: &'t str) -> bool {
        let plain = unfenced(text);
        let Some(first) = plain.find(['{', '[']) else { return false };
        // Where the call stands in the answer.
        let offset = |piece: &str| piece.as_ptr() as usize - self.text.as_ptr() as usize;
        let (start, end) = (offset(plain) + first, offset(plain) + plain.len());
        if first != 0 || plain.is_empty() {
            return false;
        }
        let mut at = start;
        let (mut calls, mut plain_calls) = (0, true);
        while at < end {
            let Ok(stop) = json::value(self.slice(0, end), at) else { return false };
            if !is_calls(self.slice(at, stop)) {
                return false;
            }
            calls += 1;
            plain_calls &= fields(self.slice(at, stop)).is_call();
            at = json::skip(self.text, stop);
            while matches!(self.text.as_bytes().get(at), Some(b';' | b',')) && at < end {
                at = json::skip(self.text, at + 1);
            }
        }
        // One list, or any number of calls.
        let found = calls > 0 && (calls == 1 || plain_calls);
        if found {
            self.at = start;
            self.state = State::Sequence { end };
        }
        found
    }

    /// The next call of those that [`Self::sequence`] found.
    pub(super) fn in_sequence(&mut self, end: usize) -> Option<Part<'t>> {
        let bytes = self.text.as_bytes();
        while self.at < end
            && matches!(bytes[self.at], b' ' | b'\n' | b'\r' | b'\t' | b';' | b',' | b']' | b'}')
        {
            self.at += 1;
        }
        if self.at >= end {
            self.at = self.text.len();
            self.state = State::Free;
            return None;
        }
        let stop = json::value(self.text, self.at).unwrap_or(end);
        let value = self.slice(self.at, stop);
        // Within a list, or within the list of `tool_calls`.
        let inner = match value.as_bytes().first() {
            Some(b'[') => Some(value),
            _ => json::members(value).find(|(k, _)| k.is("tool_calls")).map(|(_, v)| v),
        };
        if let Some(list) = inner {
            let start = list.as_ptr() as usize - self.text.as_ptr() as usize;
            self.at = start + 1;
            self.state = State::Sequence { end: start + list.len() };
            return None;
        }
        let part = self.call(self.at, stop);
        self.at = stop;
        Some(part)
    }

    /// A call without marks at `self.at`.
    pub(super) fn bare(&mut self) -> Part<'t> {
        match json::value(self.text, self.at) {
            Ok(end) => {
                let start = core::mem::replace(&mut self.at, end);
                // Several may be written with a semicolon between them.
                let after = json::skip(self.text, end);
                if self.rest(after).starts_with(';') {
                    self.at = after + 1;
                }
                self.call(start, end)
            }
            Err(fault) => self.fail(fault, MISTRAL),
        }
    }
}
