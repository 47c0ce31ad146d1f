//! The file written: complete or not there at all.

use std::fs::{File, OpenOptions};
use std::io::{BufWriter, IntoInnerError, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, anyhow, bail};
use katydid_core::gguf::split_name;
use nix::errno::Errno;
use nix::fcntl::{FallocateFlags, fallocate};

use crate::units::Bytes;

/// Errs where `out` should not be written: it is one of `inputs`, exists
/// without `force`, or is no place for a file.
pub(crate) fn check(out: &Path, inputs: &[&Path], force: bool) -> Result<()> {
    use std::os::unix::ffi::OsStrExt;
    let name = out.display();
    if split_name(out.as_os_str().as_bytes()).is_some() {
        bail!(
            "{name} is named like one part of a split model, but will hold a whole one: choose another name"
        );
    }
    let meta = match std::fs::metadata(out) {
        Ok(meta) => meta,
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(()),
        Err(e) => return Err(e).with_context(|| format!("cannot write {name}")),
    };
    if meta.is_dir() {
        bail!("{name} is a directory; name a file inside it");
    }
    if !meta.is_file() {
        bail!("{name} is a device, pipe or socket; name a file");
    }
    for input in inputs {
        let same = std::fs::metadata(input).is_ok_and(|m| (m.dev(), m.ino()) == (meta.dev(), meta.ino()));
        if same {
            bail!("{name} is the file to read: choose another name for the result");
        }
    }
    if !force {
        bail!("{name} exists; give --force to replace it");
    }
    Ok(())
}

/// Errs where a file by the name of `out` would take the place of something that
/// is no file: a rename replaces devices, too.
pub(crate) fn replaceable(out: &Path) -> Result<()> {
    match std::fs::metadata(out) {
        Ok(meta) if !meta.is_file() => bail!("{} is no ordinary file; name another", out.display()),
        _ => Ok(()),
    }
}

/// A file that is written beside its place and moved there when complete.
/// Dropped before, it is removed.
pub(crate) struct Partial {
    path: PathBuf,
    /// Where it goes: what a link leads to stays behind the link.
    place: PathBuf,
    file: Option<BufWriter<File>>,
}

impl Partial {
    /// Begins a file of `size` bytes that will be `out`. Takes the room for all
    /// of it, where the file system can, so that a full disk shows at once.
    pub(crate) fn create(out: &Path, size: u64) -> Result<Self> {
        let place = std::fs::canonicalize(out).unwrap_or_else(|_| out.to_owned());
        let Some(name) = place.file_name() else { bail!("{} does not name a file", out.display()) };
        let mut partial = name.to_os_string();
        partial.push(format!(".{}.partial", std::process::id()));
        let path = place.with_file_name(partial);
        let file = OpenOptions::new().write(true).create_new(true).open(&path);
        let file = file.with_context(|| format!("cannot write {}", out.display()))?;
        if let Ok(old) = std::fs::metadata(&place) {
            // Whoever could not read the old one shall not read the new one.
            file.set_permissions(old.permissions())
                .with_context(|| format!("cannot write {}", out.display()))?;
        }
        let mut new = Self { path, place, file: None };
        // A 32-bit system counts to 2 GB here, though its files may be larger.
        let room = nix::libc::off_t::try_from(size).map_err(|_| Errno::EOPNOTSUPP);
        match room.and_then(|size| fallocate(&file, FallocateFlags::empty(), 0, size)) {
            Err(e @ (Errno::ENOSPC | Errno::EDQUOT | Errno::EFBIG)) => Err(anyhow!(
                "no room for the {} of {}: {}; free some space or write elsewhere",
                Bytes(size),
                out.display(),
                e.desc()
            )),
            // File systems that cannot take room beforehand take it as we go.
            _ => {
                new.file = Some(BufWriter::with_capacity(1 << 20, file));
                Ok(new)
            }
        }
    }

    pub(crate) fn write(&mut self, bytes: &[u8]) -> std::io::Result<()> {
        self.file.as_mut().map_or(Ok(()), |file| file.write_all(bytes))
    }

    /// Makes sure that every byte is on the disk, then gives the file its name.
    pub(crate) fn commit(mut self, out: &Path) -> Result<()> {
        let failed = || format!("cannot write {}", out.display());
        let Some(file) = self.file.take() else { return Ok(()) };
        let file = file.into_inner().map_err(IntoInnerError::into_error).with_context(failed)?;
        file.sync_all().with_context(failed)?;
        std::fs::rename(&self.path, &self.place).with_context(failed)?;
        self.path.clear();
        // The name too should outlast a power cut; some file systems refuse.
        let folder = self.place.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let _ = File::open(folder).and_then(|folder| folder.sync_all());
        Ok(())
    }
}

impl Drop for Partial {
    fn drop(&mut self) {
        if self.path.as_os_str().is_empty() {
            return;
        }
        if let Some(file) = self.file.take() {
            // What is still buffered is of no use any more.
            let _ = file.into_parts();
        }
        let _ = std::fs::remove_file(&self.path);
    }
}
