//! A pool of threads for many small jobs.
//!
//! Decoding a token makes some two hundred jobs of a few microseconds each, so
//! a job may cost neither a system call nor an allocation while the threads
//! are warm. Boards run on batteries, so threads without work may not spin for
//! long either: they watch for the next job for [`SPIN`], then sleep.
//!
//! # How a job runs
//! The caller writes the job's cell, then stores the number of tasks to
//! `unclaimed`. Whoever lowers `unclaimed` by one owns one task; the caller
//! claims like everyone else, so a job never waits for a thread to wake up.
//! Whoever has finished a task lowers `unfinished`; at zero the caller returns.
//!
//! # Why it is sound on weakly ordered processors
//! - *The job's cell* is written only while `unfinished` is zero, and read only
//!   between a claim and the finish of that task, while `unfinished` is not.
//!   A claim is a compare-and-swap, so one that succeeds belongs to the job
//!   that is published now, however late the thread is.
//! - *Caller to worker*: `unclaimed` is stored with release, claimed with
//!   acquire. Claims in between are read-modify-writes and so continue the
//!   release sequence.
//! - *Worker to caller*: `unfinished` is lowered with release, and read as zero
//!   with acquire, which sees what every task wrote, for the same reason.
//! - *Nobody sleeps through a job*: each side stores, fences, then loads what
//!   the other stores. Two sequentially consistent fences are in one order, so
//!   at least one side sees the other's store.

use std::any::Any;
use std::cell::UnsafeCell;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release, SeqCst};
use std::sync::atomic::{AtomicBool, AtomicUsize, fence};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use katydid_core::port::Workers;

use crate::cpus::{self, Cpus};

/// How long a thread without work watches for some before it sleeps: longer
/// than the serial stretches between the jobs of one token, far shorter than
/// anything a battery would notice.
const SPIN: Duration = Duration::from_micros(50);

/// Stack of each thread that a pool starts, in bytes. Tasks are kernels: the
/// deepest, attention, holds a few kilobytes.
pub const STACK: usize = 256 << 10;

/// Whether threads stay on one processor each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pinning {
    /// The system moves threads as it likes.
    None,
    /// Each thread of the pool gets a processor of its own out of those the
    /// process may use, fast cores first. The best is left for the caller,
    /// whose own affinity is not touched. A refusal is not an error, and a
    /// pool larger than the processors is not pinned.
    Cores,
}

/// Threads that run [`Workers`] jobs together with the caller.
///
/// - A job started while another runs (from inside a task, or by a second
///   caller) runs on its caller's thread alone, so nesting cannot deadlock.
/// - A panic in a task reaches the caller of [`Workers::run`] after the job's
///   other tasks have run; of several, the first.
/// - Dropping the pool stops and joins its threads.
pub struct Pool {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
}

/// A task whose lifetime the pool itself watches over.
type Task = *const (dyn Fn(usize) + Sync);

/// What is being run.
struct Job {
    task: Task,
    n: usize,
}

/// A value on cache lines of its own: 128 bytes, as some processors fetch
/// lines in pairs.
#[repr(align(128))]
struct Line<T>(T);

struct Shared {
    job: UnsafeCell<Option<Job>>,
    /// Tasks that nobody has taken.
    unclaimed: Line<AtomicUsize>,
    /// Tasks that have not ended.
    unfinished: Line<AtomicUsize>,
    /// A job is being run.
    busy: Line<AtomicBool>,
    /// How many of `asleep` are set; only a hint that saves looking.
    sleepers: Line<AtomicUsize>,
    /// One per thread of the pool: it sleeps, or is about to.
    asleep: Box<[Line<AtomicBool>]>,
    quit: AtomicBool,
    /// The caller sleeps on `ended`, or is about to.
    caller_waits: AtomicBool,
    caller: Mutex<()>,
    ended: Condvar,
    panic: Mutex<Option<Box<dyn Any + Send>>>,
    spin: Duration,
}

// SAFETY: `job` is the only part that is not `Sync` or `Send` of itself. Its
// access is ordered as the module's documentation argues, and the task that it
// points to is `Sync`, so any thread may call it.
unsafe impl Sync for Shared {}
// SAFETY: as above; nothing in it belongs to one thread.
unsafe impl Send for Shared {}

impl Pool {
    /// A pool in which `n` threads run at once, the caller included: `n - 1`
    /// are started (none for 0 or 1). Errs when the system gives no more
    /// threads.
    pub fn new(n: usize, pinning: Pinning) -> io::Result<Self> {
        let cpus = Cpus::find();
        let crowded = n > cpus.order.len();
        let extra = n.saturating_sub(1);
        // More threads than processors: whoever spins keeps a worker off.
        let spin = if crowded { Duration::ZERO } else { SPIN };
        let mut pool =
            Self { shared: Arc::new(Shared::new(extra, spin)), threads: Vec::with_capacity(extra) };
        for id in 0..extra {
            let shared = Arc::clone(&pool.shared);
            let cpu = cpus.order.get(id + 1).copied().filter(|_| pinning == Pinning::Cores && !crowded);
            let thread = std::thread::Builder::new()
                .name(format!("katydid-{}", id + 1))
                .stack_size(STACK)
                .spawn(move || {
                    // Refused is fine: the thread then runs where the system puts it.
                    let _ = cpu.map(cpus::bind_to);
                    shared.work(id);
                });
            // On an error, dropping the pool ends the threads started so far.
            pool.threads.push(thread?);
        }
        Ok(pool)
    }
}

impl Workers for Pool {
    fn count(&self) -> usize {
        self.threads.len() + 1
    }

    fn run(&self, n: usize, task: &(dyn Fn(usize) + Sync)) {
        let alone = self.threads.is_empty() || n < 2;
        if alone || self.shared.busy.0.swap(true, Acquire) {
            (0..n).for_each(task);
            return;
        }
        let panic = self.run_shared(n, task);
        self.shared.busy.0.store(false, Release);
        if let Some(payload) = panic {
            resume_unwind(payload);
        }
    }
}

impl Pool {
    /// Runs a job of two or more tasks; this thread has set `busy`. Returns a
    /// task's panic.
    fn run_shared(&self, n: usize, task: &(dyn Fn(usize) + Sync)) -> Option<Box<dyn Any + Send>> {
        let shared = &*self.shared;
        // SAFETY: only the lifetime is changed, and this function does not
        // return or unwind before `unfinished` is zero, after which nobody
        // reads the cell again: the task outlives every call of it.
        let task = unsafe { std::mem::transmute::<*const (dyn Fn(usize) + Sync + '_), Task>(task) };
        // SAFETY: no job runs (`busy` is ours and the last one ended), so no
        // claim can succeed and nobody else looks into the cell.
        unsafe { *shared.job.get() = Some(Job { task, n }) };
        shared.unfinished.0.store(n, Relaxed);
        shared.unclaimed.0.store(n, Release);
        self.wake(n - 1);
        while shared.try_task() {}
        shared.wait_for_end();
        lock(&shared.panic).take()
    }

    /// Wakes up to `most` sleeping threads.
    fn wake(&self, most: usize) {
        // Pairs with the fence in `sleep`: either the flag is seen here or
        // the job is seen there.
        fence(SeqCst);
        let mut left = most.min(self.shared.sleepers.0.load(Relaxed));
        for (flag, thread) in self.shared.asleep.iter().zip(&self.threads) {
            if left == 0 {
                break;
            }
            // Look before swapping: a swap takes the line from its owner.
            if flag.0.load(Relaxed) && flag.0.swap(false, AcqRel) {
                self.shared.sleepers.0.fetch_sub(1, Relaxed);
                thread.thread().unpark();
                left -= 1;
            }
        }
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        self.shared.quit.store(true, Release);
        self.wake(usize::MAX);
        for thread in self.threads.drain(..) {
            // Tasks' panics are caught, so a thread ends only by returning.
            let _ = thread.join();
        }
    }
}

impl Shared {
    fn new(extra: usize, spin: Duration) -> Self {
        Self {
            job: UnsafeCell::new(None),
            unclaimed: Line(AtomicUsize::new(0)),
            unfinished: Line(AtomicUsize::new(0)),
            busy: Line(AtomicBool::new(false)),
            sleepers: Line(AtomicUsize::new(0)),
            asleep: (0..extra).map(|_| Line(AtomicBool::new(false))).collect(),
            quit: AtomicBool::new(false),
            caller_waits: AtomicBool::new(false),
            caller: Mutex::new(()),
            ended: Condvar::new(),
            panic: Mutex::new(None),
            spin,
        }
    }

    /// Claims and runs one task; false when all are taken.
    fn try_task(&self) -> bool {
        let claim = self.unclaimed.0.fetch_update(Acquire, Relaxed, |left| left.checked_sub(1));
        let Ok(left) = claim else { return false };
        // SAFETY: the claimed task has not finished, so the job is still the
        // published one: nobody writes the cell, and the task lives.
        let job = unsafe { &*self.job.get() };
        let Some(job) = job else { unreachable!("tasks are published with their job") };
        // SAFETY: as above, `run_shared` still waits for this task to finish.
        let (task, n) = (unsafe { &*job.task }, job.n);
        // A panic must not skip the count below: the caller would wait for ever.
        if let Err(payload) = catch_unwind(AssertUnwindSafe(|| task(n - left))) {
            self.keep(payload);
        }
        if self.unfinished.0.fetch_sub(1, Release) == 1 {
            // From here on the cell and `task` may be gone.
            fence(SeqCst);
            if self.caller_waits.load(Relaxed) {
                // The lock makes sure that the caller is either before its
                // check of `unfinished` or asleep.
                drop(lock(&self.caller));
                self.ended.notify_all();
            }
        }
        true
    }

    /// Returns when every task has finished and its writes are visible.
    fn wait_for_end(&self) {
        let ended = || self.unfinished.0.load(Acquire) == 0;
        if self.spin_until(ended) {
            return;
        }
        self.caller_waits.store(true, Relaxed);
        fence(SeqCst);
        let mut guard = lock(&self.caller);
        while !ended() {
            guard = self.ended.wait(guard).unwrap_or_else(PoisonError::into_inner);
        }
        drop(guard);
        self.caller_waits.store(false, Relaxed);
    }

    /// What a thread of the pool does all its life.
    fn work(&self, id: usize) {
        while !self.quit.load(Acquire) {
            if self.try_task() {
                continue;
            }
            let due = || self.unclaimed.0.load(Relaxed) != 0 || self.quit.load(Relaxed);
            if !self.spin_until(due) {
                self.sleep(id, due);
            }
        }
    }

    /// Sleeps until woken, unless work came meanwhile.
    fn sleep(&self, id: usize, due: impl Fn() -> bool) {
        let asleep = &self.asleep[id].0;
        self.sleepers.0.fetch_add(1, Relaxed);
        asleep.store(true, Relaxed);
        fence(SeqCst);
        if due() {
            // Whoever clears the flag counts; a waker that was faster leaves a
            // token, which ends the next park at once and does no harm.
            if asleep.swap(false, AcqRel) {
                self.sleepers.0.fetch_sub(1, Relaxed);
            }
            return;
        }
        while asleep.load(Acquire) {
            std::thread::park();
        }
    }

    /// Keeps the first panic of a job.
    fn keep(&self, payload: Box<dyn Any + Send>) {
        let mut first = lock(&self.panic);
        if first.is_none() {
            *first = Some(payload);
        } else {
            // Its own drop code could panic again, where nobody catches.
            std::mem::forget(payload);
        }
    }

    /// Watches for `done` for as long as spinning is worth it.
    fn spin_until(&self, done: impl Fn() -> bool) -> bool {
        let mut start = None;
        loop {
            for _ in 0..32 {
                if done() {
                    return true;
                }
                std::hint::spin_loop();
            }
            // The clock is read only once the wait is worth the reading.
            if start.get_or_insert_with(Instant::now).elapsed() >= self.spin {
                return false;
            }
        }
    }
}

/// No code panics while it holds one of our locks, so poison means nothing.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicU64;

    fn pool(n: usize) -> Pool {
        Pool::new(n, Pinning::None).unwrap()
    }

    fn each_once(pool: &Pool, n: usize) {
        let hits: Vec<AtomicUsize> = (0..n).map(|_| AtomicUsize::new(0)).collect();
        pool.run(n, &|i| {
            hits[i].fetch_add(1, Relaxed);
        });
        assert!(hits.iter().all(|h| h.load(Relaxed) == 1), "{n} tasks on {}", pool.count());
    }

    #[test]
    fn runs_each_task_once_for_any_count() {
        for threads in [0, 1, 2, 3, 4, 9] {
            let pool = pool(threads);
            assert_eq!(pool.count(), threads.max(1));
            for n in [0, 1, 2, 3, 7, 64, 1000] {
                each_once(&pool, n);
            }
        }
    }

    #[test]
    fn many_small_jobs_see_each_others_writes() {
        for (threads, pinning) in [(2, Pinning::None), (2, Pinning::Cores), (4, Pinning::Cores)] {
            let pool = Pool::new(threads, pinning).unwrap();
            // Plain memory, no atomics: job k reads what job k - 1 wrote.
            let mut rows = [0u64; 8];
            for round in 0..20_000u64 {
                let before = rows;
                let cells: Vec<_> = rows.iter_mut().map(Mutex::new).collect();
                let slots: &[Mutex<&mut u64>] = &cells;
                pool.run(8, &|i| **slots[i].try_lock().unwrap() = before[(i + 1) % 8] + round);
                drop(cells);
                assert!(rows.iter().all(|&x| x == (0..=round).sum::<u64>()), "round {round}");
            }
        }
    }

    /// Tasks write disjoint parts of one plain buffer through a raw pointer,
    /// as the kernels do.
    #[test]
    fn plain_writes_are_visible_to_the_caller() {
        struct Out(*mut u64);
        // SAFETY: each task writes its own element only.
        unsafe impl Sync for Out {}
        impl Out {
            fn put(&self, i: usize, x: u64) {
                // SAFETY: `i` is below 16, the length of the buffer, and no
                // other task has the same `i`.
                unsafe { *self.0.add(i) = x }
            }
        }
        let pool = pool(3);
        let mut buffer = [0u64; 16];
        for round in 1..5_000u64 {
            let out = Out(buffer.as_mut_ptr());
            pool.run(16, &|i| out.put(i, round * 31 + i as u64));
            for (i, &x) in buffer.iter().enumerate() {
                assert_eq!(x, round * 31 + i as u64);
            }
        }
    }

    #[test]
    fn works_across_sleeps() {
        let pool = pool(3);
        for pause in [0, 20, 49, 50, 51, 70, 100, 1000, 5000] {
            for _ in 0..20 {
                std::thread::sleep(Duration::from_micros(pause));
                each_once(&pool, 5);
            }
        }
    }

    /// The moment between spinning and sleeping is where a wake-up gets lost.
    #[test]
    fn no_wake_up_is_lost_around_the_spin_limit() {
        let pool = pool(2);
        for step in 0..4_000u64 {
            let wait = Duration::from_nanos(40_000 + step * 10);
            let start = Instant::now();
            while start.elapsed() < wait {
                std::hint::spin_loop();
            }
            // Both must meet: a lost wake-up would hang here.
            let met = AtomicUsize::new(0);
            pool.run(2, &|_| {
                met.fetch_add(1, SeqCst);
                let start = Instant::now();
                while met.load(SeqCst) < 2 {
                    assert!(start.elapsed() < Duration::from_secs(60), "lost wake-up at step {step}");
                    std::thread::yield_now();
                }
            });
        }
    }

    #[test]
    fn more_threads_than_processors() {
        let pool = pool(32);
        let sum = AtomicU64::new(0);
        for _ in 0..500 {
            pool.run(100, &|i| _ = sum.fetch_add(i as u64, Relaxed));
        }
        assert_eq!(sum.load(Relaxed), 500 * 4950);
    }

    #[test]
    fn slow_tasks_put_the_caller_to_sleep_and_wake_it() {
        let pool = pool(2);
        for _ in 0..20 {
            let caller = std::thread::current().id();
            pool.run(2, &|_| {
                if std::thread::current().id() != caller {
                    std::thread::sleep(Duration::from_millis(2));
                }
            });
        }
    }

    #[test]
    fn a_task_may_run_jobs_of_its_own() {
        let pool = pool(3);
        let count = AtomicUsize::new(0);
        pool.run(5, &|_| pool.run(7, &|_| pool.run(2, &|_| _ = count.fetch_add(1, Relaxed))));
        assert_eq!(count.load(Relaxed), 70);
    }

    #[test]
    fn two_callers_share_a_pool() {
        let pool = pool(3);
        std::thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| (0..2_000).for_each(|_| each_once(&pool, 6)));
            }
        });
    }

    #[test]
    fn a_panic_reaches_the_caller_and_the_pool_lives_on() {
        let pool = pool(3);
        for bad in 0..6 {
            let others = AtomicUsize::new(0);
            let result = catch_unwind(AssertUnwindSafe(|| {
                pool.run(6, &|i| {
                    assert!(i != bad, "task {i} fails");
                    others.fetch_add(1, Relaxed);
                });
            }));
            let payload = result.unwrap_err();
            assert_eq!(*payload.downcast::<String>().unwrap(), format!("task {bad} fails"));
            assert_eq!(others.load(Relaxed), 5);
            each_once(&pool, 9);
        }
        // All of them at once.
        assert!(catch_unwind(AssertUnwindSafe(|| pool.run(50, &|_| panic!("all")))).is_err());
        each_once(&pool, 9);
    }

    #[test]
    fn dropping_joins_the_threads() {
        for pause in [0, 1] {
            let pool = pool(4);
            each_once(&pool, 8);
            std::thread::sleep(Duration::from_millis(pause));
            let shared = Arc::downgrade(&pool.shared);
            drop(pool);
            assert!(shared.upgrade().is_none(), "a thread still holds the pool");
        }
        drop(pool(8));
    }

    #[test]
    fn idle_threads_sleep() {
        let pool = pool(2);
        each_once(&pool, 4);
        let start = Instant::now();
        while pool.shared.sleepers.0.load(SeqCst) != 1 {
            assert!(start.elapsed() < Duration::from_secs(30), "still spinning");
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// Prints the cost of a job whose two tasks wait for each other, so that
    /// both threads must take part; asserts nothing, as the machine may be busy.
    #[test]
    fn cost_of_a_job() {
        let pool = pool(2);
        let mut costs: Vec<Duration> = (0..2_000)
            .map(|_| {
                let met = AtomicUsize::new(0);
                let start = Instant::now();
                pool.run(2, &|_| {
                    met.fetch_add(1, SeqCst);
                    while met.load(SeqCst) < 2 {
                        std::hint::spin_loop();
                    }
                });
                start.elapsed()
            })
            .collect();
        costs.sort_unstable();
        println!("a job of 2 tasks on 2 threads: best {:?}, median {:?}", costs[0], costs[1000]);
    }
}
