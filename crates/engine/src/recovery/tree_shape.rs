//! The shape of the leaves that the segments of a collection share, from their directories.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use vstream_segment::SegmentKind;
use vstream_store::{FileStore, Store, Syncing};

use crate::error::Error;
use crate::layout::segment_name;
use crate::tree::{definer, open_segment};
use crate::version::{Manifest, REMOTE};

/// Leaves, and the runs of their rows in segments. A leaf is *defined* while the segment that its number
/// names is live; queries count only such leaves as probes.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TreeShape {
    /// Defined leaves.
    pub leaves: usize,
    /// Runs of defined leaves.
    pub runs: usize,
    /// Runs per defined leaf.
    pub runs_per_leaf: LeafCounts,
    /// Rows per defined leaf in all segments, deleted ones included.
    pub rows_per_leaf: LeafCounts,
    /// Leaves that are left over: no live segment defines them.
    pub left_over: usize,
    /// Their rows, deleted ones included.
    pub left_over_rows: u64,
    /// Leaves that each segment defines, with the name of its file, in the order of the manifest.
    pub defined: Vec<(String, usize)>,
    /// Segments that were not read: graphs, those without leaves, and those in the remote level alone.
    pub not_read: usize,
}

/// Counts per leaf: mean, the least that 99 of 100 do not exceed, and the most; 0 without a leaf.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct LeafCounts {
    /// The mean.
    pub mean: f64,
    /// 99 of 100 leaves have no more.
    pub p99: u64,
    /// No leaf has more.
    pub most: u64,
}

impl LeafCounts {
    fn of(mut counts: Vec<u64>) -> LeafCounts {
        counts.sort_unstable();
        let (Some(&most), n) = (counts.last(), counts.len()) else { return LeafCounts::default() };
        let mean = counts.iter().sum::<u64>() as f64 / n as f64;
        LeafCounts { mean, p99: counts[(n * 99).div_ceil(100) - 1], most }
    }
}

/// Reads the directories of the segments of the durable engine in `dir`, open or not. Cost: some
/// 200 bytes per run at 128 dimensions. Errors: `Io`, also for a segment that a merge replaced meanwhile;
/// `Corrupt`, `Unsupported`.
pub fn inspect_tree(dir: &Path) -> Result<TreeShape, Error> {
    let store = FileStore::open_dir(dir, Syncing::Off)?;
    let manifest = Manifest::read(&store)?;
    let here: BTreeSet<String> = store.list("")?.into_iter().map(|entry| entry.name).collect();
    let has_remote = here.contains(REMOTE);
    let entries = &manifest.base.segments;
    let live: BTreeSet<u64> = entries.iter().map(|entry| entry.number).collect();
    // Runs and rows by number of the leaf.
    let mut leaves: BTreeMap<u64, (u64, u64)> = BTreeMap::new();
    let mut shape = TreeShape::default();
    for entry in entries {
        let name = segment_name(entry.number);
        if has_remote && !here.contains(&name) {
            shape.not_read += 1;
            continue;
        }
        let opened = open_segment(&store, entry, manifest.collection, None)?;
        let Some(segment) = opened.leaves().filter(|of| of.kind() == SegmentKind::Cluster) else {
            shape.not_read += 1;
            continue;
        };
        let mut defined = 0;
        for leaf in 0..segment.leaves() {
            let number = segment.leaf_number(leaf);
            defined += usize::from(definer(number) == entry.number);
            let (runs, rows) = leaves.entry(number).or_default();
            *runs += 1;
            *rows += u64::from(segment.leaf_rows(leaf));
        }
        shape.defined.push((name, defined));
    }
    let (mut runs_of, mut rows_of) = (Vec::new(), Vec::new());
    for (number, (runs, rows)) in leaves {
        if live.contains(&definer(number)) {
            runs_of.push(runs);
            rows_of.push(rows);
        } else {
            shape.left_over += 1;
            shape.left_over_rows += rows;
        }
    }
    (shape.leaves, shape.runs) = (runs_of.len(), runs_of.iter().sum::<u64>() as usize);
    (shape.runs_per_leaf, shape.rows_per_leaf) = (LeafCounts::of(runs_of), LeafCounts::of(rows_of));
    Ok(shape)
}

#[cfg(test)]
mod tests {
    use super::LeafCounts;

    #[test]
    fn the_largest_and_the_mean_are_those_of_the_counts() {
        assert_eq!(LeafCounts::of(Vec::new()), LeafCounts::default());
        assert_eq!(LeafCounts::of(vec![7]), LeafCounts { mean: 7.0, p99: 7, most: 7 });
        let counts: Vec<u64> = (1..=200).rev().collect();
        assert_eq!(LeafCounts::of(counts), LeafCounts { mean: 100.5, p99: 198, most: 200 });
    }
}
