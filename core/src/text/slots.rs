//! A hash table over memory the caller gives: texts to small numbers.
//!
//! A slot holds a number and, in the bits the number does not need, a tag from
//! the hash, so that most misses never touch the text in the model file.

use super::error::TextError;

/// An empty slot.
const EMPTY: u32 = u32::MAX;

/// Most slots looked at for one text. Honest vocabularies need a few dozen; a
/// file made to collide is refused instead of taking quadratic time.
const MAX_PROBES: usize = 256;

/// Slots for `n` texts: a power of two, at most three quarters full.
pub(super) fn slots_for(n: usize) -> Option<usize> {
    n.checked_add(n / 3)?.checked_add(8)?.checked_next_power_of_two()
}

/// A filled table.
#[derive(Clone, Copy)]
pub(super) struct Slots<'a> {
    table: &'a [u32],
    bits: u32,
}

/// Where a text is, or would go.
enum Place {
    Found(u32),
    Free(usize),
    None,
}

impl<'a> Slots<'a> {
    /// An empty table for numbers up to `max`. `None` where `max` does
    /// not leave room for empty slots or `table` is not a power of two long.
    pub(super) fn clear(table: &'a mut [u32], max: u32) -> Option<Filling<'a>> {
        table.fill(EMPTY);
        // No number fills all its bits with ones, so none looks like EMPTY.
        let bits = u32::BITS - max.checked_add(1)?.leading_zeros();
        table.len().is_power_of_two().then_some(Filling { table, bits })
    }

    /// The number of the text with hash `hash`, where `is` tells whether a
    /// number is that text's.
    pub(super) fn find(&self, hash: u64, is: impl Fn(u32) -> bool) -> Option<u32> {
        match place(self.table, self.bits, hash, is) {
            Place::Found(value) => Some(value),
            _ => None,
        }
    }
}

/// A table being filled.
pub(super) struct Filling<'a> {
    table: &'a mut [u32],
    bits: u32,
}

impl<'a> Filling<'a> {
    /// Enters `value` under `hash`, unless `is` finds its text there already:
    /// then the number that has it is returned.
    pub(super) fn insert(
        &mut self,
        hash: u64,
        value: u32,
        is: impl Fn(u32) -> bool,
    ) -> Result<Option<u32>, TextError> {
        match place(self.table, self.bits, hash, is) {
            Place::Found(value) => Ok(Some(value)),
            Place::Free(at) => {
                self.table[at] = tag(hash, self.bits) | value;
                Ok(None)
            }
            Place::None => Err(TextError::Crowded),
        }
    }

    pub(super) fn done(self) -> Slots<'a> {
        Slots { table: self.table, bits: self.bits }
    }
}

/// The low `bits` bits.
fn mask(bits: u32) -> u32 {
    u32::MAX.checked_shr(u32::BITS - bits).unwrap_or(0)
}

/// The part of a hash kept beside a number of `bits` bits.
fn tag(hash: u64, bits: u32) -> u32 {
    (hash as u32) & !mask(bits)
}

/// Looks for a text along its own path through the table (double hashing: an
/// odd step visits every slot of a power of two).
fn place(table: &[u32], bits: u32, hash: u64, is: impl Fn(u32) -> bool) -> Place {
    let (tag, values) = (tag(hash, bits), mask(bits));
    let step = (hash >> 40) as usize | 1;
    let mut at = (hash >> 20) as usize;
    for _ in 0..MAX_PROBES.min(table.len()) {
        at &= table.len() - 1;
        let slot = table[at];
        if slot == EMPTY {
            return Place::Free(at);
        }
        if slot & !values == tag && is(slot & values) {
            return Place::Found(slot & values);
        }
        at = at.wrapping_add(step);
    }
    Place::None
}

#[cfg(test)]
mod tests {
    use super::super::codec::Hash;
    use super::*;
    use std::string::ToString;

    #[test]
    fn finds_what_was_put_in() {
        for n in [0usize, 1, 2, 3, 100, 3000] {
            let hash = |v: u32| Hash::of(v.to_string().as_bytes());
            let mut table = std::vec![0; slots_for(n).unwrap()];
            let mut filling = Slots::clear(&mut table, n.saturating_sub(1) as u32).unwrap();
            for v in 0..n as u32 {
                assert_eq!(filling.insert(hash(v), v, |w| w == v), Ok(None));
                assert_eq!(filling.insert(hash(v), v + 1, |w| w == v), Ok(Some(v)));
            }
            let slots = filling.done();
            for v in 0..n as u32 + 10 {
                assert_eq!(slots.find(hash(v), |w| w == v), (v < n as u32).then_some(v));
            }
        }
    }

    #[test]
    fn numbers_that_look_like_an_empty_slot_are_refused() {
        assert!(Slots::clear(&mut [0; 8], u32::MAX).is_none());
        assert!(Slots::clear(&mut [0; 8], u32::MAX - 1).is_some());
        assert!(Slots::clear(&mut [0; 7], 5).is_none());
    }

    #[test]
    fn collisions_end_in_an_error() {
        let mut table = [0; 1024];
        let mut filling = Slots::clear(&mut table, 1022).unwrap();
        let mut put = |v| filling.insert(42, v, |w| w == v);
        assert!((0..256).all(|v| put(v) == Ok(None)));
        assert_eq!(put(256), Err(TextError::Crowded));
    }
}
