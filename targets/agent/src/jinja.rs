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
use minijinja::value::{Kwargs, ValueKind};
use minijinja::{AutoEscape, Environment, ErrorKind, State, Value};
use std::fmt;
use std::sync::Mutex;

/// Longest template.
const SOURCE: usize = 256 << 10;
/// Steps for any conversation, and more for each message.
const FUEL: [u64; 2] = [200_000, 2_000];
/// Most steps.
const MOST_FUEL: u64 = 4_000_000;
/// Bytes of stack, and more for each step: a value can nest a level deeper with
/// every few steps, and is taken apart recursively. Only what is used is memory.
const STACK: [usize; 2] = [16 << 20, 128];
/// Widest indentation.
const INDENT: usize = 64;
/// Deepest value that is written as JSON.
const DEPTH: usize = 128;
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
    if has("<start_function_call>") {
        CallSyntax::FunctionGemma
    } else if has("[TOOL_CALLS]") {
        CallSyntax::Mistral
    } else if has("<tool_call>") || !tools && has("<|im_start|>") {
        CallSyntax::Hermes
    } else if tools && has("<|start_header_id|>") {
        CallSyntax::Llama3
    } else {
        CallSyntax::Json
    }
}

/// A message in the making.
struct Message {
    role: &'static str,
    content: String,
    /// Id, name and arguments.
    calls: Vec<[String; 3]>,
    /// A result's call and tool.
    of: Option<[String; 2]>,
}

impl Message {
    fn new(role: &'static str, content: &str) -> Self {
        Self { role, content: content.to_string(), calls: Vec::new(), of: None }
    }

    fn texts(&self) -> impl Iterator<Item = &String> {
        std::iter::once(&self.content).chain(self.calls.iter().flatten()).chain(self.of.iter().flatten())
    }

    fn len(&self) -> usize {
        self.texts().map(String::len).sum::<usize>() + 64
    }

    /// The message as OpenAI's API has it.
    fn value(&self, twins: &Twins) -> Value {
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

fn tool_value(tool: &ToolSpec<'_>, twins: &Twins) -> Value {
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
fn push(messages: &mut Vec<Message>, turn: Turn<'_>) {
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
fn calls_in_words(messages: Vec<Message>, syntax: CallSyntax) -> Vec<Message> {
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
fn system_inside(messages: &mut Vec<Message>) {
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

/// Characters that stand for brackets of texts while a template runs.
struct Twins {
    base: u32,
}

/// What control tokens are made of.
const BRACKETS: [char; 5] = ['<', '>', '[', ']', '|'];

impl Twins {
    /// Characters that occur in no text of a conversation.
    fn unlike(messages: &[Message], tools: &[ToolSpec<'_>]) -> Result<Self, Error> {
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

    fn back(&self, c: char) -> Option<char> {
        BRACKETS.get((c as u32).checked_sub(self.base)? as usize).copied()
    }

    fn hide(&self, text: &str) -> String {
        text.chars().map(|c| self.of(c).unwrap_or(c)).collect()
    }

    /// Templates look for thoughts in answers, to leave them out.
    fn hide_but_thoughts(&self, text: &str) -> String {
        let mut hidden = self.hide(text);
        for mark in ["<think>", "</think>"] {
            hidden = hidden.replace(&self.hide(mark), mark);
        }
        hidden
    }

    /// A JSON text as a value; a string where it is none.
    fn json(&self, text: &str) -> Value {
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
    fn split(&self, rendered: &str, out: &mut dyn Out) -> fmt::Result {
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
fn items(value: &Value) -> impl Iterator<Item = Value> + use<> {
    value.try_iter().ok().into_iter().flatten()
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

fn refuse<T>(message: &'static str) -> Result<T, minijinja::Error> {
    Err(minijinja::Error::new(ErrorKind::InvalidOperation, message))
}

/// Jinja as Hugging Face's templates expect it.
fn environment() -> Environment<'static> {
    let mut env = Environment::new();
    env.set_trim_blocks(true);
    env.set_lstrip_blocks(true);
    env.set_auto_escape_callback(|_| AutoEscape::None);
    env.set_recursion_limit(200);
    env.set_unknown_method_callback(method);
    env.add_function("raise_exception", |message: String| -> Result<Value, minijinja::Error> {
        Err(minijinja::Error::new(ErrorKind::InvalidOperation, message))
    });
    env.add_filter("tojson", tojson);
    env.add_filter("indent", indent);
    env.add_filter("replace", |text: String, old: String, new: String| {
        if old.is_empty() { refuse("an empty text cannot be replaced") } else { Ok(text.replace(&old, &new)) }
    });
    // What makes much out of little, and no template of a model needs.
    for filter in ["format", "batch", "slice", "pprint", "urlencode"] {
        env.remove_filter(filter);
    }
    env
}

/// Python's methods, but for those that can be made to run or grow without end.
fn method(
    state: &State<'_, '_>,
    value: &Value,
    name: &str,
    args: &[Value],
) -> Result<Value, minijinja::Error> {
    let empty = args.first().and_then(Value::as_str) == Some("");
    match name {
        "count" | "replace" if empty => refuse("an empty text cannot be looked for"),
        "format" => refuse("format is not provided"),
        _ => minijinja_contrib::pycompat::unknown_method_callback(state, value, name, args),
    }
}

fn indent(
    text: String,
    width: Option<usize>,
    first: Option<bool>,
    blank: Option<bool>,
    named: Kwargs,
) -> Result<String, minijinja::Error> {
    let width = width.or(named.get("width")?).unwrap_or(4);
    let first = first.or(named.get("first")?).unwrap_or(false);
    let blank = blank.or(named.get("blank")?).unwrap_or(false);
    named.assert_all_used()?;
    if width > INDENT {
        return refuse("an indentation is wider than 64");
    }
    let mut out = String::new();
    for (i, line) in text.split('\n').enumerate() {
        out += if i > 0 { "\n" } else { "" };
        if (i > 0 || first) && (blank || !line.is_empty()) {
            out.extend(std::iter::repeat_n(' ', width));
        }
        out += line;
    }
    Ok(out)
}

/// JSON as Python writes it: spaces after commas and colons, no escapes but the
/// needed ones.
fn tojson(value: &Value, indent: Option<usize>, named: Kwargs) -> Result<Value, minijinja::Error> {
    let indent = indent.or(named.get("indent")?);
    let _ascii: Option<bool> = named.get("ensure_ascii")?;
    let _sorted: Option<bool> = named.get("sort_keys")?;
    let _separators: Option<Value> = named.get("separators")?;
    named.assert_all_used()?;
    if indent.is_some_and(|width| width > INDENT) {
        return refuse("an indentation is wider than 64");
    }
    let mut out = String::new();
    write_json(value, indent, 0, &mut out)?;
    Ok(Value::from(out))
}

fn write_json(
    value: &Value,
    indent: Option<usize>,
    depth: usize,
    out: &mut String,
) -> Result<(), minijinja::Error> {
    if depth > DEPTH {
        return refuse("a value is nested too deep for JSON");
    }
    let line = |out: &mut String, depth: usize| {
        if let Some(width) = indent {
            out.push('\n');
            out.extend(std::iter::repeat_n(' ', width * depth));
        }
    };
    let comma = if indent.is_some() { "," } else { ", " };
    match value.kind() {
        ValueKind::Undefined | ValueKind::None => out.push_str("null"),
        ValueKind::Bool => out.push_str(if value.is_true() { "true" } else { "false" }),
        ValueKind::Number => out.push_str(&value.to_string()),
        ValueKind::Map => {
            out.push('{');
            let mut any = false;
            for key in items(value) {
                out.push_str(if any { comma } else { "" });
                any = true;
                line(out, depth + 1);
                write_string(&key.to_string(), out);
                out.push_str(": ");
                write_json(&value.get_item(&key)?, indent, depth + 1, out)?;
            }
            if any {
                line(out, depth);
            }
            out.push('}');
        }
        ValueKind::Seq | ValueKind::Iterable => {
            out.push('[');
            let mut any = false;
            for item in items(value) {
                out.push_str(if any { comma } else { "" });
                any = true;
                line(out, depth + 1);
                write_json(&item, indent, depth + 1, out)?;
            }
            if any {
                line(out, depth);
            }
            out.push(']');
        }
        _ => write_string(&value.to_string(), out),
    }
    Ok(())
}

fn write_string(text: &str, out: &mut String) {
    // Texts always are JSON strings.
    out.push_str(&serde_json::to_string(text).unwrap_or_default());
}

/// The time, as C's `strftime` writes it, in UTC and English.
fn strftime(unix: i64, format: &str) -> String {
    const MONTHS: [&str; 12] = [
        "January",
        "February",
        "March",
        "April",
        "May",
        "June",
        "July",
        "August",
        "September",
        "October",
        "November",
        "December",
    ];
    const DAYS: [&str; 7] = ["Thursday", "Friday", "Saturday", "Sunday", "Monday", "Tuesday", "Wednesday"];
    let (days, second) = (unix.div_euclid(86_400), unix.rem_euclid(86_400));
    let (year, month, day) = date(days);
    let (month_name, day_name) = (MONTHS[month as usize - 1], DAYS[days.rem_euclid(7) as usize]);
    let mut out = String::new();
    let mut chars = format.chars();
    while let Some(c) = chars.next() {
        if c != '%' {
            out.push(c);
            continue;
        }
        match chars.next() {
            Some('Y') => out += &format!("{year:04}"),
            Some('y') => out += &format!("{:02}", year.rem_euclid(100)),
            Some('m') => out += &format!("{month:02}"),
            Some('d') => out += &format!("{day:02}"),
            Some('e') => out += &format!("{day:2}"),
            Some('B') => out += month_name,
            Some('b') => out += &month_name[..3],
            Some('A') => out += day_name,
            Some('a') => out += &day_name[..3],
            Some('H') => out += &format!("{:02}", second / 3600),
            Some('M') => out += &format!("{:02}", second / 60 % 60),
            Some('S') => out += &format!("{:02}", second % 60),
            Some('F') => out += &format!("{year:04}-{month:02}-{day:02}"),
            Some('T') => {
                out += &format!("{:02}:{:02}:{:02}", second / 3600, second / 60 % 60, second % 60);
            }
            Some('%') => out.push('%'),
            Some(other) => out.extend(['%', other]),
            None => out.push('%'),
        }
    }
    out
}

/// Year, month and day of a day since 1970: years begin in March, so that leap
/// days end them.
fn date(days: i64) -> (i64, i64, i64) {
    // Far times would overflow below and mean nothing.
    let days = days.clamp(-100_000_000, 100_000_000) + 719_468;
    let era = days.div_euclid(146_097);
    let of_era = days.rem_euclid(146_097);
    let year = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let month = (5 * of_year + 2) / 153;
    let day = of_year - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    (year + era * 400 + i64::from(month <= 2), month, day)
}

#[cfg(test)]
mod tests;
