//! Results against the shared test data.

use katydid_tests::{ids, json, shared};

use super::{changed, fails, folder, good, katydid, model};

fn line(ids: &[u32]) -> String {
    ids.iter().map(u32::to_string).collect::<Vec<_>>().join(",")
}

#[test]
fn greedy_ids_and_text_of_a_trained_model() {
    let (Some(model), Some(cases)) =
        (shared("models/stories260K.gguf"), shared("models/stories260K.greedy.json"))
    else {
        return;
    };
    let (model, cases) = (model.to_str().unwrap(), json(&cases));
    let cases = cases["cases"].as_array().unwrap();
    assert_eq!(cases.len(), 3);
    for case in cases {
        let (prompt, want) = (ids(&case["prompt_tokens"]), ids(&case["greedy_tokens"]));
        let n = want.len().to_string();
        let got = good(&mut katydid(["eval", "greedy", model, "--tokens", &line(&prompt), "-n", &n]));
        assert_eq!(got, line(&want).replace(',', " ") + "\n", "{}", case["prompt"]);
        // The same by way of text, as long as the model does not end.
        let text = case["prompt"].as_str().unwrap();
        let run = good(&mut katydid(["run", model, "-p", text, "-n", "40", "-t", "0", "-q"]));
        let mut decode = katydid(["tokenize", model, "--decode", "-p", &line(&want[..40])]);
        assert_eq!(run.trim(), good(&mut decode).trim());
    }
}

#[test]
fn tokenize_shared_vocabularies() {
    for name in ["gpt-2", "llama-bpe", "llama-spm", "phi-3", "qwen2"] {
        let Some(vocab) = shared(&format!("vocab/ggml-vocab-{name}.gguf")) else { continue };
        let vocab = vocab.to_str().unwrap();
        let read = |ext| std::fs::read_to_string(format!("{vocab}.{ext}")).unwrap();
        let (texts, ids) = (read("inp"), read("out"));
        let texts = texts.split("\n__ggml_vocab_test__\n").filter(|t| !t.is_empty());
        let ids = ids.lines().map(str::trim).filter(|l| !l.is_empty());
        // All of them are tested in the library; here, that bytes pass unchanged.
        for (text, want) in texts.zip(ids).step_by(7) {
            let mut tokenize = katydid(["tokenize", vocab, "--ids"]);
            let got = good(tokenize.write_stdin(text));
            assert_eq!(
                got.split_whitespace().collect::<Vec<_>>(),
                want.split_whitespace().collect::<Vec<_>>()
            );
            let mut decode = katydid(["tokenize", vocab, "--decode"]);
            assert_eq!(good(decode.write_stdin(got)), text, "{name}");
        }
    }
}

#[test]
fn perplexity_of_a_model_that_knows_nothing() {
    let path = folder().join("perplexity.txt");
    std::fs::write(&path, "any words at all, for they are as likely as others ".repeat(9)).unwrap();
    let path = path.to_str().unwrap();
    // All logits equal: the perplexity is the vocabulary's size.
    let blank = changed("blank.gguf", |m| _ = m.fill("output.weight", |_| 0.0));
    let perplexity = |args: &[&str]| katydid([&["eval", "perplexity", &blank, "-f", path], args].concat());
    let facts: serde_json::Value =
        serde_json::from_str(&good(&mut perplexity(&["-c", "32", "--json"]))).unwrap();
    assert!((facts["perplexity"].as_f64().unwrap() - 320.0).abs() < 1e-3, "{facts}");
    assert!(good(&mut perplexity(&["-c", "64"])).starts_with("perplexity 320.0000 over "));
    for c in ["1", "2"] {
        fails(&mut perplexity(&["-c", c]), "must be at least 3");
    }
    let short = folder().join("short.txt");
    std::fs::write(&short, "ab").unwrap();
    let mut few = katydid(["eval", "perplexity", model(), "-c", "32", "-f", short.to_str().unwrap()]);
    fails(&mut few, "fewer than one window of 32");
    fails(
        &mut katydid(["eval", "perplexity", model(), "-f", "/no/such"]),
        "cannot read /no/such: No such file",
    );
}
