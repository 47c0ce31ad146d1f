//! Answers in a conversation, with tools.

use std::time::{Duration, Instant};

use anyhow::{Result, anyhow, bail};
use katydid_core::chat::{
    Broken, CallSyntax, Part, Prompted, Said, Session, SessionError, Template, ToolSpec, Turns, parse,
};
use katydid_core::generate::MOST_DRAFTS;
use katydid_core::grammar::tools::Tool;
use katydid_core::grammar::{Constrained, Grammar, Options};
use katydid_core::model::EvalError;
use katydid_core::port::Workers;
use katydid_core::sample::{Constraint, Params};
use katydid_linux::MonotonicClock;

use crate::chat_template::ChatTemplate;
use crate::grammar::{Begun, Constraints, compile, schema_of_calls, size, spell};
use crate::loaded::{Generation, Loaded, Needs};
use crate::stops::Stops;
use crate::units::Bytes;
use crate::{interrupt, report};

/// Most calls in one answer.
const MOST_CALLS: u16 = 8;

/// What talking needs of a model, with room for calls of `tools` and at least so
/// many bytes of grammar.
pub(crate) fn needs(params: &Params, biases: usize, tools: &[ToolSpec<'_>], least: usize) -> Result<Needs> {
    let mut most = least;
    for syntax in [CallSyntax::Hermes, CallSyntax::Llama3, CallSyntax::Mistral, CallSyntax::Json] {
        let mut heap = Vec::new();
        most =
            most.max(grammar(syntax, tools, false, &mut heap)?.as_ref().map(size).transpose()?.unwrap_or(0));
    }
    Ok(Needs {
        text: true,
        generate: Some(Generation { last_n: params.repeat_last_n, biases, drafts: MOST_DRAFTS }),
        grammar: Some(most).filter(|&n| n > 0),
        session: true,
        ..Needs::default()
    })
}

/// The grammar of calls of `tools` in free text, which ends with the first of
/// them where `once`; `None` where there are none or calls are no JSON.
pub(crate) fn grammar<'h>(
    syntax: CallSyntax,
    tools: &[ToolSpec<'_>],
    once: bool,
    heap: &'h mut Vec<u8>,
) -> Result<Option<Grammar<'h>>> {
    let Some(mut calls) = syntax.grammar(MOST_CALLS).filter(|_| !tools.is_empty()) else { return Ok(None) };
    calls.again &= !once;
    let list: Vec<_> = tools.iter().map(|s| Tool { name: s.name, parameters: s.parameters }).collect();
    let schema = schema_of_calls(&list, calls.form)?;
    let options = Options { wrap: Some(calls.wrap()), ..Options::default() };
    compile(&schema, &options, heap).map(Some).map_err(|e| culprit(&list).unwrap_or(e))
}

/// What is wrong with the tool whose parameters cannot be kept to by themselves,
/// by the user's names rather than by those of the schema of all calls.
fn culprit(tools: &[Tool<'_>]) -> Option<anyhow::Error> {
    tools.iter().filter(|t| !t.parameters.is_empty()).find_map(|tool| {
        let error = compile(tool.parameters, &Options::default(), &mut Vec::new()).err()?;
        Some(error.context(format!("the parameters of tool {}", tool.name)))
    })
}

/// A model to talk with.
pub(crate) struct Talk<'r, 'a> {
    pub(crate) session: Session<'a>,
    pub(crate) template: ChatTemplate,
    constraints: Option<Constraints<'a>>,
    workers: &'r dyn Workers,
    clock: MonotonicClock,
}

/// How to answer.
#[derive(Clone, Copy)]
pub(crate) struct How<'g> {
    /// What calls keep to, where tools may be called.
    pub(crate) grammar: Option<&'g Grammar<'g>>,
    /// Begins with a call.
    pub(crate) call_first: bool,
    /// Ends where a call would begin.
    pub(crate) no_calls: bool,
    /// A call that is cut gets the shortest end that it can have.
    pub(crate) close: bool,
    /// Most tokens.
    pub(crate) n: usize,
    /// No progress.
    pub(crate) quiet: bool,
}

/// What ended an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// The model.
    Model,
    /// Its length.
    Length,
    /// The context's end.
    Full,
    /// The user.
    Interrupted,
}

/// An answer, and what it took.
pub(crate) struct Answer {
    pub(crate) text: String,
    pub(crate) end: End,
    pub(crate) prompted: Prompted,
    pub(crate) generated: usize,
    pub(crate) reading: Duration,
    pub(crate) saying: Duration,
}

/// A piece of an answer, owned.
pub(crate) enum Piece {
    Text(String),
    Call { name: String, arguments: String },
    Broken(Broken),
}

impl<'r, 'a> Talk<'r, 'a> {
    pub(crate) fn new(
        mut model: Loaded<'a>,
        name: Option<&str>,
        params: &Params,
        bias: &[(u32, f32)],
        workers: &'r dyn Workers,
    ) -> Result<Self> {
        let tokenizer = *model.tokenizer()?;
        let template = ChatTemplate::choose(name, model.template, &tokenizer)?;
        let generator = model.generator(params, bias)?;
        let constraints = model.constraints().ok();
        let memory = model.session.take().ok_or_else(|| anyhow!("no session was planned"))?;
        let session = Session::new(model.engine, tokenizer, generator, memory);
        Ok(Self { session, template, constraints, workers, clock: MonotonicClock::new() })
    }

    /// Errs where calls of `tools` cannot be kept to, or need more memory than
    /// was planned.
    pub(crate) fn check(&mut self, tools: &[ToolSpec<'_>]) -> Result<()> {
        let mut heap = Vec::new();
        let (syntax, room) = (self.template.syntax(), self.constraints.as_mut());
        let (Some(grammar), Some(room)) = (grammar(syntax, tools, false, &mut heap)?, room) else {
            return Ok(());
        };
        let (need, have) = (size(&grammar)?, room.tables());
        if need > have {
            bail!(
                "the grammar of these tools takes {}, {} are planned: name the file at the start, with --tools",
                Bytes(need as u64),
                Bytes(have as u64)
            );
        }
        room.of(&grammar).map(drop)
    }

    /// Reads a conversation. `None` where there is no room for an answer.
    pub(crate) fn read(
        &mut self,
        talk: &dyn Turns,
        tools: &[ToolSpec<'_>],
        quiet: bool,
    ) -> Result<Option<Prompted>> {
        let bar = report::bar("reading", 0, quiet);
        let read = self.session.prompt(self.workers, &self.template, tools, talk, &mut |done, all| {
            bar.set_length(all as u64);
            bar.set_position(done as u64);
            !interrupt::asked()
        });
        bar.finish_and_clear();
        match read {
            Ok(prompted) => Ok(Some(prompted)),
            Err(SessionError::Full { .. }) => Ok(None),
            Err(SessionError::Eval(EvalError::Stopped { .. })) => Ok(Some(Prompted::default())),
            Err(SessionError::Template(e)) => match self.template.explain() {
                Some(why) => bail!("{e}: {why}"),
                None => bail!("{e}"),
            },
            Err(e) => Err(e.into()),
        }
    }

    /// Answers. Text goes to `show` as it comes, up to where calls begin. `None`
    /// where there is no room for an answer.
    pub(crate) fn answer(
        &mut self,
        talk: &dyn Turns,
        tools: &[ToolSpec<'_>],
        how: &How<'_>,
        show: &mut dyn FnMut(&str) -> Result<()>,
    ) -> Result<Option<Answer>> {
        let start = Instant::now();
        let Some(prompted) = self.read(talk, tools, how.quiet)? else { return Ok(None) };
        let mut answer = Answer {
            text: String::new(),
            end: End::Interrupted,
            prompted,
            generated: 0,
            reading: start.elapsed(),
            saying: Duration::ZERO,
        };
        self.say(&mut answer, how, show)?;
        answer.saying = start.elapsed() - answer.reading;
        Ok(Some(answer))
    }

    fn say(
        &mut self,
        answer: &mut Answer,
        how: &How<'_>,
        show: &mut dyn FnMut(&str) -> Result<()>,
    ) -> Result<()> {
        let mut constraint: Option<Constrained<'_>> = match (&mut self.constraints, how.grammar) {
            (Some(room), Some(grammar)) => Some(room.of(grammar)?),
            _ => None,
        };
        let trigger = self.template.syntax().grammar(MOST_CALLS).map(|g| [g.trigger.text]);
        let mut ends = self.template.stops(self.session.tokenizer());
        ends.extend(trigger.iter().flatten().filter(|_| how.no_calls));
        let (mut stops, mut text) = (Stops::new(&ends), String::new());
        let mut first = match &trigger {
            Some([text]) if how.call_first => spell(self.session.tokenizer(), text)?,
            _ => Vec::new(),
        };
        first.reverse();
        // Calls are for programs: nothing is shown from where they begin.
        let calls: &[&str] = if constraint.is_some() { trigger.as_ref().map_or(&[], |t| t) } else { &[] };
        let (mut shown, mut called) = (Stops::new(calls), false);
        answer.end = loop {
            if interrupt::asked() {
                break End::Interrupted;
            }
            if constraint.as_ref().is_some_and(Constrained::is_complete) {
                break End::Model;
            }
            if answer.generated == how.n {
                break End::Length;
            }
            text.clear();
            let mut within = constraint.as_mut().map(|c| Begun { first: &mut first, rest: c });
            let within = within.as_mut().map(|c| c as &mut dyn Constraint);
            let said = self.session.next(self.workers, &self.clock, within, &mut text)?;
            let free = constraint.as_mut().is_none_or(|c| c.matcher().is_free());
            let (new, stopped) = stops.push(&text, free);
            answer.text.push_str(new);
            if !called {
                let (new, found) = shown.push(new, true);
                show(new)?;
                called = found;
            }
            match said {
                Said::End(_) => break End::Model,
                Said::Full => break End::Full,
                Said::Token(_) if stopped => break End::Model,
                Said::Token(_) => answer.generated += 1,
            }
        };
        text.clear();
        close(&mut self.session, constraint.filter(|_| how.close), &mut text)?;
        self.session.end(&mut text)?;
        let rest = format!("{}{text}", stops.held());
        answer.text.push_str(&rest);
        if !called {
            let (new, found) = shown.push(&rest, true);
            show(new)?;
            if !found {
                show(shown.held())?;
            }
        }
        Ok(())
    }

    /// The pieces of an answer that may call tools.
    pub(crate) fn pieces(&self, text: &str) -> Vec<Piece> {
        let mut room = vec![0; 6 * text.len()];
        let piece = |part: Part<'_>| match part {
            Part::Text(text) => Some(Piece::Text(text.to_owned())),
            Part::Thought(_) => None,
            Part::Call { name, arguments } => {
                Some(Piece::Call { name: name.to_owned(), arguments: arguments.to_owned() })
            }
            Part::Broken { why, .. } => Some(Piece::Broken(why)),
        };
        parse(self.template.syntax(), text, &mut room).filter_map(piece).collect()
    }
}

/// Ends what a grammar leaves open.
fn close(session: &mut Session<'_>, constraint: Option<Constrained<'_>>, text: &mut String) -> Result<()> {
    let Some(mut constraint) = constraint else { return Ok(()) };
    if constraint.matcher().can_end() {
        return Ok(());
    }
    let mut ids = vec![0; constraint.min_left()];
    let n = constraint.close(&mut ids).map_err(|e| anyhow!("the answer was cut: {e}; raise -n"))?;
    ids[..n].iter().try_for_each(|&id| Ok(session.say(id, text)?))
}
