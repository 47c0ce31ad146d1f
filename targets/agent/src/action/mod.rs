//! What tools do. Each kind has a file: what it says in TOML, how that is
//! checked, and how a call is carried out.
//!
//! A call is first prepared, which puts the arguments in their places and
//! refuses what must not be, touching nothing; what is prepared can be described
//! (for `--dry-run`, and for whoever is asked), and run.

pub mod builtin;
pub mod exec;
pub mod file;
pub mod gpio;
pub mod http;
pub mod mqtt;
pub mod net;

use std::path::Path;
use std::time::{Duration, Instant};

use crate::link::Link;
use crate::schema::Schema;
use crate::secret::Secrets;
use crate::template::Template;
use crate::value::Value;

/// What a tool does.
#[derive(Debug)]
pub enum Action {
    /// Runs a program.
    Exec(exec::Exec),
    /// Asks an HTTP server.
    Http(http::Http),
    /// Publishes a message.
    Mqtt(mqtt::Publish),
    /// Reads or sets a line.
    Gpio(gpio::Gpio),
    /// Reads or writes files below a folder.
    File(file::Files),
    /// What needs no description.
    Builtin(builtin::Builtin),
}

/// What an action is checked against when its tool is loaded.
pub(crate) struct Check<'c> {
    pub(crate) schema: &'c Schema,
    pub(crate) names: Vec<&'c str>,
    pub(crate) secrets: &'c mut Secrets,
    /// Relative paths are taken from here.
    pub(crate) folder: &'c Path,
    /// What the author should know.
    pub(crate) warnings: Vec<String>,
}

impl Check<'_> {
    pub(crate) fn template(&mut self, source: &str) -> Result<Template, String> {
        Template::parse(source, &self.names, self.secrets)
    }

    /// A template that cannot be left out: what it names must always be there.
    pub(crate) fn whole(&mut self, source: &str) -> Result<Template, String> {
        let template = self.template(source)?;
        let has = |name: &str| {
            self.schema.is_required(name)
                || self.schema.property(name).is_some_and(|p| p.get("default").is_some())
        };
        if let Some(name) = template.arguments().find(|n| !has(n)) {
            return Err(format!(
                "{source:?}: {name} may be absent: list it in \"required\" or give it a \"default\""
            ));
        }
        if template.is_spread() {
            return Err(format!("{source:?}: {{name...}} has no place here"));
        }
        Ok(template)
    }
}

/// What a call may use while it runs.
pub(crate) struct Room<'r> {
    pub(crate) deadline: Instant,
    /// For messages.
    pub(crate) timeout: Duration,
    /// Bytes of output to keep; more is dropped and counted.
    pub(crate) capture: usize,
    pub(crate) chips: &'r gpio::Chips,
    pub(crate) link: Option<&'r Link>,
}

impl Room<'_> {
    pub(crate) fn left(&self) -> Duration {
        self.deadline.saturating_duration_since(Instant::now())
    }
}

/// What came of a call.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Done {
    pub(crate) ok: bool,
    pub(crate) content: String,
    /// Bytes of output that were dropped.
    pub(crate) dropped: u64,
}

impl Done {
    pub(crate) fn ok(content: impl Into<String>) -> Self {
        Self { ok: true, content: content.into(), dropped: 0 }
    }

    pub(crate) fn failed(content: impl Into<String>) -> Self {
        Self { ok: false, content: content.into(), dropped: 0 }
    }
}

impl From<Result<String, String>> for Done {
    fn from(result: Result<String, String>) -> Self {
        result.map_or_else(Self::failed, Self::ok)
    }
}

/// A call with its arguments in place.
pub(crate) trait Prepared: Send {
    /// What it would do, in a line. May hold secrets: mask it.
    fn describe(&self) -> String;

    /// Does it.
    fn run(&self, room: &Room<'_>) -> Done;
}

impl Action {
    /// Puts `arguments` in place. Errs where they must not stand there, in words
    /// for the model.
    pub(crate) fn prepare<'a>(&'a self, arguments: &Value) -> Result<Box<dyn Prepared + 'a>, String> {
        Ok(match self {
            Self::Exec(action) => Box::new(action.prepare(arguments)?),
            Self::Http(action) => Box::new(action.prepare(arguments)?),
            Self::Mqtt(action) => Box::new(action.prepare(arguments)?),
            Self::Gpio(action) => Box::new(action.prepare(arguments)?),
            Self::File(action) => Box::new(action.prepare(arguments)?),
            Self::Builtin(action) => Box::new(*action),
        })
    }

    /// Its kind as TOML has it.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Exec(_) => "exec",
            Self::Http(_) => "http",
            Self::Mqtt(_) => "mqtt",
            Self::Gpio(_) => "gpio",
            Self::File(_) => "file",
            Self::Builtin(_) => "builtin",
        }
    }
}

#[cfg(test)]
pub(crate) mod testing {
    use super::*;

    /// Runs what a TOML table of one action describes.
    pub(crate) struct Bench {
        pub(crate) schema: Schema,
        pub(crate) folder: tempfile::TempDir,
        pub(crate) chips: gpio::Chips,
        pub(crate) timeout: Duration,
        pub(crate) capture: usize,
    }

    impl Bench {
        /// A bench for a tool with these properties, all of them optional.
        pub(crate) fn new(properties: &str) -> Self {
            let schema = Value::parse(&format!(r#"{{"type":"object","properties":{properties}}}"#)).unwrap();
            Self {
                schema: Schema::new(schema).unwrap(),
                folder: tempfile::tempdir().unwrap(),
                chips: gpio::Chips::default(),
                timeout: Duration::from_secs(20),
                capture: 1000,
            }
        }

        pub(crate) fn check<R: serde::de::DeserializeOwned, A>(
            &self,
            toml: &str,
            check: impl Fn(R, &mut Check<'_>) -> Result<A, String>,
        ) -> Result<A, String> {
            let raw = toml::from_str(toml).map_err(|e| e.to_string())?;
            let mut secrets = Secrets::new(self.folder.path());
            let mut c = Check {
                schema: &self.schema,
                names: self.schema.names(),
                secrets: &mut secrets,
                folder: self.folder.path(),
                warnings: Vec::new(),
            };
            check(raw, &mut c)
        }

        pub(crate) fn run(&self, prepared: &dyn Prepared) -> Done {
            prepared.run(&Room {
                deadline: Instant::now() + self.timeout,
                timeout: self.timeout,
                capture: self.capture,
                chips: &self.chips,
                link: None,
            })
        }
    }
}
