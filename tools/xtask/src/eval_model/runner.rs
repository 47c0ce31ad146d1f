//! A model that answers samples greedily, in this process.

use std::path::Path;

use anyhow::{Context, Result, anyhow, bail};
use katydid_core::arena::{ALIGN, Arena, ArenaFull, Space};
use katydid_core::chat::{CallGrammar, CallSyntax, Session, SessionMemory, Style, Template, ToolSpec, Turn};
use katydid_core::chat::{Said, SessionError};
use katydid_core::generate::{Generator, Lookup};
use katydid_core::gguf::{Gguf, Part, Parts};
use katydid_core::grammar::tools::{self, Tool, ToolsError};
use katydid_core::grammar::{
    Constrained, Grammar, Limits, MaskMemory, Matcher, Memory, Options, Scratch, Stacks, Trie, TrieMemory,
    TrieSizes,
};
use katydid_core::kernels::Kernels;
use katydid_core::model::{self, Config, Engine};
use katydid_core::plan::MemoryPlan;
use katydid_core::port::Pages;
use katydid_core::sample::{self, Constraint, Params, Sampler};
use katydid_core::text::{Sizes, Tables, Tokenizer};
use katydid_linux::{MappedFile, MonotonicClock, Pinning, Pool, cpu_caps};

/// Masks kept by a constraint.
const MASKS: usize = 8;
/// Most calls in an answer.
const MOST_CALLS: u16 = 8;
/// Most tokens of an answer.
const MOST_TOKENS: usize = 320;

/// Everything a sample's answer needs.
pub(super) struct Runner<'a> {
    session: Session<'a>,
    trie: Trie<'a>,
    tokenizer: Tokenizer<'a>,
    vocab: usize,
    pool: Pool,
    clock: MonotonicClock,
}

/// An answer.
pub(super) struct Answer {
    pub(super) text: String,
    /// It ended by itself.
    pub(super) whole: bool,
    /// Tokens said, forced ones among them.
    pub(super) tokens: usize,
}

/// Loads a model and hands it to `work`.
pub(super) fn with_runner<R>(
    path: &Path,
    threads: usize,
    work: impl FnOnce(Runner<'_>) -> Result<R>,
) -> Result<R> {
    let file = MappedFile::open(path)?;
    let bytes = file.map().ok_or_else(|| anyhow!("cannot map {} into memory", path.display()))?;
    let name = || path.display().to_string();
    let header = [Part { gguf: Gguf::parse(bytes, file.len()).with_context(name)?, bytes }];
    let parts = Parts::new(&header).with_context(name)?;
    let config = Config::read(&parts).with_context(name)?;
    let options =
        model::Options { context: config.context.min(2048), batch: model::Options::BATCH, drafts: 0 };
    let sizes = Sizes::of(parts.meta())?;
    let mut plan = MemoryPlan::new();
    Engine::plan(&mut plan, &config, &options)?;
    Beside::lay_out(&mut plan, &sizes, &config, options.context)?;
    let mut block = vec![0; usize::try_from(plan.total())? + ALIGN];
    let mut arena = Arena::new(&mut block);
    let engine =
        Engine::load(&parts, &options, Kernels::select(&cpu_caps()), &mut arena).with_context(name)?;
    let beside = Beside::lay_out(&mut arena, &sizes, &config, options.context)?;
    let tokenizer = Tokenizer::build(parts.meta(), beside.tables)?;
    let trie = Trie::build(&tokenizer, beside.trie).ok_or_else(|| anyhow!("no room for the trie"))?;
    let generator = Generator::new(Sampler::new(beside.sampler, &greedy(), &[])?, None::<Lookup<'_>>);
    work(Runner {
        session: Session::new(engine, tokenizer, generator, beside.session),
        trie,
        tokenizer,
        vocab: config.vocab,
        pool: Pool::new(threads, Pinning::Cores)
            .map_err(|e| anyhow!("cannot start {threads} threads: {e}"))?,
        clock: MonotonicClock::new(),
    })
}

fn greedy() -> Params {
    Params { temperature: 0.0, ..Params::default() }
}

/// What stands beside the engine.
struct Beside<'a> {
    tables: Tables<'a>,
    sampler: sample::Memory<'a>,
    session: SessionMemory<'a>,
    trie: TrieMemory<'a>,
}

impl<'a> Beside<'a> {
    fn lay_out<S: Space<'a>>(
        space: &mut S,
        sizes: &Sizes,
        config: &Config,
        context: usize,
    ) -> Result<Self, ArenaFull> {
        Ok(Self {
            tables: Tables::lay_out(space, sizes)?,
            sampler: sample::lay_out(space, config.vocab, 0, greedy().repeat_last_n)?,
            session: SessionMemory::lay_out(space, context)?,
            trie: TrieMemory::lay_out(space, &TrieSizes::at_most(sizes))?,
        })
    }
}

impl Runner<'_> {
    /// Answers, within the grammar of calls of `tools` where `constrained`.
    /// `None` where the conversation leaves no room in the context.
    pub(super) fn answer(
        &mut self,
        tools: &[ToolSpec<'_>],
        turns: &[Turn<'_>],
        constrained: bool,
    ) -> Result<Option<Answer>> {
        match self.session.prompt(&self.pool, &Style::Katydid, tools, &turns, &mut |_, _| true) {
            Ok(_) => {}
            Err(SessionError::Full { .. }) => return Ok(None),
            Err(e) => return Err(e.into()),
        }
        let calls = Style::Katydid.syntax().grammar(MOST_CALLS).filter(|_| constrained && !tools.is_empty());
        let Some(calls) = calls else { return self.say(None).map(Some) };
        let schema = schema_of_calls(tools, &calls)?;
        let limits = Limits { threads: 64, ..Limits::default() };
        let mut plan = MemoryPlan::new();
        Room::lay_out(&mut plan, &limits, self.vocab)?;
        let mut block = vec![0; usize::try_from(plan.total())? + ALIGN];
        let room = Room::lay_out(&mut Arena::new(&mut block), &limits, self.vocab)?;
        let mut scratch = room.scratch;
        let options = Options { wrap: Some(calls.wrap()), ..Options::default() };
        let grammar = Grammar::compile(&schema, &options, room.memory, &mut scratch)
            .map_err(|e| anyhow!("the schema of the tools does not compile: {e}"))?;
        let matcher = Matcher::new(grammar, room.stacks).ok_or_else(|| anyhow!("no room for the grammar"))?;
        let mut constraint = Constrained::new(matcher, self.trie, self.tokenizer, room.masks);
        self.say(Some(&mut constraint)).map(Some)
    }

    fn say(&mut self, mut constraint: Option<&mut Constrained<'_>>) -> Result<Answer> {
        let mut answer = Answer { text: String::new(), whole: false, tokens: 0 };
        while answer.tokens < MOST_TOKENS {
            if constraint.as_ref().is_some_and(|c| c.is_complete()) {
                answer.whole = true;
                break;
            }
            let within = constraint.as_mut().map(|c| &mut **c as &mut dyn Constraint);
            match self.session.next(&self.pool, &self.clock, within, &mut answer.text)? {
                Said::End(_) => answer.whole = true,
                Said::Full => {}
                Said::Token(_) => {
                    answer.tokens += 1;
                    continue;
                }
            }
            break;
        }
        if let Some(constraint) = constraint.filter(|_| !answer.whole) {
            self.close(constraint, &mut answer.text)?;
        }
        self.session.end(&mut answer.text)?;
        Ok(answer)
    }

    /// Ends what the grammar leaves open in a cut answer, as the command does.
    fn close(&mut self, constraint: &mut Constrained<'_>, text: &mut String) -> Result<()> {
        if constraint.matcher().can_end() {
            return Ok(());
        }
        let mut ids = vec![0; constraint.min_left()];
        let n = constraint.close(&mut ids).map_err(|e| anyhow!("an answer cannot be closed: {e}"))?;
        ids[..n].iter().try_for_each(|&id| Ok(self.session.say(id, text)?))
    }
}

/// Memory of one grammar.
struct Room<'a> {
    memory: Memory<'a>,
    scratch: Scratch<'a>,
    stacks: Stacks<'a>,
    masks: MaskMemory<'a>,
}

impl<'a> Room<'a> {
    fn lay_out<S: Space<'a>>(space: &mut S, limits: &Limits, vocab: usize) -> Result<Self, ArenaFull> {
        Ok(Self {
            memory: Memory::lay_out(space, limits)?,
            scratch: Scratch::lay_out(space, limits)?,
            stacks: Stacks::lay_out(space, limits)?,
            masks: MaskMemory::lay_out(space, vocab, MASKS)?,
        })
    }
}

fn schema_of_calls(specs: &[ToolSpec<'_>], calls: &CallGrammar) -> Result<String> {
    let list: Vec<_> = specs.iter().map(|s| Tool { name: s.name, parameters: s.parameters }).collect();
    let mut room = vec![0; 1 << 14];
    loop {
        let have = room.len();
        match tools::schema(&list, calls.form, &mut room) {
            Ok(schema) => return Ok(schema.to_owned()),
            Err(ToolsError::Room { need, .. }) if need > have => room = vec![0; need],
            Err(e) => bail!(e),
        }
    }
}

/// How the model writes calls.
pub(super) fn syntax() -> CallSyntax {
    Style::Katydid.syntax()
}
