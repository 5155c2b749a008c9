//! The rows of one moment: walked over, or searched in stages together with other places.

use std::sync::Arc;

use vstream_vector::{Neighbor, TopK};

use super::scan::{ClusterScratch, Found};
use super::tree::Root;
use super::view::View;
use super::Shared;
use crate::publish::{Guard, Rooted};
use crate::rows::{RowKey, Sequence, VectorRef};
use crate::scratch::Scratch;
use crate::stages::sort_candidates;
use crate::traits::{Coded, PinnedRows, Probe, Refine, Refined, SearchStats, Staged};

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

    fn view(&self) -> View<'_> {
        View { shared: &self.shared, root: &self.root, pin: self.pin }
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
                chunk.rows.for_each_row(self.view().placed(), show);
            }
        }
        let tail = self.view().tail();
        self.root.tail.for_each_row(tail, &mut |key, row| visit(None, key, row));
    }
}

impl Staged for Pinned {
    fn sequence(&self) -> u64 {
        self.pin
    }

    fn leaves(&self) -> usize {
        self.root.tree.leaves
    }

    fn search(&self, probe: &Probe<'_>, scratch: &mut Scratch, out: &mut TopK) -> SearchStats {
        self.view().search(probe, scratch.buffers(), out)
    }

    fn loose(&self, vector: &[f32], out: &mut TopK) -> usize {
        self.view().scan_tail(vector, out)
    }

    fn rank(&self, vector: &[f32], probes: usize, scratch: &mut Scratch, costs: &mut Vec<f32>) {
        let ClusterScratch { query, state, .. } = scratch.buffers();
        query.rotate(&self.shared.rotation, vector);
        self.shared.rank(&self.root.tree, query, probes, state);
        costs.extend(state.ranked.iter().map(|leaf| leaf.cost));
    }

    fn scan(
        &self,
        leaves: usize,
        keep: usize,
        scratch: &mut Scratch,
        found: &mut Vec<Coded>,
    ) -> usize {
        let ClusterScratch { query, state, candidates, .. } = scratch.buffers();
        state.ranked.truncate(leaves);
        let (view, mut stats) = (self.view(), SearchStats::default());
        // Some of the best may have come after the moment.
        let mut kept = keep.saturating_add(keep / 8);
        loop {
            let is_cut = view.scan(query, kept, state, candidates, &mut stats);
            view.drop_hidden(state, candidates);
            if !is_cut || candidates.len() >= keep {
                break;
            }
            kept = kept.saturating_mul(2);
        }
        sort_candidates(candidates);
        let coded = candidates.iter();
        found.extend(coded.map(|row| Coded { estimate: row.estimate, leaf: row.leaf }));
        stats.rows
    }

    fn refine(
        &self,
        vector: &[f32],
        which: Refined,
        scratch: &mut Scratch,
        out: &mut TopK,
        seen: &mut dyn FnMut(usize, Neighbor),
    ) -> usize {
        let ClusterScratch { query, state, candidates, .. } = scratch.buffers();
        let found = Found { vector, rotated: query, candidates };
        let refine = match which {
            Refined::Best(most) => (Refine::Likely, most),
            Refined::Each(most) => (Refine::Each, most),
        };
        self.view().refine(found, refine, state, out, seen).exact
    }

    fn exact(&self, vector: &[f32], out: &mut TopK) -> SearchStats {
        self.view().exact(vector, out)
    }

    fn within(&self, vector: &[f32], radius: f32, out: &mut Vec<Neighbor>) -> SearchStats {
        self.view().search_radius(vector, radius, out)
    }
}
