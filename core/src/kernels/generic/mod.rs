//! Kernels, each written once over [`Lanes`](super::lanes::Lanes).

pub(super) mod attend;
mod decode;
mod exp;
pub(super) mod float;
pub(super) mod k_quants;
pub(super) mod legacy;
pub(super) mod matmul;
pub(super) mod pair;
mod panel;
pub(super) mod quantize;
pub(super) mod scales;
pub(super) mod steps;
