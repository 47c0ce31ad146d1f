//! The held-out samples, as the generator wrote them.

use std::path::Path;

use anyhow::{Context, Result, bail};
use katydid_core::chat::{Call, CallResult, ToolSpec, Turn};
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

/// A conversation that waits for an answer, and the answer expected.
#[derive(Deserialize)]
pub(super) struct Sample {
    pub(super) kind: String,
    tools: Vec<Tool>,
    messages: Vec<Message>,
    /// The calls expected; none where an answer in words is.
    #[serde(default)]
    pub(super) calls: Vec<Expected>,
    /// The words expected.
    #[serde(default)]
    pub(super) says: String,
    /// What the words must hold.
    pub(super) holds: Option<String>,
}

#[derive(Deserialize)]
struct Tool {
    name: String,
    #[serde(default)]
    description: String,
    // As text: the order of its members is part of what the model reads.
    parameters: Option<Box<RawValue>>,
}

#[derive(Deserialize)]
struct Message {
    role: String,
    content: String,
    #[serde(default)]
    calls: Vec<Earlier>,
}

#[derive(Deserialize)]
struct Earlier {
    name: String,
    arguments: Box<RawValue>,
}

/// A call, as values.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub(super) struct Expected {
    pub(super) name: String,
    pub(super) arguments: Value,
}

impl Tool {
    fn spec(&self) -> ToolSpec<'_> {
        let parameters = self.parameters.as_ref().map_or("", |p| p.get());
        ToolSpec { name: &self.name, description: &self.description, parameters }
    }
}

impl Sample {
    pub(super) fn tools(&self) -> Vec<ToolSpec<'_>> {
        self.tools.iter().map(Tool::spec).collect()
    }

    pub(super) fn turns(&self) -> Vec<Turn<'_>> {
        let mut turns = Vec::new();
        for m in &self.messages {
            match m.role.as_str() {
                "system" => turns.push(Turn::System(&m.content)),
                "user" => turns.push(Turn::User(&m.content)),
                "tool" => {
                    turns.push(Turn::Result(CallResult { id: "call_1", name: "", content: &m.content }))
                }
                _ if m.calls.is_empty() => turns.push(Turn::Assistant(&m.content)),
                _ => {}
            }
            for c in &m.calls {
                turns.push(Turn::Call(Call { id: "call_1", name: &c.name, arguments: c.arguments.get() }));
            }
        }
        turns
    }

    pub(super) fn has_tool(&self, name: &str) -> bool {
        self.tools.iter().any(|t| t.name == name)
    }

    /// What the user said last.
    pub(super) fn request(&self) -> &str {
        self.messages.iter().rev().find(|m| m.role == "user").map_or("", |m| &m.content)
    }
}

/// Reads a file of samples, one a line.
pub(super) fn read(path: &Path) -> Result<Vec<Sample>> {
    let text = std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
    let mut samples = Vec::new();
    for (i, line) in text.lines().enumerate() {
        let sample: Sample =
            serde_json::from_str(line).with_context(|| format!("{}, line {}", path.display(), i + 1))?;
        samples.push(sample);
    }
    if samples.is_empty() {
        bail!("{} holds no samples", path.display());
    }
    Ok(samples)
}
