//! A mask allows just the tokens whose bytes may come.

use katydid_core::grammar::{Options, Spacing, Trigger, Wrap};
use katydid_core::sample::Constraint;

use super::support::{compile, constrained, schemas, tiny_vocab, trie, vocab};

/// Checks the mask of the state after `text` token by token.
fn check(c: &mut impl FnMut() -> (Vec<u32>, Vec<bool>), what: &str) {
    let (mask, allowed) = c();
    for (id, &allows) in allowed.iter().enumerate() {
        let bit = mask[id / 32] >> (id % 32) & 1 == 1;
        assert_eq!(bit, allows, "token {id} {what}");
    }
}

#[test]
fn masks_are_what_each_token_alone_would_be() {
    let vocabs = ["qwen2", "llama-spm", "phi-3"].into_iter().filter_map(vocab);
    for (which, t) in std::iter::once(tiny_vocab()).chain(vocabs).enumerate() {
        let trie = trie(&t);
        // Looking at every token alone is slow.
        let every = if which == 0 { 1 } else { 12 * katydid_tests::patience() as usize };
        for (i, schema) in schemas().iter().enumerate().filter(|(i, _)| i % every == which % every) {
            let spacing = [Spacing::Compact, Spacing::Spaced, Spacing::Either][i % 3];
            let grammar = compile(schema, &Options { spacing, ..Options::default() }).unwrap();
            let mut c = constrained(grammar, t, trie);
            let mut random = katydid_tests::random::Random::of(schema);
            for step in 0..8 {
                let mut both = || {
                    let mask = c.mask().to_vec();
                    (mask, (0..t.vocab_len() as u32).map(|id| c.allows(id)).collect())
                };
                check(&mut both, &format!("step {step} of {schema}"));
                let mask = c.mask().to_vec();
                let open: Vec<u32> = (0..t.vocab_len() as u32)
                    .filter(|&id| mask[id as usize / 32] >> (id % 32) & 1 == 1 && !t.is_end(id))
                    .collect();
                if open.is_empty() {
                    break;
                }
                c.accept(open[random.bits() as usize % open.len()]);
            }
        }
    }
}

#[test]
fn free_text_allows_all_but_what_breaks_the_grammar() {
    let t = tiny_vocab();
    let triggers = [Trigger { text: "ab", part: false }];
    let wrap = Wrap { triggers: &triggers, lead: "", tail: "", again: true };
    let grammar =
        compile("{\"type\":\"integer\"}", &Options { wrap: Some(wrap), ..Options::default() }).unwrap();
    let mut c = constrained(grammar, t, trie(&t));
    for text in ["", "xa", "xab", "xab12", "xab1 a"] {
        c.restart();
        assert!(c.matcher().advance_all(text.bytes()), "{text}");
        let mut both = || {
            let mask = c.mask().to_vec();
            (mask, (0..t.vocab_len() as u32).map(|id| c.allows(id)).collect())
        };
        check(&mut both, text);
    }
    c.restart();
    assert!(c.allows(1), "control tokens are free");
}

#[test]
fn forced_tokens_spell_forced_text() {
    for t in std::iter::once(tiny_vocab()).chain(vocab("qwen2")).chain(vocab("llama-spm")) {
        let trie = trie(&t);
        for schema in schemas() {
            let Ok(grammar) = compile(&schema, &Options::default()) else { continue };
            let mut c = constrained(grammar, t, trie);
            let (mut ids, mut text) = ([0; 64], [0; 400]);
            let len = c.matcher().forced(&mut text);
            let n = c.forced(&mut ids);
            let spelled: Vec<u8> = ids[..n].iter().flat_map(|&id| t.bytes(id, false)).collect();
            assert!(text[..len].starts_with(&spelled), "{schema}");
            assert!(spelled.len() + 8 >= len.min(64), "{schema}: {}", String::from_utf8_lossy(&text[..len]));
            for &id in &ids[..n] {
                assert!(c.allows(id), "{schema}");
                c.accept(id);
            }
        }
    }
}

#[test]
fn tables_stay_small() {
    for schema in schemas() {
        let grammar = compile(&schema, &Options::default()).unwrap();
        let (_, states, _) = grammar.used();
        if states > 500 {
            println!("{states} states: {schema}");
        }
    }
}
