use super::*;
use std::time::Duration;

/// A toolbox from a file in a folder of its own.
struct Box_ {
    folder: tempfile::TempDir,
    toolbox: Toolbox,
}

fn load(tools: &str, options: &Options) -> Box_ {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("token"), "s3cret-token").unwrap();
    let path = folder.path().join("tools.toml");
    std::fs::write(&path, format!("[audit]\nfile = \"audit.jsonl\"\n{tools}")).unwrap();
    let toolbox = Toolbox::load(&path, options).unwrap();
    Box_ { folder, toolbox }
}

impl Box_ {
    fn call(&self, name: &str, arguments: &str) -> Outcome {
        self.toolbox.call(AT, &Call { id: "c1", name, arguments }, Approve::Nobody)
    }

    fn log(&self) -> Vec<serde_json::Value> {
        let text = std::fs::read_to_string(self.folder.path().join("audit.jsonl")).unwrap();
        text.lines().map(|l| serde_json::from_str(l).unwrap()).collect()
    }
}

const AT: At<'static> = At { request: "r7", step: 3 };

const TOOLS: &str = r#"
[agent]
max_parallel = 3
[[tool]]
name = "say"
description = "Says a text."
policy = "auto"
max_output = 50
parameters = { type = "object", properties = { text = { type = "string" } }, required = ["text"] }
exec.argv = ["printf", "%s", "{text}"]
[[tool]]
name = "careful"
description = "Needs somebody."
parameters = { type = "object", properties = { text = { type = "string" } }, required = ["text"] }
exec = { argv = ["printf", "done: %s", "{text}"], set_env = { TOKEN = "${file:token}" } }
[[tool]]
name = "leak"
description = "Prints its environment."
policy = "auto"
max_output = 20
exec = { argv = ["printenv", "TOKEN"], set_env = { TOKEN = "0123456789-s3cret-token" , OTHER = "${file:token}" } }
[[tool]]
name = "hidden"
description = "Not for models."
policy = "deny"
exec.argv = ["true"]
[[tool]]
name = "slow"
description = "Sleeps."
policy = "auto"
timeout = "5s"
exec.argv = ["sleep", "0.4"]
[[tool]]
name = "stuck"
description = "Hangs."
policy = "auto"
timeout = "200ms"
exec.argv = ["sleep", "60"]
"#;

#[test]
fn calls_are_checked_run_and_logged() {
    let b = load(TOOLS, &Options::default());
    let done = b.call("say", r#"{"text":"hello"}"#);
    assert!(done.ok && done.content == "hello" && done.micros > 0, "{done:?}");
    for (name, arguments, says) in [
        (
            "nothing\u{1b}[2J",
            "{}",
            "there is no tool \"nothing\\u{1b}[2J\": there are say, careful, leak, slow, stuck",
        ),
        ("hidden", "{}", "there is no tool"),
        ("say", "{\"text\":", "not JSON"),
        ("say", "{\"texts\":\"x\"}", "\"text\" is missing"),
        ("say", "{\"text\":7}", "do not fit"),
        ("say", "{\"text\":\"-v\"}", "option"),
        ("careful", "{\"text\":\"x\"}", "nobody is there to ask"),
        ("stuck", "", "longer than 0.2 s"),
    ] {
        let done = b.call(name, arguments);
        assert!(!done.ok && done.content.contains(says), "{name}: {done:?}");
    }
    let decisions: Vec<String> = b.log().iter().map(|l| l["decision"].as_str().unwrap().to_owned()).collect();
    assert_eq!(
        decisions,
        ["auto", "unknown", "unknown", "invalid", "invalid", "invalid", "invalid", "denied", "auto"]
    );
    let first = &b.log()[0];
    assert_eq!((&first["request"], &first["step"], &first["tool"]), (&"r7".into(), &3.into(), &"say".into()));
    assert_eq!(first["arguments"], r#"{"text":"hello"}"#);
    // The agent lives on.
    assert!(b.call("say", r#"{"text":"again"}"#).ok);
}

#[test]
fn output_is_cut_cleaned_and_masked() {
    let b = load(TOOLS, &Options::default());
    let done = b.call("say", &format!("{{\"text\":\"{}\"}}", "é".repeat(40)));
    assert_eq!(done.content, format!("{}\n[cut: 30 more bytes]", "é".repeat(25)));
    assert_eq!(b.call("say", r#"{"text":"a\u001b[31mb\u202ec\td\n"}"#).content, "a[31mbc\td");
    assert_eq!(b.call("say", r#"{"text":""}"#).content, "(no output)");
    // A secret across the cut leaves no part behind.
    let done = b.call("leak", "{}");
    assert_eq!(done.content, "0123456789-***");
    b.call("say", r#"{"text":"I know s3cret-token"}"#);
    let log = std::fs::read_to_string(b.folder.path().join("audit.jsonl")).unwrap();
    assert!(!log.contains("s3cret") && log.contains("I know ***"), "{log}");
}

#[test]
fn somebody_is_asked() {
    let b = load(TOOLS, &Options::default());
    let asked = Mutex::new(Vec::new());
    let ask = |p: &Proposal<'_>| {
        asked.lock().unwrap().push(format!("{}: {}", p.tool, p.would));
        !p.arguments.contains("bad")
    };
    let call = |arguments| Call { id: "c", name: "careful", arguments };
    let calls = [call(r#"{"text":"good"}"#), call(r#"{"text":"bad s3cret-token"}"#)];
    let outcomes = b.toolbox.call_all(AT, &calls, Approve::Ask(&ask));
    assert_eq!(outcomes[0].content, "done: good");
    assert!(outcomes[1].content.starts_with("refused"));
    let asked = asked.into_inner().unwrap();
    assert_eq!(asked[0], r#"careful: run printf "done: %s" "good""#);
    assert_eq!(asked[1], r#"careful: run printf "done: %s" "bad ***""#);
}

#[test]
fn a_dry_run_does_nothing() {
    let b = load(TOOLS, &Options { dry_run: true, ..Options::default() });
    let start = Instant::now();
    assert!(b.call("stuck", "{}").content.contains("It would run sleep \"60\""));
    assert!(b.call("careful", r#"{"text":"x"}"#).ok);
    assert!(!b.call("say", "{}").ok);
    assert!(start.elapsed() < Duration::from_secs(2));
    assert_eq!(b.log()[0]["decision"], "dry-run");
}

#[test]
fn several_run_at_once_and_keep_their_order() {
    let b = load(TOOLS, &Options::default());
    let slow = Call { id: "s", name: "slow", arguments: "{}" };
    let say = |arguments| Call { id: "s", name: "say", arguments };
    let start = Instant::now();
    let calls = [slow, say(r#"{"text":"1"}"#), slow, say(r#"{"text":"2"}"#), slow];
    let outcomes = b.toolbox.call_all(AT, &calls, Approve::Nobody);
    let contents: Vec<&str> = outcomes.iter().map(|o| o.content.as_str()).collect();
    assert_eq!(contents, ["(no output)", "1", "(no output)", "2", "(no output)"]);
    let one = outcomes.iter().map(|o| o.micros).max().unwrap();
    assert!(
        start.elapsed().as_micros() < u128::from(one) * 5 / 2,
        "three sleeps of 0.4 s took {:?}",
        start.elapsed()
    );
    let many = vec![say(r#"{"text":"x"}"#); MOST_CALLS + 1];
    let outcomes = b.toolbox.call_all(AT, &many, Approve::Nobody);
    assert!(outcomes[..MOST_CALLS].iter().all(|o| o.ok));
    assert!(outcomes[MOST_CALLS].content.contains("only 32 calls"));
    assert!(b.toolbox.call_all(AT, &[], Approve::Nobody).is_empty());
}

#[test]
fn models_see_names_words_and_schemas() {
    let b = load(TOOLS, &Options::default());
    let specs = b.toolbox.specs();
    assert_eq!(specs.iter().map(|s| s.name).collect::<Vec<_>>(), ["say", "careful", "leak", "slow", "stuck"]);
    assert!(specs[0].parameters.starts_with(r#"{"type":"object","properties":{"text""#));
}

#[test]
fn a_log_that_cannot_be_written_stops_nothing() {
    let b = load("[[tool]]\nname = \"t\"\nbuiltin = \"time\"", &Options::default());
    std::fs::remove_file(b.folder.path().join("audit.jsonl")).unwrap();
    std::fs::create_dir(b.folder.path().join("audit.jsonl")).unwrap();
    assert!(b.call("t", "{}").ok);
    let (trouble, lost) = b.toolbox.audit().unwrap().trouble().unwrap();
    assert!(trouble.contains("cannot be written") && lost == 1, "{trouble}");
    std::fs::remove_dir(b.folder.path().join("audit.jsonl")).unwrap();
    assert!(b.call("t", "{}").ok && b.toolbox.audit().unwrap().trouble().is_none());
    assert_eq!(b.log().len(), 1);
}

#[test]
fn lines_may_be_files() {
    let folder = tempfile::tempdir().unwrap();
    let options = Options { gpio_fake: Some(folder.path().into()), ..Options::default() };
    let b = load(
        "[[tool]]\nname = \"lamp\"\ndescription = \"x\"\npolicy = \"auto\"\n\
         gpio = { op = \"write\", value = \"on\", lines = { lamp = 5 } }",
        &options,
    );
    assert_eq!(b.call("lamp", "{}").content, "lamp is on");
    assert_eq!(std::fs::read_to_string(folder.path().join("gpiochip0-5")).unwrap(), "1\n");
}

#[test]
fn folders_that_are_written_to_are_made() {
    let note = "[[tool]]\nname = \"note\"\ndescription = \"x\"\npolicy = \"auto\"\n\
        file = { root = \"a/b\", op = \"append\", path = \"n\", content = \"x\" }";
    assert!(load(note, &Options::default()).call("note", "{}").ok);
    let b = load(note, &Options { dry_run: true, ..Options::default() });
    assert!(b.call("note", "{}").ok && !b.folder.path().join("a").exists());
}
