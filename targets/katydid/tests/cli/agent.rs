//! `katydid agent`: requests by lines and messages, tools, services.

use std::io::{Read, Write};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use katydid_tests::tiny::{Shape, Tiny};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use rumqttc::QoS;
use serde_json::Value;

#[path = "../../../agent/tests/mosquitto/mod.rs"]
mod mosquitto;

use mosquitto::{Broker, until};

use super::{fails, folder, good, katydid, text};

const SHAPE: Shape = Shape { context: 2048, vocab: 400, layers: 1, embd: 32, ffn: 32, ..Shape::SMALL };

/// A model with random weights that knows how conversations are written.
fn random() -> String {
    let mut model = Tiny::new(&SHAPE);
    control(&mut model);
    model.save(folder(), "agent.gguf").to_str().unwrap().to_owned()
}

fn control(model: &mut Tiny) {
    model.token(390, "<|im_start|>", true).token(391, "<|im_end|>", true);
    model.token(392, "tea", false).token(393, " please", false).token(394, "<tool_call>", false);
}

/// A folder of its own for a test, with a file of tools in it.
struct Place {
    folder: PathBuf,
    tools: String,
}

impl Place {
    fn new(name: &str, toml: &str) -> Self {
        let folder = folder().join(format!("agent_{name}"));
        let _ = std::fs::remove_dir_all(&folder);
        std::fs::create_dir_all(folder.join("gpio")).unwrap();
        let tools = folder.join("tools.toml");
        std::fs::write(&tools, toml).unwrap();
        Self { tools: tools.to_str().unwrap().to_owned(), folder }
    }

    fn args<'p>(&'p self, model: &'p str) -> Vec<String> {
        let gpio = self.folder.join("gpio").display().to_string();
        let args = ["agent", model, "--tools", &self.tools, "--template", "chatml", "--gpio-fake", &gpio];
        args.map(String::from).to_vec()
    }

    /// What the audit log says; every line of it must be right.
    fn audit(&self) -> Vec<Value> {
        let text = std::fs::read_to_string(self.folder.join("audit.jsonl")).unwrap();
        text.lines().map(|l| serde_json::from_str(l).unwrap_or_else(|e| panic!("{e}: {l}"))).collect()
    }
}

/// A lamp on a fake chip, and a program.
const TOOLS: &str = r#"
[audit]
file = "audit.jsonl"
[[tool]]
name = "lamp"
description = "Switches the lamp."
policy = "auto"
parameters = { type = "object", properties = { state = { enum = ["on", "off"] } }, required = ["state"] }
gpio = { op = "write", lines = { lamp = 17 }, line = "lamp", value = "{state}", high = ["on"], low = ["off"] }
[[tool]]
name = "echo"
description = "Says a word."
policy = "auto"
parameters = { type = "object", properties = { word = { enum = ["a", "b b", "$(c)"] } }, required = ["word"] }
exec = { argv = ["/bin/echo", "{word}"] }
"#;

const REQUIRED: &str =
    "[agent]\nsystem = \"You switch.\"\ncalls = \"required\"\nmax_steps = 1\nmax_tokens = 90\n";

#[test]
fn lines_are_answered_with_tools() {
    let place = Place::new("lines", &format!("{REQUIRED}{TOOLS}"));
    let mut agent = katydid(place.args(&random()));
    let output = agent.write_stdin("one\ntwo\n\nthree\n").output().unwrap();
    let (out, err) = (text(&output.stdout), text(&output.stderr));
    assert!(output.status.success(), "{err}");
    assert!(!out.is_empty());
    let audit = place.audit();
    assert_eq!(audit.len(), 3, "{err}");
    assert!(audit.iter().all(|l| l["ok"] == true && l["decision"] == "auto"), "{audit:?}");
    assert_eq!(err.matches("\nrequest ").count(), 6, "{err}");
    // The system text and the tools are read once.
    let reused: Vec<usize> =
        err.split("reused ").skip(1).map(|t| t.split(' ').next().unwrap().parse().unwrap()).collect();
    assert!(reused.len() == 3 && reused.iter().all(|&n| n > 600), "{err}");
    // One request on the command line; nothing but the answer where quiet.
    let mut agent = katydid(place.args(&random()));
    let output = agent.args(["-q", "-p", "switch\nit on", "--dry-run"]).output().unwrap();
    assert_eq!((text(&output.stderr), output.status.code()), (String::new(), Some(0)));
    assert_eq!(place.audit()[3]["decision"], "dry-run");
}

#[test]
fn tools_may_fail_and_nobody_need_agree() {
    let failing = r#"
[[tool]]
name = "f"
description = "Fails."
exec = { argv = ["/bin/sh", "-c", "echo no >&2; exit 3"] }
"#;
    let toml = |policy: &str| {
        format!(
            "{REQUIRED}[audit]\nfile = \"audit.jsonl\"\n{}",
            failing.replace("\nexec", &format!("\npolicy = \"{policy}\"\nexec"))
        )
    };
    for (policy, decision) in [("auto", "auto"), ("ask", "denied")] {
        let place = Place::new(policy, &toml(policy));
        // A session of its own has no terminal.
        let mut agent = Command::new("setsid");
        agent.arg("-w").arg(env!("CARGO_BIN_EXE_katydid")).args(place.args(&random()));
        let mut agent = assert_cmd::Command::from_std(agent);
        let output = agent.write_stdin("one\ntwo\n").output().unwrap();
        assert!(output.status.success(), "{}", text(&output.stderr));
        let audit = place.audit();
        assert_eq!(audit.len(), 2);
        assert!(audit.iter().all(|l| l["ok"] == false && l["decision"] == decision), "{audit:?}");
    }
}

/// What a model says that knows its answers by heart: with tools that it may
/// call or not.
#[test]
fn a_model_may_answer_in_words() {
    let mut model = Tiny::new(&SHAPE);
    control(&mut model);
    model.parrot(&SHAPE, |id| match id {
        13 => Some(392),
        392 => Some(393),
        393 => Some(391),
        _ => None,
    });
    let model = model.save(folder(), "agent_words.gguf").to_str().unwrap().to_owned();
    let place = Place::new("words", TOOLS);
    let mut agent = katydid(place.args(&model));
    assert_eq!(good(agent.args(["-t", "0"]).write_stdin("a\nb\n")), "tea please\ntea please\n");
    // A question that does not fit is refused, and the next is answered.
    let long = format!("{}\nb\n", "x".repeat(9000));
    let output = good(katydid(place.args(&model)).args(["-t", "0"]).write_stdin(long));
    assert!(output.starts_with("error: the conversation is longer than the model can read"), "{output}");
    assert!(output.ends_with("\ntea please\n"), "{output}");
    fails(katydid(place.args(&model)).args(["-c", "99"]), "fill the context of 99 tokens: raise -c");
    fails(katydid(place.args(&model)).arg("--no-stdin"), "requests come from nowhere");
}

/// The calls of an answer run at once; and a model that only ever calls tools
/// gets an end.
#[test]
fn calls_of_an_answer_run_at_once() {
    let mut model = Tiny::new(&SHAPE);
    control(&mut model);
    // A line end, and what ends a call, are followed by a call.
    model.parrot(&SHAPE, |id| (id == 13 || id == 3 + u32::from(b'>')).then_some(394));
    let model = model.save(folder(), "agent_calls.gguf").to_str().unwrap().to_owned();
    let nap = "[agent]\nmax_steps = 1\nmax_tokens = 150\n[audit]\nfile = \"audit.jsonl\"\n\
        [[tool]]\nname = \"nap\"\ndescription = \"Sleeps.\"\npolicy = \"auto\"\nexec = { argv = [\"sleep\", \"1\"] }";
    let place = Place::new("calls", nap);
    let output = katydid(place.args(&model)).args(["-t", "0", "-p", "sleep\nwell"]).output().unwrap();
    let err = text(&output.stderr);
    assert_eq!(
        text(&output.stdout),
        "error: no answer within the steps allowed: allow more, or ask for less\n"
    );
    let audit = place.audit();
    assert!(audit.len() >= 2 && audit.iter().all(|l| l["step"] == 1 && l["ok"] == true), "{err}");
    let begun = |l: &Value| {
        let seconds: f64 = l["time"].as_str().unwrap()[17..23].parse().unwrap();
        seconds - l["micros"].as_f64().unwrap() / 1e6
    };
    let (first, second) = (begun(&audit[0]), begun(&audit[1]));
    let apart = (first - second).abs();
    assert!(apart.min(60.0 - apart) < 0.8, "{audit:?}");
}

/// Requests by the clock, and an end by signal.
#[test]
fn the_clock_asks() {
    let clock = "[[interval]]\nevery = \"1s\"\nprompt = \"now?\"\n";
    let place = Place::new("clock", &format!("{REQUIRED}{clock}{TOOLS}"));
    let mut command = Command::new(env!("CARGO_BIN_EXE_katydid"));
    command.args(place.args(&random())).arg("--no-stdin").stdin(Stdio::null());
    let agent = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let log = place.folder.join("audit.jsonl");
    until("two requests", || std::fs::read_to_string(&log).ok().filter(|t| t.lines().count() >= 2));
    kill(Pid::from_raw(agent.id() as i32), Signal::SIGINT).unwrap();
    let output = agent.wait_with_output().unwrap();
    assert!(output.status.success() && !output.stdout.is_empty(), "{}", text(&output.stderr));
}

#[test]
fn files_of_tools_are_checked() {
    let place = Place::new("check", &format!("{REQUIRED}{TOOLS}"));
    let out = good(&mut katydid(["agent", "check", &place.tools]));
    assert!(out.contains("2 tools, all right") && out.contains("lamp (gpio, auto)"), "{out}");
    assert!(out.contains("You switch.") && out.contains("\"enum\""), "{out}");
    let model = random();
    let out = good(&mut katydid(["agent", "check", &place.tools, &model, "--template", "chatml"]));
    let tokens = out.rsplit("--- ").next().unwrap().split(' ').next().unwrap();
    assert!(tokens.parse::<usize>().unwrap() > 400, "{out}");
    let bad =
        Place::new("check_bad", "[agent]\nmax_steps = 3\n\n[[tool]]\nname = \"a\"\nexec.argv = [\"x\"]\n");
    fails(
        &mut katydid(["agent", "check", &bad.tools]),
        "tools.toml:5: tool \"a\": the description is missing",
    );
    let bad = Place::new("check_warn", &TOOLS.replace("/bin/echo", "/no/echo"));
    let output = katydid(["agent", "check", "-q", &bad.tools]).output().unwrap();
    assert!(output.status.success() && text(&output.stdout).is_empty());
    assert!(text(&output.stderr).contains("there is no program /no/echo here"));
}

#[test]
fn services_are_written() {
    let mqtt = "[mqtt]\nhost = \"127.0.0.1\"\nsubscribe = [\"ask\"]\n";
    let (place, model) = (Place::new("install", &format!("{REQUIRED}{mqtt}{TOOLS}")), random());
    let unit = |more: &[&str]| {
        let mut command = katydid(["agent", "install", &place.tools, &model]);
        command.args(more);
        command
    };
    let out = good(&mut unit(&["--print", "-c", "1024", "--", "-t", "0.5"]));
    assert!(out.contains("--no-stdin -c 1024 -t 0.5\n") && out.contains("NoNewPrivileges=yes"), "{out}");
    assert!(out.contains("ExecStart=/") && out.contains(" agent /") && out.contains("MemoryMax="), "{out}");
    let file = place.folder.join("x.service");
    let file = file.to_str().unwrap();
    let output = unit(&["-o", file]).output().unwrap();
    assert!(text(&output.stderr).contains("systemctl daemon-reload"), "{}", text(&output.stderr));
    fails(&mut unit(&["-o", file, "--name", "bad name"]), "a service's name has letters");
    let said = unit(&["-o", file]).output().unwrap();
    assert!(said.status.code() == Some(1) && text(&said.stderr).contains("exists; give --force"));
    assert!(unit(&["-o", file, "--force"]).output().unwrap().status.success());
    let silent = Place::new("install_silent", TOOLS);
    fails(&mut katydid(["agent", "install", &silent.tools, &model]), "requests would come from nowhere");
}

/// What a file of tools says of it.
fn toml(broker: &Broker) -> String {
    format!(
        "[mqtt]\nhost = \"127.0.0.1\"\nport = {}\nclient_id = \"agent\"\nsubscribe = [\"ask/#\"]\n\
         reply_topic = \"answer/{{id}}\"\nqueue = 32\n",
        broker.port
    )
}

/// An agent at work.
struct Running {
    child: Child,
    said: Arc<Mutex<String>>,
}

impl Running {
    fn start(place: &Place) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_katydid"));
        command.args(place.args(&random())).args(["--no-stdin", "-j", "1"]);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut stderr = child.stderr.take().unwrap();
        let said = Arc::new(Mutex::new(String::new()));
        let theirs = Arc::clone(&said);
        std::thread::spawn(move || {
            let mut buffer = [0; 4096];
            while let Ok(n @ 1..) = stderr.read(&mut buffer) {
                theirs.lock().unwrap().push_str(&String::from_utf8_lossy(&buffer[..n]));
            }
        });
        let running = Self { child, said };
        running.connected(1);
        // Until the broker knows what it listens to.
        std::thread::sleep(Duration::from_millis(300));
        running
    }

    #[track_caller]
    fn connected(&self, times: usize) {
        until("a connection", || {
            (self.said.lock().unwrap().matches(": connected").count() >= times).then_some(())
        });
    }

    /// KiB of memory that are its own.
    fn memory(&self) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap();
        let line = status.lines().find_map(|l| l.strip_prefix("RssAnon:")).unwrap();
        line.trim().trim_end_matches(" kB").parse().unwrap()
    }

    /// Asks it to end, which must go well.
    fn end(mut self) -> String {
        assert!(self.child.try_wait().unwrap().is_none(), "it died: {}", self.said.lock().unwrap());
        kill(Pid::from_raw(self.child.id() as i32), Signal::SIGTERM).unwrap();
        let status = until("its end", || self.child.try_wait().unwrap());
        let said = self.said.lock().unwrap().clone();
        assert!(status.success() && !said.contains("panicked"), "{status}: {said}");
        said
    }
}

/// 500 requests by MQTT, each of which calls a tool.
#[test]
fn five_hundred_requests() {
    let Some(broker) = Broker::start("allow_anonymous true") else { return };
    let place = Place::new("many", &format!("{REQUIRED}{}{TOOLS}", toml(&broker)));
    let agent = Running::start(&place);
    let (client, got) = broker.subscriber("answer/#");
    let (count, start, mut early) = (500, Instant::now(), 0);
    for i in 1..=count {
        let request = format!("{{\"id\":\"r{i}\",\"text\":\"request {i}\"}}");
        client.publish("ask/x", QoS::AtLeastOnce, false, request).unwrap();
        // No more under way than the agent's queue holds.
        until("answers", || (got.lock().unwrap().len() + 16 > i).then_some(()));
        if got.lock().unwrap().len() >= 50 && early == 0 {
            early = agent.memory();
        }
    }
    until("all answers", || (got.lock().unwrap().len() >= count).then_some(()));
    let late = agent.memory();
    println!("{count} requests in {:?}; own memory {early} KiB, then {late} KiB", start.elapsed());
    assert!(late < early + 512, "{early} KiB after 50 requests, {late} KiB after {count}");
    let got = got.lock().unwrap();
    let topics: std::collections::BTreeSet<&str> = got.iter().filter_map(|g| g.split(' ').next()).collect();
    assert!((1..=count).all(|i| topics.contains(&*format!("answer/r{i}"))));
    let audit = place.audit();
    assert_eq!(audit.len(), count);
    let mut lamp = "";
    for line in &audit {
        assert!(line["decision"] == "auto" && line["ok"] == true, "{line}");
        let arguments: Value = serde_json::from_str(line["arguments"].as_str().unwrap()).unwrap();
        match line["tool"].as_str().unwrap() {
            "lamp" if arguments["state"] == "on" => lamp = "1\n",
            "lamp" if arguments["state"] == "off" => lamp = "0\n",
            "echo" => {
                let word = arguments["word"].as_str().unwrap();
                assert!(["a", "b b", "$(c)"].contains(&word));
                assert_eq!(line["content"].as_str().unwrap().trim(), word);
            }
            _ => panic!("{line}"),
        }
    }
    let level = std::fs::read_to_string(place.folder.join("gpio/gpiochip0-17")).unwrap();
    assert_eq!(level, lamp, "the lamp is as it was switched last");
    let said = agent.end();
    assert_eq!(said.matches("\nrequest r").count(), 2 * count, "a line for each call and each request");
}

#[test]
fn a_broker_goes_and_comes_back() {
    let Some(mut broker) = Broker::start("allow_anonymous true") else { return };
    let place = Place::new("restart", &format!("{REQUIRED}{}{TOOLS}", toml(&broker)));
    let agent = Running::start(&place);
    let (client, got) = broker.subscriber("answer/#");
    let ask = |id: &str| {
        let request = format!("{{\"id\":\"{id}\",\"text\":\"on\"}}");
        until(id, || {
            client.publish("ask/x", QoS::AtLeastOnce, false, request.as_str()).unwrap();
            std::thread::sleep(Duration::from_millis(300));
            let is = |g: &String| g.starts_with(&format!("answer/{id} "));
            got.lock().unwrap().iter().any(is).then_some(())
        });
    };
    ask("before");
    broker.end(Signal::SIGKILL);
    std::thread::sleep(Duration::from_millis(300));
    broker.restart();
    agent.connected(2);
    ask("after");
    agent.end();
}

/// In a terminal somebody is asked; what is typed then is no request.
#[test]
fn somebody_may_agree() {
    if Command::new("script").arg("--version").output().is_err() {
        println!("skipped: script(1) is absent");
        return;
    }
    let tools = TOOLS.replace("policy = \"auto\"", "policy = \"ask\"");
    let place = Place::new("terminal", &format!("{REQUIRED}{tools}"));
    let line = std::iter::once(env!("CARGO_BIN_EXE_katydid").to_owned()).chain(place.args(&random()));
    let line = format!("stty cols 200; exec {}", line.collect::<Vec<_>>().join(" "));
    let mut child = Command::new("script")
        .args(["-qec", &line, "/dev/null"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let (mut keys, mut screen) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
    let seen = Arc::new(Mutex::new(String::new()));
    let theirs = Arc::clone(&seen);
    std::thread::spawn(move || {
        let mut buffer = [0; 4096];
        while let Ok(n @ 1..) = screen.read(&mut buffer) {
            theirs.lock().unwrap().push_str(&String::from_utf8_lossy(&buffer[..n]));
        }
    });
    let wait = |what: &str, times: usize| {
        until(what, || (seen.lock().unwrap().matches(what).count() >= times).then_some(()));
    };
    wait("Type a request", 1);
    for (i, answer) in ["y\n", "n\n"].into_iter().enumerate() {
        keys.write_all(b"switch\n").unwrap();
        wait("Allow it? [y/N]", i + 1);
        keys.write_all(answer.as_bytes()).unwrap();
        wait(" calls in ", i + 1);
    }
    keys.write_all(b"\x04").unwrap();
    assert!(child.wait().unwrap().success(), "{}", seen.lock().unwrap());
    let decisions: Vec<_> = place.audit().iter().map(|l| l["decision"].clone()).collect();
    assert_eq!(decisions, ["approved", "refused"]);
}
