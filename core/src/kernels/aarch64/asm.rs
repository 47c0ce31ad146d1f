//! Assembly that the sets of 64-bit ARM share.

/// What instructions make of `$acc`, which is `{0}`, and the registers `{1}`,
/// `{2}` …: for those without a stable intrinsic, and for those whose intrinsic
/// the compiler takes apart.
macro_rules! updated {
    ($text:literal; $acc:expr, $($v:expr),+ $(; $name:ident = const $n:expr)?) => {{
        let mut acc = $acc;
        core::arch::asm!(
            $text,
            inout(vreg) acc,
            $(in(vreg) $v,)+
            $($name = const $n,)?
            options(pure, nomem, nostack, preserves_flags)
        );
        acc
    }};
}
pub(super) use updated;

/// Runs `$text` with `$operands`. It may use `v0` to `v7` and `v16` to `v23`.
macro_rules! over_rows {
    ($($text:expr),+; $($operands:tt)+) => {
        core::arch::asm!(
            $($text,)+
            $($operands)+
            out("v0") _, out("v1") _, out("v2") _, out("v3") _,
            out("v4") _, out("v5") _, out("v6") _, out("v7") _,
            out("v16") _, out("v17") _, out("v18") _, out("v19") _,
            out("v20") _, out("v21") _, out("v22") _, out("v23") _,
            options(pure, readonly, nostack, preserves_flags)
        )
    };
}
pub(super) use over_rows;

/// A block of each of two rows of nibbles at `$w` with the activations at `$x`;
/// moves past both. After the texts in `$start`, four each meet 64 weights of both
/// rows: bytes in `v16`, `v17` and `v20`, `v21`, or `v18`, `v19` and `v22`, `v23`,
/// in turn, with activations at `{x}`. `{m}` holds 15.
macro_rules! block_of_nibbles {
    ($w:expr, $x:expr; [$($start:expr),*] $t0:expr, $t1:expr, $t2:expr, $t3:expr; $($operands:tt)+) => {
        over_rows!(
            $($start,)*
            block_of_nibbles!(load), $t0, $t1,
            block_of_nibbles!(load), $t2, $t3;
            w0 = inout(reg) $w[0],
            w1 = inout(reg) $w[1],
            x = inout(reg) *$x,
            m = in(vreg) vdupq_n_u8(15),
            $($operands)+
        )
    };
    (load) => {
        lines!(
            "ld1 {{v16.16b, v17.16b, v18.16b, v19.16b}}, [{w0}], #64";
            "ld1 {{v20.16b, v21.16b, v22.16b, v23.16b}}, [{w1}], #64";
        )
    };
}
pub(super) use block_of_nibbles;

/// Half a block of each of two rows of Q6_K, nibbles at `$low` and the bits above
/// them at `$top`, with the activations at `$x`. Each of two texts meets a row,
/// made by [`weights6`] from `{l0}`, `{t0}` or `{l1}`, `{t1}`, with activations in
/// `v0` to `v7`. They may use `v24` to `v26` as well.
macro_rules! half_of_six_bits {
    ($low:expr, $top:expr, $x:expr; $row0:expr, $row1:expr; $($operands:tt)+) => {
        over_rows!(
            "ld1 {{v0.16b, v1.16b, v2.16b, v3.16b}}, [{x}], #64",
            "ld1 {{v4.16b, v5.16b, v6.16b, v7.16b}}, [{x}]",
            $row0,
            $row1;
            l0 = in(reg) $low[0],
            l1 = in(reg) $low[1],
            t0 = in(reg) $top[0],
            t1 = in(reg) $top[1],
            x = inout(reg) $x => _,
            m3 = in(vreg) vdupq_n_u8(3),
            m48 = in(vreg) vdupq_n_u8(48),
            $($operands)+
            out("v24") _, out("v25") _, out("v26") _,
        )
    };
}
pub(super) use half_of_six_bits;

/// Half a row of Q6_K made to weights, in `v16` to `v19` and `v22` to `v25`.
macro_rules! weights6 {
    ($low:literal, $top:literal) => {
        concat!(
            "ld1 {{v16.16b, v17.16b, v18.16b, v19.16b}}, [{", $low, "}]\n",
            "ld1 {{v20.16b, v21.16b}}, [{", $top, "}]\n",
            weights6!("v16" "v18" "v20", "v22" "v24", "v26"),
            weights6!("v17" "v19" "v21", "v23" "v25", "v26"),
        )
    };
    // Sixteen columns: nibbles in `$l0` and `$l1`, bits above them in `$top`, with
    // scratch `$t`, become weights in `$l0`, `$l1`, `$h0` and `$h1`.
    ($l0:literal $l1:literal $top:literal, $h0:literal $h1:literal, $t:literal) => {
        lines!(
            "ushr " $h0 ".16b, " $l0 ".16b, #4";
            "and " $t ".16b, " $top ".16b, {m3:v}.16b";
            "ushr " $h1 ".16b, " $l1 ".16b, #4";
            "sli " $l0 ".16b, " $t ".16b, #4";
            "ushr " $t ".16b, " $top ".16b, #2";
            "bit " $h0 ".16b, " $top ".16b, {m48:v}.16b";
            "and " $t ".16b, " $t ".16b, {m3:v}.16b";
            "ushr " $top ".16b, " $top ".16b, #6";
            "sli " $l1 ".16b, " $t ".16b, #4";
            "sli " $h1 ".16b, " $top ".16b, #4";
        )
    };
}
pub(super) use weights6;
