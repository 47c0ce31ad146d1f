//! [`Lanes`](super::lanes::Lanes) for 32-bit ARM.

mod neon;
mod pairs;

pub(super) use neon::KERNELS as NEON;
