//! Ports: all that a platform must supply to run the core.
//!
//! Every port has an in-memory fake in `platform/fake`, so whatever decides
//! can be tested on a laptop.

use core::fmt;
use core::ops::Range;

pub use crate::kernels::{CpuCaps, CpuFlags};

/// The bytes of one model file.
///
/// The contents must not change while the value lives.
pub trait Pages: Sync {
    /// Bytes in the file.
    fn len(&self) -> u64;

    /// True when there is nothing to read.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The whole file as memory, where the platform can map it.
    fn map(&self) -> Option<&[u8]>;

    /// Fills `into` from byte `at`. Errors when the range passes the end or
    /// the device fails; `into` is then unspecified.
    fn read(&self, at: u64, into: &mut [u8]) -> Result<(), PageError>;

    /// Says that `range` will be needed soon. A hint: may do nothing.
    fn prefetch(&self, range: Range<u64>);

    /// Says that `range` will not be needed soon. A hint: may do nothing.
    fn release(&self, range: Range<u64>);

    /// Asks that `range` stays in memory until the value is dropped.
    fn pin(&self, range: Range<u64>) -> Pin;
}

/// Answer to [`Pages::pin`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pin {
    /// The range stays resident.
    Pinned,
    /// The platform would not; carry on without.
    Refused,
}

/// A read that could not be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PageError {
    /// First byte asked for.
    pub at: u64,
    /// Bytes asked for.
    pub len: usize,
}

impl fmt::Display for PageError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "cannot read {} bytes at byte {}: the file ends or the device failed", self.len, self.at)
    }
}

impl core::error::Error for PageError {}

/// A fixed set of threads or cores.
pub trait Workers: Sync {
    /// How many run at once, the caller's own thread included; at least 1.
    fn count(&self) -> usize;

    /// Calls `task(0)` to `task(n - 1)`, each exactly once, in any order and on
    /// any worker, and returns when all are done. What the tasks wrote is then
    /// visible to the caller.
    fn run(&self, n: usize, task: &(dyn Fn(usize) + Sync));
}

/// The caller's own thread as the only worker.
#[derive(Clone, Copy, Debug, Default)]
pub struct OneWorker;

impl Workers for OneWorker {
    fn count(&self) -> usize {
        1
    }

    fn run(&self, n: usize, task: &(dyn Fn(usize) + Sync)) {
        for i in 0..n {
            task(i);
        }
    }
}

/// Monotonic time.
pub trait Clock {
    /// Microseconds since some fixed moment; never goes back.
    fn micros(&self) -> u64;
}
