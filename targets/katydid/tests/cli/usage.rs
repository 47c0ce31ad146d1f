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
    for (args, says) in [
        (["-c", "0"], "the context (-c) is 0, but must be from 1 to"),
        (["-c", "2147483648"], "the context (-c) is 2147483648"),
        (["-c", "18446744073709551615"], "the context (-c) is 18446744073709551615"),
        (["-b", "0"], "the batch (-b) is 0"),
        (["-j", "0"], "-j is 0, but must be from 1 to 1024"),
        (["-j", "1025"], "-j is 1025"),
        (["-t", "nan"], "temperature is NaN; allowed: 0 to 100"),
        (["-t", "inf"], "temperature is inf"),
        (["--top-p", "1.5"], "top_p is 1.5; allowed: 0 to 1"),
        (["--min-p", "2"], "min_p is 2"),
        (["--repeat-penalty", "0"], "repeat_penalty is 0"),
        (["--frequency-penalty", "1000"], "frequency_penalty is 1000"),
        (["--presence-penalty", "-1000"], "presence_penalty is -1000"),
        (["--logit-bias", "320=1"], "logit bias for token 320; the vocabulary ends before 320"),
        (["--logit-bias", "3=nan"], "logit bias of token 3 is NaN"),
        (["--repeat-last-n", "18446744073709551615"], "recent tokens"),
    ] {
        fails(&mut run(&args), says);
    }
    fails(&mut katydid(["bench", model(), "-r", "0"]), "-r is 0");
    fails(&mut katydid(["bench", model(), "-j", "1,0"]), "-j is 0");
    fails(&mut katydid(["bench", model(), "-p", "18446744073709551615"]), "must be from 1 to");
    fails(&mut katydid(["bench", model(), "-n", "1", "-d", "18446744073709551615"]), "must be from 1 to");
    fails(
        &mut katydid(["eval", "greedy", model(), "--tokens", "5", "-n", "18446744073709551615"]),
        "is too large",
    );
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
