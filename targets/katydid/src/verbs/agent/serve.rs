//! Request after request: the model thinks, tools run, answers leave.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use katydid_agent::config::Calls;
use katydid_agent::inputs::{Inputs, Next, ReplyTo, Request};
use katydid_agent::toolbox::{At, Toolbox};
use katydid_core::agent::{Agent, Bounds, End, Log, MOST_CALLS, Outcome, Step};
use katydid_core::chat::{Call, ToolSpec};
use katydid_core::grammar::Grammar;

use super::terminal::Terminal;
use crate::conversation::{Conversation, Line};
use crate::talk::{self, Answer, How, Piece, Talk};
use crate::{interrupt, report};

/// How often is looked whether the user asked to end.
const LOOK: Duration = Duration::from_millis(200);

/// How long the last replies may take to leave.
const GOOD_BYE: Duration = Duration::from_secs(5);

/// Bytes that a note on what was cut adds to a tool's output.
const NOTE: usize = 64;

/// What calls keep to.
pub(super) struct Grammars<'g> {
    /// In free text.
    pub(super) any: Option<Grammar<'g>>,
    /// The first of a request, where there must be one.
    pub(super) first: Option<Grammar<'g>>,
}

/// An agent at work.
pub(super) struct Server<'s, 'r, 'a> {
    talker: Talk<'r, 'a>,
    agent: Agent<'s>,
    toolbox: &'s Toolbox,
    grammars: Grammars<'s>,
    terminal: &'s Terminal,
    quiet: bool,
    sums: Sums,
}

/// What a request took.
#[derive(Default)]
struct Sums {
    reused: usize,
    read: usize,
    said: usize,
    calls: usize,
    reading: Duration,
    saying: Duration,
}

impl<'s, 'r, 'a> Server<'s, 'r, 'a> {
    pub(super) fn new(
        talker: Talk<'r, 'a>,
        mut log: Log<'s>,
        specs: &'s [ToolSpec<'s>],
        toolbox: &'s Toolbox,
        grammars: Grammars<'s>,
        terminal: &'s Terminal,
        quiet: bool,
    ) -> Result<Self> {
        let config = toolbox.config();
        log.set_system(&config.agent.system)?;
        let result = config.tools.iter().map(|t| t.max_output).max().unwrap_or(0);
        let bounds = Bounds {
            steps: config.agent.max_steps.try_into().unwrap_or(u16::MAX),
            calls: MOST_CALLS as u8,
            result: result.max(config.agent.result_bytes) + NOTE,
            ..Bounds::default()
        };
        let agent = Agent::new(log, specs, bounds);
        Ok(Self { talker, agent, toolbox, grammars, terminal, quiet, sums: Sums::default() })
    }

    /// Reads what all requests begin with, so that it is there when the first
    /// one comes.
    pub(super) fn warm(&mut self) -> Result<()> {
        let (start, system) = (Instant::now(), &self.toolbox.config().agent.system);
        let mut talk = Conversation(vec![Line::User("?".into())]);
        talk.set_system(system);
        let context = self.talker.session.engine().context();
        let Some(read) = self.talker.read(&talk, self.agent.tools(), self.quiet)? else {
            bail!("the system text and the tools alone fill the context of {context} tokens: raise -c");
        };
        if interrupt::asked() {
            return Ok(());
        }
        self.note(format_args!(
            "katydid: system text and tools ({}): {} of {context} tokens, read in {:.1} s and kept",
            self.agent.tools().len(),
            read.evaluated,
            start.elapsed().as_secs_f64()
        ));
        Ok(())
    }

    /// Answers until there are no more requests, or the user wants to end.
    pub(super) fn serve(&mut self, mut inputs: Inputs, gone: &AtomicBool) {
        // Where only lines are asked for, nobody waits for answers once their
        // reader is gone.
        let config = self.toolbox.config();
        let alone = config.mqtt.is_none() && config.intervals.is_empty();
        while !interrupt::asked() {
            if alone && gone.load(Ordering::Relaxed) {
                break;
            }
            match inputs.next(LOOK) {
                Next::Request(request) => self.request(&inputs, &request),
                Next::Nothing => {}
                Next::End => break,
            }
        }
        self.leave();
    }

    /// Answers one request.
    pub(super) fn serve_one(&mut self, inputs: &Inputs, text: &str) {
        let request = Request { id: "1".into(), text: text.into(), reply: ReplyTo::Output };
        self.request(inputs, &request);
        self.leave();
    }

    /// Lets what is still to be sent leave.
    fn leave(&self) {
        if let Some(link) = self.toolbox.link() {
            let lost = link.flush(GOOD_BYE);
            if lost > 0 {
                self.note(format_args!("katydid: {lost} messages could not be sent any more"));
            }
        }
    }

    fn note(&self, line: impl std::fmt::Display) {
        if !self.quiet {
            report::say(line);
        }
    }

    /// Answers a request. Whatever goes wrong is its answer.
    fn request(&mut self, inputs: &Inputs, request: &Request) {
        self.sums = Sums::default();
        let done = self.work(request);
        let said = self.agent.answer();
        let reply = match &done {
            Ok(Outcome::Answered | Outcome::Cut) if !said.trim().is_empty() => said.trim().to_owned(),
            Ok(Outcome::Stopped) => "error: the agent was stopped".into(),
            Ok(outcome) => format!("error: {outcome}"),
            Err(e) => format!("error: {e:#}"),
        };
        if let Err(e) = inputs.reply(request, &reply) {
            self.note(format_args!("katydid: request {}: {e}", request.id));
        }
        let words = match &done {
            Ok(outcome) => outcome.to_string(),
            Err(e) => format!("{e:#}"),
        };
        let s = &self.sums;
        let rate = |n: usize, time: Duration| n as f64 / time.as_secs_f64().max(1e-9);
        self.note(format_args!(
            "request {}: {words} · {} calls in {} steps · read {} tokens ({:.1} tok/s), reused {} · said {} ({:.1} tok/s)",
            request.id,
            s.calls,
            self.agent.steps(),
            s.read,
            rate(s.read, s.reading),
            s.reused,
            s.said,
            rate(s.said, s.saying)
        ));
    }

    fn work(&mut self, request: &Request) -> Result<Outcome> {
        // No request is under way, so this opens.
        self.agent.edit()?.clear();
        self.agent.ask(&request.text)?;
        loop {
            match self.agent.step() {
                Step::Idle => return Ok(Outcome::Stopped),
                Step::Done(outcome) => return Ok(outcome),
                Step::Calls => self.calls(&request.id),
                Step::Think { tools } => {
                    if let Err(e) = self.think(tools) {
                        self.agent.stop();
                        self.talker.session.forget();
                        return Err(e);
                    }
                }
            }
        }
    }

    /// Has the model answer, and takes note of it.
    fn think(&mut self, tools: bool) -> Result<()> {
        let required = self.toolbox.config().agent.calls == Calls::Required;
        let first = tools && required && self.agent.steps() == 0;
        let grammar = if first { &self.grammars.first } else { &self.grammars.any };
        let how = How {
            grammar: grammar.as_ref().filter(|_| tools),
            call_first: first,
            no_calls: !tools,
            close: false,
            n: self.toolbox.config().agent.max_tokens as usize,
            quiet: self.quiet,
        };
        // The tools are shown even where they must not be called any more: what
        // is the same need not be read again.
        let Some(mut answer) = ask(&mut self.talker, &mut self.agent, true, &how, &mut self.sums)? else {
            return Ok(());
        };
        if !tools && answer.text.trim().is_empty() && answer.end == talk::End::Model {
            match ask(&mut self.talker, &mut self.agent, false, &how, &mut self.sums)? {
                Some(other) => answer = other,
                None => return Ok(()),
            }
        }
        let mut texts = 0;
        for piece in self.talker.pieces(&answer.text) {
            let done = match &piece {
                Piece::Text(text) => {
                    texts += 1;
                    let between = if texts > 1 { "\n" } else { "" };
                    self.agent.said(between).and_then(|()| self.agent.said(text))
                }
                Piece::Call { name, arguments } => self.agent.called(name, arguments),
                // What is no JSON is refused, and the model reads why.
                Piece::Broken(_) => {
                    let name = meant(&answer.text, self.agent.tools());
                    self.agent.called(name, "{")
                }
            };
            // Errs where there is no room, which has ended the request.
            if done.is_err() {
                return Ok(());
            }
        }
        let end = match answer.end {
            talk::End::Model => End::Natural,
            talk::End::Length | talk::End::Full => End::Cut,
            talk::End::Interrupted => End::Stopped,
        };
        Ok(self.agent.answered(end)?)
    }

    /// Runs the calls of an answer, as many at once as the file allows.
    fn calls(&mut self, request: &str) {
        let mut due = Vec::new();
        while let Some(view) = self.agent.next_call() {
            due.push((view.id, view.call.name.to_owned(), view.call.arguments.to_owned()));
        }
        if due.is_empty() || interrupt::asked() {
            return self.agent.stop();
        }
        let calls: Vec<_> =
            due.iter().map(|(id, name, arguments)| Call { id: id.as_str(), name, arguments }).collect();
        let at = At { request, step: self.agent.steps().into() };
        let outcomes = self.terminal.with_approval(|approve| self.toolbox.call_all(at, &calls, approve));
        for (call, outcome) in calls.iter().zip(outcomes) {
            self.sums.calls += 1;
            let ok = if outcome.ok { "ok" } else { "failed" };
            let arguments = self.toolbox.config().redactor.mask(call.arguments);
            let ms = outcome.micros as f64 / 1000.0;
            self.note(format_args!("request {request}: {} {arguments} · {ok}, {ms:.1} ms", call.name));
            // Errs where there is no room, which has ended the request.
            let _ = self.agent.result(call.id, outcome.ok, &outcome.content);
        }
    }
}

/// An answer to the conversation, shortened as long as it is too long; `None`
/// where that does not help, and the request has ended.
fn ask(
    talker: &mut Talk<'_, '_>,
    agent: &mut Agent<'_>,
    show: bool,
    how: &How<'_>,
    sums: &mut Sums,
) -> Result<Option<Answer>> {
    loop {
        let tools = if show { agent.tools() } else { &[] };
        if let Some(answer) = talker.answer(agent.log(), tools, how, &mut |_| Ok(()))? {
            sums.reused += answer.prompted.reused;
            sums.read += answer.prompted.evaluated;
            sums.said += answer.generated;
            sums.reading += answer.reading;
            sums.saying += answer.saying;
            return Ok(Some(answer));
        }
        if !agent.shorten() {
            agent.give_up();
            return Ok(None);
        }
    }
}

/// The tool that a broken call most likely meant: the last one named.
fn meant<'t>(text: &str, tools: &[ToolSpec<'t>]) -> &'t str {
    let place = |t: &ToolSpec<'_>| text.rfind(&format!("\"{}\"", t.name));
    let named = tools.iter().filter_map(|t| Some((place(t)?, t.name))).max();
    named.map_or("?", |(_, name)| name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn broken_calls_name_their_tool() {
        let tool = |name| ToolSpec { name, description: "", parameters: "" };
        let tools = [tool("lamp"), tool("fan")];
        assert_eq!(meant(r#"a "lamp" <tool_call>{"name": "fan", "arg"#, &tools), "fan");
        assert_eq!(meant(r#"<tool_call>{"name": "fa"#, &tools), "?");
    }
}
