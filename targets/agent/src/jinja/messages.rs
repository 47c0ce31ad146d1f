//! A conversation as messages of OpenAI's API, and what is done to it for
//! templates that do not know all of that.

use super::python::write_json;
use super::twins::Twins;
use katydid_core::chat::{CallSyntax, ToolSpec, Turn};
use minijinja::Value;

/// A message in the making.
pub(super) struct Message {
    pub(super) role: &'static str,
    pub(super) content: String,
    /// Id, name and arguments.
    calls: Vec<[String; 3]>,
    /// A result's call and tool.
    of: Option<[String; 2]>,
}

impl Message {
    pub(super) fn new(role: &'static str, content: &str) -> Self {
        Self { role, content: content.to_string(), calls: Vec::new(), of: None }
    }

    pub(super) fn texts(&self) -> impl Iterator<Item = &String> {
        std::iter::once(&self.content).chain(self.calls.iter().flatten()).chain(self.of.iter().flatten())
    }

    pub(super) fn len(&self) -> usize {
        self.texts().map(String::len).sum::<usize>() + 64
    }

    /// The message as OpenAI's API has it.
    pub(super) fn value(&self, twins: &Twins) -> Value {
        let content = if self.role == "assistant" {
            twins.hide_but_thoughts(&self.content)
        } else {
            twins.hide(&self.content)
        };
        let mut entries = vec![("role", Value::from(self.role)), ("content", Value::from(content))];
        if !self.calls.is_empty() {
            let call = |[id, name, arguments]: &[String; 3]| {
                let function =
                    [("name", Value::from(twins.hide(name))), ("arguments", twins.json(arguments))];
                Value::from_iter([
                    ("id", Value::from(twins.hide(id))),
                    ("type", Value::from("function")),
                    ("function", Value::from_iter(function)),
                ])
            };
            entries.push(("tool_calls", self.calls.iter().map(call).collect()));
        }
        if let Some([id, name]) = &self.of {
            entries.push(("tool_call_id", Value::from(twins.hide(id))));
            entries.push(("name", Value::from(twins.hide(name))));
        }
        Value::from_iter(entries)
    }
}

pub(super) fn tool_value(tool: &ToolSpec<'_>, twins: &Twins) -> Value {
    let none = "{\"type\": \"object\", \"properties\": {}}";
    let parameters = if tool.parameters.trim().is_empty() { none } else { tool.parameters };
    let function = Value::from_iter([
        ("name", Value::from(twins.hide(tool.name))),
        ("description", Value::from(twins.hide(tool.description))),
        ("parameters", twins.json(parameters)),
    ]);
    Value::from_iter([("type", Value::from("function")), ("function", function)])
}

/// Adds a turn; calls belong to the answer before them.
pub(super) fn push(messages: &mut Vec<Message>, turn: Turn<'_>) {
    match turn {
        Turn::System(text) => messages.push(Message::new("system", text)),
        Turn::User(text) => messages.push(Message::new("user", text)),
        Turn::Assistant(text) => messages.push(Message::new("assistant", text)),
        Turn::Call(call) => {
            if messages.last().is_none_or(|last| last.role != "assistant") {
                messages.push(Message::new("assistant", ""));
            }
            if let Some(last) = messages.last_mut() {
                last.calls.push([call.id, call.name, call.arguments].map(str::to_string));
            }
        }
        Turn::Result(result) => messages.push(Message {
            of: Some([result.id, result.name].map(str::to_string)),
            ..Message::new("tool", result.content)
        }),
    }
}

/// Calls as text of answers, results as text of users; roles alternate.
pub(super) fn calls_in_words(messages: Vec<Message>, syntax: CallSyntax) -> Vec<Message> {
    let hermes = syntax == CallSyntax::Hermes;
    let mut all: Vec<Message> = Vec::new();
    for mut message in messages {
        for [_, name, arguments] in std::mem::take(&mut message.calls) {
            let name = Value::from(name);
            let mut call = String::from("{\"name\": ");
            // Names are short and strings take everything.
            let _ = write_json(&name, None, 0, &mut call);
            call += &format!(", \"arguments\": {arguments}}}");
            let between = if message.content.is_empty() { "" } else { "\n" };
            message.content += between;
            message.content += &if hermes { format!("<tool_call>\n{call}\n</tool_call>") } else { call };
        }
        let result = message.of.take();
        if let Some([_, name]) = &result {
            message.role = "user";
            message.content = match hermes {
                true => format!("<tool_response>\n{}\n</tool_response>", message.content),
                false => format!("Result of {name}:\n{}", message.content.trim_end()),
            };
        }
        match all.last_mut() {
            Some(last) if last.role == message.role && message.role == "user" => {
                last.content += if hermes && result.is_some() { "\n" } else { "\n\n" };
                last.content += &message.content;
            }
            _ => all.push(message),
        }
    }
    all
}

/// The system text as the beginning of the first question.
pub(super) fn system_inside(messages: &mut Vec<Message>) {
    if messages.first().is_none_or(|first| first.role != "system") {
        return;
    }
    let system = messages.remove(0);
    match messages.first_mut() {
        Some(first) if first.role == "user" => {
            first.content = format!("{}\n\n{}", system.content.trim_end(), first.content);
        }
        _ => messages.insert(0, Message { role: "user", ..system }),
    }
}
