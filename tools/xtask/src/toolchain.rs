//! Which compiler builds for which target.
//!
//! Where the active compiler has the target's standard library installed (as
//! after `rustup target add`), it is used as it is. Otherwise the library is
//! built from source, with whichever of the active compiler and the system's
//! `/usr/bin/rustc` has that source beside it. The latter needs
//! `RUSTC_BOOTSTRAP=1` for `-Zbuild-std`; our own code uses no unstable feature.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Result, bail};

use crate::cmd;

/// The compiler Debian's packages install.
const SYSTEM_RUSTC: &str = "/usr/bin/rustc";

/// The C toolchain that links for a target: its driver, and what Debian calls
/// the packages it needs.
struct Linker {
    triple: &'static str,
    program: &'static str,
    packages: &'static str,
}

const LINKERS: [Linker; 3] = [
    Linker { triple: "x86_64-unknown-linux-gnu", program: "x86_64-linux-gnu-gcc", packages: "gcc libc6-dev" },
    Linker {
        triple: "aarch64-unknown-linux-gnu",
        program: "aarch64-linux-gnu-gcc",
        packages: "gcc-aarch64-linux-gnu libc6-dev-arm64-cross",
    },
    Linker {
        triple: "armv7-unknown-linux-gnueabihf",
        program: "arm-linux-gnueabihf-gcc",
        packages: "gcc-arm-linux-gnueabihf libc6-dev-armhf-cross",
    },
];

/// A compiler that can build for one target, and how.
pub(crate) struct Toolchain {
    triple: String,
    cargo: PathBuf,
    /// `None`: the active one.
    rustc: Option<PathBuf>,
    /// The crates of the standard library to build from source, if any.
    build_std: Option<&'static str>,
    linker: Option<&'static str>,
}

impl Toolchain {
    /// The toolchain for a target with an operating system, linker included.
    pub(crate) fn hosted(triple: &str) -> Result<Self> {
        let Some(linker) = LINKERS.iter().find(|l| l.triple == triple) else {
            let known = LINKERS.each_ref().map(|l| l.triple).join(", ");
            bail!("{triple} is not among the targets we build for: {known}");
        };
        let native = host()? == triple;
        if !native && !cmd::on_path(linker.program) {
            bail!(
                "no linker for {triple}: {} is not on the path\n  sudo apt-get install {}",
                linker.program,
                linker.packages
            );
        }
        let linker = (!native).then_some(linker.program);
        Ok(Self { linker, ..Self::find(triple, "std", "std,panic_abort")? })
    }

    /// The toolchain for a target with nothing beneath it: libraries only.
    pub(crate) fn bare(triple: &str) -> Result<Self> {
        Self::find(triple, "core", "core")
    }

    fn find(triple: &str, library: &str, crates: &'static str) -> Result<Self> {
        let with = |rustc: Option<PathBuf>, build_std| Self {
            triple: triple.into(),
            cargo: beside(rustc.as_deref(), "cargo").unwrap_or_else(cmd::cargo),
            rustc,
            build_std,
            linker: None,
        };
        if has_library(triple, library)? {
            return Ok(with(None, None));
        }
        for rustc in [None, Some(PathBuf::from(SYSTEM_RUSTC))] {
            if has_source(rustc.as_deref()) {
                return Ok(with(rustc, Some(crates)));
            }
        }
        bail!(
            "no Rust standard library for {triple}. With rustup:\n  rustup target add {triple}\n\
             with Debian's compiler beside it or alone:\n  \
             sudo apt-get install --no-install-recommends rustc-web cargo-web rust-web-src"
        )
    }

    /// `cargo <verb>` for this target. Builds go to a folder of their own, so
    /// that the host's stay valid.
    pub(crate) fn cargo(&self, verb: &str) -> Command {
        let mut c = cmd::command(&self.cargo);
        c.arg(verb).args(["--target", &self.triple]).arg("--target-dir").arg(cmd::target_dir("cross"));
        if let Some(rustc) = &self.rustc {
            c.env("RUSTC", rustc);
            // Cargo put the active toolchain's libraries there when it ran us.
            c.env_remove("LD_LIBRARY_PATH");
        }
        if let Some(crates) = self.build_std {
            c.env("RUSTC_BOOTSTRAP", "1").arg(format!("-Zbuild-std={crates}"));
        }
        if let Some(linker) = self.linker {
            c.env(format!("{}_LINKER", env_prefix(&self.triple)), linker);
        }
        c
    }

    /// Whether the standard library is used as installed, not built.
    pub(crate) fn library_is_installed(&self) -> bool {
        self.build_std.is_none()
    }

    /// One line on where the standard library comes from.
    pub(crate) fn describe(&self) -> String {
        let rustc = self.rustc.as_deref().unwrap_or(Path::new("rustc"));
        let library = if self.library_is_installed() { "installed" } else { "built from source" };
        format!("{} with {}, standard library {library}", self.triple, rustc.display())
    }
}

/// `CARGO_TARGET_<TRIPLE>`, what cargo's settings for one target begin with.
pub(crate) fn env_prefix(triple: &str) -> String {
    format!("CARGO_TARGET_{}", triple.to_uppercase().replace('-', "_"))
}

/// Adds the flags that link the C library into the executable.
pub(crate) fn link_statically(c: &mut Command) {
    let flags = std::env::var("RUSTFLAGS").unwrap_or_default();
    c.env("RUSTFLAGS", format!("{flags} -Ctarget-feature=+crt-static").trim_start());
}

/// The target triple of this machine.
pub(crate) fn host() -> Result<String> {
    let text = cmd::output(cmd::command("rustc").arg("-vV"))?;
    match text.lines().find_map(|l| l.strip_prefix("host: ")) {
        Some(triple) => Ok(triple.into()),
        None => bail!("rustc -vV names no host"),
    }
}

/// Where the active compiler keeps the libraries of `triple`.
pub(crate) fn library_dir(triple: &str) -> Result<PathBuf> {
    Ok(cmd::output(cmd::command("rustc").args(["--print", "target-libdir", "--target", triple]))?
        .trim()
        .into())
}

fn has_library(triple: &str, library: &str) -> Result<bool> {
    let prefix = format!("lib{library}-");
    let Ok(entries) = std::fs::read_dir(library_dir(triple)?) else { return Ok(false) };
    Ok(entries.flatten().any(|e| {
        let name = e.file_name();
        let name = name.to_string_lossy();
        name.starts_with(&prefix) && name.ends_with(".rlib")
    }))
}

fn has_source(rustc: Option<&Path>) -> bool {
    let mut c = cmd::command(rustc.unwrap_or(Path::new("rustc")));
    let sysroot = c.args(["--print", "sysroot"]).stderr(std::process::Stdio::null()).output();
    let Ok(sysroot) = sysroot else { return false };
    let sysroot = String::from_utf8_lossy(&sysroot.stdout).trim().to_owned();
    !sysroot.is_empty() && Path::new(&sysroot).join("lib/rustlib/src/rust/library/std/Cargo.toml").is_file()
}

/// `name` in the folder of `program`, when there is one.
fn beside(program: Option<&Path>, name: &str) -> Option<PathBuf> {
    program.map(|p| p.with_file_name(name)).filter(|p| p.is_file())
}
