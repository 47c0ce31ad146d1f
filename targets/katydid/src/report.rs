//! Results on stdout; progress and messages on stderr.

use std::fmt::Display;
use std::io::{IsTerminal, Write};
use std::time::Duration;

use anyhow::{Context, Result};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// A bar over `len` steps of `what`; nothing where stderr is no terminal.
pub(crate) fn bar(what: &str, len: u64, quiet: bool) -> ProgressBar {
    bar_of(what, len, quiet, "{prefix} {wide_bar} {pos}/{len} {eta}")
}

/// A bar over `len` bytes.
pub(crate) fn byte_bar(what: &str, len: u64, quiet: bool) -> ProgressBar {
    bar_of(
        what,
        len,
        quiet,
        "{prefix} {wide_bar} {decimal_bytes}/{decimal_total_bytes} {decimal_bytes_per_sec} {eta}",
    )
}

fn bar_of(what: &str, len: u64, quiet: bool, template: &'static str) -> ProgressBar {
    if quiet || !std::io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let bar = ProgressBar::with_draw_target(Some(len), ProgressDrawTarget::stderr_with_hz(10));
    // A constant template: it parses.
    if let Ok(style) = ProgressStyle::with_template(template) {
        bar.set_style(style.progress_chars("━━╌"));
    }
    bar.set_prefix(what.to_owned());
    bar
}

/// A spinner for `what`, which has no steps to count.
pub(crate) fn spinner(what: &str, quiet: bool) -> ProgressBar {
    if quiet || !std::io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr_with_hz(10));
    bar.set_style(ProgressStyle::default_spinner());
    bar.set_message(what.to_owned());
    bar.enable_steady_tick(Duration::from_millis(100));
    bar
}

/// The context of an error that stdout gave.
pub(crate) const CANNOT_WRITE: &str = "cannot write the result";

/// Prints a line of result. (`println!` would panic where the disk is full or
/// nobody reads.)
pub(crate) fn result(line: impl Display) -> Result<()> {
    let mut out = std::io::stdout().lock();
    writeln!(out, "{line}").and_then(|()| out.flush()).context(CANNOT_WRITE)
}

/// Prints a line for people. Whoever closed stderr does not want to know.
pub(crate) fn say(line: impl Display) {
    let _ = writeln!(std::io::stderr(), "{line}");
}

/// Whether `e` says that the reader of our output went away.
pub(crate) fn is_broken_pipe(e: &anyhow::Error) -> bool {
    let kind = e.downcast_ref::<std::io::Error>().map(std::io::Error::kind);
    kind == Some(std::io::ErrorKind::BrokenPipe)
}
