//! Conversations: who said what, which tools were called, and how each family of
//! models writes that down.
//!
//! A conversation is a flat sequence of [`Turn`]s, so that it can be kept in a
//! fixed buffer and gone through without lists within lists: an answer that calls
//! two tools is an [`Turn::Assistant`] followed by two [`Turn::Call`]s. A
//! [`Template`] writes it as the text that a model was trained on.

mod bare;
mod calls;
mod gemma;
mod session;
mod style;
mod syntax;
#[cfg(test)]
mod tests;
mod transcript;
mod write;

pub use calls::{Broken, Part, Parts, parse};
pub use session::{Prompted, Said, Session, SessionError, SessionMemory};
pub use style::Style;
pub use syntax::CallGrammar;
pub use write::describe_tools;

use core::fmt;

/// A tool as a model sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ToolSpec<'t> {
    /// Its name.
    pub name: &'t str,
    /// What it does, in words; may be empty.
    pub description: &'t str,
    /// The JSON Schema of its arguments, an object; empty where it takes none.
    pub parameters: &'t str,
}

/// A call of a tool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Call<'t> {
    /// Names the call, so that its result can be told from others'.
    pub id: &'t str,
    /// The tool.
    pub name: &'t str,
    /// The text of a JSON object.
    pub arguments: &'t str,
}

/// What a tool gave back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CallResult<'t> {
    /// The call's.
    pub id: &'t str,
    /// The tool.
    pub name: &'t str,
    /// Its output, or what went wrong.
    pub content: &'t str,
}

/// A step of a conversation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Turn<'t> {
    /// What the model is to be; at most one, first.
    System(&'t str),
    /// What it is asked.
    User(&'t str),
    /// What it said.
    Assistant(&'t str),
    /// A tool that it called, in the same breath as the [`Turn::Assistant`] or
    /// [`Turn::Call`] before, if that comes directly before.
    Call(Call<'t>),
    /// What came of a call.
    Result(CallResult<'t>),
}

/// The turns of a conversation, which can be gone through more than once.
pub trait Turns {
    /// Calls `each` with every turn in order, until it errs.
    fn each(&self, each: &mut dyn FnMut(Turn<'_>) -> fmt::Result) -> fmt::Result;
}

impl Turns for [Turn<'_>] {
    fn each(&self, each: &mut dyn FnMut(Turn<'_>) -> fmt::Result) -> fmt::Result {
        self.iter().try_for_each(|&turn| each(turn))
    }
}

impl<T: Turns + ?Sized> Turns for &T {
    fn each(&self, each: &mut dyn FnMut(Turn<'_>) -> fmt::Result) -> fmt::Result {
        (**self).each(each)
    }
}

/// Where the text of a conversation goes, in pieces whose origin is told apart:
/// what people, tools and models said must never be read as control tokens,
/// whatever it looks like.
///
/// Pieces that follow each other are one text: a tokenizer may cut it only where
/// a control token stands, not where `text` ends and the next begins.
pub trait Out {
    /// Text of the template's own, in which control tokens such as `<|im_end|>`
    /// are to be read as such.
    fn control(&mut self, s: &str) -> fmt::Result;

    /// Text in which nothing is a control token.
    fn text(&mut self, s: &str) -> fmt::Result;
}

/// Writes both kinds of pieces alike, for people to read.
pub struct Plain<'w>(pub &'w mut dyn fmt::Write);

impl Out for Plain<'_> {
    fn control(&mut self, s: &str) -> fmt::Result {
        self.0.write_str(s)
    }

    fn text(&mut self, s: &str) -> fmt::Result {
        self.0.write_str(s)
    }
}

/// How a model reads conversations.
pub trait Template {
    /// Writes the text of a conversation that the assistant is to go on with, up
    /// to where its answer begins.
    ///
    /// The text begins with the model's BOS where its family's template has it so;
    /// who tokenizes it adds none if it does.
    ///
    /// Errs where `out` errs, and where the template itself fails; what it has
    /// written by then is of no use.
    fn render(
        &self,
        tools: &[ToolSpec<'_>],
        turns: &dyn Turns,
        out: &mut dyn Out,
    ) -> Result<(), TemplateError>;

    /// How the model writes calls.
    fn syntax(&self) -> CallSyntax;
}

/// Why a conversation could not be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TemplateError {
    /// There is no room for the text.
    Room,
    /// The model's own template fails; whoever runs it knows more.
    Failed,
}

impl fmt::Display for TemplateError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Room => f.write_str("the conversation is longer than there is room for"),
            Self::Failed => f.write_str("the model's chat template fails on this conversation"),
        }
    }
}

impl core::error::Error for TemplateError {}

impl From<fmt::Error> for TemplateError {
    fn from(_: fmt::Error) -> Self {
        Self::Room
    }
}

/// How a family of models writes calls of tools.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallSyntax {
    /// `<tool_call>\n{"name":…,"arguments":{…}}\n</tool_call>`, once for each
    /// call: Hermes, Qwen, and ours.
    Hermes,
    /// `{"name":…,"parameters":{…}}` as the whole answer: Llama 3.
    Llama3,
    /// `[TOOL_CALLS] [{"name":…,"arguments":{…}},…]`: Mistral.
    Mistral,
    /// `<start_function_call>call:NAME{KEY:<escape>TEXT<escape>,…}
    /// <end_function_call>`: FunctionGemma.
    FunctionGemma,
    /// `{"name":…,"arguments":{…}}`, or a list of such, as the whole answer:
    /// models not trained on any.
    Json,
}
