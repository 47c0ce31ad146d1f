//! Answers that keep to a schema.

use serde_json::Value;

use super::{fails, folder, good, katydid, model, text};

const PERSON: &str = r#"{"type":"object","properties":{"name":{"type":"string","maxLength":12},"age":{"type":"integer","minimum":0,"maximum":120},"likes":{"type":"array","items":{"enum":["tea","rain","owls"]},"maxItems":3}},"required":["name","age"]}"#;

fn file(name: &str, content: &str) -> String {
    let path = folder().join(name);
    std::fs::write(&path, content).unwrap();
    path.to_str().unwrap().to_owned()
}

#[test]
fn answers_keep_to_a_schema_wherever_they_are_cut() {
    let schema = file("person.json", PERSON);
    let mut closed = 0;
    for n in ["0", "1", "2", "5", "17", "200"] {
        for seed in ["1", "2"] {
            let mut run = katydid(["run", model(), "-p", "ab", "--schema", &schema]);
            let output = run.args(["-n", n, "-s", seed, "-t", "1.2", "--top-k", "0"]).output().unwrap();
            let (out, err) = (text(&output.stdout), text(&output.stderr));
            assert!(output.status.success(), "{err}");
            let value: Value = serde_json::from_str(&out).unwrap_or_else(|e| panic!("{out}: {e}"));
            assert!(value["name"].as_str().unwrap().chars().count() <= 12, "{out}");
            assert!(value["age"].as_i64().unwrap() <= 120, "{out}");
            assert!(value["likes"].as_array().is_none_or(|l| l.len() <= 3), "{out}");
            closed += usize::from(err.contains("closed in the shortest way"));
            assert_eq!(out.lines().count(), 1);
        }
    }
    assert!((8..12).contains(&closed), "{closed}");
}

#[test]
fn any_json() {
    for n in ["0", "3", "40"] {
        let run = ["run", model(), "-p", "ab", "--json", "-n", n, "-t", "1", "--top-k", "0", "--ignore-eos"];
        let value: Value = serde_json::from_str(&good(&mut katydid(run))).unwrap();
        assert!(value.is_object() || value.is_array());
    }
    // A context that fills up ends the text as soundly as -n does.
    let run = katydid(["run", model(), "-p", "ab", "--json", "-n", "999", "-c", "24"]).output().unwrap();
    assert!(run.status.success());
    serde_json::from_slice::<Value>(&run.stdout).unwrap();
}

#[test]
fn a_story_teller_fills_in_a_form() {
    let Some(model) = katydid_tests::shared("models/stories260K.gguf") else { return };
    let schema = file("story.json", PERSON);
    let mut run = katydid(["run", model.to_str().unwrap(), "-p", "Once upon a time", "--schema", &schema]);
    let value: Value = serde_json::from_str(&good(run.args(["-t", "0", "-n", "60"]))).unwrap();
    assert!(value["name"].is_string() && value["age"].is_u64());
}

#[test]
fn a_byte_order_mark_is_no_part_of_a_schema() {
    let schema = file("marked.json", &format!("\u{feff}{PERSON}"));
    let out = good(&mut katydid(["run", model(), "-p", "ab", "--schema", &schema, "-n", "20"]));
    assert!(serde_json::from_str::<Value>(&out).unwrap()["name"].is_string(), "{out}");
}

#[test]
fn schemas_that_cannot_be() {
    let run = |schema: &str| katydid(["run", model(), "-p", "a", "-n", "4", "--schema", schema]);
    fails(&mut run("/nowhere/schema.json"), "cannot open /nowhere/schema.json");
    fails(&mut run(&file("cut.json", "{\"type\":")), "cut.json: the schema is not JSON");
    fails(&mut run(&file("not.json", "{\"not\":{}}")), "at /not: not is not supported");
    fails(&mut run(model()), "as a JSON Schema");
    let both = katydid(["run", model(), "-p", "a", "--json", "--schema", "x"]).output().unwrap();
    assert_eq!(both.status.code(), Some(2));
    // What a grammar takes is part of the plan.
    let schema = file("ram.json", PERSON);
    fails(run(&schema).args(["--ram", "10k"]), "--ram allows");
}
