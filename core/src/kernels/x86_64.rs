//! [`Lanes`](super::lanes::Lanes) for x86-64.

mod avx2;
mod pair;
mod panel;
mod shared;
mod vnni;

pub(super) use avx2::KERNELS as AVX2;
pub(super) use vnni::KERNELS as AVX512;
