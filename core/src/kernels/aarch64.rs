//! [`Lanes`](super::lanes::Lanes) for 64-bit ARM: one set for every processor
//! and one for those with dot products. All but the byte products is shared.

mod dotprod;
mod neon;
mod pairs;
mod shared;

pub(super) use dotprod::KERNELS as DOTPROD;
pub(super) use neon::KERNELS as NEON;
