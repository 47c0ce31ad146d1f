//! A whole request in one call, for programs with one thread.

use super::doors::{AgentError, End, Outcome, Step};
use super::machine::Agent;
use super::registry::Registry;
use crate::chat::{ToolSpec, Turns};

/// Takes an answer in pieces, as [`Agent::said`] and [`Agent::called`] do.
pub trait Heard {
    /// Takes text, all of it or the next piece.
    fn said(&mut self, text: &str) -> Result<(), AgentError>;

    /// Takes a call.
    fn called(&mut self, name: &str, arguments: &str) -> Result<(), AgentError>;
}

impl Heard for Agent<'_> {
    fn said(&mut self, text: &str) -> Result<(), AgentError> {
        Agent::said(self, text)
    }

    fn called(&mut self, name: &str, arguments: &str) -> Result<(), AgentError> {
        Agent::called(self, name, arguments)
    }
}

/// Whether a conversation could be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Read {
    /// Yes, and the answer may come.
    Ready,
    /// It is longer than the model can read.
    TooLong,
}

/// Whatever reads conversations and answers.
pub trait Model {
    /// Why it cannot go on at all.
    type Error;

    /// Reads a conversation up to where the answer begins, with the tools that
    /// the answer may call.
    fn read(&mut self, turns: &dyn Turns, tools: &[ToolSpec<'_>]) -> Result<Read, Self::Error>;

    /// Answers what was read last. Where `heard` errs there is no room for more
    /// of the answer, and it may end.
    fn answer(&mut self, heard: &mut dyn Heard) -> Result<End, Self::Error>;
}

/// Goes on with a request of `agent`, from [`Agent::ask`] to its end: has `model`
/// answer and `registry` run the calls, with `room` for a tool's output.
///
/// Where a conversation is too long to be read, it is shortened as long as that
/// helps ([`Agent::shorten`]). Where the model errs, the request is stopped and
/// the error given.
pub fn run<M: Model + ?Sized>(
    agent: &mut Agent<'_>,
    registry: &mut Registry<'_, '_>,
    model: &mut M,
    room: &mut [u8],
) -> Result<Outcome, M::Error> {
    loop {
        match agent.step() {
            Step::Idle => return Ok(Outcome::Stopped),
            Step::Done(outcome) => return Ok(outcome),
            Step::Calls => run_calls(agent, registry, room),
            Step::Think { tools } => {
                let done = think(agent, tools, model);
                if done.is_err() {
                    agent.stop();
                }
                done?;
            }
        }
    }
}

/// Runs all calls that wait. Any that were handed out elsewhere get their
/// results there, and nobody would wait for them here: then the request ends.
fn run_calls(agent: &mut Agent<'_>, registry: &mut Registry<'_, '_>, room: &mut [u8]) {
    while let Some(view) = agent.next_call() {
        let id = view.id;
        let ran = registry.run(&view.call, room);
        // The call is open, so this can only fail for want of room, which ends
        // the request.
        let _ = agent.result(id.as_str(), ran.failed.is_none(), ran.text);
    }
    if agent.step() == Step::Calls {
        agent.stop();
    }
}

fn think<M: Model + ?Sized>(agent: &mut Agent<'_>, tools: bool, model: &mut M) -> Result<(), M::Error> {
    let shown = if tools { agent.tools() } else { &[] };
    while model.read(agent.log(), shown)? == Read::TooLong {
        if !agent.shorten() {
            agent.give_up();
            return Ok(());
        }
    }
    let end = model.answer(agent)?;
    // Errs only where the request has ended for want of room.
    let _ = agent.answered(end);
    Ok(())
}
