//! Our own model's conversations: the core's style, the template in its file and
//! the texts that it was trained on are one.

use katydid_agent::jinja::JinjaTemplate;
use katydid_core::chat::{Call, CallResult, CallSyntax, Plain, Style, Template, ToolSpec, Turn};
use serde_json::Value;

const TEMPLATE: &str = include_str!("../../../tools/train/template.jinja");
const CONVERSATIONS: &str = include_str!("../../../tools/train/eval/chat.jsonl");

/// A conversation's parts, owned.
struct Conversation {
    tools: Vec<[String; 3]>,
    /// Role, content or arguments, name.
    turns: Vec<[String; 3]>,
    text: String,
}

fn conversation(line: &str) -> Conversation {
    let value: Value = serde_json::from_str(line).unwrap();
    let text = |v: &Value| v.as_str().unwrap_or_default().to_owned();
    let tool = |t: &Value| {
        let parameters = t.get("parameters").map_or(String::new(), Value::to_string);
        [text(&t["name"]), text(&t["description"]), parameters]
    };
    let mut turns = Vec::new();
    for m in value["messages"].as_array().unwrap() {
        let calls = m["calls"].as_array();
        if calls.is_none() || m["content"] != "" {
            turns.push([text(&m["role"]), text(&m["content"]), String::new()]);
        }
        for c in calls.into_iter().flatten() {
            turns.push(["call".to_owned(), c["arguments"].to_string(), text(&c["name"])]);
        }
    }
    let tools = value["tools"].as_array().unwrap().iter().map(tool).collect();
    Conversation { tools, turns, text: text(&value["text"]) }
}

impl Conversation {
    fn tools(&self) -> Vec<ToolSpec<'_>> {
        self.tools
            .iter()
            .map(|t| {
                let [name, description, parameters] = t.each_ref();
                ToolSpec { name, description, parameters }
            })
            .collect()
    }

    fn turns(&self) -> Vec<Turn<'_>> {
        self.turns.iter().map(turn).collect()
    }
}

fn turn([role, content, name]: &[String; 3]) -> Turn<'_> {
    match role.as_str() {
        "system" => Turn::System(content),
        "user" => Turn::User(content),
        "assistant" => Turn::Assistant(content),
        "call" => Turn::Call(Call { id: "call_1", name, arguments: content }),
        _ => Turn::Result(CallResult { id: "call_1", name: "", content }),
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
        let talk = conversation(line);
        let (tools, turns) = (talk.tools(), talk.turns());
        for (name, template) in [("core", &Style::Katydid as &dyn Template), ("Jinja", &own)] {
            let mut text = String::new();
            template.render(&tools, &&turns[..], &mut Plain(&mut text)).unwrap();
            assert_eq!(text, talk.text, "{name}");
        }
        seen += 1;
    }
    assert!(seen >= 36, "{seen} conversations");
}
