//! Model files: mapped where the system can, read where it cannot.

use std::fmt;
use std::fs::{File, OpenOptions};
use std::io;
use std::ops::Range;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::ptr::NonNull;

use katydid_core::port::{PageError, Pages, Pin};
use memmap2::{Advice, Mmap, MmapOptions, UncheckedAdvice};
use nix::fcntl::{OFlag, PosixFadviseAdvice, posix_fadvise};

/// A model file, mapped read-only and privately.
///
/// The file must not change while it is open: a shortened file ends the
/// process with a bus error at the next touch of what is gone.
pub struct MappedFile {
    file: File,
    len: u64,
    map: Result<Mmap, io::Error>,
    page: u64,
}

impl MappedFile {
    /// Opens the file at `path`.
    ///
    /// A file that cannot be mapped (larger than the address space of a 32-bit
    /// board, or a file system that cannot map) still opens: [`Pages::map`] is
    /// then `None` and [`MappedFile::map_error`] says why.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, OpenError> {
        let path = path.as_ref();
        open(path).map_err(|cause| OpenError { path: path.to_path_buf(), cause })
    }

    /// Why the file is not mapped, when it is not.
    pub fn map_error(&self) -> Option<&io::Error> {
        self.map.as_ref().err()
    }

    /// `range` cut to the file.
    fn clip(&self, range: Range<u64>) -> Range<u64> {
        let end = range.end.min(self.len);
        range.start.min(end)..end
    }

    /// Start and length of the whole pages inside `range` of the mapping. The
    /// file's last page counts as whole.
    fn whole_pages(&self, range: Range<u64>) -> Option<(usize, usize)> {
        let range = self.clip(range);
        let start = range.start.checked_next_multiple_of(self.page)?;
        let end = if range.end == self.len { range.end } else { range.end / self.page * self.page };
        let len = end.checked_sub(start).filter(|&n| n > 0)?;
        Some((usize::try_from(start).ok()?, usize::try_from(len).ok()?))
    }

    /// Hints about the page cache. Best effort, as all hints are.
    fn fadvise(&self, at: u64, len: u64, advice: PosixFadviseAdvice) {
        if let (Ok(at), Ok(len)) = (at.try_into(), len.try_into()) {
            let _ = posix_fadvise(&self.file, at, len, advice);
        }
    }
}

fn open(path: &Path) -> Result<MappedFile, OpenCause> {
    // O_NONBLOCK: a named pipe would otherwise wait for a writer. It means
    // nothing to a regular file.
    let flags = OFlag::O_NONBLOCK.bits();
    let file = OpenOptions::new().read(true).custom_flags(flags).open(path).map_err(OpenCause::new)?;
    let meta = file.metadata().map_err(OpenCause::new)?;
    if meta.is_dir() {
        return Err(OpenCause::Directory);
    }
    if !meta.is_file() {
        return Err(OpenCause::NotAFile);
    }
    let len = meta.len();
    if len == 0 {
        return Err(OpenCause::Empty);
    }
    let page = nix::unistd::sysconf(nix::unistd::SysconfVar::PAGE_SIZE).ok().flatten();
    let page = page.and_then(|n| u64::try_from(n).ok()).filter(|&n| n > 0).unwrap_or(1 << 16);
    let map = usize::try_from(len)
        .map_err(|_| io::Error::new(io::ErrorKind::OutOfMemory, "larger than the address space"))
        .and_then(|len| map(&file, len));
    Ok(MappedFile { file, len, map, page })
}

fn map(file: &File, len: usize) -> io::Result<Mmap> {
    // SAFETY: the mapping is read-only and private, so this process cannot
    // change it. That no other process does is the documented duty of whoever
    // opens the file; no system call can promise it for an ordinary file.
    unsafe { MmapOptions::new().len(len).map_copy_read_only(file) }
}

impl Pages for MappedFile {
    fn len(&self) -> u64 {
        self.len
    }

    fn map(&self) -> Option<&[u8]> {
        self.map.as_deref().ok()
    }

    /// Reads through the file, not the map: a failing device is then an error
    /// and not a bus fault, and no page of the map becomes resident.
    fn read(&self, at: u64, into: &mut [u8]) -> Result<(), PageError> {
        let err = PageError { at, len: into.len() };
        // The length found at opening is the file's, even if it grew since.
        match at.checked_add(into.len() as u64) {
            Some(end) if end <= self.len => self.file.read_exact_at(into, at).map_err(|_| err),
            _ => Err(err),
        }
    }

    fn prefetch(&self, range: Range<u64>) {
        let range = self.clip(range);
        let (at, len) = (range.start, range.end - range.start);
        match (&self.map, usize::try_from(at), usize::try_from(len)) {
            (_, _, Ok(0)) => {}
            (Ok(map), Ok(at), Ok(len)) => drop(map.advise_range(Advice::WillNeed, at, len)),
            _ => self.fadvise(at, len, PosixFadviseAdvice::POSIX_FADV_WILLNEED),
        }
    }

    /// Gives whole pages back: first out of this process, then out of the page
    /// cache, where unused pages would push out the ones that are due next.
    /// Pinned pages stay.
    fn release(&self, range: Range<u64>) {
        let Some((at, len)) = self.whole_pages(range) else { return };
        if let Ok(map) = &self.map {
            // SAFETY: the mapping is private, read-only and backed by a file
            // that does not change, so a dropped page comes back with the same
            // bytes when it is touched again.
            drop(unsafe { map.unchecked_advise_range(UncheckedAdvice::DontNeed, at, len) });
        }
        self.fadvise(at as u64, len as u64, PosixFadviseAdvice::POSIX_FADV_DONTNEED);
    }

    /// Reads what is not resident, and so may take as long as the disk does.
    fn pin(&self, range: Range<u64>) -> Pin {
        let range = self.clip(range);
        let bytes = self
            .map()
            .and_then(|map| map.get(usize::try_from(range.start).ok()?..usize::try_from(range.end).ok()?));
        let Some(bytes) = bytes else { return Pin::Refused };
        if bytes.is_empty() {
            return Pin::Pinned;
        }
        // SAFETY: `bytes` is live mapped memory; locking pages of it changes no
        // contents. The kernel unlocks them when the map is dropped. (A failed
        // lock is not undone: unlocking could release a neighbour's pages.)
        match unsafe { nix::sys::mman::mlock(NonNull::from(bytes).cast(), bytes.len()) } {
            Ok(()) => Pin::Pinned,
            Err(_) => Pin::Refused,
        }
    }
}

/// A model file that could not be opened.
#[derive(Debug)]
pub struct OpenError {
    /// The file asked for.
    pub path: PathBuf,
    /// What is wrong with it.
    pub cause: OpenCause,
}

/// Why a model file could not be opened.
#[derive(Debug)]
pub enum OpenCause {
    /// Nothing has that name.
    NotFound,
    /// The file may not be read by this user.
    Permission,
    /// It is a directory.
    Directory,
    /// It is a device, pipe or socket.
    NotAFile,
    /// It has no bytes.
    Empty,
    /// Anything else the system said.
    Other(io::Error),
}

impl OpenCause {
    fn new(err: io::Error) -> Self {
        match err.kind() {
            io::ErrorKind::NotFound => Self::NotFound,
            io::ErrorKind::PermissionDenied => Self::Permission,
            _ => Self::Other(err),
        }
    }
}

impl fmt::Display for OpenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "cannot open {}: ", self.path.display())?;
        match &self.cause {
            OpenCause::NotFound => f.write_str("no such file"),
            OpenCause::Permission => f.write_str("permission denied; check who may read it"),
            OpenCause::Directory => f.write_str("it is a directory; name a .gguf file inside it"),
            OpenCause::NotAFile => f.write_str("it is a device, pipe or socket, not a file"),
            OpenCause::Empty => f.write_str("the file is empty; was the download cut off?"),
            OpenCause::Other(err) => write!(f, "{err}"),
        }
    }
}

// The cause is in the message already.
impl std::error::Error for OpenError {}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    /// A folder that goes away with the test.
    struct Dir(PathBuf);

    impl Dir {
        fn new(name: &str) -> Self {
            let dir = std::env::temp_dir().join(format!("katydid-{name}-{}", std::process::id()));
            std::fs::create_dir_all(&dir).unwrap();
            Self(dir)
        }

        fn file(&self, name: &str, bytes: &[u8]) -> PathBuf {
            let path = self.0.join(name);
            std::fs::write(&path, bytes).unwrap();
            path
        }
    }

    impl Drop for Dir {
        fn drop(&mut self) {
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }

    fn message(path: &Path) -> String {
        let text = MappedFile::open(path).err().unwrap().to_string();
        assert!(text.starts_with("cannot open ") && !text.contains('\n'), "{text}");
        text
    }

    #[test]
    fn maps_and_reads_the_same_bytes() {
        let dir = Dir::new("pages");
        let bytes: Vec<u8> = (0..300_001u32).map(|i| (i * 7 + i / 251) as u8).collect();
        let file = MappedFile::open(dir.file("m.gguf", &bytes)).unwrap();
        assert_eq!((file.len(), file.map(), file.is_empty()), (300_001, Some(&bytes[..]), false));
        assert!(file.map_error().is_none());
        let mut part = [0; 1000];
        file.read(123_457, &mut part).unwrap();
        assert_eq!(part, bytes[123_457..124_457]);
        file.read(300_001, &mut []).unwrap();
        for (at, len) in [(299_002, 1000), (300_002, 0), (u64::MAX, 1), (u64::MAX - 999, 1000)] {
            assert_eq!(file.read(at, &mut part[..len]), Err(PageError { at, len }));
        }
    }

    #[test]
    fn hints_change_no_bytes_and_take_any_range() {
        let dir = Dir::new("hints");
        let bytes: Vec<u8> = (0..200_000u32).map(|i| (i / 3) as u8).collect();
        let file = MappedFile::open(dir.file("m.gguf", &bytes)).unwrap();
        #[allow(clippy::reversed_empty_ranges, reason = "hints must take nonsense")]
        let ranges = [0..200_000, 5..17, 4096..8192, 0..u64::MAX, u64::MAX..u64::MAX, 9..3, 199_999..200_000];
        for range in ranges {
            file.prefetch(range.clone());
            file.release(range.clone());
            let _ = file.pin(range.clone());
            file.release(range);
            assert_eq!(file.map(), Some(&bytes[..]));
        }
    }

    #[test]
    fn release_spares_the_edges() {
        let dir = Dir::new("edges");
        let file = MappedFile::open(dir.file("m.gguf", &vec![1; 10 << 16])).unwrap();
        let page = file.page as usize;
        assert_eq!(file.whole_pages(1..file.page), None);
        assert_eq!(file.whole_pages(1..3 * file.page + 1), Some((page, 2 * page)));
        assert_eq!(file.whole_pages(0..u64::MAX), Some((0, 10 << 16)));
    }

    #[test]
    fn released_pages_leave_memory_and_pinned_pages_stay() {
        let dir = Dir::new("resident");
        let len = 16usize << 20;
        let file = MappedFile::open(dir.file("m.gguf", &vec![7; len])).unwrap();
        let touch = || file.map().unwrap().iter().step_by(4096).fold(0u64, |sum, &b| sum + u64::from(b));
        let resident = || {
            let text = std::fs::read_to_string("/proc/self/smaps").ok()?;
            let entry = text.split_once(&dir.0.join("m.gguf").display().to_string())?.1;
            let line = entry.lines().find_map(|l| l.strip_prefix("Rss:"))?;
            line.trim().strip_suffix("kB")?.trim().parse::<usize>().ok().map(|k| k * 1024)
        };
        touch();
        let Some(all) = resident() else {
            println!("skipped: /proc/self/smaps absent");
            return;
        };
        assert_eq!(all, len);
        file.release(0..len as u64 / 2);
        assert_eq!(resident(), Some(len / 2));
        assert_eq!(touch(), 7 * (len / 4096) as u64);
        if file.pin(0..1 << 20) == Pin::Pinned {
            file.release(0..1 << 20);
            assert!(resident().unwrap() >= 1 << 20);
        } else {
            println!("skipped: pinning refused here");
        }
    }

    #[test]
    fn says_what_is_wrong_and_where() {
        let dir = Dir::new("open");
        let missing = message(&dir.0.join("absent.gguf"));
        assert!(missing.contains("absent.gguf") && missing.ends_with("no such file"), "{missing}");
        assert!(message(&dir.0).contains("directory"));
        assert!(message(&dir.file("empty.gguf", b"")).contains("empty"));
        assert!(message(Path::new("/dev/zero")).contains("device"));
        let through = dir.file("plain.gguf", b"x").join("below");
        assert!(message(&through).to_lowercase().contains("not a directory"));
        let fifo = dir.0.join("pipe.gguf");
        nix::unistd::mkfifo(&fifo, nix::sys::stat::Mode::S_IRWXU).unwrap();
        assert!(message(&fifo).contains("pipe"));
        let locked = dir.file("locked.gguf", b"x");
        std::fs::set_permissions(&locked, std::fs::Permissions::from_mode(0o0)).unwrap();
        match MappedFile::open(&locked) {
            Ok(_) => println!("skipped: this user may read anything"),
            Err(_) => assert!(message(&locked).contains("permission denied")),
        }
        let denied = OpenCause::new(io::ErrorKind::PermissionDenied.into());
        assert!(OpenError { path: locked, cause: denied }.to_string().contains("permission denied"));
    }
}
