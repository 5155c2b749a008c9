//! The assignment of cells to shards, with the resulting loads.

use crate::cells;
use crate::partition::{partition_of_shard, shards_of_partition};
use crate::template::Template;

/// An assignment of cells to shards, with the load of each shard and partition.
#[derive(Clone, Debug)]
pub(super) struct Layout<'a> {
    pub(super) loads: &'a [f64],
    pub(super) shards: u16,
    pub(super) parallelism: u32,
    pub(super) shard_of_cell: Vec<u16>,
    /// Load of each partition.
    pub(super) partitions: Vec<f64>,
    shard_loads: Vec<f64>,
}

impl<'a> Layout<'a> {
    pub(super) fn of_template(
        template: &Template,
        cells: &cells::Cells,
        loads: &'a [f64],
        parallelism: u32,
    ) -> Layout<'a> {
        let shards = template.shards();
        let shard_of_cell = (0..cells.len()).map(|cell| template.shard_of(cells.code(cell)));
        Layout::new(loads, shards, parallelism, shard_of_cell.collect())
    }

    pub(super) fn new(
        loads: &'a [f64],
        shards: u16,
        parallelism: u32,
        shard_of_cell: Vec<u16>,
    ) -> Layout<'a> {
        let mut partitions = vec![0.0; parallelism as usize];
        let mut shard_loads = vec![0.0; usize::from(shards)];
        for (&shard, load) in shard_of_cell.iter().zip(loads) {
            partitions[partition_of_shard(shard, shards, parallelism) as usize] += load;
            shard_loads[usize::from(shard)] += load;
        }
        Layout { loads, shards, parallelism, shard_of_cell, partitions, shard_loads }
    }

    pub(super) fn mean(&self) -> f64 {
        self.partitions.iter().sum::<f64>() / self.partitions.len() as f64
    }

    /// Load of the fullest partition divided by the mean.
    pub(super) fn ratio(&self) -> f64 {
        self.partitions.iter().copied().fold(0.0, f64::max) / self.mean()
    }

    /// Distance of the loads from the mean: the root of the sum of the squared differences, divided
    /// by the mean. Every move from a fuller partition to an emptier one makes it smaller, so
    /// planning ends.
    pub(super) fn deviation(&self) -> f64 {
        let mean = self.mean();
        self.partitions.iter().map(|load| (load / mean - 1.0).powi(2)).sum::<f64>().sqrt()
    }

    pub(super) fn partition(&self, cell: usize) -> usize {
        partition_of_shard(self.shard_of_cell[cell], self.shards, self.parallelism) as usize
    }

    pub(super) fn shards_of(&self, partition: usize) -> std::ops::Range<usize> {
        shards_of_partition(partition as u32, self.shards, self.parallelism)
    }

    /// Moves a cell to the least loaded shard of a partition.
    pub(super) fn move_cell(&mut self, cell: usize, partition: usize) {
        let from = self.partition(cell);
        let load = self.loads[cell];
        let least = self
            .shards_of(partition)
            .min_by(|&a, &b| self.shard_loads[a].total_cmp(&self.shard_loads[b]).then(a.cmp(&b)));
        let Some(to) = least else { return };
        self.partitions[from] -= load;
        self.partitions[partition] += load;
        self.shard_loads[usize::from(self.shard_of_cell[cell])] -= load;
        self.shard_loads[to] += load;
        self.shard_of_cell[cell] = to as u16;
    }

    /// Share of the load that changed its partition since `before`.
    pub(super) fn moved_since(&self, before: &Layout) -> f64 {
        let moved = (0..self.loads.len()).filter(|&c| self.partition(c) != before.partition(c));
        moved.map(|cell| self.loads[cell]).sum::<f64>() / self.loads.iter().sum::<f64>()
    }
}
