//! A conversation with a model, of which nothing is evaluated twice.

use core::fmt;

use super::transcript::{Failed, Transcript};
use super::{Out, Template, TemplateError, ToolSpec, Turns};
use crate::arena::{ArenaFull, Space};
use crate::generate::{Counts, Generator, NextError};
use crate::model::{Engine, EvalError};
use crate::port::{Clock, Workers};
use crate::sample::{Constraint, ParamError, Params};
use crate::text::{Detokenizer, TextError, Tokenizer};

/// Memory for a session beside its engine, tokenizer and generator.
pub struct SessionMemory<'a>(Transcript<'a>);

impl<'a> SessionMemory<'a> {
    /// Takes what a session of an engine with this `context` needs: 8 bytes for
    /// each of its tokens, and room for the text of a turn.
    pub fn lay_out<S: Space<'a>>(space: &mut S, context: usize) -> Result<Self, ArenaFull> {
        Ok(Self(Transcript::lay_out(space, context)?))
    }
}

/// An engine, and the conversation that it remembers.
///
/// [`Session::prompt`] takes a whole conversation each time, but the model only
/// reads what it does not remember yet: the old tokens stay as far as they say
/// the same text and the same control tokens, also where a model cut its answer
/// into other tokens than the tokenizer would. Where the conversation differs,
/// it is cut into tokens from the last control token on as it would be without
/// memory, so that nothing depends on what was said before. All that changes is
/// the time it takes: logits are those of a new evaluation of the same tokens.
///
/// [`Session::next`] then gives the answer token by token.
pub struct Session<'a> {
    engine: Engine<'a>,
    tokenizer: Tokenizer<'a>,
    generator: Generator<'a>,
    transcript: Transcript<'a>,
    detokenizer: Detokenizer,
}

/// What reading a conversation took.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Prompted {
    /// Tokens that were remembered.
    pub reused: usize,
    /// Tokens that were evaluated.
    pub evaluated: usize,
}

/// What comes next in an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Said {
    /// A token.
    Token(u32),
    /// The answer has ended, with this token.
    End(u32),
    /// The context is full.
    Full,
}

impl<'a> Session<'a> {
    /// A session that remembers nothing. All must have been made for the same
    /// model, and `memory` for the engine's context.
    pub fn new(
        engine: Engine<'a>,
        tokenizer: Tokenizer<'a>,
        generator: Generator<'a>,
        memory: SessionMemory<'a>,
    ) -> Self {
        let detokenizer = Detokenizer::continuing(true);
        Self { engine, tokenizer, generator, transcript: memory.0, detokenizer }
    }

    /// The tokenizer.
    pub fn tokenizer(&self) -> &Tokenizer<'a> {
        &self.tokenizer
    }

    /// The engine, to look at.
    pub fn engine(&self) -> &Engine<'a> {
        &self.engine
    }

    /// The tokens of the conversation. The model has read those before
    /// [`Engine::position`]; the last of an answer it reads with the next prompt.
    pub fn ids(&self) -> &[u32] {
        self.transcript.ids()
    }

    /// The logits after a prompt.
    pub fn logits(&mut self) -> &mut [f32] {
        self.engine.logits()
    }

    /// What guessing ahead brought so far.
    pub fn counts(&self) -> Counts {
        self.generator.counts()
    }

    /// Changes how tokens are chosen, and begins with a new seed.
    pub fn choose(&mut self, params: &Params, bias: &[(u32, f32)]) -> Result<(), ParamError> {
        self.generator.choose(params, bias)
    }

    /// Forgets the conversation.
    pub fn forget(&mut self) {
        self.generator.restart(&mut self.engine);
        self.engine.rewind(0);
        self.transcript.truncate(0);
    }

    /// Reads a conversation up to where the answer begins.
    ///
    /// `going` is told how many tokens of how many have been evaluated, and may
    /// stop the work by returning false: [`EvalError::Stopped`], and what has
    /// been read stays remembered. Errs with [`SessionError::Full`] where the
    /// conversation leaves no room for an answer: forget some turns and prompt
    /// again.
    pub fn prompt(
        &mut self,
        workers: &dyn Workers,
        template: &dyn Template,
        tools: &[ToolSpec<'_>],
        turns: &dyn Turns,
        going: &mut dyn FnMut(usize, usize) -> bool,
    ) -> Result<Prompted, SessionError> {
        self.prompt_with(workers, &mut |out| template.render(tools, turns, out), going)
    }

    /// The same with whatever `write` writes.
    pub fn prompt_with(
        &mut self,
        workers: &dyn Workers,
        write: &mut dyn FnMut(&mut dyn Out) -> Result<(), TemplateError>,
        going: &mut dyn FnMut(usize, usize) -> bool,
    ) -> Result<Prompted, SessionError> {
        self.generator.restart(&mut self.engine);
        let (len, kept) = self.compare(write)?;
        // The last token is evaluated in any case, for its logits.
        let reused = kept.min(self.engine.position()).min(len.saturating_sub(1));
        self.engine.rewind(reused);
        if len >= self.engine.context() {
            return Err(SessionError::Full { have: self.engine.context() });
        }
        self.detokenizer = Detokenizer::continuing(true);
        let ids = self.transcript.ids();
        for &id in ids {
            self.generator.prompt(id);
        }
        let evaluated = len - reused;
        self.engine.eval(workers, &ids[reused..], &mut |done| going(done, evaluated))?;
        Ok(Prompted { reused, evaluated })
    }

    /// Puts the tokens of what `write` writes into the transcript.
    fn compare(
        &mut self,
        write: &mut dyn FnMut(&mut dyn Out) -> Result<(), TemplateError>,
    ) -> Result<(usize, usize), SessionError> {
        let mut comparison = self.transcript.compare(&self.tokenizer);
        let written = write(&mut comparison);
        let done = comparison.finish();
        if let Err(e) = done {
            // What was replaced, the engine must not take for known.
            self.engine.rewind(self.transcript.ids().len());
            return Err(match e {
                Failed::Full => SessionError::Full { have: self.engine.context() },
                Failed::Text(e) => SessionError::Text(e),
            });
        }
        let (_, kept) = done.unwrap_or_default();
        if let Err(e) = written {
            self.engine.rewind(kept);
            return Err(SessionError::Template(e));
        }
        Ok(done.unwrap_or_default())
    }

    /// The next token of the answer; its text goes to `out`. Control tokens that
    /// do not end it are text, too: some models mark calls of tools with them.
    ///
    /// Errs where `out` does, and as [`Generator::next_within`] does.
    pub fn next(
        &mut self,
        workers: &dyn Workers,
        clock: &dyn Clock,
        constraint: Option<&mut dyn Constraint>,
        out: &mut dyn fmt::Write,
    ) -> Result<Said, SessionError> {
        if self.transcript.is_full() {
            self.end(out)?;
            return Ok(Said::Full);
        }
        let id = self.generator.next_within(&mut self.engine, workers, clock, constraint)?;
        if self.tokenizer.is_end(id) {
            self.transcript.push(id);
            self.end(out)?;
            return Ok(Said::End(id));
        }
        self.say(id, out)?;
        Ok(Said::Token(id))
    }

    /// Adds a token to the answer that the model did not choose, such as those
    /// that close what a grammar left open. Past the context nothing is added to
    /// the transcript, but the text is still written.
    pub fn say(&mut self, id: u32, mut out: &mut dyn fmt::Write) -> Result<(), SessionError> {
        if !self.transcript.is_full() {
            self.transcript.push(id);
        }
        self.detokenizer.push(&self.tokenizer, id, &mut out).map_err(|_| SessionError::Out)
    }

    /// Writes what is left of a character that the answer ended within.
    pub fn end(&mut self, mut out: &mut dyn fmt::Write) -> Result<(), SessionError> {
        self.detokenizer.flush(&mut out).map_err(|_| SessionError::Out)
    }
}

/// Why a conversation does not go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SessionError {
    /// It could not be written.
    Template(TemplateError),
    /// Its text has no tokens.
    Text(TextError),
    /// It leaves no room for an answer.
    Full {
        /// Tokens of context.
        have: usize,
    },
    /// The model could not read it, or was stopped.
    Eval(EvalError),
    /// No token could be chosen.
    Next(NextError),
    /// Whoever takes the answer's text takes no more.
    Out,
}

impl From<EvalError> for SessionError {
    fn from(e: EvalError) -> Self {
        Self::Eval(e)
    }
}

impl From<NextError> for SessionError {
    fn from(e: NextError) -> Self {
        Self::Next(e)
    }
}

impl fmt::Display for SessionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Template(e) => e.fmt(f),
            Self::Text(e) => e.fmt(f),
            Self::Full { have } => write!(
                f,
                "the conversation leaves no room in a context window of {have} tokens: forget some of it or raise -c"
            ),
            Self::Eval(e) => e.fmt(f),
            Self::Next(e) => e.fmt(f),
            Self::Out => f.write_str("the answer has no room where it is to go"),
        }
    }
}

impl core::error::Error for SessionError {}
