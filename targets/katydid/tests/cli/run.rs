//! `katydid run`: prompts, pipes, seeds, Ctrl-C.

use std::io::{Read, Write};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use katydid_tests::tiny::Meta;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use super::{changed, fails, folder, good, katydid, long, model, text};

#[test]
fn prompts_from_anywhere() {
    let given = good(&mut katydid(["run", model(), "-n", "8", "-p", "ab cd"]));
    assert!(given.ends_with('\n'));
    for piped in ["ab cd", "ab cd\n", "ab cd\r\n"] {
        assert_eq!(good(katydid(["run", model(), "-n", "8"]).write_stdin(piped)), given, "{piped:?}");
    }
    assert_ne!(good(katydid(["run", model(), "-n", "8"]).write_stdin("ab cd\n\n")), given);
    // A prompt given leaves stdin alone.
    assert_eq!(good(katydid(["run", model(), "-n", "8", "-p", "ab cd"]).write_stdin("other")), given);
    fails(katydid(["run", model()]).write_stdin(&b"\xff\xfe"[..]), "cannot read the prompt from stdin");
}

#[test]
fn nothing_to_continue() {
    for empty in ["", "\n"] {
        // BOS is a beginning.
        good(katydid(["run", model(), "-n", "4"]).write_stdin(empty));
    }
    let no_bos = changed("no_bos.gguf", |m| _ = m.set("tokenizer.ggml.add_bos_token", Meta::Bool(false)));
    fails(&mut katydid(["run", &no_bos, "-p", ""]), "the prompt is empty");
    assert_eq!(good(&mut katydid(["run", model(), "-p", "a", "-n", "0"])), "\n");
}

#[test]
fn statistics_go_to_stderr() {
    let output = katydid(["run", model(), "-p", "ab", "-n", "5", "--ignore-eos"]).output().unwrap();
    let err = text(&output.stderr);
    for what in
        ["generated 5 tokens", "tok/s", "first token after", "-n reached", "memory planned", "resident"]
    {
        assert!(err.contains(what), "{err}");
    }
    let quiet = katydid(["run", model(), "-p", "ab", "-n", "5", "--ignore-eos", "-q"]).output().unwrap();
    assert_eq!((text(&quiet.stderr).as_str(), quiet.stdout), ("", output.stdout));
    let full =
        katydid(["run", model(), "-p", "ab", "-n", "999", "--ignore-eos", "-c", "16"]).output().unwrap();
    assert!(full.status.success() && text(&full.stderr).contains("the context is full; raise -c to go on"));
}

#[test]
fn one_seed_one_text() {
    let run = |seed: &str, more: &[&str]| {
        let args = ["run", model(), "-p", "ab", "-n", "24", "--ignore-eos", "-q", "-s", seed];
        good(&mut katydid([&args, more].concat()))
    };
    let one = run("7", &["-t", "1.5"]);
    assert_eq!(run("7", &["-t", "1.5"]), one);
    assert_eq!(run("7", &["-t", "1.5", "-j", "3", "-b", "1"]), one);
    assert_ne!(run("8", &["-t", "1.5"]), one);
    assert_ne!(run("7", &["--top-k", "1"]), one);
    // Greedy text has no seed.
    assert_eq!(run("1", &["-t", "0"]), run("2", &["-t", "0"]));
    assert_ne!(run("1", &["-t", "0", "--repeat-penalty", "2"]), run("1", &["-t", "0"]));
}

#[test]
fn banned_tokens_do_not_come() {
    let bans: Vec<String> =
        (0..320).filter(|id| *id != 260).map(|id| format!("--logit-bias={id}=-inf")).collect();
    let mut run = katydid(["run", model(), "-p", "x", "-n", "5"]);
    assert_eq!(good(run.args(&bans)), "aaaaa\n");
    let all = run.arg("--logit-bias=260=-inf").output().unwrap();
    assert_eq!(all.status.code(), Some(1));
    assert!(text(&all.stderr).contains("no token is left to choose"));
}

fn spawn(args: &[&str], stdout: Stdio) -> Child {
    let mut command = Command::new(env!("CARGO_BIN_EXE_katydid"));
    command.args(args).stdin(Stdio::null()).stdout(stdout).stderr(Stdio::piped());
    command.spawn().expect("runs")
}

/// Waits for the end, at most a minute; gives the exit code and stderr.
fn end(mut child: Child) -> (Option<i32>, String) {
    let start = Instant::now();
    while child.try_wait().unwrap().is_none() {
        if start.elapsed() > Duration::from_secs(60) {
            child.kill().unwrap();
            panic!("still running");
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    let output = child.wait_with_output().unwrap();
    (output.status.code(), text(&output.stderr))
}

#[test]
fn a_signal_ends_it_cleanly() {
    let model = long();
    let endless = ["run", &model, "-p", "ab", "-n", "999999", "--ignore-eos", "-c", "999999"];
    for signal in [Signal::SIGINT, Signal::SIGTERM] {
        let mut child = spawn(&endless, Stdio::piped());
        let mut out = child.stdout.take().unwrap();
        let mut said = vec![0; 16];
        out.read_exact(&mut said).unwrap();
        kill(Pid::from_raw(child.id() as i32), signal).unwrap();
        out.read_to_end(&mut said).unwrap();
        let (code, err) = end(child);
        assert_eq!(code, Some(0), "{err}");
        assert!(text(&said).ends_with('\n'));
        assert!(
            err.contains("interrupted") && err.contains("tok/s") && err.contains("memory planned"),
            "{err}"
        );
    }
}

/// JSON that a signal cuts is whole, but says that it is not the model's.
#[test]
fn a_signal_within_json() {
    let model = long();
    let schema = folder().join("endless.json");
    std::fs::write(&schema, r#"{"type":"string","minLength":60000}"#).unwrap();
    let schema = schema.to_str().unwrap();
    let endless = ["run", &model, "-p", "ab", "-n", "999999", "-c", "999999", "--schema", schema];
    let mut child = spawn(&endless, Stdio::piped());
    let mut out = child.stdout.take().unwrap();
    let mut said = vec![0; 16];
    out.read_exact(&mut said).unwrap();
    kill(Pid::from_raw(child.id() as i32), Signal::SIGINT).unwrap();
    out.read_to_end(&mut said).unwrap();
    let (code, err) = end(child);
    assert_eq!(code, Some(130), "{err}");
    assert!(err.contains("interrupted before the answer was complete"), "{err}");
    serde_json::from_str::<String>(&text(&said)).unwrap();
}

#[test]
fn a_signal_during_the_prompt() {
    let model = long();
    let mut child = Command::new(env!("CARGO_BIN_EXE_katydid"))
        .args(["run", &model, "-c", "999999", "-b", "8"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all("word ".repeat(100_000).as_bytes()).unwrap();
    // Long after the start, long before the end.
    std::thread::sleep(Duration::from_millis(1500));
    kill(Pid::from_raw(child.id() as i32), Signal::SIGINT).unwrap();
    let (code, err) = end(child);
    assert_eq!(code, Some(0), "{err}");
    assert!(err.contains("generated 0 tokens") && err.contains("interrupted"), "{err}");
}

#[test]
fn a_reader_that_goes_away() {
    let model = long();
    let mut child =
        spawn(&["run", &model, "-p", "a", "-n", "999999", "--ignore-eos", "-c", "999999"], Stdio::piped());
    child.stdout.take().unwrap().read_exact(&mut [0]).unwrap();
    let (code, err) = end(child);
    assert_eq!(code, Some(0), "{err}");
    assert!(!err.contains("Broken pipe"), "{err}");
}

#[test]
fn a_model_file_cut_short_while_it_runs() {
    let model = changed("pulled.gguf", |m| _ = m.set("llama.context_length", Meta::U32(1 << 24)));
    let mut child =
        spawn(&["run", &model, "-p", "a", "-n", "999999", "--ignore-eos", "-c", "999999"], Stdio::piped());
    let mut out = child.stdout.take().unwrap();
    out.read_exact(&mut [0; 4]).unwrap();
    std::fs::OpenOptions::new().write(true).open(&model).unwrap().set_len(0).unwrap();
    std::io::copy(&mut out, &mut std::io::sink()).unwrap();
    let (code, err) = end(child);
    assert_eq!(code, Some(1), "{err}");
    assert!(err.contains("the model file cannot be read any more"), "{err}");
}
