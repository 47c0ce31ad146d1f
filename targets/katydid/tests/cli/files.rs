//! Model files that cannot be used: one line that says why.

use std::os::unix::fs::PermissionsExt;

use katydid_tests::tiny::{Meta, Shape, Tiny};

use super::{changed, failed, fails, folder, good, katydid, long, model};

/// Each verb that opens a model says the same of it.
fn refused(path: &str, says: &str) {
    fails(&mut katydid(["run", path, "-p", "a", "-n", "1"]), says);
    fails(&mut katydid(["inspect", path]), says);
    fails(&mut katydid(["tokenize", path, "-p", "a"]), says);
    fails(&mut katydid(["eval", "greedy", path, "--tokens", "5", "-n", "1"]), says);
    fails(&mut katydid(["bench", path, "-p", "1", "-n", "0", "-r", "1"]), says);
}

fn save(name: &str, bytes: &[u8]) -> String {
    let path = folder().join(name);
    std::fs::write(&path, bytes).unwrap();
    path.to_str().unwrap().to_owned()
}

#[test]
fn not_a_model() {
    refused("/no/such/model.gguf", "cannot open /no/such/model.gguf: no such file");
    refused("/tmp", "it is a directory; name a .gguf file inside it");
    refused("/dev/null", "it is a device, pipe or socket");
    refused(&save("empty.gguf", b""), "the file is empty; was the download cut off?");
    refused(&save("text.gguf", b"Once upon a time there was a file."), "not a GGUF file");
    refused(&save("short.gguf", b"GG"), "not a GGUF file");
    refused(&save("html.gguf", b"<!DOCTYPE html><html>Not found</html>"), "not a GGUF file");
    let mut file = Tiny::new(&Shape::LEAST).bytes();
    for (version, says) in
        [(1, "GGUF version 1, of which we read 2 and 3"), (4, "GGUF version 4"), (0, "version 0")]
    {
        file[4] = version;
        refused(&save(&format!("v{version}.gguf"), &file), says);
    }
    file[..4].copy_from_slice(b"ggml");
    refused(&save("magic.gguf", &file), "not a GGUF file");
}

#[test]
fn no_permission() {
    let path = save("secret.gguf", b"GGUF");
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o000)).unwrap();
    if std::fs::File::open(&path).is_ok() {
        println!("skipped: this user may read everything");
        return;
    }
    refused(&path, "permission denied; check who may read it");
}

#[test]
fn names_that_are_not_text() {
    use std::os::unix::ffi::OsStrExt;
    let name = std::ffi::OsStr::from_bytes(b"/no/such/\xff\xfe.gguf");
    let message = failed(katydid(["inspect"]).arg(name));
    assert!(message.contains("no such file"), "{message}");
}

#[test]
fn cut_short() {
    let file = Tiny::new(&Shape::LEAST).bytes();
    for len in (1..file.len() - 32).step_by(97) {
        let path = save("cut.gguf", &file[..len]);
        let message = failed(&mut katydid(["eval", "greedy", &path, "--tokens", "5", "-n", "1"]));
        assert!(message.contains("cut.gguf"), "{len}: {message}");
    }
}

#[test]
fn models_that_cannot_be_run() {
    let run = |path: &str, says| fails(&mut katydid(["run", path, "-p", "a", "-n", "1"]), says);
    let path = changed("no_tokenizer.gguf", |m| m.keys.retain(|(k, _)| !k.starts_with("tokenizer.")));
    run(&path, "no tokenizer.ggml.model: it holds no usable tokenizer");
    assert!(!good(&mut katydid(["eval", "greedy", &path, "--tokens", "5"])).is_empty(), "ids need none");
    let path = changed("mamba.gguf", |m| _ = m.set("general.architecture", "mamba".into()));
    run(&path, "mamba.gguf: key 'general.architecture' is 'mamba', which is not supported");
    assert!(good(&mut katydid(["inspect", &path])).contains("cannot be run: key 'general.architecture'"));
    let path = changed("nan.gguf", |m| _ = m.fill("blk.1.ffn_down.weight", |_| f32::NAN));
    let output = katydid(["run", &path, "-p", "a"]).output().unwrap();
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert_eq!((output.status.code(), &*output.stdout), (Some(1), &b"\n"[..]));
    assert!(stderr.contains("a logit that is not a number: the model file is likely damaged"), "{stderr}");
    assert!(!stderr.contains("-n reached"), "{stderr}");
}

#[test]
fn plans_too_large() {
    let run = |args: &[&str]| katydid([&["run", model(), "-p", "a", "-n", "1", "-j", "1"], args].concat());
    let message = failed(&mut run(&["--ram", "100k"]));
    assert!(message.contains("--ram allows 100.0 kB") && message.contains("(-c "), "{message}");
    let advised = message.split("(-c ").nth(1).unwrap().split(')').next().unwrap().to_owned();
    good(&mut run(&["--ram", "100k", "-c", &advised]));
    let more = (advised.parse::<usize>().unwrap() + 64).to_string();
    fails(&mut run(&["--ram", "100k", "-c", &more]), "--ram allows");
    fails(&mut run(&["--ram", "1k"]), "not even a context of 1 fits; take a smaller model");
    // The advice is to lower what makes it fit.
    fails(&mut run(&["--ram", "100k", "--repeat-last-n", "99999"]), "fits; lower --repeat-last-n");
    let mut threads = katydid(["run", model(), "-p", "a", "-n", "1", "--ram", "1M", "-j", "99"]);
    fails(&mut threads, "fits; lower -j");
    fails(&mut run(&["--ram", "0"]), "--ram allows 0 B");
    // Two terabytes of keys and values: refused before any is taken.
    let huge = changed("huge.gguf", |m| {
        m.set("llama.block_count", Meta::U32(1024)).set("llama.context_length", Meta::U32(1 << 24));
        m.set("llama.attention.head_count_kv", Meta::U32(4));
    });
    for args in [&[][..], &["--ram", "900000G"], &["-b", "16777216"]] {
        let run = [&["run", &huge, "-p", "a", "-c", "16777216"], args].concat();
        fails(&mut katydid(run), "but this machine has");
    }
    let output = katydid(["inspect", model(), "--ram", "1k"]).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8(output.stderr).unwrap().contains("but 1000 are allowed"));
}

#[test]
fn prompts_longer_than_the_context() {
    let run = |n: &str| katydid(["run", model(), "-c", "8", "-p", "a b c d e f g h", "-n", n]);
    fails(&mut run("1"), "which leaves no room in a context window of 8: shorten it or raise -c");
    fails(&mut run("0"), "do not fit a context of 8");
    let mut megabyte = katydid(["run", &long(), "-n", "1", "-c", "1000"]);
    fails(megabyte.write_stdin("word ".repeat(200_000)), "leaves no room in a context window of 1000");
}

#[test]
fn split_models() {
    let files = Tiny::new(&Shape::SMALL).split(3);
    let name = |i: usize| format!("split-0000{i}-of-00003.gguf");
    let paths: Vec<_> = (1..=3).map(|i| save(&name(i), &files[i - 1])).collect();
    let logits = |path: &str, to: &str| {
        let out = folder().join(to);
        good(katydid(["eval", "logits", path, "--tokens", "5,6,7", "--out"]).arg(&out));
        std::fs::read(out).unwrap()
    };
    let whole = logits(model(), "whole.f32");
    assert_eq!(whole.len(), 3 * 320 * 4);
    for path in &paths {
        assert!(logits(path, "split.f32") == whole, "{path}");
    }
    // Left by the test's last run.
    let _ = std::fs::remove_file(folder().join("lost-00002-of-00003.gguf"));
    let part = save("lost-00001-of-00003.gguf", &files[0]);
    save("lost-00003-of-00003.gguf", &files[2]);
    refused(&part, "part 2 of 3 of a split model: cannot open");
    save("lost-00002-of-00003.gguf", &files[2]);
    refused(&part, "part 3 of a split model in place of part 2");
    refused(&save("alone.gguf", &files[0]), "split into 3 files, of which 1 given");
}
