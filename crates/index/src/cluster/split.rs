//! LIRE: splits a leaf, or settles its rows around their present mean, and reassigns the rows for
//! which another leaf is now nearer.
//!
//! 1. Do 2-means over the living rows (`halves.rs`). A leaf that is rewritten has one side.
//! 2. A row of the old leaf whose old centroid was nearer than its new one may belong to a neighbour:
//!    compare it with the neighbours' centroids (first necessary condition).
//! 3. A row of a neighbouring leaf for which a new centroid is nearer than its own moves to the new
//!    leaf (second condition, checked on the `reassign_leaves` nearest leaves).
//!
//! Source: SPFresh (SOSP '23), section 3. Costs and the choice of 16 neighbours are measured: see
//! docs/design/index.md.

use std::sync::{Arc, Weak};

use vstream_quantize::rabitq::QueryTable;
use vstream_quantize::Form;
use vstream_vector::{kernels, Metric};

use super::batch::{alive_lanes, Batch};
use super::halves::two_sides;
use super::leaf::{Leaf, LeafId};
use super::place::{Code, Incoming};
use super::{Cluster, RowAddress};
use crate::rows::distance;

/// One job compares the rows of so many leaves with new centres.
const REASSIGNED_TOGETHER: usize = 4;

/// Squared distances count as equal if they differ by less than this part of the squared length of a
/// centroid. Leaves of equal rows have means that differ by rounding alone, and would otherwise pass
/// their rows to each other at every split.
const ROUNDING: f32 = 1e-11;

/// Leaves around new ones. A later batch compares their rows with the new centres; until then searches
/// find the rows where they are. The batch passes over leaves that are gone by then.
pub(super) struct Reassignment {
    from: Vec<Weak<Leaf>>,
    to: Vec<Weak<Leaf>>,
}

impl Cluster {
    /// Replaces a leaf by two.
    pub(super) fn split(&mut self, old: LeafId) {
        let neighbours = self.neighbours(old, self.settings.reassign_leaves);
        let (padded, seed) =
            (self.shared.rotation.padded(), self.shared.index.seed ^ self.sequence);
        self.resettle(old, &neighbours, &|rotated| two_sides(rotated, padded, seed));
        self.counts.splits += 1;
    }

    /// Copies the living rows of a leaf to a new one. The new leaf has the same centre, or the rows'
    /// present mean if a quarter as many rows as the leaf holds were deleted or replaced since.
    pub(super) fn rewrite(&mut self, old: LeafId) {
        self.counts.rewrites += 1;
        let (lost, looked, rows) = {
            let state = self.state(old);
            (state.lost, state.looked, state.rows)
        };
        if lost * 4 > rows {
            let padded = self.shared.rotation.padded();
            // The mean moves less than in a split, so half as many neighbours are enough.
            let neighbours = self.neighbours(old, self.settings.reassign_leaves / 2);
            self.resettle(old, &neighbours, &|rotated| vec![0; rotated.len() / padded]);
            return;
        }
        let (leaf, node) = self.take_leaf(old);
        let (center, centroid) = (leaf.center.clone(), leaf.centroid.clone());
        // Around the same centre it is the same leaf: rows of older images belong to it.
        let new = self.add_leaf(center, centroid, leaf.serial, node);
        self.replace_alike(node, old, new);
        self.copy_rows(&leaf, new);
        let state = self.state_mut(new);
        (state.lost, state.looked) = (lost, looked);
    }

    /// Copies the living rows of `from`, with their codes, to a leaf with the same centroid.
    fn copy_rows(&mut self, from: &Leaf, to: LeafId) {
        let padded = self.shared.rotation.padded();
        let has_fine = self.shared.second_look;
        self.state(to).leaf.widen(from.reach());
        from.for_each_block(|_, chunk, block, _| {
            // Each row's payload is an allocation of its own, whose count of owners the copy raises.
            alive_lanes(&chunk.rows).for_each(|lane| {
                self.ids.prefetch(chunk.rows.key(lane).id);
                chunk.rows.prefetch_cold(lane);
            });
            let rows = alive_lanes(&chunk.rows).map(|lane| Incoming {
                rows: &chunk.rows,
                lane,
                inserted: chunk.rows.inserted(lane),
                code: Code::Copied {
                    block,
                    lane,
                    fine: has_fine.then(|| chunk.fine_row(padded, lane)),
                },
            });
            self.append(to, rows);
        });
    }

    /// Replaces a leaf by one new leaf for each side of its living rows, and reassigns.
    ///
    /// * `divide`: the side of each rotated row; sides are numbered from 0 without a gap.
    fn resettle(
        &mut self,
        old: LeafId,
        neighbours: &[Arc<Leaf>],
        divide: &dyn Fn(&[f32]) -> Vec<u8>,
    ) {
        let (leaf, node) = self.take_leaf(old);
        let rows = Batch::of_leaf(&self.shared, &leaf);
        rows.ids().for_each(|id| self.ids.prefetch(id));
        let sides = divide(rows.all_rotated());
        let centers = rows.means(&sides, &leaf.center);
        let ids: Vec<LeafId> =
            centers.into_iter().map(|center| self.new_leaf(center, node)).collect();
        self.replace_child(node, old, &ids);
        let new: Vec<Arc<Leaf>> = ids.iter().map(|&id| self.state(id).leaf.clone()).collect();

        let mut near: Vec<(&Leaf, usize)> =
            neighbours.iter().map(|leaf| (&**leaf, self.room(leaf.id))).collect();
        let nothing = ROUNDING * kernels::norm_squared(&leaf.centroid);
        let mut groups: Vec<Vec<usize>> = vec![Vec::new(); ids.len()];
        let mut leavers: Vec<(LeafId, usize)> = Vec::new();
        for (row, &side) in sides.iter().enumerate() {
            let (side, rotated) = (usize::from(side), rows.rotated(row));
            let own = kernels::l2_squared(rotated, &new[side].centroid);
            let before = kernels::l2_squared(rotated, &leaf.centroid);
            let may_leave = before < own && own > nothing;
            let nearer = if may_leave { nearest(&mut near, rotated, own) } else { None };
            match nearer {
                Some(target) => leavers.push((target, row)),
                None => groups[side].push(row),
            }
        }
        for (id, group) in ids.into_iter().zip(groups) {
            self.append(id, group.into_iter().map(|row| rows.incoming(row, None)));
        }
        self.counts.moved += leavers.len() as u64;
        self.append_moved(&rows, leavers);
        for part in neighbours.chunks(REASSIGNED_TOGETHER) {
            let weak = |leaves: &[Arc<Leaf>]| leaves.iter().map(Arc::downgrade).collect();
            self.reassignments.push_back(Reassignment { from: weak(part), to: weak(&new) });
        }
    }

    /// Moves rows to new leaves that are nearer, as far as both leaves are still in use.
    pub(super) fn reassign(&mut self, due: &Reassignment) {
        let living = |leaves: &[Weak<Leaf>]| -> Vec<Arc<Leaf>> {
            let leaves = leaves.iter().filter_map(Weak::upgrade);
            let in_use = |leaf: &Arc<Leaf>| {
                let state = self.leaves[leaf.id as usize].as_ref();
                state.is_some_and(|state| Arc::ptr_eq(&state.leaf, leaf))
            };
            leaves.filter(in_use).collect()
        };
        let (from, to) = (living(&due.from), living(&due.to));
        if !to.is_empty() {
            self.reassign_from(&from, &to);
        }
    }

    /// The `most` leaves nearest to `center`, without it.
    pub(super) fn neighbours(&self, center: LeafId, most: usize) -> Vec<Arc<Leaf>> {
        let centroid = self.state(center).leaf.centroid.clone();
        let mut near: Vec<(f32, &Arc<Leaf>)> = Vec::new();
        let padded = self.shared.rotation.padded();
        let mut nodes: Vec<(f32, usize)> = (self.tree.centroids.chunks_exact(padded))
            .map(|c| kernels::l2_squared(&centroid, c))
            .zip(0..)
            .collect();
        nodes.sort_unstable_by(|a, b| a.0.total_cmp(&b.0));
        for &(_, node) in nodes.iter().take(8) {
            for leaf in self.tree.nodes[node].leaves.iter().filter(|leaf| leaf.id != center) {
                near.push((kernels::l2_squared(&centroid, &leaf.centroid), leaf));
            }
        }
        near.sort_unstable_by(|a, b| a.0.total_cmp(&b.0));
        near.iter().take(most).map(|&(_, leaf)| leaf.clone()).collect()
    }

    /// Moves rows of `neighbours` to new leaves that are nearer.
    ///
    /// Codes select the rows that may move, so that few rows are loaded.
    fn reassign_from(&mut self, neighbours: &[Arc<Leaf>], new: &[Arc<Leaf>]) {
        let shared = self.shared.clone();
        let mut moved = Batch::new(&shared);
        let mut targets = Vec::new();
        let mut room: Vec<usize> = new.iter().map(|leaf| self.room(leaf.id)).collect();
        let mut near = NearSides::default();
        let mut rows = Vec::new();
        neighbours.iter().for_each(|leaf| leaf.prefetch_codes());
        for leaf in neighbours {
            near.build(&leaf.centroid, new);
            rows.clear();
            let nothing = ROUNDING * kernels::norm_squared(&leaf.centroid);
            leaf.for_each_block(|at, chunk, codes, _| {
                let mut lanes = near.lanes(shared.form, codes);
                while lanes != 0 {
                    let lane = lanes.trailing_zeros() as usize;
                    lanes &= lanes - 1;
                    if chunk.rows.is_alive(lane) {
                        chunk.rows.prefetch(lane);
                        rows.push((at, lane));
                    }
                }
            });
            for &(at, lane) in &rows {
                let chunk = &leaf.chunk(at).rows;
                let row = chunk.vector(lane);
                let mut best = (distance(Metric::L2, &leaf.center, row) - nothing, None);
                for (side, leaf) in new.iter().enumerate() {
                    let gap = distance(Metric::L2, &leaf.center, row);
                    if gap < best.0 {
                        best = (gap, Some(side));
                    }
                }
                if let Some(side) = best.1.filter(|&side| room[side] > 0) {
                    room[side] -= 1;
                    targets.push((new[side].id, moved.len()));
                    moved.push(&shared, chunk, lane, self.placed);
                    let position = super::leaf::position(at, lane);
                    self.kill(RowAddress { leaf: leaf.id, position }, self.placed);
                }
            }
        }
        self.counts.moved += targets.len() as u64;
        self.append_moved(&moved, targets);
    }
}

/// A row is compared exactly if its code's estimate puts it farther from a new centroid than from its
/// own by at most so many standard deviations.
const DEVIATIONS: f32 = 1.0;

/// Tables that select, by codes, the rows of one leaf that may belong to other leaves.
#[derive(Default)]
struct NearSides {
    /// A table for each other leaf, with the squared distance from centroid to centroid. The first `len`
    /// are in use.
    tables: Vec<(QueryTable, f32)>,
    len: usize,
    away: Vec<f32>,
}

impl NearSides {
    /// Builds the tables for rows around `centroid` and these other leaves.
    fn build(&mut self, centroid: &[f32], others: &[Arc<Leaf>]) {
        self.len = others.len();
        self.tables.resize_with(self.tables.len().max(self.len), Default::default);
        for ((table, gap), other) in self.tables.iter_mut().zip(others) {
            self.away.clear();
            self.away.extend(other.centroid.iter().zip(centroid).map(|(other, own)| other - own));
            *gap = kernels::norm_squared(&self.away);
            if *gap <= ROUNDING * kernels::norm_squared(centroid) {
                // Equal centroids: no row is nearer to the other one.
                self.away.fill(0.0);
                *gap = 0.0;
            }
            table.build(&self.away);
        }
    }

    /// The lanes whose rows may be nearer to another leaf's centroid.
    fn lanes(&self, form: Form, codes: &[u8]) -> u32 {
        let tables = self.tables[..self.len].iter();
        tables.fold(0, |lanes, (table, gap)| {
            lanes | table.lanes_nearer(form, codes, *gap, DEVIATIONS)
        })
    }
}

/// The leaf with room whose centroid is nearest to `rotated`, if it is nearer than `bound`. Takes one
/// place of its room.
fn nearest(leaves: &mut [(&Leaf, usize)], rotated: &[f32], bound: f32) -> Option<LeafId> {
    let mut best = (bound, None);
    for (leaf, room) in leaves.iter_mut().filter(|(_, room)| *room > 0) {
        let distance = kernels::l2_squared(rotated, &leaf.centroid);
        if distance < best.0 {
            best = (distance, Some((leaf.id, room)));
        }
    }
    let (leaf, room) = best.1?;
    *room -= 1;
    Some(leaf)
}
