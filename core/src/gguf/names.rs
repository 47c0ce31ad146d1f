//! Names of keys and tensors: reading one, and finding one that occurs twice
//! without memory and without quadratic time.

use super::cursor::Cursor;
use super::error::{Fault, GgufError};

/// Reads a name of 1 to `max` bytes of UTF-8 without control characters.
pub(super) fn read_name<'a>(c: &mut Cursor<'a>, what: &'static str, max: u64) -> Result<&'a str, GgufError> {
    let start = *c;
    let bytes = c.text(what)?;
    let len = bytes.len() as u64;
    let name = core::str::from_utf8(bytes).map_err(|_| start.err(Fault::NotUtf8))?;
    let fault = if len == 0 {
        Fault::EmptyName
    } else if len > max {
        Fault::LongName(len)
    } else if bytes.iter().any(u8::is_ascii_control) {
        Fault::ControlInName
    } else {
        return Ok(name);
    };
    Err(start.err(fault))
}

/// Names compared at once. The table takes 12 KiB of stack.
const CHUNK: usize = 512;

/// The first name found that `names` yields twice.
///
/// Takes the names `CHUNK` at a time, sorts those and looks up all later ones
/// among them: `n / CHUNK` passes of `n` binary searches, whatever the names
/// are. Ordering by hash before name keeps a look-up to about one name
/// comparison; names made to collide cost `log2(CHUNK)` of them, no more.
pub(super) fn duplicate<'a>(names: impl Iterator<Item = &'a [u8]> + Clone) -> Option<&'a [u8]> {
    let mut rest = names;
    let mut table: [(u64, &[u8]); CHUNK] = [(0, &[]); CHUNK];
    loop {
        let mut n = 0;
        for (slot, name) in table.iter_mut().zip(rest.by_ref()) {
            *slot = (hash(name), name);
            n += 1;
        }
        let chunk = &mut table[..n];
        chunk.sort_unstable();
        if let Some(pair) = chunk.windows(2).find(|pair| pair[0] == pair[1]) {
            return Some(pair[0].1);
        }
        let seen = |name: &&[u8]| chunk.binary_search(&(hash(name), *name)).is_ok();
        if let Some(twice) = rest.clone().find(seen) {
            return Some(twice);
        }
        if n < CHUNK {
            return None;
        }
    }
}

/// Mixes eight bytes at a time; need not resist anyone.
fn hash(name: &[u8]) -> u64 {
    const MIX: u64 = 0x9e37_79b9_7f4a_7c15;
    let (words, tail) = name.as_chunks::<8>();
    let mut last = [0; 8];
    last[..tail.len()].copy_from_slice(tail);
    let mix = |h: u64, word: &[u8; 8]| (h ^ u64::from_le_bytes(*word)).wrapping_mul(MIX).rotate_left(29);
    let h = words.iter().fold(name.len() as u64, mix);
    mix(h, &last).wrapping_mul(MIX)
}
