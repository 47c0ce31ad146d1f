//! Signals. Ctrl-C (and SIGTERM) asks the running verb to end; a second one
//! ends the process at once.

use std::sync::atomic::{AtomicBool, Ordering};

use nix::sys::signal::{SaFlags, SigAction, SigHandler, SigSet, Signal, sigaction};

/// A signal came before a result that programs read was complete.
#[derive(Debug)]
pub(crate) struct Interrupted;

impl std::fmt::Display for Interrupted {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("interrupted before the answer was complete")
    }
}

impl std::error::Error for Interrupted {}

/// The exit code of that, as shells have it.
pub(crate) const INTERRUPTED: u8 = 130;

static ASKED: AtomicBool = AtomicBool::new(false);
static TOLD_TO_END: AtomicBool = AtomicBool::new(false);

/// From here on the first Ctrl-C only raises [`asked`].
pub(crate) fn catch() {
    // Reset-hand restores the default action for the second signal.
    let action = SigAction::new(SigHandler::Handler(note), SaFlags::SA_RESETHAND, SigSet::empty());
    for signal in [Signal::SIGINT, Signal::SIGTERM] {
        // SAFETY: the handler only stores to an atomic. Failing to install it
        // leaves the default action, which ends the process.
        let _ = unsafe { sigaction(signal, &action) };
    }
}

/// From here on Ctrl-C and SIGTERM end the process, as they do by default.
pub(crate) fn release() {
    let action = SigAction::new(SigHandler::SigDfl, SaFlags::empty(), SigSet::empty());
    for signal in [Signal::SIGINT, Signal::SIGTERM] {
        // SAFETY: nothing is run.
        let _ = unsafe { sigaction(signal, &action) };
    }
}

/// Whether the user asked to stop.
pub(crate) fn asked() -> bool {
    ASKED.load(Ordering::Relaxed)
}

/// Whether it was SIGTERM, which ends more than an answer.
pub(crate) fn told_to_end() -> bool {
    TOLD_TO_END.load(Ordering::Relaxed)
}

/// Forgets a Ctrl-C, so that the next one is the first again.
pub(crate) fn again() {
    ASKED.store(false, Ordering::Relaxed);
    catch();
}

extern "C" fn note(signal: i32) {
    if signal == Signal::SIGTERM as i32 {
        TOLD_TO_END.store(true, Ordering::Relaxed);
    }
    ASKED.store(true, Ordering::Relaxed);
}

/// A mapped file that shrinks, or whose card is pulled out, raises SIGBUS on
/// the next read: say so instead of just dying.
pub(crate) fn explain_bus_errors() {
    let action = SigAction::new(SigHandler::Handler(bus_error), SaFlags::empty(), SigSet::empty());
    // SAFETY: the handler calls only async-signal-safe functions.
    let _ = unsafe { sigaction(Signal::SIGBUS, &action) };
}

/// A file that grows past the limit for files is an error of that write, not the
/// end of the process.
pub(crate) fn outlive_file_limits() {
    let action = SigAction::new(SigHandler::SigIgn, SaFlags::empty(), SigSet::empty());
    // SAFETY: nothing is run.
    let _ = unsafe { sigaction(Signal::SIGXFSZ, &action) };
}

extern "C" fn bus_error(_: i32) {
    const WHAT: &[u8] =
        b"\nkatydid: the model file cannot be read any more: it was cut short or its device failed\n";
    // SAFETY: write and _exit are async-signal-safe; the buffer is static.
    unsafe {
        nix::libc::write(2, WHAT.as_ptr().cast(), WHAT.len());
        nix::libc::_exit(1);
    }
}
