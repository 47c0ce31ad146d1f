//! The arithmetic: one generic function per job, one instruction set chosen
//! once.
//!
//! [`Kernels::select`] looks at what the CPU can do and hands out a table of
//! functions. Holding the table is the proof that the CPU has the features, so
//! its methods are safe; they check lengths, never data. One of the rooms where
//! `unsafe` is allowed; `lanes` states the contract.
//!
//! Every table gives the same bits. The scalar one is the reference.
#![allow(unsafe_code)]
#![allow(clippy::needless_range_loop, reason = "lanes, tokens and blocks are counted, not iterated")]

#[cfg(target_arch = "aarch64")]
mod aarch64;
// Naming NEON's registers takes a target that has them: Linux with hardware
// floating point. Bare 32-bit targets lack them (soft float, Cortex-M) or cannot
// be told from those that do on a stable compiler; they run the scalar kernels.
#[cfg(all(target_arch = "arm", target_abi = "eabihf", target_os = "linux"))]
mod arm;
#[cfg(any(target_arch = "aarch64", all(target_arch = "arm", target_abi = "eabihf", target_os = "linux")))]
mod asm;
mod caps;
mod generic;
mod lanes;
mod portable;
mod rows;
mod scalar;
#[cfg(target_arch = "x86_64")]
mod x86_64;

#[cfg(test)]
mod testing;

use core::ops::Range;

pub use caps::{CpuCaps, CpuFlags};
use generic::attend::Heads;
pub use generic::attend::{MAX_HEAD_DIM, PAGE};
use generic::matmul::{Operand, Product};
pub use rows::{Rows, for_each_row};

use crate::gguf::TensorRef;
use crate::port::Workers;
use crate::quant::{ActKind, Format};

/// An instruction set that kernels are built for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Isa {
    /// Plain Rust.
    Scalar,
    /// ARM Advanced SIMD.
    Neon,
    /// NEON with ARMv8.2 dot products.
    Dotprod,
    /// NEON with ARMv8.6 matrix products of bytes as well.
    I8mm,
    /// x86 AVX2 with F16C.
    Avx2,
    /// x86 AVX-512 VNNI.
    Avx512,
}

impl Isa {
    /// Every instruction set, worst first.
    pub const ALL: [Isa; 6] = [Isa::Scalar, Isa::Neon, Isa::Dotprod, Isa::I8mm, Isa::Avx2, Isa::Avx512];

    /// The name people type.
    pub fn name(self) -> &'static str {
        match self {
            Isa::Scalar => "scalar",
            Isa::Neon => "neon",
            Isa::Dotprod => "dotprod",
            Isa::I8mm => "i8mm",
            Isa::Avx2 => "avx2",
            Isa::Avx512 => "avx512",
        }
    }

    /// The instruction set called `name`.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|isa| isa.name() == name)
    }
}

/// The functions of one instruction set; made by `stamp!`.
struct Table {
    isa: Isa,
    matmul: [unsafe fn(&Product, Range<usize>); Format::ALL.len()],
    quantize_80: unsafe fn(&[f32], &mut [i8], &mut [f32], &mut [i16]),
    quantize_8k: unsafe fn(&[f32], &mut [i8], &mut [f32], &mut [i16]),
    rms_norm: unsafe fn(*const f32, *const f32, f32, *mut f32, usize),
    add: unsafe fn(*mut f32, *const f32, usize),
    silu_mul: unsafe fn(*mut f32, *const f32, usize),
    to_f16: unsafe fn(*const f32, *mut u16, usize),
    attend: unsafe fn(&Heads),
}

/// Wraps every generic function for one [`lanes::Lanes`] in a function that has
/// the CPU features, and gathers them in `KERNELS`; `TABLE` is for sets that
/// share some of them.
macro_rules! stamp {
    ($lanes:ty, $isa:expr, $driver:ident $(, #[$feature:meta])?) => {
        /// The table of this instruction set.
        pub(in crate::kernels) static KERNELS: $crate::kernels::Table = TABLE;

        pub(in crate::kernels) const TABLE: $crate::kernels::Table = {
            use core::ops::Range;
            use $crate::kernels::generic::float::{Bf16, F16, F32};
            use $crate::kernels::generic::k_quants::{Iq4Xs, Q2K, Q3K, Q4K, Q5K, Q6K};
            use $crate::kernels::generic::legacy::{Iq4Nl, Q4_0, Q4_1, Q5_0, Q5_1, Q8_0};
            use $crate::kernels::generic::{attend, matmul, quantize, scales, steps};

            $(#[$feature])?
            unsafe fn real<R: matmul::RowDot>(p: &matmul::Product, rows: Range<usize>) {
                // SAFETY: the caller of a table's function keeps its contract.
                unsafe { matmul::by_rows::<$lanes, R>(p, rows) }
            }
            $(#[$feature])?
            #[inline(never)]
            unsafe fn several<Q: scales::Scaled>(p: &matmul::Product, rows: Range<usize>) -> usize {
                // SAFETY: as above.
                unsafe { $crate::kernels::generic::$driver::several::<$lanes, Q>(p, rows) }
            }
            $(#[$feature])?
            unsafe fn quant<Q: scales::Scaled>(p: &matmul::Product, rows: Range<usize>) {
                // SAFETY: as above.
                unsafe {
                    // A function of its own: both want all registers.
                    let done = if p.x.tokens > 1 { several::<Q>(p, rows.clone()) } else { 0 };
                    for t in done..p.x.tokens {
                        $crate::kernels::generic::$driver::one::<$lanes, Q>(p, rows.clone(), t);
                    }
                }
            }
            $(#[$feature])?
            unsafe fn quantize_80(x: &[f32], q: &mut [i8], d: &mut [f32], s: &mut [i16]) {
                // SAFETY: as above.
                unsafe { quantize::quantize::<$lanes, 32, 32>(x, q, d, s) }
            }
            $(#[$feature])?
            unsafe fn quantize_8k(x: &[f32], q: &mut [i8], d: &mut [f32], s: &mut [i16]) {
                // SAFETY: as above.
                unsafe { quantize::quantize::<$lanes, 256, 16>(x, q, d, s) }
            }
            $(#[$feature])?
            unsafe fn rms_norm(x: *const f32, w: *const f32, eps: f32, out: *mut f32, n: usize) {
                // SAFETY: as above.
                unsafe { steps::rms_norm::<$lanes>(x, w, eps, out, n) }
            }
            $(#[$feature])?
            unsafe fn add(x: *mut f32, y: *const f32, n: usize) {
                // SAFETY: as above.
                unsafe { steps::add::<$lanes>(x, y, n) }
            }
            $(#[$feature])?
            unsafe fn silu_mul(gate: *mut f32, up: *const f32, n: usize) {
                // SAFETY: as above.
                unsafe { steps::silu_mul::<$lanes>(gate, up, n) }
            }
            $(#[$feature])?
            unsafe fn to_f16(x: *const f32, out: *mut u16, n: usize) {
                // SAFETY: as above.
                unsafe { steps::to_f16::<$lanes>(x, out, n) }
            }
            $(#[$feature])?
            unsafe fn attend(h: &attend::Heads) {
                // SAFETY: as above.
                unsafe { attend::attend::<$lanes>(h) }
            }
            $crate::kernels::Table {
                isa: $isa,
                // In the order of `Format::ALL`; the tests would notice another.
                matmul: [
                    real::<F32>,
                    real::<F16>,
                    real::<Bf16>,
                    quant::<Q4_0>,
                    quant::<Q4_1>,
                    quant::<Q5_0>,
                    quant::<Q5_1>,
                    quant::<Q8_0>,
                    quant::<Q2K>,
                    quant::<Q3K>,
                    quant::<Q4K>,
                    quant::<Q5K>,
                    quant::<Q6K>,
                    quant::<Iq4Nl>,
                    quant::<Iq4Xs>,
                ],
                quantize_80,
                quantize_8k,
                rms_norm,
                add,
                silu_mul,
                to_f16,
                attend,
            }
        };
    };
}
#[allow(unused_imports, reason = "targets without vectors stamp nothing")]
use stamp;

stamp!(scalar::Scalar, Isa::Scalar, matmul);

/// The kernels of one instruction set that this CPU has.
#[derive(Clone, Copy)]
pub struct Kernels(&'static Table);

impl Kernels {
    /// The best set for `caps`.
    pub fn select(caps: &CpuCaps) -> Self {
        // The scalar set is always there.
        let best = Isa::ALL.into_iter().rev().find_map(|isa| Self::of(isa, caps));
        best.unwrap_or(Self(&KERNELS))
    }

    /// The set for `isa`, where the build has it and the CPU can run it.
    pub fn of(isa: Isa, caps: &CpuCaps) -> Option<Self> {
        let has = caps.flags();
        match isa {
            Isa::Scalar => Some(Self(&KERNELS)),
            #[cfg(target_arch = "aarch64")]
            Isa::Neon if has.neon => Some(Self(&aarch64::NEON)),
            #[cfg(target_arch = "aarch64")]
            Isa::Dotprod if has.neon && has.dotprod => Some(Self(&aarch64::DOTPROD)),
            #[cfg(target_arch = "aarch64")]
            Isa::I8mm if has.neon && has.dotprod && has.i8mm => Some(Self(&aarch64::I8MM)),
            #[cfg(all(target_arch = "arm", target_abi = "eabihf", target_os = "linux"))]
            Isa::Neon if has.neon => Some(Self(&arm::NEON)),
            #[cfg(target_arch = "x86_64")]
            Isa::Avx2 if has.avx2 => Some(Self(&x86_64::AVX2)),
            #[cfg(target_arch = "x86_64")]
            Isa::Avx512 if has.avx2 && has.avx512_vnni => Some(Self(&x86_64::AVX512)),
            _ => {
                let _ = has;
                None
            }
        }
    }

    /// Which instruction set this is.
    pub fn isa(&self) -> Isa {
        self.0.isa
    }

    /// `out[t·w.rows() + row] = w[row] · x[t]` for every token `t` of `x` and
    /// every row, shared among `workers`.
    ///
    /// Panics when the lengths do not fit or `x` is not in the form that the
    /// weights' format wants.
    pub fn matmul(&self, workers: &dyn Workers, w: &TensorRef<'_>, x: &Acts<'_>, out: &mut [f32]) {
        let (rows, cols, format) = (w.rows(), w.cols(), w.format());
        assert!(x.kind == format.act_kind() && x.cols == cols, "activations in the wrong form");
        assert_eq!(Some(out.len()), rows.checked_mul(x.tokens));
        let data = w.data();
        let row_bytes = cols / format.block_len() * format.block_bytes();
        assert_eq!(Some(data.len()), rows.checked_mul(row_bytes));
        let product = Product {
            w: data.as_ptr(),
            row_bytes,
            cols,
            x: x.operand(),
            out: out.as_mut_ptr(),
            stride: rows,
        };
        let f = self.0.matmul[format.index()];
        rows::for_each_range(workers, rows, ROWS_AT_ONCE, &|range| {
            // SAFETY: the table's features were checked when it was chosen;
            // `range` is within the rows and no other call gets any of it.
            unsafe { f(&product, range) }
        });
    }

    /// Activations `x` (tokens × cols) in the form that `kind` wants, kept in
    /// `buf`.
    pub fn prepare<'b>(
        &self,
        workers: &dyn Workers,
        kind: ActKind,
        x: &'b [f32],
        cols: usize,
        buf: &'b mut ActBuf<'_>,
    ) -> Acts<'b> {
        let tokens = x.len() / cols;
        assert_eq!(x.len(), tokens * cols);
        let [q_stride, d_stride, sum_stride] = ActBuf::strides(kind, cols);
        let f = match kind {
            ActKind::Float => return Acts { kind, cols, tokens, f: x, q: &[], d: &[], sums: &[] },
            ActKind::Q80 => self.0.quantize_80,
            ActKind::Q8K => self.0.quantize_8k,
        };
        let q = &mut buf.q[..tokens * q_stride];
        let d = &mut buf.d[..tokens * d_stride];
        let sums = &mut buf.sums[..tokens * sum_stride];
        let out = (Rows::new(q, q_stride), Rows::new(d, d_stride), Rows::new(sums, sum_stride));
        for_each_row(workers, out, &|t, (q, d, sums): (&mut [i8], &mut [f32], &mut [i16])| {
            // SAFETY: the features were checked when the table was chosen.
            unsafe { f(&x[t * cols..][..cols], q, d, sums) }
        });
        Acts { kind, cols, tokens, f: &[], q, d, sums }
    }

    /// out = x / sqrt(mean(x²) + eps) · w; `w` is little-endian `f32`.
    pub fn rms_norm(&self, x: &[f32], w: &[u8], eps: f32, out: &mut [f32]) {
        assert!(w.len() == 4 * x.len() && out.len() == x.len());
        // SAFETY: features as above; lengths just checked; loads of `w` need
        // no alignment.
        unsafe { (self.0.rms_norm)(x.as_ptr(), w.as_ptr().cast(), eps, out.as_mut_ptr(), x.len()) }
    }

    /// The same in place.
    pub fn rms_norm_in_place(&self, x: &mut [f32], w: &[u8], eps: f32) {
        assert_eq!(w.len(), 4 * x.len());
        let p = x.as_mut_ptr();
        // SAFETY: as above; the kernel reads each element before it writes it.
        unsafe { (self.0.rms_norm)(p, w.as_ptr().cast(), eps, p, x.len()) }
    }

    /// x += y.
    pub fn add(&self, x: &mut [f32], y: &[f32]) {
        assert_eq!(x.len(), y.len());
        // SAFETY: features as above; lengths just checked.
        unsafe { (self.0.add)(x.as_mut_ptr(), y.as_ptr(), x.len()) }
    }

    /// x += b; `b` is little-endian `f32`.
    pub fn add_bias(&self, x: &mut [f32], b: &[u8]) {
        assert_eq!(b.len(), 4 * x.len());
        // SAFETY: as above; loads of `b` need no alignment.
        unsafe { (self.0.add)(x.as_mut_ptr(), b.as_ptr().cast(), x.len()) }
    }

    /// gate = silu(gate) · up.
    pub fn silu_mul(&self, gate: &mut [f32], up: &[f32]) {
        assert_eq!(gate.len(), up.len());
        // SAFETY: features as above; lengths just checked.
        unsafe { (self.0.silu_mul)(gate.as_mut_ptr(), up.as_ptr(), gate.len()) }
    }

    /// Half-precision bits of `x`, what would overflow held at ±65504.
    pub fn to_f16(&self, x: &[f32], out: &mut [u16]) {
        assert_eq!(x.len(), out.len());
        // SAFETY: features as above; lengths just checked.
        unsafe { (self.0.to_f16)(x.as_ptr(), out.as_mut_ptr(), x.len()) }
    }

    /// out = softmax(q·K / sqrt(d)) · V over the first `tokens` rows of `kv`, with
    /// d = `kv.head_dim`, for each of the heads whose queries are in `q`.
    pub fn attend(&self, q: &[f32], kv: &HeadPages<'_>, tokens: usize, out: &mut [f32]) {
        let (head_dim, row) = (kv.head_dim, kv.head_dim.next_multiple_of(8));
        assert!(q.len() == out.len() && (1..=MAX_HEAD_DIM).contains(&head_dim) && tokens > 0);
        assert!(q.len().is_multiple_of(head_dim), "part of a head");
        let (last_page, last_row) = ((tokens - 1) / PAGE, (tokens - 1) % PAGE);
        assert!(last_page == 0 || kv.page_stride >= PAGE * row, "pages overlap");
        let end = last_page.checked_mul(kv.page_stride).and_then(|at| at.checked_add((last_row + 1) * row));
        assert!(end.is_some_and(|end| kv.k.len() >= end && kv.v.len() >= end), "tokens past the pages");
        let heads = Heads {
            q: q.as_ptr(),
            count: q.len() / head_dim,
            k: kv.k.as_ptr(),
            v: kv.v.as_ptr(),
            page_stride: kv.page_stride,
            head_dim,
            tokens,
            out: out.as_mut_ptr(),
        };
        // SAFETY: features as above; the furthest element read was just
        // checked, and all of an earlier page lies below the next one's start.
        unsafe { (self.0.attend)(&heads) }
    }
}

/// Rows of weights that a worker takes at once: whole cache lines of output.
const ROWS_AT_ONCE: usize = 16;

/// Keys and values of one head. See [`generic::attend`] for the layout.
#[derive(Clone, Copy)]
pub struct HeadPages<'a> {
    /// From the head's first key on.
    pub k: &'a [u16],
    /// From the head's first value on.
    pub v: &'a [u16],
    /// Elements from one page to the next.
    pub page_stride: usize,
    /// Numbers in a key or value.
    pub head_dim: usize,
}

/// Activations in the form that a weight format wants.
#[derive(Clone, Copy)]
pub struct Acts<'a> {
    kind: ActKind,
    cols: usize,
    tokens: usize,
    f: &'a [f32],
    q: &'a [i8],
    d: &'a [f32],
    sums: &'a [i16],
}

impl Acts<'_> {
    fn operand(&self) -> Operand {
        Operand {
            f: self.f.as_ptr(),
            q: self.q.as_ptr(),
            d: self.d.as_ptr(),
            sums: self.sums.as_ptr(),
            strides: ActBuf::strides(self.kind, self.cols),
            tokens: self.tokens,
        }
    }

    /// Which form this is.
    pub fn kind(&self) -> ActKind {
        self.kind
    }
}

/// Room for quantised activations.
pub struct ActBuf<'a> {
    q: &'a mut [i8],
    d: &'a mut [f32],
    sums: &'a mut [i16],
}

impl<'a> ActBuf<'a> {
    /// Room for `tokens` rows of up to `cols`.
    pub fn lay_out<S: crate::arena::Space<'a>>(
        space: &mut S,
        tokens: usize,
        cols: usize,
    ) -> Result<Self, crate::arena::ArenaFull> {
        use crate::plan::Part;
        let [_, d, sums] = Self::strides(ActKind::Q80, cols.next_multiple_of(32));
        let [q, _, sums_k] = Self::strides(ActKind::Q8K, cols.next_multiple_of(256));
        Ok(Self {
            q: space.take(Part::Activations, "quantised activations", tokens.saturating_mul(q))?,
            d: space.take(Part::Activations, "activation scales", tokens.saturating_mul(d))?,
            sums: space.take(
                Part::Activations,
                "activation sums",
                tokens.saturating_mul(sums.max(sums_k)),
            )?,
        })
    }

    /// Activations, scales and sums per token: whole pairs of blocks, and
    /// scales by eights, since kernels load as many at once.
    fn strides(kind: ActKind, cols: usize) -> [usize; 3] {
        match kind {
            ActKind::Float => [cols, 0, 0],
            ActKind::Q80 => {
                let blocks = (cols / 32).next_multiple_of(8);
                [cols.next_multiple_of(64), blocks, blocks]
            }
            ActKind::Q8K => {
                let cols = cols.next_multiple_of(512);
                [cols, (cols / 256).next_multiple_of(8), cols / 16]
            }
        }
    }
}
