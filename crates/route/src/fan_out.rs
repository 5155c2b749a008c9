//! Chooses the partitions that a query visits, from where its neighbours are expected.
//!
//! Each partition has an expected share of the query's neighbours. Partitions that hold a cell of
//! the nearest root cell come first, whatever their share, and the query always visits them. So a
//! stored vector is always found by itself. The other partitions follow by descending share. The
//! query visits partitions in this order until the shares of the visited ones exceed a threshold.

use crate::partition::{partition_of_shard, shards_of_partition};

/// The partitions in the order in which a query visits them. A buffer that queries reuse.
#[derive(Clone, Debug, Default)]
pub(crate) struct Ranking {
    /// Partitions, the required ones first, then by descending share.
    order: Vec<u32>,
    /// Expected share in each partition.
    partition_shares: Vec<f32>,
    /// For each partition, the sum of the shares of the partitions ranked before it. 0 for a
    /// required partition.
    before: Vec<f32>,
    /// For each partition, whether every query that is ranked must visit it.
    required: Vec<bool>,
    shards: u16,
    parallelism: u32,
}

impl Ranking {
    /// Ranks the partitions for one query.
    ///
    /// * `shares`: expected share of the neighbours in each shard, ≥ 0, with a sum of about 1.
    /// * `nearest_shards`: the shards of the nearest root cell, at least one.
    ///
    /// Cost: O(shards + parallelism · log parallelism). It allocates only on the first use.
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

    /// Sum of the shares of the partitions that are ranked before the one that holds `shard`.
    pub(crate) fn before(&self, shard: u16) -> f32 {
        self.before[partition_of_shard(shard, self.shards, self.parallelism) as usize]
    }

    /// The partitions to visit, in order, at least one. A threshold of 1 visits all.
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
