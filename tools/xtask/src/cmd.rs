//! Running other programs, and finding the repository.

use std::ffi::OsStr;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

/// The repository's root.
pub(crate) fn root() -> PathBuf {
    // tools/xtask/../..
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.ancestors().nth(2).unwrap_or(here).to_path_buf()
}

/// Where builds go, or a folder in it.
pub(crate) fn target_dir(sub: &str) -> PathBuf {
    match std::env::var_os("CARGO_TARGET_DIR") {
        // Cargo takes a relative one from where it was called.
        Some(dir) => std::path::absolute(&dir).unwrap_or(dir.into()),
        None => root().join("target"),
    }
    .join(sub)
}

/// The cargo that runs us.
pub(crate) fn cargo() -> PathBuf {
    std::env::var_os("CARGO").map_or("cargo".into(), PathBuf::from)
}

/// A command started in the repository's root, with nothing to read.
pub(crate) fn command(program: impl AsRef<OsStr>) -> Command {
    let mut c = Command::new(program);
    c.current_dir(root()).stdin(Stdio::null());
    c
}

/// Whether `program` can be found on the path.
pub(crate) fn on_path(program: &str) -> bool {
    std::env::var_os("PATH").is_some_and(|p| std::env::split_paths(&p).any(|dir| dir.join(program).is_file()))
}

/// Runs `c`, its output shown as it comes. An error when it fails.
pub(crate) fn run(c: &mut Command) -> Result<()> {
    let status = c.status().with_context(|| format!("cannot start {c:?}"))?;
    if !status.success() {
        bail!("{} failed ({status})", show(c));
    }
    Ok(())
}

/// Runs `c` and returns what it wrote to standard output.
pub(crate) fn output(c: &mut Command) -> Result<String> {
    let out = c.stderr(Stdio::inherit()).output().with_context(|| format!("cannot start {c:?}"))?;
    if !out.status.success() {
        bail!("{} failed ({})", show(c), out.status);
    }
    String::from_utf8(out.stdout).with_context(|| format!("{} wrote something that is not text", show(c)))
}

/// Runs `c`, handing each line of its standard output to `line`; returns
/// whether it succeeded.
pub(crate) fn lines(c: &mut Command, mut line: impl FnMut(&str)) -> Result<bool> {
    let mut child = c.stdout(Stdio::piped()).spawn().with_context(|| format!("cannot start {c:?}"))?;
    let stdout = child.stdout.take().context("no pipe")?;
    for l in BufReader::new(stdout).split(b'\n') {
        line(&String::from_utf8_lossy(&l?));
    }
    Ok(child.wait()?.success())
}

/// A command as one would type it, without its environment.
pub(crate) fn show(c: &Command) -> String {
    let name = Path::new(c.get_program()).file_name().unwrap_or(c.get_program());
    let words = std::iter::once(name).chain(c.get_args());
    words.map(OsStr::to_string_lossy).collect::<Vec<_>>().join(" ")
}
