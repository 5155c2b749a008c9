//! Policy `boundary`: keeps the order of the partitions on the line and shifts their right
//! boundaries.

use super::layout::Layout;
use super::plan::Rebalance;

/// Shifts each right boundary towards the position that gives every partition the mean load, as far
/// as `moved_max` allows. A cell goes to the nearest shard of its new partition.
pub(super) fn shift<'a>(before: &Layout<'a>, limits: &Rebalance) -> Layout<'a> {
    let target = target_ends(before);
    let ascending = |cell: &usize| before.partition(cell - 1) <= before.partition(*cell);
    let in_order = (1..before.loads.len()).all(|cell| ascending(&cell));
    let old: Vec<usize> = (0..before.partitions.len())
        .map(|p| (0..before.loads.len()).filter(|&cell| before.partition(cell) <= p).count())
        .collect();
    let mut best = before.clone();
    // Halves the way until the moved load is within the limit. Without an order to start from, the
    // boundaries go to their targets at once.
    let mut fraction = 1.0;
    for _ in 0..8 {
        let towards = |(&old, &target): (&usize, &usize)| {
            old as f64 + (target as f64 - old as f64) * fraction
        };
        let ends: Vec<usize> = match in_order {
            true => old.iter().zip(&target).map(|ends| towards(ends).round() as usize).collect(),
            false => target.clone(),
        };
        best = cut(before, &ends);
        if !in_order || best.moved_since(before) <= limits.moved_max {
            return best;
        }
        fraction /= 2.0;
    }
    best
}

/// For each partition, the number of cells up to its right boundary if every partition had the mean
/// load.
fn target_ends(layout: &Layout) -> Vec<usize> {
    let mean = layout.mean();
    let (mut sum, mut ends) = (0.0, Vec::with_capacity(layout.partitions.len()));
    for (cell, load) in layout.loads.iter().enumerate() {
        // A cell belongs to the partition that holds the middle of its load.
        while ends.len() + 1 < layout.partitions.len()
            && sum + load / 2.0 >= mean * (ends.len() + 1) as f64
        {
            ends.push(cell);
        }
        sum += load;
    }
    ends.resize(layout.partitions.len(), layout.loads.len());
    ends
}

fn cut<'a>(before: &Layout<'a>, ends: &[usize]) -> Layout<'a> {
    let mut shard_of_cell = before.shard_of_cell.clone();
    let mut partition = 0;
    for (cell, shard) in shard_of_cell.iter_mut().enumerate() {
        while partition + 1 < ends.len() && cell >= ends[partition] {
            partition += 1;
        }
        let shards = before.shards_of(partition);
        *shard = usize::from(*shard).clamp(shards.start, shards.end - 1) as u16;
    }
    Layout::new(before.loads, before.shards, before.parallelism, shard_of_cell)
}
