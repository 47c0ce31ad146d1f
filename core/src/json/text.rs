//! The inside of a JSON string, byte by byte.
//!
//! Accepts exactly what RFC 8259 allows, less lone surrogates: UTF-8 without
//! control characters, and escapes that stand for a character.

/// Between two characters.
pub(crate) const BODY: u16 = 0;
const CONT: u16 = 1;
/// After these leading bytes, in this order, not every byte may come.
pub(crate) const NARROW: u16 = E0;
const E0: u16 = 4;
const ED: u16 = 5;
const F0: u16 = 6;
const F4: u16 = 7;
/// States up to this one are within a character of several bytes.
pub(crate) const LAST_CONT: u16 = F4;
const ESCAPE: u16 = 8;
/// After `\u`, and with one to three digits.
const HEX: u16 = 9;
/// The first digit was d: it may be a surrogate.
const HEX_D: u16 = 13;
/// A high surrogate: two digits due, one, then `\`, `u`, `d`, a digit from c.
const PAIR: u16 = 14;

/// What a byte does inside a string.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// Goes on in this state, within a character.
    Within(u16),
    /// Ends a character.
    Char,
    /// Ends the string.
    Close,
    /// May not stand here.
    Never,
}

/// What byte `b` does in state `q`. Where the string is `inside` another,
/// braces are written as escapes only: some readers count them without looking
/// for strings.
pub(crate) fn step(q: u16, b: u8, inside: bool) -> Step {
    let on = |ok: bool, q: u16| match (ok, q) {
        (false, _) => Step::Never,
        (true, BODY) => Step::Char,
        (true, q) => Step::Within(q),
    };
    let hex = b.is_ascii_hexdigit();
    match q {
        BODY => match b {
            b'"' => Step::Close,
            b'\\' => Step::Within(ESCAPE),
            b'{' | b'}' => on(!inside, BODY),
            0x20..=0x7f => Step::Char,
            0xc2..=0xdf => Step::Within(CONT),
            0xe0 => Step::Within(E0),
            0xed => Step::Within(ED),
            0xe1..=0xef => Step::Within(CONT + 1),
            0xf0 => Step::Within(F0),
            0xf1..=0xf3 => Step::Within(CONT + 2),
            0xf4 => Step::Within(F4),
            _ => Step::Never,
        },
        1..=3 => on((0x80..0xc0).contains(&b), q - 1),
        E0 => on((0xa0..0xc0).contains(&b), CONT),
        ED => on((0x80..0xa0).contains(&b), CONT),
        F0 => on((0x90..0xc0).contains(&b), CONT + 1),
        F4 => on((0x80..0x90).contains(&b), CONT + 1),
        ESCAPE if b == b'u' => Step::Within(HEX),
        ESCAPE => on(matches!(b, b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't'), BODY),
        HEX if matches!(b, b'd' | b'D') => Step::Within(HEX_D),
        HEX | 10 | 11 => on(hex, q + 1),
        12 => on(hex, BODY),
        HEX_D => match b {
            b'0'..=b'7' => Step::Within(HEX + 2),
            b'8' | b'9' | b'a' | b'b' | b'A' | b'B' => Step::Within(PAIR),
            _ => Step::Never,
        },
        PAIR | 15 => on(hex, q + 1),
        16 => on(b == b'\\', 17),
        17 => on(b == b'u', 18),
        18 => on(matches!(b, b'd' | b'D'), 19),
        19 => on(matches!(b, b'c'..=b'f' | b'C'..=b'F'), HEX + 2),
        _ => Step::Never,
    }
}

/// Why a byte may not stand in state `q` of a text.
pub(super) fn fault(q: u16) -> &'static str {
    match q {
        BODY => "a raw control character in a string",
        ESCAPE => "an unknown escape",
        _ => "an escape that stands for no character",
    }
}

/// Fewest bytes from state `q` to the end of the character.
pub(crate) fn left(q: u16, inside: bool) -> u32 {
    const LEFT: [u8; 20] = [0, 1, 2, 3, 2, 2, 3, 3, 1, 4, 3, 2, 1, 3, 8, 7, 6, 5, 4, 3];
    // Inside a string the backslash of a pair's second half is two bytes.
    let doubled = inside && (14..=16).contains(&q);
    u32::from(LEFT.get(usize::from(q)).copied().unwrap_or(0)) + u32::from(doubled)
}

/// The escape that a character must be written as; `None` where it stands for
/// itself.
pub(crate) fn spelling(code: u32, inside: bool) -> Option<&'static str> {
    const CONTROL: [&str; 32] = [
        "\\u0000", "\\u0001", "\\u0002", "\\u0003", "\\u0004", "\\u0005", "\\u0006", "\\u0007", "\\b", "\\t",
        "\\n", "\\u000b", "\\f", "\\r", "\\u000e", "\\u000f", "\\u0010", "\\u0011", "\\u0012", "\\u0013",
        "\\u0014", "\\u0015", "\\u0016", "\\u0017", "\\u0018", "\\u0019", "\\u001a", "\\u001b", "\\u001c",
        "\\u001d", "\\u001e", "\\u001f",
    ];
    match code {
        0..=0x1f => CONTROL.get(code as usize).copied(),
        0x22 => Some("\\\""),
        0x5c => Some("\\\\"),
        0x7b if inside => Some("\\u007b"),
        0x7d if inside => Some("\\u007d"),
        _ => None,
    }
}

/// Bytes that inner byte `b` takes: quotes and backslashes inside a string are
/// two.
pub(crate) fn cost(b: u8, inside: bool) -> u32 {
    1 + u32::from(inside && matches!(b, b'"' | b'\\'))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::string::String;
    use std::vec::Vec;

    /// Characters of a whole string's inside, or `None` where it is no such.
    fn count(text: &[u8]) -> Option<usize> {
        let (mut q, mut n) = (BODY, 0);
        for &b in text {
            match step(q, b, false) {
                Step::Within(to) => q = to,
                Step::Char => (q, n) = (BODY, n + 1),
                Step::Close | Step::Never => return None,
            }
        }
        (q == BODY).then_some(n)
    }

    #[test]
    fn every_character_is_one() {
        for c in (0x20..0x11_0000).filter_map(char::from_u32).filter(|c| !matches!(c, '"' | '\\')) {
            let mut utf8 = [0; 4];
            assert_eq!(count(c.encode_utf8(&mut utf8).as_bytes()), Some(1), "{c:?}");
        }
        let escapes = ["\\n", "\\u0041", "\\uD7ff", "\\ue000", "\\ud83d\\ude00", "\\uDBFF\\uDFFF", "\\/"];
        for text in escapes {
            assert_eq!(count(text.as_bytes()), Some(1), "{text}");
        }
        let bad: [&[u8]; 10] = [
            b"\x1f",
            b"\xff",
            b"\xc0\x80",
            b"\xe0\x80\x80",
            b"\xed\xa0\x80",
            b"\xf4\x90\x80\x80",
            b"\\x",
            b"\\ud800",
            b"\\udc00",
            b"\\ud800\\u0041",
        ];
        for text in bad {
            assert_eq!(count(text), None, "{text:?}");
        }
    }

    #[test]
    fn what_is_left_is_the_shortest_way_out() {
        // Breadth first from the far end.
        let mut best = [usize::MAX; 20];
        best[0] = 0;
        for _ in 0..20 {
            for q in 1..20u16 {
                let next = (0..=255u8).filter_map(|b| match step(q, b, false) {
                    Step::Within(to) => Some(best[usize::from(to)]),
                    Step::Char => Some(0),
                    _ => None,
                });
                best[usize::from(q)] = next.min().unwrap().saturating_add(1);
            }
        }
        let lefts: Vec<usize> = (0..20).map(|q| left(q, false) as usize).collect();
        assert_eq!(lefts, best);
    }

    #[test]
    fn spellings_are_read_back() {
        let mut text = String::from("\"");
        (0..0x80).for_each(|c| match spelling(c, true) {
            Some(s) => text.push_str(s),
            None => text.push(char::from(c as u8)),
        });
        text.push('"');
        assert!(!text.contains(['{', '}']));
        let text = super::super::Text::of(super::super::whole(&text).unwrap()).unwrap();
        assert!(text.chars().eq((0..0x80u8).map(char::from)));
    }
}
