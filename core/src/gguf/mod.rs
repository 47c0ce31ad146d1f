//! GGUF model files, from alleged to proven.
//!
//! A file *claims* keys, tensors and ranges. [`Gguf::parse`] walks all of it
//! once, with every read bounded, and either proves the claims or says what is
//! wrong and at which byte. What it returns afterwards cannot fail.
//!
//! Format: `docs/gguf.md` of the ggml project (MIT), versions 2 and 3.
