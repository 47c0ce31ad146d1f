//! Whole requests, and a registry that runs their calls.

use super::*;
use core::fmt::Write;

/// A model that says what it was told to: `name {…}` calls, other text is text.
struct Script<'s> {
    answers: VecDeque<&'s [&'s str]>,
    /// Bytes of texts that it can read.
    most: usize,
    seen: Vec<(usize, usize)>,
}

impl Model for Script<'_> {
    type Error = &'static str;

    fn read(&mut self, turns: &dyn Turns, tools: &[ToolSpec<'_>]) -> Result<Read, Self::Error> {
        let (mut n, mut bytes) = (0, 0);
        turns
            .each(&mut |turn| {
                n += 1;
                bytes += std::format!("{turn:?}").len();
                Ok(())
            })
            .map_err(|_| "turns")?;
        if bytes > self.most {
            return Ok(Read::TooLong);
        }
        self.seen.push((n, tools.len()));
        Ok(Read::Ready)
    }

    fn answer(&mut self, heard: &mut dyn Heard) -> Result<End, Self::Error> {
        for piece in self.answers.pop_front().ok_or("no more answers")? {
            let done = match piece.split_once(" {") {
                Some((name, _)) => heard.called(name, &piece[name.len() + 1..]),
                None => heard.said(piece),
            };
            if done.is_err() {
                break;
            }
        }
        Ok(End::Natural)
    }
}

/// Runs a request for a sum; `test` sees what came of it.
fn drive(
    answers: &[&[&str]],
    most: usize,
    test: impl FnOnce(Result<Outcome, &str>, &Agent<'_>, &Script<'_>, u32),
) {
    let runs = core::cell::Cell::new(0);
    let mut add = |arguments: Arguments<'_>, out: &mut dyn Write| {
        runs.set(runs.get() + 1);
        let sum =
            arguments.get_i64("a")?.checked_add(arguments.get_i64("b")?).ok_or(Failed::new("too large"))?;
        Ok(write!(out, "{sum}")?)
    };
    let mut now = |_: Arguments<'_>, out: &mut dyn Write| Ok((0..500).try_for_each(|i| write!(out, "{i} "))?);
    let mut entries = [Entry::new(TOOLS[0], &mut add), Entry::new(TOOLS[1], &mut now)];
    let tools = specs(&entries);
    let mut registry = Registry::new(&mut entries);
    let (mut memory, mut room) = ([0; 4000], [0; 1000]);
    let mut agent = Agent::new(Log::new(&mut memory, 5), &tools, Bounds { steps: 3, ..Bounds::default() });
    let mut model = Script { answers: answers.iter().copied().collect(), most, seen: Vec::new() };
    agent.ask("What is 1 + 2?").unwrap();
    let outcome = run(&mut agent, &mut registry, &mut model, &mut room);
    test(outcome, &agent, &model, runs.get());
}

#[test]
fn a_request_is_run_to_its_answer() {
    let answers: [&[&str]; 3] = [
        &["I add.", r#"add {"a":1,"b":2}"#, r#"add {"a":1}"#, r#"mul {}"#],
        &[r#"now {}"#],
        &["It is ", "3."],
    ];
    drive(&answers, usize::MAX, |outcome, agent, model, runs| {
        assert_eq!((outcome, agent.answer(), runs), (Ok(Outcome::Answered), "It is 3.", 2));
        assert_eq!(model.seen, [(1, 2), (8, 2), (10, 2)]);
        let log = turns(agent.log());
        assert_eq!(log[5], "R add 3");
        assert_eq!(log[6], "R add error: the argument \"b\" is missing: give it");
        assert_eq!(log[7], "R mul error: there is no tool \"mul\"; the tools are add, now");
        assert!(log[9].starts_with("R now 0 1 2 ") && log[9].contains("[shortened: "));
    });
}

#[test]
fn a_request_ends_whatever_the_model_does() {
    let again: &[&str] = &[r#"add {"a":1,"b":2}"#];
    drive(&[again; 9], usize::MAX, |outcome, _, model, runs| {
        assert_eq!((outcome, runs), (Ok(Outcome::Exhausted), 3));
        assert_eq!(model.seen.last(), Some(&(7, 0)), "no tools in the end");
    });
    drive(&[again], usize::MAX, |outcome, agent, _, _| {
        assert_eq!(outcome, Err("no more answers"));
        assert_eq!(agent.step(), Step::Done(Outcome::Stopped));
    });
    drive(&[&["now {}"], &["ok"]], 600, |outcome, agent, _, _| {
        assert_eq!(outcome, Ok(Outcome::Answered), "long results are cut until they can be read");
        assert!(turns(agent.log())[2].len() < 300);
    });
    drive(&[&["ok"]], 10, |outcome, _, _, _| assert_eq!(outcome, Ok(Outcome::TooLong)));
    let long = "x".repeat(5000);
    drive(&[&["a", &long, "b"]], usize::MAX, |outcome, _, _, _| {
        assert!(matches!(outcome, Ok(Outcome::Full(_))));
    });
}

#[test]
fn a_registry_runs_what_keeps_to_the_grammar() {
    use crate::arena::Arena;
    use crate::chat::Call;
    use crate::grammar::{Grammar, Limits, Memory, Options, Scratch, Stacks};
    let (mut memory, limits) = (std::vec![0; 1 << 20], Limits::small());
    let mut arena = Arena::new(&mut memory);
    let place = Memory::lay_out(&mut arena, &limits).unwrap();
    let mut scratch = Scratch::lay_out(&mut arena, &limits).unwrap();
    let grammar = Grammar::compile(TOOLS[0].parameters, &Options::default(), place, &mut scratch).unwrap();
    let runs = core::cell::Cell::new(0);
    let mut add = |_: Arguments<'_>, _: &mut dyn Write| {
        runs.set(runs.get() + 1);
        Ok(())
    };
    let mut fails = |_: Arguments<'_>, out: &mut dyn Write| {
        out.write_str("half")?;
        Err(Failed::format(format_args!("bus {}", 3)))
    };
    let mut entries = [Entry::new(TOOLS[0], &mut add).checked(grammar), Entry::new(TOOLS[1], &mut fails)];
    let stacks = Stacks::lay_out(&mut arena, &limits).unwrap();
    let mut registry = Registry::with_stacks(&mut entries, stacks);
    let mut out = [0; 200];
    let mut call = |name, arguments| {
        let ran = registry.run(&Call { id: "c", name, arguments }, &mut out);
        (String::from(ran.text), ran.failed.is_none())
    };
    assert_eq!(call("add", r#"{"b":2, "a":1}"#), ("done".into(), true));
    assert_eq!(call("add", r#"{"b":2.5,"a":1}"#).0, "the argument \"b\" does not keep to the tool's schema");
    assert_eq!(
        call("add", r#"{"b":2"#),
        ("the arguments are not a JSON object: it ends too soon at byte 6; call again".into(), false)
    );
    assert_eq!(call("now", ""), ("half\nbus 3".into(), false));
    assert!(!call("mul", "{}").1);
    let mut registry = Registry::new(&mut entries);
    let ran = registry.run(&Call { id: "c", name: "add", arguments: r#"{"a":1,"b":2}"# }, &mut out);
    assert_eq!(ran.failed, Some(RunError::NoStacks));
    assert_eq!(runs.get(), 1);
}
