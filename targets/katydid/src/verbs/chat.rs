//! `katydid chat`: talk with a model.

use std::io::{BufRead, IsTerminal, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, anyhow, bail};
use katydid_core::grammar::Grammar;
use rustyline::error::ReadlineError;
use rustyline::history::FileHistory;
use rustyline::{Config, Editor};

use super::run::Sampling;
use crate::conversation::{Conversation, Line, Tools};
use crate::loaded::{Wanted, with_model};
use crate::model_args::ModelArgs;
use crate::talk::{Answer, End, How, Piece, Talk, grammar, needs};
use crate::{interrupt, report};

#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    model: ModelArgs,
    /// What the model is to be
    #[arg(long, value_name = "TEXT")]
    system: Option<String>,
    /// Tools that it may call: a JSON list in the shape of OpenAI's API
    #[arg(long, value_name = "FILE")]
    tools: Option<PathBuf>,
    /// A conversation to go on with
    #[arg(long, value_name = "FILE")]
    load: Option<PathBuf>,
    /// How conversations are written, such as chatml [default: the model's own way]
    #[arg(long, value_name = "NAME")]
    template: Option<String>,
    /// Most tokens of an answer
    #[arg(short = 'n', long = "tokens", value_name = "N", default_value_t = 1024)]
    n: usize,
    /// No progress, no notes
    #[arg(short, long)]
    quiet: bool,
    #[command(flatten)]
    sampling: Sampling,
}

const HELP: &str = "/system TEXT   what the model is to be; nothing without TEXT
/tools FILE    tools that it may call, as OpenAI's API has them; none without FILE
/stats         how large and how fast
/save FILE     keep the conversation
/load FILE     go on with another
/reset         begin anew
/quit          or Ctrl-D
Ctrl-C stops an answer. Where tools were called, type what they return.";

/// Bytes kept for the grammar of tools that come later.
const ROOM: usize = 256 << 10;

pub(crate) fn run(args: &Args) -> Result<()> {
    let params = args.sampling.params();
    params.check()?;
    let tools = args.tools.as_deref().map(Tools::load).transpose()?.unwrap_or_default();
    let mut talk = args.load.as_deref().map(Conversation::load).transpose()?.unwrap_or_default();
    if let Some(system) = &args.system {
        talk.set_system(system);
    }
    let needs = needs(&params, args.sampling.logit_bias.len(), &tools.specs(), ROOM)?;
    interrupt::catch();
    let spinner = report::spinner(&format!("loading {}", args.model.model.display()), args.quiet);
    with_model(&args.model, Wanted::Usual, needs, |model| {
        let pool = args.model.pool()?;
        let bias = &args.sampling.logit_bias;
        let talker = Talk::new(model, args.template.as_deref(), &params, bias, &pool)?;
        spinner.finish_and_clear();
        let terminal = std::io::stdin().is_terminal() && std::io::stdout().is_terminal();
        let mut chat = Chat { args, talker, talk, tools, last: None, terminal };
        let mut input = if terminal { Input::editor()? } else { Input::Pipe };
        if terminal && !args.quiet {
            report::say("Type /help for commands, Ctrl-D to end.");
        }
        while let Some(line) = input.line(&chat.asks())? {
            let done = chat.take(&line);
            match done {
                Ok(true) => {}
                Ok(false) => break,
                Err(e) if terminal && !report::is_broken_pipe(&e) => {
                    report::say(format_args!("katydid: {e:#}"));
                }
                Err(e) => return Err(e),
            }
            if interrupt::told_to_end() {
                break;
            }
        }
        Ok(())
    })
}

/// The names of commands.
const COMMANDS: [&str; 9] = ["help", "quit", "exit", "reset", "system", "tools", "save", "load", "stats"];

/// Where lines come from.
enum Input {
    Pipe,
    Editor(Box<Editor<(), FileHistory>>, Option<PathBuf>),
}

impl Input {
    fn editor() -> Result<Self> {
        let config = Config::builder().auto_add_history(true).build();
        let mut editor = Editor::with_config(config).context("cannot read from the terminal")?;
        let history = history_file();
        if let Some(path) = &history {
            // There is none yet, the first time.
            let _ = editor.load_history(path);
        }
        Ok(Self::Editor(Box::new(editor), history))
    }

    /// The next line; `None` at the end.
    fn line(&mut self, asks: &str) -> Result<Option<String>> {
        match self {
            Self::Pipe => {
                let mut line = String::new();
                // Nothing is under way that a signal would have to end well.
                interrupt::release();
                let n = std::io::stdin().lock().read_line(&mut line).context("cannot read stdin")?;
                Ok((n > 0).then(|| line.trim_end_matches(['\n', '\r']).to_owned()))
            }
            Self::Editor(editor, history) => loop {
                match editor.readline(asks) {
                    Ok(line) => {
                        if let Some(path) = history {
                            let _ = editor.save_history(path);
                        }
                        return Ok(Some(line));
                    }
                    // Ctrl-C clears the line.
                    Err(ReadlineError::Interrupted) => {}
                    Err(ReadlineError::Eof) => return Ok(None),
                    Err(e) => return Err(e).context("cannot read from the terminal"),
                }
            },
        }
    }
}

/// Where lines typed are remembered, with the user's other state.
fn history_file() -> Option<PathBuf> {
    let set = |name: &str| std::env::var_os(name).filter(|v| !v.is_empty()).map(PathBuf::from);
    let state = set("XDG_STATE_HOME").or_else(|| Some(set("HOME")?.join(".local/state")))?;
    let folder = state.join("katydid");
    std::fs::create_dir_all(&folder).ok()?;
    Some(folder.join("chat_history"))
}

struct Chat<'r, 'a> {
    args: &'r Args,
    talker: Talk<'r, 'a>,
    talk: Conversation,
    tools: Tools,
    last: Option<Answer>,
    terminal: bool,
}

impl Chat<'_, '_> {
    /// The first call that has no result yet.
    fn waits(&self) -> Option<(String, String)> {
        let done = |of: &str| self.talk.0.iter().any(|l| matches!(l, Line::Result { id, .. } if id == of));
        self.talk.0.iter().find_map(|l| match l {
            Line::Call { id, name, .. } if !done(id) => Some((id.clone(), name.clone())),
            _ => None,
        })
    }

    fn asks(&self) -> String {
        self.waits().map_or_else(|| "> ".to_owned(), |(_, name)| format!("{name} returns> "))
    }

    /// Takes a line; returns whether to go on.
    fn take(&mut self, line: &str) -> Result<bool> {
        let text = line.trim();
        if let Some(command) = text.strip_prefix('/') {
            let (name, rest) = command.split_once(char::is_whitespace).unwrap_or((command, ""));
            // What a tool returns may begin like a command, as paths do.
            if self.waits().is_none() || COMMANDS.contains(&name) {
                return self.command(name, rest.trim());
            }
        }
        let before = self.talk.clone();
        if let Some((id, name)) = self.waits() {
            self.talk.0.push(Line::Result { id, name, content: line.to_owned() });
            if self.waits().is_some() {
                return Ok(true);
            }
        } else if text.is_empty() {
            return Ok(true);
        } else {
            self.talk.0.push(Line::User(line.to_owned()));
        }
        let answered = self.answer();
        if answered.is_err() {
            // As if it had not been asked, and nothing been forgotten for it.
            self.talk = before;
        }
        answered.map(|()| true)
    }

    fn command(&mut self, name: &str, rest: &str) -> Result<bool> {
        let file = || match rest {
            "" => Err(anyhow!("/{name} needs the name of a file")),
            name => Ok(Path::new(name)),
        };
        match name {
            "help" => self.note(HELP),
            "quit" | "exit" => return Ok(false),
            "reset" => {
                self.talk.0.retain(|l| matches!(l, Line::System(_)));
                self.talker.session.forget();
            }
            "system" => self.talk.set_system(rest),
            "tools" if rest.is_empty() => self.tools = Tools::default(),
            "tools" => {
                let tools = Tools::load(file()?)?;
                self.talker.check(&tools.specs())?;
                self.tools = tools;
            }
            "save" => {
                let (file, text) = (file()?, format!("{:#}\n", self.talk.to_json()));
                if file.exists() && Conversation::load(file).is_err() {
                    bail!("{} holds no conversation; name another file", file.display());
                }
                crate::files::replace(file, text.as_bytes())?;
            }
            "load" => self.talk = Conversation::load(file()?)?,
            "stats" => self.stats(),
            _ => bail!("there is no command /{name}; /help lists them"),
        }
        Ok(true)
    }

    /// A line for people, not for programs.
    fn note(&self, text: &str) {
        if !self.args.quiet {
            report::say(text);
        }
    }

    fn answer(&mut self) -> Result<()> {
        interrupt::again();
        let (mut heap, tools) = (Vec::new(), self.tools.specs());
        let grammar: Option<Grammar<'_>> =
            grammar(katydid_core::chat::Template::syntax(&self.talker.template), &tools, false, &mut heap)?;
        let how = How {
            grammar: grammar.as_ref(),
            call_first: false,
            no_calls: false,
            close: true,
            n: self.args.n,
            quiet: self.args.quiet || !self.terminal,
        };
        let mut out = std::io::stdout().lock();
        let answer = loop {
            let mut show = |text: &str| {
                out.write_all(text.as_bytes()).and_then(|()| out.flush()).context(report::CANNOT_WRITE)
            };
            match self.talker.answer(&self.talk, &tools, &how, &mut show)? {
                Some(answer) => break answer,
                None if self.talk.forget_oldest() => self.note("(the oldest question is forgotten)"),
                None => bail!("this is longer than the context: raise -c, /reset, or ask for less"),
            }
        };
        let mut said = String::new();
        let mut number = self.talk.last_call();
        let mut calls = Vec::new();
        let plain = || vec![Piece::Text(answer.text.trim().to_owned())];
        for piece in if tools.is_empty() { plain() } else { self.talker.pieces(&answer.text) } {
            match piece {
                Piece::Text(text) => said.push_str(&text),
                Piece::Call { name, arguments } => {
                    number = number.wrapping_add(1);
                    let id = format!("call_{number:08x}");
                    calls.push(Line::Call { id, name, arguments });
                }
                Piece::Broken(why) => self.note(&format!("(a call that failed: {why})")),
            }
        }
        for call in &calls {
            let Line::Call { name, arguments, .. } = call else { continue };
            write!(out, "{}{name} {arguments}", if self.terminal { "→ " } else { "" })
                .context(report::CANNOT_WRITE)?;
        }
        writeln!(out).and_then(|()| out.flush()).context(report::CANNOT_WRITE)?;
        if self.tools.is_empty() {
            said.clone_from(&answer.text);
        }
        if !said.is_empty() || calls.is_empty() {
            self.talk.0.push(Line::Assistant(said));
        }
        self.talk.0.extend(calls);
        match answer.end {
            End::Length => self.note("(cut at -n)"),
            End::Full => self.note("(the context is full)"),
            End::Interrupted if self.terminal => self.note("(stopped)"),
            _ => {}
        }
        self.last = Some(answer);
        Ok(())
    }

    fn stats(&self) {
        let session = &self.talker.session;
        let mut text = format!("context {} of {} tokens", session.ids().len(), session.engine().context());
        if let Some(a) = &self.last {
            let rate = |n: usize, time: std::time::Duration| n as f64 / time.as_secs_f64().max(1e-9);
            text += &format!(
                " · read {} new tokens, {:.1} tok/s, remembered {} · said {} tokens, {:.1} tok/s",
                a.prompted.evaluated,
                rate(a.prompted.evaluated, a.reading),
                a.prompted.reused,
                a.generated,
                rate(a.generated, a.saying)
            );
        }
        report::say(text);
    }
}
