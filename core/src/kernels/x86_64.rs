//! [`Lanes`] for x86-64.

mod avx2;

pub(super) use avx2::KERNELS as AVX2;
