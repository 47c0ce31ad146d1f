//! From a path to a model ready to run: open, parse, plan, take memory, load.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, anyhow, bail};
use katydid_core::agent::Log;
use katydid_core::arena::{ALIGN, Arena, ArenaFull, Space};
use katydid_core::chat::SessionMemory;
use katydid_core::generate::{Generator, Lookup};
use katydid_core::gguf::{Gguf, Part, Parts, split_name};
use katydid_core::model::{Config, Engine, Options};
use katydid_core::plan::MemoryPlan;
use katydid_core::port::Pages;
use katydid_core::sample::{self, Sampler};
use katydid_core::text::{Encode, Sizes, Tables, Tokenizer};
use katydid_linux::{Block, MappedFile, STACK, available_memory};

use crate::cache::model_sum;
use crate::grammar::{Constraints, Room};
use crate::model_args::{ModelArgs, kernels, usual, with_context};
use crate::units::Bytes;
use crate::verbs::encode;

/// The files of a model, mapped.
pub(crate) struct Files(Vec<(PathBuf, MappedFile)>);

impl Files {
    /// Opens `path` and, where it is a part of a split model, all others.
    pub(crate) fn open(path: &Path) -> Result<Self> {
        use std::os::unix::ffi::{OsStrExt, OsStringExt};
        let Some(name) = split_name(path.as_os_str().as_bytes()) else {
            return Ok(Self(vec![(path.to_owned(), MappedFile::open(path)?)]));
        };
        let mut files = Vec::new();
        for number in 1..=name.count {
            let mut part = name.prefix.to_vec();
            part.extend(name.suffix(number));
            let part = PathBuf::from(std::ffi::OsString::from_vec(part));
            let file = MappedFile::open(&part)
                .with_context(|| format!("part {number} of {} of a split model", name.count))?;
            files.push((part, file));
        }
        Ok(Self(files))
    }

    /// Their headers, checked one by one.
    pub(crate) fn parse(&self) -> Result<Vec<Part<'_>>> {
        self.0.iter().map(|(path, file)| parse_one(path, file)).collect()
    }

    /// The files, in order, with the paths they were opened by.
    pub(crate) fn files(&self) -> &[(PathBuf, MappedFile)] {
        &self.0
    }

    /// Bytes of all files.
    pub(crate) fn len(&self) -> u64 {
        self.0.iter().map(|(_, f)| f.len()).sum()
    }
}

fn parse_one<'f>(path: &Path, file: &'f MappedFile) -> Result<Part<'f>> {
    let Some(bytes) = file.map() else {
        let cause = file.map_error().map_or(String::new(), |e| format!(": {e}"));
        bail!("cannot map {} into memory{cause}", path.display());
    };
    let gguf = Gguf::parse(bytes, file.len()).map_err(|e| anyhow!("{}: {e}", path.display()))?;
    Ok(Part { gguf, bytes })
}

/// What a verb needs of a model.
#[derive(Clone, Copy, Default)]
pub(crate) struct Needs {
    /// The text half: tokenizer tables.
    pub(crate) text: bool,
    /// What generating takes.
    pub(crate) generate: Option<Generation>,
    /// Bytes of the tables of a grammar that answers keep to. Needs the text
    /// half.
    pub(crate) grammar: Option<usize>,
    /// A conversation. Needs the text half, and what generating takes.
    pub(crate) session: bool,
    /// Bytes of a log of turns, beside those that the context may fill.
    pub(crate) log: Option<usize>,
    /// What tells the model from others.
    pub(crate) sum: bool,
}

/// Sizes of what generates text.
#[derive(Clone, Copy)]
pub(crate) struct Generation {
    /// Tokens that penalties look back on.
    pub(crate) last_n: usize,
    /// Logit biases.
    pub(crate) biases: usize,
    /// Tokens guessed at once, at most; 0 for never.
    pub(crate) drafts: usize,
}

impl Needs {
    fn drafts(&self) -> usize {
        self.generate.map_or(0, |g| g.drafts)
    }
}

/// A model in memory.
pub(crate) struct Loaded<'a> {
    pub(crate) engine: Engine<'a>,
    pub(crate) tokenizer: Option<Tokenizer<'a>>,
    generator: Option<(sample::Memory<'a>, Lookup<'a>)>,
    constraints: Option<Constraints<'a>>,
    /// The memory of a verb that asked for a session.
    pub(crate) session: Option<SessionMemory<'a>>,
    /// The log of a verb that asked for one.
    pub(crate) log: Option<Log<'a>>,
    /// Tells the model from others, for a verb that asked for it.
    pub(crate) sum: u64,
    /// The model's own chat template, where it has one.
    pub(crate) template: Option<&'a str>,
    /// Bytes of the arena, all of them planned.
    pub(crate) arena: u64,
}

impl<'a> Loaded<'a> {
    /// The tokenizer of a verb that asked for one.
    pub(crate) fn tokenizer(&self) -> Result<&Tokenizer<'a>> {
        self.tokenizer.as_ref().ok_or_else(|| anyhow!("the model has no tokenizer"))
    }

    /// The constraints of a verb that asked for a grammar; only once.
    pub(crate) fn constraints(&mut self) -> Result<Constraints<'a>> {
        self.constraints.take().ok_or_else(|| anyhow!("no grammar was planned"))
    }

    /// The generator of a verb that asked for one; only once.
    pub(crate) fn generator(
        &mut self,
        params: &sample::Params,
        bias: &[(u32, f32)],
    ) -> Result<Generator<'a>> {
        let (memory, lookup) = self.generator.take().ok_or_else(|| anyhow!("no generator was planned"))?;
        let lookup = Some(lookup).filter(|_| self.engine.drafts() > 0);
        Ok(Generator::new(Sampler::new(memory, params, bias)?, lookup))
    }
}

/// The plan for running `parts` with `options`.
pub(crate) fn plan(
    parts: &Parts<'_>,
    config: &Config,
    options: &Options,
    needs: Needs,
) -> Result<MemoryPlan> {
    let mut plan = MemoryPlan::new();
    Engine::plan(&mut plan, config, options)?;
    if needs.text {
        let sizes = Sizes::of(parts.meta())?;
        Tables::lay_out(&mut plan, &sizes)?;
        if let Some(g) = needs.grammar {
            Room::lay_out(&mut plan, g, &sizes, config.vocab)?;
        }
    }
    if let Some(g) = needs.generate {
        generator(&mut plan, config, options, g)?;
    }
    if needs.session {
        SessionMemory::lay_out(&mut plan, options.context)?;
    }
    if let Some(more) = needs.log {
        log(&mut plan, options, more)?;
    }
    Ok(plan)
}

/// Takes what a generator needs.
fn generator<'a, S: Space<'a>>(
    space: &mut S,
    config: &Config,
    options: &Options,
    g: Generation,
) -> Result<(sample::Memory<'a>, Lookup<'a>), ArenaFull> {
    let text = if options.drafts > 0 { options.context } else { 0 };
    Ok((sample::lay_out(space, config.vocab, g.biases, g.last_n)?, Lookup::lay_out(space, text)?))
}

/// Takes a log of turns that has `more` bytes than the context may fill.
fn log<'a, S: Space<'a>>(space: &mut S, options: &Options, more: usize) -> Result<Log<'a>, ArenaFull> {
    // Calls are told apart within a conversation only, so any seed does.
    Log::lay_out(space, options.context.saturating_mul(BYTES_PER_TOKEN).saturating_add(more), 1)
}

/// More than tokens have on average.
const BYTES_PER_TOKEN: usize = 16;

/// How large a context to take where the user does not say.
#[derive(Clone, Copy)]
pub(crate) enum Wanted<'t> {
    /// As large as is usual.
    Usual,
    /// So many tokens.
    Tokens(usize),
    /// As is usual, or what this text and so many tokens more need, as far as
    /// the model was trained for it.
    For(&'t str, usize),
}

impl Wanted<'_> {
    fn tokens(self, parts: &Parts<'_>, trained: usize) -> Result<Option<usize>> {
        match self {
            Self::Usual => Ok(None),
            Self::Tokens(n) => Ok(Some(n)),
            // No token takes less than a byte, BOS and a leading space aside.
            Self::For(text, more) if text.len().saturating_add(more) < usual(trained) => Ok(None),
            Self::For(text, more) => {
                let sizes = Sizes::of(parts.meta())?;
                let mut plan = MemoryPlan::new();
                Tables::lay_out(&mut plan, &sizes)?;
                let mut block = vec![0; usize::try_from(plan.total())? + ALIGN];
                let tables = Tables::lay_out(&mut Arena::new(&mut block), &sizes)?;
                let tokenizer = Tokenizer::build(parts.meta(), tables)?;
                let how = Encode { parse_special: true, ..Encode::default() };
                let need = encode(&tokenizer, text.as_bytes(), how)?.len().saturating_add(more);
                Ok(Some(need.min(trained).max(usual(trained))))
            }
        }
    }
}

/// Opens the model that `args` names and hands it to `verb`.
pub(crate) fn with_model<R>(
    args: &ModelArgs,
    wanted: Wanted<'_>,
    needs: Needs,
    verb: impl FnOnce(Loaded<'_>) -> Result<R>,
) -> Result<R> {
    let files = Files::open(&args.model)?;
    let headers = files.parse()?;
    let name = args.model.display();
    let parts = Parts::new(&headers).map_err(|e| anyhow!("{name}: {e}"))?;
    let config = Config::read(&parts).map_err(|e| anyhow!("{name}: {e}"))?;
    let context = if args.context.is_none() { wanted.tokens(&parts, config.context)? } else { None };
    let options = args.options(config.context, context, needs.drafts());
    let plan = plan(&parts, &config, &options, needs).with_context(|| name.to_string())?;
    let budget =
        Budget { parts: &parts, config: &config, options: &options, needs, stacks: stacks(args.threads()) };
    budget.check(&plan, args.ram)?;
    let size = usize::try_from(plan.total()).ok().and_then(|n| n.checked_add(ALIGN));
    let size =
        size.ok_or_else(|| anyhow!("{} do not fit this machine's addresses: lower -c", Bytes(plan.total())))?;
    let mut block = Block::new(size)
        .map_err(|e| anyhow!("cannot get {} of memory: {e}; lower -c", Bytes(plan.total())))?;
    let mut arena = Arena::new(block.bytes());
    let mut loaded = load(&parts, &options, needs, &mut arena).with_context(|| name.to_string())?;
    debug_assert_eq!(loaded.arena, plan.total(), "the plan is what is taken");
    if needs.sum {
        loaded.sum = model_sum(&files, &headers);
    }
    verb(loaded)
}

/// Takes from `arena` what [`plan`] planned, and fills it.
fn load<'a>(parts: &Parts<'a>, options: &Options, needs: Needs, arena: &mut Arena<'a>) -> Result<Loaded<'a>> {
    let engine = Engine::load(parts, options, kernels()?, arena)?;
    let (mut tokenizer, mut constraints) = (None, None);
    if needs.text {
        let sizes = Sizes::of(parts.meta())?;
        let t = Tokenizer::build(parts.meta(), Tables::lay_out(arena, &sizes)?)?;
        if let Some(g) = needs.grammar {
            constraints = Some(Room::lay_out(arena, g, &sizes, engine.config().vocab)?.sort(t)?);
        }
        tokenizer = Some(t);
    }
    let generator = match needs.generate {
        None => None,
        Some(g) => Some(generator(arena, engine.config(), options, g)?),
    };
    let session = match needs.session {
        true => Some(SessionMemory::lay_out(arena, options.context)?),
        false => None,
    };
    let log = match needs.log {
        Some(more) => Some(log(arena, options, more)?),
        None => None,
    };
    let template = parts.meta().str("tokenizer.chat_template").ok().flatten();
    let arena = arena.used() as u64;
    Ok(Loaded { engine, tokenizer, generator, constraints, session, log, template, sum: 0, arena })
}

/// Stacks of the threads that a pool of `threads` starts: beside the arena, but
/// within the budget.
pub(crate) fn stacks(threads: usize) -> u64 {
    (threads.saturating_sub(1) * STACK) as u64
}

/// What a plan is made for.
struct Budget<'b, 'a> {
    parts: &'b Parts<'a>,
    config: &'b Config,
    options: &'b Options,
    needs: Needs,
    stacks: u64,
}

impl Budget<'_, '_> {
    /// Errs when the plan exceeds `--ram` or the machine, saying what would fit.
    fn check(&self, planned: &MemoryPlan, ram: Option<u64>) -> Result<()> {
        let free = available_memory().unwrap_or(u64::MAX);
        let (budget, whose) = match ram {
            Some(ram) if ram <= free => (ram, "--ram allows"),
            _ => (free, "this machine has"),
        };
        let left = budget.saturating_sub(self.stacks);
        if planned.check(left).is_ok() {
            return Ok(());
        }
        let advice = match self.largest_context(left) {
            None => format!("not even a context of 1 fits; {}", self.smallest(left, budget)),
            Some(n) => format!("a context of {n} (-c {n}) would fit"),
        };
        let need = Bytes(planned.total().saturating_add(self.stacks));
        bail!("the plan needs {need} beside the mapped file, but {whose} {}: {advice}", Bytes(budget))
    }

    /// What to do where the context does not matter: `left` without the threads'
    /// stacks is all there is for the plan, `budget` with them.
    fn smallest(&self, left: u64, budget: u64) -> String {
        let usual = katydid_core::sample::Params::default().repeat_last_n;
        let shorter = self.needs.generate.filter(|g| g.last_n > usual);
        let shorter =
            shorter.map(|g| Needs { generate: Some(Generation { last_n: usual, ..g }), ..self.needs });
        if shorter.is_some_and(|needs| self.fits(1, needs, left)) {
            return "lower --repeat-last-n".to_owned();
        }
        if self.stacks > 0 && self.fits(1, self.needs, budget) {
            return "lower -j".to_owned();
        }
        "take a smaller model".to_owned()
    }

    fn fits(&self, context: usize, needs: Needs, budget: u64) -> bool {
        let options = with_context(context, self.options.batch, self.options.drafts);
        plan(self.parts, self.config, &options, needs).is_ok_and(|p| p.check(budget).is_ok())
    }

    /// The largest context, below that asked for, whose plan is within `budget`.
    fn largest_context(&self, budget: u64) -> Option<usize> {
        let (mut low, mut high) = (0, self.options.context);
        while high - low > 1 {
            let middle = low + (high - low) / 2;
            if self.fits(middle, self.needs, budget) { low = middle } else { high = middle }
        }
        Some(low).filter(|&n| n > 0)
    }
}
