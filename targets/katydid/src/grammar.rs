//! Schemas of answers: compiled before a model is loaded, so that the plan has
//! exactly what they take.

use anyhow::{Result, anyhow};
use katydid_core::arena::{ALIGN, Arena, ArenaFull, Space};
use katydid_core::grammar::tools::{self, Form, Tool, ToolsError};
use katydid_core::grammar::{
    Constrained, Grammar, Limits, MaskMemory, Matcher, Memory, Options, SchemaError, Scratch, Stacks, Trie,
    TrieMemory, TrieSizes, Why,
};
use katydid_core::plan::{MemoryPlan, Part};
use katydid_core::sample::Constraint;
use katydid_core::text::{Sizes, Tokenizer, scratch_len};

/// What any JSON answer keeps to.
pub(crate) const JSON: &str = r#"{"type":["object","array"]}"#;

/// Masks kept: for states that alternate, as within a string and at its end.
const MASKS: usize = 8;

/// How often the limits are raised, four times each, before a schema is too
/// large.
const RAISES: u32 = 3;

/// A measured block of zeros.
fn block(lay_out: impl Fn(&mut MemoryPlan) -> Result<(), ArenaFull>) -> Result<Vec<u8>> {
    let mut plan = MemoryPlan::new();
    lay_out(&mut plan)?;
    let size = usize::try_from(plan.total())?.saturating_add(ALIGN);
    let mut block = Vec::new();
    block.try_reserve_exact(size).map_err(|_| anyhow!("no memory to compile the schema"))?;
    block.resize(size, 0);
    Ok(block)
}

/// Compiles `schema`, with as much memory as it takes, into `heap`.
pub(crate) fn compile<'h>(schema: &str, options: &Options<'_>, heap: &'h mut Vec<u8>) -> Result<Grammar<'h>> {
    let mut raise = 0;
    loop {
        let limits = limits(raise);
        let mut room = block(|space| lay_out(space, &limits).map(drop))?;
        let (memory, mut scratch) = lay_out(&mut Arena::new(&mut room), &limits)?;
        match Grammar::compile(schema, options, memory, &mut scratch) {
            Err(SchemaError { why: Why::Limit { .. }, .. }) if raise < RAISES => raise += 1,
            Err(e) => return Err(e.into()),
            Ok(grammar) => {
                *heap = block(|space| grammar.copy_to(space).map(drop))?;
                return Ok(grammar.copy_to(&mut Arena::new(heap))?);
            }
        }
    }
}

fn lay_out<'a, S: Space<'a>>(space: &mut S, limits: &Limits) -> Result<(Memory<'a>, Scratch<'a>), ArenaFull> {
    Ok((Memory::lay_out(space, limits)?, Scratch::lay_out(space, limits)?))
}

/// What a schema may take. How deep and wide its texts may be stays the same.
fn limits(raise: u32) -> Limits {
    let d = Limits::default();
    let most = |n: usize| n << (2 * raise);
    Limits {
        values: most(d.values),
        nodes: most(d.nodes).min(65_000),
        members: most(d.members),
        lists: most(d.lists),
        bytes: most(d.bytes),
        states: most(d.states).min(65_000),
        ..d
    }
}

/// Bytes that the tables of `grammar` take.
pub(crate) fn size(grammar: &Grammar<'_>) -> Result<usize> {
    let mut plan = MemoryPlan::new();
    grammar.copy_to(&mut plan)?;
    Ok(usize::try_from(plan.total())?)
}

/// What a constraint takes beside its grammar's tables.
fn beside<'a, S: Space<'a>>(space: &mut S, vocab: usize) -> Result<(Stacks<'a>, MaskMemory<'a>), ArenaFull> {
    Ok((Stacks::lay_out(space, &Limits::default())?, MaskMemory::lay_out(space, vocab, MASKS)?))
}

/// The schema of calls, however long.
pub(crate) fn schema_of_calls(tools: &[Tool<'_>], form: Form<'_>) -> Result<String> {
    let mut room = vec![0; 4096];
    loop {
        let have = room.len();
        match tools::schema(tools, form, &mut room) {
            Ok(schema) => return Ok(schema.to_owned()),
            Err(ToolsError::Room { need, .. }) if need > have => room = vec![0; need],
            Err(e) => return Err(e.into()),
        }
    }
}

/// Planned memory for constraints, one at a time.
pub(crate) struct Room<'a> {
    trie: TrieMemory<'a>,
    block: &'a mut [u8],
    vocab: usize,
    tables: usize,
}

impl<'a> Room<'a> {
    /// Takes what answers within a grammar need whose tables take `tables` bytes.
    pub(crate) fn lay_out<S: Space<'a>>(
        space: &mut S,
        tables: usize,
        sizes: &Sizes,
        vocab: usize,
    ) -> Result<Self, ArenaFull> {
        let mut plan = MemoryPlan::new();
        beside(&mut plan, vocab)?;
        let size = usize::try_from(plan.total()).unwrap_or(usize::MAX).saturating_add(tables);
        Ok(Self {
            trie: TrieMemory::lay_out(space, &TrieSizes::at_most(sizes))?,
            block: space.take(Part::Grammar, "grammar, stacks, masks", size)?,
            vocab,
            tables,
        })
    }

    /// The vocabulary in order; sorts it.
    pub(crate) fn sort(self, tokenizer: Tokenizer<'a>) -> Result<Constraints<'a>> {
        let trie = Trie::build(&tokenizer, self.trie).ok_or_else(|| anyhow!("no room for the trie"))?;
        Ok(Constraints { tokenizer, trie, block: self.block, vocab: self.vocab, tables: self.tables })
    }
}

/// Makes constraints.
pub(crate) struct Constraints<'a> {
    tokenizer: Tokenizer<'a>,
    trie: Trie<'a>,
    block: &'a mut [u8],
    vocab: usize,
    tables: usize,
}

impl Constraints<'_> {
    /// Bytes planned for a grammar's tables.
    pub(crate) fn tables(&self) -> usize {
        self.tables
    }

    /// A text that is to keep to `grammar`; errs where that is larger than
    /// planned.
    pub(crate) fn of(&mut self, grammar: &Grammar<'_>) -> Result<Constrained<'_>> {
        let mut arena = Arena::new(self.block);
        let (stacks, masks) = beside(&mut arena, self.vocab)?;
        let grammar = grammar.copy_to(&mut arena)?;
        let matcher = Matcher::new(grammar, stacks).ok_or_else(|| anyhow!("no room for the grammar"))?;
        Ok(Constrained::new(matcher, self.trie, self.tokenizer, masks))
    }
}

/// A text that begins with given tokens and then keeps to a grammar, which is
/// told of them.
pub(crate) struct Begun<'c, 'a> {
    /// What is still to come of them, the next one last.
    pub(crate) first: &'c mut Vec<u32>,
    pub(crate) rest: &'c mut Constrained<'a>,
}

impl Constraint for Begun<'_, '_> {
    fn allows(&mut self, id: u32) -> bool {
        self.first.last().map_or_else(|| self.rest.allows(id), |&first| id == first)
    }

    fn forbid(&mut self, logits: &mut [f32]) {
        let Some(&first) = self.first.last() else { return self.rest.forbid(logits) };
        for (id, logit) in logits.iter_mut().enumerate() {
            if id != first as usize {
                *logit = f32::NEG_INFINITY;
            }
        }
    }

    fn accept(&mut self, id: u32) {
        self.first.pop();
        self.rest.accept(id);
    }

    fn forced(&mut self, out: &mut [u32]) -> usize {
        if self.first.is_empty() {
            return self.rest.forced(out);
        }
        out.iter_mut().zip(self.first.iter().rev()).map(|(slot, &id)| *slot = id).count()
    }
}

/// Tokens that say `text` within an answer; as a control token where there is
/// one.
pub(crate) fn spell(tokenizer: &Tokenizer<'_>, text: &str) -> Result<Vec<u32>> {
    if let Some(id) = tokenizer.find(text) {
        return Ok(vec![id]);
    }
    let (mut scratch, mut ids) = (vec![0; scratch_len(text.len())], vec![0; text.len() + 1]);
    let n = tokenizer.encode_piece(text.as_bytes(), false, &mut scratch, &mut ids)?;
    ids.truncate(n);
    Ok(ids)
}
