//! Programs that misbehave, each a real process.

use super::super::testing::Bench;
use super::*;

fn bench() -> Bench {
    Bench::new(
        r#"{"text":{"type":"string"},"n":{"type":"integer"},"list":{"type":"array","items":{"type":"string"}}}"#,
    )
}

fn run(bench: &Bench, toml: &str, arguments: &str) -> Done {
    let exec = bench.check(toml, Exec::check).unwrap();
    let run = exec.prepare(&Value::parse(arguments).unwrap()).unwrap();
    bench.run(&run)
}

/// A fixed script in a shell.
fn script(bench: &Bench, script: &str) -> Done {
    run(bench, &format!("argv = [\"sh\", \"-c\", {script:?}]"), "{}")
}

#[test]
fn arguments_arrive_as_they_are() {
    let toml = r#"argv = ["printf", "[%s]", "{text}", ["-n", "{n}"], "{list...}"]"#;
    let done = run(&bench(), toml, r#"{"text":"$(id); `id` | \"x\" > /tmp/y *","list":["a b","c"]}"#);
    assert_eq!(done, Done::ok("[$(id); `id` | \"x\" > /tmp/y *][a b][c]"));
    let exec = bench().check(toml, Exec::check).unwrap();
    let run = exec.prepare(&Value::parse(r#"{"n":3}"#).unwrap()).unwrap();
    assert_eq!(run.describe(), r#"run printf "[%s]" "-n" "3""#);
    let error = exec.prepare(&Value::parse(r#"{"text":"--help"}"#).unwrap()).err().unwrap();
    assert!(error.contains("option"), "{error}");
    // After `--` nothing is an option.
    let done = self::run(&bench(), r#"argv = ["echo", "--", "{text}"]"#, r#"{"text":"--help"}"#);
    assert_eq!(done, Done::ok("-- --help"));
}

#[test]
fn a_program_that_hangs_is_stopped_with_all_it_started() {
    let mut bench = bench();
    bench.timeout = Duration::from_millis(300);
    let started = Instant::now();
    // One child ignores the polite signal, one is in the background.
    let done = script(&bench, "trap '' TERM; sleep 97 & echo $!; sleep 98 & echo $!; wait; sleep 99");
    assert!(started.elapsed() < Duration::from_secs(10));
    assert!(!done.ok && done.content.starts_with("stopped: it took longer than 0.3 s\n"), "{done:?}");
    for pid in done.content.lines().skip(1) {
        let state = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        assert!(state.is_empty() || state.contains(") Z "), "{pid} lives: {state}");
    }
}

#[test]
fn a_background_process_does_not_hold_a_call_up() {
    let started = Instant::now();
    let done = script(&bench(), "sleep 96 & echo done");
    assert_eq!(done, Done::ok("done"));
    assert!(started.elapsed() < Duration::from_secs(5));
}

#[test]
fn a_flood_is_cut_and_stopped() {
    let bench = bench();
    let done = run(&bench, r#"argv = ["head", "-c", "3000000", "/dev/zero"]"#, "{}");
    assert!(done.ok && done.content.len() == 1000 && done.dropped == 2_999_000, "{}", done.dropped);
    let done = run(&bench, r#"argv = ["yes"]"#, "{}");
    assert!(!done.ok && done.content.starts_with("stopped: it wrote more than 16 MiB\ny\ny\n"));
    assert!(done.content.len() < 1100);
    // Not reading its input, either.
    let text = "x".repeat(60_000);
    let done = run(
        &bench,
        r#"argv = ["true"]
        stdin = "{text}{text}{text}""#,
        &format!("{{\"text\":{text:?}}}"),
    );
    assert_eq!(done, Done::ok(""));
}

#[test]
fn ends_are_told_apart() {
    let bench = bench();
    let done = script(&bench, "echo out; echo err >&2; exit 3");
    assert_eq!(done, Done::failed("exit code 3\nout\n[stderr] err"));
    let done = script(&bench, "kill -SEGV $$");
    assert_eq!(done, Done::failed("it died by signal SIGSEGV"));
    let done = script(&bench, "printf 'a\\377b'");
    assert_eq!(done, Done::ok("a\u{fffd}b"));
    let done = run(&bench, r#"argv = ["/no/such/program"]"#, "{}");
    assert_eq!(done, Done::failed("the program /no/such/program does not exist on this machine"));
    let done = run(&bench, "argv = [\"true\"]\ncwd = \"/no/such/folder\"", "{}");
    assert_eq!(done, Done::failed("the folder /no/such/folder does not exist"));
    std::fs::write(bench.folder.path().join("text"), "not a program").unwrap();
    let done = run(&bench, r#"argv = ["./text"]"#, "{}");
    assert!(done.content.contains("may not be run"), "{done:?}");
}

#[test]
fn little_is_inherited() {
    let bench = bench();
    std::fs::write(bench.folder.path().join("s"), "very-secret").unwrap();
    let toml = "argv = [\"env\"]\nenv = [\"CARGO_MANIFEST_DIR\"]\nset_env = { KEY = \"${file:s}\" }";
    let done = run(&bench, toml, "{}");
    let mut names: Vec<&str> = done.content.lines().filter_map(|l| Some(l.split_once('=')?.0)).collect();
    names.sort_unstable();
    assert_eq!(names, ["CARGO_MANIFEST_DIR", "KEY", "LANG", "PATH"]);
    assert!(done.content.contains("KEY=very-secret"));
    let done = run(&bench, "argv = [\"cat\"]\nstdin = \"<{text}>\"", r#"{"text":"é"}"#);
    assert_eq!(done, Done::ok("<é>"));
    // No input, and none of our open files.
    let path = bench.folder.path().join("s");
    let open = std::fs::File::open(&path).unwrap();
    let done = script(&bench, "cat; ls -l /proc/self/fd/");
    assert!(done.content.contains("-> ") && !done.content.contains(path.to_str().unwrap()), "{done:?}");
    drop(open);
}

#[test]
fn users_are_found_and_become() {
    let bench = bench();
    let missing = bench.check("argv = [\"id\"]\nuser = \"no-such-user\"", Exec::check).unwrap_err();
    assert!(missing.contains("create it"), "{missing}");
    let done = run(&bench, "argv = [\"id\", \"-un\"]\nuser = \"nobody\"", "{}");
    if nix::unistd::Uid::effective().is_root() {
        assert_eq!(done, Done::ok("nobody"));
    } else {
        assert!(done.content.contains("only root"), "{done:?}");
    }
}

#[test]
fn scripts_take_no_arguments() {
    let bench = bench();
    for bad in [
        r#"["sh", "-c", "echo {text}"]"#,
        r#"["/bin/bash", "-xc", "{text}"]"#,
        r#"["python3", "-c{text}"]"#,
        r#"["python3.11", "-c", "print({n})"]"#,
        r#"["bash", "{text}"]"#,
        r#"["env", "{text}"]"#,
        r#"["awk", "{text}"]"#,
        r#"["perl", "-e", "{text}"]"#,
        r#"["timeout", "5", "/bin/sh", "-c", "{text}"]"#,
        r#"["busybox", "sh", "-c", "{text}"]"#,
        r#"["sh", "-c", "--", "{text}"]"#,
        r#"["bash", "-cx", "{text}"]"#,
        r#"["bash", "-c", "-x", "{text}"]"#,
        r#"["node", "--eval", "{text}"]"#,
        r#"["sed", "-E", "-n", "{text}"]"#,
        r#"["sed", "p", "-e", "{text}"]"#,
        r#"["awk", "-F", ":", "{text}"]"#,
        r#"["watch", "-n", "5", "{text}"]"#,
        r#"["ssh", "host", "ls", "{text}"]"#,
        r#"["sed", "-n", "{text}"]"#,
        r#"["python3", "-m", "{text}"]"#,
    ] {
        let error = bench.check(&format!("argv = {bad}"), Exec::check).unwrap_err();
        assert!(error.contains("as code"), "{bad}: {error}");
    }
    let done = run(&bench, r#"argv = ["sh", "-c", "echo \"<$1>\"", "x", "{text}"]"#, r#"{"text":"$(id)"}"#);
    assert_eq!(done, Done::ok("<$(id)>"));
    for (bad, says) in [
        ("argv = []", "begin with the program"),
        ("argv = [\"{text}\"]", "cannot be an argument"),
        ("argv = [\"true\"]\nenv = [\"A=B\"]", "no name"),
        ("argv = [\"true\", \"{texts}\"]", "no parameter"),
        ("argv = [\"true\"]\nshell = true", "unknown field `shell`"),
    ] {
        let error = bench.check(bad, Exec::check).unwrap_err();
        assert!(error.contains(says), "{bad}: {error}");
    }
}
