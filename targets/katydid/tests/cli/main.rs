//! The command as its users meet it: arguments, files, pipes, signals, exit
//! codes, and what goes to stdout and what to stderr.

mod agent;
mod cache;
mod chat;
mod files;
mod json;
mod outputs;
mod picolm;
mod results;
mod run;
mod same_bits;
mod usage;

use std::path::{Path, PathBuf};
use std::process::Output;
use std::sync::OnceLock;
use std::time::Duration;

use assert_cmd::Command;
use katydid_tests::tiny::{Meta, Shape, Tiny};

/// Where tests may write.
fn folder() -> &'static Path {
    Path::new(env!("CARGO_TARGET_TMPDIR"))
}

/// The program, which must end within a minute.
fn katydid<S: AsRef<std::ffi::OsStr>>(args: impl IntoIterator<Item = S>) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_katydid"));
    command.args(args).env_remove("KATYDID_ISA").timeout(Duration::from_secs(60));
    command
}

/// A sound model, the same for all tests.
fn model() -> &'static str {
    static PATH: OnceLock<PathBuf> = OnceLock::new();
    PATH.get_or_init(|| Tiny::new(&Shape::SMALL).save(folder(), "small.gguf")).to_str().expect("UTF-8")
}

/// Saves a changed model.
fn changed(name: &str, change: impl FnOnce(&mut Tiny)) -> String {
    let mut model = Tiny::new(&Shape::SMALL);
    change(&mut model);
    model.save(folder(), name).to_str().expect("UTF-8").to_owned()
}

/// A model that may be given any context.
fn long() -> String {
    changed("long.gguf", |m| _ = m.set("llama.context_length", Meta::U32(1 << 24)))
}

fn text(bytes: &[u8]) -> String {
    let text = String::from_utf8(bytes.to_vec()).expect("UTF-8");
    assert!(!text.contains("panicked"), "{text}");
    text
}

/// Runs; all must be well. Returns stdout.
fn good(command: &mut Command) -> String {
    let Output { status, stdout, stderr } = command.output().expect("runs");
    let stderr = text(&stderr);
    assert!(status.success(), "{status}: {stderr}");
    text(&stdout)
}

/// Runs; must fail with exit code 1, nothing on stdout and one line on stderr,
/// which it returns.
fn failed(command: &mut Command) -> String {
    let Output { status, stdout, stderr } = command.output().expect("runs");
    let stderr = text(&stderr);
    assert_eq!(status.code(), Some(1), "{stderr}");
    assert_eq!(text(&stdout), "");
    assert!(stderr.starts_with("katydid: ") && stderr.ends_with('\n'), "{stderr}");
    assert_eq!(stderr.lines().count(), 1, "{stderr}");
    stderr
}

/// The same, and the line contains `says`.
fn fails(command: &mut Command, says: &str) {
    let message = failed(command);
    assert!(message.contains(says), "'{message}' lacks '{says}'");
}
