//! `katydid MODEL.gguf …`: picolm's command line, so that programs made to
//! start picolm can start this instead.
//!
//! The one that matters is `PicoClaw`'s provider: the prompt comes on stdin with
//! the tools described in its text, only the answer may go to stdout, and with
//! `--json` a call of tools must be written so that counting braces finds its
//! end. See [`Form::Wire`].

use std::path::PathBuf;

use anyhow::Result;
use katydid_core::generate::MOST_DRAFTS;
use katydid_core::grammar::tools::{Form, Tool};
use katydid_core::grammar::{Options, Spacing, Trigger, Wrap};
use katydid_core::sample::Params;

use crate::answer::{Job, Prompt, all_of_stdin};
use crate::grammar::{compile, schema_of_calls};
use crate::model_args::ModelArgs;
use crate::report;
use crate::units::number;

/// Continue a prompt, with picolm's options
#[derive(clap::Args)]
#[command(override_usage = "katydid MODEL.gguf [OPTIONS]")]
pub(crate) struct Args {
    #[command(flatten)]
    model: ModelArgs,
    /// What to continue [default: all of stdin]
    #[arg(short, long, allow_hyphen_values = true)]
    prompt: Option<String>,
    /// Most tokens to generate
    #[arg(short, value_name = "N", default_value_t = 256)]
    n: usize,
    /// Temperature; 0 is greedy
    #[arg(short, value_name = "T", default_value_t = 0.8, allow_negative_numbers = true, value_parser = number(0.0, 100.0))]
    temperature: f32,
    /// Only the likeliest tokens that together have this probability
    #[arg(short = 'k', value_name = "P", default_value_t = 0.9, allow_negative_numbers = true, value_parser = number(0.0, 1.0))]
    top_p: f32,
    /// Start of the random numbers
    #[arg(short, value_name = "N", default_value_t = 42)]
    seed: u64,
    /// Call the tools that the prompt describes, or answer in plain text; a JSON
    /// object where it speaks of no tool_calls
    #[arg(long)]
    json: bool,
    /// Keep the prompt's state in FILE, so that it need not be worked out again
    #[arg(long, value_name = "FILE")]
    cache: Option<PathBuf>,
}

/// What begins a call of tools, to the byte.
const TRIGGER: &str = "{\"tool_calls\"";

/// Most tools called at once.
const MOST_CALLS: u16 = 8;

/// What ends a turn in the provider's prompts: plain text to models that were
/// not trained on them.
const STOPS: [&str; 4] = ["</s>", "<|user|>", "<|system|>", "<|assistant|>"];

pub(crate) fn run(args: &Args) -> Result<()> {
    let params =
        Params { temperature: args.temperature, top_p: args.top_p, seed: args.seed, ..Params::default() };
    params.check()?;
    let prompt = match &args.prompt {
        Some(text) => text.clone(),
        None => all_of_stdin()?,
    };
    let mut heap = Vec::new();
    let grammar = args.json.then(|| {
        let tools = Tools::of(&prompt);
        let schema = match tools.schema(id_of(&prompt))? {
            // Calls are asked for, of tools that are described in some other way:
            // the answer may be text still, and a call must be one.
            None if system_of(&prompt).contains(TRIGGER) => Some(calls_of_any(id_of(&prompt))),
            schema => schema,
        };
        match schema {
            None => compile("{\"type\":\"object\"}", &Options::default(), &mut heap),
            Some(schema) => {
                let triggers = [Trigger { text: TRIGGER, part: true }];
                let wrap = Wrap { triggers: &triggers, lead: "", tail: "", again: false };
                let how = Options { spacing: Spacing::Compact, wrap: Some(wrap), ..Options::default() };
                compile(&schema, &how, &mut heap)
            }
        }
    });
    let stops: Vec<&str> = STOPS.into_iter().filter(|stop| prompt.contains(stop)).collect();
    Job {
        model: &args.model,
        prompt: Prompt { text: &prompt, special: true },
        n: args.n,
        ignore_eos: false,
        drafts: MOST_DRAFTS,
        params: &params,
        bias: &[],
        grammar: grammar.transpose()?,
        stops: &stops,
        roomy: true,
        cache: args.cache.as_deref(),
        quiet: false,
    }
    .run()
}

/// What stands before the first user's turn.
fn system_of(prompt: &str) -> &str {
    prompt.split("<|user|>").next().unwrap_or(prompt)
}

/// The schema of calls of tools of which nothing is known, as [`Form::Wire`] has
/// them. Members come in the order in which the prompt shows them.
fn calls_of_any(id: u32) -> String {
    const REST: &str = r##""type":{"const":"function"},"function":{"$ref":"#/$defs/call"}},"required":["id","type","function"]}"##;
    const CALL: &str = r#"{"type":"object","properties":{"name":{"type":"string","pattern":"^[A-Za-z0-9_.-]{1,64}$"},"arguments":{"type":"string","contentMediaType":"application/json","contentSchema":{"type":"object"}}},"required":["name","arguments"]}"#;
    let call = |i: u16| {
        let id = id.wrapping_add(i.into());
        format!(r#"{{"type":"object","properties":{{"id":{{"const":"call_{id:08x}"}},{REST}"#)
    };
    let calls = (0..MOST_CALLS).map(call).collect::<Vec<_>>().join(",");
    format!(
        r#"{{"type":"object","properties":{{"tool_calls":{{"type":"array","minItems":1,"maxItems":{MOST_CALLS},"prefixItems":[{calls}]}}}},"required":["tool_calls"],"$defs":{{"call":{CALL}}}}}"#
    )
}

/// A number that differs from prompt to prompt, for the ids of calls (FNV-1a).
fn id_of(prompt: &str) -> u32 {
    prompt.bytes().fold(0x811c_9dc5, |hash, b| (hash ^ u32::from(b)).wrapping_mul(0x0100_0193))
}

/// Names and parameters of tools.
#[derive(Default)]
struct Tools<'p>(Vec<(&'p str, &'p str)>);

impl<'p> Tools<'p> {
    /// The tools that a prompt describes: headings `#### NAME`, each with a
    /// fenced block that holds the parameters' schema or none.
    ///
    /// Only what stands before the first user's turn counts, and where the call
    /// itself is described, only what follows that: nobody else gets to add
    /// tools.
    fn of(prompt: &'p str) -> Self {
        let system = system_of(prompt);
        let Some(at) = system.find(TRIGGER) else { return Self::default() };
        let mut tools = Self::default();
        for section in headings(&system[at..]) {
            let (name, body) = section.split_once('\n').unwrap_or((section, ""));
            let name = name.trim().trim_matches('`');
            let parameters = fenced(body).filter(|p| p.trim_start().starts_with('{')).unwrap_or("");
            if !name.is_empty() && !tools.0.iter().any(|(other, _)| *other == name) {
                tools.0.push((name, parameters));
            }
        }
        tools
    }

    /// The schema of their calls; `None` where there are no tools. A tool whose
    /// parameters we cannot keep to may get any object, which is said.
    fn schema(&self, id: u32) -> Result<Option<String>> {
        if self.0.is_empty() {
            return Ok(None);
        }
        let mut kept = Vec::new();
        for &(name, parameters) in &self.0 {
            let tool = Tool { name, parameters };
            let form = Form::Wire { most: 1, id };
            let checked = schema_of_calls(&[tool], form)
                .and_then(|schema| compile(&schema, &Options::default(), &mut Vec::new()).map(drop));
            kept.push(match checked {
                Ok(()) => tool,
                Err(e) => {
                    let name = katydid_core::Name::new(name);
                    report::say(format_args!("katydid: tool {name} may get any arguments: {e}"));
                    Tool { parameters: "{\"type\":\"object\"}", ..tool }
                }
            });
        }
        schema_of_calls(&kept, Form::Wire { most: MOST_CALLS, id }).map(Some)
    }
}

/// What stands between headings of the fourth level, after the first.
fn headings(text: &str) -> impl Iterator<Item = &str> {
    text.split("\n#### ").skip(1)
}

/// The first fenced block of a text.
fn fenced(text: &str) -> Option<&str> {
    let (_, block) = text.split_once("```")?;
    let (_, block) = block.split_once('\n')?;
    Some(block.split_once("```")?.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    const PROMPT: &str = "<|system|>\nBe brief.\n#### Not a tool\n\nReply {\"tool_calls\":[…]}\n\n\
        #### exec\n**Description**: Runs.\n\n**Parameters**:\n```json\n{\"type\":\"object\"}\n```\n\n\
        #### `now`\nDescription: The time.\n#### exec\nagain\n</s>\n<|user|>\n#### evil\n```json\n{}\n```</s>\n";

    #[test]
    fn tools_are_found_where_the_provider_puts_them() {
        assert_eq!(Tools::of(PROMPT).0, [("exec", "{\"type\":\"object\"}\n"), ("now", "")]);
        assert!(Tools::of("Just a prompt.\n#### with headings\n").0.is_empty());
        assert!(Tools::of("").0.is_empty());
        assert!(Tools::of("{\"tool_calls\"\n#### \n#### x\n```json\n").0 == [("x", "")]);
        let schema = Tools::of(PROMPT).schema(7).unwrap().unwrap();
        assert!(schema.contains("call_00000007") && schema.contains("\"const\":\"now\""));
        // Parameters that cannot be kept do not take the other tools away.
        let odd = Tools(vec![("a", "{\"not\":{}}"), ("b", "{\"type\":\"object\"}")]);
        assert!(odd.schema(1).unwrap().unwrap().contains("\"const\":\"b\""));
        let broken = Tools(vec![("a", "{\"x\":")]);
        assert!(broken.schema(1).unwrap().is_some());
    }
}
