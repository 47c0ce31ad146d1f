//! Schemas made of fuzz input, and texts under them: an answer in bounded time
//! and memory; whatever was accepted can be ended as shortly as said, and is
//! then accepted whole.
#![no_main]

use katydid_core::arena::{ALIGN, Arena};
use katydid_core::grammar::{
    Grammar, Limits, Matcher, Memory, Options, Scratch, Spacing, Stacks, Trigger, Wrap,
};
use katydid_core::plan::MemoryPlan;
use libfuzzer_sys::fuzz_target;

/// Memory that `lay_out` takes, and a little more.
fn memory(lay_out: impl FnOnce(&mut MemoryPlan)) -> Vec<u8> {
    let mut plan = MemoryPlan::new();
    lay_out(&mut plan);
    vec![0xa5; plan.total() as usize + ALIGN]
}

fuzz_target!(|data: &[u8]| {
    // Flags, the schema, and after a NUL the text.
    let Some((&flags, rest)) = data.split_first() else { return };
    let cut = rest.iter().position(|&b| b == 0).unwrap_or(rest.len());
    let Ok(schema) = std::str::from_utf8(&rest[..cut]) else { return };
    let text = rest.get(cut + 1..).unwrap_or(&[]);
    let limits = Limits { values: 200, states: 600, pattern: 100, depth: 6, threads: 6, ..Limits::small() };
    let mut bytes = memory(|p| {
        drop(Memory::lay_out(p, &limits));
        drop(Scratch::lay_out(p, &limits));
        drop(Stacks::lay_out(p, &limits));
    });
    let mut arena = Arena::new(&mut bytes);
    let tables = Memory::lay_out(&mut arena, &limits).unwrap();
    let mut scratch = Scratch::lay_out(&mut arena, &limits).unwrap();
    let stacks = Stacks::lay_out(&mut arena, &limits).unwrap();
    let triggers = [Trigger { text: "<t>", part: false }];
    let options = Options {
        spacing: [Spacing::Compact, Spacing::Spaced, Spacing::Either][usize::from(flags) % 3],
        closed: flags & 4 != 0,
        wrap: (flags & 8 != 0).then_some(Wrap {
            triggers: &triggers,
            lead: "",
            tail: "</t>",
            again: flags & 16 != 0,
        }),
    };
    let grammar = match Grammar::compile(schema, &options, tables, &mut scratch) {
        Ok(grammar) => grammar,
        Err(e) => {
            assert!(!e.to_string().is_empty());
            return;
        }
    };
    let mut m = Matcher::new(grammar, stacks).unwrap();
    let mut whole = Vec::new();
    for &b in text.iter().take(200) {
        if m.advance(b) {
            whole.push(b);
        }
    }
    // What is forced may come.
    let mut forced = [0; 40];
    let n = m.forced(&mut forced);
    assert!(m.accepts(forced[..n].iter().copied()));
    let need = m.min_left();
    if need > 2000 {
        return;
    }
    let mut end = vec![0; need];
    let n = m.close(&mut end).expect("an end of the length said");
    assert_eq!(n, need);
    whole.extend(&end);
    m.restart();
    assert!(m.advance_all(whole.iter().copied()) && m.can_end());
    if options.wrap.is_none() {
        std::str::from_utf8(&whole).expect("text");
    }
});
