//! Conversations and tools as users keep them in files: in the shapes of
//! `OpenAI`'s API.

use std::fmt;
use std::path::Path;

use anyhow::{Context, Result, anyhow, bail};
use katydid_core::chat::{Call, CallResult, ToolSpec, Turn, Turns};
use serde_json::{Value, json};

/// Largest file read.
const MOST: u64 = 64 << 20;

/// A step of a conversation, as [`Turn`].
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Line {
    System(String),
    User(String),
    Assistant(String),
    Call { id: String, name: String, arguments: String },
    Result { id: String, name: String, content: String },
}

/// Who said what.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Conversation(pub(crate) Vec<Line>);

impl Turns for Conversation {
    fn each(&self, each: &mut dyn FnMut(Turn<'_>) -> fmt::Result) -> fmt::Result {
        self.0.iter().try_for_each(|line| {
            each(match line {
                Line::System(text) => Turn::System(text),
                Line::User(text) => Turn::User(text),
                Line::Assistant(text) => Turn::Assistant(text),
                Line::Call { id, name, arguments } => Turn::Call(Call { id, name, arguments }),
                Line::Result { id, name, content } => Turn::Result(CallResult { id, name, content }),
            })
        })
    }
}

impl Conversation {
    /// Sets what the model is to be; nothing where `text` is empty.
    pub(crate) fn set_system(&mut self, text: &str) {
        if matches!(self.0.first(), Some(Line::System(_))) {
            self.0.remove(0);
        }
        if !text.is_empty() {
            self.0.insert(0, Line::System(text.to_owned()));
        }
    }

    /// Forgets the oldest question and all up to the next; false where there is
    /// only one.
    pub(crate) fn forget_oldest(&mut self) -> bool {
        let mut asked = self.0.iter().enumerate().filter(|(_, l)| matches!(l, Line::User(_))).map(|(i, _)| i);
        let (Some(_), Some(second)) = (asked.next(), asked.next()) else { return false };
        let from = usize::from(matches!(self.0.first(), Some(Line::System(_))));
        self.0.drain(from..second);
        true
    }

    /// The largest number of a call that was made here; 0 for none.
    pub(crate) fn last_call(&self) -> u32 {
        let number = |line: &Line| match line {
            Line::Call { id, .. } => u32::from_str_radix(id.strip_prefix("call_")?, 16).ok(),
            _ => None,
        };
        self.0.iter().filter_map(number).max().unwrap_or(0)
    }

    /// The messages, as the API has them.
    pub(crate) fn to_json(&self) -> Value {
        let mut messages: Vec<Value> = Vec::new();
        for line in &self.0 {
            let message = match line {
                Line::System(text) => json!({"role": "system", "content": text}),
                Line::User(text) => json!({"role": "user", "content": text}),
                Line::Assistant(text) => json!({"role": "assistant", "content": text}),
                Line::Result { id, name, content } => {
                    json!({"role": "tool", "tool_call_id": id, "name": name, "content": content})
                }
                Line::Call { id, name, arguments } => {
                    let function = json!({"name": name, "arguments": arguments});
                    let call = json!({"id": id, "type": "function", "function": function});
                    match messages.last_mut().filter(|m| m["role"] == "assistant") {
                        Some(last) => {
                            let calls = &mut last["tool_calls"];
                            match calls.as_array_mut() {
                                Some(calls) => calls.push(call),
                                None => *calls = json!([call]),
                            }
                            continue;
                        }
                        None => json!({"role": "assistant", "content": "", "tool_calls": [call]}),
                    }
                }
            };
            messages.push(message);
        }
        json!({ "messages": messages })
    }

    /// Reads what [`Conversation::to_json`] writes, or only the list in it.
    pub(crate) fn from_json(value: &Value) -> Result<Self> {
        let list = value.get("messages").unwrap_or(value).as_array();
        let list = list.ok_or_else(|| anyhow!("this is no list of messages, nor has it one by that name"))?;
        let mut lines = Vec::new();
        for (i, message) in list.iter().enumerate() {
            read_message(message, &mut lines).with_context(|| format!("message number {i}"))?;
        }
        let system = |l: &&Line| matches!(l, Line::System(_));
        if lines.iter().skip(1).any(|l| system(&l)) {
            bail!("a system message that is not the first");
        }
        Ok(Self(lines))
    }

    pub(crate) fn load(path: &Path) -> Result<Self> {
        let value = json_of(path, "a conversation")?;
        Self::from_json(&value).with_context(|| path.display().to_string())
    }
}

fn read_message(message: &Value, lines: &mut Vec<Line>) -> Result<()> {
    let text = |key: &str| match &message[key] {
        Value::Null => Ok(String::new()),
        Value::String(text) => Ok(text.clone()),
        _ => Err(anyhow!("its {key} is no text")),
    };
    match message["role"].as_str() {
        Some("system" | "developer") => lines.push(Line::System(text("content")?)),
        Some("user") => lines.push(Line::User(text("content")?)),
        Some("tool") => {
            let (id, content) = (text("tool_call_id")?, text("content")?);
            let called = lines.iter().rev().find_map(|l| match l {
                Line::Call { id: of, name, .. } if *of == id => Some(name.clone()),
                _ => None,
            });
            let name = called.map_or_else(|| text("name"), Ok)?;
            lines.push(Line::Result { id, name, content });
        }
        Some("assistant") => {
            let (said, calls) = (text("content")?, message["tool_calls"].as_array());
            if !said.is_empty() || calls.is_none() {
                lines.push(Line::Assistant(said));
            }
            for call in calls.into_iter().flatten() {
                let of = |key: &str| call["function"][key].as_str().map(str::to_owned);
                let (name, arguments) = (of("name"), of("arguments"));
                let no = || anyhow!("a tool call needs a name and arguments, JSON in a string");
                let (name, arguments) = (name.ok_or_else(no)?, arguments.ok_or_else(no)?);
                if !serde_json::from_str::<Value>(&arguments).is_ok_and(|a| a.is_object()) {
                    return Err(no());
                }
                let id = call["id"].as_str().filter(|id| !id.is_empty());
                let id = id.ok_or_else(|| anyhow!("a tool call needs an id, which its result names"))?;
                lines.push(Line::Call { id: id.to_owned(), name, arguments });
            }
        }
        _ => bail!("its role is none of system, user, assistant and tool"),
    }
    Ok(())
}

fn json_of(path: &Path, what: &str) -> Result<Value> {
    let text = crate::files::text(path, MOST, what)?;
    serde_json::from_str(&text).with_context(|| format!("{} is not JSON", path.display()))
}

/// Tools that a model may call.
#[derive(Clone, Debug, Default)]
pub(crate) struct Tools(Vec<Tool>);

#[derive(Clone, Debug)]
struct Tool {
    name: String,
    description: String,
    parameters: String,
}

impl Tools {
    /// Reads a list in the shape of the API's `tools`.
    pub(crate) fn load(path: &Path) -> Result<Self> {
        let value = json_of(path, "a list of tools")?;
        let list = value.get("tools").unwrap_or(&value).as_array();
        let tools = list.map(|list| list.iter().enumerate().map(|(i, tool)| read_tool(i, tool)).collect());
        let tools: Result<Vec<_>> = tools.unwrap_or_else(|| Err(anyhow!("this is no list of tools")));
        let tools = tools.with_context(|| path.display().to_string())?;
        let twice = tools.iter().enumerate().find(|(i, t)| tools[..*i].iter().any(|o| o.name == t.name));
        match twice {
            Some((_, t)) => bail!("{}: two tools are called {}", path.display(), t.name),
            None if tools.is_empty() => bail!("{}: there are no tools in it", path.display()),
            None => Ok(Self(tools)),
        }
    }

    pub(crate) fn specs(&self) -> Vec<ToolSpec<'_>> {
        self.0
            .iter()
            .map(|t| ToolSpec { name: &t.name, description: &t.description, parameters: &t.parameters })
            .collect()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

fn read_tool(i: usize, tool: &Value) -> Result<Tool> {
    let function = tool.get("function").unwrap_or(tool);
    let name = function["name"].as_str().filter(|n| !n.is_empty());
    let name = name.ok_or_else(|| anyhow!("tool number {i} has no name"))?.to_owned();
    let parameters = match &function["parameters"] {
        Value::Null => String::new(),
        object @ Value::Object(_) => object.to_string(),
        _ => bail!("the parameters of tool {name} are no JSON Schema"),
    };
    let description = function["description"].as_str().unwrap_or("").to_owned();
    Ok(Tool { name, description, parameters })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn conversations_come_back_as_they_were_saved() {
        let call = |id: &str| Line::Call { id: id.into(), name: "f".into(), arguments: "{\"a\":1}".into() };
        let mut talk = Conversation(vec![
            Line::System("s".into()),
            Line::User("u \"é\"\n".into()),
            Line::Assistant("a".into()),
            call("1"),
            call("2"),
            Line::Result { id: "1".into(), name: "f".into(), content: "r".into() },
            Line::Result { id: "2".into(), name: "f".into(), content: "r".into() },
            call("3"),
            Line::User("u".into()),
            Line::Assistant(String::new()),
        ]);
        let json = talk.to_json();
        assert_eq!(json["messages"][2]["tool_calls"][1]["function"]["arguments"], "{\"a\":1}");
        assert_eq!(Conversation::from_json(&json).unwrap(), talk);
        assert_eq!(Conversation::from_json(&json["messages"]).unwrap(), talk);
        talk.set_system("other");
        assert!(talk.forget_oldest() && talk.0.len() == 3 && talk.0[0] == Line::System("other".into()));
        assert!(!talk.forget_oldest());
        for bad in [
            "1",
            "[1]",
            r#"[{"role":"x"}]"#,
            r#"[{"role":"user","content":1}]"#,
            r#"[{"role":"assistant","tool_calls":[{}]}]"#,
            r#"[{"role":"user","content":"a"},{"role":"system","content":"b"}]"#,
        ] {
            assert!(Conversation::from_json(&serde_json::from_str(bad).unwrap()).is_err(), "{bad}");
        }
    }
}
