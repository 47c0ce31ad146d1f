//! Two rows of weights at once with one token, for the formats that most files
//! are made of: both rows meet each load of activations.
//!
//! A block of both rows is one piece of assembly with the registers to itself.
//! Their sums go through memory to the scalar unit, which does the `f32` half a
//! block at a time: the missing lanes of a short row cost nothing.

use core::arch::asm;
use core::ops::Range;

use crate::kernels::asm::{ask_ahead, lines};
use crate::kernels::generic::matmul::{AHEAD, Block, Min, Product};
use crate::kernels::portable::f16_to_f32;
use crate::quant::{Format, k4_scales_mins};

/// What goes into the assembly and what comes out of it.
#[repr(C, align(16))]
struct Exchange {
    /// Of each row: 8 scales and 8 minimums. Room for 16 scales in 16 bits.
    scales: [[u8; 16]; 4],
    /// Of each row: scaled products, scaled sums of activations.
    sums: [[i32; 2]; 2],
}

/// Runs `$text` over the registers `w0`, `w1` (where to read of each row), `h0`,
/// `h1` (another place there), `x`, `s` (activations and their sums) and `e` (the
/// exchange), any of which it may change; `n` holds 32. It has all vector
/// registers.
macro_rules! with_all_registers {
    ($w:expr, $h:expr, $x:expr, $sums:expr, $e:expr; $($text:expr),* $(,)?) => {
        asm!(
            ".fpu neon", "/* {h0} {h1} {n} */", $($text),*,
            w0 = inout(reg) $w[0] => _,
            w1 = inout(reg) $w[1] => _,
            h0 = inout(reg) $h[0] => _,
            h1 = inout(reg) $h[1] => _,
            x = inout(reg) $x => _,
            s = in(reg) $sums,
            e = inout(reg) core::ptr::from_mut($e) => _,
            n = in(reg) 32,
            // By halves: a compiler told of no NEON passes over a clobbered q8.
            out("d0") _, out("d1") _, out("d2") _, out("d3") _,
            out("d4") _, out("d5") _, out("d6") _, out("d7") _,
            out("d8") _, out("d9") _, out("d10") _, out("d11") _,
            out("d12") _, out("d13") _, out("d14") _, out("d15") _,
            out("d16") _, out("d17") _, out("d18") _, out("d19") _,
            out("d20") _, out("d21") _, out("d22") _, out("d23") _,
            out("d24") _, out("d25") _, out("d26") _, out("d27") _,
            out("d28") _, out("d29") _, out("d30") _, out("d31") _,
            options(nostack, preserves_flags)
        )
    };
}

/// Adds to `$acc` the products of 32 weights in `q12` and `q13` with activations,
/// scaled. Four products of weights below 64 fit in an `i16`.
macro_rules! mad8 {
    ($acc:literal, [$x0:literal $x1:literal $x2:literal $x3:literal], $s:literal) => {
        lines!(
            "vmull.s8 q14, d24, " $x0;
            "vmlal.s8 q14, d25, " $x1;
            "vmlal.s8 q14, d26, " $x2;
            "vmlal.s8 q14, d27, " $x3;
            "vmlal.s16 " $acc ", d28, " $s;
            "vmlal.s16 " $acc ", d29, " $s;
        )
    };
}

/// 64 weights of a row at `$w`: low nibbles, then high ones. `q4` holds 15.
/// Before their products `$low` and `$high` may add to them.
macro_rules! nibbles {
    ($w:literal, $acc:literal, $s0:literal $s1:literal; $low:expr, $high:expr) => {
        concat!(
            "vld1.8 {{d20-d23}}, [", $w, "]!\n",
            "vand q12, q10, q4\n",
            "vand q13, q11, q4\n",
            $low,
            mad8!($acc, ["d10" "d11" "d12" "d13"], $s0),
            "vshr.u8 q12, q10, #4\n",
            "vshr.u8 q13, q11, #4\n",
            $high,
            mad8!($acc, ["d14" "d15" "d16" "d17"], $s1),
        )
    };
}

/// The bits of 32 bytes at `$h` that `$shift` brings to bit 4, added to `q12` and
/// `q13`. `q9` holds 16.
macro_rules! fifth {
    ($h:literal, $shift:literal) => {
        lines!(
            "vld1.8 {{d28-d31}}, [" $h "]";
            $shift;
            "vand q14, q14, q9";
            "vand q15, q15, q9";
            "vorr q12, q12, q14";
            "vorr q13, q13, q15";
        )
    };
}

/// 64 weights of both rows of Q4_K, and with shifts of Q5_K.
macro_rules! both8 {
    ($a0:literal $a1:literal, $b0:literal $b1:literal) => {
        concat!(
            "vld1.8 {{d10-d13}}, [{x}]!\n",
            "vld1.8 {{d14-d17}}, [{x}]!\n",
            nibbles!("{w0}", "q2", $a0 $a1; "", ""),
            nibbles!("{w1}", "q3", $b0 $b1; "", ""),
        )
    };
    ($a0:literal $a1:literal, $b0:literal $b1:literal; $low:literal, $high:literal) => {
        concat!(
            "vld1.8 {{d10-d13}}, [{x}]!\n",
            "vld1.8 {{d14-d17}}, [{x}]!\n",
            nibbles!("{w0}", "q2", $a0 $a1; fifth!("{h0}", $low), fifth!("{h0}", $high)),
            nibbles!("{w1}", "q3", $b0 $b1; fifth!("{h1}", $low), fifth!("{h1}", $high)),
        )
    };
}

/// Before products by groups of 32: scales to `q0` and `q1`, what the minimums
/// make of the sums to the exchange.
macro_rules! start8 {
    () => {
        "vld1.8 {{d20-d23}}, [{e}]
        vld1.16 {{d24-d27}}, [{s}]
        vmovl.s8 q0, d20
        vmovl.s8 q1, d22
        vmovl.s8 q10, d21
        vmovl.s8 q11, d23
        vadd.i16 q12, q12, q13
        vmull.s16 q9, d20, d24
        vmlal.s16 q9, d21, d25
        vmull.s16 q10, d22, d24
        vmlal.s16 q10, d23, d25
        vadd.i32 d28, d18, d19
        vadd.i32 d29, d20, d21
        vst1.32 {{d28, d29}}, [{e}]
        vmov.i32 q2, #0
        vmov.i32 q3, #0
        vmov.i8 q4, #15
        vmov.i8 q9, #16"
    };
}

/// After them: the exchange gets the sums.
macro_rules! end8 {
    () => {
        "vld1.32 {{d28, d29}}, [{e}]
        vadd.i32 d4, d4, d5
        vadd.i32 d6, d6, d7
        vpadd.i32 d4, d4, d28
        vpadd.i32 d5, d6, d29
        add {e}, {e}, #64
        vst1.32 {{d4, d5}}, [{e}]"
    };
}

/// A block of each row of Q4_K.
#[inline(always)]
unsafe fn q4_k(w: [*const u8; 2], x: *const i8, sums: *const i16, e: &mut Exchange) {
    // SAFETY: all reads stay within one block.
    unsafe {
        unpack(w, e);
        with_all_registers!(w.map(|w| w.add(16)), w, x, sums, e;
            start8!(),
            both8!("d0[0]" "d0[1]", "d2[0]" "d2[1]"),
            both8!("d0[2]" "d0[3]", "d2[2]" "d2[3]"),
            both8!("d1[0]" "d1[1]", "d3[0]" "d3[1]"),
            both8!("d1[2]" "d1[3]", "d3[2]" "d3[3]"),
            end8!(),
        );
    }
}

/// A block of each row of Q5_K.
#[inline(always)]
unsafe fn q5_k(w: [*const u8; 2], x: *const i8, sums: *const i16, e: &mut Exchange) {
    // SAFETY: all reads stay within one block.
    unsafe {
        unpack(w, e);
        with_all_registers!(w.map(|w| w.add(48)), w.map(|w| w.add(16)), x, sums, e;
            start8!(),
            both8!("d0[0]" "d0[1]", "d2[0]" "d2[1]";
                "vshl.i8 q14, q14, #4\nvshl.i8 q15, q15, #4", "vshl.i8 q14, q14, #3\nvshl.i8 q15, q15, #3"),
            both8!("d0[2]" "d0[3]", "d2[2]" "d2[3]";
                "vshl.i8 q14, q14, #2\nvshl.i8 q15, q15, #2", "vshl.i8 q14, q14, #1\nvshl.i8 q15, q15, #1"),
            both8!("d1[0]" "d1[1]", "d3[0]" "d3[1]";
                "", "vshr.u8 q14, q14, #1\nvshr.u8 q15, q15, #1"),
            both8!("d1[2]" "d1[3]", "d3[2]" "d3[3]";
                "vshr.u8 q14, q14, #2\nvshr.u8 q15, q15, #2", "vshr.u8 q14, q14, #3\nvshr.u8 q15, q15, #3"),
            end8!(),
        );
    }
}

/// The scales and minimums of a block of each row.
#[inline(always)]
unsafe fn unpack(w: [*const u8; 2], e: &mut Exchange) {
    for (w, e) in w.into_iter().zip(&mut e.scales) {
        // SAFETY: the packed scales are bytes 4 to 16 of a block.
        let (s, m) = k4_scales_mins(unsafe { &*w.add(4).cast::<[u8; 12]>() });
        e[..8].copy_from_slice(&s);
        e[8..].copy_from_slice(&m);
    }
}

/// Adds to `$acc` the products of the 16 weights in `q13` with `$x`, scaled.
macro_rules! mad16 {
    ($acc:literal, $x0:literal $x1:literal, $s:literal) => {
        lines!(
            "vmull.s8 q15, d26, " $x0;
            "vmlal.s8 q15, d27, " $x1;
            "vmlal.s16 " $acc ", d30, " $s;
            "vmlal.s16 " $acc ", d31, " $s;
        )
    };
}

/// Sixteen columns of half a row of Q6_K: 64 weights, 32 apart, of groups with
/// the scales named. `q4` holds 3 and `q5` 48; activations are in `q6` to `q9`.
macro_rules! column6 {
    ($w:literal, $h:literal, $acc:literal, $next:literal; $s0:literal $s1:literal $s2:literal $s3:literal) => {
        concat!(
            "vld1.8 {{d20, d21}}, [", $w, "], {n}\n",
            "vld1.8 {{d22, d23}}, [", $w, "]", $next, "\n",
            "vld1.8 {{d24, d25}}, [", $h, "]!\n",
            // Pairs of bits go above the nibbles, from bit 4 on.
            "vshr.u8 q13, q10, #4\n",
            "vand q14, q12, q5\n",
            "vorr q13, q13, q14\n",
            mad16!($acc, "d16" "d17", $s2),
            "vshr.u8 q13, q11, #4\n",
            "vshr.u8 q14, q12, #6\n",
            "vsli.8 q13, q14, #4\n",
            mad16!($acc, "d18" "d19", $s3),
            "vand q14, q12, q4\n",
            "vshr.u8 q12, q12, #2\n",
            "vsli.8 q10, q14, #4\n",
            "vand q12, q12, q4\n",
            "vmov q13, q10\n",
            mad16!($acc, "d12" "d13", $s0),
            "vsli.8 q11, q12, #4\n",
            "vmov q13, q11\n",
            mad16!($acc, "d14" "d15", $s1),
        )
    };
}

/// Activations that [`column6`] wants at `{x}`, which `$next` may move on.
macro_rules! activations6 {
    ($next:literal) => {
        lines!(
            "vld1.8 {{d12, d13}}, [{x}], {n}";
            "vld1.8 {{d14, d15}}, [{x}], {n}";
            "vld1.8 {{d16, d17}}, [{x}], {n}";
            "vld1.8 {{d18, d19}}, [{x}]" $next;
        )
    };
}

/// Half a block of both rows of Q6_K.
macro_rules! half6 {
    () => {
        concat!(
            "vld1.16 {{d0-d3}}, [{e}]!\n",
            activations6!(""),
            "sub {x}, {x}, #80\n",
            column6!("{w0}", "{h0}", "q2", ""; "d0[0]" "d0[2]" "d1[0]" "d1[2]"),
            column6!("{w1}", "{h1}", "q3", ""; "d2[0]" "d2[2]" "d3[0]" "d3[2]"),
            "sub {w0}, {w0}, #16\n",
            "sub {w1}, {w1}, #16\n",
            activations6!("!"),
            column6!("{w0}", "{h0}", "q2", "!"; "d0[1]" "d0[3]" "d1[1]" "d1[3]"),
            column6!("{w1}", "{h1}", "q3", "!"; "d2[1]" "d2[3]" "d3[1]" "d3[3]"),
        )
    };
}

/// The 16 scales of a row of Q6_K at `$h`, to the exchange, and in `$acc` what
/// they make of the sums in `q10` and `q11`, times -32: so much less than stored
/// is every weight.
macro_rules! scales6 {
    ($h:literal, $acc:literal) => {
        lines!(
            "vld1.8 {{d24, d25}}, [" $h "]";
            "sub " $h ", " $h ", #64";
            "vmovl.s8 q13, d24";
            "vmovl.s8 q14, d25";
            "vst1.16 {{d26, d27}}, [{e}], {n}";
            "vst1.16 {{d28, d29}}, [{e}]";
            "vmull.s16 q15, d26, d20";
            "vmlal.s16 q15, d27, d21";
            "vmlal.s16 q15, d28, d22";
            "vmlal.s16 q15, d29, d23";
            "vshl.i32 q15, q15, #5";
            "vneg.s32 " $acc ", q15";
        )
    };
}

/// A block of each row of Q6_K.
#[inline(always)]
unsafe fn q6_k(w: [*const u8; 2], x: *const i8, sums: *const i16, e: &mut Exchange) {
    // SAFETY: all reads stay within one block.
    unsafe {
        with_all_registers!(w, w.map(|w| w.add(192)), x, sums, e;
            "vld1.16 {{d20-d23}}, [{s}]",
            "vzip.16 q10, q11",
            scales6!("{h0}", "q2"),
            "sub {e}, {e}, #16",
            scales6!("{h1}", "q3"),
            "sub {e}, {e}, #48",
            "vmov.i8 q4, #3",
            "vmov.i8 q5, #48",
            half6!(),
            half6!(),
            "vadd.i32 d4, d4, d5",
            "vadd.i32 d6, d6, d7",
            "vpadd.i32 d4, d4, d4",
            "vpadd.i32 d5, d6, d6",
            "vst1.32 {{d4, d5}}, [{e}]",
        );
    }
}

/// Whether there is a piece of assembly for this format.
pub(super) const fn knows(format: Format) -> bool {
    matches!(format, Format::Q4K | Format::Q5K | Format::Q6K)
}

/// Two rows at `w` with token `t`: see `generic::matmul` for the law of lanes.
#[inline(always)]
unsafe fn two_rows<B: Block>(w: [*const u8; 2], p: &Product, t: usize, e: &mut Exchange) -> [f32; 2] {
    let bytes = const { B::FORMAT.block_bytes() };
    // Apart, they are cleared without a call.
    let (mut acc0, mut acc1) = ([0.0f32; 8], [0.0f32; 8]);
    let mut w = w;
    // SAFETY: as many blocks as there are in a row. Asking ahead is harmless.
    unsafe {
        let mut x = p.x.q.add(t * p.x.strides[0]);
        let d = p.x.d.add(t * p.x.strides[1]);
        let mut sums = p.x.sums.add(t * p.x.strides[2]);
        for b in 0..p.cols / 256 {
            for w in w {
                ask_ahead!("pld [{0}, #{n}]", B, w, AHEAD);
            }
            match const { B::FORMAT } {
                Format::Q4K => q4_k(w, x, sums, e),
                Format::Q5K => q5_k(w, x, sums, e),
                _ => q6_k(w, x, sums, e),
            }
            let dx = d.add(b).read();
            for r in 0..2 {
                let half = |at| f16_to_f32(u16::from_le(w[r].add(at).cast::<u16>().read_unaligned()));
                let mut v = half(B::D) * dx * e.sums[r][0] as f32;
                if matches!(B::MIN, Min::Groups) {
                    v -= half(B::D + 2) * dx * e.sums[r][1] as f32;
                }
                let acc = if r == 0 { &mut acc0 } else { &mut acc1 };
                acc[b % 8] += v;
                w[r] = w[r].add(bytes);
            }
            x = x.add(256);
            sums = sums.add(16);
        }
    }
    [acc0, acc1].map(|a| ((a[0] + a[4]) + (a[2] + a[6])) + ((a[1] + a[5]) + (a[3] + a[7])))
}

/// Rows `rows` of the product `p` for token `t`, in a format that this `knows`.
///
/// # Safety
/// As for `generic::matmul::matmul`.
#[inline(always)]
pub(super) unsafe fn one_token<B: Block>(p: &Product, rows: Range<usize>, t: usize) {
    let mut e = Exchange { scales: [[0; 16]; 4], sums: [[0; 2]; 2] };
    let mut row = rows.start;
    while row < rows.end {
        // SAFETY: rows and token are within what the caller promised.
        unsafe {
            // A last row without a partner is its own.
            let second = (row + 1).min(rows.end - 1);
            let w = [row, second].map(|row| p.w.add(row * p.row_bytes));
            let y = two_rows::<B>(w, p, t, &mut e);
            let out = p.out.add(t * p.stride);
            out.add(row).write(y[0]);
            out.add(second).write(y[if second > row { 1 } else { 0 }]);
        }
        row += 2;
    }
}
