//! `katydid chat` and `run --tools`: conversations through pipes and terminals.

use std::io::{Read, Write};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use katydid_tests::tiny::{Shape, Tiny};
use serde_json::{Value, json};

use super::{fails, folder, good, katydid, model, text};

const SHAPE: Shape = Shape { context: 2048, vocab: 400, ..Shape::SMALL };

/// A model that says "tea please" and ends its turn; and that calls tools where
/// `calls`.
fn talker(name: &str, calls: bool) -> String {
    let mut model = Tiny::new(&SHAPE);
    model.token(390, "<|im_start|>", true).token(391, "<|im_end|>", true);
    model.token(392, "tea", false).token(393, " please", false).token(394, "<tool_call>", false);
    model.parrot(&SHAPE, |id| match id {
        // A line end, after "assistant".
        13 => Some(if calls { 394 } else { 392 }),
        392 => Some(393),
        393 => Some(391),
        _ => None,
    });
    model.save(folder(), name).to_str().unwrap().to_owned()
}

fn tools() -> String {
    let parameters = json!({"type": "object", "properties": {"on": {"type": "boolean"}}, "required": ["on"]});
    let function = json!({"name": "lamp", "description": "A lamp.", "parameters": parameters});
    let path = folder().join("tools.json");
    std::fs::write(&path, json!([{"type": "function", "function": function}]).to_string()).unwrap();
    path.to_str().unwrap().to_owned()
}

#[test]
fn piped_answers_are_all_there_is() {
    let model = talker("talker.gguf", false);
    let mut chat = katydid(["chat", &model, "--template", "chatml", "-t", "0"]);
    let saved = folder().join("saved.json");
    let saved = saved.to_str().unwrap();
    let lines = format!("/system be brief\nwhat?\n\nand then?\n/save {saved}\n/quit\nnever\n");
    let output = chat.write_stdin(lines).output().unwrap();
    assert_eq!(
        (text(&output.stdout), text(&output.stderr)),
        ("tea please\ntea please\n".into(), String::new())
    );
    let talk: Value = serde_json::from_str(&std::fs::read_to_string(saved).unwrap()).unwrap();
    let say = |role: &str, content: &str| json!({"role": role, "content": content});
    let (ask, answer) = (|what| say("user", what), say("assistant", "tea please"));
    assert_eq!(
        talk["messages"],
        json!([say("system", "be brief"), ask("what?"), answer, ask("and then?"), answer])
    );
    // Loaded again, nothing is lost; a reset leaves the system text.
    let mut again = katydid(["chat", &model, "--template", "chatml", "-t", "0", "--load", saved]);
    let lines = format!("more\n/reset\nagain\n/save {saved}\n/stats\n");
    let output = again.write_stdin(lines).output().unwrap();
    assert_eq!(text(&output.stdout), "tea please\ntea please\n");
    assert!(text(&output.stderr).contains("said 2 tokens"), "{}", text(&output.stderr));
    let talk: Value = serde_json::from_str(&std::fs::read_to_string(saved).unwrap()).unwrap();
    assert_eq!(talk["messages"], json!([say("system", "be brief"), ask("again"), answer]));
}

#[test]
fn earlier_turns_are_remembered() {
    let model = talker("memory.gguf", false);
    let mut chat = katydid(["chat", &model, "--template", "chatml", "-t", "0"]);
    let first = "a long question ".repeat(20);
    let output = chat.write_stdin(format!("{first}\n/stats\nshort\n/stats\n")).output().unwrap();
    let err = text(&output.stderr);
    let read: Vec<usize> = err
        .lines()
        .map(|l| l.split("read ").nth(1).unwrap().split(' ').next().unwrap().parse().unwrap())
        .collect();
    assert!(read[0] > 100 && read[1] < 60, "{err}");
}

#[test]
fn old_questions_are_forgotten_when_the_context_is_full() {
    let model = talker("forget.gguf", false);
    let mut chat = katydid(["chat", &model, "--template", "chatml", "-t", "0", "-c", "160"]);
    let lines = "the same old question\n".repeat(9);
    let output = chat.write_stdin(lines).output().unwrap();
    assert!(output.status.success());
    assert_eq!(text(&output.stdout), "tea please\n".repeat(9));
    assert!(text(&output.stderr).contains("forgotten"));
    let mut chat = katydid(["chat", &model, "--template", "chatml", "-c", "60"]);
    fails(chat.write_stdin("x".repeat(999)), "longer than the context");
}

#[test]
fn tools_are_called_and_answer() {
    let (model, tools) = (talker("tools.gguf", true), tools());
    let args = ["-t", "0", "--template", "chatml", "--tools", &tools];
    let out = good(katydid(["run", &model, "-p", "light!", "-n", "60", "-q"]).args(args));
    let calls: Value = serde_json::from_str(&out).unwrap();
    assert!(out.lines().count() == 1 && calls[0]["name"] == "lamp", "{out}");
    assert!(calls[0]["arguments"]["on"].is_boolean());
    // However short, what is printed is whole.
    for n in ["1", "2", "9"] {
        let out = good(katydid(["run", &model, "-p", "light!", "-q", "-n", n]).args(args));
        assert!(serde_json::from_str::<Value>(&out).unwrap()[0]["arguments"]["on"].is_boolean(), "{out}");
    }
    let plain = talker("plain_talker.gguf", false);
    assert_eq!(good(katydid(["run", &plain, "-p", "light!", "-q"]).args(args)), "tea please\n");
    // In a conversation what comes after a call is its result.
    let saved = folder().join("called.json");
    let mut chat = katydid(["chat", &model, "-n", "40"]);
    let lines = format!("light!\n/save {}\n", saved.to_str().unwrap());
    let out = good(chat.args(args).write_stdin(lines));
    assert!(out.starts_with("lamp {\"on\":"), "{out}");
    let talk: Value = serde_json::from_str(&std::fs::read_to_string(saved).unwrap()).unwrap();
    let call = &talk["messages"][1]["tool_calls"][0];
    assert!(call["function"]["name"] == "lamp" && call["function"]["arguments"].is_string());
}

/// Tools whose grammar does not fit are refused when they are named.
#[test]
fn tools_that_are_too_many_are_refused_at_once() {
    let model = talker("many_tools.gguf", false);
    // Short to read, and thousands of states.
    let word = |i: usize| (format!("p{i}"), json!({"pattern": "^[a-z0-9 ]*$", "maxLength": 900 + i}));
    let words: serde_json::Map<String, Value> = (0..12).map(word).collect();
    let parameters = json!({"type": "object", "properties": words});
    let path = folder().join("many_tools.json");
    std::fs::write(&path, json!([{"name": "say", "parameters": parameters}]).to_string()).unwrap();
    let chat = || katydid(["chat", &model, "--template", "chatml", "-t", "0"]);
    let lines = format!("/tools {}\nwhat?\n", path.display());
    let output = chat().write_stdin(lines).output().unwrap();
    let err = text(&output.stderr);
    assert_eq!((output.status.code(), &*text(&output.stdout)), (Some(1), ""), "{err}");
    assert!(err.contains("name the file at the start, with --tools"), "{err}");
    let out = good(chat().args(["--tools", path.to_str().unwrap()]).write_stdin("what?\n"));
    assert_eq!(out, "tea please\n");
}

/// What `run --tools` was told to end does not look like an answer.
#[test]
fn calls_that_are_interrupted() {
    let mut endless = Tiny::new(&SHAPE);
    endless.parrot(&SHAPE, |_| Some(392));
    let endless = endless.save(folder(), "endless_calls.gguf");
    let mut child = Command::new(env!("CARGO_BIN_EXE_katydid"))
        .args(["run", endless.to_str().unwrap(), "--template", "chatml", "-t", "0", "-n", "999999"])
        .args(["-c", "99999", "-p", "light!", "--tools", &tools()])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    std::thread::sleep(Duration::from_millis(1500));
    assert!(child.try_wait().unwrap().is_none(), "it ended by itself");
    let pid = nix::unistd::Pid::from_raw(child.id() as i32);
    nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGINT).unwrap();
    let output = child.wait_with_output().unwrap();
    let err = text(&output.stderr);
    assert_eq!(output.status.code(), Some(130), "{err}");
    assert!(err.contains("interrupted before the answer was complete"), "{err}");
}

#[test]
fn what_cannot_be() {
    fails(&mut katydid(["chat", model()]), "has no chat template: give one with --template: chatml");
    fails(&mut katydid(["chat", model(), "--template", "nothing"]), "no template is called 'nothing'");
    let mut chat = katydid(["chat", model(), "--template", "chatml"]);
    fails(chat.write_stdin("/frob\n"), "there is no command /frob");
    fails(katydid(["chat", model(), "--template", "chatml"]).write_stdin("/load\n"), "/load needs the name");
    let two = r#"[{"name":"sound"},{"name":"odd","parameters":{"properties":{"a":{"not":{}}}}}]"#;
    for (content, says) in [
        ("{}", "this is no list of tools"),
        ("[]", "there are no tools"),
        ("[{}]", "has no name"),
        (two, "the parameters of tool odd: schema, at /properties/a/not: not is not supported"),
    ] {
        let path = folder().join("bad_tools.json");
        std::fs::write(&path, content).unwrap();
        let tools = path.to_str().unwrap();
        fails(&mut katydid(["run", model(), "-p", "a", "--template", "chatml", "--tools", tools]), says);
    }
}

/// In a terminal: Ctrl-C stops an answer and the conversation goes on.
#[test]
fn a_terminal() {
    if Command::new("script").arg("--version").output().is_err() {
        println!("skipped: script(1) is absent");
        return;
    }
    // A model that never ends.
    let mut endless = Tiny::new(&SHAPE);
    endless.parrot(&SHAPE, |_| Some(392));
    let endless = endless.save(folder(), "endless.gguf");
    let line = format!(
        "stty cols 20; exec {} chat {} --template chatml -t 0 -n 999999 -c 99999",
        env!("CARGO_BIN_EXE_katydid"),
        endless.display()
    );
    let mut child = Command::new("script")
        .args(["-qec", &line, "/dev/null"])
        .env("TERM", "xterm")
        .env("XDG_STATE_HOME", folder().join("state"))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let (mut keys, mut screen) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
    let seen = std::sync::Arc::new(std::sync::Mutex::new(String::new()));
    let writer = seen.clone();
    let reader = std::thread::spawn(move || {
        let mut buffer = [0; 4096];
        while let Ok(n @ 1..) = screen.read(&mut buffer) {
            writer.lock().unwrap().push_str(&String::from_utf8_lossy(&buffer[..n]));
        }
    });
    let wait = |what: &str, times: usize| {
        let start = Instant::now();
        while seen.lock().unwrap().matches(what).count() < times {
            assert!(start.elapsed() < Duration::from_secs(40), "no '{what}': {}", seen.lock().unwrap());
            std::thread::sleep(Duration::from_millis(10));
        }
    };
    for turn in 1..=2 {
        wait("> ", turn);
        keys.write_all(b"hello\r").unwrap();
        std::thread::sleep(Duration::from_millis(700));
        keys.write_all(b"\x03").unwrap();
        wait("(stopped)", turn);
    }
    keys.write_all(b"\x04").unwrap();
    let status = child.wait().unwrap();
    drop(keys);
    reader.join().unwrap();
    assert!(status.success(), "{}", seen.lock().unwrap());
    assert!(folder().join("state/katydid/chat_history").exists());
}
