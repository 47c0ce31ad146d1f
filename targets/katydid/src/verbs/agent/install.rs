//! `katydid agent install`: a service for systemd.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, anyhow, bail};
use katydid_agent::config::Config;
use katydid_agent::unit::{Service, Unit};
use katydid_core::gguf::Parts;
use katydid_core::sample::Params;

use crate::loaded::{Files, plan, stacks};
use crate::model_args::ModelArgs;
use crate::report;

/// Where systemd looks for services of the machine's owner.
const FOLDER: &str = "/etc/systemd/system";

/// Bytes beside the plan and the mapped model: the program, threads that run
/// tools, and the programs that these start.
const BESIDE: u64 = 128 << 20;

#[derive(clap::Args)]
pub(crate) struct Args {
    /// The file of tools
    tools: PathBuf,
    #[command(flatten)]
    model: ModelArgs,
    /// What the service is called
    #[arg(long, default_value = "katydid-agent")]
    name: String,
    /// Print it, and install nothing
    #[arg(long)]
    print: bool,
    /// Where to write it [default: /etc/systemd/system/NAME.service]
    #[arg(short, long, value_name = "FILE", conflicts_with = "print")]
    output: Option<PathBuf>,
    /// Replace a service that is there
    #[arg(long)]
    force: bool,
    /// More options of `katydid agent`, such as -- -t 0.5
    #[arg(last = true)]
    more: Vec<String>,
}

pub(crate) fn run(args: &Args) -> Result<()> {
    let tools = absolute(&args.tools)?;
    let config = Config::load(&tools)?;
    if config.mqtt.as_ref().is_none_or(|m| m.broker.subscribe.is_empty()) && config.intervals.is_empty() {
        bail!(
            "{}: requests would come from nowhere: add subscribe to [mqtt], or an [[interval]]",
            tools.display()
        );
    }
    let unit = unit(args, &tools, &config)?;
    unit.warnings.iter().for_each(|w| report::say(format_args!("katydid: note: {w}")));
    if args.print {
        return report::result(unit.text.trim_end());
    }
    let place = Path::new(FOLDER).join(format!("{}.service", args.name));
    let out = args.output.as_ref().unwrap_or(&place);
    crate::output::check(out, &[&tools, &args.model.model], args.force)?;
    crate::files::replace(out, unit.text.as_bytes())?;
    report::say(format_args!("katydid: wrote {}. Next:", out.display()));
    let name = &args.name;
    if *out != place {
        report::say(format_args!("  sudo install -m 644 {} {}", out.display(), place.display()));
    }
    report::say(format_args!(
        "  sudo systemctl daemon-reload\n  sudo systemctl enable --now {name}\n  journalctl -fu {name}"
    ));
    Ok(())
}

fn absolute(path: &Path) -> Result<PathBuf> {
    path.canonicalize().with_context(|| path.display().to_string())
}

fn unit(args: &Args, tools: &Path, config: &Config) -> Result<Unit> {
    let files = Files::open(&args.model.model)?;
    let headers = files.parse()?;
    let name = args.model.model.display();
    let parts = Parts::new(&headers).map_err(|e| anyhow!("{name}: {e}"))?;
    let shape = katydid_core::model::Config::read(&parts).map_err(|e| anyhow!("{name}: {e}"))?;
    let needs = super::needs_of(config, &config.specs(), &Params::default(), 0)?;
    let drafts = needs.generate.map_or(0, |g| g.drafts);
    let options = args.model.options(shape.context, None, drafts);
    let planned = plan(&parts, &shape, &options, needs).with_context(|| name.to_string())?;
    let memory = [planned.total(), stacks(args.model.threads()), files.len(), BESIDE];
    let reads = files.files().iter().map(|(path, _)| absolute(path)).collect::<Result<Vec<_>>>()?;
    let service = Service {
        name: args.name.clone(),
        program: std::env::current_exe().context("where this program is")?,
        arguments: arguments(args, tools)?,
        reads,
        memory_max: memory.into_iter().fold(0, u64::saturating_add).next_multiple_of(1 << 20),
    };
    service.unit(config).map_err(|e| anyhow!(e))
}

fn arguments(args: &Args, tools: &Path) -> Result<Vec<String>> {
    let model = absolute(&args.model.model)?;
    let text = |path: &Path| {
        path.to_str().map(str::to_owned).ok_or_else(|| anyhow!("{}: the name is no UTF-8", path.display()))
    };
    let mut words = vec!["agent".into(), text(&model)?, "--tools".into(), text(tools)?, "--no-stdin".into()];
    let m = &args.model;
    let batch = Some(m.batch).filter(|&b| b != katydid_core::model::Options::BATCH);
    let numbers = [("-c", m.context), ("-j", m.threads), ("-b", batch)];
    for (flag, n) in numbers.into_iter().filter_map(|(flag, n)| Some((flag, n?))) {
        words.extend([flag.into(), n.to_string()]);
    }
    words.extend(m.ram.into_iter().flat_map(|n| ["--ram".into(), n.to_string()]));
    words.extend(args.more.iter().cloned());
    Ok(words)
}
