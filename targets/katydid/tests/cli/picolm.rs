//! picolm's command line, as the `PicoClaw` provider uses it: this plays the
//! provider's side.

use std::io::Write;
use std::process::{Command, Stdio};

use katydid_tests::tiny::{Meta, Shape, Tiny};
use serde_json::Value;

use super::{folder, good, katydid, model, text};

/// A system part as the provider writes it, with two tools.
const SYSTEM: &str = r##"<|system|>
You are helpful.

When you need to use a tool, respond with ONLY a JSON object:

```json
{"tool_calls":[{"id":"call_xxx","type":"function","function":{"name":"tool_name","arguments":"{...}"}}]}
```

CRITICAL: The 'arguments' field MUST be a JSON-encoded STRING.

#### write_file

**Description:** Writes a file.

**Parameters:**
```json
{
  "type": "object",
  "properties": {
    "path": {"type": "string", "maxLength": 20},
    "content": {"type": "string", "maxLength": 60}
  },
  "required": ["path", "content"]
}
```

#### blink

**Description:** Blinks.

**Parameters:**
```json
{"type":"object","properties":{"times":{"type":"integer","minimum":1,"maximum":9}},"required":["times"]}
```
</s>
<|user|>
Do something.</s>
<|assistant|>
"##;

/// Its answer: trimmed stdout, or stderr where the exit code is not 0.
fn provider(model: &str, prompt: &str, json: bool) -> Result<String, String> {
    let mut command = Command::new(env!("CARGO_BIN_EXE_katydid"));
    command.args([model, "-n", "256", "-j", "4", "-t", "0.7"]);
    if json {
        command.arg("--json");
    }
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    child.stdin.take().unwrap().write_all(prompt.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    let err = text(&output.stderr);
    if output.status.success() { Ok(text(&output.stdout).trim().to_owned()) } else { Err(err) }
}

/// Name and arguments of the calls in an answer, found as the provider finds
/// them: the literal beginning, then braces counted wherever they stand.
fn calls(answer: &str) -> Option<Vec<(String, String, Value)>> {
    let from = answer.find("{\"tool_calls\"")?;
    let mut depth = 0;
    let end = answer[from..].bytes().position(|b| {
        depth += i32::from(b == b'{') - i32::from(b == b'}');
        depth == 0
    })?;
    let value: Value = serde_json::from_str(&answer[from..=from + end]).ok()?;
    let read = |call: &Value| {
        let function = &call["function"];
        assert_eq!(call["type"], "function");
        let arguments = serde_json::from_str(function["arguments"].as_str()?).ok()?;
        Some((call["id"].as_str()?.to_owned(), function["name"].as_str()?.to_owned(), arguments))
    };
    value["tool_calls"].as_array()?.iter().map(read).collect()
}

/// A model that always wants to call tools, and one that ends at once.
fn wants(id: u32, name: &str) -> String {
    let shape = Shape { context: 1024, ..Shape::SMALL };
    let mut model = Tiny::new(&shape);
    model.token(319, "{\"tool_calls\"", false);
    // What follows depends on nothing but a little noise, so that arguments vary.
    model.parrot(&shape, |_| None);
    model.fill("token_embd.weight", |i| if i % 64 == 0 { 10.0 } else { (i * 7919 % 13) as f32 / 13.0 - 0.5 });
    model.fill("output.weight", |i| match (i % 64, i / 64 == id as usize) {
        (0, mine) => f32::from(u8::from(mine)) * 10.0,
        _ => (i * 104_729 % 17) as f32 / 40.0 - 0.2,
    });
    model.save(folder(), name).to_str().unwrap().to_owned()
}

#[test]
fn a_call_of_tools_reaches_the_provider() {
    let model = wants(319, "caller.gguf");
    let prompts = ["Do something.", "Write { and \" to a file.", "Blink!", "Again", "More"];
    let mut ids = Vec::new();
    for prompt in prompts {
        let answer = provider(&model, &SYSTEM.replace("Do something.", prompt), true).unwrap();
        assert!(answer.starts_with("{\"tool_calls\":[{\"id\":\"call_"), "{answer}");
        let calls = calls(&answer).unwrap_or_else(|| panic!("lost: {answer}"));
        assert!(!calls.is_empty());
        for (id, name, arguments) in calls {
            assert!(id.len() == 13 && !ids.contains(&id), "{id}");
            ids.push(id);
            match name.as_str() {
                "blink" => assert!((1..=9).contains(&arguments["times"].as_u64().unwrap())),
                "write_file" => assert!(arguments["path"].is_string() && arguments["content"].is_string()),
                _ => panic!("{name}"),
            }
        }
    }
}

#[test]
fn plain_answers_are_plain() {
    let caller = wants(319, "caller.gguf");
    // Without --json nothing is constrained; with it, plain text may still come.
    let plain = provider(&caller, SYSTEM, false).unwrap();
    assert!(plain.contains("{\"tool_calls\"{\"tool_calls\""));
    for json in [false, true] {
        let says = provider(&wants(262, "plain.gguf"), SYSTEM, json).unwrap();
        assert!(says.starts_with("ccc") && !says.contains('{'), "{says}");
        // The end of a text is no part of it.
        assert_eq!(provider(&wants(2, "silent.gguf"), SYSTEM, json).unwrap(), "");
    }
    // A model to which the template's marks are plain text.
    let mut marks = Tiny::new(&Shape { context: 1024, ..Shape::SMALL });
    marks.token(318, "</s", false).token(317, "ok", false);
    marks.parrot(&Shape { context: 1024, ..Shape::SMALL }, |id| match id {
        13 => Some(317),
        317 => Some(318),
        318 => Some(3 + u32::from(b'>')),
        _ => None,
    });
    let marks = marks.save(folder(), "marks.gguf");
    assert_eq!(provider(marks.to_str().unwrap(), SYSTEM, false).unwrap(), "ok");
}

/// The prompt asks for calls, but describes the tools in a way that we do not
/// know: words stay words, and a call is one that the provider reads.
#[test]
fn tools_that_are_not_found_may_still_be_called() {
    let system = SYSTEM.replace("#### ", "## ");
    let caller = wants(319, "caller.gguf");
    for prompt in ["Do something.", "Again"] {
        let answer = provider(&caller, &system.replace("Do something.", prompt), true).unwrap();
        let calls = calls(&answer).unwrap_or_else(|| panic!("lost: {answer}"));
        assert!(!calls.is_empty() && calls.iter().all(|(_, name, a)| !name.is_empty() && a.is_object()));
    }
    let says = provider(&wants(262, "plain.gguf"), &system, true).unwrap();
    assert!(says.starts_with("ccc") && !says.contains('{'), "{says}");
}

#[test]
fn without_tools_json_is_an_object() {
    let args = |n: &'static str| [model(), "-p", "a", "-n", n, "--json", "-t", "1.2", "-k", "1", "-s", "3"];
    for n in ["0", "7", "60"] {
        let out = good(&mut katydid(args(n)));
        assert!(serde_json::from_str::<Value>(&out).unwrap().is_object(), "{out}");
    }
}

#[test]
fn failures_are_said_on_stderr() {
    let small = provider(model(), &"long ".repeat(400), true).unwrap_err();
    assert!(small.contains("context window of 256"), "{small}");
    let cut = folder().join("cut.gguf");
    std::fs::write(&cut, &std::fs::read(model()).unwrap()[..2000]).unwrap();
    assert!(provider(cut.to_str().unwrap(), SYSTEM, true).unwrap_err().contains("cut.gguf"));
    let missing = katydid(["no/such/model", "-p", "x"]).output().unwrap();
    assert_eq!(missing.status.code(), Some(1));
    // A long prompt makes room for itself where the model was trained for it.
    let long = super::changed("trained.gguf", |m| _ = m.set("llama.context_length", Meta::U32(8192)));
    let answer = provider(&long, &"ab ".repeat(3000), false);
    assert!(answer.is_ok(), "{answer:?}");
}

#[test]
fn verbs_come_first() {
    std::fs::write(folder().join("run"), "not a model").unwrap();
    let mut run = katydid(["run", "--help"]);
    assert!(good(run.current_dir(folder())).contains("Usage: katydid run"));
    // Called by a path, it is a model, and not one that can be read.
    let mut run = katydid(["./run", "-p", "a"]);
    super::fails(run.current_dir(folder()), "./run");
    std::fs::copy(model(), folder().join("plainname")).unwrap();
    let mut run = katydid(["plainname", "-p", "a", "-n", "3"]);
    good(run.current_dir(folder()));
    assert!(good(&mut katydid(["m.gguf", "--help"])).contains("katydid MODEL.gguf [OPTIONS]"));
    assert_eq!(katydid(["m.gguf", "--frob"]).output().unwrap().status.code(), Some(2));
}
