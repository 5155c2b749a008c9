//! A small seeded generator of random numbers, the only one in the arithmetic crates.

/// SplitMix64: 64 bits of state, passes the usual statistical tests, never for secrets.
#[derive(Clone, Debug)]
pub struct SplitMix(
    /// The state; any seed is good.
    pub u64,
);

impl SplitMix {
    /// The next 64 random bits.
    #[expect(clippy::should_implement_trait, reason = "an endless stream needs no Option")]
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number in `0..n`, `n ≥ 1`; its bias, below `n / 2⁶⁴`, does not matter here.
    pub fn below(&mut self, n: usize) -> usize {
        (self.next() % n as u64) as usize
    }

    /// A float in `[0, 1)` with 24 random bits.
    pub fn unit(&mut self) -> f32 {
        (self.next() >> 40) as f32 / (1u64 << 24) as f32
    }

    /// A sample of the standard normal distribution (Box-Muller, one of the pair).
    pub fn normal(&mut self) -> f32 {
        let radius = (-2.0 * f64::from(1.0 - self.unit()).ln()).sqrt();
        (radius * (std::f64::consts::TAU * f64::from(self.unit())).cos()) as f32
    }
}
