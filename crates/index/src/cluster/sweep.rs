//! Takes the exact distances of all rows that match, where these are few.
//!
//! 1. Evaluate the filter for all leaves, or for the chunks that rare keywords are in, by columns
//!    alone. Neither codes nor rows are read.
//! 2. Take the distances of the rows that match.
//!
//! Matches lie anywhere in memory, and several pointers lead to each. So both steps follow the pointers
//! of later leaves and rows a step at a time while they work on earlier ones.

use vstream_vector::{Neighbor, TopK};

use super::leaf::{position, Leaf, COLUMN_STEPS};
use super::postings::ListedLeaf;
use super::scan::Origin;
use super::view::View;
use crate::filter::{Compiled, SUMMARY_STEPS};
use crate::probe::SearchStats;
use crate::rows::distance;

/// Leaves, or listed chunks, from one step of [`Leaf::prefetch_columns`] to the next.
const STRIDE: usize = 2;
/// Matching chunks whose heads, and whose rows, are prefetched ahead.
const HEADS_AHEAD: usize = 12;
const ROWS_AHEAD: usize = 6;
/// Leaves that a share of matches is estimated from.
const SAMPLED: usize = 24;

/// A chunk with lanes that match.
struct Match<'a> {
    leaf: &'a Leaf,
    /// Node of the leaf, and its place there; `None` if nobody knows.
    place: Option<(u32, u32)>,
    chunk: u32,
    mask: u32,
}

/// A filter, and the columns that it reads.
#[derive(Clone, Copy)]
pub(super) struct Swept<'a> {
    pub(super) filter: &'a Compiled,
    pub(super) columns: &'a [u16],
}

impl View<'_> {
    /// Offers every visible row that matches, unless more than `most` match; `None` then. Notes where
    /// the rows are that were among the nearest.
    pub(super) fn sweep(
        &self,
        query: &[f32],
        swept: Swept<'_>,
        most: u64,
        origins: &mut Vec<Origin>,
        out: &mut TopK,
    ) -> Option<SearchStats> {
        let listed = self.listed(swept.filter);
        let mut found = match &listed {
            Some(listed) => find_listed(listed, swept, most)?,
            None => self.find_all(swept, most)?,
        };
        let rows = self.scan_tail(query, Some(swept.filter), out);
        let leaves = found.chunk_by(|a, b| std::ptr::eq(a.leaf, b.leaf)).count();
        let rows = rows + self.measure_matches(query, &mut found, origins, out);
        Some(SearchStats { leaves, rows, exact: rows })
    }

    /// Every chunk with a match; `None` if there are more than `most` matches.
    fn find_all(&self, swept: Swept<'_>, most: u64) -> Option<Vec<Match<'_>>> {
        let tree = &self.root.tree;
        let mut places: Vec<(u32, u32)> = Vec::with_capacity(tree.leaves);
        for (node, number) in tree.nodes.iter().zip(0..) {
            places.extend((0..node.leaves.len() as u32).map(|child| (number, child)));
        }
        let leaf = |&(node, child): &(u32, u32)| &*tree.nodes[node as usize].leaves[child as usize];
        if self.summaries_exclude_many(swept.filter) {
            let mut at = 0;
            let all = places.clone();
            places.retain(|place| {
                at += 1;
                for step in 0..SUMMARY_STEPS {
                    if let Some(next) = all.get(at + (SUMMARY_STEPS - step) * STRIDE) {
                        leaf(next).summaries.prefetch(step, swept.columns);
                    }
                }
                leaf(place).summaries.may_match(swept.filter)
            });
        }
        let (mut found, mut matches) = (Vec::new(), 0);
        for (at, place) in places.iter().enumerate() {
            for step in 0..COLUMN_STEPS {
                if let Some(next) = places.get(at + (COLUMN_STEPS - step) * STRIDE) {
                    leaf(next).prefetch_columns(step, swept.columns, None);
                }
            }
            let (leaf, place) = (leaf(place), Some(*place));
            leaf.for_each_mask(swept.filter, |chunk, mask| {
                leaf.prefetch_chunk(chunk);
                matches += u64::from(mask.count_ones());
                found.push(Match { leaf, place, chunk: chunk as u32, mask });
            });
            if matches > most {
                return None;
            }
        }
        Some(found)
    }

    /// Takes the distances of the rows of some chunks; returns how many.
    fn measure_matches(
        &self,
        query: &[f32],
        found: &mut [Match<'_>],
        origins: &mut Vec<Origin>,
        out: &mut TopK,
    ) -> usize {
        let (placed, metric) = (self.placed(), self.shared.index.metric);
        let mut measured = 0;
        for at in 0..found.len() + ROWS_AHEAD {
            if let Some(later) = found.get(at + HEADS_AHEAD - ROWS_AHEAD) {
                if let Some(chunk) = later.leaf.open_chunk(later.chunk as usize) {
                    chunk.rows.prefetch_head();
                }
            }
            if let Some(next) = found.get_mut(at) {
                next.mask = match next.leaf.open_chunk(next.chunk as usize) {
                    Some(chunk) => {
                        let mask = next.mask & chunk.rows.published();
                        let mask = next.leaf.without_dead(chunk, mask, placed);
                        lanes(mask).for_each(|lane| chunk.rows.prefetch(lane));
                        mask
                    }
                    None => 0,
                };
            }
            let Some(now) = at.checked_sub(ROWS_AHEAD).and_then(|at| found.get(at)) else {
                continue;
            };
            if now.mask == 0 {
                continue;
            }
            let rows = &now.leaf.chunk(now.chunk as usize).rows;
            for lane in lanes(now.mask).filter(|&lane| rows.is_visible(lane, placed)) {
                measured += 1;
                let distance = distance(metric, query, rows.vector(lane));
                if distance > out.bound() {
                    continue;
                }
                let key = rows.key(lane);
                if let Some((node, child)) = now.place {
                    let row = position(now.chunk as usize, lane);
                    origins.push(Origin { id: key.id, node, child, row });
                }
                out.offer(Neighbor { distance, id: key.id, version: key.version });
            }
        }
        measured
    }

    /// Share of the rows of some leaves that matches. The leaves are the same for every filter.
    pub(super) fn sampled_share(&self, filter: &Compiled) -> f64 {
        let (leaves, rows) = (self.root.tree.leaves, self.shared.rows());
        let (mut matches, mut sampled) = (0, 0);
        for leaf in self.sampled_leaves() {
            sampled += 1;
            leaf.for_each_mask(filter, |chunk, mask| {
                let mask = match mask {
                    // Only a condition that holds for rows without values holds for all lanes.
                    u32::MAX => leaf.open_chunk(chunk).map_or(0, |chunk| chunk.rows.published()),
                    _ => mask,
                };
                matches += mask.count_ones();
            });
        }
        if sampled == 0 {
            return 1.0;
        }
        let usual = rows as f64 / leaves as f64;
        (f64::from(matches) / (usual * f64::from(sampled)).max(1.0)).min(1.0)
    }

    /// True if summaries leave out at least half of the leaves, by a sample.
    fn summaries_exclude_many(&self, filter: &Compiled) -> bool {
        let may_match = |leaf: &&Leaf| leaf.summaries.may_match(filter);
        2 * self.sampled_leaves().filter(may_match).count() <= self.sampled_leaves().count()
    }

    /// Leaves from all parts of the tree, as many of each node as of any other.
    fn sampled_leaves(&self) -> impl Iterator<Item = &Leaf> {
        let tree = &self.root.tree;
        let count = SAMPLED.min(tree.leaves);
        (0..count).map(move |number| {
            let leaves = &tree.nodes[number * tree.nodes.len() / count].leaves;
            // The golden ratio spreads the leaves over their nodes, however many are of one node.
            let part = (number as f64 * 0.618_034).fract();
            &*leaves[(part * leaves.len() as f64) as usize]
        })
    }
}

/// Those of the listed chunks that have a match; `None` if there are more than `most` matches.
fn find_listed<'a>(
    listed: &'a [ListedLeaf],
    swept: Swept<'_>,
    most: u64,
) -> Option<Vec<Match<'a>>> {
    let chunks = |(leaf, chunks): &'a ListedLeaf| chunks.iter().map(move |&chunk| (leaf, chunk));
    let chunks: Vec<_> = listed.iter().flat_map(chunks).collect();
    let (mut found, mut matches) = (Vec::new(), 0);
    for (at, &(leaf, chunk)) in chunks.iter().enumerate() {
        for step in 0..COLUMN_STEPS {
            if let Some((next, chunk)) = chunks.get(at + (COLUMN_STEPS - step) * STRIDE) {
                next.prefetch_columns(step, swept.columns, Some(usize::from(*chunk)));
            }
        }
        let mask = leaf.mask_of(swept.filter, usize::from(chunk));
        if mask == 0 {
            continue;
        }
        leaf.prefetch_chunk(usize::from(chunk));
        matches += u64::from(mask.count_ones());
        if matches > most {
            return None;
        }
        found.push(Match { leaf, place: None, chunk: u32::from(chunk), mask });
    }
    Some(found)
}

/// The lanes of a mask, ascending.
fn lanes(mut mask: u32) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        let lane = (mask != 0).then(|| mask.trailing_zeros() as usize);
        mask &= mask.wrapping_sub(1);
        lane
    })
}
