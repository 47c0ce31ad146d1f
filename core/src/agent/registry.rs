//! Tools that are Rust functions.

use core::fmt::{self, Write};

use super::arguments::{ArgumentError, Arguments};
use super::check::{self, Refusal};
use super::cut::Capped;
use crate::Name;
use crate::chat::{Call, ToolSpec};
use crate::grammar::{Grammar, Matcher, Stacks};
use crate::json::NotJson;

/// What runs when a tool is called: reads the arguments, writes what the model
/// is to read. Writing never fails; what is too long is cut. After an error the
/// model reads what was written and then the error.
pub type Tool<'r> = dyn FnMut(Arguments<'_>, &mut dyn fmt::Write) -> Result<(), Failed> + 'r;

/// A tool and its function.
pub struct Entry<'r> {
    spec: ToolSpec<'r>,
    run: &'r mut Tool<'r>,
    grammar: Option<Grammar<'r>>,
}

impl<'r> Entry<'r> {
    /// A tool whose function checks its arguments itself.
    pub fn new(spec: ToolSpec<'r>, run: &'r mut Tool<'r>) -> Self {
        Self { spec, run, grammar: None }
    }

    /// The same, and the function runs only where the arguments keep to
    /// `grammar`, which is that of `spec.parameters`, compiled without a wrap.
    pub fn checked(self, grammar: Grammar<'r>) -> Self {
        Self { grammar: Some(grammar), ..self }
    }

    /// The tool as a model sees it.
    pub fn spec(&self) -> ToolSpec<'r> {
        self.spec
    }
}

/// The tools of `entries` as [`Agent::new`](super::Agent::new) and templates
/// take them.
pub fn specs<'r, const N: usize>(entries: &[Entry<'r>; N]) -> [ToolSpec<'r>; N] {
    core::array::from_fn(|i| entries[i].spec)
}

/// Why a tool's function failed, in words that a model can use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failed {
    /// An argument is not what it should be.
    Argument(ArgumentError),
    /// Something else.
    Because(Name),
}

impl Failed {
    /// For the reason `why`, of which [`Name::MAX`] bytes are kept; the function
    /// may write more before it fails.
    pub fn new(why: &str) -> Self {
        Self::Because(Name::new(why))
    }

    /// The same with values in it.
    pub fn format(why: fmt::Arguments<'_>) -> Self {
        Self::Because(Name::format(why))
    }
}

impl fmt::Display for Failed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Argument(e) => write!(f, "{e}"),
            Self::Because(why) => write!(f, "{why}"),
        }
    }
}

impl core::error::Error for Failed {}

impl From<ArgumentError> for Failed {
    fn from(e: ArgumentError) -> Self {
        Self::Argument(e)
    }
}

impl From<fmt::Error> for Failed {
    fn from(_: fmt::Error) -> Self {
        Self::new("its output could not be written")
    }
}

/// Why a call failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RunError {
    /// There is no such tool.
    Unknown(Name),
    /// Its arguments are broken.
    Broken(NotJson),
    /// Its arguments do not keep to the schema.
    Refused(Refusal),
    /// A grammar is given, but the registry has no memory to check with.
    NoStacks,
    /// The function failed.
    Failed(Failed),
}

impl fmt::Display for RunError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unknown(name) => write!(f, "there is no tool \"{name}\""),
            Self::Broken(e) => write!(f, "the arguments are {e}; call again"),
            Self::Refused(why) => write!(f, "{why}"),
            Self::NoStacks => {
                f.write_str("arguments cannot be checked: make the registry with memory for it")
            }
            Self::Failed(why) => write!(f, "{why}"),
        }
    }
}

impl core::error::Error for RunError {}

/// What came of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ran<'o> {
    /// What the model is to read; never empty.
    pub text: &'o str,
    /// Why it failed, if it did; said in `text` too.
    pub failed: Option<RunError>,
}

/// Tools by name.
pub struct Registry<'e, 'r> {
    entries: &'e mut [Entry<'r>],
    matcher: Option<Matcher<'r>>,
}

impl<'e, 'r> Registry<'e, 'r> {
    /// A registry of tools that check their arguments themselves.
    pub fn new(entries: &'e mut [Entry<'r>]) -> Self {
        Self { entries, matcher: None }
    }

    /// A registry that checks arguments where a grammar is given. `stacks` have
    /// the limits of those grammars.
    pub fn with_stacks(entries: &'e mut [Entry<'r>], stacks: Stacks<'r>) -> Self {
        let first = entries.iter().find_map(|e| e.grammar);
        let matcher = first.and_then(|grammar| Matcher::new(grammar, stacks));
        Self { entries, matcher }
    }

    /// Runs a call and writes what the model is to read to `out`; where that is
    /// too long, it is cut and a note says so.
    pub fn run<'o>(&mut self, call: &Call<'_>, out: &'o mut [u8]) -> Ran<'o> {
        let mut page = Capped::new(out);
        let failed = self.call(call, &mut page).err();
        // Never fails: what does not fit is cut.
        let _ = match failed {
            Some(why) if page.is_empty() => write!(page, "{why}"),
            Some(why) => write!(page, "\n{why}"),
            None if page.is_empty() => page.write_str("done"),
            None => Ok(()),
        };
        Ran { text: page.finish(), failed }
    }

    fn call(&mut self, call: &Call<'_>, page: &mut Capped<'_>) -> Result<(), RunError> {
        let entry = self.entries.iter_mut().find(|e| e.spec.name == call.name);
        let entry = entry.ok_or(RunError::Unknown(Name::new(call.name)))?;
        let arguments = Arguments::read(call.arguments).map_err(RunError::Broken)?;
        if let Some(grammar) = entry.grammar {
            let matcher = self.matcher.as_mut().ok_or(RunError::NoStacks)?;
            matcher.restart_with(grammar);
            check::keeps(matcher, entry.spec.parameters, arguments).map_err(RunError::Refused)?;
        }
        (entry.run)(arguments, page).map_err(RunError::Failed)
    }
}
