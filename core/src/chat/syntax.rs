//! How a grammar holds a model to its way of calling tools.

use super::CallSyntax;
use crate::grammar::tools::Form;
use crate::grammar::{Trigger, Wrap};

/// What to compile for calls: [`crate::grammar::tools::schema`] with `form`, and
/// [`crate::grammar::Options::wrap`] from [`CallGrammar::wrap`] where the model
/// may also answer in words.
#[derive(Clone, Copy, Debug)]
pub struct CallGrammar {
    /// What a call looks like.
    pub form: Form<'static>,
    /// What begins one.
    pub trigger: Trigger<'static>,
    /// Between that and the call.
    pub lead: &'static str,
    /// After it.
    pub tail: &'static str,
    /// More calls, or words, may follow.
    pub again: bool,
}

impl CallGrammar {
    /// Free text in which calls may appear.
    pub fn wrap(&self) -> Wrap<'_> {
        let triggers = core::slice::from_ref(&self.trigger);
        Wrap { triggers, lead: self.lead, tail: self.tail, again: self.again }
    }
}

impl CallSyntax {
    /// The grammar of calls, of which at most `most` come at once where they come
    /// in a list. None for `FunctionGemma`, whose calls are no JSON: they are
    /// read and then checked.
    pub fn grammar(self, most: u16) -> Option<CallGrammar> {
        let part = |arguments| CallGrammar {
            form: Form::Call { arguments },
            trigger: Trigger { text: "{\"name\"", part: true },
            lead: "",
            tail: "",
            again: false,
        };
        Some(match self {
            Self::Hermes => CallGrammar {
                form: Form::Call { arguments: "arguments" },
                trigger: Trigger { text: "<tool_call>", part: false },
                lead: "\n",
                tail: "\n</tool_call>",
                again: true,
            },
            Self::Llama3 => part("parameters"),
            Self::Json => part("arguments"),
            Self::Mistral => CallGrammar {
                form: Form::Calls { arguments: "arguments", least: 1, most: most.max(1) },
                trigger: Trigger { text: "[TOOL_CALLS]", part: false },
                lead: " ",
                tail: "",
                again: false,
            },
            Self::FunctionGemma => return None,
        })
    }
}
