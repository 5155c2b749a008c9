//! Assigns shards to partitions by Flink's rule for key groups.

use std::ops::Range;

/// The partition that holds `shard` when `parallelism` partitions divide `shards` shards.
///
/// This is Flink's `computeOperatorIndexForKeyGroup`: each partition holds a contiguous range, and
/// the sizes of the ranges differ by at most one. `shard < shards` and `1 ≤ parallelism ≤ shards`.
/// The result is below `parallelism`.
#[inline]
pub fn partition_of_shard(shard: u16, shards: u16, parallelism: u32) -> u32 {
    (u64::from(shard) * u64::from(parallelism) / u64::from(shards)) as u32
}

/// The shards that [`partition_of_shard`] assigns to `partition`.
#[inline]
pub(crate) fn shards_of_partition(partition: u32, shards: u16, parallelism: u32) -> Range<usize> {
    let start = |p: u32| (u64::from(p) * u64::from(shards)).div_ceil(u64::from(parallelism));
    start(partition) as usize..start(partition + 1) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_the_inverse_of_the_rule_at_every_parallelism() {
        for shards in [1u16, 5, 100, 128, 1024] {
            for parallelism in 1..=u32::from(shards) {
                let mut next = 0;
                for partition in 0..parallelism {
                    let range = shards_of_partition(partition, shards, parallelism);
                    assert_eq!(range.start, next, "{shards} shards, {parallelism} partitions");
                    assert!(!range.is_empty());
                    next = range.end;
                    for shard in range {
                        assert_eq!(
                            partition_of_shard(shard as u16, shards, parallelism),
                            partition
                        );
                    }
                }
                assert_eq!(next, usize::from(shards));
            }
        }
    }
}
