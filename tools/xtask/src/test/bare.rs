//! The core for machines without an operating system.
//!
//! For each target the core and all it depends on, down to Rust's own `core`,
//! are compiled to object code (without link-time optimisation, which would
//! leave bitcode only). Whatever symbol none of these objects defines is what
//! a firmware must bring. It must be the panic handler, and above all no
//! allocator. The same question is put to Rust's `alloc`, whose answer must
//! name one: a check that cannot fail is none.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};
use object::read::archive::ArchiveFile;
use object::{Object, ObjectSymbol};

use super::Tally;
use crate::cmd;
use crate::toolchain::{self, Toolchain};

/// A big core with an MMU, a 32-bit one, and a microcontroller.
pub(super) const TARGETS: [&str; 3] = ["aarch64-unknown-none", "armv7a-none-eabi", "thumbv7em-none-eabihf"];

/// What a firmware brings, as parts of mangled names: the panic handler.
const BROUGHT: [&str; 1] = ["rust_begin_unwind"];

pub(super) fn run() -> Result<Tally> {
    let mut tally = Tally::default();
    tally.check("the check sees an allocator where there is one", control());
    for triple in TARGETS {
        tally.check(&format!("{triple} needs no allocator"), needs_nothing(triple));
    }
    Ok(tally)
}

/// Builds the core for `triple` and looks at what its object code leaves open.
fn needs_nothing(triple: &str) -> Result<()> {
    let libraries = build(triple)?;
    ensure!(!libraries.is_empty(), "cargo reported no libraries");
    let open = undefined(&libraries)?;
    let unexpected: Vec<&String> = open.iter().filter(|s| !BROUGHT.iter().any(|b| s.contains(b))).collect();
    ensure!(unexpected.is_empty(), "left for the linker to find: {unexpected:#?}");
    Ok(())
}

/// Asks of this machine's `alloc` what [`needs_nothing`] asks of the core.
fn control() -> Result<()> {
    let libraries = installed(&toolchain::library_dir(&toolchain::host()?)?, &["liballoc-"])?;
    let open = undefined(&libraries)?;
    ensure!(open.iter().any(|s| s.contains("__rust_alloc")), "Rust's alloc seems to need no allocator");
    Ok(())
}

/// The libraries of the core and of everything beneath it.
fn build(triple: &str) -> Result<Vec<PathBuf>> {
    let toolchain = Toolchain::bare(triple)?;
    let mut cargo = toolchain.cargo("build");
    cargo.args(["--package=katydid-core", "--release", "--config=profile.release.lto=\"off\""]);
    // Optimising takes uses away and adds none: without it the check is quicker
    // and asks for no less.
    cargo.args(["--config=profile.release.opt-level=0", "--config=profile.release.codegen-units=16"]);
    cargo.arg("--message-format=json-render-diagnostics");
    let mut libraries = Vec::new();
    if !cmd::lines(&mut cargo, |line| libraries.extend(rlibs(line, triple)))? {
        bail!("{} failed", cmd::show(&cargo));
    }
    if toolchain.library_is_installed() {
        let dir = toolchain::library_dir(triple)?;
        libraries.extend(installed(&dir, &["libcore-", "libcompiler_builtins-"])?);
    }
    Ok(libraries)
}

/// The libraries for `triple` that one of cargo's messages reports. (Those of
/// procedural macros, which run on this machine, lie in another folder.)
fn rlibs(message: &str, triple: &str) -> Vec<PathBuf> {
    let message: serde_json::Value = serde_json::from_str(message).unwrap_or_default();
    let names = message["filenames"].as_array().into_iter().flatten();
    let names = names.filter_map(|n| n.as_str()).filter(|n| n.ends_with(".rlib"));
    names.map(PathBuf::from).filter(|p| p.iter().any(|folder| folder == triple)).collect()
}

/// The libraries in `dir` whose names begin with one of `prefixes`.
fn installed(dir: &Path, prefixes: &[&str]) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(dir).with_context(|| format!("{}", dir.display()))? {
        let name = entry?.file_name().to_string_lossy().into_owned();
        if name.ends_with(".rlib") && prefixes.iter().any(|p| name.starts_with(p)) {
            found.push(dir.join(name));
        }
    }
    ensure!(found.len() == prefixes.len(), "{} should hold one each of {prefixes:?}", dir.display());
    Ok(found)
}

/// The symbols that some of the libraries' objects use and none defines.
fn undefined(libraries: &[PathBuf]) -> Result<BTreeSet<String>> {
    let (mut used, mut defined) = (BTreeSet::new(), BTreeSet::new());
    for path in libraries {
        let bytes = std::fs::read(path).with_context(|| format!("{}", path.display()))?;
        scan(&bytes, &mut used, &mut defined).with_context(|| format!("{}", path.display()))?;
    }
    ensure!(!defined.is_empty(), "the libraries define no symbol at all: is there object code in them?");
    Ok(used.difference(&defined).cloned().collect())
}

/// Sorts the symbols of one archive's objects.
fn scan(archive: &[u8], used: &mut BTreeSet<String>, defined: &mut BTreeSet<String>) -> Result<()> {
    for member in ArchiveFile::parse(archive)?.members() {
        let member = member?;
        if !member.name().ends_with(b".o") {
            continue; // the crate's metadata
        }
        let object = object::File::parse(member.data(archive)?)?;
        for symbol in object.symbols() {
            let Ok(name) = symbol.name() else { continue };
            if symbol.is_undefined() && !name.is_empty() {
                used.insert(name.into());
            } else if symbol.is_definition() && symbol.is_global() {
                defined.insert(name.into());
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn libraries_come_from_messages_that_have_some() {
        let line = r#"{"reason":"compiler-artifact","filenames":["/t/a/libx.rlib","/t/a/libx.rmeta"]}"#;
        assert_eq!(rlibs(line, "a"), [PathBuf::from("/t/a/libx.rlib")]);
        assert!(rlibs(line, "b").is_empty());
        assert!(rlibs("Finished", "a").is_empty());
    }

    #[test]
    fn libraries_without_symbols_are_refused() {
        assert!(undefined(&[]).is_err());
    }
}
