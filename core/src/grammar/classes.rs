//! Classes of characters, by which many tokens are judged at once.
//!
//! What a pattern does with one letter it mostly does with all of them. So an
//! automaton's states say of each class whether all of its characters may come
//! and where they lead, and tokens say which classes their characters are of.

use super::dfa::ANY;
use super::program::{Arc, Builder, Dfa};
use super::text::{self, BODY, Step};

/// Classes of characters, a bit each. Small letters are most of a vocabulary,
/// and patterns tell them apart: each is a class, but for j, q, x and z, which
/// share one.
pub(super) type Classes = u32;

/// `A` to `Z` and no others.
const UPPER: Classes = 1 << 23;
const DIGIT: Classes = 1 << 24;
/// The space.
const SPACE: Classes = 1 << 25;
/// What joins names: `-`, `_`, `.`.
const JOINT: Classes = 1 << 26;
/// Other ASCII that needs no escape anywhere.
const MARK: Classes = 1 << 27;
/// U+0080 to U+027F: letters with accents.
const LATIN: Classes = 1 << 28;
/// U+4000 to U+9FFF: mostly Chinese.
const HAN: Classes = 1 << 29;
/// Other characters.
const WIDE: Classes = 1 << 30;
/// Those that begin as white space does which is not ASCII: patterns often
/// except it.
const ODD: Classes = 1 << 31;

/// The class of a character that begins with `first` and goes on with `second`.
pub(super) fn class(first: u8, second: u8) -> Classes {
    /// The letters before z with bits of their own.
    const LETTERS: &[u8; 22] = b"abcdefghiklmnoprstuvwy";
    match first {
        b'a'..=b'z' => 1 << LETTERS.iter().position(|&l| l == first).unwrap_or(LETTERS.len()),
        b'A'..=b'Z' => UPPER,
        b'0'..=b'9' => DIGIT,
        b' ' => SPACE,
        b'-' | b'_' | b'.' => JOINT,
        0..=0x7f => MARK,
        _ if is_odd(first, second) => ODD,
        0x80..=0xc9 => LATIN,
        0xe4..=0xe9 => HAN,
        _ => WIDE,
    }
}

fn is_odd(first: u8, second: u8) -> bool {
    matches!(
        (first, second),
        (0xc2, 0x85 | 0xa0) | (0xe1, 0x9a | 0xa0) | (0xe2, 0x80 | 0x81) | (0xe3, 0x80) | (0xef, 0xbb)
    )
}

/// The class of a character of several bytes of which `bytes` have come, where
/// they tell it.
pub(super) fn class_so_far(bytes: &[u8]) -> Option<Classes> {
    match *bytes {
        [0xc2 | 0xe1 | 0xe2 | 0xe3 | 0xef] => None,
        [first @ 0xc2..=0xff, ..] => Some(class(first, bytes.get(1).copied().unwrap_or(0))),
        _ => None,
    }
}

/// What a state does with plain characters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Runs {
    /// Classes of which any characters may come, any number of them.
    pub(super) free: Classes,
    /// Classes of which none may come, here or after characters of `free`.
    pub(super) dead: Classes,
    /// Classes of which any characters may come, `sure` of them.
    pub(super) wide: Classes,
    pub(super) sure: u8,
    /// No more characters than these may come; [`ANY`] where there is no limit.
    pub(super) most: u8,
}

impl Runs {
    pub(super) const NONE: Self = Self { free: 0, dead: 0, wide: 0, sure: 0, most: 0 };
}

/// An automaton's states and arcs.
struct Auto<'a> {
    states: &'a [Dfa],
    arcs: &'a [Arc],
}

impl Auto<'_> {
    fn next(&self, state: u16, b: u8) -> Option<u16> {
        let of = self.states.get(usize::from(state))?;
        let arcs = self.arcs.get(of.first as usize..)?.get(..usize::from(of.n))?;
        let at = arcs.partition_point(|a| a.high < b);
        arcs.get(at).filter(|a| a.low <= b).map(|a| a.to)
    }

    /// Tells of the plain characters that may come at `state`, between two:
    /// their class and where they lead, or that some of the class may not come.
    fn each(&self, state: u16, told: &mut impl FnMut(Classes, Option<u16>)) {
        let mut last = None;
        for b in (0x20..=0x7f).filter(|b| !matches!(b, b'"' | b'\\' | b'{' | b'}')) {
            let now = (class(b, 0), self.next(state, b));
            if last.replace(now) != Some(now) {
                told(now.0, now.1);
            }
        }
        let mut last = None;
        for first in 0xc2..=0xf4u8 {
            let Step::Within(place) = text::step(BODY, first, true) else { continue };
            let sure = class_so_far(&[first]);
            let now = (place, self.next(state, first), sure);
            // What leads alike and is of one class needs one look.
            if last.replace(now) != Some(now) || sure.is_none() {
                self.second(place, now.1, first, told);
            }
        }
    }

    fn second(&self, place: u16, state: Option<u16>, first: u8, told: &mut impl FnMut(Classes, Option<u16>)) {
        let mut last = None;
        for b in 0x80..0xc0 {
            let step = text::step(place, b, true);
            if step == Step::Never {
                continue;
            }
            let now = (class(first, b), step, state.and_then(|s| self.next(s, b)));
            if last.replace(now) != Some(now) {
                self.rest(now.1, now.2, now.0, told);
            }
        }
    }

    fn rest(
        &self,
        step: Step,
        state: Option<u16>,
        class: Classes,
        told: &mut impl FnMut(Classes, Option<u16>),
    ) {
        let (Step::Within(place), Some(at)) = (step, state) else { return told(class, state) };
        let mut last = None;
        for b in 0x80..0xc0 {
            let now = (text::step(place, b, true), self.next(at, b));
            // At most one more byte is due: characters have four.
            if now.0 != Step::Never && last.replace(now) != Some(now) {
                self.rest(now.0, now.1, class, told);
            }
        }
    }

    fn runs(&self, state: u16) -> Runs {
        self.states.get(usize::from(state)).map_or(Runs::NONE, Dfa::runs)
    }

    /// What is true at once.
    fn first(&self, state: u16) -> Runs {
        let (mut some, mut not) = (0, 0);
        self.each(state, &mut |class, to| match to {
            Some(_) => some |= class,
            None => not |= class,
        });
        Runs { free: !not, dead: !some, wide: !not, sure: ANY, most: if some == 0 { 0 } else { ANY } }
    }

    /// What is left of it by what is true of the states after.
    fn less(&self, state: u16) -> Runs {
        let old = self.runs(state);
        // Two ways out of a class that leads where less is free: without it, or
        // with what is free there as well.
        let (mut without, mut common) = (old.free, old.free);
        let (mut sure, mut most) = (u8::MAX, None);
        self.each(state, &mut |class, to| {
            let Some(next) = to.map(|to| self.runs(to)) else { return };
            if class & old.free != 0 {
                common &= next.free;
                if old.free & !next.free != 0 {
                    without &= !class;
                }
            }
            if class & old.wide != 0 {
                let more = if old.wide & !next.wide == 0 { next.sure } else { 0 };
                sure = sure.min(if more == ANY { ANY } else { (more + 1).min(ANY - 1) });
            }
            most = most.max(Some(next.most.saturating_add(1)));
        });
        let free = if without.count_ones() >= common.count_ones() { without } else { common };
        let mut dead = old.dead;
        self.each(state, &mut |class, to| {
            if class & free != 0 {
                dead &= to.map_or(0, |to| self.runs(to).dead);
            }
        });
        let sure = if old.wide == 0 { 0 } else { sure.min(old.sure) };
        Runs { free, dead, wide: old.wide, sure, most: most.unwrap_or(0).min(old.most) }
    }
}

/// Finds the runs of the states from `from` on. `between` tells whether a state
/// is between two characters of a string; elsewhere there are none.
pub(super) fn find(out: &mut Builder<'_>, from: usize, between: impl Fn(usize) -> bool) {
    let arcs = &out.arcs.all[..out.arcs.len];
    let len = out.states.len;
    for i in (from..len).filter(|&i| between(i)) {
        let runs = Auto { states: &out.states.all[..len], arcs }.first(i as u16);
        out.states.all[i].set(runs);
    }
    // Everything only becomes less, so that this ends.
    let mut changed = true;
    while changed {
        changed = false;
        for i in (from..len).rev().filter(|&i| between(i)) {
            let new = Auto { states: &out.states.all[..len], arcs }.less(i as u16);
            changed |= new != out.states.all[i].runs();
            out.states.all[i].set(new);
        }
    }
}
