//! `katydid tokenize`: text to ids and back.

use std::io::{Read, Write};
use std::path::PathBuf;

use anyhow::{Context, Result};
use katydid_core::arena::{ALIGN, Arena};
use katydid_core::gguf::Parts;
use katydid_core::plan::MemoryPlan;
use katydid_core::text::{Add, Detokenizer, Encode, Sizes, Tables, Tokenizer};
use katydid_linux::Block;

use super::{encode, line_of, parse_ids};
use crate::loaded::Files;
use crate::report;

#[derive(clap::Args)]
pub(crate) struct Args {
    /// GGUF file with a vocabulary; weights are not needed
    model: PathBuf,
    /// Text [default: all of stdin, byte for byte]
    #[arg(short, long)]
    prompt: Option<String>,
    /// Print ids alone, on one line
    #[arg(long, conflicts_with = "json")]
    ids: bool,
    /// Print a JSON array of {"id", "text"}
    #[arg(long)]
    json: bool,
    /// Begin (and end) as the model was trained, with BOS and EOS
    #[arg(long)]
    bos: bool,
    /// Read texts like <|im_end|> as the control tokens they name
    #[arg(long)]
    special: bool,
    /// The other way: read ids, print their text
    #[arg(long, conflicts_with_all = ["ids", "json", "bos"])]
    decode: bool,
}

pub(crate) fn run(args: &Args) -> Result<()> {
    let files = Files::open(&args.model)?;
    let headers = files.parse()?;
    let name = || args.model.display().to_string();
    let parts = Parts::new(&headers).with_context(name)?;
    let sizes = Sizes::of(parts.meta()).with_context(name)?;
    let mut plan = MemoryPlan::new();
    Tables::lay_out(&mut plan, &sizes)?;
    let mut block = Block::new(usize::try_from(plan.total())? + ALIGN)?;
    let mut arena = Arena::new(block.bytes());
    let tables = Tables::lay_out(&mut arena, &sizes)?;
    let tokenizer = Tokenizer::build(parts.meta(), tables).with_context(name)?;
    let text = input(args)?;
    if args.decode {
        return decode(args, &tokenizer, &text);
    }
    let add = if args.bos { Add::Auto } else { Add::Never };
    let ids = encode(&tokenizer, &text, Encode { bos: add, eos: add, parse_special: args.special })?;
    print(args, &tokenizer, &ids)
}

fn input(args: &Args) -> Result<Vec<u8>> {
    if let Some(text) = &args.prompt {
        return Ok(text.clone().into_bytes());
    }
    let mut text = Vec::new();
    std::io::stdin().lock().read_to_end(&mut text).context("cannot read stdin")?;
    Ok(text)
}

fn print(args: &Args, tokenizer: &Tokenizer<'_>, ids: &[u32]) -> Result<()> {
    if args.ids {
        return report::result(line_of(ids));
    }
    if args.json {
        let list: Vec<_> = ids
            .iter()
            .map(|&id| serde_json::json!({"id": id, "text": tokenizer.token_text(id).unwrap_or("")}))
            .collect();
        return report::result(serde_json::Value::from(list));
    }
    let mut out = std::io::stdout().lock();
    let mut each = ids.iter().map(|&id| (id, tokenizer.token_text(id).unwrap_or("")));
    each.try_for_each(|(id, text)| writeln!(out, "{id:>7}  {text:?}"))
        .and_then(|()| out.flush())
        .context(report::CANNOT_WRITE)
}

fn decode(args: &Args, tokenizer: &Tokenizer<'_>, text: &[u8]) -> Result<()> {
    let ids = parse_ids(&String::from_utf8_lossy(text))?;
    let n = tokenizer.vocab_len();
    if let Some(id) = ids.iter().find(|&&id| id as usize >= n) {
        anyhow::bail!("token {id} is not in the vocabulary of {n}");
    }
    let mut words = String::new();
    let mut detokenizer = Detokenizer::new(args.special);
    for &id in &ids {
        detokenizer.push(tokenizer, id, &mut words)?;
    }
    detokenizer.flush(&mut words)?;
    let mut out = std::io::stdout().lock();
    out.write_all(words.as_bytes()).and_then(|()| out.flush()).context(report::CANNOT_WRITE)
}
