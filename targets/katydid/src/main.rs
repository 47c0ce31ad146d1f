//! The katydid command.
fn main() {}
