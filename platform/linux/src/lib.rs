//! The Linux shim: what Linux and Android supply to the core, and nothing
//! that decides.
//!
//! - [`MappedFile`]: a model file as [`Pages`](katydid_core::port::Pages).
//! - [`Pool`]: threads as [`Workers`](katydid_core::port::Workers).
//! - [`MonotonicClock`]: time as [`Clock`](katydid_core::port::Clock).
//! - [`cpu_caps`], [`default_threads`]: what the processor can do.
//! - [`Block`], [`available_memory`]: memory for the arena.
//! - [`rss`], [`vm_hwm`]: what the process occupies, for statistics.

mod caps;
mod clock;
mod cpus;
mod memory;
mod pages;
mod workers;

pub use caps::cpu_caps;
pub use clock::MonotonicClock;
pub use cpus::default_threads;
pub use memory::{Block, Rss, available_memory, rss, vm_hwm};
pub use pages::{MappedFile, OpenCause, OpenError};
pub use workers::{Pinning, Pool, STACK};
