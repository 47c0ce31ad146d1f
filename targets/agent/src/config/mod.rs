//! `tools.toml`: what an agent may do, where requests come from, and its limits.
//!
//! All of it is checked when it is loaded: keys and types, names, schemas (by
//! the compiler that will constrain the model), templates against schemas, and
//! whether secrets can be found. An error names the file, the line and what to
//! do. `tools.example.toml` shows every key.

mod raw;

use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use katydid_core::chat::ToolSpec;
use serde::Deserialize;

use crate::action::{Action, Check, exec, file, gpio, http, mqtt};
use crate::link::{self, Broker};
use crate::schema::{Schema, limits_of_calls};
use crate::secret::{Redactor, Secret, Secrets};
use crate::topic;
use crate::value::Value;

/// Largest file read.
const MOST_BYTES: u64 = 1 << 20;
const MOST_TOOLS: usize = 100;

/// Why a file cannot be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigError {
    /// The file.
    pub file: PathBuf,
    /// The line, from 1, where one is to blame.
    pub line: Option<usize>,
    /// What is wrong there and what to do.
    pub what: String,
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.file.display())?;
        if let Some(line) = self.line {
            write!(f, ":{line}")?;
        }
        write!(f, ": {}", self.what)
    }
}

impl std::error::Error for ConfigError {}

/// Whether a tool may be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Policy {
    /// At once.
    Auto,
    /// When somebody agrees.
    Ask,
    /// Never; the model does not see it.
    Deny,
}

impl Policy {
    /// As TOML has it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::Ask => "ask",
            Self::Deny => "deny",
        }
    }
}

/// Whether the model must call tools.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Calls {
    /// When it wants to.
    #[default]
    Optional,
    /// First of all in each request: small models seldom do it by themselves.
    Required,
}

/// Limits of the agent, and what it is told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Agent {
    /// What the model is to be.
    pub system: String,
    /// Whether it must call tools.
    pub calls: Calls,
    /// Most times that the model is asked for one request.
    pub max_steps: u32,
    /// Most tools that run at once.
    pub max_parallel: usize,
    /// Most tokens of one answer.
    pub max_tokens: u32,
    /// Most bytes of a reply that leaves.
    pub reply_bytes: usize,
    /// Most bytes of a tool's output that the model sees.
    pub result_bytes: usize,
}

/// Where the audit log is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Audit {
    /// The file.
    pub file: PathBuf,
    /// It moves to `.1` before it grows beyond this.
    pub max_bytes: u64,
}

/// Where requests come from, and replies go, by MQTT.
#[derive(Clone, Debug)]
pub struct Mqtt {
    /// The broker.
    pub broker: Broker,
    /// Topic of replies; `{id}` is the request's, `{topic}` its topic.
    pub reply_topic: Option<String>,
}

/// A request that comes again and again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Interval {
    /// How often.
    pub every: Duration,
    /// Its text.
    pub prompt: String,
    /// Where the reply is published, beside where all go.
    pub reply_topic: Option<String>,
}

/// A tool.
#[derive(Debug)]
pub struct Tool {
    /// Its name: letters, digits, `_` and `-`.
    pub name: String,
    /// What it does, for the model.
    pub description: String,
    /// Its arguments.
    pub schema: Schema,
    /// Whether it may be used.
    pub policy: Policy,
    /// How long a call may take.
    pub timeout: Duration,
    /// Most bytes of its output that are kept.
    pub max_output: usize,
    /// What it does.
    pub action: Action,
}

/// A checked file.
#[derive(Debug)]
pub struct Config {
    /// The file.
    pub path: PathBuf,
    /// Limits.
    pub agent: Agent,
    /// The log.
    pub audit: Option<Audit>,
    /// The broker.
    pub mqtt: Option<Mqtt>,
    /// Requests by the clock.
    pub intervals: Vec<Interval>,
    /// The tools, in the file's order.
    pub tools: Vec<Tool>,
    /// What is allowed but likely not meant.
    pub warnings: Vec<String>,
    /// Environment variables that secrets come from.
    pub variables: Vec<String>,
    /// Files that it names: secrets, certificates, texts, schemas.
    pub files: Vec<PathBuf>,
    /// Keeps secrets out of texts.
    pub redactor: Redactor,
}

impl Config {
    /// Reads and checks a file.
    pub fn load(path: &Path) -> Result<Self, ConfigError> {
        let fail = |what: String| ConfigError { file: path.into(), line: None, what };
        let length = std::fs::metadata(path).map_err(|e| fail(format!("cannot be opened: {e}")))?.len();
        if length > MOST_BYTES {
            return Err(fail(format!("{length} bytes are too many for a file of tools")));
        }
        let text = std::fs::read_to_string(path).map_err(|e| fail(format!("cannot be read: {e}")))?;
        Self::parse(path, &text)
    }

    /// Checks the text of a file that is, or could be, at `path`.
    pub fn parse(path: &Path, text: &str) -> Result<Self, ConfigError> {
        let place = Place { path, text };
        let raw: raw::Root = toml::from_str(text).map_err(|e| {
            place.error(e.span().map(|span| span.start), e.message().trim().replace('\n', "; "))
        })?;
        let folder = std::path::absolute(path).ok().and_then(|p| p.parent().map(Path::to_path_buf));
        let mut secrets = Secrets::new(&folder.unwrap_or_default());
        let mut warnings = Vec::new();

        let (at, raw_agent) = raw.agent.map_or_else(Default::default, |a| (a.span().start, a.into_inner()));
        let agent =
            agent(raw_agent, &mut secrets).map_err(|e| place.error(Some(at), format!("[agent] {e}")))?;
        let mqtt = raw.mqtt.map(|m| {
            let at = m.span().start;
            broker(m.into_inner(), &mut secrets).map_err(|e| place.error(Some(at), format!("[mqtt] {e}")))
        });
        let mqtt = mqtt.transpose()?;
        let intervals = raw.interval.into_iter().map(|i| {
            let at = i.span().start;
            let checked = interval(i.into_inner(), mqtt.as_ref());
            checked.map_err(|e| place.error(Some(at), format!("[[interval]] {e}")))
        });
        let intervals = intervals.collect::<Result<_, _>>()?;
        let mut tools: Vec<Tool> = Vec::new();
        for raw in raw.tool {
            let (at, name) = (raw.name.span().start, raw.name.get_ref().clone());
            let checked = check_name(&name, &tools)
                .and_then(|()| tool(raw, &agent, mqtt.is_some(), &mut secrets, &mut warnings))
                .map_err(|e| place.error(Some(at), format!("tool {name:?}: {e}")))?;
            tools.push(checked);
        }
        let audit = raw.audit.map(|a| Audit {
            file: secrets.folder.join(a.file),
            max_bytes: a.max_bytes.unwrap_or(10 << 20).max(4096),
        });
        let redactor = Redactor::new(&secrets.found);
        let (path, variables, files) = (path.into(), secrets.variables, secrets.files);
        let config =
            Self { path, agent, audit, mqtt, intervals, tools, warnings, variables, files, redactor };
        let specs = config.specs();
        if !specs.is_empty() {
            limits_of_calls(&specs).map_err(|e| place.error(None, format!("all tools together: {e}")))?;
        } else if config.agent.calls == Calls::Required {
            return Err(
                place.error(Some(at), "[agent] calls = \"required\": there is no tool to call".into())
            );
        }
        Ok(config)
    }
}

/// A file and its text, to say where something is wrong.
struct Place<'p> {
    path: &'p Path,
    text: &'p str,
}

impl Place<'_> {
    fn error(&self, byte: Option<usize>, what: String) -> ConfigError {
        let before = byte.and_then(|b| self.text.get(..b));
        let line = before.map(|before| before.matches('\n').count() + 1);
        ConfigError { file: self.path.into(), line, what }
    }
}

fn within<T: PartialOrd + fmt::Display>(what: &str, value: T, low: T, high: T) -> Result<T, String> {
    if value < low || value > high {
        return Err(format!("{what} = {value}: from {low} to {high}"));
    }
    Ok(value)
}

fn agent(raw: raw::Agent, secrets: &mut Secrets) -> Result<Agent, String> {
    let system = match (raw.system, raw.system_file) {
        (Some(_), Some(_)) => return Err("give either \"system\" or \"system_file\"".into()),
        (Some(text), None) => text,
        (None, Some(file)) => {
            let file = secrets.named(file);
            std::fs::read_to_string(&file).map_err(|e| format!("system_file {}: {e}", file.display()))?
        }
        (None, None) => String::new(),
    };
    Ok(Agent {
        system,
        calls: raw.calls.unwrap_or_default(),
        max_steps: within("max_steps", raw.max_steps.unwrap_or(8), 1, 100)?,
        max_parallel: within("max_parallel", raw.max_parallel.unwrap_or(4), 1, 32)?,
        max_tokens: within("max_tokens", raw.max_tokens.unwrap_or(512), 1, 1 << 20)?,
        reply_bytes: within("reply_bytes", raw.reply_bytes.unwrap_or(16 << 10), 64, link::MOST_PAYLOAD)?,
        result_bytes: within("result_bytes", raw.result_bytes.unwrap_or(2048), 64, 1 << 20)?,
    })
}

fn broker(raw: raw::Mqtt, secrets: &mut Secrets) -> Result<Mqtt, String> {
    let password = match (raw.password_env, raw.password_file) {
        (Some(_), Some(_)) => return Err("give either password_env or password_file".into()),
        (Some(name), None) => Some(secrets.env(&name)?),
        (None, Some(file)) => Some(secrets.file(&file)?),
        (None, None) => None,
    };
    let login = login(raw.username, password)?;
    let ca_file = trust(raw.tls, raw.ca_file)?.map(|file| secrets.named(file));
    if raw.host.is_empty() || raw.host.contains(['/', ' ', ':']) && !raw.host.contains("::") {
        return Err(format!("host = {:?}: a name or an address, without scheme and port", raw.host));
    }
    raw.subscribe.iter().try_for_each(|filter| topic::check_filter(filter))?;
    if let Some(topic) = &raw.reply_topic {
        check_reply_topic(topic, &raw.subscribe)?;
    }
    let client_id = raw.client_id.unwrap_or_else(|| format!("katydid-{}", std::process::id()));
    if client_id.is_empty() || client_id.len() > 64 || !client_id.bytes().all(|b| b.is_ascii_graphic()) {
        return Err(format!("client_id = {client_id:?}: 1 to 64 characters without spaces"));
    }
    let keep_alive = raw.keep_alive.unwrap_or(Duration::from_secs(30));
    within("keep_alive in seconds", keep_alive.as_secs(), 1, 3600)?;
    let broker = Broker {
        host: raw.host,
        port: raw.port.unwrap_or(if raw.tls { 8883 } else { 1883 }),
        ca_file,
        client_id,
        login,
        subscribe: raw.subscribe,
        qos: within("qos", raw.qos.unwrap_or(1), 0, 1)?,
        keep_alive,
        queue: within("queue", raw.queue.unwrap_or(16), 1, 1024)?,
        keep_session: raw.keep_session,
        accept_retained: raw.accept_retained,
    };
    Ok(Mqtt { broker, reply_topic: raw.reply_topic })
}

/// The file of certificates to trust, where TLS is wanted.
fn trust(tls: bool, ca_file: Option<PathBuf>) -> Result<Option<PathBuf>, String> {
    match (tls, ca_file) {
        (true, Some(_)) if cfg!(not(feature = "tls")) => Err("tls: this program was built without it".into()),
        (true, Some(file)) => Ok(Some(file)),
        (true, None) => Err("tls = true needs ca_file, the certificates to trust".into()),
        (false, Some(_)) => Err("ca_file without tls = true".into()),
        (false, None) => Ok(None),
    }
}

fn login(user: Option<String>, password: Option<Secret>) -> Result<Option<(String, Secret)>, String> {
    match (user, password) {
        (Some(user), Some(password)) => Ok(Some((user, password))),
        (None, None) => Ok(None),
        (Some(_), None) => Err("username without password_env or password_file".into()),
        (None, Some(_)) => Err("a password without username".into()),
    }
}

/// What a reply's topic is for a request.
pub(crate) fn reply_topic(template: &str, id: &str, topic: &str) -> String {
    template.replace("{id}", id).replace("{topic}", topic)
}

/// A reply that comes back as a request would be answered, and so on.
fn check_reply_topic(template: &str, subscribe: &[String]) -> Result<(), String> {
    let plain = template.replace("{id}", "").replace("{topic}", "");
    if plain.contains(['{', '}']) {
        return Err(format!("reply_topic = {template:?}: only {{id}} and {{topic}} are known"));
    }
    let sample = reply_topic(template, "id", "topic");
    topic::check(&sample)?;
    match subscribe.iter().find(|filter| topic::covers(filter, &sample)) {
        Some(filter) => Err(format!(
            "reply_topic = {template:?} comes back through subscribe = {filter:?}: answers would be asked again"
        )),
        None => Ok(()),
    }
}

fn interval(raw: raw::Interval, mqtt: Option<&Mqtt>) -> Result<Interval, String> {
    let every = raw.every.unwrap_or_default();
    within("every in seconds", every.as_secs(), 1, 366 * 86400)?;
    if raw.prompt.trim().is_empty() {
        return Err("the prompt is empty".into());
    }
    match (&raw.reply_topic, mqtt) {
        (Some(_), None) => return Err("reply_topic needs a broker: add [mqtt]".into()),
        (Some(topic), Some(mqtt)) => check_reply_topic(topic, &mqtt.broker.subscribe)?,
        _ => {}
    }
    Ok(Interval { every, prompt: raw.prompt, reply_topic: raw.reply_topic })
}

fn check_name(name: &str, others: &[Tool]) -> Result<(), String> {
    let fits = |b: u8| b.is_ascii_alphanumeric() || b == b'_' || b == b'-';
    if name.is_empty() || name.len() > 64 || !name.bytes().all(fits) {
        return Err("a name has 1 to 64 letters, digits, '_' and '-'".into());
    }
    if others.len() >= MOST_TOOLS {
        return Err(format!("at most {MOST_TOOLS} tools"));
    }
    if others.iter().any(|t| t.name == name) {
        return Err("there are two tools of this name: rename one".into());
    }
    Ok(())
}

fn tool(
    mut raw: raw::Tool,
    agent: &Agent,
    has_broker: bool,
    secrets: &mut Secrets,
    warnings: &mut Vec<String>,
) -> Result<Tool, String> {
    let schema = schema(raw.parameters.take(), raw.parameters_file.take(), secrets)?;
    let timeout = raw.timeout.unwrap_or(Duration::from_secs(10));
    within("timeout in seconds", timeout.as_secs_f32(), 0.05, 3600.0)?;
    let max_output = within("max_output", raw.max_output.unwrap_or(agent.result_bytes), 1, 1 << 20)?;
    let spec = ToolSpec { name: raw.name.get_ref(), description: "", parameters: schema.text() };
    limits_of_calls(&[spec]).map_err(|e| format!("parameters, as part of a call: {e}"))?;
    let folder = secrets.folder.clone();
    let mut check =
        Check { schema: &schema, names: schema.names(), secrets, folder: &folder, warnings: Vec::new() };
    let (name, policy, described) = (raw.name.get_ref().clone(), raw.policy, raw.description.take());
    let action = action(raw, has_broker, &mut check)?;
    warnings.extend(check.warnings.drain(..).map(|w| format!("tool {name:?}: {w}")));
    let (builtin, words) = match &action {
        Action::Builtin(b) => (true, b.description()),
        _ => (false, ""),
    };
    if builtin && !schema.names().is_empty() {
        return Err("a built-in takes no parameters".into());
    }
    let description = described.unwrap_or(words.into());
    if description.trim().is_empty() {
        return Err("the description is missing: it is how the model knows what the tool is for".into());
    }
    let policy = policy.unwrap_or(if builtin { Policy::Auto } else { Policy::Ask });
    Ok(Tool { name, description, policy, timeout, max_output, action, schema })
}

fn schema(parameters: Option<Value>, file: Option<PathBuf>, secrets: &mut Secrets) -> Result<Schema, String> {
    let parse = |text: &str, what: &str| Value::parse(text).map_err(|e| format!("{what}: {e}"));
    let value = match (parameters, file) {
        (Some(_), Some(_)) => return Err("give either parameters or parameters_file".into()),
        (Some(Value::String(text)), None) => parse(&text, "parameters are no JSON")?,
        (Some(value), None) => value,
        (None, Some(file)) => {
            let file = secrets.named(file);
            let text = std::fs::read_to_string(&file).map_err(|e| format!("{}: {e}", file.display()))?;
            parse(text.trim_start_matches('\u{feff}'), &file.display().to_string())?
        }
        (None, None) => parse(r#"{"type":"object","properties":{},"additionalProperties":false}"#, "")?,
    };
    Schema::new(value).map_err(|e| format!("parameters: {e}"))
}

fn action(raw: raw::Tool, has_broker: bool, check: &mut Check<'_>) -> Result<Action, String> {
    const KINDS: &str = "exec, http, mqtt, gpio, file, builtin";
    let said = |kind: &'static str| move |e: String| format!("{kind}: {e}");
    let mut actions = Vec::new();
    if let Some(raw) = raw.exec {
        actions.push(Action::Exec(exec::Exec::check(raw, check).map_err(said("exec"))?));
    }
    if let Some(raw) = raw.http {
        actions.push(Action::Http(http::Http::check(raw, check).map_err(said("http"))?));
    }
    if let Some(raw) = raw.mqtt {
        if !has_broker {
            return Err("mqtt: there is no broker: add [mqtt]".into());
        }
        actions.push(Action::Mqtt(mqtt::Publish::check(raw, check).map_err(said("mqtt"))?));
    }
    if let Some(raw) = raw.gpio {
        actions.push(Action::Gpio(gpio::Gpio::check(raw, check).map_err(said("gpio"))?));
    }
    if let Some(raw) = raw.file {
        actions.push(Action::File(file::Files::check(raw, check).map_err(said("file"))?));
    }
    actions.extend(raw.builtin.map(Action::Builtin));
    match (actions.pop(), actions.is_empty()) {
        (Some(action), true) => Ok(action),
        (None, _) => Err(format!("it does nothing: add one of {KINDS}")),
        (Some(_), false) => Err(format!("it does several things: keep one of {KINDS}")),
    }
}

#[cfg(test)]
#[path = "tests.rs"]
mod tests;
