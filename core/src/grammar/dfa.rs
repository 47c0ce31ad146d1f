//! Automata over bytes, made state by state from machines that know only how
//! to take a byte.

use super::classes;
use super::error::Why;
use super::program::{Arc, Builder, Dfa, NONE};
use super::text;

/// Where a machine stands: whatever it needs, all told.
pub(crate) type Key = [u64; 9];

/// Something that reads bytes.
pub(super) trait Machine {
    /// Where it begins.
    fn start(&self) -> Key;
    /// Where byte `b` leads; `None` where it may not come.
    fn step(&self, key: &Key, b: u8) -> Option<Key>;
    /// Whether the bytes may end here.
    fn accepts(&self, key: &Key) -> bool;
    /// Where in a character of a string it stands, as [`text::step`] counts;
    /// `None` outside strings.
    fn within(&self, key: &Key) -> Option<u16> {
        let _ = key;
        None
    }
}

/// Work space of one state.
#[derive(Clone, Copy)]
#[repr(C)]
pub(crate) struct State {
    key: Key,
    /// Its number once those that lead nowhere are gone.
    moved: u32,
    /// Two slots of the hash table.
    slots: [u16; 2],
}

/// Adds the automaton of `machine` to `out`; returns its first state, or `None`
/// where it accepts nothing.
pub(super) fn build(
    machine: &impl Machine,
    inside: bool,
    out: &mut Builder<'_>,
    work: &mut [State],
) -> Result<Option<u16>, Why> {
    let (states, arcs) = (out.states.len, out.arcs.len);
    let mut maker = Maker { work, count: 0 };
    maker.work.iter_mut().for_each(|s| s.slots = [NONE; 2]);
    maker.number(&machine.start(), out)?;
    let mut at = 0;
    while at < maker.count {
        maker.arcs_of(at, machine, out)?;
        at += 1;
    }
    measure(out, states, arcs, inside);
    let count = maker.count;
    for at in 0..count {
        let within = machine.within(&maker.work[at].key);
        maker.work[at].slots = [within.unwrap_or(NONE); 2];
    }
    let start = compact(out, states, arcs, maker.work);
    if start.is_some() {
        // Places in a character move to the states' present numbers, which are
        // never higher.
        let work = &mut maker.work[..count];
        for i in 0..count {
            if work[i].moved != u32::MAX {
                work[work[i].moved as usize - states].slots[1] = work[i].slots[0];
            }
        }
        classes::find(out, states, |i| work[i - states].slots[1] == text::BODY);
    }
    if start.is_none() {
        (out.states.len, out.arcs.len) = (states, arcs);
    }
    Ok(start)
}

struct Maker<'w> {
    work: &'w mut [State],
    count: usize,
}

impl Maker<'_> {
    /// The number of the state with this key, which may be new.
    fn number(&mut self, key: &Key, out: &Builder<'_>) -> Result<u16, Why> {
        let slots = self.work.len() * 2;
        let mut at = hash(key) as usize;
        loop {
            at %= slots.max(1);
            let slot = self.work.get(at / 2).map_or(NONE, |s| s.slots[at % 2]);
            if slot == NONE {
                break;
            }
            if self.work[usize::from(slot)].key == *key {
                return Ok(slot);
            }
            at += 1;
        }
        // Half the slots stay empty, so that the search above ends.
        if self.count >= self.work.len() || self.count >= usize::from(NONE - 1) {
            return Err(out.states.full());
        }
        self.work[at / 2].slots[at % 2] = self.count as u16;
        self.work[self.count].key = *key;
        self.count += 1;
        Ok(self.count as u16 - 1)
    }

    /// Writes state `at` and its arcs, their ends by number of this automaton.
    fn arcs_of(&mut self, at: usize, machine: &impl Machine, out: &mut Builder<'_>) -> Result<(), Why> {
        let (key, first) = (self.work[at].key, out.arcs.len);
        for b in 0..=255u8 {
            let Some(next) = machine.step(&key, b) else { continue };
            let to = self.number(&next, out)?;
            match out.arcs.all[first..out.arcs.len].last_mut() {
                Some(last) if last.to == to && last.high + 1 == b => last.high = b,
                _ => _ = out.arcs.push(Arc { low: b, high: b, to })?,
            }
        }
        let n = (out.arcs.len - first) as u16;
        let left = if machine.accepts(&key) { 0 } else { u32::MAX };
        out.states.push(Dfa::new(first as u32, n, left))?;
        Ok(())
    }
}

fn hash(key: &Key) -> u32 {
    let mut h = 0u64;
    for &word in key {
        h = (h ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        h ^= h >> 29;
    }
    (h >> 16) as u32
}

/// Finds for each state how near its end is.
fn measure(out: &mut Builder<'_>, states: usize, arcs: usize, inside: bool) {
    let all = &mut out.states.all[states..out.states.len];
    let table = &out.arcs.all[..out.arcs.len];
    debug_assert!(arcs <= table.len());
    // States are numbered outwards from the start, so backwards is quickest.
    let mut changed = true;
    while changed {
        changed = false;
        for i in (0..all.len()).rev() {
            let Dfa { first, n, left, .. } = all[i];
            let of = |a: &Arc| {
                let dear = |b: u8| text::cost(b, inside) > 1;
                let cheap = a.low < a.high && a.high - a.low > 1 || !dear(a.low) || !dear(a.high);
                all[usize::from(a.to)].left.saturating_add(if cheap { 1 } else { 2 })
            };
            let best = table[first as usize..][..usize::from(n)].iter().map(of).min().unwrap_or(u32::MAX);
            if best < left {
                all[i].left = best;
                changed = true;
            }
        }
    }
}

/// Any number of plain characters.
pub(super) const ANY: u8 = u8::MAX;

/// Drops states from which there is no end, and what leads there. Returns the
/// first.
fn compact(out: &mut Builder<'_>, states: usize, arcs: usize, work: &mut [State]) -> Option<u16> {
    let count = out.states.len - states;
    let mut kept = states;
    for (state, work) in out.states.all[states..states + count].iter().zip(work.iter_mut()) {
        let live = state.left != u32::MAX;
        work.moved = if live { kept as u32 } else { u32::MAX };
        kept += usize::from(live);
    }
    if work[0].moved == u32::MAX {
        return None;
    }
    let mut to = arcs;
    for i in 0..count {
        let state = out.states.all[states + i];
        let first = to;
        for a in state.first as usize..state.first as usize + usize::from(state.n) {
            let arc = out.arcs.all[a];
            let moved = work[usize::from(arc.to)].moved;
            if work[i].moved != u32::MAX && moved != u32::MAX {
                out.arcs.all[to] = Arc { to: moved as u16, ..arc };
                to += 1;
            }
        }
        if work[i].moved != u32::MAX {
            let new = Dfa { first: first as u32, n: (to - first) as u16, ..state };
            out.states.all[work[i].moved as usize] = new;
        }
    }
    (out.states.len, out.arcs.len) = (kept, to);
    Some(states as u16)
}
