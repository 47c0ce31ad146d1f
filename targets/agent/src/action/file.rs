//! Files below a folder, and nothing outside it.
//!
//! A path is walked one name at a time from the folder's descriptor, and no
//! symbolic link is followed anywhere on the way, so neither `..` nor a link
//! made in the meantime leads out. (openat2 does the same in one call, on newer
//! kernels only; this way there is one way.) Written files appear whole or not
//! at all.

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use nix::dir::Dir;
use nix::errno::Errno;
use nix::fcntl::{AtFlags, OFlag, open, openat, renameat};
use nix::sys::stat::{Mode, SFlag, fstatat, mode_t};
use nix::unistd::{UnlinkatFlags, unlinkat};
use serde::Deserialize;

use super::{Check, Done, Prepared, Room};
use crate::template::{Escape, Template};
use crate::value::Value;

/// Entries that a listing shows.
const MOST_ENTRIES: usize = 1000;
const DEFAULT_MAX: u64 = 64 << 10;
/// A path of a thousand names is no honest one.
const MOST_NAMES: usize = 32;

/// `file` as TOML has it.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Raw {
    root: PathBuf,
    op: Op,
    #[serde(default)]
    path: String,
    content: Option<String>,
    max_bytes: Option<u64>,
}

/// What is done with a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Op {
    /// Gives its content.
    Read,
    /// Replaces it.
    Write,
    /// Adds to its end.
    Append,
    /// Gives the names in a folder.
    List,
}

/// How to treat files.
#[derive(Debug)]
pub struct Files {
    root: PathBuf,
    op: Op,
    path: Template,
    content: Option<Template>,
    max_bytes: u64,
}

impl Files {
    pub(crate) fn check(raw: Raw, c: &mut Check<'_>) -> Result<Self, String> {
        let root = c.folder.join(&raw.root);
        let writes = matches!(raw.op, Op::Write | Op::Append);
        if !writes && !root.is_dir() {
            c.warnings.push(format!("there is no folder {} here", root.display()));
        }
        if writes != raw.content.is_some() {
            return Err("\"content\" belongs to op = \"write\" and \"append\", and they need it".into());
        }
        if raw.path.is_empty() && raw.op != Op::List {
            return Err("\"path\" is missing: which file below the root".into());
        }
        let path = if raw.op == Op::List { c.template(&raw.path)? } else { c.whole(&raw.path)? };
        let content = raw.content.map(|text| c.whole(&text)).transpose()?;
        Ok(Self { root, op: raw.op, path, content, max_bytes: raw.max_bytes.unwrap_or(DEFAULT_MAX) })
    }

    /// The folder.
    pub(crate) fn root(&self) -> &Path {
        &self.root
    }

    /// The folder, where it is written to.
    pub(crate) fn writes_to(&self) -> Option<&Path> {
        matches!(self.op, Op::Write | Op::Append).then_some(&self.root)
    }

    pub(crate) fn prepare(&self, arguments: &Value) -> Result<Touch<'_>, String> {
        let path = self.path.render(arguments, Escape::Plain)?.unwrap_or_default();
        let names = names(&path)?;
        if names.is_empty() && self.op != Op::List {
            return Err("the path names no file".into());
        }
        let content = match &self.content {
            Some(template) => template.render_whole(arguments, Escape::Plain)?,
            None => String::new(),
        };
        if content.len() as u64 > self.max_bytes {
            return Err(format!("{} bytes are too many: at most {}", content.len(), self.max_bytes));
        }
        Ok(Touch { files: self, names, content })
    }
}

/// The names along a relative path.
fn names(path: &str) -> Result<Vec<String>, String> {
    if path.starts_with('/') {
        return Err(format!("{path:?}: give a path below the folder, without a leading '/'"));
    }
    let names: Vec<String> =
        path.split('/').filter(|n| !n.is_empty() && *n != ".").map(String::from).collect();
    if names.iter().any(|n| n == "..") {
        return Err(format!("{path:?}: \"..\" is not allowed"));
    }
    if path.contains('\0') || names.len() > MOST_NAMES || names.iter().any(|n| n.len() > 200) {
        return Err("this is no path".into());
    }
    Ok(names)
}

/// Files about to be touched.
pub(crate) struct Touch<'a> {
    files: &'a Files,
    names: Vec<String>,
    content: String,
}

impl Prepared for Touch<'_> {
    fn describe(&self) -> String {
        let (path, root) = (self.names.join("/"), self.files.root.display());
        match self.files.op {
            Op::Read => format!("read {path} in {root}"),
            Op::List => format!("list {root}/{path}"),
            Op::Write => format!("write {} bytes to {path} in {root}", self.content.len()),
            Op::Append => format!("append {} bytes to {path} in {root}", self.content.len()),
        }
    }

    fn run(&self, room: &Room<'_>) -> Done {
        let done = match self.files.op {
            Op::Read => self.read(room.capture),
            Op::List => self.list(),
            Op::Write => self.write(),
            Op::Append => self.append(),
        };
        done.unwrap_or_else(|e| Done::failed(self.explain(e)))
    }
}

impl Touch<'_> {
    fn explain(&self, errno: Errno) -> String {
        let path = self.names.join("/");
        match errno {
            Errno::ENOENT => format!("there is no {path:?} here"),
            Errno::ELOOP | Errno::ENOTDIR => {
                format!("{path:?} leads over a link or through something that is no folder: refused")
            }
            Errno::EISDIR => format!("{path:?} is a folder"),
            Errno::EINVAL => format!("{path:?} is no regular file"),
            Errno::EFBIG => format!("{path:?} would grow beyond {} bytes", self.files.max_bytes),
            e => format!("{path:?}: {}", e.desc()),
        }
    }

    /// The folder that `names` lead to.
    fn walk(&self, names: &[String]) -> Result<OwnedFd, Errno> {
        let folder = OFlag::O_RDONLY | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC;
        // The root itself is the author's choice, links included.
        let root = open(&self.files.root, folder, Mode::empty())?;
        names
            .iter()
            .try_fold(root, |at, name| openat(at, name.as_str(), folder | OFlag::O_NOFOLLOW, Mode::empty()))
    }

    /// The folder that the file is in, and its name.
    fn parent(&self) -> Result<(OwnedFd, &str), Errno> {
        let (name, folders) = self.names.split_last().ok_or(Errno::EISDIR)?;
        Ok((self.walk(folders)?, name))
    }

    /// Opens a regular file, and never waits for a pipe's other end.
    fn open(&self, folder: &OwnedFd, name: &str, flags: OFlag) -> Result<File, Errno> {
        let flags = flags | OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK | OFlag::O_CLOEXEC | OFlag::O_NOCTTY;
        let file = File::from(openat(folder.as_fd(), name, flags, Mode::from_bits_truncate(0o640))?);
        let kind = file.metadata().map_err(errno)?.file_type();
        if kind.is_dir() {
            return Err(Errno::EISDIR);
        }
        if kind.is_file() { Ok(file) } else { Err(Errno::EINVAL) }
    }

    fn read(&self, most: usize) -> Result<Done, Errno> {
        let (folder, name) = self.parent()?;
        let file = self.open(&folder, name, OFlag::O_RDONLY)?;
        let length = file.metadata().map_err(errno)?.len();
        let most = (most as u64).min(self.files.max_bytes);
        let mut bytes = Vec::new();
        file.take(most).read_to_end(&mut bytes).map_err(errno)?;
        let dropped = length.saturating_sub(bytes.len() as u64);
        Ok(Done { ok: true, content: String::from_utf8_lossy(&bytes).into_owned(), dropped })
    }

    fn append(&self) -> Result<Done, Errno> {
        let (folder, name) = self.parent()?;
        let mut file = self.open(&folder, name, OFlag::O_WRONLY | OFlag::O_APPEND | OFlag::O_CREAT)?;
        let length = file.metadata().map_err(errno)?.len();
        if length.saturating_add(self.content.len() as u64) > self.files.max_bytes {
            return Err(Errno::EFBIG);
        }
        file.write_all(self.content.as_bytes()).map_err(errno)?;
        Ok(Done::ok(format!("appended {} bytes", self.content.len())))
    }

    /// Writes a file beside it and moves that over it.
    fn write(&self) -> Result<Done, Errno> {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let (folder, name) = self.parent()?;
        match fstatat(&folder, name, AtFlags::AT_SYMLINK_NOFOLLOW) {
            Ok(there) if !is(there.st_mode, SFlag::S_IFREG) => {
                return Err(if is(there.st_mode, SFlag::S_IFDIR) { Errno::EISDIR } else { Errno::EINVAL });
            }
            Ok(_) | Err(Errno::ENOENT) => {}
            Err(e) => return Err(e),
        }
        let temporary = format!(".katydid-{}-{}", std::process::id(), NUMBER.fetch_add(1, Ordering::Relaxed));
        let result = (|| {
            let mut file =
                self.open(&folder, &temporary, OFlag::O_WRONLY | OFlag::O_CREAT | OFlag::O_EXCL)?;
            file.write_all(self.content.as_bytes()).and_then(|()| file.sync_data()).map_err(errno)?;
            renameat(&folder, temporary.as_str(), &folder, name)
        })();
        if let Err(e) = result {
            let _ = unlinkat(&folder, temporary.as_str(), UnlinkatFlags::NoRemoveDir);
            return Err(e);
        }
        Ok(Done::ok(format!("wrote {} bytes", self.content.len())))
    }

    fn list(&self) -> Result<Done, Errno> {
        let folder = self.walk(&self.names)?;
        let handle = folder.try_clone().map_err(errno)?;
        let mut names = Vec::new();
        let mut dropped = 0;
        for entry in Dir::from_fd(folder)?.iter() {
            let entry = entry?;
            let name = entry.file_name().to_bytes();
            if matches!(name, b"." | b"..") {
                continue;
            }
            if names.len() == MOST_ENTRIES {
                dropped += name.len() as u64 + 1;
                continue;
            }
            let mut shown = String::from_utf8_lossy(name).into_owned();
            match fstatat(&handle, entry.file_name(), AtFlags::AT_SYMLINK_NOFOLLOW) {
                Ok(s) if is(s.st_mode, SFlag::S_IFDIR) => shown.push('/'),
                Ok(s) if is(s.st_mode, SFlag::S_IFREG) => shown.push_str(&format!(" {} bytes", s.st_size)),
                _ => shown.push_str(" (no file)"),
            }
            names.push(shown);
        }
        names.sort_unstable();
        let content = if names.is_empty() { "(empty)".into() } else { names.join("\n") };
        Ok(Done { ok: true, content, dropped })
    }
}

fn is(mode: mode_t, kind: SFlag) -> bool {
    SFlag::from_bits_truncate(mode & SFlag::S_IFMT.bits()) == kind
}

fn errno(error: std::io::Error) -> Errno {
    Errno::from_raw(error.raw_os_error().unwrap_or(Errno::EIO as i32))
}

#[cfg(test)]
mod tests {
    use super::super::testing::Bench;
    use super::*;
    use std::os::unix::fs::symlink;

    fn bench() -> Bench {
        let bench =
            Bench::new(r#"{"name":{"type":"string","default":""},"text":{"type":"string","default":""}}"#);
        std::fs::create_dir_all(bench.folder.path().join("root/sub")).unwrap();
        std::fs::write(bench.folder.path().join("secret"), "outside").unwrap();
        std::fs::write(bench.folder.path().join("root/sub/a"), "inside").unwrap();
        bench
    }

    fn touch(bench: &Bench, op: &str, name: &str, text: &str) -> Done {
        let content = if matches!(op, "write" | "append") { "content = \"{text}\"" } else { "" };
        let toml = format!("root = \"root\"\nop = \"{op}\"\npath = \"{{name}}\"\nmax_bytes = 100\n{content}");
        let files = bench.check(&toml, Files::check).unwrap();
        let arguments = Value::Object(vec![
            ("name".into(), Value::String(name.into())),
            ("text".into(), Value::String(text.into())),
        ]);
        match files.prepare(&arguments) {
            Ok(touch) => bench.run(&touch),
            Err(why) => Done::failed(why),
        }
    }

    #[test]
    fn files_are_read_written_and_listed() {
        let bench = bench();
        assert_eq!(touch(&bench, "read", "sub/a", ""), Done::ok("inside"));
        assert_eq!(touch(&bench, "write", "sub/b", "é"), Done::ok("wrote 2 bytes"));
        assert_eq!(touch(&bench, "append", "sub/b", "!"), Done::ok("appended 1 bytes"));
        assert_eq!(touch(&bench, "write", "sub/b", "new"), Done::ok("wrote 3 bytes"));
        assert_eq!(touch(&bench, "read", "./sub//b", ""), Done::ok("new"));
        assert_eq!(touch(&bench, "list", "", ""), Done::ok("sub/"));
        assert_eq!(touch(&bench, "list", "sub", ""), Done::ok("a 6 bytes\nb 3 bytes"));
        let long = "x".repeat(60);
        assert!(touch(&bench, "write", "c", &long).ok);
        assert!(touch(&bench, "append", "c", &long).content.contains("beyond 100"));
        assert!(touch(&bench, "write", "c", &long.repeat(2)).content.contains("too many"));
        std::fs::write(bench.folder.path().join("root/large"), "y".repeat(5000)).unwrap();
        let done = touch(&bench, "read", "large", "");
        assert!(done.content.len() == 100 && done.dropped == 4900);
    }

    #[test]
    fn nothing_leads_out() {
        let bench = bench();
        let root = bench.folder.path().join("root");
        symlink("../secret", root.join("link")).unwrap();
        symlink("..", root.join("up")).unwrap();
        symlink("/etc", root.join("etc")).unwrap();
        for op in ["read", "write", "append", "list"] {
            for name in [
                "../secret",
                "sub/../../secret",
                "/etc/passwd",
                "link",
                "up/secret",
                "etc/passwd",
                "sub/a/../../x",
                "a\0b",
            ] {
                let done = touch(&bench, op, name, "x");
                assert!(!done.ok, "{op} {name}: {done:?}");
            }
        }
        assert_eq!(std::fs::read_to_string(bench.folder.path().join("secret")).unwrap(), "outside");
        assert!(touch(&bench, "read", "link", "").content.contains("link"));
    }

    #[test]
    fn only_regular_files_are_touched() {
        let bench = bench();
        let pipe = bench.folder.path().join("root/pipe");
        nix::unistd::mkfifo(&pipe, Mode::from_bits_truncate(0o600)).unwrap();
        for op in ["read", "write"] {
            assert!(touch(&bench, op, "pipe", "x").content.contains("no regular file"), "{op}");
        }
        assert!(!touch(&bench, "append", "pipe", "x").ok);
        for op in ["read", "write", "append"] {
            assert!(touch(&bench, op, "sub", "x").content.contains("is a folder"), "{op}");
        }
        assert!(touch(&bench, "read", "none", "").content.contains("there is no"));
        assert!(touch(&bench, "read", "", "").content.contains("names no file"));
        // A write that fails leaves nothing behind.
        let left = std::fs::read_dir(bench.folder.path().join("root")).unwrap().count();
        assert_eq!(left, 2);
    }

    #[test]
    fn mistakes_are_refused() {
        let bench = bench();
        for (toml, says) in [
            ("root = \"root\"\nop = \"read\"", "path"),
            ("root = \"root\"\nop = \"write\"\npath = \"x\"", "content"),
            ("root = \"root\"\nop = \"delete\"\npath = \"x\"", "unknown variant"),
            ("root = \"root\"\nop = \"read\"\npath = \"x\"\nmode = 1", "unknown field"),
        ] {
            let error = bench.check(toml, Files::check).unwrap_err();
            assert!(error.contains(says), "{toml}: {error}");
        }
    }
}
