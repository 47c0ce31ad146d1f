//! Conversations that a model remembers: whatever is said in whatever order,
//! the model is where a new evaluation of the same tokens would leave it.

use katydid_core::arena::{ALIGN, Arena, Space};
use katydid_core::chat::{Prompted, Said, Session, SessionError, SessionMemory, Style, Template, Turn};
use katydid_core::generate::{Generator, Lookup, MOST_DRAFTS};
use katydid_core::gguf::{Gguf, Part, Parts};
use katydid_core::model::{Config, Engine, EvalError, Options};
use katydid_core::plan::MemoryPlan;
use katydid_core::port::OneWorker;
use katydid_core::sample::{self, Params, Sampler};
use katydid_core::text::{Add, Encode, Sizes, Tables, Tokenizer};
use katydid_linux::MonotonicClock;
use katydid_tests::random::Random;
use katydid_tests::tiny::{Meta, Shape, Tiny};
use katydid_tests::{kernels, with_engine};

const CONTEXT: usize = 400;
const OPTIONS: Options = Options { context: CONTEXT, batch: 16, drafts: MOST_DRAFTS };

/// A model with ChatML's control tokens.
fn chat_model(prefix: bool) -> &'static [u8] {
    let mut model = Tiny::new(&Shape { context: CONTEXT, vocab: 700, ..Shape::SMALL });
    model.token(690, "<|im_start|>", true).token(691, "<|im_end|>", true);
    model.set("tokenizer.ggml.add_space_prefix", Meta::Bool(prefix));
    model.bytes().leak()
}

struct Pieces<'a> {
    engine: Engine<'a>,
    tokenizer: Tokenizer<'a>,
    generator: Generator<'a>,
    memory: SessionMemory<'a>,
}

fn pieces(file: &'static [u8], params: &Params) -> Pieces<'static> {
    let gguf = Gguf::parse(file, file.len() as u64).unwrap();
    let files = Vec::leak(vec![Part { gguf, bytes: file }]);
    let parts = Parts::new(files).unwrap();
    let (config, sizes) = (Config::read(&parts).unwrap(), Sizes::of(parts.meta()).unwrap());
    fn rest<'a, S: Space<'a>>(
        space: &mut S,
        sizes: &Sizes,
        vocab: usize,
    ) -> (Tables<'a>, sample::Memory<'a>, Lookup<'a>, SessionMemory<'a>) {
        (
            Tables::lay_out(space, sizes).unwrap(),
            sample::lay_out(space, vocab, 0, 64).unwrap(),
            Lookup::lay_out(space, CONTEXT).unwrap(),
            SessionMemory::lay_out(space, CONTEXT).unwrap(),
        )
    }
    let mut plan = MemoryPlan::new();
    Engine::plan(&mut plan, &config, &OPTIONS).unwrap();
    rest(&mut plan, &sizes, config.vocab);
    let mut arena = Arena::new(vec![0xa5; plan.total() as usize + ALIGN].leak());
    let engine = Engine::load(&parts, &OPTIONS, kernels(), &mut arena).unwrap();
    let (tables, sampler, lookup, memory) = rest(&mut arena, &sizes, config.vocab);
    assert_eq!(arena.used() as u64, plan.total());
    let tokenizer = Tokenizer::build(parts.meta(), tables).unwrap();
    let generator = Generator::new(Sampler::new(sampler, params, &[]).unwrap(), Some(lookup));
    Pieces { engine, tokenizer, generator, memory }
}

fn session(file: &'static [u8], params: &Params) -> Session<'static> {
    let Pieces { engine, tokenizer, generator, memory } = pieces(file, params);
    Session::new(engine, tokenizer, generator, memory)
}

/// What was said, owned.
#[derive(Clone, Debug)]
struct Line(usize, String);

fn turns(lines: &[Line]) -> Vec<Turn<'_>> {
    let all = |text| [Turn::System(text), Turn::User(text), Turn::Assistant(text)];
    lines.iter().map(|Line(who, text)| all(text.as_str())[*who]).collect()
}

fn prompt(session: &mut Session<'_>, lines: &[Line]) -> Result<Prompted, SessionError> {
    session.prompt(&OneWorker, &Style::ChatMl, &[], &&turns(lines)[..], &mut |_, _| true)
}

fn answer(session: &mut Session<'_>, most: usize) -> String {
    let (mut text, clock) = (String::new(), MonotonicClock::new());
    for _ in 0..most {
        match session.next(&OneWorker, &clock, None, &mut text).unwrap() {
            Said::Token(_) => {}
            Said::End(_) | Said::Full => return text,
        }
    }
    session.end(&mut text).unwrap();
    text
}

/// The logits after the session's tokens, worked out anew.
fn anew(file: &[u8], ids: &[u32]) -> Vec<u32> {
    with_engine(file, OPTIONS, kernels(), |engine| {
        engine.eval(&OneWorker, ids, &mut |_| true).unwrap();
        engine.logits().iter().map(|l| l.to_bits()).collect()
    })
}

fn below(random: &mut Random, n: usize) -> usize {
    (random.bits() % n as u64) as usize
}

fn said(random: &mut Random) -> String {
    const WORDS: [&str; 12] =
        ["ab", " cd", "\n", "<|im_end|>", "é", " ", "xyz", "<|im_start|>user\n", "  q", "🦗", "hello", "."];
    (0..below(random, 7)).map(|_| WORDS[below(random, WORDS.len())]).collect()
}

#[test]
fn logits_are_those_of_a_new_evaluation_whatever_was_said_before() {
    for prefix in [false, true] {
        let file = chat_model(prefix);
        for seed in 0..(12 / katydid_tests::patience()).max(2) {
            let mut random = Random::of(&format!("talk {seed}"));
            let params = Params { temperature: 1.3, seed: seed.into(), ..Params::default() };
            let mut s = session(file, &params);
            let mut lines = vec![Line(0, "be brief".into())];
            for _ in 0..14 {
                lines.push(Line(1, said(&mut random)));
                match prompt(&mut s, &lines) {
                    Ok(done) => {
                        assert_eq!(done.reused + done.evaluated, s.ids().len());
                        assert_eq!(s.engine().position(), s.ids().len());
                    }
                    Err(SessionError::Full { have: CONTEXT }) => {
                        lines.drain(1..lines.len() / 2 + 1);
                        continue;
                    }
                    Err(e) => panic!("{e}"),
                }
                let ids = s.ids().to_vec();
                let logits: Vec<u32> = s.logits().iter().map(|l| l.to_bits()).collect();
                assert!(logits == anew(file, &ids), "seed {seed}");
                let text = answer(&mut s, below(&mut random, 20));
                assert_eq!(s.ids()[..ids.len()], ids);
                match below(&mut random, 5) {
                    0 => {
                        lines.pop();
                    }
                    1 => lines.push(Line(2, text + "!")),
                    2 => lines[0].1 = said(&mut random),
                    _ => lines.push(Line(2, text)),
                }
            }
        }
    }
}

#[test]
fn an_answer_is_never_evaluated_again() {
    for prefix in [false, true] {
        let file = chat_model(prefix);
        let mut s = session(file, &Params { temperature: 1.5, top_k: 0, ..Params::default() });
        let mut lines = Vec::new();
        for turn in 0..6 {
            lines.push(Line(1, format!("say {turn} things")));
            let (known, read) = (s.ids().to_vec(), s.engine().position());
            let Ok(done) = prompt(&mut s, &lines) else { break };
            // All that was said stays as it was cut, but for the end of a turn
            // that the model did not choose.
            let ended = known.last().is_some_and(|&id| s.tokenizer().is_end(id) && id != 691);
            let stays = &known[..known.len() - usize::from(ended)];
            assert_eq!(&s.ids()[..stays.len()], stays, "{prefix} {turn}");
            assert_eq!(done.reused, read.min(stays.len()), "{prefix} {turn}");
            let text = answer(&mut s, 17);
            // Broken characters cannot be told from what they are shown as.
            if text.contains('\u{fffd}') {
                lines.push(Line(2, String::new()));
                s.forget();
            } else {
                lines.push(Line(2, text));
            }
        }
    }
}

#[test]
fn tokens_do_not_depend_on_what_was_said_before() {
    let file = chat_model(true);
    let talks: [&[Line]; 4] = [
        &[Line(0, "abcd".into()), Line(1, "one two".into())],
        &[Line(0, "abce".into()), Line(1, "one two".into())],
        &[Line(0, "abcd".into()), Line(1, "one tw".into()), Line(2, "x".into()), Line(1, "ab".into())],
        &[Line(1, "one <|im_end|> two".into())],
    ];
    let mut s = session(file, &Params::greedy());
    for talk in talks.iter().chain(&talks).chain(talks.iter().rev()) {
        prompt(&mut s, talk).unwrap();
        let mut alone = session(file, &Params::greedy());
        prompt(&mut alone, talk).unwrap();
        assert_eq!(s.ids(), alone.ids());
    }
    // Where nobody tries to smuggle in control tokens it is the plain encoding.
    prompt(&mut s, talks[2]).unwrap();
    let mut text = String::new();
    let mut plain = katydid_core::chat::Plain(&mut text);
    Style::ChatMl.render(&[], &&turns(talks[2])[..], &mut plain).unwrap();
    let (mut scratch, mut out) = (vec![0; 4096], vec![0; 400]);
    let how = Encode { bos: Add::Auto, eos: Add::Never, parse_special: true };
    let n = s.tokenizer().encode(text.as_bytes(), how, &mut scratch, &mut out).unwrap();
    assert_eq!(s.ids(), &out[..n]);
    prompt(&mut s, talks[3]).unwrap();
    assert_eq!(s.ids().iter().filter(|&&id| id == 691).count(), 1, "nobody ends his own turn");
}

#[test]
fn full_stopped_and_failed() {
    let file = chat_model(false);
    let mut s = session(file, &Params::greedy());
    let short = [Line(1, "hi".into())];
    prompt(&mut s, &short).unwrap();
    for length in [CONTEXT - 20, CONTEXT, 10 * CONTEXT] {
        let long = [short[0].clone(), Line(1, "\u{1}".repeat(length))];
        assert_eq!(prompt(&mut s, &long), Err(SessionError::Full { have: CONTEXT }));
        let again = prompt(&mut s, &short).unwrap();
        assert!(again.reused > 3, "what is the same stays");
    }
    let logits: Vec<u32> = s.logits().iter().map(|l| l.to_bits()).collect();
    assert!(logits == anew(file, s.ids()));
    // Stopped after the first batch, then whole.
    let longer = [Line(1, "ab ".repeat(60))];
    let talk = turns(&longer);
    let stopped = s.prompt(&OneWorker, &Style::ChatMl, &[], &&talk[..], &mut |_, _| false);
    assert!(matches!(stopped, Err(SessionError::Eval(EvalError::Stopped { .. }))));
    let read = s.engine().position();
    assert_eq!(prompt(&mut s, &longer).unwrap().reused, read);
    let logits: Vec<u32> = s.logits().iter().map(|l| l.to_bits()).collect();
    assert!(logits == anew(file, s.ids()));
    // A template that fails half way.
    let failed = s.prompt_with(
        &OneWorker,
        &mut |out| {
            out.control("<|im_start|>user\nab ab")?;
            Err(katydid_core::chat::TemplateError::Failed)
        },
        &mut |_, _| true,
    );
    assert_eq!(failed, Err(SessionError::Template(katydid_core::chat::TemplateError::Failed)));
    prompt(&mut s, &longer).unwrap();
    let logits: Vec<u32> = s.logits().iter().map(|l| l.to_bits()).collect();
    assert!(logits == anew(file, s.ids()));
    // An answer that fills the context ends, and the next prompt says so.
    let text = answer(&mut s, 10 * CONTEXT);
    assert!(s.ids().len() <= CONTEXT && !text.is_empty());
}
