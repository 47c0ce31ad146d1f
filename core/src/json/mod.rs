//! Reading and writing JSON texts in place, without memory: what schemas,
//! answers of models and arguments of calls are read with.
//!
//! One scanner goes through a text and says where and why it is no JSON. It
//! accepts exactly what RFC 8259 allows, less lone surrogates, up to [`DEPTH`]
//! lists within each other. Schemas, which are gone through many times, have an
//! index on top of it in [`crate::grammar`].

mod read;
mod scan;
pub(crate) mod text;
mod write;

pub use scan::NotJson;

pub(crate) use read::{Elements, Members, Text, elements, members, object, skip, value, whole};
pub(crate) use scan::{DEPTH, Kind, Scan, Sink};
pub(crate) use write::{Page, escape, quote, spaced};
