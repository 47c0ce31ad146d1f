//! The one block of memory that an engine lives in.
//!
//! Code that needs memory is written once against [`Space`]. Run over a
//! [`MemoryPlan`](crate::plan::MemoryPlan) it only records what it would take;
//! run over an [`Arena`] it takes it. So the plan that is printed and the bytes
//! that are used cannot drift apart.
//!
//! Taking is a pointer bump. Nothing is ever given back: an arena is filled at
//! load and then left alone.

use core::fmt;

use crate::cast::{self, Plain};
use crate::plan::Part;

/// Every buffer starts on a cache line, so that no two workers share one.
pub const ALIGN: usize = 64;

/// Somewhere that buffers come from.
pub trait Space<'a> {
    /// Takes `n` elements for `name`, aligned to [`ALIGN`], contents
    /// unspecified. A measuring space returns an empty slice.
    fn take<T: Plain>(&mut self, part: Part, name: &'static str, n: usize) -> Result<&'a mut [T], ArenaFull>;
}

/// A bump allocator over memory that the caller owns.
pub struct Arena<'a> {
    rest: &'a mut [u8],
    used: usize,
}

impl<'a> Arena<'a> {
    /// An arena over `memory`. Bytes before the first [`ALIGN`] boundary are
    /// lost, so hand in aligned memory or [`ALIGN`] bytes more than the plan.
    pub fn new(memory: &'a mut [u8]) -> Self {
        let skip = memory.as_ptr().align_offset(ALIGN).min(memory.len());
        Self { rest: &mut memory[skip..], used: 0 }
    }

    /// Bytes taken so far, padding included; compare with
    /// [`MemoryPlan::total`](crate::plan::MemoryPlan::total).
    pub fn used(&self) -> usize {
        self.used
    }
}

impl<'a> Space<'a> for Arena<'a> {
    fn take<T: Plain>(
        &mut self,
        _part: Part,
        name: &'static str,
        n: usize,
    ) -> Result<&'a mut [T], ArenaFull> {
        let need = size_of::<T>().checked_mul(n).and_then(|b| b.checked_next_multiple_of(ALIGN));
        let have = self.rest.len();
        let full = ArenaFull { name, need: need.map_or(u64::MAX, |b| b as u64), have: have as u64 };
        let need = need.filter(|&b| b <= have).ok_or(full)?;
        let (block, rest) = core::mem::take(&mut self.rest).split_at_mut(need);
        self.rest = rest;
        self.used += need;
        Ok(&mut cast::plain_mut::<T>(block)[..n])
    }
}

/// The arena is smaller than the plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ArenaFull {
    /// The buffer that did not fit.
    pub name: &'static str,
    /// Bytes it needs.
    pub need: u64,
    /// Bytes left.
    pub have: u64,
}

impl fmt::Display for ArenaFull {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "no room for {}: needs {} bytes, {} left in the arena", self.name, self.need, self.have)
    }
}

impl core::error::Error for ArenaFull {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn takes_aligned_disjoint_buffers_until_full() {
        let mut memory = [0u8; 4 * ALIGN + ALIGN];
        let mut arena = Arena::new(&mut memory);
        let a = arena.take::<u8>(Part::Scratch, "a", 3).unwrap();
        let b = arena.take::<f32>(Part::Scratch, "b", 17).unwrap();
        assert_eq!((a.len(), b.len()), (3, 17));
        assert_eq!(b.as_ptr() as usize % ALIGN, 0);
        a.fill(1);
        b.fill(2.0);
        assert!(a.iter().all(|&x| x == 1));
        assert_eq!(arena.used(), 3 * ALIGN);
        let err = arena.take::<u64>(Part::Scratch, "c", 100).unwrap_err();
        assert_eq!((err.name, err.need), ("c", 832));
        assert!(arena.take::<u64>(Part::Scratch, "d", usize::MAX).is_err());
        assert!(arena.take::<u8>(Part::Scratch, "e", 1).is_ok());
    }
}
