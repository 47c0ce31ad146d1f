//! Writing a conversation in a family's style, turn by turn.

use super::style::Marks;
use super::{Call, CallResult, CallSyntax, Out, Style, Template, ToolSpec, Turn, gemma};
use crate::json;
use core::fmt;

/// What is being written and not closed yet.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Open {
    Nothing,
    /// A user's turn that has the system text and waits for the question.
    System,
    /// A user's turn that holds results.
    Results,
    /// An answer; whether it has text, and how many calls.
    Assistant {
        text: bool,
        calls: usize,
    },
}

pub(super) struct Writer<'w> {
    style: Style,
    marks: &'static Marks,
    syntax: CallSyntax,
    tools: &'w [ToolSpec<'w>],
    out: &'w mut dyn Out,
    open: Open,
    started: bool,
    /// Questions still to come.
    users: usize,
    /// Mistral's tools stand before the last question.
    tools_due: bool,
}

/// Writes what a system text can say of `tools` to a model that was not trained
/// on any, and how it is to call them: by [`CallSyntax::Hermes`], or else by
/// [`CallSyntax::Json`]. Ends in an empty line.
pub fn describe_tools(tools: &[ToolSpec<'_>], syntax: CallSyntax, out: &mut dyn Out) -> fmt::Result {
    let style = if syntax == CallSyntax::Hermes { Style::ChatMl } else { Style::Zephyr };
    Writer::new(style, tools, 0, out).our_tools()
}

impl<'w> Writer<'w> {
    pub(super) fn new(style: Style, tools: &'w [ToolSpec<'w>], users: usize, out: &'w mut dyn Out) -> Self {
        let (marks, syntax) = (style.marks(), style.syntax());
        Self {
            style,
            marks,
            syntax,
            tools,
            out,
            open: Open::Nothing,
            started: false,
            users,
            tools_due: !tools.is_empty(),
        }
    }

    pub(super) fn turn(&mut self, turn: Turn<'_>) -> fmt::Result {
        if let Turn::System(text) = turn {
            return if self.started { self.system(text) } else { self.start(text) };
        }
        if !self.started {
            self.start("")?;
        }
        match turn {
            Turn::System(_) => Ok(()),
            Turn::User(text) => self.user(text),
            Turn::Assistant(text) => self.assistant(text),
            Turn::Call(call) => self.call(call),
            Turn::Result(result) => self.result(result),
        }
    }

    /// Ends the conversation where the answer begins.
    pub(super) fn finish(mut self) -> fmt::Result {
        if !self.started {
            self.start("")?;
        }
        // A function's response is followed by the rest of the same answer.
        if self.style == Style::FunctionGemma && self.open == Open::Results {
            return Ok(());
        }
        self.close()?;
        self.out.control(self.marks.prompt)
    }

    /// Everything before the first turn but a system's.
    fn start(&mut self, system: &str) -> fmt::Result {
        self.started = true;
        self.out.control(self.marks.bos)?;
        if self.style == Style::Mistral {
            if self.users <= 1 {
                self.available_tools()?;
            }
            return if system.is_empty() { Ok(()) } else { self.system(system) };
        }
        if self.tools.is_empty() {
            return if system.is_empty() { Ok(()) } else { self.system(system) };
        }
        self.begin_system()?;
        let text = if self.marks.trim[0] { system.trim() } else { system };
        match self.style {
            Style::Qwen => {
                self.out.text(text)?;
                self.out.control(if text.is_empty() { "" } else { "\n\n" })?;
                self.qwen_tools()?;
            }
            Style::FunctionGemma => {
                self.out.text(text)?;
                self.out.control(if text.is_empty() { "" } else { "\n" })?;
                self.out
                    .control("You are a model that can do function calling with the following functions")?;
                self.tools.iter().try_for_each(|tool| gemma::declaration(tool, self.out))?;
            }
            _ => {
                match self.style {
                    Style::Llama3 => self.llama3_tools()?,
                    Style::Katydid => self.listed_tools("<tools>\n", "</tools>\n")?,
                    _ => self.our_tools()?,
                }
                self.out.text(text)?;
            }
        }
        self.end_system()
    }

    /// A system text without tools.
    fn system(&mut self, text: &str) -> fmt::Result {
        self.begin_system()?;
        self.out.text(if self.marks.trim[0] { text.trim() } else { text })?;
        self.end_system()
    }

    fn begin_system(&mut self) -> fmt::Result {
        if self.marks.inside && self.open != Open::System {
            self.close()?;
            self.out.control(self.marks.user[0])?;
            self.open = Open::System;
        } else if !self.marks.inside {
            self.close()?;
        }
        self.out.control(self.marks.system[0])
    }

    fn end_system(&mut self) -> fmt::Result {
        self.out.control(self.marks.system[1])
    }

    fn user(&mut self, text: &str) -> fmt::Result {
        let last = self.users == 1;
        self.users = self.users.saturating_sub(1);
        match self.open {
            Open::System => {}
            // Where turns must alternate, a question joins the results.
            Open::Results if self.syntax == CallSyntax::Json => self.out.control("\n\n")?,
            _ => {
                self.close()?;
                if last && self.style == Style::Mistral {
                    self.available_tools()?;
                }
                self.out.control(self.marks.user[0])?;
            }
        }
        let text = match self.marks.trim[1] {
            // In Llama 2's template the system text is part of what is trimmed.
            true if self.style == Style::Llama2 && self.open == Open::System => text.trim_end(),
            true => text.trim(),
            false => text,
        };
        self.out.text(text)?;
        self.open = Open::Nothing;
        self.out.control(self.marks.user[1])
    }

    /// Begins an answer, unless calls or results continue one.
    fn answer(&mut self) -> fmt::Result {
        if matches!(self.open, Open::Assistant { .. })
            || self.style == Style::FunctionGemma && self.open == Open::Results
        {
            return Ok(());
        }
        self.close()?;
        self.open = Open::Assistant { text: false, calls: 0 };
        // Mistral's space belongs to the text.
        if self.style == Style::Mistral { Ok(()) } else { self.out.control(self.marks.assistant[0]) }
    }

    fn assistant(&mut self, text: &str) -> fmt::Result {
        if matches!(self.open, Open::Assistant { .. }) {
            self.close()?;
        }
        self.answer()?;
        let text = if self.marks.trim[2] { text.trim() } else { text };
        self.open = Open::Assistant { text: !text.is_empty(), calls: 0 };
        if self.style == Style::Mistral && !text.is_empty() {
            self.out.control(self.marks.assistant[0])?;
        }
        match text.rsplit_once("</think>") {
            Some((thought, said)) if self.style == Style::Qwen => self.thought(thought, said),
            _ => self.out.text(text),
        }
    }

    /// Qwen 3 remembers thoughts since the last question only.
    fn thought(&mut self, thought: &str, said: &str) -> fmt::Result {
        let thought = thought.rsplit("<think>").next().unwrap_or("").trim_matches('\n');
        let said = said.trim_start_matches('\n');
        let keep = self.users == 0 && !thought.is_empty();
        if keep {
            self.out.control("<think>\n")?;
            self.out.text(thought)?;
            self.out.control("\n</think>\n\n")?;
        }
        self.open = Open::Assistant { text: keep || !said.is_empty(), calls: 0 };
        self.out.text(said)
    }

    fn call(&mut self, call: Call<'_>) -> fmt::Result {
        self.answer()?;
        let (text, calls) = match self.open {
            Open::Assistant { text, calls } => (text, calls),
            _ => (true, 0),
        };
        self.open = Open::Assistant { text, calls: calls + 1 };
        let between = if text || calls > 0 { "\n" } else { "" };
        match self.syntax {
            CallSyntax::Hermes => {
                self.out.control(between)?;
                self.out.control("<tool_call>\n")?;
                self.json_call(call, "arguments")?;
                self.out.control("}\n</tool_call>")
            }
            CallSyntax::Llama3 => {
                self.out.control(between)?;
                self.json_call(call, "parameters")?;
                self.out.control("}")
            }
            CallSyntax::Json => {
                self.out.control(between)?;
                self.json_call(call, "arguments")?;
                self.out.control("}")
            }
            CallSyntax::Mistral => {
                self.out.control(if calls == 0 { "[TOOL_CALLS] [" } else { ", " })?;
                self.json_call(call, "arguments")?;
                self.out.control(", \"id\": ")?;
                self.string(call.id)?;
                self.out.control("}")
            }
            CallSyntax::FunctionGemma => gemma::call(call, self.out),
        }
    }

    /// A call but for its last brace.
    fn json_call(&mut self, call: Call<'_>, key: &str) -> fmt::Result {
        self.out.control("{\"name\": ")?;
        self.string(call.name)?;
        self.out.control(", \"")?;
        self.out.control(key)?;
        self.out.control("\": ")?;
        self.json(json::object(call.arguments).unwrap_or("{}"))
    }

    fn result(&mut self, result: CallResult<'_>) -> fmt::Result {
        let more = self.open == Open::Results;
        match self.syntax {
            CallSyntax::FunctionGemma => {
                self.answer()?;
                self.open = Open::Results;
                gemma::response(result, self.out)
            }
            CallSyntax::Llama3 => {
                self.close()?;
                self.out.control("<|start_header_id|>ipython<|end_header_id|>\n\n")?;
                self.out.text(result.content)?;
                self.out.control("<|eot_id|>")
            }
            CallSyntax::Mistral => {
                self.close()?;
                self.out.control("[TOOL_RESULTS] {\"content\": ")?;
                match json::whole(result.content) {
                    Ok(value) => self.json(value)?,
                    Err(_) => self.string(result.content)?,
                }
                self.out.control(", \"call_id\": ")?;
                self.string(result.id)?;
                self.out.control("}[/TOOL_RESULTS]")
            }
            CallSyntax::Hermes | CallSyntax::Json => {
                if !more {
                    self.close()?;
                    self.out.control(self.marks.user[0])?;
                    self.open = Open::Results;
                }
                self.user_result(result, more)
            }
        }
    }

    fn user_result(&mut self, result: CallResult<'_>, more: bool) -> fmt::Result {
        if self.syntax == CallSyntax::Hermes {
            self.out.control(if more { "\n<tool_response>\n" } else { "<tool_response>\n" })?;
            self.out.text(result.content)?;
            return self.out.control("\n</tool_response>");
        }
        self.out.control(if more { "\n\nResult of " } else { "Result of " })?;
        self.out.text(result.name)?;
        self.out.control(":\n")?;
        self.out.text(result.content.trim_end())
    }

    fn close(&mut self) -> fmt::Result {
        let open = core::mem::replace(&mut self.open, Open::Nothing);
        match open {
            Open::Nothing => Ok(()),
            Open::Results if self.style == Style::FunctionGemma => self.out.control(self.marks.assistant[1]),
            Open::System | Open::Results => self.out.control(self.marks.user[1]),
            Open::Assistant { calls, .. } => {
                if self.style == Style::Mistral && calls > 0 {
                    self.out.control("]")?;
                }
                self.out.control(self.marks.assistant[1])
            }
        }
    }

    /// Writes a string of JSON.
    fn string(&mut self, text: &str) -> fmt::Result {
        json::quote(text, &mut |s| self.out.text(s))
    }

    /// Writes a value of JSON.
    fn json(&mut self, text: &str) -> fmt::Result {
        json::spaced(text, &mut |s| self.out.text(s))
    }

    /// A tool as OpenAI's API has it, or the inner object alone.
    fn tool(&mut self, tool: &ToolSpec<'_>, outer: bool) -> fmt::Result {
        self.out.control(if outer { "{\"type\": \"function\", \"function\": {" } else { "{" })?;
        self.out.control("\"name\": ")?;
        self.string(tool.name)?;
        if !tool.description.is_empty() {
            self.out.control(", \"description\": ")?;
            self.string(tool.description)?;
        }
        self.out.control(", \"parameters\": ")?;
        let none = "{\"type\":\"object\",\"properties\":{}}";
        self.json(json::object(tool.parameters).unwrap_or(none))?;
        self.out.control(if outer { "}}" } else { "}" })
    }

    fn each_tool(&mut self, outer: bool, between: &str) -> fmt::Result {
        let tools = self.tools;
        tools.iter().enumerate().try_for_each(|(i, tool)| {
            self.out.control(if i > 0 { between } else { "" })?;
            self.tool(tool, outer)
        })
    }

    fn listed_tools(&mut self, before: &str, after: &str) -> fmt::Result {
        self.out.control(before)?;
        self.each_tool(false, "\n")?;
        self.out.control("\n")?;
        self.out.control(after)
    }

    /// For families that know no tools: short, as small models lose their way in
    /// long instructions.
    fn our_tools(&mut self) -> fmt::Result {
        self.listed_tools("You can use these tools:\n", "To use one, answer with nothing but\n")?;
        self.out.control(match self.syntax {
            CallSyntax::Hermes => {
                "<tool_call>\n{\"name\": <tool>, \"arguments\": {<argument>: <value>}}\n</tool_call>\n"
            }
            _ => "{\"name\": <tool>, \"arguments\": {<argument>: <value>}}\n",
        })?;
        self.out.control("You are then given its result. Use none where none is needed.\n\n")
    }

    /// What Qwen 2.5 and 3 were trained with.
    fn qwen_tools(&mut self) -> fmt::Result {
        self.out.control(
            "# Tools\n\nYou may call one or more functions to assist with the user query.\n\n\
             You are provided with function signatures within <tools></tools> XML tags:\n<tools>\n",
        )?;
        self.each_tool(true, "\n")?;
        self.out.control(
            "\n</tools>\n\nFor each function call, return a json object with function name and arguments \
             within <tool_call></tool_call> XML tags:\n<tool_call>\n\
             {\"name\": <function-name>, \"arguments\": <args-json-object>}\n</tool_call>",
        )
    }

    /// What Llama 3.1 and later were trained with, without indentation.
    fn llama3_tools(&mut self) -> fmt::Result {
        self.out.control(
            "Environment: ipython\nCutting Knowledge Date: December 2023\n\n\
             You have access to the following functions. To call a function, please respond with JSON \
             for a function call.Respond in the format {\"name\": function name, \"parameters\": \
             dictionary of argument name and its value}.Do not use variables.\n\n",
        )?;
        self.each_tool(true, "\n\n")?;
        self.out.control("\n\n")
    }

    fn available_tools(&mut self) -> fmt::Result {
        if !core::mem::take(&mut self.tools_due) {
            return Ok(());
        }
        self.out.control("[AVAILABLE_TOOLS] [")?;
        self.each_tool(true, ", ")?;
        self.out.control("][/AVAILABLE_TOOLS]")
    }
}
