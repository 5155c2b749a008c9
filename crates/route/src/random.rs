//! Seeded random numbers for this crate, beside those of [`SplitMix`].

use vstream_vector::SplitMix;

/// A generator for one `purpose` under one `seed`. Two purposes have different sequences.
pub(crate) fn seeded(seed: u64, purpose: u64) -> SplitMix {
    SplitMix(mix(seed ^ mix(purpose)))
}

/// The numbers `0..n` in random order.
pub(crate) fn permutation(random: &mut SplitMix, n: usize) -> Vec<u32> {
    let mut order: Vec<u32> = (0..n as u32).collect();
    for i in 0..n {
        let j = i + random.below(n - i);
        order.swap(i, j);
    }
    order
}

/// The finaliser of SplitMix64: a bijection of 64 bits in which each output bit depends on all
/// input bits.
pub(crate) fn mix(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}
