//! Which partitions a query visits, given where its neighbours are expected.
//!
//! Partitions are ranked by the share of the neighbours that is expected in them; those with a part
//! of the nearest root cell come first whatever their share, and are always visited, so that a vector is
//! always found by itself.
//! The query visits them in this order while the shares of those before do not exceed a threshold.

use crate::partition::{partition_of_shard, shards_of_partition};

/// Partitions in the order of a query's interest. A buffer to be reused.
#[derive(Clone, Debug, Default)]
pub(crate) struct Ranking {
    /// Partitions, most promising first.
    order: Vec<u32>,
    /// Expected share in each partition.
    partition_shares: Vec<f32>,
    /// Sum of the shares of the partitions ranked before each; 0 for those that come first.
    before: Vec<f32>,
    /// Which partitions come first.
    required: Vec<bool>,
    shards: u16,
    parallelism: u32,
}

impl Ranking {
    /// Ranks the partitions at `parallelism`.
    ///
    /// * `shares`: expected share of each shard, ≥ 0, summing to about 1.
    /// * `nearest_shards`: shards of the nearest root cell, one or more.
    ///
    /// Cost: O(shards + parallelism · log parallelism). No allocation after the first use.
    pub(crate) fn rank(&mut self, shares: &[f32], nearest_shards: &[u16], parallelism: u32) {
        let Ranking { order, partition_shares, before, required, .. } = self;
        let shards = shares.len() as u16;
        partition_shares.clear();
        order.clear();
        for partition in 0..parallelism {
            let range = shards_of_partition(partition, shards, parallelism);
            partition_shares.push(shares[range].iter().sum());
            order.push(partition);
        }
        required.clear();
        required.resize(parallelism as usize, false);
        for &shard in nearest_shards {
            required[partition_of_shard(shard, shards, parallelism) as usize] = true;
        }
        order.sort_unstable_by(|&a, &b| {
            (required[b as usize])
                .cmp(&required[a as usize])
                .then(partition_shares[b as usize].total_cmp(&partition_shares[a as usize]))
                .then(a.cmp(&b))
        });
        before.clear();
        before.resize(parallelism as usize, 0.0);
        let mut sum = 0.0;
        for &partition in order.iter() {
            before[partition as usize] = if required[partition as usize] { 0.0 } else { sum };
            sum += partition_shares[partition as usize];
        }
        (self.shards, self.parallelism) = (shards, parallelism);
    }

    /// Share expected in the partitions ranked before the one that holds `shard`.
    pub(crate) fn before(&self, shard: u16) -> f32 {
        self.before[partition_of_shard(shard, self.shards, self.parallelism) as usize]
    }

    /// The partitions to visit, most promising first; at least one. A threshold of 1 visits all.
    pub(crate) fn visited(&self, threshold: f32) -> &[u32] {
        let stop = |&partition: &u32| self.before[partition as usize] <= threshold;
        let count = match threshold < 1.0 {
            true => self.order.partition_point(stop),
            false => self.order.len(),
        };
        &self.order[..count]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn partitions_are_visited_by_share_behind_the_one_of_the_nearest_cell() {
        let mut ranking = Ranking::default();
        ranking.rank(&[0.05, 0.15, 0.5, 0.3], &[0], 4);
        assert_eq!(ranking.visited(0.0), [0]);
        assert_eq!(ranking.visited(0.1), [0, 2]);
        assert_eq!(ranking.visited(0.6), [0, 2, 3]);
        assert_eq!(ranking.visited(1.0), [0, 2, 3, 1]);
        assert_eq!(ranking.before(2), 0.05);
        ranking.rank(&[0.05, 0.15, 0.5, 0.3], &[0], 2);
        assert_eq!(ranking.visited(0.1), [0]);
        assert_eq!(ranking.visited(0.2), [0, 1]);
    }
}
