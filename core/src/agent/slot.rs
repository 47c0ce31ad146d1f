//! Calls of an answer, and why some of them are not run.

use core::fmt;

use super::log::CallId;
use crate::Name;
use crate::chat::ToolSpec;
use crate::json::NotJson;

/// Most calls of one answer; [`Bounds::calls`](super::Bounds::calls) may allow
/// fewer.
pub const MOST_CALLS: usize = 16;

/// Why a call is not run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Bar {
    /// There is no such tool.
    Unknown(Name),
    /// One too many in this answer.
    TooMany(u8),
    /// The arguments are broken.
    Broken(NotJson),
    /// The answer ended within the call.
    Cut,
    /// The same call came too often.
    Repeated(u16),
    /// The request was stopped.
    Stopped,
}

/// What a model reads of a [`Bar`].
pub(super) struct Say<'t>(pub(super) Bar, pub(super) &'t [ToolSpec<'t>]);

impl fmt::Display for Say<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Bar::Unknown(name) => {
                write!(f, "there is no tool \"{name}\"")?;
                for (i, tool) in self.1.iter().enumerate() {
                    write!(f, "{}{}", if i == 0 { "; the tools are " } else { ", " }, tool.name)?;
                }
                Ok(())
            }
            Bar::TooMany(most) => {
                write!(f, "not run, nor any call after it: at most {most} at a time; call again")
            }
            Bar::Broken(e) => write!(f, "not run: the arguments are {e}; call again"),
            Bar::Cut => f.write_str("not run: the answer ended within this call; call again, more briefly"),
            Bar::Repeated(times) => write!(
                f,
                "not run: the same call came {times} times in a row; use its result or do something else"
            ),
            Bar::Stopped => f.write_str("not run: the request was stopped"),
        }
    }
}

/// Where a call stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stand {
    /// It is to be run.
    Due,
    /// It was handed out.
    Out,
    /// It is not run.
    Barred(Bar),
    /// Its result is in the log.
    Answered,
}

/// One call of the answer at hand.
#[derive(Clone, Copy, Debug)]
pub(super) struct Slot {
    pub(super) id: CallId,
    /// Index of its tool; the number of tools where there is none.
    pub(super) tool: usize,
    pub(super) stand: Stand,
}

impl Slot {
    pub(super) const NONE: Self = Self { id: CallId::NONE, tool: 0, stand: Stand::Answered };

    pub(super) fn is_open(&self) -> bool {
        self.stand != Stand::Answered
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::string::ToString;

    #[test]
    fn every_reason_is_said() {
        let tools = [ToolSpec { name: "a", description: "", parameters: "" }; 2];
        let say = |bar| Say(bar, &tools).to_string();
        assert_eq!(say(Bar::Unknown(Name::new("x\n"))), "there is no tool \"x\\n\"; the tools are a, a");
        let broken = NotJson { byte: 3, what: "a key is missing" };
        assert!(say(Bar::Broken(broken)).contains("not a JSON object: a key is missing at byte 3"));
        for bar in [Bar::TooMany(2), Bar::Cut, Bar::Repeated(3), Bar::Stopped] {
            assert!(say(bar).starts_with("not run") && say(bar).len() <= 120);
        }
    }
}
