//! Short owned strings for error messages: a key or tensor name from a file
//! that may be gone, or hostile, by the time the message is read.

use core::fmt;

/// Up to [`Name::MAX`] bytes of printable text, cut with `…` where longer.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Name {
    len: u8,
    cut: bool,
    bytes: [u8; Name::MAX],
}

impl Name {
    /// Bytes kept. GGUF tensor names are at most 64.
    pub const MAX: usize = 64;

    /// Keeps the longest prefix of `text` that fits, whole characters only.
    pub fn new(text: &str) -> Self {
        let mut len = text.len().min(Self::MAX);
        while !text.is_char_boundary(len) {
            len -= 1;
        }
        let mut bytes = [0; Self::MAX];
        bytes[..len].copy_from_slice(&text.as_bytes()[..len]);
        Self { len: len as u8, cut: len < text.len(), bytes }
    }

    /// The text that `args` make, cut like [`Name::new`]'s.
    pub fn format(args: fmt::Arguments<'_>) -> Self {
        let mut name = Self { len: 0, cut: false, bytes: [0; Self::MAX] };
        // Never fails: what does not fit is cut.
        let _ = fmt::write(&mut name, args);
        name
    }

    /// The text kept.
    pub fn as_str(&self) -> &str {
        core::str::from_utf8(&self.bytes[..usize::from(self.len)]).unwrap_or("")
    }
}

impl fmt::Write for Name {
    fn write_str(&mut self, s: &str) -> fmt::Result {
        let start = usize::from(self.len);
        let more = Self::new(&s[..s.floor_char_boundary(Self::MAX - start)]);
        let end = start + usize::from(more.len);
        self.bytes[start..end].copy_from_slice(more.as_str().as_bytes());
        self.len = end as u8;
        self.cut |= end - start < s.len();
        Ok(())
    }
}

impl fmt::Display for Name {
    /// Control characters are escaped: the text may come from a hostile file.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for c in self.as_str().chars() {
            if c.is_control() {
                write!(f, "{}", c.escape_default())?;
            } else {
                write!(f, "{c}")?;
            }
        }
        if self.cut { f.write_str("…") } else { Ok(()) }
    }
}

impl fmt::Debug for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::Name;
    use std::string::ToString;

    #[test]
    fn cuts_at_a_character_and_escapes_controls() {
        let long = "é".repeat(40);
        let name = Name::new(&long);
        assert_eq!(name.as_str().chars().count(), 32);
        assert!(name.to_string().ends_with('…'));
        assert_eq!(Name::new("a\u{1b}[31m\n").to_string(), "a\\u{1b}[31m\\n");
    }
}
