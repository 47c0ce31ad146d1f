//! Katydid's inference core: everything that decides, nothing that touches an
//! operating system.
//!
//! # Layers, from the bottom
//! - [`port`]: the few things a platform supplies. [`arena`] and [`plan`]: the
//!   only memory there is, every byte named before it is taken.
//! - [`quant`]: block formats. [`kernels`]: the arithmetic, one instruction set
//!   chosen once.
//! - [`gguf`]: model files, from alleged to proven.
//! - [`model`]: architectures as data, the layer step, the KV cache.
//! - [`text`]: tokenizers. [`sample`]: choosing the next token. [`generate`]: one
//!   after another. [`grammar`]: text that keeps to a schema. [`chat`]:
//!   conversations. [`agent`]: models that call tools.
//!
//! # Promises
//! - Nothing here allocates; all memory comes from the caller's [`arena::Arena`].
//! - The same model and tokens give the same logits, bit for bit, on every
//!   instruction set, thread count and batch split.
//! - No input file can make it panic or read out of bounds.
#![no_std]
#![deny(unsafe_code)]

#[cfg(test)]
extern crate std;

#[cfg(target_endian = "big")]
compile_error!("GGUF files are read in place: only little-endian targets work");

pub mod agent;
pub mod arena;
mod cast;
pub mod chat;
pub mod generate;
pub mod gguf;
pub mod grammar;
mod json;
pub mod kernels;
mod math;
pub mod model;
mod name;
pub mod plan;
pub mod port;
pub mod quant;
pub mod sample;
pub mod text;

pub use name::Name;
