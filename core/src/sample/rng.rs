//! Random numbers that are the same everywhere.

/// PCG32 (XSH-RR 64/32) of M. E. O'Neill, "PCG: A Family of Simple Fast
/// Space-Efficient Statistically Good Algorithms for Random Number
/// Generation", 2014: 64 bits of state, integer arithmetic only.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pcg32 {
    state: u64,
}

impl Pcg32 {
    const MULTIPLIER: u64 = 6_364_136_223_846_793_005;
    /// Selects the sequence, and must be odd: number 54, as in the author's
    /// demonstration, whose output we test against.
    const INCREMENT: u64 = (54 << 1) | 1;

    /// The sequence that begins with `seed`.
    pub fn new(seed: u64) -> Self {
        let mut rng = Self { state: 0 };
        rng.next_u32();
        rng.state = rng.state.wrapping_add(seed);
        rng.next_u32();
        rng
    }

    /// The next 32 random bits.
    pub fn next_u32(&mut self) -> u32 {
        let old = self.state;
        self.state = old.wrapping_mul(Self::MULTIPLIER).wrapping_add(Self::INCREMENT);
        let mixed = (((old >> 18) ^ old) >> 27) as u32;
        mixed.rotate_right((old >> 59) as u32)
    }

    /// A number from 0 up to, never including, 1: a multiple of 2^-53, made of
    /// two draws.
    pub fn next_unit(&mut self) -> f64 {
        let high = u64::from(self.next_u32());
        let low = u64::from(self.next_u32());
        // Both the conversion and the scaling are exact.
        (((high << 32) | low) >> 11) as f64 * (1.0 / (1u64 << 53) as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::Pcg32;

    #[test]
    fn matches_the_authors_demonstration() {
        let mut rng = Pcg32::new(42);
        let want = [0xa15c_02b7, 0x7b47_f409, 0xba1d_3330, 0x83d2_f293, 0xbfa4_784b, 0xcbed_606e];
        assert_eq!(want.map(|_| rng.next_u32()), want);
    }

    #[test]
    fn units_are_golden_and_in_range() {
        let mut rng = Pcg32::new(42);
        // 0xa15c02b77b47f409 >> 11, over 2^53.
        assert_eq!(rng.next_unit().to_bits(), (5_677_329_748_551_934_f64 / (1u64 << 53) as f64).to_bits());
        let sum: f64 =
            (0..10_000).map(|_| rng.next_unit()).inspect(|u| assert!((0.0..1.0).contains(u))).sum();
        assert!((sum / 10_000.0 - 0.5).abs() < 0.01);
    }
}
