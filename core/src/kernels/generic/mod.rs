//! Kernels, each written once over [`Lanes`](super::lanes::Lanes).

pub(super) mod attend;
mod exp;
mod float;
mod k_quants;
mod legacy;
pub(super) mod matmul;
pub(super) mod quantize;
pub(super) mod steps;
