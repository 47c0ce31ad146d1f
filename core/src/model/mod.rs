//! Architectures as data, the layer step, the KV cache.
//!
//! - [`arch`]: what tells one architecture from another, as tables.
//! - [`config`]: hyper-parameters, checked. [`weights`]: the tensors, checked
//!   against them.
//! - [`rope`], [`kv`]: positions and memory of past tokens.
//! - [`engine`]: all of these in one arena; [`engine::Engine::eval`] runs tokens.
//!
//! After [`engine::Engine::load`] nothing allocates and nothing in the file can
//! make a step fail.

pub mod arch;
pub mod config;
pub mod engine;
mod error;
mod forward;
pub mod kv;
pub mod rope;
pub mod weights;

pub use config::Config;
pub use engine::{Engine, EvalError, Options};
pub use error::{Fault, LoadError};
