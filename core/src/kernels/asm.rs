//! Assembly for both ARM architectures.

/// The text of instructions, each line made of the pieces between semicolons.
macro_rules! lines {
    ($($($piece:literal)+);+ $(;)?) => { concat!($($($piece,)+ "\n"),+) };
}
pub(super) use lines;

/// Asks for the cache lines of a block in the format `$block`, which need not be
/// there. `$prefetch` is the instruction: the address is in `{0}`, how far on from
/// it, `$from` or more, in `{n}`, which saves an addition for each line.
macro_rules! ask_ahead {
    ($prefetch:literal, $block:ty, $w:expr, $from:expr) => {{
        let w = $w;
        ask_ahead!($prefetch, $block, w, $from, 0 1 2 3 4);
    }};
    ($prefetch:literal, $block:ty, $w:expr, $from:expr, $($line:literal)*) => {$(
        if 64 * $line < const { <$block>::FORMAT.block_bytes() } {
            // Not `nomem`: that would let it move across the loads it is for.
            core::arch::asm!(
                $prefetch,
                in(reg) $w,
                n = const $from + 64 * $line,
                options(nostack, readonly, preserves_flags)
            );
        }
    )*};
}
pub(super) use ask_ahead;
