//! In-memory ports for tests.
