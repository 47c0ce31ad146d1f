//! Time that moves by hand.

use std::sync::atomic::{AtomicU64, Ordering};

use katydid_core::port::Clock;

/// A clock that stands still until it is moved.
#[derive(Debug, Default)]
pub struct HandClock {
    now: AtomicU64,
}

impl HandClock {
    /// A clock that shows `micros`.
    pub fn at(micros: u64) -> Self {
        Self { now: AtomicU64::new(micros) }
    }

    /// Moves on by `micros`; stops at the end of time.
    pub fn advance(&self, micros: u64) {
        let later = |now: u64| Some(now.saturating_add(micros));
        // The closure never declines, so the update cannot fail.
        let _ = self.now.fetch_update(Ordering::Relaxed, Ordering::Relaxed, later);
    }

    /// Moves to `micros`, unless that lies in the past: clocks never go back.
    pub fn set(&self, micros: u64) {
        self.now.fetch_max(micros, Ordering::Relaxed);
    }
}

impl Clock for HandClock {
    fn micros(&self) -> u64 {
        self.now.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moves_only_by_hand_and_only_forward() {
        let clock = HandClock::at(5);
        assert_eq!((clock.micros(), clock.micros()), (5, 5));
        clock.advance(10);
        clock.set(3);
        assert_eq!(clock.micros(), 15);
        clock.set(20);
        assert_eq!(clock.micros(), 20);
        clock.advance(u64::MAX);
        assert_eq!(clock.micros(), u64::MAX);
    }
}
