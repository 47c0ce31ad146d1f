//! Sharing work among workers: who gets which rows, and proof that no two get
//! the same.
//!
//! Rows are handed out by a counter in chunks, so a slow core takes fewer. The
//! counter lives here, not in the platform: that each row goes to exactly one
//! caller does not rest on how a platform runs its tasks.

use core::marker::PhantomData;
use core::ops::Range;
use core::sync::atomic::{AtomicUsize, Ordering};

use crate::port::Workers;

/// Pieces per worker. Few, so that each is a long run of memory and workers
/// seldom touch what a neighbour has asked for ahead (16 rows at a time, two
/// workers read a 1.1B model no faster than one); several, so that a slow core
/// does not set the pace.
const PIECES: usize = 4;

/// Calls `task` with disjoint ranges of whole `chunk`s of rows (the last
/// shorter) that together cover `0..n`.
pub(super) fn for_each_range(
    workers: &dyn Workers,
    n: usize,
    chunk: usize,
    task: &(dyn Fn(Range<usize>) + Sync),
) {
    let chunk = chunk * n.div_ceil(chunk * PIECES * workers.count()).max(1);
    let hands = workers.count().min(n.div_ceil(chunk));
    if hands <= 1 {
        return task(0..n);
    }
    let next = AtomicUsize::new(0);
    workers.run(hands, &|_| {
        loop {
            // Relaxed: only the count matters; `run` publishes the results.
            let start = next.fetch_add(chunk, Ordering::Relaxed);
            if start >= n {
                return;
            }
            task(start..n.min(start + chunk));
        }
    });
}

/// A mutable slice seen as rows that can be handed to different workers.
pub struct Rows<'a, T> {
    first: *mut T,
    len: usize,
    count: usize,
    slice: PhantomData<&'a mut [T]>,
}

// SAFETY: rows are handed out to one worker each (see `for_each_row`), so
// sharing the view is like sending the pieces.
unsafe impl<T: Send> Sync for Rows<'_, T> {}

impl<'a, T> Rows<'a, T> {
    /// Rows of `len` elements. Panics when the slice is not whole rows.
    pub fn new(slice: &'a mut [T], len: usize) -> Self {
        assert!(len > 0 && slice.len().is_multiple_of(len), "not whole rows");
        Self { first: slice.as_mut_ptr(), len, count: slice.len() / len, slice: PhantomData }
    }
}

/// One or several slices of as many rows each.
pub trait RowSet: Sync {
    /// One row of each.
    type Item;
    /// How many rows.
    fn count(&self) -> usize;
    /// Row `i`.
    ///
    /// # Safety
    /// `i` is below the count, and no row is asked for twice.
    unsafe fn row(&self, i: usize) -> Self::Item;
}

impl<'a, T: Send> RowSet for Rows<'a, T> {
    type Item = &'a mut [T];

    fn count(&self) -> usize {
        self.count
    }

    unsafe fn row(&self, i: usize) -> &'a mut [T] {
        // SAFETY: within the slice that `self` borrows mutably, and asked for
        // once, by the caller's promise.
        unsafe { core::slice::from_raw_parts_mut(self.first.add(i * self.len), self.len) }
    }
}

macro_rules! row_set {
    ($($name:ident),*) => {
        impl<$($name: RowSet),*> RowSet for ($($name,)*) {
            type Item = ($($name::Item,)*);

            fn count(&self) -> usize {
                #[allow(non_snake_case)]
                let ($($name,)*) = self;
                let counts = [$($name.count()),*];
                assert!(counts.iter().all(|&c| c == counts[0]), "slices with different numbers of rows");
                counts[0]
            }

            unsafe fn row(&self, i: usize) -> Self::Item {
                #[allow(non_snake_case)]
                let ($($name,)*) = self;
                // SAFETY: the caller's promise, passed on.
                unsafe { ($($name.row(i),)*) }
            }
        }
    };
}
row_set!(A, B);
row_set!(A, B, C);

/// Calls `task(i, row i of rows)` for every row, shared among `workers`.
pub fn for_each_row<R: RowSet>(workers: &dyn Workers, rows: R, task: &(dyn Fn(usize, R::Item) + Sync)) {
    for_each_range(workers, rows.count(), 1, &|range| {
        for i in range {
            // SAFETY: ranges are disjoint and below the count.
            task(i, unsafe { rows.row(i) });
        }
    });
}
