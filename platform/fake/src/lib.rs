//! In-memory ports: everything the core asks of a platform, under a test's
//! control and the same on every machine.
//!
//! - [`MemPages`]: a model file in memory that can refuse to be mapped, fail
//!   after some reads, and tells what was asked of it.
//! - [`HandClock`]: time that moves when the test says so.
//! - [`ScrambledWorkers`]: tasks in a seeded random order, to show that the
//!   order does not matter.

mod clock;
mod pages;
mod workers;

pub use clock::HandClock;
pub use pages::{Event, MemPages};
pub use workers::ScrambledWorkers;
