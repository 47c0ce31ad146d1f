//! The tools of a file, ready to be called.
//!
//! Nothing that a model says is believed: the tool must be there, the arguments
//! must satisfy its schema, each must be allowed in its place, the policy must
//! agree. Only then is anything done, within the tool's time and size. Whatever
//! goes wrong becomes a text that the model reads; no call ends the agent.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Instant;

use katydid_core::chat::{Call, ToolSpec};

use crate::action::gpio::{Chips, FakeChip};
use crate::action::{Action, Prepared, Room};
use crate::audit::{Audit, Entry, head};
use crate::config::{Config, ConfigError, Policy, Tool};
use crate::link::{Link, Notice};

/// Most calls that are looked at when a model makes several at once.
pub const MOST_CALLS: usize = 32;

/// How tools are run.
#[derive(Clone)]
pub struct Options {
    /// Say what would be done, and do nothing.
    pub dry_run: bool,
    /// A folder of files that stand for GPIO lines ([`FakeChip`]).
    pub gpio_fake: Option<PathBuf>,
    /// Told of connections, lost lines of the log and the like.
    pub notice: Notice,
}

/// Does what it says, quietly.
impl Default for Options {
    fn default() -> Self {
        Self { dry_run: false, gpio_fake: None, notice: Arc::new(|_| {}) }
    }
}

impl fmt::Debug for Options {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Options {{ dry_run: {}, gpio_fake: {:?} }}", self.dry_run, self.gpio_fake)
    }
}

/// Why there are no tools.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LoadError {
    /// The file is wrong.
    Config(ConfigError),
    /// Something that it names cannot be used.
    Setup(String),
}

impl fmt::Display for LoadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Config(e) => e.fmt(f),
            Self::Setup(e) => f.write_str(e),
        }
    }
}

impl std::error::Error for LoadError {}

impl From<ConfigError> for LoadError {
    fn from(e: ConfigError) -> Self {
        Self::Config(e)
    }
}

/// Where a call comes from, for the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct At<'a> {
    /// The request's name.
    pub request: &'a str,
    /// How often the model has been asked for it.
    pub step: u32,
}

/// What somebody is asked to agree to.
#[derive(Clone, Copy, Debug)]
pub struct Proposal<'p> {
    /// The tool.
    pub tool: &'p str,
    /// Its arguments as the model wrote them, secrets masked.
    pub arguments: &'p str,
    /// What would be done, secrets masked.
    pub would: &'p str,
}

/// Who agrees to calls of tools whose policy is `ask`.
#[derive(Clone, Copy)]
pub enum Approve<'a> {
    /// Nobody is there: they are denied.
    Nobody,
    /// Asked one at a time; `true` agrees.
    Ask(&'a (dyn Fn(&Proposal<'_>) -> bool + Sync)),
}

/// What came of a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// Whether the tool did its work.
    pub ok: bool,
    /// Its output, or what went wrong, for the model.
    pub content: String,
    /// How long it took, without asking.
    pub micros: u64,
}

/// The tools of a file.
pub struct Toolbox {
    config: Config,
    dry_run: bool,
    chips: Chips,
    link: OnceLock<Arc<Link>>,
    audit: Option<Audit>,
    asking: Mutex<()>,
}

impl fmt::Debug for Toolbox {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the tools of {}", self.config.path.display())
    }
}

/// A call that may go ahead, or what came of it already.
enum Step<'t> {
    Ready { tool: &'t Tool, prepared: Box<dyn Prepared + 't>, decision: &'static str },
    Over { decision: &'static str, outcome: Outcome },
}

impl<'t> Step<'t> {
    fn over(decision: &'static str, content: impl Into<String>) -> Self {
        Self::Over { decision, outcome: Outcome { ok: false, content: content.into(), micros: 0 } }
    }
}

impl Toolbox {
    /// Loads a file and opens what it names: the log, and the connection to the
    /// broker, which need not be there yet.
    pub fn load(path: &Path, options: &Options) -> Result<Self, LoadError> {
        Self::new(Config::load(path)?, options)
    }

    /// As [`Self::load`] for a file that has been read.
    pub fn new(config: Config, options: &Options) -> Result<Self, LoadError> {
        let notice = || Arc::clone(&options.notice);
        if !options.dry_run {
            make_folders(&config, &options.notice);
        }
        let audit = config.audit.as_ref().map(|a| Audit::open(&a.file, a.max_bytes, notice()));
        let audit = audit.transpose().map_err(LoadError::Setup)?;
        let link = OnceLock::new();
        if let Some(mqtt) = &config.mqtt {
            let started = Link::start(&mqtt.broker, notice()).map_err(LoadError::Setup)?;
            link.get_or_init(|| Arc::new(started));
        }
        let chips = match &options.gpio_fake {
            Some(folder) => Chips::new(Box::new(FakeChip::new(folder))),
            None => Chips::default(),
        };
        Ok(Self { config, dry_run: options.dry_run, chips, link, audit, asking: Mutex::new(()) })
    }

    /// The file.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// The connection to the broker, if the file names one.
    pub fn link(&self) -> Option<&Arc<Link>> {
        self.link.get()
    }

    /// The log, if the file names one.
    pub fn audit(&self) -> Option<&Audit> {
        self.audit.as_ref()
    }

    /// The tools as a model sees them: all but those denied.
    pub fn specs(&self) -> Vec<ToolSpec<'_>> {
        self.config.specs()
    }

    /// Calls a tool.
    pub fn call(&self, at: At<'_>, call: &Call<'_>, approve: Approve<'_>) -> Outcome {
        let step = self.decide(call, approve);
        self.finish(at, call, step)
    }

    /// Calls several tools, as many at once as the file allows; what came of
    /// them is in the order of `calls`.
    ///
    /// Whoever must agree is asked before any is run.
    pub fn call_all(&self, at: At<'_>, calls: &[Call<'_>], approve: Approve<'_>) -> Vec<Outcome> {
        let steps = calls.iter().enumerate().map(|(i, call)| match i {
            0..MOST_CALLS => self.decide(call, approve),
            _ => {
                Step::over("refused", format!("only {MOST_CALLS} calls at once are run: make this one again"))
            }
        });
        let steps: Vec<_> = steps.map(|step| Mutex::new((Some(step), None))).collect();
        let next = AtomicUsize::new(0);
        let work = || {
            while let Some((call, slot)) = {
                let i = next.fetch_add(1, Ordering::Relaxed);
                calls.get(i).zip(steps.get(i))
            } {
                let mut slot = slot.lock().unwrap_or_else(PoisonError::into_inner);
                if let Some(step) = slot.0.take() {
                    slot.1 = Some(self.finish(at, call, step));
                }
            }
        };
        std::thread::scope(|scope| {
            // This thread works too, so a missing one only makes it slower.
            for _ in 1..self.config.agent.max_parallel.min(calls.len()) {
                let _ = std::thread::Builder::new().name("tool".into()).spawn_scoped(scope, work);
            }
            work();
        });
        let outcomes =
            steps.into_iter().map(|slot| slot.into_inner().unwrap_or_else(PoisonError::into_inner).1);
        outcomes
            .map(|o| o.unwrap_or(Outcome { ok: false, content: "the call was lost".into(), micros: 0 }))
            .collect()
    }

    /// Checks a call and asks whoever must agree.
    fn decide(&self, call: &Call<'_>, approve: Approve<'_>) -> Step<'_> {
        let visible = || self.config.tools.iter().filter(|t| t.policy != Policy::Deny);
        let Some(tool) = visible().find(|t| t.name == call.name) else {
            let names: Vec<&str> = visible().map(|t| t.name.as_str()).collect();
            let name = head(call.name, 64).escape_debug();
            return Step::over(
                "unknown",
                format!("there is no tool \"{name}\": there are {}", names.join(", ")),
            );
        };
        let prepared = tool.schema.read(call.arguments).and_then(|arguments| tool.action.prepare(&arguments));
        let prepared = match prepared {
            Ok(prepared) => prepared,
            Err(why) => return Step::over("invalid", why),
        };
        if self.dry_run {
            let content = format!("dry run, nothing was done. It would {}", prepared.describe());
            return Step::Over { decision: "dry-run", outcome: Outcome { ok: true, content, micros: 0 } };
        }
        let decision = match (tool.policy, approve) {
            (Policy::Auto, _) => "auto",
            (_, Approve::Nobody) => {
                return Step::over(
                    "denied",
                    "denied: somebody must agree to this tool, and nobody is there to ask",
                );
            }
            (_, Approve::Ask(ask)) => {
                let mask = |text: &str| clean(&self.config.redactor.mask(text));
                let (arguments, would) = (mask(call.arguments), mask(&prepared.describe()));
                let _one_at_a_time = self.asking.lock().unwrap_or_else(PoisonError::into_inner);
                if !ask(&Proposal { tool: &tool.name, arguments: &arguments, would: &would }) {
                    return Step::over(
                        "refused",
                        "refused: the user does not want this; do not try it again",
                    );
                }
                "approved"
            }
        };
        Step::Ready { tool, prepared, decision }
    }

    /// Runs what may be run, and writes the log.
    fn finish(&self, at: At<'_>, call: &Call<'_>, step: Step<'_>) -> Outcome {
        let (decision, outcome) = match step {
            Step::Over { decision, outcome } => {
                let content = self.present(&outcome.content, self.config.agent.result_bytes, 0);
                (decision, Outcome { content, ..outcome })
            }
            Step::Ready { tool, prepared, decision } => (decision, self.run(tool, &*prepared)),
        };
        if let Some(audit) = &self.audit {
            let mask = |text: &str| self.config.redactor.mask(text);
            audit.add(&Entry {
                time: String::new(),
                request: &mask(at.request),
                step: at.step,
                call: &mask(head(call.id, 64)),
                tool: &mask(head(call.name, 64)),
                arguments: &mask(call.arguments),
                decision,
                ok: outcome.ok,
                content: &outcome.content,
                micros: outcome.micros,
            });
        }
        outcome
    }

    fn run(&self, tool: &Tool, prepared: &dyn Prepared) -> Outcome {
        let start = Instant::now();
        let done = prepared.run(&Room {
            deadline: start + tool.timeout,
            timeout: tool.timeout,
            capture: tool.max_output + self.config.redactor.longest(),
            chips: &self.chips,
            link: self.link.get().map(|l| &**l),
        });
        let micros = u64::try_from(start.elapsed().as_micros()).unwrap_or(u64::MAX);
        Outcome { ok: done.ok, content: self.present(&done.content, tool.max_output, done.dropped), micros }
    }

    /// A text as a model may see it: masked, without control characters, cut.
    fn present(&self, text: &str, most: usize, dropped: u64) -> String {
        let text = clean(&self.config.redactor.mask(text));
        let kept = head(&text, most);
        let cut = dropped + (text.len() - kept.len()) as u64;
        match (cut, kept.is_empty()) {
            (0, true) => "(no output)".into(),
            (0, false) => kept.into(),
            _ => format!("{kept}\n[cut: {cut} more bytes]"),
        }
    }
}

/// Makes the folders that are written to, where they are missing.
fn make_folders(config: &Config, notice: &Notice) {
    let roots = config.tools.iter().filter_map(|t| match &t.action {
        Action::File(files) => files.writes_to(),
        _ => None,
    });
    let log = config.audit.as_ref().and_then(|a| a.file.parent());
    for folder in roots.chain(log) {
        if let Err(e) = std::fs::create_dir_all(folder) {
            notice(&format!("the folder {} cannot be made: {e}", folder.display()));
        }
    }
}

impl Config {
    /// The tools as a model sees them: all but those denied.
    pub fn specs(&self) -> Vec<ToolSpec<'_>> {
        let seen = self.tools.iter().filter(|t| t.policy != Policy::Deny);
        seen.map(|t| ToolSpec { name: &t.name, description: &t.description, parameters: t.schema.text() })
            .collect()
    }
}

/// Without what would move a terminal's cursor or hide text.
fn clean(text: &str) -> String {
    let hidden = |c: char| matches!(c, '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{feff}');
    text.chars().filter(|&c| matches!(c, '\n' | '\t') || !(c.is_control() || hidden(c))).collect()
}

#[cfg(test)]
#[path = "toolbox_tests.rs"]
mod tests;
