//! Memory: a block for the arena, and what the process and the machine have,
//! read from `/proc` (see proc(5)).

use std::io;

use memmap2::MmapMut;

/// Zeroed memory for an arena, straight from the system: pages count as used
/// only once they are touched.
pub struct Block(MmapMut);

impl Block {
    /// A block of `bytes`. Errs when the system has no room for it.
    pub fn new(bytes: usize) -> io::Result<Self> {
        MmapMut::map_anon(bytes.max(1)).map(Self)
    }

    /// All of it.
    pub fn bytes(&mut self) -> &mut [u8] {
        &mut self.0
    }
}

/// Bytes that new programs can still have without swapping.
pub fn available_memory() -> Option<u64> {
    field(&std::fs::read_to_string("/proc/meminfo").ok()?, "MemAvailable:")
}

/// Resident memory, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rss {
    /// Memory of our own: arena, stacks, heap.
    pub anon: u64,
    /// Pages of mapped files: the model's weights (a file on tmpfs included).
    pub file: u64,
}

/// Resident memory now; `None` where the kernel does not say (before 4.5, or
/// without /proc).
pub fn rss() -> Option<Rss> {
    parse_rss(&status()?)
}

/// The most resident memory the process ever had, in bytes.
pub fn vm_hwm() -> Option<u64> {
    field(&status()?, "VmHWM:")
}

fn status() -> Option<String> {
    std::fs::read_to_string("/proc/self/status").ok()
}

fn parse_rss(status: &str) -> Option<Rss> {
    // Pages of a file on tmpfs are counted as shared memory.
    let shmem = field(status, "RssShmem:").unwrap_or(0);
    Some(Rss { anon: field(status, "RssAnon:")?, file: field(status, "RssFile:")?.checked_add(shmem)? })
}

/// The bytes on the line that begins with `key` and ends in "kB".
fn field(status: &str, key: &str) -> Option<u64> {
    let rest = status.lines().find_map(|line| line.strip_prefix(key))?;
    rest.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()?.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_the_kernels_lines() {
        let text =
            "VmHWM:\t    2048 kB\nRssAnon:\t     100 kB\nRssFile:\t       7 kB\nRssShmem:\t       1 kB\n";
        assert_eq!(parse_rss(text), Some(Rss { anon: 102_400, file: 8192 }));
        assert_eq!(field(text, "VmHWM:"), Some(2 << 20));
        assert_eq!(parse_rss("VmHWM: 1 kB\n"), None);
        assert_eq!(field("VmHWM: 99999999999999999999 kB", "VmHWM:"), None);
    }

    #[test]
    fn sees_memory_that_was_touched() {
        let (Some(before), Some(peak)) = (rss(), vm_hwm()) else {
            println!("skipped: /proc/self/status absent");
            return;
        };
        let block = vec![1u8; 32 << 20];
        let after = rss().unwrap();
        assert!(after.anon >= before.anon + (24 << 20), "{before:?} {after:?} {}", block.len());
        assert!(vm_hwm().unwrap() >= peak);
    }
}
