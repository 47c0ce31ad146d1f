//! Grammars against oracles: the schemas of `schemas.json`, real vocabularies,
//! the `jsonschema` crate, llguidance.
//!
//! On hosts only: thousands of documents are slow where a machine is emulated.
//! The grammar's own tests in core run on every instruction set.
#![cfg(target_arch = "x86_64")]

mod agree;
mod calls;
mod cost;
mod generate;
mod masks;
mod oracle;
mod support;
