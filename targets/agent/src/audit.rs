//! The log of what was done: one line of JSON for each call of a tool.
//!
//! A line is one write to a file opened for appending, so that lines of several
//! threads do not mix and what is written stays. Secrets are masked before they
//! come here. A log that cannot be written does not stop the agent; it is told
//! of, and the next line tries again.

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use serde::Serialize;

use crate::link::Notice;
use crate::time;

/// Bytes of arguments and of output that a line keeps.
const MOST: (usize, usize) = (4096, 1024);

/// What a line says. Texts must be masked.
#[derive(Debug, Serialize)]
pub(crate) struct Entry<'e> {
    pub(crate) time: String,
    pub(crate) request: &'e str,
    pub(crate) step: u32,
    pub(crate) call: &'e str,
    pub(crate) tool: &'e str,
    pub(crate) arguments: &'e str,
    /// Why it was run, or was not.
    pub(crate) decision: &'e str,
    pub(crate) ok: bool,
    pub(crate) content: &'e str,
    pub(crate) micros: u64,
}

/// A log file.
pub struct Audit {
    path: PathBuf,
    max_bytes: u64,
    notice: Notice,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    file: Option<File>,
    trouble: Option<String>,
    lost: u64,
}

impl Audit {
    /// Opens a log, which is made where there is none.
    pub(crate) fn open(path: &Path, max_bytes: u64, notice: Notice) -> Result<Self, String> {
        let file = append(path).map_err(|e| format!("the audit log {}: {e}", path.display()))?;
        let state = Mutex::new(State { file: Some(file), ..State::default() });
        Ok(Self { path: path.into(), max_bytes, notice, state })
    }

    /// Adds a line.
    pub(crate) fn add(&self, entry: &Entry<'_>) {
        let entry = Entry {
            time: time::stamp(),
            arguments: head(entry.arguments, MOST.0),
            content: head(entry.content, MOST.1),
            ..*entry
        };
        let mut line = serde_json::to_string(&entry).unwrap_or_default();
        line.push('\n');
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        match self.write(&mut state, line.as_bytes()) {
            Ok(()) => {
                if state.trouble.take().is_some() {
                    (self.notice)(&format!("the audit log is written again; {} lines are lost", state.lost));
                }
            }
            Err(error) => {
                state.lost += 1;
                let trouble = format!("the audit log {} cannot be written: {error}", self.path.display());
                if state.trouble.as_ref() != Some(&trouble) {
                    (self.notice)(&trouble);
                }
                state.trouble = Some(trouble);
            }
        }
    }

    fn write(&self, state: &mut State, line: &[u8]) -> std::io::Result<()> {
        let length = match &state.file {
            // A file that was moved or deleted under us is let go.
            Some(file) => match (file.metadata()?, std::fs::metadata(&self.path)) {
                (ours, Ok(theirs)) if ours.ino() == theirs.ino() && ours.dev() == theirs.dev() => {
                    Some(ours.len())
                }
                _ => None,
            },
            None => None,
        };
        if length.is_some_and(|n| n > 0 && n + line.len() as u64 > self.max_bytes) {
            let mut old = self.path.clone().into_os_string();
            old.push(".1");
            std::fs::rename(&self.path, old)?;
        }
        if length.is_none_or(|n| n > 0 && n + line.len() as u64 > self.max_bytes) {
            state.file = None;
            state.file = Some(append(&self.path)?);
        }
        let Some(file) = &mut state.file else { return Ok(()) };
        let written = file.write(line)?;
        if written < line.len() {
            // The disk is full in the middle of a line: end it if that fits.
            let _ = file.write(b"\n");
            return Err(std::io::ErrorKind::StorageFull.into());
        }
        Ok(())
    }

    /// What is wrong with the log, and how many lines are lost.
    pub fn trouble(&self) -> Option<(String, u64)> {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.trouble.clone().map(|t| (t, state.lost))
    }
}

impl std::fmt::Debug for Audit {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "the audit log {}", self.path.display())
    }
}

fn append(path: &Path) -> std::io::Result<File> {
    OpenOptions::new().append(true).create(true).mode(0o600).open(path)
}

/// The first bytes of a text, as many as make whole characters.
pub(crate) fn head(text: &str, most: usize) -> &str {
    let mut end = most.min(text.len());
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    fn entry(content: &str) -> Entry<'_> {
        let (request, call, tool, arguments, decision) = ("r1", "c1", "lamp", "{\"on\":true}", "auto");
        Entry {
            time: String::new(),
            request,
            step: 2,
            call,
            tool,
            arguments,
            decision,
            ok: true,
            content,
            micros: 5,
        }
    }

    fn notices() -> (Notice, Arc<Mutex<Vec<String>>>) {
        let told = Arc::new(Mutex::new(Vec::new()));
        let theirs = Arc::clone(&told);
        (Arc::new(move |n: &str| theirs.lock().unwrap().push(n.into())), told)
    }

    #[test]
    fn lines_are_json_and_files_bounded() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("audit.jsonl");
        let audit = Audit::open(&path, 4096, notices().0).unwrap();
        std::thread::scope(|s| {
            (0..4).for_each(|_| drop(s.spawn(|| (0..25).for_each(|_| audit.add(&entry("a \"b\"\nc"))))));
        });
        let old = std::fs::read_to_string(dir.path().join("audit.jsonl.1")).unwrap();
        let new = std::fs::read_to_string(&path).unwrap();
        assert!(old.len() <= 4096 && new.len() <= 4096 && !new.is_empty());
        for line in old.lines().chain(new.lines()) {
            let line: serde_json::Value = serde_json::from_str(line).unwrap();
            assert_eq!((&line["step"], &line["content"]), (&2.into(), &"a \"b\"\nc".into()));
            assert_eq!(line["time"].as_str().unwrap().len(), 24);
        }
        // Long texts are cut, between characters.
        audit.add(&entry(&"é".repeat(2000)));
        std::fs::remove_file(&path).unwrap();
        audit.add(&entry(&"é".repeat(2000)));
        let text = std::fs::read_to_string(&path).unwrap();
        assert_eq!(text.matches('é').count(), 512);
        assert!(Audit::open(&dir.path().join("none/x"), 1, notices().0).unwrap_err().contains("audit log"));
    }

    #[test]
    fn a_full_disk_is_told_of_once() {
        let (notice, told) = notices();
        let audit = Audit::open(Path::new("/dev/full"), 1 << 20, notice).unwrap();
        (0..3).for_each(|_| audit.add(&entry("x")));
        let (trouble, lost) = audit.trouble().unwrap();
        assert!(trouble.contains("No space left") && lost == 3, "{trouble}");
        assert_eq!(told.lock().unwrap().len(), 1);
    }
}
