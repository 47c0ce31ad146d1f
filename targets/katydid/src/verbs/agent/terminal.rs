//! The terminal, where somebody may agree to calls.
//!
//! Requests are typed there, too. While a question is open they are not read, so
//! that what is typed is its answer.

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use katydid_agent::toolbox::{Approve, Proposal};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::termios::{FlushArg, tcflush};
use nix::unistd::{getpgrp, tcgetpgrp};

use crate::interrupt;

/// How long a question stays open: requests wait meanwhile.
const OPEN: Duration = Duration::from_secs(60);

/// Milliseconds that are waited for a key at once.
const WAIT: u16 = 100;

/// Who reads the terminal.
#[derive(Default)]
struct Turn {
    asking: AtomicBool,
    reading: Mutex<()>,
}

/// A terminal, if there is one.
pub(super) struct Terminal {
    device: Option<Mutex<File>>,
    turn: Arc<Turn>,
}

impl Terminal {
    pub(super) fn open() -> Self {
        let device = File::options().read(true).write(true).open("/dev/tty").ok();
        Self { device: device.map(Mutex::new), turn: Arc::default() }
    }

    /// Lets `work` ask.
    pub(super) fn with_approval<R>(&self, work: impl FnOnce(Approve<'_>) -> R) -> R {
        // Who runs in the background would be stopped by reading.
        let mine = |file: &Mutex<File>| {
            let file = file.lock().unwrap_or_else(PoisonError::into_inner);
            tcgetpgrp(&*file).is_ok_and(|group| group == getpgrp())
        };
        match self.device.as_ref().filter(|file| mine(file)) {
            None => work(Approve::Nobody),
            Some(file) => work(Approve::Ask(&|proposal| self.ask(file, proposal))),
        }
    }

    fn ask(&self, file: &Mutex<File>, proposal: &Proposal<'_>) -> bool {
        self.turn.asking.store(true, Ordering::SeqCst);
        let reading = self.turn.reading.lock().unwrap_or_else(PoisonError::into_inner);
        let mut file = file.lock().unwrap_or_else(PoisonError::into_inner);
        // What was typed before the question is no answer to it.
        let _ = tcflush(&*file, FlushArg::TCIFLUSH);
        let Proposal { tool, arguments, would } = proposal;
        let question = write!(file, "{tool} {arguments}\n  would {would}\n  Allow it? [y/N] ");
        let answer = question.is_ok() && yes(&mut file);
        drop(reading);
        self.turn.asking.store(false, Ordering::SeqCst);
        answer
    }
}

/// Whether the next line agrees.
fn yes(file: &mut File) -> bool {
    let end = Instant::now() + OPEN;
    let mut line = [0; 64];
    while !ready(&*file) {
        if interrupt::asked() || Instant::now() >= end {
            let _ = writeln!(file, "(no answer: denied)");
            return false;
        }
    }
    // A terminal gives whole lines.
    let n = file.read(&mut line).unwrap_or(0);
    let line = String::from_utf8_lossy(&line[..n]);
    ["y", "yes"].contains(&line.trim().to_ascii_lowercase().as_str())
}

/// Whether there is something to read; waits a moment for it.
fn ready(file: impl AsFd) -> bool {
    let mut fds = [PollFd::new(file.as_fd(), PollFlags::POLLIN)];
    poll(&mut fds, PollTimeout::from(WAIT)).is_ok_and(|n| n > 0)
}

/// Lines typed while no question is open.
pub(super) struct Lines(Arc<Turn>);

impl Lines {
    pub(super) fn new(terminal: &Terminal) -> Self {
        Self(Arc::clone(&terminal.turn))
    }
}

impl Read for Lines {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        loop {
            if self.0.asking.load(Ordering::SeqCst) {
                std::thread::sleep(Duration::from_millis(WAIT.into()));
                continue;
            }
            let _reading = self.0.reading.lock().unwrap_or_else(PoisonError::into_inner);
            let stdin = std::io::stdin();
            if !self.0.asking.load(Ordering::SeqCst) && ready(&stdin) {
                // Unbuffered, or a question's answer could be in the buffer.
                return nix::unistd::read(&stdin, buffer).map_err(Into::into);
            }
        }
    }
}
