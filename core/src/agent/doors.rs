//! What passes through the doors of the machine: bounds, steps, outcomes, errors.

use core::fmt;

use super::log::{CallId, LogFull};
use crate::Name;
use crate::chat::Call;

/// What a request may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// Answers with calls, at least 1; then the model must answer without.
    pub steps: u16,
    /// Calls of one answer that are run, 1 to [`MOST_CALLS`](super::MOST_CALLS).
    pub calls: u8,
    /// Bytes of a result, at least 160; longer ones are cut with a note, and for
    /// shorter ones old exchanges are forgotten where there is no room.
    pub result: usize,
    /// How often in a row the same tool may be called with the same arguments,
    /// at least 1.
    pub repeats: u16,
}

impl Default for Bounds {
    fn default() -> Self {
        Self { steps: 8, calls: 8, result: 4096, repeats: 3 }
    }
}

/// What is to be done next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Nothing: nothing was asked yet.
    Idle,
    /// Run the model on [`Agent::log`](super::Agent::log) and report its answer.
    Think {
        /// Whether it may call tools. Where not, show it none.
        tools: bool,
    },
    /// Run the calls of [`Agent::next_call`](super::Agent::next_call) and report their results. There
    /// may be none to hand out while results are awaited.
    Calls,
    /// Nothing: the request is over.
    Done(Outcome),
}

/// How a request ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// With an answer, [`Agent::answer`](super::Agent::answer).
    Answered,
    /// With an answer that is cut: the model had no more room.
    Cut,
    /// It was stopped.
    Stopped,
    /// The model said nothing.
    Silent,
    /// The steps were used up, and no answer came without tools either.
    Exhausted,
    /// The conversation does not fit its memory.
    Full(LogFull),
    /// The conversation is longer than the model can read.
    TooLong,
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Answered => "answered",
            Self::Cut => "the answer was cut: let it be longer, or ask for less",
            Self::Stopped => "stopped",
            Self::Silent => "the model said nothing: ask again, or otherwise",
            Self::Exhausted => "no answer within the steps allowed: allow more, or ask for less",
            Self::Full(full) => return write!(f, "{full}"),
            Self::TooLong => {
                "the conversation is longer than the model can read: raise the context, or start anew"
            }
        })
    }
}

/// Why an answer ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// The model ended it.
    Natural,
    /// There was no room for more.
    Cut,
    /// Whoever asked stopped it: none of its calls is run.
    Stopped,
}

/// A call to run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CallView<'l> {
    /// To report its result with.
    pub id: CallId,
    /// Its tool's place among the tools.
    pub tool: usize,
    /// The call; its arguments are a JSON object.
    pub call: Call<'l>,
}

/// A door of the machine, in messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Door {
    /// [`Agent::ask`](super::Agent::ask) and [`Agent::resume`](super::Agent::resume).
    Ask,
    /// [`Agent::said`](super::Agent::said).
    Said,
    /// [`Agent::called`](super::Agent::called).
    Called,
    /// [`Agent::answered`](super::Agent::answered).
    Answered,
    /// [`Agent::result`](super::Agent::result).
    Result,
    /// [`Agent::edit`](super::Agent::edit).
    Edit,
}

/// A door that did not open. But for [`AgentError::Full`] nothing has changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AgentError {
    /// It is not this door's turn.
    Order {
        /// The door.
        door: Door,
        /// What is due instead.
        due: Step,
    },
    /// No call of this answer has this id.
    NoCall(Name),
    /// The call has its result.
    Twice(Name),
    /// The conversation does not fit its memory, old exchanges forgotten. If
    /// a request was under way it has ended, and its last answer is dropped.
    Full(LogFull),
}

impl fmt::Display for AgentError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Order { door, due } => {
                let door = match door {
                    Door::Ask => "a question",
                    Door::Said => "text of an answer",
                    Door::Called => "a call",
                    Door::Answered => "the end of an answer",
                    Door::Result => "a result",
                    Door::Edit => "a change of the conversation",
                };
                let due = match due {
                    Step::Idle | Step::Done(_) => "a question is due",
                    Step::Think { .. } => "an answer is due",
                    Step::Calls => "results are due",
                };
                write!(f, "{door} came while {due}")
            }
            Self::NoCall(id) => write!(f, "no call waits under the id {id}"),
            Self::Twice(id) => write!(f, "the call {id} has its result already"),
            Self::Full(full) => write!(f, "{full}"),
        }
    }
}

impl core::error::Error for AgentError {}
