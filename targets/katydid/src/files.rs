//! Small files that users name: schemas, tools, conversations.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use anyhow::{Context, Result, bail};

/// The text of the file at `path`, which should be `what`. Errs past `most`
/// bytes, so that a wrong name does not fill the memory. A byte order mark, as
/// some editors put before a text, is no part of it.
pub(crate) fn text(path: &Path, most: u64, what: &str) -> Result<String> {
    let name = path.display();
    let mut text = String::new();
    let file = File::open(path).with_context(|| format!("cannot open {name}"))?;
    file.take(most + 1).read_to_string(&mut text).with_context(|| format!("cannot read {name} as {what}"))?;
    if text.len() as u64 > most {
        bail!("{name} is larger than {what} can be ({most} bytes): is it the right file?");
    }
    if text.starts_with('\u{feff}') {
        text.drain(..'\u{feff}'.len_utf8());
    }
    Ok(text)
}

/// Gives the file at `path` new contents, or leaves it as it is.
pub(crate) fn replace(path: &Path, bytes: &[u8]) -> Result<()> {
    crate::output::replaceable(path)?;
    let mut partial = crate::output::Partial::create(path, bytes.len() as u64)?;
    partial.write(bytes).with_context(|| format!("cannot write {}", path.display()))?;
    partial.commit(path)
}
