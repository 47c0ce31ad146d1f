//! Reading answers: what is said, what is thought, which tools are called.
//!
//! Models err, stop too early or were cut off, and write another family's calls
//! than their own. Whatever an answer holds, [`parse`] goes through it once,
//! front to back, and every piece is either understood or named as broken.

use super::bare::{Bare, Fields, fields};
use super::{CallSyntax, gemma};
use crate::json::{self, NotJson, Page, Text};
use core::fmt;

/// A piece of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part<'t> {
    /// What is said, without the white space towards calls and thoughts.
    Text(&'t str),
    /// What stands between `<think>` and `</think>`, likewise.
    Thought(&'t str),
    /// A call of a tool.
    Call {
        /// The tool's name.
        name: &'t str,
        /// The text of a JSON object.
        arguments: &'t str,
    },
    /// Something began like a call and is none.
    Broken {
        /// Byte of the answer where it fails.
        at: usize,
        /// How.
        why: Broken,
    },
}

/// Why a call is none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Broken {
    /// The answer ends within it.
    Cut,
    /// It is not written as such.
    Syntax,
    /// It names no tool.
    Name,
    /// Its arguments are no JSON object.
    Arguments,
    /// There is no room to unescape it.
    Room,
}

impl fmt::Display for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Cut => "the call does not end: write it whole, and shorter",
            Self::Syntax => "the call is not valid JSON",
            Self::Name => "the call has no name",
            Self::Arguments => "the arguments of the call are no JSON object",
            Self::Room => "the call is too long",
        })
    }
}

/// Reads an answer, whole or cut off, of a model that writes calls by `syntax`.
///
/// A call is also one where `arguments` are called `parameters` or the other way
/// round, where they are JSON within a string, or where what ends the call is
/// missing at the end of the answer. Where the syntax's own marks are nowhere in
/// the answer, an answer that as a whole (or within a fence of three backticks)
/// is JSON of one call, of a list of calls or of OpenAI's `tool_calls` is taken
/// for them.
///
/// `room` takes what cannot be a piece of the answer: strings with escapes, and
/// arguments that `FunctionGemma` writes without JSON. Six times the answer is
/// always enough, and none where there are no such.
pub fn parse<'t>(syntax: CallSyntax, text: &'t str, room: &'t mut [u8]) -> Parts<'t> {
    let marked = opening(syntax).is_some_and(|mark| text.contains(mark));
    Parts { syntax, text, at: 0, room, marked, fresh: true, state: State::Start }
}

/// The pieces of an answer, in order.
pub struct Parts<'t> {
    pub(super) syntax: CallSyntax,
    pub(super) text: &'t str,
    pub(super) at: usize,
    room: &'t mut [u8],
    /// The syntax's own marks are in the text.
    marked: bool,
    /// Nothing has been said yet, but perhaps thought.
    fresh: bool,
    pub(super) state: State,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum State {
    Start,
    Free,
    /// In a list of calls.
    List,
    /// Nothing of the text is left but these were found in its last piece, up to
    /// there: calls one after another.
    Sequence {
        end: usize,
    },
}

/// What begins calls, where something does.
pub(super) fn opening(syntax: CallSyntax) -> Option<&'static str> {
    match syntax {
        CallSyntax::Hermes => Some(HERMES),
        CallSyntax::Mistral => Some(MISTRAL),
        CallSyntax::FunctionGemma => Some(GEMMA),
        CallSyntax::Llama3 | CallSyntax::Json => None,
    }
}

const HERMES: &str = "<tool_call>";
const HERMES_END: &str = "</tool_call>";
pub(super) const MISTRAL: &str = "[TOOL_CALLS]";
const ARGS: &str = "[ARGS]";
const GEMMA: &str = "<start_function_call>";
const GEMMA_END: &str = "<end_function_call>";
const THINK: &str = "<think>";
const THOUGHT: &str = "</think>";

impl<'t> Iterator for Parts<'t> {
    type Item = Part<'t>;

    fn next(&mut self) -> Option<Part<'t>> {
        loop {
            match self.state {
                State::Start => {
                    self.state = State::Free;
                    if let Some(thought) = self.open_thought() {
                        return Some(thought);
                    }
                }
                State::Free if self.at >= self.text.len() => return None,
                State::Free => {
                    if let Some(part) = self.free() {
                        return Some(part);
                    }
                }
                State::List => {
                    if let Some(part) = self.element() {
                        return Some(part);
                    }
                }
                State::Sequence { end } => {
                    if let Some(part) = self.in_sequence(end) {
                        return Some(part);
                    }
                }
            }
        }
    }
}

impl<'t> Parts<'t> {
    pub(super) fn rest(&self, at: usize) -> &'t str {
        self.text.get(at..).unwrap_or("")
    }

    pub(super) fn slice(&self, start: usize, end: usize) -> &'t str {
        self.text.get(start..end).unwrap_or("")
    }

    /// Some templates open the thought themselves, so that only its end is here.
    fn open_thought(&mut self) -> Option<Part<'t>> {
        let end = self.text.find(THOUGHT)?;
        let thought = self.slice(0, end);
        if thought.contains(THINK) {
            return None;
        }
        self.at = end + THOUGHT.len();
        Some(thought.trim()).filter(|t| !t.is_empty()).map(Part::Thought)
    }

    /// Goes on to the next mark: returns the text before it, or what it begins.
    fn free(&mut self) -> Option<Part<'t>> {
        let start = self.at;
        let fresh = core::mem::replace(&mut self.fresh, false);
        if fresh && !self.marked && self.sequence(self.rest(start)) {
            return None;
        }
        let mut at = start;
        let end = loop {
            let rest = self.rest(at);
            let Some(step) = rest.find(['<', '[', '{']) else { break self.text.len() };
            at += step;
            if self.is_mark(at) {
                break at;
            }
            // A bare object that is no call is passed over whole, so that no byte
            // is read again and again.
            at = match self.bare_at(at) {
                Bare::Call => break at,
                Bare::Other { end } => end,
            };
        };
        let mut text = self.slice(start, end);
        if start > 0 {
            text = text.trim_start();
        }
        if end < self.text.len() {
            text = text.trim_end();
        }
        if !text.trim().is_empty() {
            self.at = end;
            return Some(Part::Text(text));
        }
        self.at = end;
        if end < self.text.len() { self.marked_part(fresh) } else { None }
    }

    fn is_mark(&self, at: usize) -> bool {
        let rest = self.rest(at);
        rest.starts_with(THINK) || opening(self.syntax).is_some_and(|mark| rest.starts_with(mark))
    }

    /// What begins at the mark at `self.at`.
    fn marked_part(&mut self, fresh: bool) -> Option<Part<'t>> {
        let rest = self.rest(self.at);
        if let Some(thought) = rest.strip_prefix(THINK) {
            let len = thought.find(THOUGHT);
            let thought = thought.get(..len.unwrap_or(thought.len())).unwrap_or("");
            self.at = match len {
                Some(len) => self.at + THINK.len() + len + THOUGHT.len(),
                None => self.text.len(),
            };
            self.fresh = fresh;
            return Some(thought.trim()).filter(|t| !t.is_empty()).map(Part::Thought);
        }
        match self.syntax {
            CallSyntax::Hermes => Some(self.hermes()),
            CallSyntax::Mistral => self.mistral(),
            CallSyntax::FunctionGemma => Some(self.gemma()),
            CallSyntax::Llama3 | CallSyntax::Json => Some(self.bare()),
        }
    }

    fn hermes(&mut self) -> Part<'t> {
        let start = json::skip(self.text, self.at + HERMES.len());
        let end = match json::value(self.text, start) {
            Ok(end) => end,
            Err(fault) => return self.fail(fault, HERMES_END),
        };
        let after = json::skip(self.text, end);
        let rest = self.rest(after);
        if rest.starts_with(HERMES_END) {
            self.at = after + HERMES_END.len();
        } else if rest.is_empty() || rest.starts_with(HERMES) {
            self.at = after;
        } else {
            return self.fail(NotJson { byte: after, what: "no end" }, HERMES_END);
        }
        self.call(start, end)
    }

    /// A broken call; goes on after what ends it.
    pub(super) fn fail(&mut self, fault: NotJson, end: &str) -> Part<'t> {
        let resume = self.text.ceil_char_boundary(fault.byte.min(self.text.len()));
        // Mistral's marks only begin calls: the next one counts.
        let past = if end == MISTRAL { 0 } else { end.len() };
        self.at = match self.rest(resume).find(end) {
            Some(step) => resume + step + past,
            None => self.text.len(),
        };
        Part::Broken {
            at: fault.byte,
            why: if fault.is_cut(self.text) { Broken::Cut } else { Broken::Syntax },
        }
    }

    /// A list of calls, one call, or `NAME[ARGS]{…}` as newer models write it.
    fn mistral(&mut self) -> Option<Part<'t>> {
        let start = json::skip(self.text, self.at + MISTRAL.len());
        match self.text.as_bytes().get(start) {
            Some(b'[') => {
                self.at = start + 1;
                self.state = State::List;
                None
            }
            Some(b'{') => {
                self.at = start;
                Some(self.bare())
            }
            None => {
                self.at = start;
                Some(Part::Broken { at: start, why: Broken::Cut })
            }
            Some(_) => Some(self.mistral_named(start)),
        }
    }

    fn mistral_named(&mut self, start: usize) -> Part<'t> {
        let rest = self.rest(start);
        let Some(len) = rest.find(['[', '{']) else {
            self.at = self.text.len();
            return Part::Broken { at: self.at, why: Broken::Cut };
        };
        let name = rest.get(..len).unwrap_or("").trim();
        // An id of the call may stand before the arguments.
        let open = rest.find('{').unwrap_or(rest.len());
        if !rest.get(len..open).unwrap_or("").contains(ARGS) && open != len {
            return self.fail(NotJson { byte: start + len, what: "no arguments" }, MISTRAL);
        }
        match json::value(self.text, start + open) {
            Ok(end) => {
                self.at = end;
                Part::Call { name, arguments: self.slice(start + open, end) }
            }
            Err(fault) => self.fail(fault, MISTRAL),
        }
    }

    /// The next call of a list.
    fn element(&mut self) -> Option<Part<'t>> {
        let mut at = json::skip(self.text, self.at);
        if self.text.as_bytes().get(at) == Some(&b',') {
            at = json::skip(self.text, at + 1);
        }
        self.at = at;
        if self.text.as_bytes().get(at) == Some(&b']') {
            self.at = at + 1;
            self.state = State::Free;
            return None;
        }
        match json::value(self.text, at) {
            Ok(end) => {
                self.at = end;
                Some(self.call(at, end))
            }
            Err(fault) => {
                self.state = State::Free;
                Some(self.fail(fault, MISTRAL))
            }
        }
    }

    fn gemma(&mut self) -> Part<'t> {
        let start = self.at + GEMMA.len();
        let rest = self.rest(start);
        let Some(len) = rest.find(['{', '<']) else {
            self.at = self.text.len();
            return Part::Broken { at: self.at, why: Broken::Cut };
        };
        let name = rest.get(..len).unwrap_or("").trim();
        let name = name.strip_prefix("call:").unwrap_or(name).trim();
        let open = start + len;
        if name.is_empty() || !self.rest(open).starts_with('{') {
            let part = self.fail(NotJson { byte: open, what: "no name or arguments" }, GEMMA_END);
            return match part {
                Part::Broken { at, .. } if name.is_empty() => Part::Broken { at, why: Broken::Name },
                part => part,
            };
        }
        let mut page = Page::new(core::mem::take(&mut self.room));
        match gemma::read(self.text, open, &mut page) {
            Ok(end) => {
                let after = json::skip(self.text, end);
                let closed = self.rest(after).starts_with(GEMMA_END);
                self.at = if closed { after + GEMMA_END.len() } else { end };
                match self.hand_out(page) {
                    Some(arguments) => Part::Call { name, arguments },
                    None => Part::Broken { at: open, why: Broken::Room },
                }
            }
            Err(fault) => {
                self.room = page.give_back();
                self.fail(fault, GEMMA_END)
            }
        }
    }

    /// What was written becomes a text, the rest of the room remains.
    fn hand_out(&mut self, page: Page<'t>) -> Option<&'t str> {
        let text;
        (text, self.room) = page.split();
        text
    }

    /// The call that a whole object is.
    pub(super) fn call(&mut self, start: usize, end: usize) -> Part<'t> {
        let Fields { name, arguments } = fields(self.slice(start, end));
        let Some(name) = name.filter(|n| n.len() > 2 && n.starts_with('"')) else {
            return Part::Broken { at: start, why: Broken::Name };
        };
        let Some(name) = self.unescaped(name) else {
            return Part::Broken { at: start, why: Broken::Room };
        };
        let arguments = match arguments {
            None | Some("null") => "{}",
            Some(text) if text.starts_with('{') => text,
            Some(text) if text.starts_with('"') => {
                let Some(inner) = self.unescaped(text) else {
                    return Part::Broken { at: start, why: Broken::Room };
                };
                match json::object(inner) {
                    Ok(object) => object,
                    Err(_) if inner.trim().is_empty() => "{}",
                    Err(_) => return Part::Broken { at: start, why: Broken::Arguments },
                }
            }
            Some(_) => return Part::Broken { at: start, why: Broken::Arguments },
        };
        Part::Call { name, arguments }
    }

    /// What a string value says.
    fn unescaped(&mut self, string: &'t str) -> Option<&'t str> {
        let text = Text::of(string)?;
        if !text.raw().contains('\\') {
            return Some(text.raw());
        }
        let mut page = Page::new(core::mem::take(&mut self.room));
        for c in text.chars() {
            page.push(c.encode_utf8(&mut [0; 4]));
        }
        self.hand_out(page)
    }
}
