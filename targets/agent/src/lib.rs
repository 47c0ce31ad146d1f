//! What an agent on a host needs beside the core: models' own chat templates,
//! tools declared in files, inputs. Knows no terminal and no model.

#![deny(unsafe_code)]

pub mod action;
pub mod audit;
pub mod config;
pub mod inputs;
pub mod jinja;
pub mod link;
pub mod schema;
pub mod secret;
mod template;
#[allow(unsafe_code)] // one call of the C library
mod time;
pub mod toolbox;
mod topic;
pub mod unit;
pub mod value;
