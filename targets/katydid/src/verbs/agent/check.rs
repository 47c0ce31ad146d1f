//! `katydid agent check`: whether a file of tools is right, and what a model
//! will see of it.

use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, anyhow, bail};
use katydid_agent::config::{Calls, Config};
use katydid_core::arena::{ALIGN, Arena};
use katydid_core::chat::{Plain, Style, Template};
use katydid_core::gguf::Parts;
use katydid_core::plan::MemoryPlan;
use katydid_core::text::{Add, Encode, Sizes, Tables, Tokenizer};
use katydid_linux::Block;

use crate::chat_template::ChatTemplate;
use crate::conversation::{Conversation, Line};
use crate::loaded::Files;
use crate::report;
use crate::verbs::encode;

#[derive(clap::Args)]
pub(crate) struct Args {
    /// The file of tools
    tools: PathBuf,
    /// The model that will run it; only its vocabulary and template are read
    model: Option<PathBuf>,
    /// How conversations are written, such as chatml [default: the model's own way]
    #[arg(long, value_name = "NAME")]
    template: Option<String>,
    /// Errors and warnings only
    #[arg(short, long)]
    quiet: bool,
}

pub(crate) fn run(args: &Args) -> Result<()> {
    let config = Config::load(&args.tools)?;
    for warning in &config.warnings {
        report::say(format_args!("katydid: {}: warning: {warning}", args.tools.display()));
    }
    let seen = match &args.model {
        Some(model) => seen_by(model, args, &config)?,
        None => {
            let name = args.template.as_deref().unwrap_or(Style::ChatMl.name());
            let style = Style::from_name(name).ok_or_else(|| {
                anyhow!(
                    "no template is called '{name}'; there are: {}",
                    Style::ALL.map(Style::name).join(" ")
                )
            })?;
            let text = render(&style, &config).map_err(|e| anyhow!("the template does not run: {e}"))?;
            format!("{text}\n--- written as {name}; give a model to see its own way")
        }
    };
    if args.quiet {
        return Ok(());
    }
    let mut out = std::io::stdout().lock();
    print(&mut out, &args.tools, &config, &seen).and_then(|()| out.flush()).context(report::CANNOT_WRITE)
}

fn print(out: &mut impl Write, path: &Path, config: &Config, seen: &str) -> std::io::Result<()> {
    writeln!(out, "{}: {} tools, all right", path.display(), config.tools.len())?;
    super::describe(config).try_for_each(|tool| writeln!(out, "  {tool}"))?;
    if let Some(mqtt) = &config.mqtt {
        let broker = &mqtt.broker;
        writeln!(out, "requests from {}:{}: {}", broker.host, broker.port, broker.subscribe.join(", "))?;
    }
    for interval in &config.intervals {
        writeln!(out, "every {:?}: {}", interval.every, interval.prompt)?;
    }
    writeln!(out, "--- what the model sees before each request")?;
    writeln!(out, "{seen}")
}

/// Stands where requests will be.
const REQUEST: &str = "(the request)";

fn render(template: &dyn Template, config: &Config) -> Result<String, katydid_core::chat::TemplateError> {
    let mut talk = Conversation(vec![Line::User(REQUEST.into())]);
    talk.set_system(&config.agent.system);
    let mut text = String::new();
    template.render(&config.specs(), &talk, &mut Plain(&mut text))?;
    Ok(text)
}

/// What the model in a file sees, and how many tokens that takes.
fn seen_by(model: &Path, args: &Args, config: &Config) -> Result<String> {
    let files = Files::open(model)?;
    let headers = files.parse()?;
    let name = || model.display().to_string();
    let parts = Parts::new(&headers).with_context(name)?;
    let sizes = Sizes::of(parts.meta()).with_context(name)?;
    let mut plan = MemoryPlan::new();
    Tables::lay_out(&mut plan, &sizes)?;
    let mut block = Block::new(usize::try_from(plan.total())? + ALIGN)?;
    let tables = Tables::lay_out(&mut Arena::new(block.bytes()), &sizes)?;
    let tokenizer = Tokenizer::build(parts.meta(), tables).with_context(name)?;
    let own = parts.meta().str("tokenizer.chat_template").ok().flatten();
    let template = ChatTemplate::choose(args.template.as_deref(), own, &tokenizer)?;
    let text = match (render(&template, config), template.explain()) {
        (Ok(text), _) => text,
        (Err(e), Some(why)) => bail!("{}: its template does not run: {e}: {why}", model.display()),
        (Err(e), None) => bail!("{}: its template does not run: {e}", model.display()),
    };
    if config.agent.calls == Calls::Required && template.syntax().grammar(1).is_none() {
        bail!("calls = \"required\" is not possible with {}, whose calls are no JSON", model.display());
    }
    let how = Encode { bos: Add::Never, eos: Add::Never, parse_special: true };
    let tokens = encode(&tokenizer, text.as_bytes(), how)?.len();
    Ok(format!("{text}\n--- {tokens} tokens with {}", model.display()))
}
