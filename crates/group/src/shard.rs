//! Shards: equal ranges of the hashes of groups. A run lies in the order of hashes, so a shard is one
//! stretch of every run.

use crate::accept::{group_hash, GroupHash};
use crate::error::Error;

/// Number of shards, a power of two.
pub const SHARDS: u16 = 128;

/// Bits of a hash below its shard.
const SHIFT: u32 = GroupHash::BITS - SHARDS.trailing_zeros();

/// The shard of a group, 0 to [`SHARDS`] - 1, in stores of this seed. Errors: `BadGroup`.
pub fn shard_of(group: &str, seed: u64) -> Result<u16, Error> {
    Ok(shard(group_hash(group, seed)?))
}

fn shard(hash: GroupHash) -> u16 {
    (hash >> SHIFT) as u16
}

/// Some neighbouring shards.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ShardRange {
    first: u16,
    last: u16,
}

impl ShardRange {
    /// All shards.
    pub const ALL: ShardRange = ShardRange { first: 0, last: SHARDS - 1 };

    /// The shards from `first` to `last`, both included. Errors: `Invalid` if there are none.
    pub fn new(first: u16, last: u16) -> Result<ShardRange, Error> {
        if first > last || last >= SHARDS {
            let what = format!("Shards {first} to {last}: a shard is 0 to {}.", SHARDS - 1);
            return Err(Error::invalid(what));
        }
        Ok(ShardRange { first, last })
    }

    /// The first shard.
    pub fn first(self) -> u16 {
        self.first
    }

    /// The last shard.
    pub fn last(self) -> u16 {
        self.last
    }

    /// True if the shard is one of these.
    pub fn contains(self, shard: u16) -> bool {
        (self.first..=self.last).contains(&shard)
    }

    /// True if a group with this hash lies in one of these shards.
    pub(crate) fn holds(self, hash: GroupHash) -> bool {
        self.contains(shard(hash))
    }

    /// The shards that are in both; `None` if there are none.
    pub(crate) fn and(self, other: ShardRange) -> Option<ShardRange> {
        ShardRange::new(self.first.max(other.first), self.last.min(other.last)).ok()
    }

    /// The least hash of these shards.
    pub(crate) fn least(self) -> GroupHash {
        GroupHash::from(self.first) << SHIFT
    }

    /// True if the hash is greater than those of these shards.
    pub(crate) fn is_before(self, hash: GroupHash) -> bool {
        shard(hash) > self.last
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shard_is_a_range_of_hashes() {
        let range = ShardRange::new(3, 5).unwrap();
        let (least, next) = (range.least(), ShardRange::new(6, 6).unwrap().least());
        assert!(range.holds(least) && range.holds(next - 1));
        assert!(!range.holds(least - 1) && !range.holds(next));
        assert!(range.is_before(next) && !range.is_before(next - 1));
        assert!(ShardRange::ALL.holds(0) && ShardRange::ALL.holds(GroupHash::MAX));
    }

    #[test]
    fn ranges_meet_where_both_are() {
        let range = |first, last| ShardRange::new(first, last).unwrap();
        assert_eq!(range(0, 63).and(range(42, 90)), Some(range(42, 63)));
        assert_eq!(range(0, 41).and(range(42, 90)), None);
        assert!(ShardRange::new(5, 4).is_err() && ShardRange::new(0, SHARDS).is_err());
    }

    #[test]
    fn names_spread_over_all_shards() {
        let mut groups = [0u32; SHARDS as usize];
        for user in 0..12_800 {
            groups[usize::from(shard_of(&format!("user-{user}"), 42).unwrap())] += 1;
        }
        let (least, most) = (groups.iter().min().unwrap(), groups.iter().max().unwrap());
        assert!(*least > 60 && *most < 145, "{least} to {most} groups per shard");
    }
}
