//! After a model is loaded nothing is allocated: not by prompts, decoding,
//! sampling, encoding or decoding text, not by the threads, not by grammars,
//! their compiling included, not by agents and their tools.
//!
//! One test, alone in its program: the allocator is the program's.

use std::alloc::{GlobalAlloc, Layout, System};
use std::fmt::Write;
use std::hint::black_box;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use katydid_core::agent::{
    self, Agent, Arguments, Bounds, End, Entry, Failed, Heard, Log, Outcome, Read, Registry,
};
use katydid_core::arena::{ALIGN, Arena, Space};
use katydid_core::chat::{Said, Session, SessionMemory, Style, ToolSpec, Turn, Turns};
use katydid_core::generate::{Generator, Lookup};
use katydid_core::gguf::{Gguf, Part, Parts};
use katydid_core::grammar::tools::{self, Form, Tool};
use katydid_core::grammar::{
    Constrained, Grammar, Limits, MaskMemory, Matcher, Memory, Options as Reading, Scratch, Stacks, Trie,
    TrieMemory, TrieSizes,
};
use katydid_core::model::{Config, Engine, Options};
use katydid_core::plan::MemoryPlan;
use katydid_core::port::Workers;
use katydid_core::quant::Format;
use katydid_core::sample::{self, Params, Sampler};
use katydid_core::text::{Detokenizer, Encode, Sizes, Tables, Tokenizer, scratch_len};
use katydid_linux::{MonotonicClock, Pinning, Pool};
use katydid_tests::kernels;
use katydid_tests::tiny::{Shape, Tiny};

static WATCHING: AtomicBool = AtomicBool::new(false);
static ALLOCATIONS: AtomicUsize = AtomicUsize::new(0);

struct Watched;

fn note() {
    if WATCHING.load(Ordering::SeqCst) {
        ALLOCATIONS.fetch_add(1, Ordering::SeqCst);
    }
}

// SAFETY: everything is the system allocator's; counting allocates nothing.
unsafe impl GlobalAlloc for Watched {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        note();
        // SAFETY: the caller's promises are passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        note();
        // SAFETY: as above.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, at: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        note();
        // SAFETY: as above.
        unsafe { System.realloc(at, layout, size) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        // SAFETY: as above.
        unsafe { System.dealloc(at, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Watched = Watched;

/// How often `work` allocates, on any thread.
fn allocations(work: impl FnOnce()) -> usize {
    ALLOCATIONS.store(0, Ordering::SeqCst);
    WATCHING.store(true, Ordering::SeqCst);
    work();
    WATCHING.store(false, Ordering::SeqCst);
    ALLOCATIONS.load(Ordering::SeqCst)
}

/// Text in an array; what does not fit is an error.
struct Page {
    bytes: [u8; 4096],
    len: usize,
}

impl Page {
    fn new() -> Self {
        Self { bytes: [0; 4096], len: 0 }
    }
}

impl Write for Page {
    fn write_str(&mut self, s: &str) -> std::fmt::Result {
        let room = self.bytes.get_mut(self.len..self.len + s.len()).ok_or(std::fmt::Error)?;
        room.copy_from_slice(s.as_bytes());
        self.len += s.len();
        Ok(())
    }
}

/// Waits until every thread of the pool has run something: starting a thread
/// may allocate.
fn warm_up(pool: &Pool) {
    let caller = std::thread::current().id();
    let helped = AtomicBool::new(false);
    while !helped.load(Ordering::SeqCst) {
        pool.run(64, &|_| {
            helped.fetch_or(std::thread::current().id() != caller, Ordering::SeqCst);
            std::thread::yield_now();
        });
    }
}

/// Everything that happens while a model answers, errors included.
fn answer(engine: &mut Engine<'_>, tokenizer: &Tokenizer<'_>, sampler: &mut Sampler<'_>, pool: &Pool) {
    let prompt = b"a prompt of some words, repeated; a prompt of some words";
    let (mut scratch, mut ids) = ([0u32; scratch_len(64)], [0u32; 128]);
    let n = tokenizer.encode(prompt, Encode::default(), &mut scratch, &mut ids).unwrap();
    ids[..n].iter().for_each(|&id| sampler.accept(id));
    engine.eval(pool, &ids[..n], &mut |_| true).unwrap();
    let (mut detokenizer, mut page) = (Detokenizer::continuing(true), Page::new());
    while engine.position() < engine.context() {
        let id = sampler.sample(engine.logits()).unwrap();
        sampler.accept(id);
        detokenizer.push(tokenizer, id, &mut page).unwrap();
        engine.eval(pool, &[id], &mut |_| true).unwrap();
    }
    detokenizer.flush(&mut page).unwrap();
    assert!(page.len > 40);
    let full = engine.eval(pool, &[1], &mut |_| true).unwrap_err();
    write!(page, "{full}").unwrap();
    engine.logits()[3] = f32::NAN;
    write!(page, "{}", sampler.sample(engine.logits()).unwrap_err()).unwrap();
    engine.rewind(0);
}

/// Loads a model and returns how often answering allocates.
fn run(shape: &Shape, pool: &Pool) -> usize {
    let file = Tiny::new(shape).bytes();
    let gguf = Gguf::parse(&file, file.len() as u64).unwrap();
    let files = [Part { gguf, bytes: &file }];
    let parts = Parts::new(&files).unwrap();
    let (config, options) = (Config::read(&parts).unwrap(), Options { context: 90, batch: 16, drafts: 0 });
    let sizes = Sizes::of(parts.meta()).unwrap();
    let mut plan = MemoryPlan::new();
    Engine::plan(&mut plan, &config, &options).unwrap();
    Tables::lay_out(&mut plan, &sizes).unwrap();
    sample::lay_out(&mut plan, config.vocab, 2, 64).map(drop).unwrap();

    let mut memory = vec![0xa5; plan.total() as usize + ALIGN];
    let mut arena = Arena::new(&mut memory);
    let mut engine = Engine::load(&parts, &options, kernels(), &mut arena).unwrap();
    let tables = Tables::lay_out(&mut arena, &sizes).unwrap();
    let tokenizer = Tokenizer::build(parts.meta(), tables).unwrap();
    let params = Params {
        temperature: 0.9,
        top_k: 100,
        top_p: 0.9,
        min_p: 0.001,
        repeat_penalty: 1.1,
        frequency_penalty: 0.1,
        presence_penalty: 0.1,
        ..Params::default()
    };
    let room = sample::lay_out(&mut arena, config.vocab, 2, 64).unwrap();
    let mut sampler = Sampler::new(room, &params, &[(2, f32::NEG_INFINITY), (300, 1.0)]).unwrap();
    // All of the vocabulary, sorted by probability: the sampler's longest way.
    let all = Params { top_k: 0, top_p: 0.999, min_p: 0.0, ..params };
    allocations(|| {
        answer(&mut engine, &tokenizer, &mut sampler, pool);
        sampler.restart(&all, &[(5, 1.0)]).unwrap();
        answer(&mut engine, &tokenizer, &mut sampler, pool);
    })
}

/// What a grammar lives in.
struct Rooms<'a> {
    memory: Memory<'a>,
    scratch: Scratch<'a>,
    stacks: Stacks<'a>,
    trie: TrieMemory<'a>,
    masks: MaskMemory<'a>,
}

impl<'a> Rooms<'a> {
    fn lay_out(space: &mut impl Space<'a>, trie: &TrieSizes, vocab: usize) -> Self {
        let limits = Limits::small();
        Self {
            memory: Memory::lay_out(space, &limits).unwrap(),
            scratch: Scratch::lay_out(space, &limits).unwrap(),
            stacks: Stacks::lay_out(space, &limits).unwrap(),
            trie: TrieMemory::lay_out(space, trie).unwrap(),
            masks: MaskMemory::lay_out(space, vocab, 2).unwrap(),
        }
    }
}

/// Compiles a tool's schema and has a model call the tool; returns how often
/// that allocates.
fn call_a_tool(pool: &Pool) -> usize {
    let file = Tiny::new(&Shape::SMALL).bytes();
    let gguf = Gguf::parse(&file, file.len() as u64).unwrap();
    let files = [Part { gguf, bytes: &file }];
    let parts = Parts::new(&files).unwrap();
    let (config, options) = (Config::read(&parts).unwrap(), Options { context: 200, batch: 16, drafts: 0 });
    let sizes = Sizes::of(parts.meta()).unwrap();
    let mut plan = MemoryPlan::new();
    Engine::plan(&mut plan, &config, &options).unwrap();
    Tables::lay_out(&mut plan, &sizes).unwrap();
    sample::lay_out(&mut plan, config.vocab, 0, 64).map(drop).unwrap();
    let mut memory = vec![0xa5; plan.total() as usize + ALIGN];
    let mut arena = Arena::new(&mut memory);
    let mut engine = Engine::load(&parts, &options, kernels(), &mut arena).unwrap();
    let tables = Tables::lay_out(&mut arena, &sizes).unwrap();
    let tokenizer = Tokenizer::build(parts.meta(), tables).unwrap();
    let room = sample::lay_out(&mut arena, config.vocab, 0, 64).unwrap();
    let sampler = Sampler::new(room, &Params { temperature: 1.5, ..Params::default() }, &[]).unwrap();

    let trie = TrieSizes::of(&tokenizer);
    let mut plan = MemoryPlan::new();
    Rooms::lay_out(&mut plan, &trie, config.vocab);
    let mut memory = vec![0xa5; plan.total() as usize + ALIGN];
    let mut arena = Arena::new(&mut memory);
    let rooms = Rooms::lay_out(&mut arena, &trie, config.vocab);
    assert_eq!(arena.used() as u64, plan.total(), "the plan is what is taken");
    let Rooms { memory, mut scratch, stacks, trie, masks } = rooms;
    let clock = MonotonicClock::new();
    allocations(|| {
        let mut text = [0; 1024];
        let parameters = r#"{"properties":{"pin":{"type":"integer","minimum":0,"maximum":27},"note":{"pattern":"^[a-z]{1,9}$"}},"required":["pin"]}"#;
        let tool = [Tool { name: "set_gpio", parameters }];
        let schema =
            tools::schema(&tool, Form::Calls { arguments: "arguments", least: 1, most: 2 }, &mut text)
                .unwrap();
        let grammar = Grammar::compile(schema, &Reading::default(), memory, &mut scratch).unwrap();
        let trie = Trie::build(&tokenizer, trie).unwrap();
        let mut c = Constrained::new(Matcher::new(grammar, stacks).unwrap(), trie, tokenizer, masks);
        let mut generator = Generator::new(sampler, None);
        engine.eval(pool, &[1], &mut |_| true).unwrap();
        let (mut detokenizer, mut page) = (Detokenizer::continuing(false), Page::new());
        while !c.is_complete() && engine.position() < 150 {
            let id = generator.next_within(&mut engine, pool, &clock, Some(&mut c)).unwrap();
            detokenizer.push(&tokenizer, id, &mut page).unwrap();
        }
        let mut rest = [0; 200];
        let n = c.close(&mut rest).unwrap();
        rest[..n].iter().for_each(|&id| detokenizer.push(&tokenizer, id, &mut page).unwrap());
        assert!(page.bytes[..page.len].starts_with(br#"[{"name": "set_gpio", "arguments": {"pin": "#));
        assert!(page.bytes[..page.len].ends_with(b"}]"));
    })
}

/// Talks with a model for three turns; returns how often that allocates.
fn talk(pool: &Pool) -> usize {
    let mut model = Tiny::new(&Shape::SMALL);
    model.token(310, "<|im_start|>", true).token(311, "<|im_end|>", true);
    let file = model.bytes();
    let gguf = Gguf::parse(&file, file.len() as u64).unwrap();
    let files = [Part { gguf, bytes: &file }];
    let parts = Parts::new(&files).unwrap();
    let (config, options) = (Config::read(&parts).unwrap(), Options { context: 200, batch: 16, drafts: 3 });
    let sizes = Sizes::of(parts.meta()).unwrap();
    let mut plan = MemoryPlan::new();
    Engine::plan(&mut plan, &config, &options).unwrap();
    Tables::lay_out(&mut plan, &sizes).unwrap();
    sample::lay_out(&mut plan, config.vocab, 0, 64).map(drop).unwrap();
    Lookup::lay_out(&mut plan, 200).unwrap();
    SessionMemory::lay_out(&mut plan, 200).map(drop).unwrap();
    let mut memory = vec![0xa5; plan.total() as usize + ALIGN];
    let mut arena = Arena::new(&mut memory);
    let engine = Engine::load(&parts, &options, kernels(), &mut arena).unwrap();
    let tokenizer = Tokenizer::build(parts.meta(), Tables::lay_out(&mut arena, &sizes).unwrap()).unwrap();
    let room = sample::lay_out(&mut arena, config.vocab, 0, 64).unwrap();
    let sampler = Sampler::new(room, &Params { temperature: 1.5, ..Params::default() }, &[]).unwrap();
    let lookup = Lookup::lay_out(&mut arena, 200).unwrap();
    let memory = SessionMemory::lay_out(&mut arena, 200).unwrap();
    let (clock, mut page) = (MonotonicClock::new(), Page::new());
    allocations(|| {
        let mut session = Session::new(engine, tokenizer, Generator::new(sampler, Some(lookup)), memory);
        for turn in 1..4 {
            let turns =
                [Turn::System("be brief"), Turn::User("one two"), Turn::Assistant("ok"), Turn::User("and?")];
            let turns = &turns[..turn + 1];
            session.prompt(pool, &Style::ChatMl, &[], &turns, &mut |_, _| true).unwrap();
            for _ in 0..20 {
                if session.next(pool, &clock, None, &mut page).unwrap() == Said::Full {
                    break;
                }
            }
        }
        let long = [Turn::User(core::str::from_utf8(&[b'x'; 2000]).unwrap())];
        session.prompt(pool, &Style::ChatMl, &[], &&long[..], &mut |_, _| true).unwrap_err();
    })
}

/// A model whose answers are written down; text that begins with `{` calls the
/// tool.
struct Script<'s> {
    answers: std::slice::Iter<'s, &'s [&'s str]>,
    turns: usize,
}

impl agent::Model for Script<'_> {
    type Error = std::fmt::Error;

    fn read(&mut self, turns: &dyn Turns, _tools: &[ToolSpec<'_>]) -> Result<Read, Self::Error> {
        self.turns = 0;
        turns.each(&mut |_| {
            self.turns += 1;
            Ok(())
        })?;
        Ok(if self.turns > 12 { Read::TooLong } else { Read::Ready })
    }

    fn answer(&mut self, heard: &mut dyn Heard) -> Result<End, Self::Error> {
        for text in *self.answers.next().ok_or(std::fmt::Error)? {
            let heard = if text.starts_with('{') { heard.called("set_pin", text) } else { heard.said(text) };
            heard.map_err(|_| std::fmt::Error)?;
        }
        Ok(End::Natural)
    }
}

/// Runs an agent over a conversation that is longer than its memory; returns how
/// often that allocates.
fn run_an_agent() -> usize {
    const SPEC: ToolSpec<'static> = ToolSpec {
        name: "set_pin",
        description: "Sets a pin.",
        parameters: r#"{"properties":{"pin":{"type":"integer","maximum":27},"on":{"type":"boolean"},"note":{"type":"string"}},"required":["pin","on"]}"#,
    };
    let (room, limits) = (2600, Limits::small());
    let mut plan = MemoryPlan::new();
    Log::lay_out(&mut plan, room, 1).map(drop).unwrap();
    Memory::lay_out(&mut plan, &limits).map(drop).unwrap();
    Scratch::lay_out(&mut plan, &limits).map(drop).unwrap();
    Stacks::lay_out(&mut plan, &limits).map(drop).unwrap();
    let mut memory = vec![0xa5; plan.total() as usize + ALIGN];
    let mut arena = Arena::new(&mut memory);
    allocations(|| {
        let log = Log::lay_out(&mut arena, room, 1).unwrap();
        let memory = Memory::lay_out(&mut arena, &limits).unwrap();
        let mut scratch = Scratch::lay_out(&mut arena, &limits).unwrap();
        let stacks = Stacks::lay_out(&mut arena, &limits).unwrap();
        assert_eq!(arena.used() as u64, plan.total(), "the plan is what is taken");
        let grammar = Grammar::compile(SPEC.parameters, &Reading::default(), memory, &mut scratch).unwrap();
        let mut pins = 0u32;
        let mut set_pin = |a: Arguments<'_>, out: &mut dyn Write| {
            let (pin, mut note) = (a.get_i64("pin")?, [0; 16]);
            let bit = u32::try_from(pin)
                .ok()
                .and_then(|p| 1u32.checked_shl(p))
                .ok_or(Failed::new("no such pin"))?;
            pins = if a.get_bool("on")? { pins | bit } else { pins & !bit };
            if a.has("note") {
                write!(out, "{}: ", a.get_str("note", &mut note)?)?;
            }
            Ok((0..100).try_for_each(|_| write!(out, "pins {pins:#x} "))?)
        };
        let mut entries = [Entry::new(SPEC, &mut set_pin).checked(grammar)];
        let tools = agent::specs(&entries);
        let mut registry = Registry::with_stacks(&mut entries, stacks);
        let mut agent = Agent::new(log, &tools, Bounds { result: 600, ..Bounds::default() });
        agent.edit().unwrap().set_system("You set pins.").unwrap();
        let calls: &[&str] = &[
            "One moment.",
            r#"{"on":true,"pin":3,"note":"l\u00e9d"}"#,
            r#"{"pin":28,"on":true}"#,
            r#"{"pin":-1,"on":true}"#,
            r#"{"pin":1"#,
        ];
        let answers: [&[&str]; 2] = [calls, &["It is", " on."]];
        for question in ["Set pin 3.", "Again.", "And again.", "Once more.", "Last."] {
            agent.ask(question).unwrap();
            let mut model = Script { answers: answers.iter(), turns: 0 };
            let mut room = [0; 800];
            let outcome = agent::run(&mut agent, &mut registry, &mut model, &mut room).unwrap();
            assert_eq!((outcome, agent.answer(), model.turns), (Outcome::Answered, "It is on.", 11));
        }
        assert!(agent.forgotten() > 0 && agent.log().turns().count() == 12);
        let errors =
            agent.log().turns().filter(|t| matches!(t, Turn::Result(r) if r.content.starts_with("error: ")));
        assert_eq!(errors.count(), 3);
        let mut page = Page::new();
        write!(page, "{}", agent.ask(std::str::from_utf8(&[b'x'; 3000]).unwrap()).unwrap_err()).unwrap();
        write!(page, "{outcome} {}", agent.said("x").unwrap_err(), outcome = Outcome::Exhausted).unwrap();
    })
}

#[test]
fn nothing_is_allocated_after_load() {
    assert_eq!(allocations(|| drop(black_box(Box::new(1)))), 1, "allocations are seen");
    let pool = Pool::new(2, Pinning::None).unwrap();
    warm_up(&pool);
    for (arch, format) in
        [("llama", Format::F32), ("qwen2", Format::Q8_0), ("qwen3", Format::Q4K), ("llama", Format::F16)]
    {
        let shape = Shape { arch, format, embd: 256, head_dim: 64, ffn: 256, biases: true, ..Shape::SMALL };
        assert_eq!(run(&shape, &pool), 0, "{arch} {format:?}");
    }
    assert_eq!(call_a_tool(&pool), 0, "grammars");
    assert_eq!(talk(&pool), 0, "conversations");
    assert_eq!(run_an_agent(), 0, "agents");
}
