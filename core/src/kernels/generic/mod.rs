//! Kernels, each written once over [`Lanes`](super::lanes::Lanes).

pub(super) mod attend;
#[cfg_attr(
    not(any(target_arch = "x86_64", target_arch = "aarch64")),
    allow(dead_code, reason = "only some take several rows or blocks at once")
)]
pub(super) mod decode;
mod exp;
pub(super) mod float;
pub(super) mod k_quants;
pub(super) mod legacy;
pub(super) mod matmul;
#[cfg_attr(
    not(target_arch = "x86_64"),
    allow(dead_code, reason = "so far x86 alone takes several rows or blocks at once")
)]
pub(super) mod pair;
#[cfg_attr(
    not(target_arch = "x86_64"),
    allow(dead_code, reason = "so far x86 alone takes several rows or blocks at once")
)]
mod panel;
pub(super) mod quantize;
#[cfg_attr(not(target_arch = "x86_64"), allow(dead_code, reason = "x86 alone takes eight rows at once"))]
pub(super) mod scales;
pub(super) mod steps;
