//! Time that never goes back.

use std::time::Instant;

use katydid_core::port::Clock;

/// Microseconds since the value was made (`CLOCK_MONOTONIC`, which does not
/// count time spent in suspend).
#[derive(Clone, Copy, Debug)]
pub struct MonotonicClock {
    start: Instant,
}

impl MonotonicClock {
    /// A clock that starts at zero now.
    pub fn new() -> Self {
        Self { start: Instant::now() }
    }
}

impl Default for MonotonicClock {
    fn default() -> Self {
        Self::new()
    }
}

impl Clock for MonotonicClock {
    fn micros(&self) -> u64 {
        u64::try_from(self.start.elapsed().as_micros()).unwrap_or(u64::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_microseconds_and_never_goes_back() {
        let clock = MonotonicClock::new();
        let mut last = clock.micros();
        for _ in 0..1000 {
            let now = clock.micros();
            assert!(now >= last);
            last = now;
        }
        std::thread::sleep(std::time::Duration::from_millis(3));
        assert!(clock.micros() - last >= 3000);
    }
}
