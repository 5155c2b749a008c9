//! A Bloom filter over the groups of a run: 10 bits per group, so that a run without the group is
//! passed over without a read in 99 of 100 cases.
//!
//! The hash of a group is evenly spread, so seven probes are taken from it by double hashing.

use crate::accept::GroupHash;

const BITS_PER_GROUP: u64 = 10;
const PROBES: u64 = 7;

/// An empty filter for `groups` groups.
pub(crate) fn empty(groups: u64) -> Vec<u8> {
    vec![0; (groups * BITS_PER_GROUP).div_ceil(8).max(8) as usize]
}

fn probes(filter_bytes: usize, group: GroupHash) -> impl Iterator<Item = (usize, u8)> {
    let (one, two) = (group as u64, (group >> 64) as u64 | 1);
    let bits = filter_bytes as u64 * 8;
    (0..PROBES).map(move |i| {
        // The high bits of a product are as evenly spread as a remainder, and cheaper.
        let mixed = one.wrapping_add(two.wrapping_mul(i));
        let bit = ((u128::from(mixed) * u128::from(bits)) >> 64) as u64;
        ((bit / 8) as usize, 1 << (bit % 8))
    })
}

/// Adds a group.
pub(crate) fn add(filter: &mut [u8], group: GroupHash) {
    for (byte, bit) in probes(filter.len(), group) {
        filter[byte] |= bit;
    }
}

/// False if the group was not added.
pub(crate) fn may_hold(filter: &[u8], group: GroupHash) -> bool {
    filter.is_empty() || probes(filter.len(), group).all(|(byte, bit)| filter[byte] & bit != 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use xxhash_rust::xxh3::xxh3_128;

    #[test]
    fn holds_all_groups_and_few_others() {
        let hash = |n: u32| xxh3_128(&n.to_le_bytes());
        let mut filter = empty(10_000);
        (0..10_000).for_each(|n| add(&mut filter, hash(n)));
        assert!((0..10_000).all(|n| may_hold(&filter, hash(n))));
        let others = (10_000..110_000).filter(|&n| may_hold(&filter, hash(n))).count();
        assert!(others < 1500, "{others} of 100,000 groups are taken for held ones");
    }
}
