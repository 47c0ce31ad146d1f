//! Telling JSON that is a call from JSON that is not.

use crate::json;

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
