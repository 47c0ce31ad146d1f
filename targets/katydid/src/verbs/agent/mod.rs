//! `katydid agent`: answers requests from lines, messages and the clock, with
//! tools that a file declares.

mod check;
mod install;
mod serve;
mod terminal;

use std::io::{IsTerminal, Read, Write};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Context, Result, anyhow, bail};
use katydid_agent::config::{Calls, Config, Policy};
use katydid_agent::inputs::Inputs;
use katydid_agent::link::Notice;
use katydid_agent::toolbox::{Options, Toolbox};
use katydid_core::chat::{CallSyntax, Template, ToolSpec};
use katydid_core::sample::Params;

use super::run::Sampling;
use crate::loaded::{Needs, Wanted, with_model};
use crate::model_args::ModelArgs;
use crate::talk::{Talk, grammar, needs};
use crate::{interrupt, report};
use serve::{Grammars, Server};
use terminal::{Lines, Terminal};

/// Bytes of the conversation beside the system text and what the context may
/// fill: questions and results that turn out to be too long.
const LOG: usize = 64 << 10;

#[derive(clap::Subcommand)]
pub(crate) enum What {
    /// Answer requests; `run` may be left out
    Run(Args),
    /// Check a file of tools, and show what a model will see of it
    Check(check::Args),
    /// Write a systemd service that may do what the tools need and nothing else
    Install(install::Args),
}

#[derive(clap::Args)]
// Wild arguments are of no use.
#[command(mut_arg("temperature", |a| a.default_value("0.2")))]
pub(crate) struct Args {
    #[command(flatten)]
    model: ModelArgs,
    /// What the agent may do and where requests come from
    #[arg(long, value_name = "FILE")]
    tools: PathBuf,
    /// Answer this and end
    #[arg(short, long, value_name = "TEXT", allow_hyphen_values = true)]
    prompt: Option<String>,
    /// Say what tools would do, and do nothing
    #[arg(long)]
    dry_run: bool,
    /// Take the files in DIR for GPIO lines
    #[arg(long, value_name = "DIR")]
    gpio_fake: Option<PathBuf>,
    /// Read no requests from stdin
    #[arg(long)]
    no_stdin: bool,
    /// How conversations are written, such as chatml [default: the model's own way]
    #[arg(long, value_name = "NAME")]
    template: Option<String>,
    /// Answers only: no statistics, no notices
    #[arg(short, long)]
    quiet: bool,
    #[command(flatten)]
    sampling: Sampling,
}

pub(crate) fn run(what: &What) -> Result<()> {
    match what {
        What::Run(args) => serve(args),
        What::Check(args) => check::run(args),
        What::Install(args) => install::run(args),
    }
}

/// What an agent with the tools of `config` needs of a model.
fn needs_of(config: &Config, specs: &[ToolSpec<'_>], params: &Params, biases: usize) -> Result<Needs> {
    let log = Some(config.agent.system.len().saturating_add(LOG));
    Ok(Needs { log, ..needs(params, biases, specs, 0)? })
}

fn serve(args: &Args) -> Result<()> {
    let params = args.sampling.params();
    params.check()?;
    let quiet = args.quiet;
    let notice: Notice = Arc::new(move |text: &str| {
        if !quiet {
            report::say(format_args!("katydid: {text}"));
        }
    });
    let config = config_of(args, &notice)?;
    interrupt::catch();
    let options =
        Options { dry_run: args.dry_run, gpio_fake: args.gpio_fake.clone(), notice: Arc::clone(&notice) };
    let toolbox = Toolbox::new(config, &options)?;
    let (output, gone) = Output::new();
    let terminal = Terminal::open();
    let lines = lines(args, &terminal);
    let people = lines.is_some() && std::io::stdin().is_terminal() && !quiet;
    // Requests that come while the model is loaded wait.
    let inputs = Inputs::start(toolbox.config(), toolbox.link().cloned(), lines, Box::new(output), &notice);
    let inputs = inputs.map_err(|e| anyhow!(e))?;
    let specs = toolbox.specs();
    let needs = needs_of(toolbox.config(), &specs, &params, args.sampling.logit_bias.len())?;
    let spinner = report::spinner(&format!("loading {}", args.model.model.display()), quiet);
    with_model(&args.model, Wanted::Usual, needs, |mut model| {
        let log = model.log.take().ok_or_else(|| anyhow!("no log was planned"))?;
        let pool = args.model.pool()?;
        let bias = &args.sampling.logit_bias;
        let talker = Talk::new(model, args.template.as_deref(), &params, bias, &pool)?;
        spinner.finish_and_clear();
        let syntax = talker.template.syntax();
        let (mut any, mut first) = (Vec::new(), Vec::new());
        let grammars = Grammars {
            any: grammar(syntax, &specs, false, &mut any)?,
            first: first_call(toolbox.config(), syntax, &specs, &mut first)?,
        };
        let mut server = Server::new(talker, log, &specs, &toolbox, grammars, &terminal, quiet)?;
        server.warm()?;
        if people {
            report::say("Type a request; Ctrl-D ends.");
        }
        match &args.prompt {
            Some(text) => server.serve_one(&inputs, text),
            None => server.serve(inputs, &gone),
        }
        Ok(())
    })
}

/// The file of tools, as this run takes it.
fn config_of(args: &Args, notice: &Notice) -> Result<Config> {
    let mut config = Config::load(&args.tools)?;
    config.warnings.iter().for_each(|w| notice(&format!("{}: {w}", args.tools.display())));
    if args.prompt.is_some() {
        // One request, and no others.
        config.intervals.clear();
        config.mqtt.iter_mut().for_each(|m| m.broker.subscribe.clear());
    }
    let listens = config.mqtt.as_ref().is_some_and(|m| !m.broker.subscribe.is_empty());
    if args.no_stdin && args.prompt.is_none() && !listens && config.intervals.is_empty() {
        bail!(
            "{}: with --no-stdin requests come from nowhere: add subscribe to [mqtt], or an [[interval]]",
            args.tools.display()
        );
    }
    if let Some(folder) = args.gpio_fake.as_ref().filter(|f| !f.is_dir()) {
        bail!("--gpio-fake {}: there is no such folder", folder.display());
    }
    Ok(config)
}

/// The grammar of calls that must come, where they must.
fn first_call<'h>(
    config: &Config,
    syntax: CallSyntax,
    specs: &[ToolSpec<'_>],
    heap: &'h mut Vec<u8>,
) -> Result<Option<katydid_core::grammar::Grammar<'h>>> {
    if config.agent.calls == Calls::Optional {
        return Ok(None);
    }
    let grammar = grammar(syntax, specs, true, heap)?;
    grammar.map(Some).context(
        "calls = \"required\" is not possible with this model, whose calls are no JSON: take calls = \"optional\"",
    )
}

/// Where lines come from.
fn lines(args: &Args, terminal: &Terminal) -> Option<Box<dyn Read + Send>> {
    if args.no_stdin || args.prompt.is_some() {
        return None;
    }
    match std::io::stdin().is_terminal() {
        true => Some(Box::new(Lines::new(terminal))),
        false => Some(Box::new(std::io::stdin())),
    }
}

/// stdout, which knows when nobody reads it any more.
struct Output(Arc<AtomicBool>);

impl Output {
    fn new() -> (Self, Arc<AtomicBool>) {
        let gone = Arc::new(AtomicBool::new(false));
        (Self(Arc::clone(&gone)), gone)
    }

    fn note<T>(&self, done: std::io::Result<T>) -> std::io::Result<T> {
        if done.as_ref().is_err_and(|e| e.kind() == std::io::ErrorKind::BrokenPipe) {
            self.0.store(true, Ordering::Relaxed);
        }
        done
    }
}

impl Write for Output {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.note(std::io::stdout().write(bytes))
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.note(std::io::stdout().flush())
    }
}

/// A line for each tool: its name, what it does, whether it may.
fn describe(config: &Config) -> impl Iterator<Item = String> + '_ {
    config.tools.iter().map(|t| {
        let hidden = if t.policy == Policy::Deny { ", hidden" } else { "" };
        format!("{} ({}, {}{hidden})", t.name, t.action.kind(), t.policy.as_str())
    })
}
