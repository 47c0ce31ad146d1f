//! The loop from door to door, and doors in any order.

mod requests;

use core::fmt;
use std::collections::VecDeque;
use std::string::{String, ToString};
use std::vec::Vec;

use proptest::prelude::*;

use super::*;
use crate::chat::{ToolSpec, Turn, Turns};

const TOOLS: [ToolSpec<'static>; 2] = [
    ToolSpec {
        name: "add",
        description: "Adds.",
        parameters: r#"{"properties":{"a":{"type":"integer"},"b":{"type":"integer"}},"required":["a","b"]}"#,
    },
    ToolSpec { name: "now", description: "The time.", parameters: "" },
];

/// The turns in short.
fn turns(log: &Log<'_>) -> Vec<String> {
    log.turns()
        .map(|turn| match turn {
            Turn::System(t) => std::format!("S {t}"),
            Turn::User(t) => std::format!("U {t}"),
            Turn::Assistant(t) => std::format!("A {t}"),
            Turn::Call(c) => std::format!("C {} {}", c.name, c.arguments),
            Turn::Result(r) => std::format!("R {} {}", r.name, r.content),
        })
        .collect()
}

fn with_agent(room: usize, bounds: Bounds, test: impl FnOnce(Agent<'_>)) {
    let mut memory = std::vec![0xa5; room];
    test(Agent::new(Log::new(&mut memory, 1), &TOOLS, bounds));
}

/// Asks, and has the model call.
fn asked(agent: &mut Agent<'_>, calls: &[(&str, &str)]) {
    if agent.step() != (Step::Think { tools: true }) {
        agent.ask("q").unwrap();
    }
    calls.iter().for_each(|(name, arguments)| agent.called(name, arguments).unwrap());
    agent.answered(End::Natural).unwrap();
}

fn ids(agent: &mut Agent<'_>) -> Vec<CallId> {
    std::iter::from_fn(|| agent.next_call().map(|c| c.id)).collect()
}

#[test]
fn results_stand_in_the_order_of_the_calls() {
    with_agent(4000, Bounds::default(), |mut agent| {
        agent.ask("q").unwrap();
        agent.said("Let me ").unwrap();
        agent.called("add", "{\"a\":1}").unwrap();
        agent.said("see.").unwrap();
        agent.called("now", "").unwrap();
        agent.called("now", "{\"x\":0}").unwrap();
        assert_eq!(agent.step(), Step::Think { tools: true });
        assert!(agent.next_call().is_none(), "not before the answer ends");
        agent.answered(End::Natural).unwrap();
        let first = agent.next_call().unwrap();
        assert_eq!((first.tool, first.call.arguments), (0, "{\"a\":1}"));
        let mut all = std::vec![first.id];
        all.extend(ids(&mut agent));
        assert_eq!(all.len(), 3);
        assert_eq!(agent.step(), Step::Calls);
        agent.result(all[2].as_str(), true, "third").unwrap();
        agent.result(all[0].as_str(), false, "first").unwrap();
        assert!(matches!(agent.result(all[0].as_str(), true, ""), Err(AgentError::Twice(_))));
        assert!(matches!(agent.result("call_", true, ""), Err(AgentError::NoCall(_))));
        agent.result(all[1].as_str(), true, "second").unwrap();
        assert_eq!(agent.step(), Step::Think { tools: true });
        agent.said("Done.").unwrap();
        agent.answered(End::Natural).unwrap();
        assert_eq!(agent.step(), Step::Done(Outcome::Answered));
        assert_eq!((agent.answer(), agent.steps()), ("Done.", 1));
        assert_eq!(
            turns(agent.log()),
            [
                "U q",
                "A Let me see.",
                "C add {\"a\":1}",
                "C now {}",
                "C now {\"x\":0}",
                "R add error: first",
                "R now second",
                "R now third",
                "A Done."
            ]
        );
    });
}

#[test]
fn calls_that_must_not_run_come_back_as_results() {
    let bounds = Bounds { calls: 3, repeats: 2, ..Bounds::default() };
    with_agent(8000, bounds, |mut agent| {
        let long = "no_such_tool_".repeat(20);
        asked(&mut agent, &[(&long, "{}"), ("now", "{\"x\":"), ("add", "[1]"), ("now", "{}"), ("now", "{}")]);
        assert!(agent.next_call().is_none());
        assert_eq!(agent.step(), Step::Think { tools: true }, "nothing to run: the model goes on");
        assert_eq!(agent.ignored(), 1);
        let log = turns(agent.log());
        assert_eq!(log[1], std::format!("C {} {{}}", &long[..64]));
        assert_eq!(log[2..5], ["C now {}", "C add {}", "C now {}"]);
        assert!(
            log[5].contains("there is no tool \"no_such_tool_")
                && log[5].ends_with("; the tools are add, now")
        );
        assert!(log[6].contains("it ends too soon at byte 5"), "{}", log[6]);
        assert!(log[7].contains("no { begins it at byte 0"));
        assert!(log[8].contains("at most 3 at a time"));
        for time in 1..=4 {
            asked(&mut agent, &[("add", "{}")]);
            let due = ids(&mut agent);
            assert_eq!(due.len(), usize::from(time <= 2), "{time}");
            due.iter().for_each(|id| agent.result(id.as_str(), true, "1").unwrap());
        }
        assert!(turns(agent.log()).last().unwrap().contains("the same call came 4 times in a row"));
        asked(&mut agent, &[("add", "{\"a\":2}"), ("add", "{}")]);
        assert_eq!(ids(&mut agent).len(), 2, "another call in between");
    });
}

#[test]
fn after_the_last_step_there_are_no_tools() {
    let bounds = Bounds { steps: 2, ..Bounds::default() };
    for (say, outcome) in [("5", Outcome::Answered), (" ", Outcome::Exhausted), ("", Outcome::Exhausted)] {
        with_agent(4000, bounds, |mut agent| {
            for _ in 0..2 {
                asked(&mut agent, &[("now", "{}")]);
                let id = ids(&mut agent)[0];
                agent.result(id.as_str(), true, "").unwrap();
            }
            assert_eq!(agent.step(), Step::Think { tools: false });
            agent.said(say).unwrap();
            agent.called("now", "{}").unwrap();
            agent.answered(End::Natural).unwrap();
            assert_eq!(agent.step(), Step::Done(outcome));
            assert_eq!(agent.ignored(), 1);
            assert!(matches!(agent.log().turns().last(), Some(Turn::Assistant(_))));
        });
    }
}

#[test]
fn a_cut_call_is_not_run_and_a_whole_one_before_it_is() {
    with_agent(4000, Bounds::default(), |mut agent| {
        agent.ask("q").unwrap();
        agent.called("now", "{}").unwrap();
        agent.called("add", "{\"a\":1,").unwrap();
        agent.answered(End::Cut).unwrap();
        let due = ids(&mut agent);
        assert_eq!(due.len(), 1);
        agent.result(due[0].as_str(), true, "noon").unwrap();
        assert!(turns(agent.log()).last().unwrap().contains("the answer ended within this call"));
        agent.said("It is").unwrap();
        agent.answered(End::Cut).unwrap();
        assert_eq!(agent.step(), Step::Done(Outcome::Cut));
    });
}

#[test]
fn stopping_leaves_a_whole_conversation() {
    with_agent(4000, Bounds::default(), |mut agent| {
        agent.stop();
        assert_eq!(agent.step(), Step::Idle);
        asked(&mut agent, &[("now", "{}"), ("add", "{}")]);
        let due = ids(&mut agent);
        agent.result(due[1].as_str(), true, "3").unwrap();
        agent.stop();
        assert_eq!(agent.step(), Step::Done(Outcome::Stopped));
        assert_eq!(agent.answer(), "");
        let late = agent.result(due[0].as_str(), true, "late").unwrap_err();
        assert_eq!(late.to_string(), "a result came while a question is due");
        let log = turns(agent.log());
        assert_eq!(log[3..], ["R now error: not run: the request was stopped", "R add 3", "A (no answer)"]);
        // An answer that is stopped runs none of its calls.
        agent.ask("again").unwrap();
        agent.said("Well").unwrap();
        agent.called("now", "{}").unwrap();
        agent.answered(End::Stopped).unwrap();
        assert_eq!((agent.step(), agent.answer()), (Step::Done(Outcome::Stopped), "Well"));
        assert!(agent.next_call().is_none());
        agent.ask("silent").unwrap();
        agent.answered(End::Natural).unwrap();
        assert_eq!(agent.step(), Step::Done(Outcome::Silent));
    });
}

#[test]
fn a_full_log_forgets_then_cuts_then_says_so() {
    with_agent(600, Bounds::default(), |mut agent| {
        agent.edit().unwrap().set_system("s").unwrap();
        for text in ["one", "two"] {
            agent.ask(text).unwrap();
            agent.said(&"x".repeat(100)).unwrap();
            agent.answered(End::Natural).unwrap();
        }
        asked(&mut agent, &[("now", "{}"), ("add", "{}")]);
        assert_eq!(agent.forgotten(), 2, "room for two results is kept");
        assert!(turns(agent.log())[..2] == ["S s", "U q"]);
        let due = ids(&mut agent);
        agent.result(due[1].as_str(), true, &"y".repeat(5000)).unwrap();
        agent.result(due[0].as_str(), true, &"z".repeat(150)).unwrap();
        let log = turns(agent.log());
        assert_eq!(log[4], std::format!("R now {}", "z".repeat(150)));
        assert!(log[5].contains("bytes left out]"), "{}", log[5]);
        let full = agent.said(&"x".repeat(600)).unwrap_err();
        assert!(matches!(full, AgentError::Full(_)) && matches!(agent.step(), Step::Done(Outcome::Full(_))));
        assert_eq!(turns(agent.log()).last().unwrap(), "A (no answer)");
        assert!(matches!(agent.ask(&"x".repeat(700)), Err(AgentError::Full(_))));
        assert_eq!(agent.log().turns().count(), 7, "nothing is forgotten in vain");
        agent.ask(&"x".repeat(540)).unwrap();
        assert_eq!(agent.log().turns().count(), 2);
    });
}

#[test]
fn doors_say_whose_turn_it_is() {
    with_agent(2000, Bounds::default(), |mut agent| {
        assert_eq!(
            agent.said("x").unwrap_err().to_string(),
            "text of an answer came while a question is due"
        );
        agent.ask("q").unwrap();
        assert_eq!(agent.ask("q").unwrap_err().to_string(), "a question came while an answer is due");
        assert!(agent.edit().is_err() && agent.resume().is_err() && agent.result("x", true, "").is_err());
        asked(&mut agent, &[("now", "{}")]);
        let due = agent.called("now", "{}").unwrap_err();
        assert_eq!(due.to_string(), "a call came while results are due");
        agent.stop();
        agent.resume().unwrap();
        assert_eq!(agent.step(), Step::Think { tools: true });
    });
    let mut memory = [0; 500];
    let mut agent = Agent::new(Log::new(&mut memory, 1), &[], Bounds::default());
    agent.ask("q").unwrap();
    assert_eq!(agent.step(), Step::Think { tools: false });
    agent.answered(End::Natural).unwrap();
    assert_eq!(agent.step(), Step::Done(Outcome::Silent));
}

/// Whether a conversation is one: every call answered once, in order, before
/// anything else comes, but where results are still due.
fn whole(log: &Log<'_>, due: bool) -> bool {
    let (mut calls, mut ids) = (VecDeque::new(), std::collections::BTreeSet::new());
    for turn in log.turns() {
        let fine = match turn {
            Turn::Call(c) => {
                calls.push_back(c.id.to_string());
                ids.insert(c.id.to_string()) && Arguments::read(c.arguments).is_ok()
            }
            Turn::Result(r) if due => {
                let skipped = calls.iter().position(|id| id == r.id);
                skipped.map(|n| calls.drain(..=n)).is_some()
            }
            Turn::Result(r) => calls.pop_front().is_some_and(|id| id == r.id),
            _ => due || calls.is_empty(),
        };
        if !fine {
            return false;
        }
    }
    due || calls.is_empty()
}

#[derive(Clone, Debug)]
enum Op {
    Ask(usize),
    Said(usize),
    Called(usize, usize),
    Answered(usize),
    Next,
    Result(usize, bool, usize),
    Stop,
    Shorten,
    Resume,
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        2 => (0usize..80).prop_map(Op::Ask),
        3 => (0usize..60).prop_map(Op::Said),
        6 => (0usize..4, 0usize..6).prop_map(|(t, a)| Op::Called(t, a)),
        4 => (0usize..6).prop_map(Op::Answered),
        5 => Just(Op::Next),
        6 => (0usize..6, any::<bool>(), 0usize..400).prop_map(|(i, ok, n)| Op::Result(i, ok, n)),
        1 => Just(Op::Stop),
        1 => Just(Op::Shorten),
        1 => Just(Op::Resume),
    ]
}

proptest! {
    #[test]
    fn any_order_of_doors_keeps_the_conversation_whole(
        ops in prop::collection::vec(op(), 0..120),
        room in 0usize..3000,
        steps in 1u16..4,
        calls in 0u8..5,
        result in 0usize..300,
    ) {
        let mut memory = std::vec![0xa5; room];
        let bounds = Bounds { steps, calls, result, repeats: 2 };
        let mut agent = Agent::new(Log::new(&mut memory, 9), &TOOLS, bounds);
        let (mut handed, mut open): (Vec<CallId>, Vec<CallId>) = Default::default();
        for op in ops {
            let before = (agent.step(), turns(agent.log()));
            let done = match op {
                Op::Ask(n) => agent.ask(&"é".repeat(n)),
                Op::Said(n) => agent.said(&"ö".repeat(n)),
                Op::Called(t, a) => {
                    let name = ["add", "now", "mul", ""][t];
                    agent.called(name, ["", "{}", "{\"a\":1}", "{\"a\":", "[]", "{\"a\":[{}]}"][a])
                }
                Op::Answered(e) => agent.answered([End::Natural, End::Natural, End::Natural, End::Natural, End::Cut, End::Stopped][e]),
                Op::Next => {
                    if let Some(call) = agent.next_call() {
                        prop_assert!(!handed.contains(&call.id), "handed out twice");
                        prop_assert_eq!(call.call.name, TOOLS[call.tool].name);
                        handed.push(call.id);
                        open.push(call.id);
                    }
                    Ok(())
                }
                Op::Result(i, ok, n) => match open.get(i).copied() {
                    None => agent.result("call_0", ok, ""),
                    Some(id) => {
                        let done = agent.result(id.as_str(), ok, &"ü".repeat(n));
                        open.retain(|o| done.is_err() || *o != id);
                        done
                    }
                },
                Op::Stop => { agent.stop(); Ok(()) }
                Op::Shorten => { agent.shorten(); Ok(()) }
                Op::Resume => agent.resume(),
            };
            if agent.step() != Step::Calls { open.clear(); }
            match done {
                Ok(()) => {}
                Err(AgentError::Full(full)) => prop_assert!(full.need > full.have),
                Err(_) => prop_assert_eq!(&before, &(agent.step(), turns(agent.log()))),
            }
            let due = matches!(agent.step(), Step::Calls) || !matches!(agent.step(), Step::Think { .. } | Step::Done(_) | Step::Idle);
            let midway = matches!(agent.step(), Step::Think { .. });
            // An answer is asked for only where all before is in order.
            let asked = midway && before.0 != agent.step();
            prop_assert!(!asked || whole(agent.log(), false), "{:?}", turns(agent.log()));
            prop_assert!(agent.steps() <= steps);
            prop_assert!(whole(agent.log(), due || midway), "{:?}", turns(agent.log()));
            if let Step::Done(outcome) = agent.step() {
                prop_assert!(whole(agent.log(), false), "{:?}", turns(agent.log()));
                prop_assert!(outcome != Outcome::Answered || !agent.answer().trim().is_empty());
            }
            for turn in agent.log().turns() {
                if let Turn::Result(r) = turn { prop_assert!(r.content.len() <= result.max(160)); }
            }
        }
    }
}

#[test]
fn errors_and_outcomes_have_words() {
    let full = LogFull { need: 2, have: 1 };
    for outcome in [
        Outcome::Answered,
        Outcome::Cut,
        Outcome::Stopped,
        Outcome::Silent,
        Outcome::Exhausted,
        Outcome::Full(full),
        Outcome::TooLong,
    ] {
        assert!(!outcome.to_string().is_empty());
    }
    assert_eq!(AgentError::Full(full).to_string(), full.to_string());
    assert_eq!(Failed::from(fmt::Error).to_string(), "its output could not be written");
}
