//! `cargo xtask cross`: static executables for other machines.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::cmd;
use crate::toolchain::{self, Toolchain};

#[derive(clap::Args)]
pub(crate) struct Args {
    /// aarch64-unknown-linux-gnu, armv7-unknown-linux-gnueabihf or x86_64-unknown-linux-gnu
    triple: String,
    /// The package to build
    #[arg(short, long, default_value = "katydid")]
    package: String,
    /// Build the package's test executables instead, with checks and without link-time optimisation
    #[arg(long)]
    tests: bool,
}

pub(crate) fn main(args: &Args) -> Result<()> {
    let toolchain = Toolchain::hosted(&args.triple)?;
    eprintln!("{}", toolchain.describe());
    let mut cargo = toolchain.cargo("build");
    cargo.args(["--package", &args.package]);
    cargo.arg(if args.tests { "--tests" } else { "--release" });
    let built = build(&mut cargo)?;
    if built.is_empty() {
        bail!("package {} has no executable", args.package);
    }
    for path in built {
        println!("{}  {}", path.display(), size(&path)?);
    }
    Ok(())
}

/// Runs a `cargo build`, statically linked; returns the executables it made.
pub(crate) fn build(cargo: &mut Command) -> Result<Vec<PathBuf>> {
    toolchain::link_statically(cargo);
    cargo.arg("--message-format=json-render-diagnostics");
    let mut built = Vec::new();
    if !cmd::lines(cargo, |line| built.extend(executable(line)))? {
        bail!("{} failed", cmd::show(cargo));
    }
    Ok(built)
}

/// The executable one of cargo's messages reports, if any.
fn executable(message: &str) -> Option<PathBuf> {
    let message: serde_json::Value = serde_json::from_str(message).ok()?;
    Some(message.get("executable")?.as_str()?.into())
}

/// A file's size for people. Release executables are stripped by their profile.
fn size(path: &Path) -> Result<String> {
    let bytes = std::fs::metadata(path).with_context(|| format!("{}", path.display()))?.len();
    Ok(format!("{bytes} bytes ({:.2} MiB)", bytes as f64 / (1 << 20) as f64))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn executables_come_from_messages_that_have_one() {
        assert_eq!(executable(r#"{"reason":"compiler-artifact","executable":"/a/b"}"#), Some("/a/b".into()));
        assert_eq!(executable(r#"{"reason":"compiler-artifact","executable":null}"#), None);
        assert_eq!(executable("   Compiling x"), None);
    }
}
