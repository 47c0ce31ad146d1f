//! [`Lanes`](super::lanes::Lanes) for 64-bit ARM: one set for every processor,
//! one for those with dot products and one for those with matrix products, which
//! serve several tokens. All but the byte products is shared.

mod asm;
mod blocks;
mod dotprod;
mod i8mm;
mod neon;
mod pairs;
mod shared;
mod squares;
mod tokens;

pub(super) use dotprod::KERNELS as DOTPROD;
pub(super) use i8mm::KERNELS as I8MM;
pub(super) use neon::KERNELS as NEON;
