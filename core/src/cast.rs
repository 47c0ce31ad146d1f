//! Views of plain bytes as numbers. One of the rooms where `unsafe` is allowed.
#![allow(unsafe_code)]

/// Types for which any bit pattern is a value and which hold no pointers.
///
/// # Safety
/// The implementor has no padding, no invalid bit patterns and no drop code,
/// and its alignment divides [`crate::arena::ALIGN`].
pub unsafe trait Plain: Copy + Send + Sync + 'static {}

macro_rules! plain {
    ($($t:ty),*) => {$(
        // SAFETY: a primitive number: every bit pattern is valid, no padding.
        unsafe impl Plain for $t {}
    )*};
}
plain!(u8, i8, u16, i16, u32, i32, u64, f32);

/// Where a tensor lies: an entry of the weight table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub(crate) struct Slot {
    /// First byte in its file.
    pub(crate) offset: u64,
    /// Rows.
    pub(crate) rows: u32,
    /// Columns.
    pub(crate) cols: u32,
    /// Which file of the model.
    pub(crate) file: u32,
    /// ggml's type id; [`Slot::NONE`] has none that we read.
    pub(crate) format: u32,
}

impl Slot {
    /// No tensor.
    pub(crate) const NONE: Self = Self { offset: 0, rows: 0, cols: 0, file: 0, format: u32::MAX };
}

const _: () = assert!(size_of::<Slot>() == 24, "no padding");

// SAFETY: integers only, no padding (just asserted), alignment 8 at most.
unsafe impl Plain for Slot {}

// SAFETY: plain elements side by side, and arrays have no padding.
unsafe impl<T: Plain, const N: usize> Plain for [T; N] {}

macro_rules! records {
    ($($t:ty: $size:literal),* $(,)?) => {$(
        const _: () = assert!(size_of::<$t>() == $size, "no padding");
        // SAFETY: `repr(C)`, integers only, and no padding: the size is the sum
        // of the fields' sizes (just asserted). Alignment 8 at most.
        unsafe impl Plain for $t {}
    )*};
}
records!(
    crate::grammar::Item: 16,
    crate::grammar::Node: 24,
    crate::grammar::Member: 16,
    crate::grammar::Order: 8,
    crate::grammar::Span: 8,
    crate::grammar::Dfa: 24,
    crate::grammar::Arc: 4,
    crate::grammar::Frame: 16,
    crate::grammar::Instr: 12,
    crate::grammar::Conj: 52,
    crate::grammar::DfaState: 80,
);

/// All of `bytes` that makes whole elements.
///
/// Panics when `bytes` is not aligned for `T`; the arena hands out aligned
/// blocks only.
pub(crate) fn plain_mut<T: Plain>(bytes: &mut [u8]) -> &mut [T] {
    // SAFETY: `T: Plain`, so any bytes are a valid value and writing any value
    // leaves valid bytes; `align_to_mut` itself guards alignment and length.
    let (head, body, _) = unsafe { bytes.align_to_mut::<T>() };
    assert!(head.is_empty(), "arena block is not aligned");
    body
}
