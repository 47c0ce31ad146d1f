//! Prompts kept in a file.

use katydid_tests::tiny::{Shape, Tiny};

use super::{folder, good, katydid, model, text};

/// The answer, and what stderr says.
fn run(model: &str, prompt: &str, cache: Option<&str>) -> (String, String) {
    let mut command = katydid(["run", model, "-p", prompt, "-n", "12", "--ignore-eos", "-t", "0"]);
    if let Some(cache) = cache {
        command.args(["--cache", cache]);
    }
    let output = command.output().unwrap();
    let err = text(&output.stderr);
    assert!(output.status.success(), "{err}");
    (text(&output.stdout), err)
}

fn place(name: &str) -> String {
    let path = folder().join(name);
    let _ = std::fs::remove_file(&path);
    path.to_str().unwrap().to_owned()
}

#[test]
fn a_cached_prompt_gives_the_same_answer() {
    let cache = place("prompt.kv");
    // More than a page of tokens, and prompts that grow, shrink and turn.
    let base = "once upon a time ".repeat(8);
    for (more, hits) in [("", false), ("", true), ("there was", true), ("there", true), ("then", true)] {
        let prompt = format!("{base}{more}");
        let (alone, _) = run(model(), &prompt, None);
        let (cached, err) = run(model(), &prompt, Some(&cache));
        assert_eq!(alone, cached, "{more}");
        assert_eq!(err.contains("were in the cache"), hits, "{more}: {err}");
        assert!(!err.contains("anew"), "{err}");
    }
    let (alone, _) = run(model(), "else", None);
    assert_eq!(run(model(), "else", Some(&cache)).0, alone);
    // picolm's --cache is the same.
    let picolm = ["-p", "once upon a time", "-n", "4", "--cache", &cache];
    let first = good(katydid([model()]).args(picolm));
    assert_eq!(good(katydid([model()]).args(picolm)), first);
    // A context smaller than what is kept.
    run(model(), &base, Some(&cache));
    let mut small = katydid(["run", model(), "-p", "once", "-n", "3", "-c", "16", "--cache", &cache]);
    good(&mut small);
}

#[test]
fn a_cache_of_no_use_is_passed_over() {
    let cache = place("useless.kv");
    let (right, _) = run(model(), "some words", Some(&cache));
    let sound = std::fs::read(&cache).unwrap();
    let says = |bytes: &[u8]| {
        std::fs::write(&cache, bytes).unwrap();
        let (answer, err) = run(model(), "some words", Some(&cache));
        assert_eq!(answer, right);
        assert!(err.contains("evaluating anew"), "{err}");
        // It is made again.
        assert!(run(model(), "some words", Some(&cache)).1.contains("were in the cache"));
    };
    for len in [0, 7, 8, 31, 33, sound.len() / 2, sound.len() - 1] {
        says(&sound[..len]);
    }
    for at in [9, 17, 25, 34, sound.len() / 2, sound.len() - 3] {
        let mut bytes = sound.clone();
        bytes[at] ^= 0x40;
        says(&bytes);
    }
    // Another model of the same shape.
    let mut other = Tiny::new(&Shape::SMALL);
    other.fill("blk.0.attn_k.weight", |i| (i % 7) as f32 / 20.0);
    let other = other.save(folder(), "other.gguf");
    std::fs::write(&cache, &sound).unwrap();
    let (_, err) = run(other.to_str().unwrap(), "some words", Some(&cache));
    assert!(err.contains("another model"), "{err}");
}

#[test]
fn a_cache_that_cannot_be_written_spoils_nothing() {
    let (right, _) = run(model(), "some words", None);
    // What is no file stays what it is.
    let socket = place("socket.kv");
    let _listener = std::os::unix::net::UnixListener::bind(&socket).unwrap();
    let directory = folder().to_str().unwrap();
    for place in ["/nowhere/at/all.kv", directory, &socket] {
        let (answer, err) = run(model(), "some words", Some(place));
        assert_eq!(answer, right);
        assert!(err.contains("the prompt is not kept"), "{err}");
    }
    assert!(!std::fs::metadata(&socket).unwrap().is_file());
    // Nor is a file that holds something else replaced: a model, say.
    let letter = place("letter.txt");
    std::fs::write(&letter, "Dear cache, ").unwrap();
    let (answer, err) = run(model(), "some words", Some(&letter));
    assert_eq!(answer, right);
    assert!(err.contains("holds something else"), "{err}");
    assert_eq!(std::fs::read_to_string(&letter).unwrap(), "Dear cache, ");
}
