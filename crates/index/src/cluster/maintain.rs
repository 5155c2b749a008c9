//! Decides which leaf needs which job, and merges leaves. `split.rs` has splits and rewrites.

use std::sync::Arc;

use vstream_vector::{KMeans, KMeansSettings};

use super::batch::Batch;
use super::leaf::{Leaf, LeafId};
use super::route::nearest_leaves;
use super::strays::take_strays;
use super::tree::Node;
use super::{Cluster, LeafState};
use crate::turns::work_done;

/// A job that a leaf needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Job {
    Split,
    Merge,
    /// Merge if the leaves around have room for the rows.
    MergeIfThin,
    Rewrite,
}

/// A merge is considered each time a leaf has lost so many rows.
const LOST_MIN: usize = 16;
/// `jobs_per_batch` is the number of jobs for a batch of so many rows.
const BATCH_ROWS: usize = 8;
/// Units of [`work_done`] that a job takes.
const JOB_UNITS: usize = 1 << 13;
/// Leaves around a thin leaf whose room counts.
const AROUND: usize = 8;

impl LeafState {
    fn alive(&self) -> usize {
        self.rows - self.dead
    }
}

impl Cluster {
    /// The job that `leaf` needs now. Pure: the queue and the worker both call it.
    pub(super) fn plan(&self, leaf: LeafId) -> Option<Job> {
        let state = self.leaves.get(leaf as usize)?.as_ref()?;
        let settings = &self.settings;
        if state.alive() > settings.leaf_rows_max {
            return Some(Job::Split);
        }
        if state.dead > 0 && state.alive() < settings.leaf_rows_min && self.tree.leaves > 1 {
            return Some(Job::Merge);
        }
        let has_lost = state.lost >= state.looked + LOST_MIN;
        if has_lost && state.alive() * 2 < settings.leaf_rows_max && self.tree.leaves > 1 {
            return Some(Job::MergeIfThin);
        }
        // A sixth of dead rows costs memory, and costs a query as much as a sixth more probes. With an
        // eighth, a stream that replaces rows would copy each row seven times instead of five.
        // Lanes of rows whose fields alone changed count two thirds: a quarter of them may be dead, so
        // that a stream of updates copies each row three times.
        let dead = state.dead - state.renewed / 3;
        let is_worn = state.dead >= 32 && dead * 6 > state.rows;
        is_worn.then_some(Job::Rewrite)
    }

    /// Queues `leaf` if it needs a job.
    pub(super) fn queue_if_due(&mut self, leaf: LeafId) {
        let is_overfull = self.is_overfull(leaf);
        if !self.state(leaf).queued && self.plan(leaf).is_some() {
            self.state_mut(leaf).queued = true;
            self.queue.push_back(leaf);
        }
        if is_overfull && !std::mem::replace(&mut self.state_mut(leaf).overfull, true) {
            self.overfull.push(leaf);
        }
    }

    /// True if a leaf holds more than one and a half times `leaf_rows_max` rows, dead ones included.
    ///
    /// Such a leaf always needs a split, a merge or a rewrite: if no more rows live than it may hold, a
    /// third of its rows is dead.
    fn is_overfull(&self, leaf: LeafId) -> bool {
        let state = self.leaves.get(leaf as usize).and_then(Option::as_ref);
        state.is_some_and(|state| state.rows > self.settings.leaf_rows_max * 3 / 2)
    }

    /// Does a bounded number of jobs after a batch placed `placed` rows. The caller commits.
    ///
    /// 1. The fullest of the overfull leaves, and one more for every half leaf of placed rows: as fast
    ///    as rows can fill leaves. The largest comes first, so that no leaf grows much further: with
    ///    `n` of them overfull at once, by `ln n` batches of rows at most.
    /// 2. Reassignments: until they are done, searches look for these rows in other leaves.
    /// 3. The queue, oldest first.
    pub(super) fn maintain(&mut self, placed: usize) {
        self.deletes_since_maintenance = 0;
        let mut jobs = 0;
        for _ in 0..1 + 2 * placed / self.settings.leaf_rows_max {
            let Some(leaf) = self.fullest() else { break };
            self.do_job(leaf);
            work_done(JOB_UNITS);
            jobs += 1;
        }
        // Large batches make as much work per row as small ones.
        let due = self.settings.jobs_per_batch * placed.div_ceil(BATCH_ROWS).max(1);
        while jobs < due {
            if let Some(due) = self.reassignments.pop_front() {
                self.reassign(&due);
                work_done(JOB_UNITS);
                jobs += 1;
                continue;
            }
            let Some(leaf) = self.queue.pop_front() else { break };
            let Some(state) = self.leaves[leaf as usize].as_mut() else { continue };
            if std::mem::take(&mut state.queued) && self.do_job(leaf) {
                work_done(JOB_UNITS);
                jobs += 1;
            }
        }
    }

    /// The overfull leaf with the most rows.
    fn fullest(&mut self) -> Option<LeafId> {
        let mut overfull = std::mem::take(&mut self.overfull);
        // Drops leaves that are gone. Another leaf may have the id by now.
        overfull.retain(|&leaf| self.is_overfull(leaf));
        let fullest = overfull.iter().copied().max_by_key(|&leaf| self.state(leaf).rows);
        self.overfull = overfull;
        fullest
    }

    /// Does the job that `leaf` needs now; false if it needs none.
    fn do_job(&mut self, leaf: LeafId) -> bool {
        let Some(job) = self.plan(leaf) else { return false };
        match job {
            Job::Split => self.split(leaf),
            Job::Merge => self.merge(leaf),
            Job::MergeIfThin => self.merge_if_thin(leaf),
            Job::Rewrite => self.rewrite(leaf),
        }
        true
    }

    /// Rows that a reassignment may add to a leaf.
    pub(super) fn room(&self, leaf: LeafId) -> usize {
        (self.settings.leaf_rows_max * 5 / 4).saturating_sub(self.state(leaf).rows)
    }

    /// Spreads the living rows of a small leaf over their nearest other leaves.
    fn merge(&mut self, old: LeafId) {
        let (leaf, node) = self.take_leaf(old);
        self.replace_child(node, old, &[]);
        let rows = Batch::of_leaf(&self.shared, &leaf);
        let (padded, mut nearest) = (self.shared.rotation.padded(), Vec::with_capacity(rows.len()));
        let route = &mut self.buffers.route;
        nearest_leaves(&self.tree, rows.all_rotated(), padded, route, &mut nearest);
        self.append_moved(&rows, nearest.into_iter().zip(0..).collect());
        self.counts.merges += 1;
    }

    /// Merges a leaf if it and the leaves around it hold less than two thirds of `leaf_rows_max` on
    /// average. Leaves that only ever grew hold somewhat more.
    ///
    /// The leaves around then hold three quarters, so few of them are split again. Only a leaf that lost
    /// rows comes here, so growth alone merges nothing.
    fn merge_if_thin(&mut self, leaf: LeafId) {
        let near = self.neighbours(leaf, AROUND);
        let rows: usize = near.iter().map(|near| self.state(near.id).alive()).sum();
        let all = rows + self.state(leaf).alive();
        if all * 3 < (near.len() + 1) * self.settings.leaf_rows_max * 2 {
            self.merge(leaf);
            return;
        }
        let state = self.state_mut(leaf);
        state.looked = state.lost;
        if self.plan(leaf) == Some(Job::Rewrite) {
            self.rewrite(leaf);
        }
    }

    /// Appends rows to leaves that readers of older roots can reach, given as (leaf, row).
    ///
    /// `placed` hides the copies from those readers. They still see the rows where these were.
    pub(super) fn append_moved(&mut self, rows: &Batch, mut targets: Vec<(LeafId, usize)>) {
        targets.sort_unstable();
        let placed = Some(self.placed);
        for group in targets.chunk_by(|a, b| a.0 == b.0) {
            self.append(group[0].0, group.iter().map(|&(_, row)| rows.incoming(row, placed)));
        }
    }

    /// Removes a leaf from the writer's table. Readers of older roots keep it.
    pub(super) fn take_leaf(&mut self, id: LeafId) -> (Arc<Leaf>, u32) {
        let state = self.leaves[id as usize].take().expect("a leaf that is in use");
        self.dead -= state.dead;
        self.shared.leaves.set(id, None);
        self.free.push(id);
        if state.leaf.summaries.has_any() {
            self.shared.postings.remove(&state.leaf, self.placed);
        }
        (state.leaf, state.node)
    }

    /// Replaces the leaf `old` of the tree by the leaves `new`; splits the node if it grew too large.
    pub(super) fn replace_child(&mut self, node: u32, old: LeafId, new: &[LeafId]) {
        let mut leaves = self.tree.nodes[node as usize].leaves.clone();
        // Ids are unique among the leaves of a tree: a freed id comes back only through `new`.
        let child = leaves.iter().position(|leaf| leaf.id == old).expect("a child");
        leaves.swap_remove(child);
        leaves.extend(new.iter().map(|&id| self.state(id).leaf.clone()));
        Arc::make_mut(&mut self.tree).leaves += new.len();
        Arc::make_mut(&mut self.tree).leaves -= 1;
        for stray in take_strays(&mut leaves) {
            self.add_node(vec![stray]);
        }
        if leaves.is_empty() {
            self.remove_node(node);
        } else if leaves.len() > self.settings.node_leaves_max {
            self.split_node(node, leaves);
        } else {
            self.set_node(node, Node::with_leaves(leaves));
        }
    }

    /// Replaces the leaf `old` of the tree by one with the same centroid.
    pub(super) fn replace_alike(&mut self, node: u32, old: LeafId, new: LeafId) {
        let leaf = self.state(new).leaf.clone();
        let node = &mut Arc::make_mut(&mut self.tree).nodes[node as usize];
        let child = node.leaves.iter().position(|leaf| leaf.id == old).expect("a child");
        *node = Arc::new(node.with_leaf(child, leaf));
    }

    pub(super) fn set_node(&mut self, position: u32, node: Node) {
        let padded = self.shared.rotation.padded();
        let tree = Arc::make_mut(&mut self.tree);
        let centroids = Arc::make_mut(&mut tree.centroids);
        centroids[position as usize * padded..][..padded].copy_from_slice(&node.mean);
        tree.nodes[position as usize] = Arc::new(node);
    }

    fn remove_node(&mut self, node: u32) {
        let padded = self.shared.rotation.padded();
        let tree = Arc::make_mut(&mut self.tree);
        tree.nodes.swap_remove(node as usize);
        let last = tree.nodes.len() * padded;
        let centroids = Arc::make_mut(&mut tree.centroids);
        centroids.copy_within(last.., node as usize * padded);
        centroids.truncate(last);
        if let Some(moved) = tree.nodes.get(node as usize).cloned() {
            for leaf in &moved.leaves {
                self.state_mut(leaf.id).node = node;
            }
        }
    }

    /// Replaces a node by two. 2-means on the centroids divides `leaves` between them.
    pub(super) fn split_node(&mut self, node: u32, leaves: Vec<Arc<Leaf>>) {
        let padded = self.shared.rotation.padded();
        let settings = KMeansSettings {
            clusters: 2,
            iterations: 8,
            seed: self.shared.index.seed ^ self.sequence,
            balance: 1.0,
        };
        let centroids: Vec<f32> =
            leaves.iter().flat_map(|leaf| leaf.centroid.iter().copied()).collect();
        let parts = KMeans::train(&centroids, padded, settings).assignment;
        let first = parts.iter().filter(|&&part| part == 0).count();
        let balanced = first * 4 >= parts.len() && first * 4 <= parts.len() * 3;
        let total = leaves.len();
        let mut halves = [Vec::new(), Vec::new()];
        for (i, leaf) in leaves.into_iter().enumerate() {
            let part = if balanced { parts[i] as usize } else { i * 2 / total };
            halves[part].push(leaf);
        }
        let [first, second] = halves;
        self.add_node(second);
        self.set_node(node, Node::with_leaves(first));
    }

    /// Appends a node of these leaves to the tree.
    pub(super) fn add_node(&mut self, leaves: Vec<Arc<Leaf>>) {
        let new = self.tree.nodes.len() as u32;
        leaves.iter().for_each(|leaf| self.state_mut(leaf.id).node = new);
        let node = Node::with_leaves(leaves);
        let tree = Arc::make_mut(&mut self.tree);
        Arc::make_mut(&mut tree.centroids).extend_from_slice(&node.mean);
        tree.nodes.push(Arc::new(node));
    }
}
