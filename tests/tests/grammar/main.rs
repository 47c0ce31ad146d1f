//! Grammars against oracles: the schemas of `schemas.json`, real vocabularies,
//! the `jsonschema` crate.

mod cost;
mod generate;
mod masks;
mod oracle;
mod support;
