//! A bounded reader: every read either fits or says where the file ends.

use super::error::{Fault, GgufError, Subject};

/// A position in the bytes of a header.
#[derive(Clone, Copy)]
pub(super) struct Cursor<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Cursor<'a> {
    pub(super) fn new(bytes: &'a [u8], at: usize) -> Self {
        Self { bytes, at: at.min(bytes.len()) }
    }

    pub(super) fn at(&self) -> usize {
        self.at
    }

    pub(super) fn left(&self) -> u64 {
        (self.bytes.len() - self.at) as u64
    }

    /// An error about the byte at which the cursor stands.
    pub(super) fn err(&self, fault: Fault) -> GgufError {
        GgufError::new(self.at as u64, Subject::File, fault)
    }

    /// The next `n` bytes; `what` names them in the error.
    pub(super) fn take(&mut self, n: u64, what: &'static str) -> Result<&'a [u8], GgufError> {
        let end = usize::try_from(n).ok().and_then(|n| self.at.checked_add(n));
        match end.and_then(|end| self.bytes.get(self.at..end)) {
            Some(taken) => {
                self.at += taken.len();
                Ok(taken)
            }
            None => Err(self.err(Fault::Ends { what, need: n })),
        }
    }

    fn array<const N: usize>(&mut self, what: &'static str) -> Result<[u8; N], GgufError> {
        let mut out = [0; N];
        out.copy_from_slice(self.take(N as u64, what)?);
        Ok(out)
    }

    pub(super) fn u8(&mut self, what: &'static str) -> Result<u8, GgufError> {
        self.array::<1>(what).map(|b| b[0])
    }

    pub(super) fn u16(&mut self, what: &'static str) -> Result<u16, GgufError> {
        self.array(what).map(u16::from_le_bytes)
    }

    pub(super) fn u32(&mut self, what: &'static str) -> Result<u32, GgufError> {
        self.array(what).map(u32::from_le_bytes)
    }

    pub(super) fn u64(&mut self, what: &'static str) -> Result<u64, GgufError> {
        self.array(what).map(u64::from_le_bytes)
    }

    /// A string's bytes: a 64-bit length, then that many bytes. On failure
    /// the cursor's place is the length.
    pub(super) fn text(&mut self, what: &'static str) -> Result<&'a [u8], GgufError> {
        let start = self.at;
        let len = self.u64(what)?;
        self.take(len, what).map_err(|mut e| {
            e.at = start as u64;
            e
        })
    }
}
