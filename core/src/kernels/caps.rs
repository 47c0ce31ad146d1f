//! What the processor can do.

/// Instructions of the processor that kernels use.
///
/// A flag says that the instructions exist *and* that the operating system
/// saves their registers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CpuFlags {
    /// ARM Advanced SIMD (always true on aarch64).
    pub neon: bool,
    /// ARMv8.2 `sdot`/`udot`.
    pub dotprod: bool,
    /// ARMv8.6 `smmla`.
    pub i8mm: bool,
    /// x86 AVX2, and F16C, which every AVX2 processor sold so far has.
    pub avx2: bool,
    /// x86 AVX-512 F, BW, VL and VNNI.
    pub avx512_vnni: bool,
}

/// Flags that are true of this processor, as found by the platform. The default
/// claims nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CpuCaps(CpuFlags);

impl CpuCaps {
    /// Vouches for `flags`.
    ///
    /// # Safety
    /// Every flag that is set is true of every processor that will run this code:
    /// kernels use the instructions without asking again.
    pub const unsafe fn assume(flags: CpuFlags) -> Self {
        Self(flags)
    }

    /// What is true.
    pub const fn flags(&self) -> CpuFlags {
        self.0
    }
}
