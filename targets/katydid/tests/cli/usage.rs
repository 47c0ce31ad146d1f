//! Arguments, right and wrong.

use super::{fails, good, katydid, model, text};

#[test]
fn help_of_every_verb() {
    let all = good(&mut katydid(["--help"]));
    for verb in ["run", "inspect", "tokenize", "eval", "bench"] {
        assert!(all.contains(verb), "{verb}");
        let help = good(&mut katydid([verb, "--help"]));
        assert!(help.contains("Usage: katydid") && help.contains(verb), "{help}");
        assert!(!good(&mut katydid([verb, "-h"])).is_empty());
    }
    for what in ["logits", "greedy", "perplexity"] {
        assert!(good(&mut katydid(["eval", what, "--help"])).contains("<MODEL>"));
    }
    assert!(good(&mut katydid(["--version"])).starts_with("katydid "));
}

#[test]
fn mistakes_are_usage_errors() {
    let wrong: &[&[&str]] = &[
        &["rum"],
        &["run"],
        &["run", "m.gguf", "--promt", "x"],
        &["run", "m.gguf", "-n", "many"],
        &["run", "m.gguf", "-n", "-1"],
        &["run", "m.gguf", "-j", "two"],
        &["run", "m.gguf", "-t", "hot"],
        &["run", "m.gguf", "-c", "99999999999999999999"],
        &["run", "m.gguf", "--ram", "lots"],
        &["run", "m.gguf", "--ram", "5 miles"],
        &["run", "m.gguf", "--logit-bias", "5"],
        &["eval"],
        &["eval", "logit", "m.gguf"],
        &["eval", "logits", "m.gguf", "--out", "x"],
        &["tokenize", "m.gguf", "--ids", "--json"],
        &["tokenize", "m.gguf", "--decode", "--bos"],
    ];
    for args in wrong {
        let output = katydid(*args).output().unwrap();
        let (out, err) = (text(&output.stdout), text(&output.stderr));
        assert_eq!(output.status.code(), Some(2), "{args:?}: {err}");
        assert!(out.is_empty() && err.contains("--help"), "{args:?}: {out} {err}");
    }
    let nothing: [&str; 0] = [];
    assert_eq!(katydid(nothing).output().unwrap().status.code(), Some(2));
    let err = katydid(["rum"]).output().unwrap().stderr;
    assert!(text(&err).contains("run"), "a typo is corrected");
}

#[test]
fn numbers_out_of_range() {
    let run = |args: &[&str]| katydid([&["run", model(), "-p", "a"], args].concat());
    // The message names the flag, the value and what is allowed; the exit code is
    // that of other mistakes in arguments.
    let refuses = |args: &[&str], flag: &str, allowed: &str| {
        let output = katydid(args).output().unwrap();
        let (out, err) = (text(&output.stdout), text(&output.stderr));
        assert_eq!(output.status.code(), Some(2), "{args:?}: {err}");
        assert!(out.is_empty() && err.contains("--help"), "{args:?}: {out} {err}");
        let value = args.last().unwrap().rsplit(',').next().unwrap();
        assert!(err.contains(&format!("'{value}' for '{flag}")) && err.contains(allowed), "{args:?}: {err}");
    };
    let tokens = "allowed: whole numbers from 1 to 2147483647";
    for (flag, value, name, allowed) in [
        ("-c", "0", "--context", tokens),
        ("-c", "2147483648", "--context", tokens),
        ("-c", "18446744073709551615", "--context", tokens),
        ("-b", "0", "--batch", tokens),
        ("-j", "0", "--threads", "allowed: whole numbers from 1 to 1024"),
        ("-j", "1025", "--threads", "from 1 to 1024"),
        ("-t", "nan", "--temperature", "allowed: numbers from 0 to 100"),
        ("-t", "inf", "--temperature", "from 0 to 100"),
        ("-t", "-1", "--temperature", "from 0 to 100"),
        ("--top-p", "5", "--top-p", "allowed: numbers from 0 to 1"),
        ("--top-p", "nan", "--top-p", "from 0 to 1"),
        ("--top-p", "-0.5", "--top-p", "from 0 to 1"),
        ("--min-p", "2", "--min-p", "from 0 to 1"),
        ("--repeat-penalty", "0", "--repeat-penalty", "from 0.01 to 100"),
        ("--frequency-penalty", "1000", "--frequency-penalty", "from -100 to 100"),
        ("--presence-penalty", "-1000", "--presence-penalty", "from -100 to 100"),
        ("--logit-bias", "3=nan", "--logit-bias", "allowed: like 13=-2.5"),
        ("--logit-bias", "3=inf", "--logit-bias", "allowed: like 13=-2.5"),
    ] {
        refuses(&["run", model(), "-p", "a", flag, value], name, allowed);
        refuses(&["chat", model(), flag, value], name, allowed);
    }
    refuses(&[model(), "-p", "a", "-t", "nan"], "-t", "from 0 to 100");
    refuses(&[model(), "-p", "a", "-k", "5"], "-k", "from 0 to 1");
    for (args, says) in [
        (["--logit-bias", "320=1"], "logit bias for token 320; the vocabulary ends before 320"),
        (["--repeat-last-n", "18446744073709551615"], "recent tokens"),
    ] {
        fails(&mut run(&args), says);
    }
    refuses(&["bench", model(), "-r", "0"], "--repeat", "from 1 to");
    refuses(&["bench", model(), "-j", "1,0"], "--threads", "from 1 to 1024");
    refuses(&["bench", model(), "-p", "18446744073709551615"], "--prompt", "from 0 to 2147483647");
    refuses(&["bench", model(), "-d", "18446744073709551615"], "--depth", "from 0 to 2147483647");
    fails(
        &mut katydid(["eval", "greedy", model(), "--tokens", "5", "-n", "18446744073709551615"]),
        "is too large",
    );
}

#[test]
fn texts_to_repeat() {
    let replay = |name: &str, content: &[u8]| {
        let path = super::folder().join(name);
        std::fs::write(&path, content).unwrap();
        katydid(["bench", model(), "-r", "1", "--replay", path.to_str().unwrap()])
    };
    fails(&mut replay("replay_none.txt", b"a prompt"), "has no line '---'");
    fails(&mut replay("replay_empty.txt", b"a prompt\n---\n\n"), "has no answer after its line '---'");
    good(&mut replay("replay_good.txt", b"ab\n---\nabab\n"));
    fails(&mut katydid(["bench", model(), "--replay", "/dev/zero"]), "is larger than a text to repeat");
}

#[test]
fn instruction_sets_by_name() {
    let mut run = katydid(["eval", "greedy", model(), "--tokens", "5"]);
    good(run.env("KATYDID_ISA", ""));
    fails(run.env("KATYDID_ISA", "sse9"), "KATYDID_ISA is 'sse9'; this processor and build have: scalar");
}

#[test]
fn token_ids() {
    let greedy = |ids: &str| katydid(["eval", "greedy", model(), "-n", "3", &format!("--tokens={ids}")]);
    fails(&mut greedy(""), "no token ids were given");
    fails(&mut greedy("5,x"), "'x' is not a token id: give numbers like 1,403,407");
    fails(&mut greedy("-5"), "'-5' is not a token id");
    fails(&mut greedy("5,320"), "token 320 (number 1 of those given) is not in the vocabulary of 320");
    fails(&mut greedy("4294967295"), "token 4294967295");
    fails(&mut greedy("4294967296"), "'4294967296' is not a token id");
    fails(greedy("5,6,7").args(["-c", "2"]), "3 tokens do not fit a context of 2");
    let mut decode = katydid(["tokenize", model(), "--decode", "-p", "5 999"]);
    fails(&mut decode, "token 999 is not in the vocabulary of 320");
    assert_eq!(good(&mut greedy("5, 6\n7")).split_whitespace().count(), 3);
}
