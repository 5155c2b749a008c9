//! The traits of every index kind: [`Insert`] for the one writer, [`Search`] for any reader.

use std::convert::Infallible;
use std::sync::Arc;

use vstream_attribute::{
    AttributesBuilder, Fields, FieldsBuffer, Filter, Update, ATTRIBUTES_BYTES_MAX,
};
use vstream_vector::{Neighbor, TopK};

use crate::least_ids::LeastIds;
use crate::probe::{Probe, SearchStats};
use crate::reach::Reach;
use crate::rows::{IndexRow, Outlook, RowKey, VectorRef};
use crate::scratch::Scratch;
pub use crate::settings::IndexSettings;
use crate::stages::StagedSearch;

/// The result of an upsert.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Applied {
    /// The index did not hold the id.
    Inserted,
    /// The index held the id with an older or the same version. That row is dead now.
    Replaced,
    /// The index holds the id with a newer version. Nothing changed.
    Stale,
}

/// Counts of an index at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct IndexStats {
    /// Living rows.
    pub live: u64,
    /// Dead rows whose memory is not reclaimed yet.
    pub dead: u64,
    /// Leaves of the tree; 0 for an index without a tree.
    pub leaves: u64,
    /// Bytes of native memory, estimated from capacities.
    pub memory_bytes: u64,
    /// Splits, merges and rewrites of leaves so far, those of memtables that are gone and of merges of segments too.
    pub splits: u64,
    /// See `splits`.
    pub merges: u64,
    /// See `splits`.
    pub rewrites: u64,
    /// Rows moved to a nearer leaf after a split or merge.
    pub moved: u64,
}

impl IndexStats {
    /// Adds the splits, merges, rewrites and moves that another index made.
    pub fn add_maintenance(&mut self, of: &IndexStats) {
        self.splits += of.splits;
        self.merges += of.merges;
        self.rewrites += of.rewrites;
        self.moved += of.moved;
    }
}

/// The writing side. One per index; a row is visible to every later search when `upsert` returns.
pub trait Insert: Send {
    /// Says how many upserts come next, so that the index can place their rows together; returns how many
    /// of those before have not come.
    ///
    /// A hint: any number of any writes may follow, and each is visible as soon as without it. Stale
    /// upserts do not count, so 0 says that those that were announced are over.
    fn expect(&mut self, _upserts: usize) -> usize {
        0
    }

    /// Adds a row, or replaces the row of the same id unless that one is newer.
    ///
    /// `vector` has the index's dimension and element type: the caller has checked it.
    fn upsert(&mut self, key: RowKey, vector: VectorRef<'_>) -> Applied {
        self.upsert_over(IndexRow::plain(key, vector), &mut |_| {})
    }

    /// Does an [`Insert::upsert`] of a row that also supersedes a row in another place.
    ///
    /// * `on_superseded`: called with the sequence of the write before any reader sees the new row,
    ///   so that the caller can delete the other row as of that sequence. Not called if the result is
    ///   [`Applied::Stale`].
    fn upsert_over(&mut self, row: IndexRow<'_>, on_superseded: &mut dyn FnMut(u64)) -> Applied;

    /// Takes the next sequence for the delete of a row in another place, calls `on_superseded` with
    /// it, and publishes it.
    fn sequence_foreign_delete(&mut self, on_superseded: &mut dyn FnMut(u64));

    /// Tombstones the row of `id` as of `sequence`, which another index has given: that one takes the
    /// writes now, and this one takes none any more. Maintains and publishes nothing.
    fn tombstone_at(&mut self, id: u64, sequence: u64);

    /// Removes the row of `id` unless its version is above `version`; true if a row died.
    fn delete(&mut self, id: u64, version: u64) -> bool;

    /// Version of the living row of `id`.
    fn version_of(&self, id: u64) -> Option<u64>;

    /// Shard of the living row of `id`. Cost: here that of [`Insert::show`], a look-up in the kinds of
    /// this crate.
    fn shard_of(&self, id: u64) -> Option<u16> {
        let mut shard = None;
        self.show(id, &mut |row| shard = Some(row.key.shard));
        shard
    }

    /// Copies what the living row of `id` carries; false if there is none. Cost: the size of the fields.
    fn fields_of(&self, id: u64, out: &mut FieldsBuffer) -> bool;

    /// Shows the living row of `id`; false if there is none. Cost: the size of the fields.
    fn show(&self, id: u64, visit: &mut dyn FnMut(IndexRow<'_>)) -> bool {
        let mut is_there = false;
        self.reader().for_each_row(&mut |row| {
            if row.key.id == id {
                is_there = true;
                visit(row);
            }
        });
        is_there
    }

    /// Replaces all that the row of `id` carries, and keeps its vector and routing; false, and nothing
    /// changes, if there is no such row or its version is above `version`. To readers it is an upsert.
    ///
    /// Cost: a copy of the row. It is not routed and coded again, as long as its leaf is there.
    fn replace_fields(&mut self, id: u64, version: u64, fields: Fields<'_>) -> bool;

    /// What [`Insert::change_fields`] would make of the row of `id`; `None` if there is none.
    ///
    /// The caller has checked the update against the schema. Cost: a pass over the row's values, or less.
    fn outlook(&self, id: u64, update: &Update<'_>) -> Option<Outlook> {
        let version = self.version_of(id)?;
        let mut before = FieldsBuffer::default();
        if !self.fields_of(id, &mut before) {
            return None;
        }
        let mut merged = AttributesBuilder::default();
        let after = update.apply(before.fields(), &mut merged);
        let fits = after.attributes.bytes().len() <= ATTRIBUTES_BYTES_MAX;
        Some(Outlook { version, check: after.check, fits })
    }

    /// Changes what the row of `id` carries, and keeps the rest of it; false, and nothing changes, if
    /// there is no such row or its version is above `version`. To readers it is an upsert.
    ///
    /// Cost: as [`Insert::replace_fields`], but keywords that stay are not looked up.
    fn change_fields(&mut self, id: u64, version: u64, update: &Update<'_>) -> bool {
        let mut before = FieldsBuffer::default();
        let mut merged = AttributesBuilder::default();
        self.fields_of(id, &mut before)
            && self.replace_fields(id, version, update.apply(before.fields(), &mut merged))
    }

    /// A reader that stays valid while the writer goes on.
    fn reader(&self) -> Arc<dyn Search>;

    /// Counts; O(leaves).
    fn stats(&self) -> IndexStats;
}

/// The reading side: never blocks on the writer, never makes it wait.
pub trait Search: Send + Sync {
    /// Offers the nearest visible rows to `out`, which was reset to `probe.k`.
    ///
    /// Sees exactly the rows that lived at one moment between call and return. Allocates nothing
    /// once `scratch` is warm, but for [`crate::Effort::Thorough`].
    fn search(&self, probe: &Probe<'_>, scratch: &mut Scratch, out: &mut TopK) -> SearchStats;

    /// Adds every visible row that matches, at a distance of at most `radius` to `out`, in no order.
    ///
    /// Exact: a search passes over a leaf only if the triangle inequality proves that none of its
    /// rows is near enough. Under inner product it proves nothing, and the search reads every row.
    fn search_radius(
        &self,
        vector: &[f32],
        radius: f32,
        filter: Option<&Filter>,
        out: &mut Vec<Neighbor>,
    ) -> SearchStats;

    /// Searches through every code, and notes how far a search must go to find the same rows.
    ///
    /// The audit misses hardly a true neighbour (a test compares), at a tenth of the cost of an exact
    /// search. It returns its depth: how many rows, by estimate, got an exact distance. The next
    /// audit of as many neighbours does well to begin with that depth.
    ///
    /// * `probe`: with [`crate::Effort::Thorough`].
    /// * `reach`: filled with one entry for each group of neighbours (`reach.rs`).
    fn audit(
        &self,
        probe: &Probe<'_>,
        scratch: &mut Scratch,
        out: &mut TopK,
        reach: &mut Vec<Reach>,
    ) -> usize;

    /// Copies the vector of a row to `out` and returns its id. `pick` chooses the row, any row of a
    /// leaf about as often as another. `None` if the chosen row does not live.
    fn sample(&self, pick: u64, out: &mut Vec<f32>) -> Option<u64>;

    /// The rows of this moment, for walks of any length while the writer goes on.
    ///
    /// Keeps the memory of all that the writer replaces meanwhile, until it is dropped.
    fn pin(&self) -> Box<dyn PinnedRows>;

    /// The rows of a moment, to be searched alone or in stages with other places.
    ///
    /// * `as_of`: a sequence, for an index that takes no more writes; `None` for now.
    fn snapshot(&self, as_of: Option<u64>) -> Box<dyn IndexSnapshot>;

    /// Calls `visit` with every row that lives at one moment, neighbours in the tree together.
    fn for_each_row(&self, visit: &mut dyn FnMut(IndexRow<'_>)) {
        self.pin().for_each_row(visit);
    }

    /// Leaves that a query may probe; 0 for an index without leaves.
    fn leaves(&self) -> usize;

    /// Writes and batches so far: the difference of two calls tells how much has changed.
    fn writes(&self) -> u64;
}

/// The rows that lived at one moment.
pub trait PinnedRows: Send + Sync {
    /// Calls `visit` with each row, neighbours in the tree together. May be called repeatedly.
    fn for_each_row(&self, visit: &mut dyn FnMut(IndexRow<'_>));

    /// Calls `visit` with each row and the number of its leaf, or `None` for a row in no leaf. The rows of a leaf come together, and a leaf has the same number in every walk.
    fn for_each_leaf_row(&self, visit: &mut dyn FnMut(Option<u32>, IndexRow<'_>)) {
        self.for_each_row(&mut |row| visit(None, row));
    }

    /// Calls `visit` with each row of the chosen shards and the serial of its leaf, ascending; rows in no
    /// leaf come last. Unlike a number, a serial names the same leaf at every moment of the index, and
    /// after a load of it (see [`crate::ClusterLoad`]).
    ///
    /// Cost: a look at the key of every row; what the other shards' rows carry is not read.
    fn for_each_serial_row(
        &self,
        is_chosen: &dyn Fn(u16) -> bool,
        visit: &mut dyn FnMut(Option<u32>, IndexRow<'_>),
    ) {
        self.for_each_row(&mut |row| {
            if is_chosen(row.key.shard) {
                visit(None, row);
            }
        });
    }
}

/// The rows of one moment in an index, for walks, for searches of this index alone, and for searches
/// in stages together with other places.
pub trait IndexSnapshot:
    PinnedRows
    + StagedSearch<State = Scratch, Address = Infallible, Block = Infallible, Error = Infallible>
    + Send
    + Sync
{
    /// The snapshot sees writes up to this sequence.
    fn sequence(&self) -> u64;

    /// Searches this index alone, as [`Search::search`] does, at the moment of the snapshot.
    fn search(&self, probe: &Probe<'_>, scratch: &mut Scratch, out: &mut TopK) -> SearchStats;

    /// Calls `visit` with the position of each of `rows` that this index shows, in this version, and
    /// with the row, in any order.
    ///
    /// * `scratch`: that of the search that found the rows.
    ///
    /// Cost: a look-up each. In an index without leaves, or if a row that the search did not measure was
    /// written after the moment, one walk over the ids of all rows.
    fn read_rows(
        &self,
        rows: &[Neighbor],
        scratch: &mut Scratch,
        visit: &mut dyn FnMut(usize, IndexRow<'_>),
    );

    /// Calls `visit` with the position of each id that has a visible row, and with the row, in any
    /// order.
    ///
    /// * `ids`: each once, in any order.
    ///
    /// Cost: a look-up each; a walk over the ids of all rows, until all are found, if a row was written
    /// after the moment, or in an index without leaves.
    fn read_ids(&self, ids: &[u64], visit: &mut dyn FnMut(usize, IndexRow<'_>));

    /// Offers the ids of all visible rows that match. Cost: a look at the id of every row, and at the
    /// row where `least` wants the id.
    fn least_ids(&self, filter: Option<&Filter>, least: &mut LeastIds);
}
