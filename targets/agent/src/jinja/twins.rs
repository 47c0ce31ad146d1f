//! Texts of a conversation in disguise: brackets are exchanged for characters
//! that occur nowhere else, so that a rendered text shows where they came from.

use super::Error;
use super::messages::Message;
use katydid_core::chat::{Out, ToolSpec};
use minijinja::Value;
use minijinja::value::ValueKind;
use std::fmt;

/// Characters that stand for brackets of texts while a template runs.
pub(super) struct Twins {
    base: u32,
}

/// What control tokens are made of.
const BRACKETS: [char; 5] = ['<', '>', '[', ']', '|'];

impl Twins {
    /// Characters that occur in no text of a conversation.
    pub(super) fn unlike(messages: &[Message], tools: &[ToolSpec<'_>]) -> Result<Self, Error> {
        // Eight characters each, of those that Unicode leaves to private use.
        let mut taken = [false; 0x2000];
        let start = 0xf_0000;
        let texts = messages.iter().flat_map(Message::texts).map(String::as_str);
        let tools = tools.iter().flat_map(|t| [t.name, t.description, t.parameters]);
        for text in texts.chain(tools) {
            // Escapes in JSON can spell them, too.
            for c in text.chars().filter(|&c| c as u32 >= start) {
                if let Some(slot) = taken.get_mut((c as usize - start as usize) / 8) {
                    *slot = true;
                }
            }
            if text.contains("\\u") || text.contains("\\U") {
                mark_escaped(text, &mut taken);
            }
        }
        let free = taken[..0x1fff].iter().position(|taken| !taken);
        let free = free.ok_or_else(|| Error::new("the conversation uses all characters there are"))?;
        Ok(Self { base: start + 8 * free as u32 })
    }

    fn of(&self, c: char) -> Option<char> {
        let i = BRACKETS.iter().position(|&b| b == c)?;
        char::from_u32(self.base + i as u32)
    }

    pub(super) fn back(&self, c: char) -> Option<char> {
        BRACKETS.get((c as u32).checked_sub(self.base)? as usize).copied()
    }

    pub(super) fn hide(&self, text: &str) -> String {
        text.chars().map(|c| self.of(c).unwrap_or(c)).collect()
    }

    /// Templates look for thoughts in answers, to leave them out.
    pub(super) fn hide_but_thoughts(&self, text: &str) -> String {
        let mut hidden = self.hide(text);
        for mark in ["<think>", "</think>"] {
            hidden = hidden.replace(&self.hide(mark), mark);
        }
        hidden
    }

    /// A JSON text as a value; a string where it is none.
    pub(super) fn json(&self, text: &str) -> Value {
        match serde_json::from_str::<Value>(text) {
            Ok(value) => self.value(&value),
            Err(_) => Value::from(self.hide(text)),
        }
    }

    /// As deep as the reader of JSON lets values be.
    fn value(&self, value: &Value) -> Value {
        match value.kind() {
            ValueKind::String => Value::from(self.hide(value.as_str().unwrap_or(""))),
            ValueKind::Seq => items(value).map(|v| self.value(&v)).collect(),
            ValueKind::Map => {
                let held = |key: &Value| value.get_item(key).unwrap_or_default();
                Value::from_iter(items(value).map(|k| (self.value(&k).to_string(), self.value(&held(&k)))))
            }
            _ => value.clone(),
        }
    }

    /// Writes a rendered text: stretches between brackets of the template's own
    /// are `text` if a bracket was exchanged there, and all else is `control`.
    pub(super) fn split(&self, rendered: &str, out: &mut dyn Out) -> fmt::Result {
        let (mut from, mut at) = (0, 0);
        while at < rendered.len() {
            let rest = &rendered[at..];
            let stretch = &rest[..rest.find(BRACKETS).unwrap_or(rest.len())];
            if stretch.chars().any(|c| self.back(c).is_some()) {
                if from < at {
                    out.control(&rendered[from..at])?;
                }
                let text: String = stretch.chars().map(|c| self.back(c).unwrap_or(c)).collect();
                out.text(&text)?;
                from = at + stretch.len();
            }
            // Brackets have one byte.
            at = (at + stretch.len() + 1).min(rendered.len());
        }
        if from < rendered.len() { out.control(&rendered[from..]) } else { Ok(()) }
    }
}

/// Notes characters that JSON's escapes spell.
fn mark_escaped(text: &str, taken: &mut [bool]) {
    let high = |s: &str| s.get(..4).and_then(|h| u32::from_str_radix(h, 16).ok());
    for (at, _) in text.match_indices("\\u") {
        let first = text.get(at + 2..).and_then(high);
        let second = text.get(at + 6..).and_then(|t| t.strip_prefix("\\u")).and_then(high);
        if let (Some(h @ 0xd800..=0xdbff), Some(l @ 0xdc00..=0xdfff)) = (first, second) {
            let code = 0x10000 + ((h - 0xd800) << 10) + (l - 0xdc00);
            if let Some(slot) = code.checked_sub(0xf_0000).and_then(|c| taken.get_mut(c as usize / 8)) {
                *slot = true;
            }
        }
    }
}

/// What a value holds; keys, where it is a map.
pub(super) fn items(value: &Value) -> impl Iterator<Item = Value> + use<> {
    value.try_iter().ok().into_iter().flatten()
}
