//! Agents: a model that calls tools until it has an answer.
//!
//! # Parts
//! - [`Log`]: the conversation, in a buffer of fixed size.
//! - [`Agent`]: the loop, as a machine without input or output. It says what is
//!   to be done next ([`Step`]) and is told what came of it.
//! - [`Registry`]: tools that are Rust functions, for boards; [`Arguments`] is
//!   what such a function is given.
//! - [`run`]: a whole request in one call, where one thread does everything.
//!
//! # The loop
//! ```text
//!            ask                    answered, no call
//!   Idle ─────────▶ Think ──────────────────────────────▶ Done ──ask──▶ Think
//!                   ▲   │ answered, with calls
//!   the last result │   ▼
//!                  Calls: next_call …, result …
//! ```
//! After [`Bounds::steps`] answers that call tools, the model is asked once more
//! without any tools, so that it answers with what it has.
//!
//! # What it promises
//! - Every call in the conversation is followed by its result before the model
//!   goes on; results stand in the order of the calls, whichever came first.
//! - A call that must not run never reaches the caller: of an unknown tool, one
//!   too many, with broken arguments, from an answer that was cut within it, or
//!   repeated over and over. The model reads why.
//! - Nothing allocates, recurses without bound or panics, whatever a model
//!   writes and in whatever order the doors are called.
//!
//! ```
//! use katydid_core::agent::{Agent, Bounds, End, Log, Step};
//! use katydid_core::chat::ToolSpec;
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let tools = [ToolSpec { name: "temperature", description: "In °C.", parameters: "" }];
//! let mut memory = [0; 2048];
//! let mut agent = Agent::new(Log::new(&mut memory, 1), &tools, Bounds::default());
//! agent.ask("How warm is it?")?;
//! assert_eq!(agent.step(), Step::Think { tools: true });
//! // Here a model reads `agent.log()` and calls a tool.
//! agent.called("temperature", "{}")?;
//! agent.answered(End::Natural)?;
//! assert_eq!(agent.step(), Step::Calls);
//! let call = agent.next_call().ok_or("no call")?;
//! let id = call.id;
//! agent.result(id.as_str(), true, "21.5")?;
//! assert_eq!(agent.step(), Step::Think { tools: true });
//! agent.said("It is 21.5 °C.")?;
//! agent.answered(End::Natural)?;
//! assert!(matches!(agent.step(), Step::Done(_)));
//! # Ok(())
//! # }
//! ```

mod arguments;
mod check;
mod cut;
mod doors;
mod drive;
mod log;
mod machine;
mod registry;
mod slot;
#[cfg(test)]
mod tests;

pub use crate::json::NotJson;
pub use arguments::{ArgumentError, ArgumentWhy, Arguments, Elements, Key, Members, Value};
pub use check::Refusal;
pub use doors::{AgentError, Bounds, CallView, Door, End, Outcome, Step};
pub use drive::{Heard, Model, Read, run};
pub use log::{CallId, Log, LogFull};
pub use machine::Agent;
pub use registry::{Entry, Failed, Ran, Registry, RunError, Tool, specs};
pub use slot::MOST_CALLS;
