//! Counts the leaves that the segments of a collection share.

use std::collections::HashSet;

use vstream_segment::{Segment, SegmentKind};

use super::inspect::CollectionSummary;
use crate::tree::definer;

/// The leaves that the segments of a collection share.
///
/// Rows are those in the files, also those that are gone. Runs that a segment serves no more do not
/// count.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LeafCounts {
    /// Leaves that a segment of the collection defines.
    pub defined: u64,
    /// Runs of all leaves: the rows of a leaf in one segment are a run.
    pub runs: u64,
    /// Runs of each defined leaf.
    pub runs_per_leaf: Distribution,
    /// Rows of each defined leaf, in all its runs.
    pub rows_per_leaf: Distribution,
    /// Leaves whose segment is gone.
    pub left_over: LeftOver,
    /// By segment; `None` for one that was not counted: a graph, a flat segment, or one that was not
    /// opened.
    pub segments: Vec<Option<SegmentLeaves>>,
}

/// Leaves that no segment of the collection defines any more. Merges send their rows to others.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LeftOver {
    /// Number of such leaves.
    pub leaves: u64,
    /// Rows in their runs.
    pub rows: u64,
}

/// Leaves of one segment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SegmentLeaves {
    /// Leaves that the segment has rows of.
    pub runs: u64,
    /// Leaves among them that it defines.
    pub defined: u64,
}

/// A count of each of several leaves; zeros if there are none.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Distribution {
    /// Mean of the counts.
    pub mean: f64,
    /// The least count that 99 % of the leaves do not exceed.
    pub p99: u64,
    /// The largest count.
    pub most: u64,
}

impl Distribution {
    fn of(mut counts: Vec<u64>) -> Distribution {
        counts.sort_unstable();
        let Some(&most) = counts.last() else { return Distribution::default() };
        let mean = counts.iter().sum::<u64>() as f64 / counts.len() as f64;
        Distribution { mean, p99: counts[(counts.len() * 99).div_ceil(100) - 1], most }
    }
}

/// The rows of a leaf in one segment.
struct Run {
    leaf: u64,
    rows: u64,
}

impl CollectionSummary {
    /// Counts the leaves of opened segments.
    ///
    /// * `opened`: the file of each segment of this summary, in order; `None` for a graph, and for one
    ///   that was not opened. A leaf counts as defined if its segment is in the summary, opened or not.
    ///
    /// Cost: O(runs · log(runs)). No reads.
    pub fn count_leaves(&self, opened: &[Option<Segment>]) -> LeafCounts {
        let runs = self.segments.iter().zip(opened).map(|(info, segment)| {
            let segment = segment.as_ref().filter(|of| of.kind() == SegmentKind::Cluster)?;
            let is_served = |leaf: u32| {
                info.served.is_empty() || info.served.iter().any(|served| served.contains(&leaf))
            };
            let runs = (0..segment.leaves() as u32).filter(|&leaf| is_served(leaf));
            let runs = runs.map(|leaf| Run {
                // A file without numbers has leaves of its own.
                leaf: info.leaf(segment.leaf_number_from(info.first_leaf, leaf as usize)),
                rows: u64::from(segment.leaf_rows(leaf as usize)),
            });
            Some(runs.collect())
        });
        let files: Vec<u64> = self.segments.iter().map(|of| definer(of.first_leaf)).collect();
        count(&files, runs.collect())
    }
}

/// Counts the runs of segments.
///
/// * `files`: the number of each segment's file.
/// * `runs`: of each segment, in the same order.
fn count(files: &[u64], runs: Vec<Option<Vec<Run>>>) -> LeafCounts {
    let live: HashSet<u64> = files.iter().copied().collect();
    let segments = files.iter().zip(&runs).map(|(&file, runs)| {
        let runs = runs.as_ref()?;
        let defined = runs.iter().filter(|run| definer(run.leaf) == file).count() as u64;
        Some(SegmentLeaves { runs: runs.len() as u64, defined })
    });
    let mut counts = LeafCounts { segments: segments.collect(), ..LeafCounts::default() };
    let mut all: Vec<Run> = runs.into_iter().flatten().flatten().collect();
    all.sort_unstable_by_key(|run| run.leaf);
    counts.runs = all.len() as u64;
    let (mut runs_of, mut rows_of) = (Vec::new(), Vec::new());
    for leaf in all.chunk_by(|a, b| a.leaf == b.leaf) {
        let rows = leaf.iter().map(|run| run.rows).sum();
        if live.contains(&definer(leaf[0].leaf)) {
            runs_of.push(leaf.len() as u64);
            rows_of.push(rows);
        } else {
            counts.left_over.leaves += 1;
            counts.left_over.rows += rows;
        }
    }
    counts.defined = runs_of.len() as u64;
    counts.runs_per_leaf = Distribution::of(runs_of);
    counts.rows_per_leaf = Distribution::of(rows_of);
    counts
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::SegmentEntry;

    fn leaf(file: u64, at: u64) -> u64 {
        SegmentEntry { number: file, ..SegmentEntry::default() }.first_leaf() + at
    }

    fn run(leaf: u64, rows: u64) -> Run {
        Run { leaf, rows }
    }

    #[test]
    fn runs_of_a_leaf_are_counted_together() {
        // File 1 is gone, 2 defines two leaves, 3 has runs of both and one of 1, 4 was not opened.
        let second = vec![run(leaf(2, 0), 10), run(leaf(2, 1), 20)];
        let third = vec![run(leaf(1, 7), 5), run(leaf(2, 0), 1), run(leaf(4, 0), 3)];
        let counts = count(&[2, 3, 4], vec![Some(second), Some(third), None]);
        assert_eq!((counts.defined, counts.runs), (3, 5));
        assert_eq!(counts.left_over, LeftOver { leaves: 1, rows: 5 });
        let expected = [Some((2, 2)), Some((3, 0)), None];
        let expected = expected.map(|of| of.map(|(runs, defined)| SegmentLeaves { runs, defined }));
        assert_eq!(counts.segments, expected);
        assert_eq!(counts.runs_per_leaf, Distribution { mean: 4.0 / 3.0, p99: 2, most: 2 });
        assert_eq!(counts.rows_per_leaf, Distribution { mean: 34.0 / 3.0, p99: 20, most: 20 });
    }

    #[test]
    fn a_percentile_is_one_of_the_counts() {
        assert_eq!(Distribution::of(Vec::new()), Distribution::default());
        assert_eq!(Distribution::of((1..=200).collect()).p99, 198);
        assert_eq!(Distribution::of(vec![3]), Distribution { mean: 3.0, p99: 3, most: 3 });
    }
}
