//! Characters as the pre-tokenizers see them.

use super::unicode::RUNS;

/// The general category of a character, as far as pre-tokenizers ask.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Class {
    /// Everything else: separators, controls, unassigned.
    Other,
    /// `\p{L}`
    Letter,
    /// `\p{N}`
    Number,
    /// `\p{P}`
    Punctuation,
    /// `\p{S}`
    Symbol,
    /// `\p{M}`
    Mark,
}

impl Class {
    /// The class of `c`.
    pub(super) fn of(c: char) -> Self {
        let key = (c as u32) << 3 | 7;
        let run = RUNS.partition_point(|&r| r <= key).saturating_sub(1);
        match RUNS[run] & 7 {
            1 => Class::Letter,
            2 => Class::Number,
            3 => Class::Punctuation,
            4 => Class::Symbol,
            5 => Class::Mark,
            _ => Class::Other,
        }
    }
}

/// One character of a text that need not be UTF-8.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Char {
    /// The character; a byte that is part of none counts as U+FFFD.
    pub(super) c: char,
    /// Bytes it takes; at least 1.
    pub(super) len: usize,
}

impl Char {
    /// The character at byte `at`, or `None` at the end of `text`.
    pub(super) fn at(text: &[u8], at: usize) -> Option<Self> {
        let rest = text.get(at..)?;
        let first = *rest.first()?;
        let len = match first {
            0..0x80 => return Some(Self { c: first as char, len: 1 }),
            0xc2..0xe0 => 2,
            0xe0..0xf0 => 3,
            0xf0..0xf5 => 4,
            _ => 0,
        };
        // The standard decoder knows overlong forms and surrogates.
        let whole = rest.get(..len).and_then(|b| core::str::from_utf8(b).ok());
        let c = whole.and_then(|s| s.chars().next());
        Some(c.map_or(Self { c: char::REPLACEMENT_CHARACTER, len: 1 }, |c| Self { c, len }))
    }

    pub(super) fn class(self) -> Class {
        Class::of(self.c)
    }

    pub(super) fn is_letter(self) -> bool {
        self.class() == Class::Letter
    }

    pub(super) fn is_number(self) -> bool {
        self.class() == Class::Number
    }

    /// `\s`: the Unicode property White_Space.
    pub(super) fn is_space(self) -> bool {
        self.c.is_whitespace()
    }

    /// `[\r\n]`
    pub(super) fn is_newline(self) -> bool {
        matches!(self.c, '\r' | '\n')
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_of_known_characters() {
        for (c, class) in [
            ('a', Class::Letter),
            ('Б', Class::Letter),
            ('ក', Class::Letter),
            ('天', Class::Letter),
            ('\u{10ffff}', Class::Other),
            ('\0', Class::Other),
            (' ', Class::Other),
            ('3', Class::Number),
            ('½', Class::Number),
            ('٣', Class::Number),
            ('!', Class::Punctuation),
            ('～', Class::Symbol),
            ('$', Class::Symbol),
            ('🦙', Class::Symbol),
            ('\u{301}', Class::Mark),
            ('\u{fffd}', Class::Symbol),
        ] {
            assert_eq!(Class::of(c), class, "{c:?}");
        }
    }

    #[test]
    fn classes_agree_with_the_standard_library_on_numbers() {
        // The library's Unicode is newer: it may know numbers that we do not.
        for c in '\0'..=char::MAX {
            assert!(Class::of(c) != Class::Number || c.is_numeric(), "{c:?}");
            assert!(Class::of(c) != Class::Letter || c.is_alphabetic(), "{c:?}");
        }
    }

    #[test]
    fn bytes_that_are_no_character_count_one_by_one() {
        let text = b"a\xf0\x9f\xa6\x99\xff\xe2\x96\xc0\x80\xed\xa0\x80";
        let mut at = 0;
        let mut lens = std::vec::Vec::new();
        while let Some(c) = Char::at(text, at) {
            lens.push(c.len);
            at += c.len;
        }
        assert_eq!(lens, [1, 4, 1, 1, 1, 1, 1, 1, 1, 1]);
    }
}
