//! The cluster index: leaves of a few hundred near rows under a tree of centroids, maintained while
//! rows stream in.
//!
//! 1. A write appends its row to the *tail*. The row is visible at once: searches scan the tail
//!    exactly.
//! 2. Every `batch_rows` rows, or more that were announced, the writer *places* the tail: it routes each
//!    row to the nearest leaf, codes it against the leaf's centroid and appends it there.
//! 3. The writer *splits* a leaf above `leaf_rows_max` in two and reassigns rows near the new border.
//! 4. It *rewrites* a leaf with many dead rows and *merges* away a leaf with few living rows.
//!
//! For every 8 rows a batch does at most `jobs_per_batch` jobs of steps 3 and 4, and those of leaves far
//! above their size, so the work of one write is bounded. Sources: SPFresh (LIRE: split, merge, reassign), RaBitQ
//! (codes). A search of the rows of one moment (`view.rs`) ranks leaves (`rank.rs`), scans codes and
//! takes exact distances (`scan.rs`).

mod batch;
mod find;
mod halves;
mod leaf;
mod leaf_table;
mod load;
mod maintain;
mod pinned;
mod place;
mod postings;
mod rank;
mod reader;
mod renew;
mod route;
mod scan;
mod split;
mod strays;
mod sweep;
mod tree;
mod view;

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::Arc;

use vstream_attribute::{Fields, FieldsBuffer, Update};
use vstream_quantize::rabitq::{Form, Rotation};

use self::leaf::{Leaf, LeafId, LeafSerial};
use self::leaf_table::LeafTable;
pub use self::load::ClusterLoad;
use self::postings::Postings;
use self::renew::Renewal;
use self::split::Reassignment;
use self::tree::{Root, Tree};
use crate::append::Pen;
use crate::id_map::{IdMap, Ids};
use crate::publish::Published;
use crate::rows::{
    Carrier, CodeCounts, Dictionary, IndexRow, Load, Outlook, RowChunk, RowWriter, Sequence,
};
use crate::stages::form_of;
use crate::traits::{Applied, IndexSettings, IndexStats, Insert, Search};

/// Most rows, and bytes of vectors, of a tail while the writer knows that more rows come: rows that are
/// placed together share what their routing reads, and every search takes the distances of those in the tail.
const EXPECTED_ROWS: usize = 128;
const EXPECTED_BYTES: usize = 128 << 10;

/// Sizes of the cluster index.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ClusterSettings {
    /// The writer splits a leaf above this many rows. 64..=1024.
    pub leaf_rows_max: usize,
    /// The writer merges a leaf below this many living rows into its neighbours.
    pub leaf_rows_min: usize,
    /// Rows of the tail that the writer places together, 1..=1024.
    pub batch_rows: usize,
    /// Neighbouring leaves whose rows a split compares with the new centroids.
    pub reassign_leaves: usize,
    /// Most leaves of an inner node.
    pub node_leaves_max: usize,
    /// Most jobs per 8 rows: splits, merges, rewrites, reassignments from 4 leaves. A leaf half as
    /// large again as its limit does not count.
    pub jobs_per_batch: usize,
    /// Keeps four bits per dimension beside the one that is scanned, for a second look at the best
    /// candidates. Costs `dimension / 2 + 6` bytes per row; saves nine of ten exact distances.
    pub second_look: bool,
}

impl Default for ClusterSettings {
    fn default() -> ClusterSettings {
        ClusterSettings {
            leaf_rows_max: 384,
            leaf_rows_min: 64,
            batch_rows: 8,
            reassign_leaves: 16,
            node_leaves_max: 96,
            jobs_per_batch: 1,
            second_look: false,
        }
    }
}

struct Shared {
    index: IndexSettings,
    form: Form,
    rotation: Rotation,
    second_look: bool,
    published: Published<Root>,
    dictionary: Arc<Dictionary>,
    /// Living rows of this index per code.
    living: CodeCounts,
    /// Living rows.
    rows: AtomicU64,
    postings: Postings,
    /// Where living rows are, by id: see `find.rs`.
    ids: Arc<Ids>,
    leaves: LeafTable,
}

impl Shared {
    /// Living rows.
    fn rows(&self) -> u64 {
        self.rows.load(Ordering::Relaxed)
    }
}

/// The reading side.
struct ClusterReader(Arc<Shared>);

/// Where a living row is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct RowAddress {
    leaf: LeafId,
    /// Position in the leaf: `chunk · 32 + lane`; in the tail: the lane.
    position: u32,
}

/// Deletes after which queued jobs run even if no row comes.
const DELETES_PER_MAINTENANCE: usize = 8;

/// `RowAddress::leaf` of rows in the tail.
const TAIL: LeafId = LeafId::MAX;

/// The writer's state of a leaf.
struct LeafState {
    leaf: Arc<Leaf>,
    /// Position of the leaf's node in the tree.
    node: u32,
    /// The chunk that has room, if any.
    open: Option<RowWriter>,
    /// The writing end of what rows carry, between two chunks of a run.
    load: Load,
    /// The pen of the newest run.
    pen: Option<Pen>,
    /// The pen of the newest chunk's fine codes.
    fine_pen: Option<Pen>,
    chunks: usize,
    rows: usize,
    dead: usize,
    /// `lost` when the writer last considered a merge and found it not due.
    looked: usize,
    /// Rows deleted or replaced since the leaf's centre was the mean of its rows.
    lost: usize,
    /// Dead lanes whose rows live on in other lanes of the leaf, with other fields.
    renewed: usize,
    queued: bool,
    /// True if the leaf is in `Cluster::overfull`.
    overfull: bool,
}

/// The cluster index. See the module's steps.
pub struct Cluster {
    shared: Arc<Shared>,
    settings: ClusterSettings,
    tree: Arc<Tree>,
    leaves: Vec<Option<LeafState>>,
    free: Vec<LeafId>,
    /// Above the serials of all leaves that there were.
    next_serial: LeafSerial,
    tail: RowWriter,
    /// Upserts that come next, as the caller says.
    expected: usize,
    carrier: Carrier,
    ids: IdMap,
    /// Leaves that wait for a split, merge or rewrite, oldest first.
    queue: VecDeque<LeafId>,
    /// Leaves with so many rows that their jobs do not wait.
    overfull: Vec<LeafId>,
    reassignments: VecDeque<Reassignment>,
    sequence: Sequence,
    placed: Sequence,
    tail_dead: usize,
    dead: usize,
    deletes_since_maintenance: usize,
    renewed_since_maintenance: usize,
    counts: IndexStats,
    buffers: place::Buffers,
}

impl Cluster {
    /// An empty index. It needs no training and no sample.
    pub fn new(index: IndexSettings, settings: ClusterSettings) -> Cluster {
        Cluster::after(index, settings, 0)
    }

    /// An empty index whose first write gets the sequence after `sequence`.
    pub fn after(index: IndexSettings, settings: ClusterSettings, sequence: u64) -> Cluster {
        Cluster::with_dictionary(index, settings, sequence, Arc::default())
    }

    /// An index as [`Cluster::after`] makes it, which shares its dictionary of keywords with others:
    /// each text is held once.
    pub fn with_dictionary(
        index: IndexSettings,
        settings: ClusterSettings,
        sequence: u64,
        dictionary: Arc<Dictionary>,
    ) -> Cluster {
        assert!((64..=1024).contains(&settings.leaf_rows_max), "leaf_rows_max is out of range");
        assert!((1..=1024).contains(&settings.batch_rows), "batch_rows is out of range");
        let tail = RowWriter::new(index.element, index.dimension, settings.batch_rows);
        let tree = Arc::new(Tree::empty());
        let root = Root { tree: tree.clone(), tail: tail.chunk().clone(), placed: sequence };
        let ids = IdMap::default();
        let shared = Shared {
            index,
            form: form_of(index.metric),
            rotation: Rotation::new(index.dimension, index.seed),
            second_look: settings.second_look,
            published: Published::new(root, sequence),
            dictionary: dictionary.clone(),
            living: CodeCounts::default(),
            rows: AtomicU64::new(0),
            postings: Postings::default(),
            ids: ids.ids().clone(),
            leaves: LeafTable::default(),
        };
        Cluster {
            shared: Arc::new(shared),
            settings,
            tree,
            leaves: Vec::new(),
            free: Vec::new(),
            next_serial: 0,
            tail,
            expected: 0,
            carrier: Carrier::new(dictionary),
            ids,
            queue: VecDeque::new(),
            overfull: Vec::new(),
            reassignments: VecDeque::new(),
            sequence,
            placed: sequence,
            tail_dead: 0,
            dead: 0,
            deletes_since_maintenance: 0,
            renewed_since_maintenance: 0,
            counts: IndexStats::default(),
            buffers: place::Buffers::default(),
        }
    }

    fn state(&self, leaf: LeafId) -> &LeafState {
        self.leaves[leaf as usize].as_ref().expect("a leaf that is in use")
    }

    fn state_mut(&mut self, leaf: LeafId) -> &mut LeafState {
        self.leaves[leaf as usize].as_mut().expect("a leaf that is in use")
    }

    fn address_of(&self, id: u64) -> Option<RowAddress> {
        let (leaf, position) = self.ids.get(id)?;
        Some(RowAddress { leaf, position })
    }

    /// Chunk and lane of an address.
    fn row_at(&self, address: RowAddress) -> (&Arc<RowChunk>, usize) {
        if address.leaf == TAIL {
            return (self.tail.chunk(), address.position as usize);
        }
        let (chunk, lane) = leaf::split_position(address.position);
        (&self.state(address.leaf).leaf.chunk(chunk).rows, lane)
    }

    fn version_at(&self, address: RowAddress) -> u64 {
        let (rows, lane) = self.row_at(address);
        rows.key(lane).version
    }

    /// Kills the row at `address`, which no row of another place replaces: its id has other values now,
    /// or is gone.
    fn lose(&mut self, address: RowAddress, sequence: Sequence) {
        let (rows, lane) = self.row_at(address);
        rows.for_each_code(lane, |code| {
            self.shared.living.lower(code);
        });
        if address.leaf != TAIL {
            self.state_mut(address.leaf).lost += 1;
        }
        self.kill(address, sequence);
    }

    /// Appends a row to the tail, where searches find it once its sequence is published.
    fn push(&mut self, row: IndexRow<'_>) {
        let lane = self.tail.push(&mut self.carrier, row, self.sequence);
        self.tail.chunk().for_each_code(lane, |code| self.shared.living.raise(code));
        self.ids.insert(row.key.id, (TAIL, lane as u32));
        self.shared.rows.store(self.ids.len() as u64, Ordering::Relaxed);
        self.expected = self.expected.saturating_sub(1);
    }

    /// Publishes a write, and places the tail if it is full, or long with no rows to come.
    fn publish(&mut self) {
        if self.tail.is_full() || self.is_long() {
            self.place_tail();
        } else {
            self.shared.published.publish(self.sequence);
        }
    }

    /// True if the tail has a batch of rows, and no more are expected.
    fn is_long(&self) -> bool {
        self.expected == 0 && self.tail.len() >= self.settings.batch_rows
    }

    /// Rows of the next tail.
    fn tail_rows(&self) -> usize {
        let vector = self.shared.index.dimension * self.shared.index.element.bytes();
        let most = EXPECTED_ROWS.min(EXPECTED_BYTES / vector);
        self.settings.batch_rows.max(self.expected.min(most))
    }

    /// Marks the row at `address` deleted as of `sequence`; queues its leaf if a job is due.
    fn kill(&mut self, address: RowAddress, sequence: Sequence) {
        if address.leaf == TAIL {
            self.tail.chunk().mark_deleted(address.position as usize, sequence);
            self.tail_dead += 1;
            return;
        }
        let (chunk, lane) = leaf::split_position(address.position);
        let state = self.state_mut(address.leaf);
        state.leaf.mark_deleted(chunk, lane, sequence);
        state.dead += 1;
        self.dead += 1;
        self.queue_if_due(address.leaf);
    }

    /// Publishes a new root with the writer's tree and tail, which makes every write so far visible.
    fn commit(&mut self) {
        let root =
            Root { tree: self.tree.clone(), tail: self.tail.chunk().clone(), placed: self.placed };
        self.shared.published.swap(root, self.sequence);
    }
}

impl Insert for Cluster {
    fn expect(&mut self, upserts: usize) -> usize {
        let before = std::mem::replace(&mut self.expected, upserts);
        if self.is_long() {
            self.place_tail();
        }
        before
    }

    fn upsert_over(&mut self, row: IndexRow<'_>, on_superseded: &mut dyn FnMut(u64)) -> Applied {
        let key = row.key;
        let old = self.address_of(key.id);
        if old.is_some_and(|address| self.version_at(address) > key.version) {
            return Applied::Stale;
        }
        self.sequence += 1;
        on_superseded(self.sequence);
        if let Some(address) = old {
            self.lose(address, self.sequence);
        }
        self.push(row);
        self.publish();
        old.map_or(Applied::Inserted, |_| Applied::Replaced)
    }

    fn delete(&mut self, id: u64, version: u64) -> bool {
        let Some(address) = self.address_of(id) else { return false };
        if self.version_at(address) > version {
            return false;
        }
        self.sequence += 1;
        self.ids.remove(id, self.sequence);
        self.shared.rows.store(self.ids.len() as u64, Ordering::Relaxed);
        self.lose(address, self.sequence);
        self.deletes_since_maintenance += 1;
        let due = self.settings.batch_rows.min(DELETES_PER_MAINTENANCE);
        if self.deletes_since_maintenance >= due
            && !(self.queue.is_empty() && self.reassignments.is_empty())
        {
            // Places the tail too: a root must not call rows placed that are still in its tail, or a
            // reader that holds it would see them twice once they are in a leaf.
            self.place_tail();
        } else {
            self.shared.published.publish(self.sequence);
        }
        true
    }

    fn sequence_foreign_delete(&mut self, on_superseded: &mut dyn FnMut(u64)) {
        self.sequence += 1;
        on_superseded(self.sequence);
        self.shared.published.publish(self.sequence);
    }

    fn tombstone_at(&mut self, id: u64, sequence: u64) {
        if let Some(address) = self.address_of(id) {
            self.ids.remove(id, sequence);
            self.lose(address, sequence);
        }
    }

    fn version_of(&self, id: u64) -> Option<u64> {
        self.address_of(id).map(|address| self.version_at(address))
    }

    fn shard_of(&self, id: u64) -> Option<u16> {
        let (rows, lane) = self.row_at(self.address_of(id)?);
        Some(rows.key(lane).shard)
    }

    fn fields_of(&self, id: u64, out: &mut FieldsBuffer) -> bool {
        let Some(address) = self.address_of(id) else { return false };
        let (rows, lane) = self.row_at(address);
        rows.read_fields(lane, out);
        true
    }

    fn show(&self, id: u64, visit: &mut dyn FnMut(IndexRow<'_>)) -> bool {
        let Some(address) = self.address_of(id) else { return false };
        let (rows, lane) = self.row_at(address);
        let mut fields = FieldsBuffer::default();
        rows.read_fields(lane, &mut fields);
        let (key, vector) = (rows.key(lane), rows.vector(lane));
        visit(IndexRow { key, vector, fields: fields.fields() });
        true
    }

    fn replace_fields(&mut self, id: u64, version: u64, fields: Fields<'_>) -> bool {
        self.renew(id, version, Renewal::All(fields))
    }

    fn outlook(&self, id: u64, update: &Update<'_>) -> Option<Outlook> {
        let address = self.address_of(id)?;
        // The change itself most likely follows.
        self.prefetch_renewal(address);
        let (rows, lane) = self.row_at(address);
        Some(rows.outlook(lane, &self.shared.dictionary, update))
    }

    fn change_fields(&mut self, id: u64, version: u64, update: &Update<'_>) -> bool {
        self.renew(id, version, Renewal::Change(update))
    }

    fn reader(&self) -> Arc<dyn Search> {
        Arc::new(ClusterReader(self.shared.clone()))
    }

    fn stats(&self) -> IndexStats {
        let leaves: u64 = self.leaves.iter().flatten().map(|state| state.leaf.memory_bytes()).sum();
        let nodes: u64 = self.tree.nodes.iter().map(|node| node.memory_bytes()).sum();
        IndexStats {
            live: self.ids.len() as u64,
            dead: (self.dead + self.tail_dead) as u64,
            leaves: self.tree.leaves as u64,
            memory_bytes: leaves
                + nodes
                + self.ids.memory_bytes()
                + self.shared.leaves.memory_bytes()
                + self.tail.chunk().memory_bytes()
                + self.tail.chunk().carried_bytes()
                + self.shared.living.memory_bytes()
                + self.shared.postings.memory_bytes(),
            ..self.counts.clone()
        }
    }
}

#[cfg(test)]
mod tests;
