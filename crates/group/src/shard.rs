//! Shards: equal ranges of the hashes of groups. A run lies in the order of hashes, so a shard is one
//! stretch of every run. A store never changes its number of shards, which is a power of two: the
//! shard of a group is the first bits of its hash.

use std::ops::RangeInclusive;

use crate::accept::{group_hash, GroupHash};
use crate::error::Error;

/// Number of shards of a store that names none.
pub const SHARDS: u16 = 128;
/// Largest number of shards.
pub const SHARDS_MAX: u16 = 4096;

/// The shard of a group in stores of this seed and this number of shards, a power of two up to
/// [`SHARDS_MAX`]. Errors: `BadGroup`.
pub fn shard_of(group: &str, seed: u64, shards: u16) -> Result<u16, Error> {
    Ok(shard(group_hash(group, seed)?, shards))
}

/// True for 1, 2, 4 and so on to [`SHARDS_MAX`].
pub(crate) fn is_number_of_shards(shards: u16) -> bool {
    shards.is_power_of_two() && shards <= SHARDS_MAX
}

fn shard(hash: GroupHash, shards: u16) -> u16 {
    // A single shard needs no bits, and a shift by all bits must give 0.
    hash.checked_shr(shift(shards)).unwrap_or(0) as u16
}

/// Bits of a hash below its shard.
fn shift(shards: u16) -> u32 {
    GroupHash::BITS - shards.trailing_zeros()
}

/// Some neighbouring shards of a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ShardRange {
    first: u16,
    last: u16,
    /// Shards of the store.
    shards: u16,
}

impl ShardRange {
    /// All shards, whatever their number.
    pub(crate) const ALL: ShardRange = ShardRange { first: 0, last: 0, shards: 1 };

    /// All shards of a store. Errors: `Invalid` if `shards` is no power of two up to
    /// [`SHARDS_MAX`].
    pub fn all(shards: u16) -> Result<ShardRange, Error> {
        ShardRange::new(0..=shards.saturating_sub(1), shards)
    }

    /// Some of the `shards` shards of a store. Errors: `Invalid` if the range is empty or leaves
    /// them, and as [`ShardRange::all`].
    pub fn new(range: RangeInclusive<u16>, shards: u16) -> Result<ShardRange, Error> {
        let (first, last) = range.into_inner();
        if !is_number_of_shards(shards) {
            let what = format!("{shards} shards: use a power of two up to {SHARDS_MAX}.");
            return Err(Error::invalid(what));
        }
        if first > last || last >= shards {
            let what = format!("Shards {first} to {last}: a shard is 0 to {}.", shards - 1);
            return Err(Error::invalid(what));
        }
        Ok(ShardRange { first, last, shards })
    }

    /// The first shard.
    pub fn first(self) -> u16 {
        self.first
    }

    /// The last shard.
    pub fn last(self) -> u16 {
        self.last
    }

    /// Number of shards of the store.
    pub fn shards(self) -> u16 {
        self.shards
    }

    /// True if the shard is one of these.
    pub fn contains(self, shard: u16) -> bool {
        (self.first..=self.last).contains(&shard)
    }

    /// True if a group with this hash lies in one of these shards.
    pub(crate) fn holds(self, hash: GroupHash) -> bool {
        self.contains(shard(hash, self.shards))
    }

    /// The shards that are in both, which are ranges of one number of shards; `None` if there are
    /// none.
    pub(crate) fn and(self, other: ShardRange) -> Option<ShardRange> {
        assert_eq!(self.shards, other.shards, "ranges of two numbers of shards");
        let both = self.first.max(other.first)..=self.last.min(other.last);
        ShardRange::new(both, self.shards).ok()
    }

    /// The least hash of these shards.
    pub(crate) fn least(self) -> GroupHash {
        GroupHash::from(self.first).checked_shl(shift(self.shards)).unwrap_or(0)
    }

    /// True if the hash is greater than those of these shards.
    pub(crate) fn is_before(self, hash: GroupHash) -> bool {
        shard(hash, self.shards) > self.last
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shard_is_a_range_of_hashes() {
        for shards in [8, 128, 1024, 4096] {
            let range = ShardRange::new(3..=5, shards).unwrap();
            let next = ShardRange::new(6..=6, shards).unwrap().least();
            let least = range.least();
            assert!(range.holds(least) && range.holds(next - 1));
            assert!(!range.holds(least - 1) && !range.holds(next));
            assert!(range.is_before(next) && !range.is_before(next - 1));
            let all = ShardRange::all(shards).unwrap();
            assert!(all.holds(0) && all.holds(GroupHash::MAX) && !all.is_before(GroupHash::MAX));
        }
        assert!(ShardRange::ALL.holds(0) && ShardRange::ALL.holds(GroupHash::MAX));
        assert_eq!(ShardRange::ALL.least(), 0);
    }

    #[test]
    fn ranges_meet_where_both_are() {
        for shards in [128, 1024] {
            let range = |first, last| ShardRange::new(first..=last, shards).unwrap();
            assert_eq!(range(0, 63).and(range(42, 90)), Some(range(42, 63)));
            assert_eq!(range(0, 41).and(range(42, 90)), None);
            assert!(ShardRange::new(RangeInclusive::new(5, 4), shards).is_err());
            assert!(ShardRange::new(0..=shards, shards).is_err());
        }
    }

    #[test]
    fn a_number_of_shards_is_a_power_of_two() {
        for shards in [0, 100, 129, 8192, u16::MAX] {
            let error = ShardRange::all(shards).unwrap_err();
            assert!(error.to_string().contains("power of two up to 4096"), "{error}");
        }
    }

    #[test]
    fn names_spread_over_all_shards_and_more_shards_divide_those_of_fewer() {
        let mut groups = [0u32; SHARDS as usize];
        for user in 0..12_800 {
            let name = format!("user-{user}");
            let shard = shard_of(&name, 42, SHARDS).unwrap();
            groups[usize::from(shard)] += 1;
            assert_eq!(shard_of(&name, 42, 1024).unwrap() / 8, shard);
            assert_eq!(shard_of(&name, 42, 4096).unwrap() / 32, shard);
        }
        let (least, most) = (groups.iter().min().unwrap(), groups.iter().max().unwrap());
        assert!(*least > 60 && *most < 145, "{least} to {most} groups per shard");
    }
}
