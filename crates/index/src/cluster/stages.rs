//! The rows of one moment: walked over, or searched in stages together with other places.

use std::sync::Arc;

use vstream_vector::{Neighbor, TopK};

use super::search::{leaf_of, sort};
use super::tree::Root;
use super::Shared;
use crate::flat::scan_exactly;
use crate::publish::{Guard, Rooted};
use crate::rows::{distance, RowKey, Sequence, VectorRef, Visible};
use crate::scratch::Scratch;
use crate::search::{Coded, PinnedRows, SearchStats, Staged};

/// What a reader has pinned.
pub(super) struct Pinned {
    shared: Arc<Shared>,
    root: Arc<Rooted<Root>>,
    pin: Sequence,
}

impl Pinned {
    /// * `at`: a sequence of the index that takes the writes, if this one takes none any more.
    pub(super) fn new(shared: &Arc<Shared>, at: Option<Sequence>) -> Pinned {
        let (root, pin) = shared.published.pin();
        let root = Guard::into_inner(root);
        Pinned { shared: shared.clone(), root, pin: at.unwrap_or(pin) }
    }

    fn tail(&self) -> Visible {
        Visible { inserted: self.pin, deleted: self.pin }
    }

    fn placed(&self) -> Visible {
        Visible { inserted: self.root.placed, deleted: self.pin }
    }
}

impl PinnedRows for Pinned {
    fn for_each_row(&self, visit: &mut dyn FnMut(RowKey, VectorRef<'_>)) {
        self.for_each_leaf_row(&mut |_, key, vector| visit(key, vector));
    }

    fn for_each_leaf_row(&self, visit: &mut dyn FnMut(Option<u32>, RowKey, VectorRef<'_>)) {
        for (leaf, number) in self.root.tree.leaves().zip(0..) {
            for chunk in leaf.chunks() {
                let show = &mut |key, row: VectorRef<'_>| visit(Some(number), key, row);
                chunk.rows.for_each_row(self.placed(), show);
            }
        }
        self.root.tail.for_each_row(self.tail(), &mut |key, row| visit(None, key, row));
    }
}

impl Staged for Pinned {
    fn sequence(&self) -> u64 {
        self.pin
    }

    fn loose(&self, vector: &[f32], out: &mut TopK) -> usize {
        scan_exactly(&self.root.tail, self.shared.index, vector, self.tail(), out)
    }

    fn rank(&self, vector: &[f32], probes: usize, scratch: &mut Scratch, costs: &mut Vec<f32>) {
        self.shared.prepare(vector, &mut scratch.cluster);
        self.shared.rank(&self.root.tree, probes, &mut scratch.cluster);
        costs.extend(scratch.cluster.ranked.iter().map(|leaf| leaf.cost));
    }

    fn scan(
        &self,
        leaves: usize,
        keep: usize,
        scratch: &mut Scratch,
        found: &mut Vec<Coded>,
    ) -> usize {
        let scratch = &mut scratch.cluster;
        scratch.ranked.truncate(leaves);
        let mut stats = SearchStats::default();
        // An eighth of the best may be those of dead rows, as in a search of this place alone.
        self.shared.scan(&self.root, keep.saturating_add(keep / 8), scratch, &mut stats);
        let (ranked, placed) = (&scratch.ranked, self.placed());
        scratch.candidates.retain(|candidate| {
            let leaf = leaf_of(&self.root, ranked[candidate.leaf as usize]);
            let rows = &leaf.chunk(candidate.chunk as usize).rows;
            rows.is_visible(candidate.lane as usize, placed)
        });
        sort(&mut scratch.candidates);
        let coded = scratch.candidates.iter();
        found.extend(coded.map(|row| Coded { estimate: row.estimate, leaf: row.leaf }));
        stats.rows
    }

    fn refine(
        &self,
        vector: &[f32],
        most: usize,
        scratch: &mut Scratch,
        out: &mut TopK,
        seen: &mut dyn FnMut(usize, u64),
    ) {
        let scratch = &scratch.cluster;
        for (at, candidate) in scratch.candidates.iter().take(most).enumerate() {
            let leaf = leaf_of(&self.root, scratch.ranked[candidate.leaf as usize]);
            let rows = &leaf.chunk(candidate.chunk as usize).rows;
            let lane = candidate.lane as usize;
            let distance = distance(self.shared.index.metric, vector, rows.vector(lane));
            let key = rows.key(lane);
            seen(at, key.id);
            if distance <= out.bound() {
                out.offer(Neighbor { distance, id: key.id, version: key.version });
            }
        }
    }

    fn exact(&self, vector: &[f32], out: &mut TopK) -> SearchStats {
        let mut stats = SearchStats::default();
        stats.rows += self.loose(vector, out);
        stats.exact = stats.rows;
        self.shared.exact(&self.root, vector, self.placed(), &mut stats, out);
        stats
    }

    fn within(&self, vector: &[f32], radius: f32, out: &mut Vec<Neighbor>) -> SearchStats {
        self.shared.within(&self.root, self.pin, (vector, radius), out)
    }
}
