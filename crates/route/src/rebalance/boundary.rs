//! Policy `boundary`: partitions in the order of the line, their right boundaries moved.

use super::layout::Layout;
use super::plan::Rebalance;

/// Moves each right boundary to where every partition has the mean, or as far towards it as may be
/// moved at once. A cell goes to the nearest shard of its new partition.
pub(super) fn shift<'a>(before: &Layout<'a>, limits: &Rebalance) -> Layout<'a> {
    let target = target_ends(before);
    let ascending = |cell: &usize| before.partition(cell - 1) <= before.partition(*cell);
    let in_order = (1..before.loads.len()).all(|cell| ascending(&cell));
    let old: Vec<usize> = (0..before.partitions.len())
        .map(|p| (0..before.loads.len()).filter(|&cell| before.partition(cell) <= p).count())
        .collect();
    let mut best = before.clone();
    // Halves of the way, until what moves is little enough; from any other order there is no way.
    let mut part = 1.0;
    for _ in 0..8 {
        let towards =
            |(&old, &target): (&usize, &usize)| old as f64 + (target as f64 - old as f64) * part;
        let ends: Vec<usize> = match in_order {
            true => old.iter().zip(&target).map(|ends| towards(ends).round() as usize).collect(),
            false => target.clone(),
        };
        best = cut(before, &ends);
        if !in_order || best.moved_since(before) <= limits.moved_max {
            return best;
        }
        part /= 2.0;
    }
    best
}

/// For each partition the number of cells up to its right boundary, if each had the mean.
fn target_ends(layout: &Layout) -> Vec<usize> {
    let mean = layout.mean();
    let (mut sum, mut ends) = (0.0, Vec::with_capacity(layout.partitions.len()));
    for (cell, load) in layout.loads.iter().enumerate() {
        // A cell belongs to the partition that its middle falls into.
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
