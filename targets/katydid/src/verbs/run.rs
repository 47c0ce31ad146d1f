//! `katydid run`: continue a prompt.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, anyhow, bail};
use katydid_core::chat::Template;
use katydid_core::generate::MOST_DRAFTS;
use katydid_core::grammar::Options;
use katydid_core::sample::Params;

use crate::answer::{Job, Prompt, prompt_or_stdin};
use crate::conversation::{Conversation, Line, Tools};
use crate::grammar::{JSON, compile};
use crate::loaded::{Wanted, with_model};
use crate::model_args::ModelArgs;
use crate::talk::{End, How, Piece, Talk, grammar, needs};
use crate::units::number;
use crate::{interrupt, report};
use serde_json::{Value, json};

#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    model: ModelArgs,
    /// What to continue [default: all of stdin, less a last line end]
    #[arg(short, long, allow_hyphen_values = true)]
    prompt: Option<String>,
    /// Most tokens to generate
    #[arg(short = 'n', long = "tokens", value_name = "N", default_value_t = 256)]
    n: usize,
    /// Do not end where the model wants to
    #[arg(long)]
    ignore_eos: bool,
    /// Read texts like <|im_end|> in the prompt as control tokens
    #[arg(long)]
    special: bool,
    /// Do not guess repeated text ahead; the result is the same either way
    #[arg(long)]
    no_speculate: bool,
    /// Answer with JSON that keeps to the JSON Schema in FILE
    #[arg(long, value_name = "FILE")]
    schema: Option<PathBuf>,
    /// Answer with JSON: an object or a list
    #[arg(long, conflicts_with = "schema")]
    json: bool,
    /// Keep the prompt's state in FILE, so that it need not be worked out again
    #[arg(long, value_name = "FILE")]
    cache: Option<PathBuf>,
    /// Ask as in a conversation, with tools that the model may call: a JSON list in
    /// the shape of OpenAI's API. Prints the answer, or one line of JSON with calls
    #[arg(long, value_name = "FILE", conflicts_with_all = ["schema", "json", "cache"])]
    tools: Option<PathBuf>,
    /// With --tools: how the conversation is written, such as chatml [default: the
    /// model's own way]
    #[arg(long, value_name = "NAME", requires = "tools")]
    template: Option<String>,
    /// No statistics, no progress
    #[arg(short, long)]
    quiet: bool,
    #[command(flatten)]
    sampling: Sampling,
}

#[derive(clap::Args)]
#[command(next_help_heading = "Sampling")]
pub(crate) struct Sampling {
    /// 0 is greedy; higher is wilder
    #[arg(short, long, value_name = "T", default_value_t = 0.8, allow_negative_numbers = true, value_parser = number(0.0, 100.0))]
    temperature: f32,
    /// Only the K likeliest tokens; 0 for all
    #[arg(long, value_name = "K", default_value_t = 40)]
    top_k: usize,
    /// Only the likeliest tokens that together have this probability
    #[arg(short = 'k', long, value_name = "P", default_value_t = 0.95, allow_negative_numbers = true, value_parser = number(0.0, 1.0))]
    top_p: f32,
    /// Only tokens with this share of the likeliest's probability
    #[arg(long, value_name = "P", default_value_t = 0.05, allow_negative_numbers = true, value_parser = number(0.0, 1.0))]
    min_p: f32,
    /// Discourages recent tokens; 1 is off
    #[arg(long, value_name = "X", default_value_t = 1.0, allow_negative_numbers = true, value_parser = number(0.01, 100.0))]
    repeat_penalty: f32,
    /// How many tokens are recent
    #[arg(long, value_name = "N", default_value_t = 64)]
    repeat_last_n: usize,
    /// Discourages tokens by how often they came
    #[arg(long, value_name = "X", default_value_t = 0.0, allow_negative_numbers = true, value_parser = number(-100.0, 100.0))]
    frequency_penalty: f32,
    /// Discourages tokens that came at all
    #[arg(long, value_name = "X", default_value_t = 0.0, allow_negative_numbers = true, value_parser = number(-100.0, 100.0))]
    presence_penalty: f32,
    /// Adds to a token's logit; ID=-inf bans it. May be repeated
    #[arg(long, value_name = "ID=X", value_parser = parse_bias)]
    pub(crate) logit_bias: Vec<(u32, f32)>,
    /// Start of the random numbers: one seed, one text
    #[arg(short, long, value_name = "N", default_value_t = 0)]
    seed: u64,
}

impl Sampling {
    pub(crate) fn params(&self) -> Params {
        Params {
            temperature: self.temperature,
            top_k: self.top_k,
            top_p: self.top_p,
            min_p: self.min_p,
            repeat_penalty: self.repeat_penalty,
            repeat_last_n: self.repeat_last_n,
            frequency_penalty: self.frequency_penalty,
            presence_penalty: self.presence_penalty,
            seed: self.seed,
        }
    }
}

fn parse_bias(text: &str) -> Result<(u32, f32), String> {
    let parse = || {
        let (id, bias) = text.split_once('=')?;
        Some((id.trim().parse().ok()?, bias.trim().parse().ok()?))
    };
    // Infinity and what is no number would spoil all other tokens' chances.
    let sound = |&(_, bias): &(u32, f32)| bias < f32::INFINITY;
    parse().filter(sound).ok_or_else(|| "allowed: like 13=-2.5, or 13=-inf to ban token 13".to_owned())
}

pub(crate) fn run(args: &Args) -> Result<()> {
    let params = args.sampling.params();
    params.check()?;
    if let Some(tools) = &args.tools {
        return call(args, &params, &Tools::load(tools)?);
    }
    let schema = match &args.schema {
        Some(path) => Some(read_schema(path)?),
        None => args.json.then(|| JSON.to_owned()),
    };
    let mut heap = Vec::new();
    let of = args.schema.as_ref().map_or(String::new(), |path| path.display().to_string());
    let grammar = schema.map(|s| compile(&s, &Options::default(), &mut heap).context(of)).transpose()?;
    let prompt = prompt_or_stdin(args.prompt.as_deref())?;
    Job {
        model: &args.model,
        prompt: Prompt { text: &prompt, special: args.special },
        n: args.n,
        ignore_eos: args.ignore_eos,
        drafts: if args.no_speculate { 0 } else { MOST_DRAFTS },
        params: &params,
        bias: &args.sampling.logit_bias,
        grammar,
        stops: &[],
        roomy: false,
        cache: args.cache.as_deref(),
        quiet: args.quiet,
    }
    .run()
}

/// Far more than any schema, far less than would hurt.
const MOST_SCHEMA: u64 = 16 << 20;

fn read_schema(path: &Path) -> Result<String> {
    crate::files::text(path, MOST_SCHEMA, "a JSON Schema")
}

/// Answers a question with the calls it takes, or in words.
fn call(args: &Args, params: &Params, tools: &Tools) -> Result<()> {
    let talk = Conversation(vec![Line::User(prompt_or_stdin(args.prompt.as_deref())?)]);
    let bias = &args.sampling.logit_bias;
    interrupt::catch();
    let specs = tools.specs();
    with_model(&args.model, Wanted::Usual, needs(params, bias.len(), &specs, 0)?, |model| {
        let pool = args.model.pool()?;
        let mut talker = Talk::new(model, args.template.as_deref(), params, bias, &pool)?;
        let mut heap = Vec::new();
        let grammar = grammar(talker.template.syntax(), &specs, false, &mut heap)?;
        let how = How {
            grammar: grammar.as_ref(),
            call_first: false,
            no_calls: false,
            close: true,
            n: args.n,
            quiet: args.quiet,
        };
        let answer = talker.answer(&talk, &specs, &how, &mut |_| Ok(()))?;
        let context = talker.session.engine().context();
        let answer = answer.ok_or_else(|| {
            anyhow!(
                "prompt and tools leave no room in a context window of {context}: shorten them or raise -c"
            )
        })?;
        let (mut said, mut calls) = (Vec::new(), Vec::new());
        for piece in talker.pieces(&answer.text) {
            match piece {
                Piece::Text(text) => said.push(text),
                Piece::Call { name, arguments } => calls.push(call_of(&name, &arguments)?),
                Piece::Broken(why) => bail!("the model called a tool, but {why}: {}", answer.text.trim()),
            }
        }
        match calls.is_empty() {
            true => report::result(said.join("\n"))?,
            false => report::result(Value::Array(calls))?,
        }
        match answer.end {
            End::Interrupted => return Err(interrupt::Interrupted.into()),
            End::Length | End::Full if !args.quiet => {
                report::say("katydid: the answer was cut; raise -n or -c to go on");
            }
            _ => {}
        }
        Ok(())
    })
}

fn call_of(name: &str, arguments: &str) -> Result<Value> {
    let arguments: Value = serde_json::from_str(arguments).context("the arguments of a call are no JSON")?;
    Ok(json!({"name": name, "arguments": arguments}))
}
