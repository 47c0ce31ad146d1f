#!/usr/bin/env python3
"""Writes core/src/text/unicode.rs: general categories as a table of ranges.

Run from the repository root:  python3 tools/unicode/gen.py
The source is Python's unicodedata, that is the Unicode Character Database of
the version named in the file's header. Regenerate with a newer Python to move
to a newer Unicode version; only newly assigned characters change class.
"""

import sys
import unicodedata
from pathlib import Path

OUT = Path(__file__).resolve().parents[2] / "core/src/text/unicode.rs"
# First letter of the general category -> discriminant of `Class`.
CLASSES = {"L": 1, "N": 2, "P": 3, "S": 4, "M": 5}


def class_of(c):
    return CLASSES.get(unicodedata.category(chr(c))[0], 0)


def boundaries():
    """(first code point, class) wherever the class differs from the one before."""
    out, last = [], None
    for c in range(0x110000):
        k = class_of(c)
        if k != last:
            out.append((c, k))
            last = k
    return out


def main():
    table = boundaries()
    words = [f"0x{c << 3 | k:06x}" for c, k in table]
    lines, line = [], "   "
    for w in words:
        if len(line) + len(w) + 2 > 110:
            lines.append(line)
            line = "   "
        line += f" {w},"
    lines.append(line)
    body = "\n".join(lines)
    text = f"""//! Unicode general categories, Unicode {unicodedata.unidata_version}.
//!
//! Written by `tools/unicode/gen.py`; do not edit by hand. {len(table)} ranges of four
//! bytes: {len(table) * 4} bytes of read-only data, found by binary search.

/// Where each run of one class starts: code point `<< 3 |` class, ascending.
#[rustfmt::skip]
pub(super) static RUNS: [u32; {len(table)}] = [
{body}
];
"""
    OUT.write_text(text)
    print(f"{OUT}: {len(table)} ranges", file=sys.stderr)


if __name__ == "__main__":
    main()
