//! Our own model's conversations: the core's style, the template in its file and
//! the texts that it was trained on are one.

use katydid_agent::jinja::JinjaTemplate;
use katydid_core::chat::{Call, CallResult, CallSyntax, Plain, Style, Template, ToolSpec, Turn};
use serde::Deserialize;
use serde_json::value::RawValue;

const TEMPLATE: &str = include_str!("../../../tools/train/template.jinja");
const CONVERSATIONS: &str = include_str!("../../../tools/train/eval/chat.jsonl");

#[derive(Deserialize)]
struct Conversation {
    tools: Vec<Tool>,
    messages: Vec<Message>,
    text: String,
}

#[derive(Deserialize)]
struct Tool {
    name: String,
    #[serde(default)]
    description: String,
    // The order of its members counts.
    parameters: Option<Box<RawValue>>,
}

#[derive(Deserialize)]
struct Message {
    role: String,
    content: String,
    #[serde(default)]
    calls: Vec<Called>,
}

#[derive(Deserialize)]
struct Called {
    name: String,
    arguments: Box<RawValue>,
}

impl Tool {
    fn spec(&self) -> ToolSpec<'_> {
        let parameters = self.parameters.as_ref().map_or("", |p| p.get());
        ToolSpec { name: &self.name, description: &self.description, parameters }
    }
}

impl Message {
    fn turns<'m>(&'m self, turns: &mut Vec<Turn<'m>>) {
        match self.role.as_str() {
            "system" => turns.push(Turn::System(&self.content)),
            "user" => turns.push(Turn::User(&self.content)),
            "tool" => turns.push(Turn::Result(CallResult { id: "call_1", name: "", content: &self.content })),
            _ if self.calls.is_empty() => turns.push(Turn::Assistant(&self.content)),
            _ => {}
        }
        let call =
            |c: &'m Called| Turn::Call(Call { id: "call_1", name: &c.name, arguments: c.arguments.get() });
        turns.extend(self.calls.iter().map(call));
    }
}

#[test]
fn style_template_and_training_text_are_the_same() {
    assert_eq!(Style::detect(TEMPLATE), Some(Style::Katydid));
    let own = JinjaTemplate::new(TEMPLATE, "<s>", "<|im_end|>").unwrap();
    assert!(own.knows_tools());
    assert_eq!(own.syntax(), CallSyntax::Hermes);
    let mut seen = 0;
    for line in CONVERSATIONS.lines() {
        let talk: Conversation = serde_json::from_str(line).unwrap();
        let tools: Vec<_> = talk.tools.iter().map(Tool::spec).collect();
        let mut turns = Vec::new();
        talk.messages.iter().for_each(|m| m.turns(&mut turns));
        for (name, template) in [("core", &Style::Katydid as &dyn Template), ("Jinja", &own)] {
            let mut text = String::new();
            template.render(&tools, &&turns[..], &mut Plain(&mut text)).unwrap();
            assert_eq!(text, talk.text, "{name}");
        }
        seen += 1;
    }
    assert!(seen >= 36, "{seen} conversations");
}
