//! Texts cut to a length, with a note that says so.

use core::fmt;

use crate::Name;

/// Room that the note takes at most.
const NOTE: usize = 52;

const BEFORE: &str = "\n[shortened: ";
const AFTER: &str = " bytes left out]";

/// The note on `left` bytes that are not there.
fn note(left: usize) -> Name {
    Name::format(format_args!("{BEFORE}{left}{AFTER}"))
}

/// A text in two parts that together take no more than was allowed.
pub(super) struct Cut<'t> {
    /// What is kept of the text.
    pub(super) kept: &'t str,
    note: Name,
    noted: usize,
}

impl<'t> Cut<'t> {
    /// `text` in at most `most` bytes, whole characters only.
    pub(super) fn new(text: &'t str, most: usize) -> Self {
        if text.len() <= most {
            return Self { kept: text, note: Name::new(""), noted: 0 };
        }
        Self::noted(text, most, 0)
    }

    /// The same for a text that may have been cut before: its note counts.
    pub(super) fn again(text: &'t str, most: usize) -> Self {
        let noted = text.strip_suffix(AFTER).and_then(|t| t.rsplit_once(BEFORE));
        match noted.and_then(|(kept, left)| Some((kept, left.parse::<usize>().ok()?))) {
            Some((kept, left)) if text.len() > most => Self::noted(kept, most, left),
            _ => Self::new(text, most),
        }
    }

    fn noted(text: &'t str, most: usize, left: usize) -> Self {
        let kept = &text[..text.floor_char_boundary(most.saturating_sub(NOTE))];
        let note = note((text.len() - kept.len()).saturating_add(left));
        let noted = note.as_str().floor_char_boundary(most - kept.len());
        Self { kept, note, noted }
    }

    /// The note; empty where nothing is left out.
    pub(super) fn note(&self) -> &str {
        &self.note.as_str()[..self.noted]
    }
}

/// Takes text into a buffer; what does not fit is counted and left out.
pub(super) struct Capped<'b> {
    out: &'b mut [u8],
    len: usize,
    left: usize,
}

impl<'b> Capped<'b> {
    pub(super) fn new(out: &'b mut [u8]) -> Self {
        Self { out, len: 0, left: 0 }
    }

    /// Whether nothing was written.
    pub(super) fn is_empty(&self) -> bool {
        self.len + self.left == 0
    }

    /// The text, with a note where it was cut. For the note the last characters
    /// go.
    pub(super) fn finish(self) -> &'b str {
        let Self { out, mut len, mut left } = self;
        if left > 0 {
            let text = core::str::from_utf8(&out[..len]).unwrap_or("");
            let keep = text.floor_char_boundary(out.len().saturating_sub(NOTE).min(len));
            left = left.saturating_add(len - keep);
            let note = note(left);
            let noted = note.as_str().floor_char_boundary(out.len() - keep);
            out[keep..keep + noted].copy_from_slice(&note.as_str().as_bytes()[..noted]);
            len = keep + noted;
        }
        // Only whole characters were written.
        core::str::from_utf8(&out[..len]).unwrap_or("")
    }
}

impl fmt::Write for Capped<'_> {
    /// Never fails.
    fn write_str(&mut self, s: &str) -> fmt::Result {
        // Nothing follows what was left out.
        let room = if self.left > 0 { 0 } else { self.out.len() - self.len };
        let n = s.floor_char_boundary(room);
        self.out[self.len..self.len + n].copy_from_slice(&s.as_bytes()[..n]);
        self.len += n;
        self.left = self.left.saturating_add(s.len() - n);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::fmt::Write;
    use std::string::String;

    #[test]
    fn cut_texts_fit_and_say_so() {
        let long = "é".repeat(100);
        for most in 0..220 {
            let cut = Cut::new(&long, most);
            assert!(cut.kept.len() + cut.note().len() <= most);
            let mut buffer = [0; 220];
            let mut capped = Capped::new(&mut buffer[..most]);
            long.chars().for_each(|c| write!(capped, "{c}").unwrap());
            let text = String::from(capped.finish());
            assert_eq!(text, std::format!("{}{}", cut.kept, cut.note()), "{most}");
        }
        let cut = Cut::new(&long, 100);
        assert_eq!((cut.kept.len(), cut.note()), (48, "\n[shortened: 152 bytes left out]"));
        assert_eq!(Cut::new("abc", 3).note(), "");
        assert!(note(usize::MAX).as_str().len() <= NOTE);
    }
}
