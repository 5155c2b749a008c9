//! What every index kind answers to: `Insert` for the one writer, `Search` for any reader.

use std::convert::Infallible;
use std::sync::Arc;

use vstream_vector::{Element, Metric, Neighbor, TopK};

use crate::reach::Reach;
use crate::rows::{RowKey, VectorRef};
use crate::scratch::Scratch;
use crate::stages::StagedSearch;

/// What an index is built for; fixed for its life.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct IndexSettings {
    /// Dimensions of every vector, ≥ 1.
    pub dimension: usize,
    /// Formula of the distance. Rows under cosine come normalised.
    pub metric: Metric,
    /// How rows are held.
    pub element: Element,
    /// Seed of every random choice inside.
    pub seed: u64,
}

/// How much work a search may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effort {
    /// Visit `probes` leaves, more only while they hold fewer than `k` rows, and look closer at the
    /// `refine` best rows by code.
    Approximate {
        /// Leaves visited.
        probes: usize,
        /// Rows whose exact distance is taken, at least `k`; with a second look, rows that are
        /// estimated again, of which the exact distances of the best are taken.
        refine: usize,
    },
    /// Every leaf, and the exact distances of so many of the best rows by code that hardly a
    /// neighbour is missed: what an audit does. For queries of whose effort nothing is known.
    Thorough {
        /// Rows by code to begin with, 0 for the least; see [`Search::audit`].
        depth: usize,
    },
    /// Every visible row, exactly.
    Exact,
}

/// What is asked of an index.
#[derive(Clone, Copy, Debug)]
pub struct Probe<'a> {
    /// The query: `dimension` finite values, normalised under cosine.
    pub vector: &'a [f32],
    /// Neighbours wanted, ≥ 1.
    pub k: usize,
    /// Work allowed.
    pub effort: Effort,
}

/// What a search did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SearchStats {
    /// Leaves visited.
    pub leaves: usize,
    /// Rows whose code or vector was looked at.
    pub rows: usize,
    /// Exact distances taken.
    pub exact: usize,
}

/// What became of an upsert.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Applied {
    /// The id was not there.
    Inserted,
    /// The id was there with an older or the same version; that row is gone.
    Replaced,
    /// The id is there with a newer version; nothing changed.
    Stale,
}

/// Counts of an index at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct IndexStats {
    /// Rows that live.
    pub live: u64,
    /// Rows that are dead but not yet reclaimed.
    pub dead: u64,
    /// Leaves of the tree; 0 for an index without one.
    pub leaves: u64,
    /// Bytes of native memory, estimated from capacities.
    pub memory_bytes: u64,
    /// Splits, merges and rewrites of leaves so far.
    pub splits: u64,
    /// See `splits`.
    pub merges: u64,
    /// See `splits`.
    pub rewrites: u64,
    /// Rows moved to a nearer leaf after a split or merge.
    pub moved: u64,
}

/// The writing side. One per index; a row is visible to every later search when `upsert` returns.
pub trait Insert: Send {
    /// Adds a row, or replaces the row of the same id unless that one is newer.
    ///
    /// `vector` has the index's dimension and element type: the caller has checked it.
    fn upsert(&mut self, key: RowKey, vector: VectorRef<'_>) -> Applied {
        self.upsert_over(key, vector, &mut |_| {})
    }

    /// As [`Insert::upsert`], where the row also ends the life of one in another place: `died` is
    /// told the sequence of that before anybody sees the new row. Not called if it is stale here.
    fn upsert_over(
        &mut self,
        key: RowKey,
        vector: VectorRef<'_>,
        died: &mut dyn FnMut(u64),
    ) -> Applied;

    /// Takes the next sequence for the end of a row in another place, and publishes it after `died`.
    fn elsewhere(&mut self, died: &mut dyn FnMut(u64));

    /// Ends the life of the row of `id` at a sequence of the index that takes the writes now: this
    /// one takes none any more. Nothing is maintained or published.
    fn end(&mut self, id: u64, at: u64);

    /// Removes the row of `id` unless its version is above `version`; says whether a row died.
    fn delete(&mut self, id: u64, version: u64) -> bool;

    /// Version of the living row of `id`.
    fn version_of(&self, id: u64) -> Option<u64>;

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
    /// once `scratch` is warm, but for [`Effort::Thorough`].
    fn search(&self, probe: &Probe<'_>, scratch: &mut Scratch, out: &mut TopK) -> SearchStats;

    /// Adds every visible row at a distance of at most `radius` to `out`, in no order.
    ///
    /// Exact: a leaf is passed over only if the triangle inequality proves that no row of it can be
    /// near enough. Under inner product nothing can be proved, and every row is looked at.
    fn search_radius(&self, vector: &[f32], radius: f32, out: &mut Vec<Neighbor>) -> SearchStats;

    /// The answer of a search through every code, and how far a search must go to find its rows.
    ///
    /// Hardly a true neighbour is missed (a test compares), at a tenth of the cost of an exact
    /// search. Returns the depth at which that was so: the number of rows by estimate whose exact
    /// distances were taken. Another audit of as many neighbours does well to begin with it.
    ///
    /// * `probe`: with [`Effort::Thorough`]; `reach` notes the neighbours of [`crate::noted`].
    fn audit(
        &self,
        probe: &Probe<'_>,
        scratch: &mut Scratch,
        out: &mut TopK,
        reach: &mut Vec<Reach>,
    ) -> usize;

    /// Copies the vector of a living row to `out`, one that `pick` chooses, and returns its id;
    /// `None` if it is not a living one that `pick` hits. The rows of all leaves are hit about as
    /// often.
    fn sample(&self, pick: u64, out: &mut Vec<f32>) -> Option<u64>;

    /// The rows of this moment, to be walked at leisure: the writer goes on meanwhile.
    ///
    /// Holds the memory of what the writer replaces until it is dropped.
    fn pin(&self) -> Box<dyn PinnedRows>;

    /// The rows of a moment, to be searched alone or in stages with other places.
    ///
    /// * `as_of`: a sequence, for an index that takes no more writes; `None` for now.
    fn snapshot(&self, as_of: Option<u64>) -> Box<dyn IndexSnapshot>;

    /// Shows every row that lives at one moment to `visit`, neighbours in the tree together.
    fn for_each_row(&self, visit: &mut dyn FnMut(RowKey, VectorRef<'_>)) {
        self.pin().for_each_row(visit);
    }

    /// Leaves that a query may probe; 0 for an index without leaves.
    fn leaves(&self) -> usize;

    /// Writes and batches so far: says how much has changed between two calls.
    fn writes(&self) -> u64;
}

/// The rows that lived at one moment.
pub trait PinnedRows: Send + Sync {
    /// Shows each of them to `visit`, neighbours in the tree together; as often as asked.
    fn for_each_row(&self, visit: &mut dyn FnMut(RowKey, VectorRef<'_>));

    /// As [`PinnedRows::for_each_row`], with the number of the row's leaf: rows of a leaf come
    /// together, with the same number in every walk. `None` for rows that are in no leaf.
    fn for_each_leaf_row(&self, visit: &mut dyn FnMut(Option<u32>, RowKey, VectorRef<'_>)) {
        self.for_each_row(&mut |key, vector| visit(None, key, vector));
    }
}

/// The rows of one moment in an index: shown, searched alone, or searched in stages together with
/// other places.
pub trait IndexSnapshot:
    PinnedRows
    + StagedSearch<State = Scratch, Address = Infallible, Block = Infallible, Error = Infallible>
    + Send
    + Sync
{
    /// The sequence up to which writes are seen.
    fn sequence(&self) -> u64;

    /// All stages at once, where there is no other place: as [`Search::search`], at this moment.
    fn search(&self, probe: &Probe<'_>, scratch: &mut Scratch, out: &mut TopK) -> SearchStats;
}
