//! The writer's map from id to place.

use std::collections::HashMap;
use std::hash::{BuildHasher, Hasher};

/// A map keyed by the user's id.
pub(crate) type ById<V> = HashMap<u64, V, IdHash>;

/// Hashes an id with the finaliser of SplitMix64, seeded.
///
/// A fifth of the cost of the standard hash, which the profile of a stream of inserts showed. The
/// seed is drawn per map, so that ids cannot be chosen to collide.
#[derive(Clone, Debug)]
pub(crate) struct IdHash(u64);

impl Default for IdHash {
    fn default() -> IdHash {
        IdHash(std::hash::RandomState::new().hash_one(0u64))
    }
}

impl BuildHasher for IdHash {
    type Hasher = IdHasher;

    fn build_hasher(&self) -> IdHasher {
        IdHasher(self.0)
    }
}

/// The state of one hash.
pub(crate) struct IdHasher(u64);

impl Hasher for IdHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.write_u64(u64::from(byte));
        }
    }

    fn write_u64(&mut self, id: u64) {
        let mut z = self.0 ^ id;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        self.0 = z ^ (z >> 31);
    }
}

#[cfg(test)]
mod tests {
    use super::IdHash;
    use std::hash::BuildHasher;

    #[test]
    fn ids_in_sequence_and_in_steps_spread_over_high_and_low_bits() {
        let steps = [1u64, 2, 1 << 7, 1 << 20, 1 << 40, 0x0101_0101];
        for (step, seed) in steps.into_iter().flat_map(|step| (0..50).map(move |s| (step, s))) {
            let hash = IdHash(0x1234_5678_9abc_def1u64.wrapping_mul(seed));
            let (mut low, mut high) = ([0u32; 128], [0u32; 128]);
            for i in 0..12_800u64 {
                let bits = hash.hash_one(i.wrapping_mul(step));
                low[(bits % 128) as usize] += 1;
                high[(bits >> 57) as usize] += 1;
            }
            for count in low.into_iter().chain(high) {
                assert!((45..175).contains(&count), "seed {seed}, step {step}: {count} of 100");
            }
        }
    }
}
