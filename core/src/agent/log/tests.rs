//! Turns in a buffer.

use super::*;
use crate::arena::{ALIGN, Arena};
use crate::plan::MemoryPlan;
use proptest::prelude::*;
use std::string::{String, ToString};
use std::vec::Vec;

fn all(log: &Log<'_>) -> Vec<String> {
    log.turns().map(|t| std::format!("{t:?}")).collect()
}

#[test]
fn turns_come_back_as_they_were_pushed() {
    let mut plan = MemoryPlan::new();
    assert_eq!(Log::lay_out(&mut plan, 500, 1).unwrap().capacity(), 0);
    let mut memory = std::vec![0xa5; plan.total() as usize + ALIGN];
    let mut log = Log::lay_out(&mut Arena::new(&mut memory), 500, 1).unwrap();
    let call = Call { id: "c1", name: "f", arguments: "{\"é\":1}" };
    let result = CallResult { id: "c1", name: "f", content: "ok" };
    let turns =
        [Turn::User("hi"), Turn::Assistant(""), Turn::Call(call), Turn::Result(result), Turn::Assistant("x")];
    turns.iter().for_each(|&t| log.push(t).unwrap());
    assert!(log.turns().eq(turns));
    log.push(Turn::System("be")).unwrap();
    log.set_system("be brief").unwrap();
    assert!(log.turns().eq([Turn::System("be brief")].into_iter().chain(turns)));
    let mut n = 0;
    log.each(&mut |_| {
        n += 1;
        if n == 3 { Err(fmt::Error) } else { Ok(()) }
    })
    .unwrap_err();
    assert_eq!(n, 3);
    log.set_system("").unwrap();
    assert!(log.turns().eq(turns));
    log.clear();
    assert!(log.is_empty());
}

#[test]
fn a_full_log_says_so_and_stays_as_it_was() {
    let mut memory = [0; 64];
    let mut log = Log::new(&mut memory, 1);
    log.push(Turn::User("hello")).unwrap();
    let before = all(&log);
    let full = LogFull { need: 60, have: 46 };
    assert_eq!(log.push(Turn::Assistant(&"x".repeat(47))), Err(full));
    assert_eq!(log.set_system(&"x".repeat(47)), Err(full));
    assert_eq!(log.push_call("f", &"x".repeat(33)), Err(full));
    assert_eq!(log.add_text(18, &"x".repeat(47)), Err(full));
    assert!(full.to_string().contains("60 bytes more but 46 are free"));
    assert_eq!(all(&log), before);
    log.push(Turn::Assistant(&"x".repeat(33))).unwrap();
    assert_eq!(log.free(), 0);
    // A longer system text than fits leaves the old one.
    let mut log = Log::new(&mut memory, 1);
    log.set_system("0123456789").unwrap();
    assert!(log.set_system(&"x".repeat(52)).is_err() && log.set_system(&"x".repeat(51)).is_ok());
}

#[test]
fn the_oldest_exchange_goes_first_and_the_last_stays() {
    let mut memory = [0; 600];
    let mut log = Log::new(&mut memory, 1);
    log.set_system("s").unwrap();
    assert!(!log.forget_oldest());
    for text in ["a", "b", "c"] {
        log.push(Turn::User(text)).unwrap();
        let id = log.push_call("f", "{}").unwrap();
        log.push_result(id.as_str(), "f", "1", 10).unwrap();
        log.push(Turn::Assistant(text)).unwrap();
    }
    assert!(log.forget_oldest());
    assert!(log.turns().nth(1) == Some(Turn::User("b")) && log.turns().count() == 9);
    assert!(log.forget_oldest() && !log.forget_oldest());
    assert!(log.turns().next() == Some(Turn::System("s")) && log.turns().nth(1) == Some(Turn::User("c")));
}

#[test]
fn ids_are_unique_even_among_ids_of_others() {
    let mut memory = std::vec![0; 60_000];
    let mut log = Log::new(&mut memory, 7);
    let first = CallId::new(mix(8));
    log.push(Turn::Call(Call { id: first.as_str(), name: "f", arguments: "{}" })).unwrap();
    let ids: std::collections::BTreeSet<String> =
        (0..1000).map(|_| log.push_call("f", "{}").unwrap().to_string()).collect();
    assert!(ids.len() == 1000 && !ids.contains(first.as_str()));
    assert!(ids.iter().all(|id| id.len() == 13 && id.starts_with("call_")));
    let mut other = [0; 100];
    let mut other = Log::new(&mut other, 7);
    assert!(ids.contains(other.push_call("g", "{}").unwrap().as_str()), "from the seed alone");
}

#[test]
fn long_results_are_cut_with_a_note() {
    let mut memory = [0; 400];
    let mut log = Log::new(&mut memory, 1);
    log.push_result("c", "f", &"é".repeat(200), 101).unwrap();
    let Some(Turn::Result(r)) = log.turns().next() else { panic!() };
    assert!(r.content.len() <= 101 && r.content.ends_with("\n[shortened: 352 bytes left out]"));
}

#[test]
fn the_longest_result_is_halved_until_all_are_short() {
    let mut memory = [0; 4000];
    let mut log = Log::new(&mut memory, 1);
    log.push(Turn::User("q")).unwrap();
    log.push_result("a", "f", &"a".repeat(900), 2000).unwrap();
    log.push_result("b", "f", &"é".repeat(1000), 3000).unwrap();
    log.push(Turn::Assistant("x")).unwrap();
    let (mut used, mut times) = (log.used(), 0);
    loop {
        let freed = log.halve_longest();
        assert_eq!(log.used(), used - freed);
        used = log.used();
        times += 1;
        if freed == 0 {
            break;
        }
    }
    assert_eq!(times, 7);
    let texts: Vec<Turn<'_>> = log.turns().collect();
    assert!(texts[0] == Turn::User("q") && texts[3] == Turn::Assistant("x"));
    let (Turn::Result(a), Turn::Result(b)) = (texts[1], texts[2]) else { panic!() };
    assert_eq!((a.id, b.id), ("a", "b"));
    for (content, all) in [(a.content, 900), (b.content, 2000)] {
        let (kept, note) = content.split_once("\n[shortened: ").unwrap();
        let left: usize = note.split(' ').next().unwrap().parse().unwrap();
        assert_eq!(kept.len() + left, all, "{content}");
    }
}

proptest! {
    #[test]
    fn a_log_is_a_list_of_turns(ops in prop::collection::vec((0u8..8, "[a-zé]{0,12}"), 0..60), room in 0usize..400) {
        let mut memory = std::vec![0xa5; room];
        let mut log = Log::new(&mut memory, 3);
        let mut model: Vec<(u8, String)> = Vec::new();
        for (op, text) in &ops {
            let before = all(&log);
            let done = match op {
                0 => log.push(Turn::System(text)),
                1 | 2 => log.push(Turn::User(text)),
                3 => log.push(Turn::Assistant(text)),
                4 => log.push_call(text, "{}").map(drop),
                5 => log.push_result("id", "n", text, 8),
                6 => { log.forget_oldest(); Ok(()) }
                _ => { log.set_system("")?; Ok(()) }
            };
            if let Err(full) = done {
                prop_assert!(full.need > full.have);
                prop_assert_eq!(all(&log), before);
                continue;
            }
            match op {
                0 | 7 => {
                    model.retain(|(op, _)| *op != 0);
                    if *op == 0 && !text.is_empty() { model.insert(0, (0, text.clone())); }
                }
                6 => {
                    let start = model.iter().filter(|(op, _)| *op == 0).count();
                    let user = |(op, _): &(u8, String)| *op == 1;
                    if let Some(n) = model.iter().skip(start + 1).position(user) {
                        model.drain(start..start + 1 + n);
                    }
                }
                5 => model.push((5, text[..text.floor_char_boundary(8)].to_string())),
                op => model.push(((*op).max(1) - u8::from(*op == 2), text.clone())),
            }
            let got: Vec<(u8, String)> = log.turns().map(|t| match t {
                Turn::System(t) => (0, t.into()),
                Turn::User(t) => (1, t.into()),
                Turn::Assistant(t) => (3, t.into()),
                Turn::Call(c) => (4, c.name.into()),
                Turn::Result(r) => (5, if r.content.starts_with("\n[") || r.content.len() > 8 { "?".into() } else { r.content.into() }),
            }).collect();
            let same = got.len() == model.len()
                && got.iter().zip(&model).all(|(a, b)| a.0 == b.0 && (a.0 == 5 || a.1 == b.1));
            prop_assert!(same, "{:?} {:?}", got, model);
            prop_assert_eq!(log.used() + log.free(), room);
        }
    }
}
