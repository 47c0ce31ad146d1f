//! Grammars and vocabularies over leaked memory.

use katydid_core::arena::{ALIGN, Arena};
use katydid_core::gguf::Gguf;
use katydid_core::grammar::{
    Constrained, Grammar, Limits, MaskMemory, Matcher, Memory, Options, SchemaError, Scratch, Stacks, Trie,
    TrieMemory, TrieSizes,
};
use katydid_core::plan::MemoryPlan;
use katydid_core::text::{Sizes, Tables, Tokenizer};
use katydid_tests::tiny::{Shape, Tiny};

/// The schemas of the data file.
pub(crate) fn schemas() -> Vec<String> {
    let all: Vec<serde_json::Value> = serde_json::from_str(include_str!("schemas.json")).unwrap();
    assert!(all.len() >= 200);
    all.iter().map(ToString::to_string).collect()
}

/// Just the memory that `lay_out` takes.
pub(crate) fn arena(lay_out: impl FnOnce(&mut MemoryPlan)) -> Arena<'static> {
    let mut plan = MemoryPlan::new();
    lay_out(&mut plan);
    Arena::new(vec![0xa5; plan.total() as usize + ALIGN].leak())
}

fn limits() -> Limits {
    Limits {
        values: 512,
        nodes: 256,
        members: 256,
        lists: 256,
        bytes: 4096,
        states: 6000,
        ..Limits::default()
    }
}

/// Compiles a schema into memory of its own.
pub(crate) fn compile(schema: &str, options: &Options<'_>) -> Result<Grammar<'static>, SchemaError> {
    compile_within(schema, options, &limits())
}

pub(crate) fn compile_within(
    schema: &str,
    options: &Options<'_>,
    limits: &Limits,
) -> Result<Grammar<'static>, SchemaError> {
    let memory = Memory::lay_out(&mut arena(|p| drop(Memory::lay_out(p, limits))), limits).unwrap();
    let mut plan = MemoryPlan::new();
    Scratch::lay_out(&mut plan, limits).map(drop).unwrap();
    let mut bytes = vec![0xa5; plan.total() as usize + ALIGN];
    let mut scratch = Scratch::lay_out(&mut Arena::new(&mut bytes), limits).unwrap();
    Grammar::compile(schema, options, memory, &mut scratch)
}

pub(crate) fn matcher(grammar: Grammar<'static>) -> Matcher<'static> {
    let limits = limits();
    let stacks = Stacks::lay_out(&mut arena(|p| drop(Stacks::lay_out(p, &limits))), &limits).unwrap();
    Matcher::new(grammar, stacks).unwrap()
}

/// A vocabulary of the shared test data.
pub(crate) fn vocab(name: &str) -> Option<Tokenizer<'static>> {
    let path = katydid_tests::shared(&format!("vocab/ggml-vocab-{name}.gguf"))?;
    Some(tokenizer(std::fs::read(path).unwrap()))
}

/// The vocabulary of a tiny model: bytes, letters and pairs of letters.
pub(crate) fn tiny_vocab() -> Tokenizer<'static> {
    tokenizer(Tiny::new(&Shape::SMALL).bytes())
}

pub(crate) fn tokenizer(file: Vec<u8>) -> Tokenizer<'static> {
    let file: &'static [u8] = file.leak();
    let gguf = Gguf::parse(file, file.len() as u64).unwrap();
    let sizes = Sizes::of(&gguf).unwrap();
    let tables = Tables::lay_out(&mut arena(|p| drop(Tables::lay_out(p, &sizes))), &sizes).unwrap();
    Tokenizer::build(&gguf, tables).unwrap()
}

pub(crate) fn trie(tokenizer: &Tokenizer<'_>) -> Trie<'static> {
    let sizes = TrieSizes::of(tokenizer);
    let memory = TrieMemory::lay_out(&mut arena(|p| drop(TrieMemory::lay_out(p, &sizes))), &sizes).unwrap();
    Trie::build(tokenizer, memory).unwrap()
}

pub(crate) fn constrained(
    grammar: Grammar<'static>,
    t: Tokenizer<'static>,
    trie: Trie<'static>,
) -> Constrained<'static> {
    let lay_out = |p: &mut MemoryPlan| drop(MaskMemory::lay_out(p, t.vocab_len(), 8));
    let masks = MaskMemory::lay_out(&mut arena(lay_out), t.vocab_len(), 8).unwrap();
    Constrained::new(matcher(grammar), trie, t, masks)
}
