//! The chat template that a model file carries, run as its makers wrote it.
//!
//! # What it is for
//! `tokenizer.chat_template` is a Jinja program for Hugging Face's dialect: blocks
//! trimmed, Python's methods of strings, `raise_exception`, `strftime_now`.
//! [`JinjaTemplate`] gives it messages and tools in the shape of OpenAI's API.
//! Where it knows nothing of tools, calls or system texts, they are put into
//! words for it: found out once, by rendering a short conversation.
//!
//! # What it promises
//! - Nothing in a conversation becomes a control token. The brackets that such
//!   tokens are made of (`<`, `>`, `[`, `]`, `|`) are exchanged for characters
//!   that occur nowhere else before the template sees a text, and are changed back
//!   afterwards, as [`Out::text`]. A template can trim, split, measure and join
//!   texts as ever; what it cannot do is find brackets in them, but for the
//!   `<think>` and `</think>` of answers. Control tokens without any bracket are
//!   not guarded against.
//! - A hostile template cannot reach anything but the conversation, and cannot
//!   run, nest or write without end: steps, depth and output are limited. Memory
//!   is not: a program that doubles a text again and again can exhaust it.
//!
//! # What it costs
//! A thread for each rendering, for a stack that nested values fit, and the time
//! of a few hundred steps a message.

use katydid_core::chat::{
    Call, CallSyntax, Out, Plain, Template, TemplateError, ToolSpec, Turn, Turns, describe_tools,
};
use messages::{Message, calls_in_words, push, system_inside, tool_value};
use minijinja::{Environment, ErrorKind, Value};
use python::{environment, strftime};
use std::fmt;
use std::sync::Mutex;
use twins::Twins;

mod messages;
mod python;
#[cfg(test)]
mod tests;
mod twins;

/// Longest template.
const SOURCE: usize = 256 << 10;
/// Steps for any conversation, and more for each message.
const FUEL: [u64; 2] = [200_000, 2_000];
/// Most steps.
const MOST_FUEL: u64 = 4_000_000;
/// Bytes of stack, and more for each step: a value can nest a level deeper with
/// every few steps, and is taken apart recursively. Only what is used is memory.
const STACK: [usize; 2] = [16 << 20, 128];
/// The date that Llama 3's template falls back on, 26 July 2024 at noon.
const TIME: i64 = 1_721_995_200;

/// Why a template does not work.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error {
    /// Its line, from 1, where one is to blame.
    pub line: Option<usize>,
    /// What is wrong.
    pub message: String,
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            Some(line) => write!(f, "chat template, line {line}: {}", self.message),
            None => write!(f, "chat template: {}", self.message),
        }
    }
}

impl std::error::Error for Error {}

impl Error {
    fn new(message: impl Into<String>) -> Self {
        Self { line: None, message: message.into() }
    }
}

impl From<minijinja::Error> for Error {
    fn from(error: minijinja::Error) -> Self {
        let message = match (error.kind(), error.detail()) {
            (ErrorKind::OutOfFuel, _) => "it runs for too many steps".to_string(),
            (kind, Some(detail)) => format!("{kind}: {detail}"),
            (kind, None) => kind.to_string(),
        };
        Self { line: error.line(), message }
    }
}

/// A model's own template.
pub struct JinjaTemplate {
    env: Environment<'static>,
    bos: String,
    eos: String,
    syntax: CallSyntax,
    knows: Knows,
    time: i64,
    last: Mutex<Option<Error>>,
}

/// What a template makes use of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Knows {
    system: bool,
    tools: bool,
    calls: bool,
}

impl JinjaTemplate {
    /// Compiles `source`, for a model whose control tokens are spelt `bos` and
    /// `eos` (empty where it has none), and finds out what it knows.
    ///
    /// Errs where it is no template, or cannot render a single question.
    pub fn new(source: &str, bos: &str, eos: &str) -> Result<Self, Error> {
        if source.len() > SOURCE {
            return Err(Error::new(format!("{} bytes are more than the {SOURCE} allowed", source.len())));
        }
        let mut env = environment();
        env.add_template_owned("chat", source.to_string())?;
        let mut template = Self {
            env,
            bos: bos.to_string(),
            eos: eos.to_string(),
            syntax: CallSyntax::Json,
            knows: Knows { system: true, tools: true, calls: true },
            time: TIME,
            last: Mutex::new(None),
        };
        template.probe()?;
        template.syntax = detect_syntax(source, template.knows.tools);
        Ok(template)
    }

    /// With the time that templates get who ask for it, in seconds since 1970
    /// (UTC). Without it is always the same, so that texts are.
    #[must_use]
    pub fn with_time(self, unix: i64) -> Self {
        Self { time: unix, ..self }
    }

    /// Whether tools are written as the model was trained to read them, rather
    /// than in words of ours.
    pub fn knows_tools(&self) -> bool {
        self.knows.tools
    }

    /// Why the latest rendering failed.
    pub fn last_error(&self) -> Option<Error> {
        self.last.lock().ok().and_then(|last| last.clone())
    }

    /// Renders short conversations to see what becomes of their parts.
    fn probe(&mut self) -> Result<(), Error> {
        let tool = [ToolSpec { name: "probetool", description: "", parameters: "" }];
        let call = Call { id: "probe0001", name: "probecall", arguments: "{}" };
        let result = katydid_core::chat::CallResult { id: call.id, name: call.name, content: "proberesult" };
        let system = [Turn::System("probesystem"), Turn::User("probeuser")];
        let calls = [Turn::User("probeuser"), Turn::Call(call), Turn::Result(result)];
        let shows = |tools: &[ToolSpec<'_>], turns: &[Turn<'_>], words: &[&str]| {
            let text = self.text(tools, turns).unwrap_or_default();
            words.iter().all(|word| text.contains(word))
        };
        let knows = Knows {
            system: shows(&[], &system, &["probesystem", "probeuser"]),
            tools: shows(&tool, &system[1..], &["probetool", "probeuser"])
                || shows(&tool, &system, &["probetool", "probeuser"]),
            calls: shows(&tool, &calls, &["probecall", "proberesult"]),
        };
        self.knows = knows;
        self.text(&[], &system[1..]).map(|_| ())
    }

    /// The text of a conversation, for people.
    fn text(&self, tools: &[ToolSpec<'_>], turns: &[Turn<'_>]) -> Result<String, Error> {
        let mut text = String::new();
        let (rendered, twins) = self.run(tools, &turns)?;
        twins.split(&rendered, &mut Plain(&mut text)).map_err(|_| Error::new("no room"))?;
        Ok(text)
    }

    /// Runs the template; the text still has its brackets exchanged.
    fn run(&self, tools: &[ToolSpec<'_>], turns: &dyn Turns) -> Result<(String, Twins), Error> {
        let mut messages = Vec::new();
        turns
            .each(&mut |turn| {
                push(&mut messages, turn);
                Ok(())
            })
            .map_err(|_| Error::new("the conversation cannot be read"))?;
        let tools = if self.knows.tools { tools } else { self.in_words(tools, &mut messages) };
        if !self.knows.calls {
            messages = calls_in_words(messages, self.syntax);
        }
        if !self.knows.system {
            system_inside(&mut messages);
        }
        let twins = Twins::unlike(&messages, tools)?;
        let size: usize = messages.iter().map(Message::len).sum::<usize>()
            + tools.iter().map(|t| t.description.len() + t.parameters.len()).sum::<usize>();
        let fuel = (FUEL[0] + FUEL[1] * (messages.len() + tools.len()) as u64).min(MOST_FUEL);
        let context = self.context(&messages, tools, &twins);
        let limit = (1 << 20) + 8 * size;
        Ok((self.on_a_stack(context, fuel, limit)?, twins))
    }

    fn context(&self, messages: &[Message], tools: &[ToolSpec<'_>], twins: &Twins) -> Value {
        let messages: Vec<Value> = messages.iter().map(|m| m.value(twins)).collect();
        let mut entries = vec![
            ("messages", Value::from(messages)),
            ("add_generation_prompt", Value::from(true)),
            ("bos_token", Value::from(&*self.bos)),
            ("eos_token", Value::from(&*self.eos)),
        ];
        if !tools.is_empty() {
            entries.push(("tools", tools.iter().map(|tool| tool_value(tool, twins)).collect()));
        }
        Value::from_iter(entries)
    }

    /// Values of a hostile template nest deep: everything that touches them is
    /// done, and undone, on a stack of its own.
    fn on_a_stack(&self, context: Value, fuel: u64, limit: usize) -> Result<String, Error> {
        let mut env = self.env.clone();
        env.set_fuel(Some(fuel));
        let time = self.time;
        env.add_function("strftime_now", move |format: &str| strftime(time, format));
        std::thread::scope(|scope| {
            let run = move || -> Result<String, Error> {
                let mut out = Limited { bytes: Vec::new(), limit };
                let chat = env.get_template("chat")?;
                let done = chat.render_captured_to(context, &mut out).map(|_| ());
                match done {
                    Err(e) if e.kind() == ErrorKind::WriteFailure => Err(Error {
                        line: e.line(),
                        message: format!("it writes more than {limit} bytes for this conversation"),
                    }),
                    Err(e) => Err(e.into()),
                    Ok(_) => String::from_utf8(out.bytes).map_err(|_| Error::new("its text is no UTF-8")),
                }
            };
            std::thread::Builder::new()
                .stack_size(STACK[0] + STACK[1] * fuel as usize)
                .spawn_scoped(scope, run)
                .map_err(|e| Error::new(format!("no thread to run it on: {e}")))?
                .join()
                .unwrap_or_else(|_| Err(Error::new("it makes the engine panic")))
        })
    }

    /// Puts the tools in front of the system text.
    fn in_words<'t>(&self, tools: &[ToolSpec<'_>], messages: &mut Vec<Message>) -> &'t [ToolSpec<'t>] {
        if tools.is_empty() {
            return &[];
        }
        let mut words = String::new();
        // Strings take everything.
        let _ = describe_tools(tools, self.syntax, &mut Plain(&mut words));
        match messages.first_mut() {
            Some(first) if first.role == "system" => first.content.insert_str(0, &words),
            _ => messages.insert(0, Message::new("system", words.trim_end())),
        }
        &[]
    }
}

impl Template for JinjaTemplate {
    fn render(
        &self,
        tools: &[ToolSpec<'_>],
        turns: &dyn Turns,
        out: &mut dyn Out,
    ) -> Result<(), TemplateError> {
        match self.run(tools, turns) {
            Ok((text, twins)) => Ok(twins.split(&text, out)?),
            Err(error) => {
                if let Ok(mut last) = self.last.lock() {
                    *last = Some(error);
                }
                Err(TemplateError::Failed)
            }
        }
    }

    fn syntax(&self) -> CallSyntax {
        self.syntax
    }
}

/// How the model writes calls, by the marks in its template.
fn detect_syntax(source: &str, tools: bool) -> CallSyntax {
    let has = |mark: &str| source.contains(mark);
    if !tools {
        // Ours, which must be what the model is then told.
        let hermes = has("<tool_call>") || has("<|im_start|>");
        return if hermes { CallSyntax::Hermes } else { CallSyntax::Json };
    }
    if has("<start_function_call>") {
        CallSyntax::FunctionGemma
    } else if has("[TOOL_CALLS]") {
        CallSyntax::Mistral
    } else if has("<tool_call>") {
        CallSyntax::Hermes
    } else if has("<|start_header_id|>") {
        CallSyntax::Llama3
    } else {
        CallSyntax::Json
    }
}

/// A writer that has had enough at some point.
struct Limited {
    bytes: Vec<u8>,
    limit: usize,
}

impl std::io::Write for Limited {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        if bytes.len() > self.limit - self.bytes.len() {
            return Err(std::io::ErrorKind::WriteZero.into());
        }
        self.bytes.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}
