use super::*;

fn parse(text: &str) -> Result<Config, ConfigError> {
    Config::parse(Path::new("/srv/agent/tools.toml"), text)
}

/// What is said of a bad file.
fn error(text: &str) -> String {
    parse(text).unwrap_err().to_string()
}

const LAMP: &str = r#"
[[tool]]
name = "lamp"
description = "Switches the lamp."
parameters = { type = "object", properties = { on = { type = "boolean" } }, required = ["on"] }
exec = { argv = ["true", "{on}"] }
"#;

#[test]
fn little_is_needed() {
    let config = parse(LAMP).unwrap();
    let lamp = &config.tools[0];
    assert_eq!((lamp.name.as_str(), lamp.policy, lamp.action.kind()), ("lamp", Policy::Ask, "exec"));
    assert_eq!(
        lamp.schema.text(),
        r#"{"type":"object","properties":{"on":{"type":"boolean"}},"required":["on"]}"#
    );
    assert_eq!((config.agent.max_steps, lamp.timeout), (8, Duration::from_secs(10)));
    assert!(config.warnings.is_empty());
    let config = parse("").unwrap();
    assert!(config.tools.is_empty() && config.mqtt.is_none());
    let config = parse("[[tool]]\nname = \"t\"\nbuiltin = \"time\"").unwrap();
    assert_eq!(config.tools[0].policy, Policy::Auto);
    assert!(config.tools[0].description.contains("date"));
}

#[test]
fn parameters_are_toml_or_json() {
    let json = LAMP.replace(
        "{ type = \"object\", properties = { on = { type = \"boolean\" } }, required = [\"on\"] }",
        r#"'{"type":"object","properties":{"on":{"type":"boolean"}},"required":["on"]}'"#,
    );
    assert_eq!(parse(&json).unwrap().tools[0].schema.text(), parse(LAMP).unwrap().tools[0].schema.text());
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("p.json"), r#"{"properties":{"z":{"type":"null"},"a":{}}}"#).unwrap();
    let text =
        "[[tool]]\nname = \"x\"\ndescription = \"x\"\nparameters_file = \"p.json\"\nexec.argv = [\"true\"]";
    let config = Config::parse(&dir.path().join("tools.toml"), text).unwrap();
    assert_eq!(config.tools[0].schema.names(), ["z", "a"]);
}

#[test]
fn errors_name_line_and_remedy() {
    for (text, line, says) in [
        ("[agent]\nmax_step = 3", 2, "unknown field `max_step`"),
        ("[agent\n", 1, ""),
        ("\n[agent]\nmax_steps = 0", 2, "max_steps = 0: from 1 to 100"),
        ("[agent]\nmax_steps = \"x\"", 2, "invalid type"),
        ("[agent]\ncalls = \"required\"", 1, "there is no tool to call"),
        ("[agent]\ncalls = \"always\"", 2, "unknown variant `always`"),
        ("[agent]\nsystem_file = \"none\"", 1, "system_file /srv/agent/none"),
        ("\n\n[[tool]]\nname = \"a b\"\nbuiltin = \"time\"", 4, "tool \"a b\": a name has"),
        ("[[tool]]\nname = \"a\"\nbuiltin = \"clock\"", 3, "unknown variant `clock`"),
        ("[[tool]]\nname = \"a\"\ndescription = \"x\"", 2, "it does nothing"),
        ("[[tool]]\nname = \"a\"\nbuiltin = \"time\"\nexec.argv = [\"true\"]", 2, "several things"),
        ("[[tool]]\nname = \"a\"\nexec.argv = [\"true\"]", 2, "the description is missing"),
        (
            "[[tool]]\nname = \"a\"\ndescription = \"x\"\nmqtt = { topic = \"a\", payload = \"b\" }",
            2,
            "add [mqtt]",
        ),
        (
            "[[tool]]\nname = \"a\"\ndescription = \"x\"\nexec.argv = [\"true\"]\ntimeout = \"fast\"",
            5,
            "no length of time",
        ),
        (
            "[[tool]]\nname = \"a\"\ndescription = \"x\"\nexec.argv = [\"true\"]\nexec.shell = true",
            5,
            "unknown field `shell`",
        ),
        (
            "[[tool]]\nname = \"a\"\ndescription = \"x\"\nparameters = 'no'\nexec.argv = [\"true\"]",
            2,
            "no JSON",
        ),
        (
            "[[tool]]\nname = \"a\"\ndescription = \"x\"\nparameters = { properties = { b = { type = \"colour\" } } }\nexec.argv = [\"true\"]",
            2,
            "parameters: schema, at /properties/b",
        ),
        (
            "[[tool]]\nname = \"a\"\ndescription = \"x\"\nexec.argv = [\"true\", \"{b}\"]",
            2,
            "exec: \"{b}\": the tool has no parameter",
        ),
        ("[[interval]]\nevery = \"10m\"\nprompt = \"\"", 1, "the prompt is empty"),
        ("[[interval]]\nevery = \"0s\"\nprompt = \"x\"", 1, "from 1 to"),
        ("[mqtt]\nhost = \"mqtt://x\"", 1, "without scheme"),
        ("[mqtt]\nhost = \"x\"\nusername = \"u\"", 1, "username without"),
        ("[mqtt]\nhost = \"x\"\nusername = \"u\"\npassword = \"p\"", 4, "unknown field `password`"),
        ("[mqtt]\nhost = \"x\"\nusername = \"u\"\npassword_env = \"KATYDID_NOT_SET\"", 1, "is not set"),
        ("[mqtt]\nhost = \"x\"\nsubscribe = [\"a/#/b\"]", 1, "no filter"),
        ("[mqtt]\nhost = \"x\"\nsubscribe = [\"a/#\"]\nreply_topic = \"a/{id}\"", 1, "asked again"),
        (
            "[mqtt]\nhost = \"x\"\nsubscribe = [\"a/+\"]\nreply_topic = \"b/{name}\"",
            1,
            "only {id} and {topic}",
        ),
        ("[mqtt]\nhost = \"x\"\ntls = true", 1, "needs ca_file"),
    ] {
        let error = parse(text).unwrap_err();
        assert_eq!(error.line, Some(line), "{text}\n{error}");
        assert!(error.to_string().starts_with("/srv/agent/tools.toml:"), "{error}");
        assert!(error.what.contains(says), "{text}\n{error}");
    }
    assert!(error(&format!("{LAMP}{LAMP}")).contains(":9: tool \"lamp\": there are two tools of this name"));
    assert!(Config::load(Path::new("/none/x.toml")).unwrap_err().to_string().contains("cannot be opened"));
}

#[test]
fn what_looks_wrong_is_warned_of() {
    let config = parse(&LAMP.replace("\"true\"", "\"/no/such/program\"")).unwrap();
    assert_eq!(config.warnings, ["tool \"lamp\": there is no program /no/such/program here"]);
}

#[test]
fn secrets_are_found_and_hidden() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("password"), "pass-word\n").unwrap();
    std::fs::write(dir.path().join("token"), "to-ken").unwrap();
    let text = "[mqtt]\nhost = \"x\"\nusername = \"u\"\npassword_file = \"password\"\n\
        [[tool]]\nname = \"a\"\ndescription = \"x\"\n[tool.http]\nurl = \"http://h/${file:token}\"";
    let config = Config::parse(&dir.path().join("tools.toml"), text).unwrap();
    assert_eq!(config.redactor.mask("a pass-word, a to-ken"), "a ***, a ***");
    let shown = format!("{config:?}");
    assert!(!shown.contains("pass-word") && !shown.contains("to-ken"), "{shown}");
}

#[test]
fn the_example_is_right() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tools.example.toml");
    let text = std::fs::read_to_string(&path).unwrap();
    let config = Config::parse(&path, &text).unwrap();
    let kinds: Vec<&str> = config.tools.iter().map(|t| t.action.kind()).collect();
    for kind in ["exec", "http", "mqtt", "gpio", "file", "builtin"] {
        assert!(kinds.contains(&kind), "no example of {kind}");
    }
    // Every key that exists is shown, or commented out.
    for key in
        include_str!("raw.rs").lines().filter_map(|l| l.trim().strip_prefix("pub(super) ")?.split_once(": "))
    {
        assert!(text.contains(key.0), "{} is not in the example", key.0);
    }
}
