//! Tasks in an order that nobody should rely on.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use katydid_core::port::Workers;

/// Runs every job's tasks in a random order, another for each job, the same
/// for the same seed.
///
/// With one thread, the order is exactly repeatable; with more, tasks also
/// really run at once.
#[derive(Debug)]
pub struct ScrambledWorkers {
    threads: usize,
    state: AtomicU64,
}

impl ScrambledWorkers {
    /// Shuffled tasks on the caller's thread.
    pub fn new(seed: u64) -> Self {
        Self::with_threads(seed, 1)
    }

    /// Shuffled tasks on `threads` threads (at least 1), started per job.
    pub fn with_threads(seed: u64, threads: usize) -> Self {
        Self { threads: threads.max(1), state: AtomicU64::new(seed) }
    }

    /// The next job's order.
    fn order(&self, n: usize) -> Vec<usize> {
        let mut order: Vec<usize> = (0..n).collect();
        for i in (1..n).rev() {
            order.swap(i, (self.random() % (i as u64 + 1)) as usize);
        }
        order
    }

    /// SplitMix64 (Steele, Lea and Flood, 2014).
    fn random(&self) -> u64 {
        const STEP: u64 = 0x9E37_79B9_7F4A_7C15;
        let mut z = self.state.fetch_add(STEP, Ordering::Relaxed).wrapping_add(STEP);
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }
}

impl Workers for ScrambledWorkers {
    fn count(&self) -> usize {
        self.threads
    }

    fn run(&self, n: usize, task: &(dyn Fn(usize) + Sync)) {
        let order = self.order(n);
        if self.threads == 1 {
            order.into_iter().for_each(task);
            return;
        }
        let next = AtomicUsize::new(0);
        let work = || {
            while let Some(&i) = order.get(next.fetch_add(1, Ordering::Relaxed)) {
                task(i);
            }
        };
        std::thread::scope(|scope| {
            for _ in 1..self.threads.min(n) {
                scope.spawn(work);
            }
            work();
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Mutex;

    fn seen(workers: &ScrambledWorkers, n: usize) -> Vec<usize> {
        let order = Mutex::new(Vec::new());
        workers.run(n, &|i| order.lock().unwrap().push(i));
        order.into_inner().unwrap()
    }

    #[test]
    fn every_task_once_in_another_order_each_time() {
        let workers = ScrambledWorkers::new(7);
        let (a, b) = (seen(&workers, 50), seen(&workers, 50));
        assert_ne!(a, b);
        assert_ne!(a, (0..50).collect::<Vec<_>>());
        for mut order in [a.clone(), b] {
            order.sort_unstable();
            assert_eq!(order, (0..50).collect::<Vec<_>>());
        }
        assert_eq!(seen(&ScrambledWorkers::new(7), 50), a);
        assert_ne!(seen(&ScrambledWorkers::new(8), 50), a);
    }

    #[test]
    fn threads_share_the_tasks() {
        for threads in [0, 2, 3, 8] {
            let workers = ScrambledWorkers::with_threads(1, threads);
            assert_eq!(workers.count(), threads.max(1));
            for n in [0, 1, 2, 40] {
                let mut order = seen(&workers, n);
                order.sort_unstable();
                assert_eq!(order, (0..n).collect::<Vec<_>>());
            }
        }
    }

    #[test]
    fn splitmix_matches_its_published_values() {
        // First outputs for seed 1234567, as given with the reference code.
        let workers = ScrambledWorkers::new(1_234_567);
        assert_eq!(
            [workers.random(), workers.random(), workers.random()],
            [6_457_827_717_110_365_317, 3_203_168_211_198_807_973, 9_817_491_932_198_370_423]
        );
    }
}
