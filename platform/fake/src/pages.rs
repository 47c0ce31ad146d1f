//! A model file in memory.

use std::ops::Range;
use std::sync::{Mutex, MutexGuard, PoisonError};

use katydid_core::port::{PageError, Pages, Pin};

/// One thing asked of a [`MemPages`], with the bytes it was about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// [`Pages::read`]; recorded whether or not it succeeded.
    Read(Range<u64>),
    /// [`Pages::prefetch`].
    Prefetch(Range<u64>),
    /// [`Pages::release`].
    Release(Range<u64>),
    /// [`Pages::pin`], and what was answered.
    Pin(Range<u64>, Pin),
}

/// Bytes in memory as a model file.
///
/// Maps, never fails and pins everything unless told otherwise by
/// [`MemPages::unmappable`], [`MemPages::failing_after`] and
/// [`MemPages::pin_limit`]. Records all that is asked of it.
#[derive(Debug)]
pub struct MemPages {
    bytes: Vec<u8>,
    mappable: bool,
    good_reads: usize,
    pin_limit: u64,
    log: Mutex<Log>,
}

#[derive(Debug, Default)]
struct Log {
    events: Vec<Event>,
    reads: usize,
    pinned: u64,
}

impl MemPages {
    /// A file of these bytes.
    pub fn new(bytes: impl Into<Vec<u8>>) -> Self {
        Self {
            bytes: bytes.into(),
            mappable: true,
            good_reads: usize::MAX,
            pin_limit: u64::MAX,
            log: Mutex::default(),
        }
    }

    /// As on a platform that cannot map: only `read` works.
    pub fn unmappable(mut self) -> Self {
        self.mappable = false;
        self
    }

    /// As on a failing device: the first `reads` reads work, all later ones
    /// fail.
    pub fn failing_after(mut self, reads: usize) -> Self {
        self.good_reads = reads;
        self
    }

    /// Refuses to pin more than `bytes` in all.
    pub fn pin_limit(mut self, bytes: u64) -> Self {
        self.pin_limit = bytes;
        self
    }

    /// All that was asked, in order.
    pub fn events(&self) -> Vec<Event> {
        self.log().events.clone()
    }

    /// How often `read` was called.
    pub fn reads(&self) -> usize {
        self.log().reads
    }

    /// How often `prefetch` was called.
    pub fn prefetches(&self) -> usize {
        self.count(|e| matches!(e, Event::Prefetch(_)))
    }

    /// How often `release` was called.
    pub fn releases(&self) -> usize {
        self.count(|e| matches!(e, Event::Release(_)))
    }

    /// Bytes pinned so far; a byte pinned twice counts twice.
    pub fn pinned(&self) -> u64 {
        self.log().pinned
    }

    fn count(&self, which: impl Fn(&Event) -> bool) -> usize {
        self.log().events.iter().filter(|e| which(e)).count()
    }

    fn log(&self) -> MutexGuard<'_, Log> {
        self.log.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn length(range: &Range<u64>) -> u64 {
    range.end.saturating_sub(range.start)
}

impl Pages for MemPages {
    fn len(&self) -> u64 {
        self.bytes.len() as u64
    }

    fn map(&self) -> Option<&[u8]> {
        self.mappable.then_some(&self.bytes[..])
    }

    fn read(&self, at: u64, into: &mut [u8]) -> Result<(), PageError> {
        let err = PageError { at, len: into.len() };
        let nth = {
            let mut log = self.log();
            log.events.push(Event::Read(at..at.saturating_add(into.len() as u64)));
            log.reads += 1;
            log.reads
        };
        let start = usize::try_from(at).map_err(|_| err)?;
        let end = start.checked_add(into.len()).ok_or(err)?;
        let bytes = self.bytes.get(start..end).filter(|_| nth <= self.good_reads).ok_or(err)?;
        into.copy_from_slice(bytes);
        Ok(())
    }

    fn prefetch(&self, range: Range<u64>) {
        self.log().events.push(Event::Prefetch(range));
    }

    fn release(&self, range: Range<u64>) {
        self.log().events.push(Event::Release(range));
    }

    /// Refuses what cannot be mapped, passes the end or passes the limit.
    fn pin(&self, range: Range<u64>) -> Pin {
        let mut log = self.log();
        let total = log.pinned.saturating_add(length(&range));
        let answer = if self.mappable && range.end <= self.len() && total <= self.pin_limit {
            log.pinned = total;
            Pin::Pinned
        } else {
            Pin::Refused
        };
        log.events.push(Event::Pin(range, answer));
        answer
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_within_the_file_only() {
        let pages = MemPages::new([1, 2, 3, 4]);
        assert_eq!((pages.len(), pages.map()), (4, Some(&[1, 2, 3, 4][..])));
        let mut two = [0; 2];
        pages.read(1, &mut two).unwrap();
        assert_eq!(two, [2, 3]);
        pages.read(4, &mut []).unwrap();
        assert_eq!(pages.read(3, &mut two), Err(PageError { at: 3, len: 2 }));
        assert_eq!(pages.read(u64::MAX, &mut two), Err(PageError { at: u64::MAX, len: 2 }));
        assert!(MemPages::new([]).is_empty());
    }

    #[test]
    fn fails_when_told() {
        let pages = MemPages::new([9; 8]).unmappable().failing_after(2);
        assert_eq!(pages.map(), None);
        let mut byte = [0];
        assert!(pages.read(0, &mut byte).is_ok() && pages.read(7, &mut byte).is_ok());
        assert!(pages.read(0, &mut byte).is_err() && pages.read(0, &mut byte).is_err());
        assert_eq!(pages.reads(), 4);
        assert_eq!(pages.pin(0..1), Pin::Refused);
    }

    #[test]
    fn records_what_was_asked() {
        let pages = MemPages::new([0; 100]).pin_limit(50);
        pages.prefetch(0..10);
        pages.release(5..7);
        assert_eq!(pages.pin(0..40), Pin::Pinned);
        assert_eq!(pages.pin(40..60), Pin::Refused);
        assert_eq!(pages.pin(90..101), Pin::Refused);
        assert_eq!(pages.pin(90..100), Pin::Pinned);
        assert_eq!((pages.prefetches(), pages.releases(), pages.reads(), pages.pinned()), (1, 1, 0, 50));
        assert_eq!(pages.events()[1..3], [Event::Release(5..7), Event::Pin(0..40, Pin::Pinned)]);
    }
}
