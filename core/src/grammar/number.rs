//! Numbers: how they are written, and how bounds and multiples become automata.
//!
//! Integers have at most 18 digits, so that they fit 64 bits. Multiples have at
//! most 15 digits, as have other numbers where they are bounded, so that a reader's rounding
//! to 64-bit floats cannot carry them across, and 15 on each side of the point
//! otherwise.

use core::cmp::Ordering;

use super::dfa::{Key, Machine};

const INTEGER_DIGITS: u8 = 18;
const DIGITS: u8 = 15;

/// Most digits of a bound on each side of the point.
const BOUND: usize = 24;

/// A decimal number: digits without leading and trailing zeros.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Decimal {
    minus: bool,
    whole: Digits,
    part: Digits,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Digits {
    len: u8,
    all: [u8; BOUND],
}

impl Digits {
    const NONE: Self = Self { len: 0, all: [0; BOUND] };

    fn push(&mut self, digit: u8) -> Option<()> {
        *self.all.get_mut(usize::from(self.len))? = digit;
        self.len += 1;
        Some(())
    }

    fn get(&self, at: usize) -> Option<u8> {
        self.all[..usize::from(self.len)].get(at).copied()
    }
}

impl Decimal {
    /// Reads a JSON number. `None` where it has too many digits.
    pub(super) fn read(text: &str) -> Option<Self> {
        let (minus, text) = text.strip_prefix('-').map_or((false, text), |t| (true, t));
        let (mantissa, exponent) = text.split_once(['e', 'E']).unwrap_or((text, "0"));
        let exponent: i32 = exponent.strip_prefix('+').unwrap_or(exponent).parse().ok()?;
        let (whole, part) = mantissa.split_once('.').unwrap_or((mantissa, ""));
        if exponent.unsigned_abs() > 40 || whole.len() + part.len() > 80 {
            return None;
        }
        let digit = |at: i32| {
            let all = whole.bytes().chain(part.bytes());
            usize::try_from(at).ok().and_then(|at| all.clone().nth(at)).map_or(0, |b| b - b'0')
        };
        let point = whole.len() as i32 + exponent;
        let total = (whole.len() + part.len()) as i32;
        let mut number = Self { minus, whole: Digits::NONE, part: Digits::NONE };
        for at in 0.min(point)..point {
            if number.whole.len > 0 || digit(at) != 0 {
                number.whole.push(digit(at))?;
            }
        }
        let Some(last) = (0..total).rev().find(|&at| digit(at) != 0) else {
            return Some(Self { minus: false, ..number });
        };
        for at in point..=last {
            number.part.push(digit(at))?;
        }
        Some(number)
    }

    fn is_zero(&self) -> bool {
        self.whole.len == 0 && self.part.len == 0
    }

    /// Whether it is a whole number.
    pub(super) fn is_whole(&self) -> bool {
        self.part.len == 0
    }

    fn size(&self, other: &Self) -> Ordering {
        self.whole
            .len
            .cmp(&other.whole.len)
            .then(self.whole.all.cmp(&other.whole.all))
            .then(self.part.all.cmp(&other.part.all))
    }

    pub(super) fn compare(&self, other: &Self) -> Ordering {
        match (self.minus, other.minus) {
            (false, true) => Ordering::Greater,
            (true, false) => Ordering::Less,
            (false, false) => self.size(other),
            (true, true) => other.size(self),
        }
    }

    /// The number as an integer and by how many tens it was multiplied for
    /// that.
    pub(super) fn scaled(&self) -> Option<(u64, u8)> {
        let all = (0..usize::from(self.whole.len)).map(|i| self.whole.all[i]);
        let all = all.chain((0..usize::from(self.part.len)).map(|i| self.part.all[i]));
        let mut value = 0u64;
        for digit in all {
            value = value.checked_mul(10)?.checked_add(u64::from(digit))?;
        }
        (!self.minus).then_some((value, self.part.len))
    }

    /// The same number as a count, where it is one.
    pub(super) fn count(&self) -> Option<u32> {
        self.scaled().filter(|s| s.1 == 0).and_then(|s| u32::try_from(s.0).ok())
    }
}

/// A bound and whether the number itself is out.
pub(super) type Bound = Option<(Decimal, bool)>;

/// What numbers may be.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Numbers {
    pub(super) integer: bool,
    pub(super) low: Bound,
    pub(super) high: Bound,
    /// A divisor, and by how many tens it was multiplied to make it whole.
    pub(super) divisor: Option<(u64, u8)>,
}

/// Where reading a number stands.
#[derive(Clone, Copy, Default)]
struct At {
    phase: u8,
    minus: bool,
    /// A digit other than 0 has come.
    some: bool,
    whole: u8,
    part: u8,
    /// The digits so far beside those of the bounds: 0 less, 1 same, 2 more.
    low: u8,
    high: u8,
    rest: u64,
}

const START: u8 = 0;
const MINUS: u8 = 1;
const ZERO: u8 = 2;
const WHOLE: u8 = 3;
const POINT: u8 = 4;
const PART: u8 = 5;
const E: u8 = 6;
const SIGN: u8 = 7;
const EXP1: u8 = 8;
const EXP2: u8 = 9;

impl At {
    fn pack(self) -> Key {
        let bytes =
            [self.phase, self.minus.into(), self.some.into(), self.whole, self.part, self.low, self.high, 0];
        [u64::from_le_bytes(bytes), self.rest, 0, 0, 0, 0, 0, 0, 0]
    }

    fn unpack(key: &Key) -> Self {
        let [phase, minus, some, whole, part, low, high, _] = key[0].to_le_bytes();
        Self { phase, minus: minus != 0, some: some != 0, whole, part, low, high, rest: key[1] }
    }
}

fn side(order: Ordering) -> u8 {
    (order as i8 + 1) as u8
}

/// Carries a comparison on by one digit.
fn follow(so_far: u8, digit: u8, bound: u8) -> u8 {
    if so_far == 1 { side(digit.cmp(&bound)) } else { so_far }
}

impl Numbers {
    /// Forgets what can no longer matter, so that fewer states differ.
    fn without_idle(&self, mut at: At) -> At {
        at.some |= !at.minus;
        if at.phase >= E {
            return At { low: 1, high: 1, whole: 0, part: 0, ..at };
        }
        if !self.is_bounded() && matches!(at.phase, POINT | PART) {
            at.whole = 0;
        }
        let (low, high) = self.sizes(at.minus).unwrap_or_default();
        at.low = if low.is_none() { 1 } else { at.low };
        at.high = if high.is_none() { 1 } else { at.high };
        at
    }

    fn is_bounded(&self) -> bool {
        self.low.is_some() || self.high.is_some() || self.divisor.is_some()
    }

    /// Bounds of the size of a number with this sign: least, most. `None` where
    /// there can be none.
    fn sizes(&self, minus: bool) -> Option<(Bound, Bound)> {
        let (near, far) = if minus { (self.high, self.low) } else { (self.low, self.high) };
        // `near` bounds the size from below where it has the sign, and not at
        // all where it has the other; for `far` that is the other way about.
        let same = |d: &Decimal| d.is_zero() || d.minus == minus;
        if far.is_some_and(|(d, _)| !same(&d)) {
            return None;
        }
        Some((near.filter(|(d, _)| d.minus == minus), far))
    }

    fn digit(&self, at: At, d: u8) -> Option<At> {
        let mut next = at;
        next.some |= d != 0;
        let sizes = self.sizes(at.minus)?;
        let index = usize::from(if at.phase == PART || at.phase == POINT { at.part } else { at.whole });
        let part = at.phase == PART || at.phase == POINT;
        let bound = |b: &Bound| {
            let digits = b.map(|(d, _)| if part { d.part } else { d.whole });
            digits.and_then(|d| d.get(index)).unwrap_or(0)
        };
        (next.low, next.high) = (follow(at.low, d, bound(&sizes.0)), follow(at.high, d, bound(&sizes.1)));
        if let Some((divisor, _)) = self.divisor {
            next.rest = (at.rest * 10 + u64::from(d)) % divisor;
        }
        if part {
            next.part += 1
        } else {
            next.whole += 1
        }
        let most = match (self.integer, self.is_bounded()) {
            (true, _) if self.divisor.is_none() => next.whole <= INTEGER_DIGITS,
            (true, _) => next.whole <= DIGITS,
            (false, true) => next.whole + next.part <= DIGITS,
            (false, false) => next.whole <= DIGITS && next.part <= DIGITS,
        };
        let scale = self.divisor.is_none_or(|(_, scale)| next.part <= scale);
        (most && scale).then_some(next)
    }

    /// All digits before the point have come: their number counts first.
    fn settle(&self, mut at: At) -> Option<At> {
        let sizes = self.sizes(at.minus)?;
        let long = |b: &Bound, so_far: u8| match b {
            Some((d, _)) if d.whole.len != at.whole => side(at.whole.cmp(&d.whole.len)),
            _ => so_far,
        };
        (at.low, at.high) = (long(&sizes.0, at.low), long(&sizes.1, at.high));
        Some(at)
    }

    /// Whether the number is one that is wanted.
    fn holds(&self, at: At) -> Option<bool> {
        let at = if matches!(at.phase, ZERO | WHOLE) { self.settle(at)? } else { at };
        let (low, high) = self.sizes(at.minus)?;
        let end = |b: &Bound, so_far: u8| match b {
            Some((d, _)) if so_far == 1 && d.part.len > at.part => 0,
            _ => so_far,
        };
        let above = low.is_none_or(|(_, out)| end(&low, at.low) > u8::from(out));
        let below = high.is_none_or(|(_, out)| end(&high, at.high) + u8::from(out) < 2);
        let whole = self
            .divisor
            .is_none_or(|(divisor, scale)| (at.part..scale).fold(at.rest, |r, _| r * 10 % divisor) == 0);
        // Minus zero is a number, but not one that anyone asks for.
        Some(above && below && whole && (!at.minus || at.some))
    }
}

impl Machine for Numbers {
    fn start(&self) -> Key {
        At { low: 1, high: 1, ..At::default() }.pack()
    }

    fn step(&self, key: &Key, b: u8) -> Option<Key> {
        let at = At::unpack(key);
        let to = |phase: u8| At { phase, ..at };
        let digit = b.wrapping_sub(b'0');
        let fraction = !self.integer && (self.divisor.is_none_or(|d| d.1 > 0));
        let next = match (at.phase, b) {
            (START, b'-') => At { minus: true, ..to(MINUS) },
            // A zero before the point is no digit of the number's size.
            (START | MINUS, b'0') if !(self.integer && at.minus) => to(ZERO),
            (START | MINUS, b'1'..=b'9') => At { phase: WHOLE, ..self.digit(to(WHOLE), digit)? },
            (WHOLE, b'0'..=b'9') => self.digit(at, digit)?,
            (ZERO | WHOLE, b'.') if fraction => At { phase: POINT, ..self.settle(at)? },
            (POINT | PART, b'0'..=b'9') => At { phase: PART, ..self.digit(at, digit)? },
            (ZERO | WHOLE | PART, b'e' | b'E') if !self.integer && !self.is_bounded() => to(E),
            (E, b'+' | b'-') => to(SIGN),
            (E | SIGN, b'0'..=b'9') => to(EXP1),
            (EXP1, b'0'..=b'9') => to(EXP2),
            _ => return None,
        };
        self.sizes(next.minus)?;
        Some(self.without_idle(next).pack())
    }

    fn accepts(&self, key: &Key) -> bool {
        let at = At::unpack(key);
        match at.phase {
            ZERO | WHOLE | PART => self.holds(at).unwrap_or(false),
            EXP1 | EXP2 => !at.minus || at.some,
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::format;
    use std::string::{String, ToString};

    fn accepts(numbers: &Numbers, text: &str) -> bool {
        let key = text.bytes().try_fold(numbers.start(), |key, b| numbers.step(&key, b));
        key.is_some_and(|key| numbers.accepts(&key))
    }

    /// `hundredths` as a decimal number.
    fn decimal(hundredths: i64) -> String {
        let sign = if hundredths < 0 { "-" } else { "" };
        let size = hundredths.unsigned_abs();
        let text = format!("{sign}{}.{:02}", size / 100, size % 100);
        text.trim_end_matches('0').trim_end_matches('.').to_string()
    }

    #[test]
    fn numbers_are_read_whatever_their_form() {
        for (a, b) in [
            ("100", "1e2"),
            ("0.05", "5E-2"),
            ("-12.5", "-125e-1"),
            ("0", "-0.00"),
            ("1", "1.0"),
            ("0", "0e9"),
        ] {
            assert_eq!(Decimal::read(a), Decimal::read(b), "{a} {b}");
        }
        for (text, want) in [("2.5", Some((25, 1))), ("-1", None), ("1e3", Some((1000, 0)))] {
            assert_eq!(Decimal::read(text).and_then(|d| d.scaled()), want, "{text}");
        }
        for text in ["1e41", "1e99999999999", "1234567890123456789012345"] {
            assert_eq!(Decimal::read(text), None);
        }
    }

    proptest! {
        #[test]
        fn bounds_are_kept(
            low in prop::option::of(-2000i64..2000),
            high in prop::option::of(-2000i64..2000),
            out in any::<(bool, bool)>(),
            integer: bool,
            divisor in prop::option::of(1u64..60),
            values in prop::collection::vec(-3000i64..3000, 1..200),
        ) {
            let bound = |b: Option<i64>, out| b.map(|b| (Decimal::read(&decimal(b)).unwrap(), out));
            // Hundredths: a divisor of 25 is 0.25.
            let numbers = Numbers {
                integer,
                low: bound(low, out.0),
                high: bound(high, out.1),
                divisor: divisor.and_then(|d| Decimal::read(&decimal(d as i64)).unwrap().scaled()),
            };
            for v in values {
                let above = low.is_none_or(|l| v > l || v == l && !out.0);
                let below = high.is_none_or(|h| v < h || v == h && !out.1);
                let whole = divisor.is_none_or(|d| v % d as i64 == 0) && (!integer || v % 100 == 0);
                let want = above && below && whole;
                prop_assert_eq!(accepts(&numbers, &decimal(v)), want, "{} in {:?}", decimal(v), numbers);
            }
        }

        #[test]
        fn orders_are_those_of_the_numbers(a in -5000i64..5000, b in -5000i64..5000) {
            let read = |v| Decimal::read(&decimal(v)).unwrap();
            prop_assert_eq!(read(a).compare(&read(b)), a.cmp(&b));
        }
    }
}
