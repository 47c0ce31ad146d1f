//! Linux shim.
