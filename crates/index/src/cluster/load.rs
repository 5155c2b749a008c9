//! Loads an index from rows that an index like it had grouped.
//!
//! 1. The rows of a leaf are staged until the leaf ends. Their mean becomes its centre, they are coded
//!    against it and appended. Nothing is routed, split or reassigned.
//! 2. When all leaves are there, 2-means divides them into nodes.
//! 3. The rows of leaves with less than `leaf_rows_min` rows are inserted.
//!
//! Leaves that need a job are queued for it, as after any other write. A leaf keeps the serial that it
//! had, and new leaves get serials above all of these.

use vstream_quantize::rabitq::BLOCK;

use super::batch::Batch;
use super::leaf::{LeafSerial, LAST_SERIAL};
use super::strays::take_strays;
use super::tree::Node;
use super::Cluster;
use crate::rows::{IndexRow, RowWriter, Sequence};
use crate::traits::{Applied, Insert};

/// A leaf takes so many times `leaf_rows_max` rows; those that follow go to another one, of the same
/// serial.
const FULL: usize = 2;

/// An index that is loaded: nobody reads it yet.
pub struct ClusterLoad {
    index: Cluster,
    /// Sequence of all rows that are loaded.
    inserted: Sequence,
    /// Rows of the leaf that has not ended.
    staged: Staged,
    /// Its serial, and that of the last leaf after its end.
    serial: LeafSerial,
    /// Rows that are inserted at the end.
    loose: Staged,
    pushed: usize,
}

/// Rows in chunks that belong to no index.
#[derive(Default)]
struct Staged {
    chunks: Vec<RowWriter>,
    rows: usize,
}

impl Cluster {
    /// Begins to load this index, which must be empty.
    pub fn load(mut self) -> ClusterLoad {
        assert!(self.tree.nodes.is_empty() && self.ids.len() == 0, "the index has rows");
        self.sequence += 1;
        ClusterLoad {
            inserted: self.sequence,
            index: self,
            staged: Staged::default(),
            serial: 0,
            loose: Staged::default(),
            pushed: 0,
        }
    }
}

impl ClusterLoad {
    /// Adds a row to a leaf. The row has the dimension and the element of the index: the caller has
    /// checked it.
    ///
    /// * `serial`: of the leaf, as [`PinnedRows::for_each_serial_row`](crate::PinnedRows::for_each_serial_row)
    ///   gave it, or any number below `u32::MAX` that rows of one leaf have in common. From call to call
    ///   it does not get smaller.
    pub fn push(&mut self, serial: u32, row: IndexRow<'_>) {
        assert!(self.pushed == 0 || serial >= self.serial, "leaves come in the order of serials");
        let is_full = self.staged.rows >= FULL * self.index.settings.leaf_rows_max;
        if is_full || (serial != self.serial && self.staged.rows > 0) {
            self.end_leaf();
        }
        self.serial = serial.min(LAST_SERIAL);
        self.pushed += 1;
        let inserted = self.inserted;
        self.staged.put(&mut self.index, |chunk, carrier| chunk.push(carrier, row, inserted));
    }

    /// Ends the leaf that is loaded now.
    fn end_leaf(&mut self) {
        let staged = std::mem::take(&mut self.staged);
        let (index, loose, inserted) = (&mut self.index, &mut self.loose, self.inserted);
        if staged.rows < index.settings.leaf_rows_min {
            staged.for_each_lane(|from, lane| {
                loose.put(index, |chunk, carrier| {
                    chunk.push_copy(carrier, (from.chunk(), lane), inserted)
                });
            });
            return;
        }
        let shared = index.shared.clone();
        let mut rows = Batch::new(&shared);
        staged.for_each_lane(|from, lane| {
            let chunk = from.chunk();
            index.ids.prefetch(chunk.key(lane).id);
            chunk.for_each_code(lane, |code| shared.living.raise(code));
            rows.push(&shared, chunk, lane, inserted);
        });
        let without = vec![0.0; shared.index.dimension];
        let center = rows.means(&vec![0; rows.len()], &without).remove(0);
        // The node is known when all leaves are.
        let leaf = index.serial_leaf(center, self.serial, 0);
        index.append(leaf, (0..rows.len()).map(|row| rows.incoming(row, None)));
    }

    /// Ends the load and returns the index; `None` if an id came twice.
    pub fn finish(mut self) -> Option<Cluster> {
        self.end_leaf();
        let ClusterLoad { mut index, loose, pushed, serial, .. } = self;
        if pushed > 0 {
            index.next_serial = LAST_SERIAL.min(serial + 1);
        }
        if index.ids.len() + loose.rows != pushed {
            return None;
        }
        // A row counts as a write, as where it is inserted.
        index.sequence += index.ids.len() as Sequence;
        index.placed = index.sequence;
        index.shared.rows.store(index.ids.len() as u64, std::sync::atomic::Ordering::Relaxed);
        index.grow_tree();
        index.commit();
        let mut is_new = true;
        loose.for_each_lane(|from, lane| {
            let (key, vector) = (from.chunk().key(lane), from.chunk().vector(lane));
            let mut fields = Default::default();
            from.chunk().read_fields(lane, &mut fields);
            let row = IndexRow { key, vector, fields: fields.fields() };
            is_new &= index.upsert_over(row, &mut |_| {}) == Applied::Inserted;
        });
        is_new.then_some(index)
    }
}

impl Staged {
    /// Appends the row that `push` writes to a chunk with room.
    fn put(
        &mut self,
        index: &mut Cluster,
        push: impl FnOnce(&mut RowWriter, &mut crate::rows::Carrier) -> usize,
    ) {
        if self.chunks.last().is_none_or(RowWriter::is_full) {
            let settings = index.shared.index;
            self.chunks.push(RowWriter::new(settings.element, settings.dimension, BLOCK));
        }
        let chunk = self.chunks.last_mut().expect("a chunk with room");
        push(chunk, &mut index.carrier);
        self.rows += 1;
    }

    fn for_each_lane(&self, mut visit: impl FnMut(&RowWriter, usize)) {
        for chunk in &self.chunks {
            (0..chunk.len()).for_each(|lane| visit(chunk, lane));
        }
    }
}

impl Cluster {
    /// Makes the tree over all leaves of the table.
    fn grow_tree(&mut self) {
        let leaves: Vec<_> = self.leaves.iter().flatten().map(|state| state.leaf.clone()).collect();
        if leaves.is_empty() {
            return;
        }
        let tree = std::sync::Arc::make_mut(&mut self.tree);
        tree.leaves = leaves.len();
        self.add_node(leaves);
        let mut node = 0;
        while let Some(whole) = self.tree.nodes.get(node) {
            let mut leaves = whole.leaves.clone();
            let before = leaves.len();
            for stray in take_strays(&mut leaves) {
                self.add_node(vec![stray]);
            }
            if leaves.len() > self.settings.node_leaves_max {
                self.split_node(node as u32, leaves);
                continue;
            }
            if leaves.len() < before {
                self.set_node(node as u32, Node::with_leaves(leaves));
            }
            node += 1;
        }
    }
}
