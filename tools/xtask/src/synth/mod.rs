//! `cargo xtask synth`: model files with random weights in the real layout.
//!
//! Blocks are written as they will be read, not quantised from anything, so
//! that a file takes seconds. Such a model talks nonsense at the speed and in
//! the memory of a real one, which is what benchmarks and plans ask about.

mod blocks;
mod shape;
mod vocab;

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::PathBuf;
use std::time::Instant;

use anyhow::{Context, Result};
use katydid_core::gguf::Value;
use katydid_core::gguf::emit::{Emit, EmitError};

use blocks::Blocks;
use shape::{Mix, Shape, Tensor};

#[derive(clap::Args)]
pub(crate) struct Args {
    /// The file to write
    out: PathBuf,
    /// What the model looks like
    #[arg(long, default_value = "1b", value_parser = Shape::parse)]
    shape: &'static Shape,
    /// How its weights are stored
    #[arg(long, default_value = "q4_k_m", value_parser = Mix::parse)]
    format: &'static Mix,
    /// The same seed gives the same file
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

pub(crate) fn main(args: &Args) -> Result<()> {
    let start = Instant::now();
    // A file that was not finished must not look like one that was.
    let mut partial = args.out.clone().into_os_string();
    partial.push(".partial");
    let partial = PathBuf::from(partial);
    let file = File::create(&partial).with_context(|| format!("{}", partial.display()))?;
    let mut file = BufWriter::with_capacity(1 << 20, file);
    write(args.shape, args.format, args.seed, |bytes| file.write_all(bytes))?;
    let file = file.into_inner().map_err(io::IntoInnerError::into_error)?;
    let len = file.metadata()?.len();
    std::fs::rename(&partial, &args.out).with_context(|| format!("{}", args.out.display()))?;
    println!("{}  {len} bytes, {:.1} s", args.out.display(), start.elapsed().as_secs_f64());
    Ok(())
}

/// Writes a whole file into `sink`.
fn write<E>(
    shape: &Shape,
    mix: &Mix,
    seed: u64,
    sink: impl FnMut(&[u8]) -> Result<(), E>,
) -> Result<(), EmitError<E>> {
    let tensors = shape.tensors(mix);
    let single = metadata(shape, mix);
    let mut out = Emit::new(sink, 3, single.len() as u64 + VOCABULARY_KEYS, tensors.len() as u64)?;
    for (key, value) in &single {
        out.put(key, *value)?;
    }
    vocabulary(&mut out, shape.vocab as usize)?;
    let mut slots = Vec::with_capacity(tensors.len());
    for t in &tensors {
        slots.push(out.tensor(&t.name, &t.dims, t.format)?);
    }
    let mut piece = Vec::new();
    for ((i, t), slot) in tensors.iter().enumerate().zip(slots) {
        out.begin(slot)?;
        let mut blocks = Blocks::new(seed, i as u64);
        // In pieces of a few thousand blocks: memory stays small.
        let total = slot.size / t.format.block_bytes() as u64;
        let mut left = total;
        while left > 0 {
            let n = left.min(4096);
            piece.clear();
            fill(&mut blocks, t, n as usize, &mut piece);
            out.write(&piece)?;
            left -= n;
        }
    }
    out.finish()
}

fn fill(blocks: &mut Blocks, tensor: &Tensor, count: usize, out: &mut Vec<u8>) {
    if tensor.is_norm { blocks.near_one(count, out) } else { blocks.weights(tensor.format, count, out) }
}

/// The keys with one value each, as a converter writes them.
fn metadata(shape: &Shape, mix: &Mix) -> Vec<(&'static str, Value<'static>)> {
    vec![
        ("general.architecture", Value::Str("llama")),
        ("general.type", Value::Str("model")),
        ("general.name", Value::Str("synthetic (random weights)")),
        ("general.size_label", Value::Str(shape.name)),
        ("general.file_type", Value::U32(mix.file_type)),
        ("general.quantization_version", Value::U32(2)),
        ("llama.block_count", Value::U32(shape.layers)),
        ("llama.context_length", Value::U32(shape.context)),
        ("llama.embedding_length", Value::U32(shape.width)),
        ("llama.feed_forward_length", Value::U32(shape.ffn)),
        ("llama.attention.head_count", Value::U32(shape.heads)),
        ("llama.attention.head_count_kv", Value::U32(shape.kv_heads)),
        ("llama.attention.layer_norm_rms_epsilon", Value::F32(1e-5)),
        ("llama.rope.dimension_count", Value::U32(shape.width / shape.heads)),
        ("llama.rope.freq_base", Value::F32(shape.rope_base)),
        ("llama.vocab_size", Value::U32(shape.vocab)),
        ("tokenizer.ggml.model", Value::Str("llama")),
        ("tokenizer.ggml.pre", Value::Str("default")),
        ("tokenizer.ggml.bos_token_id", Value::U32(vocab::BOS)),
        ("tokenizer.ggml.eos_token_id", Value::U32(vocab::EOS)),
        ("tokenizer.ggml.unknown_token_id", Value::U32(vocab::UNKNOWN)),
        ("tokenizer.ggml.add_bos_token", Value::Bool(true)),
        ("tokenizer.ggml.add_eos_token", Value::Bool(false)),
        ("tokenizer.ggml.add_space_prefix", Value::Bool(true)),
    ]
}

/// How many keys [`vocabulary`] writes.
const VOCABULARY_KEYS: u64 = 3;

fn vocabulary<E, W: FnMut(&[u8]) -> Result<(), E>>(
    out: &mut Emit<W>,
    len: usize,
) -> Result<(), EmitError<E>> {
    let pieces = vocab::pieces(len);
    out.strings("tokenizer.ggml.tokens", pieces.iter().map(|p| p.text.as_str()))?;
    out.f32s("tokenizer.ggml.scores", pieces.iter().map(|p| p.score))?;
    out.i32s("tokenizer.ggml.token_type", pieces.iter().map(|p| p.kind as i32))
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use katydid_core::gguf::Gguf;

    use super::*;

    fn file(shape: &str, mix: &str, seed: u64) -> Vec<u8> {
        let mut file = Vec::new();
        let (shape, mix) = (Shape::parse(shape).unwrap(), Mix::parse(mix).unwrap());
        let sink = |bytes: &[u8]| -> Result<(), Infallible> {
            file.extend_from_slice(bytes);
            Ok(())
        };
        write(shape, mix, seed, sink).unwrap();
        file
    }

    #[test]
    fn every_format_makes_a_file_the_reader_proves() {
        for mix in shape::MIXES {
            let bytes = file("tiny", mix.name, 1);
            let gguf = Gguf::parse(&bytes, bytes.len() as u64).unwrap();
            assert_eq!(gguf.tensor("blk.1.ffn_gate.weight").unwrap().format, mix.base, "{}", mix.name);
        }
    }

    #[test]
    fn the_seed_decides_every_byte() {
        assert_eq!(file("tiny", "q4_k_m", 7), file("tiny", "q4_k_m", 7));
        assert_ne!(file("tiny", "q4_k_m", 7), file("tiny", "q4_k_m", 8));
    }
}
