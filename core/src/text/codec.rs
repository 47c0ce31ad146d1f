//! How raw bytes are spelled in a vocabulary.
//!
//! Neither tokenizer copies its input: the spelling is made byte by byte while
//! hashing and comparing.

/// A spelling: how vocabulary texts stand for raw bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Codec {
    /// SentencePiece: a space is U+2581, everything else is itself.
    Spm,
    /// Byte-level BPE: every byte is one character. Printable Latin-1 bytes are
    /// themselves, the other 68 are U+0100 upwards in byte order (GPT-2's
    /// `bytes_to_unicode`).
    ByteLevel,
}

/// The spelling of one byte.
#[derive(Clone, Copy)]
struct Unit {
    bytes: [u8; 3],
    len: u8,
}

impl Unit {
    fn as_slice(&self) -> &[u8] {
        &self.bytes[..usize::from(self.len)]
    }
}

const SPACE: Unit = Unit { bytes: [0xe2, 0x96, 0x81], len: 3 };

/// U+2581 as SentencePiece vocabularies write it.
pub(super) const SPACE_MARK: &[u8] = &SPACE.bytes;

const fn is_printable(b: u8) -> bool {
    matches!(b, 0x21..=0x7e | 0xa1..=0xac | 0xae..=0xff)
}

/// Character of each byte in byte-level spelling.
const CHARS: [u16; 256] = {
    let mut chars = [0u16; 256];
    let (mut b, mut other) = (0, 256);
    while b < 256 {
        if is_printable(b as u8) {
            chars[b] = b as u16;
        } else {
            chars[b] = other;
            other += 1;
        }
        b += 1;
    }
    chars
};

/// Byte of each character below [`BYTES`]`.len()`; 256 where there is none.
const BYTES: [u16; 256 + 68] = {
    let mut bytes = [256u16; 256 + 68];
    let mut b = 0;
    while b < 256 {
        bytes[CHARS[b] as usize] = b as u16;
        b += 1;
    }
    bytes
};

/// All characters are below U+0800: one or two bytes of UTF-8.
static UNITS: [Unit; 256] = {
    let mut units = [Unit { bytes: [0; 3], len: 1 }; 256];
    let mut b = 0;
    while b < 256 {
        let c = CHARS[b];
        units[b] = if c < 0x80 {
            Unit { bytes: [c as u8, 0, 0], len: 1 }
        } else {
            Unit { bytes: [0xc0 | (c >> 6) as u8, 0x80 | (c & 0x3f) as u8, 0], len: 2 }
        };
        b += 1;
    }
    units
};

/// The byte that `c` spells in byte-level BPE.
pub(super) fn byte_of(c: char) -> Option<u8> {
    BYTES.get(c as usize).and_then(|&b| u8::try_from(b).ok())
}

/// The byte that a text like `<0x0A>` names.
pub(super) fn byte_named(text: &[u8]) -> Option<u8> {
    let [b'<', b'0', b'x', high, low, b'>'] = text else { return None };
    let digit = |d: u8| (d as char).to_digit(16).map(|d| d as u8);
    Some(digit(*high)? << 4 | digit(*low)?)
}

impl Codec {
    fn unit(self, b: u8) -> Unit {
        match self {
            Codec::ByteLevel => UNITS[usize::from(b)],
            Codec::Spm if b == b' ' => SPACE,
            Codec::Spm => Unit { bytes: [b, 0, 0], len: 1 },
        }
    }

    /// Adds the spelling of `piece` to a hash.
    pub(super) fn hash(self, hash: &mut Hash, piece: Piece<'_>) {
        piece.each(|b| hash.add(self.unit(b).as_slice()));
    }

    /// What follows the spelling of `piece` in `text`, which must begin with it.
    pub(super) fn strip<'s>(self, text: &'s [u8], piece: Piece<'_>) -> Option<&'s [u8]> {
        let mut rest = Some(text);
        piece.each(|b| rest = rest.and_then(|r| r.strip_prefix(self.unit(b).as_slice())));
        rest
    }
}

/// Raw text to be merged, perhaps with one space before it that the caller's
/// text does not have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Piece<'t> {
    /// Whether the extra space is there.
    pub(super) space: bool,
    /// The caller's text.
    pub(super) text: &'t [u8],
}

impl<'t> Piece<'t> {
    /// Raw bytes, the extra space counted.
    pub(super) fn len(self) -> usize {
        usize::from(self.space) + self.text.len()
    }

    /// Bytes `from..to`, which must lie within.
    pub(super) fn part(self, from: usize, to: usize) -> Self {
        let lead = usize::from(self.space);
        Self {
            space: self.space && from == 0 && to > 0,
            text: &self.text[from.saturating_sub(lead)..to.saturating_sub(lead)],
        }
    }

    fn each(self, mut f: impl FnMut(u8)) {
        if self.space {
            f(b' ');
        }
        self.text.iter().for_each(|&b| f(b));
    }
}

/// A hash of bytes, the same for the same bytes however they are grouped
/// (FNV-1a, then a mix that spreads it over all bits).
#[derive(Clone, Copy)]
pub(super) struct Hash(u64);

impl Hash {
    pub(super) fn new() -> Self {
        Self(0xcbf2_9ce4_8422_2325)
    }

    pub(super) fn of(bytes: &[u8]) -> u64 {
        let mut hash = Self::new();
        hash.add(bytes);
        hash.finish()
    }

    pub(super) fn add(&mut self, bytes: &[u8]) {
        for &b in bytes {
            self.0 = (self.0 ^ u64::from(b)).wrapping_mul(0x0000_0100_0000_01b3);
        }
    }

    pub(super) fn finish(self) -> u64 {
        let mut h = self.0;
        h = (h ^ h >> 33).wrapping_mul(0xff51_afd7_ed55_8ccd);
        h = (h ^ h >> 33).wrapping_mul(0xc4ce_b9fe_1a85_ec53);
        h ^ h >> 33
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn byte_level_spelling_is_gpt2s() {
        for (b, c) in
            [(b' ', 'Ġ'), (b'\n', 'Ċ'), (b'\t', 'ĉ'), (b'a', 'a'), (0, 'Ā'), (0xad, 'Ń'), (0xff, 'ÿ')]
        {
            assert_eq!(byte_of(c), Some(b));
            let piece = Piece { space: false, text: &[b] };
            let mut text = [0; 4];
            assert_eq!(Codec::ByteLevel.strip(c.encode_utf8(&mut text).as_bytes(), piece), Some(&b""[..]));
        }
        assert_eq!(byte_of('€'), None);
        assert_eq!(byte_of('\u{ad}'), None);
        assert_eq!((0..=255u8).filter(|&b| byte_of(CHARS_AS[usize::from(b)]) == Some(b)).count(), 256);
    }

    const CHARS_AS: [char; 256] = {
        let mut out = ['\0'; 256];
        let mut b = 0;
        while b < 256 {
            out[b] = match char::from_u32(CHARS[b] as u32) {
                Some(c) => c,
                None => '\0',
            };
            b += 1;
        }
        out
    };

    #[test]
    fn pieces_spell_and_hash_as_their_text() {
        let piece = Piece { space: true, text: b"a b" };
        let text = "▁a▁b".as_bytes();
        assert_eq!(Codec::Spm.strip(text, piece), Some(&b""[..]));
        assert_eq!(Codec::Spm.strip(text, piece.part(0, 2)), Some("▁b".as_bytes()));
        assert_eq!(piece.part(2, 4), Piece { space: false, text: b" b" });
        assert_eq!(piece.part(0, 0).len(), 0);
        let mut hash = Hash::new();
        Codec::Spm.hash(&mut hash, piece);
        assert_eq!(hash.finish(), Hash::of(text));
    }

    #[test]
    fn byte_names() {
        assert_eq!(byte_named(b"<0x0A>"), Some(10));
        assert_eq!(byte_named(b"<0xff>"), Some(255));
        for bad in [&b"<0xG0>"[..], b"<0x0A", b"0x0A", b"<0x+1>", b""] {
            assert_eq!(byte_named(bad), None);
        }
    }
}
