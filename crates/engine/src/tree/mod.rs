//! The tree: everything an engine serves rows from. A *place* is the memtable, the immutable
//! memtable or a live segment.
//!
//! 1. Writes go to the *memtable*, an index. A full memtable becomes *immutable*: a new memtable
//!    takes the writes, and a thread writes the old one to a *segment*, which then serves its rows.
//!    Compactions merge segments into larger ones, without the deleted rows.
//! 2. An id has a live row in at most one place. A write that supersedes a row in another place
//!    first adds a tombstone there with its own sequence, then publishes that sequence.
//! 3. A *view* is the list of the places. It is immutable and swapped as a whole. A query loads the
//!    view, pins the sequence of its memtable, and checks that the view is still the same. If so,
//!    all tombstones up to that sequence are on rows of that view, and the query searches every
//!    place at that sequence. So a query sees one read snapshot, each row once, wherever the rows
//!    are.
//! 4. A merge may take some leaves of a segment. Then the same file is in the new view with the other
//!    leaves, and the rows that were taken get tombstones with a sequence of their own, which is
//!    published after the view. So an older view goes on reading them there, and a newer one in the
//!    merged segment.
//! 5. A thread that writes, or that changes the list of places, holds one lock. Queries never do.
//!
//! The memtable gives out the sequences; the next memtable continues where it ended.

mod audit;
mod behind;
mod code_residency;
mod find;
mod graph_view;
mod heat;
mod ids;
mod known_ids;
mod leaves;
mod live_segment;
mod pin;
mod residence;
mod sealed;
mod search;
mod segment_entry;
mod served;
mod shared_centroids;
mod stored;
mod write;

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use arc_swap::ArcSwap;
use vstream_attribute::Schema;
use vstream_graph::GraphSettings;
use vstream_index::{Cluster, ClusterLoad, Flat, Insert, Search};
use vstream_quantize::rabitq::Rotation;
use vstream_store::{Access, Cache, FileStore, Store};

pub(crate) use self::audit::Extent;
pub(crate) use self::code_residency::{plan as plan_moves, CodeResidency, Move, Part};
pub(crate) use self::leaves::{LeafRanking, Leaves, NOT_SERVED};
pub(crate) use self::live_segment::{
    check_served, is_deleted, open_segment, Known, LiveSegment, Reading,
};
pub(crate) use self::pin::{Pinned, Reachable};
pub use self::residence::Residence;
use self::residence::{Left, OnDisk};
pub(crate) use self::sealed::SealedSegment;
#[cfg(test)]
pub(crate) use self::search::share_class;
pub(crate) use self::search::{Thetas, TreeScratch, SHARE_CLASSES};
pub(crate) use self::segment_entry::{definer, Origin, SegmentEntry, FILES_MAX};
pub(crate) use self::served::Served;
use self::shared_centroids::SharedCentroids;
pub(crate) use self::stored::{Answered, ReadRow, Wanted};
use self::write::Writing;
pub(crate) use self::write::{Found, ImmutableMemtable, Retired, Room, Writer};
use crate::error::Error;
use crate::layout::segment_name;
use crate::settings::{IndexKind, Settings};
use vstream_segment::{Codes, SegmentKind, SegmentSettings};
use vstream_store::codec::{Policy, Tier};

/// The block cache takes one part in this many of the memory setting. The memtable and the
/// immutable memtable share the rest.
const CACHE_SHARE: u64 = 4;

/// Counts of the tree of an engine that keeps segments.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TreeStats {
    /// Live segments.
    pub segments: u64,
    /// Live segments that are graphs.
    pub graphs: u64,
    /// Live rows in segments.
    pub segment_rows: u64,
    /// Deleted rows in segments that wait for a compaction.
    pub segment_dead: u64,
    /// Bytes of the segment files.
    pub segment_bytes: u64,
    /// Bytes of memory for directories of leaves, and for keys and samples of graphs.
    pub directory_bytes: u64,
    /// Bytes of memory for codes.
    pub code_bytes: u64,
    /// Bytes that codes of leaves would take in memory and that are on disk only.
    pub code_bytes_away: u64,
    /// Bytes of memory for id tables and tombstones of segments.
    pub id_bytes: u64,
    /// Bytes in the block cache.
    pub cache_bytes: u64,
    /// Bytes of memory of the memtable and the immutable memtable.
    pub memtable_bytes: u64,
    /// Ranges of segment files read by queries and by walks over segments.
    pub reads: u64,
    /// Bytes of those ranges.
    pub read_bytes: u64,
    /// Times that the writer waited, for room in memory or for a compaction.
    pub waits: u64,
    /// Microseconds of all those waits together.
    pub waited_us: u64,
    /// Rows that have gone from memory to segments, and how long they had been in memory.
    pub in_memory: Residence,
    /// Rows of segments whose file has gone to the far store, and how long it had been in the
    /// directory, in the mean of the rows of a segment.
    pub on_disk: Residence,
}

/// The places that readers see. A view never changes: the tree swaps it as a whole.
#[derive(Clone)]
pub(crate) struct View {
    pub(crate) memory: Arc<dyn Search>,
    pub(crate) immutable: Option<Arc<ImmutableMemtable>>,
    /// In the order of the manifest.
    pub(crate) segments: Vec<Arc<LiveSegment>>,
    /// The leaves of those segments.
    pub(crate) leaves: Arc<Leaves>,
    /// Who reads this view pins this sequence or a later one: rows that a merge has taken out of a
    /// segment have tombstones of it, and live in another segment.
    pub(crate) since: u64,
}

impl View {
    /// True if all rows are in the memtable.
    pub(crate) fn is_in_memory(&self) -> bool {
        self.immutable.is_none() && self.segments.is_empty()
    }

    /// True if a query finds out itself how far it must go: see `search/cautious.rs`. By inner product no
    /// margin is safe on every kind of data, and a graph says itself how far to go.
    fn bounds_itself(&self, metric: vstream_vector::Metric) -> bool {
        metric != vstream_vector::Metric::InnerProduct
            && self.segments.iter().all(|live| live.segment.graph().is_none())
    }
}

/// All places of an engine, and the lock of its writers.
pub(crate) struct Tree {
    settings: Settings,
    reading: Reading,
    view: ArcSwap<View>,
    /// What rows carry beside their vectors; it only grows.
    schema: ArcSwap<Schema>,
    residency: Arc<CodeResidency>,
    centroids: SharedCentroids,
    writing: Mutex<Writing>,
    /// Signalled when a segment has replaced the immutable memtable.
    settled: Condvar,
    waits: AtomicU64,
    waited_us: AtomicU64,
    left_memory: Left,
    left_disk: Left,
    /// Ranges and bytes that were read of segments that are served no more.
    retired_reads: AtomicU64,
    retired_read_bytes: AtomicU64,
}

impl Tree {
    /// An empty tree whose segments are opened for queries that shall not wait, see [`behind`].
    pub(crate) fn queries_first(settings: &Settings) -> Tree {
        let mut tree = Tree::new(settings);
        tree.reading.codes = Codes::OnDemand;
        tree.lock().knows_later = true;
        tree
    }

    /// An empty tree.
    pub(crate) fn new(settings: &Settings) -> Tree {
        let memory = make_index(settings, 0);
        let leaves = Arc::new(Leaves::of(&[], settings.index_settings()));
        let (memory_reader, segments) = (memory.reader(), Vec::new());
        let view = View { memory: memory_reader, immutable: None, segments, leaves, since: 0 };
        let cache =
            settings.memory.map(|bytes| Arc::new(Cache::new((bytes / CACHE_SHARE) as usize)));
        let access = if settings.ablation.page_cache { Access::Direct } else { Access::Cached };
        let residency = Arc::new(CodeResidency::new(settings));
        // Under a limit, codes are read into memory part by part.
        let codes = if residency.is_limited() { Codes::OnDemand } else { Codes::Resident };
        Tree {
            settings: settings.clone(),
            reading: Reading { cache, access, codes },
            residency,
            centroids: SharedCentroids::default(),
            writing: Mutex::new(Writing::new(
                memory,
                &view,
                row_bytes(settings),
                settings.memory.is_some(),
            )),
            view: ArcSwap::from_pointee(view),
            schema: ArcSwap::new(settings.schema.clone()),
            settled: Condvar::new(),
            waits: AtomicU64::new(0),
            waited_us: AtomicU64::new(0),
            left_memory: Left::default(),
            left_disk: Left::default(),
            retired_reads: AtomicU64::new(0),
            retired_read_bytes: AtomicU64::new(0),
        }
    }

    pub(crate) fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Begins to load an index of leaves, which [`Tree::end_load`] makes the memtable.
    pub(crate) fn begin_load(&self) -> ClusterLoad {
        Cluster::new(self.settings.index_settings(), self.settings.cluster).load()
    }

    /// The present schema.
    pub(crate) fn schema(&self) -> Arc<Schema> {
        self.schema.load_full()
    }

    /// Shows readers a schema with more attributes.
    pub(crate) fn set_schema(&self, schema: Arc<Schema>) {
        self.schema.store(schema);
    }

    fn lock(&self) -> MutexGuard<'_, Writing> {
        self.writing.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The newest view, for callers that need no pinned sequence.
    pub(crate) fn view(&self) -> Arc<View> {
        self.view.load_full()
    }

    /// True if rows in memory become segments: memory has a limit, or there are segments already.
    pub(crate) fn keeps_segments(&self) -> bool {
        self.settings.memory.is_some() || !self.view.load().segments.is_empty()
    }

    /// The live segment with this number. Errors: `Internal` if there is none.
    pub(crate) fn segment(&self, number: u64) -> Result<Arc<LiveSegment>, Error> {
        let found = self.view().segments.iter().find(|live| live.number == number).cloned();
        found.ok_or_else(|| {
            Error::internal(format!("segment {number} is in no place: report the defect"))
        })
    }

    /// Opens a segment with this engine's cache, access and codes. Errors: `Corrupt` if its
    /// dimension, metric or element are not the collection's; else as [`LiveSegment::open`].
    pub(crate) fn open(
        &self,
        store: &FileStore,
        entry: &SegmentEntry,
        collection: u64,
        known: Known<'_>,
    ) -> Result<LiveSegment, Error> {
        let mut live = LiveSegment::open(store, entry, collection, known, &self.reading)?;
        let wanted = self.settings.index_settings();
        let fits = live.segment.vectors() == (wanted.dimension, wanted.metric, wanted.element);
        // The leaves of all segments are ranked together, after one rotation.
        let has_seed = live.segment.leaves().is_none_or(|of| of.seed() == wanted.seed);
        if !fits || !has_seed {
            return Err(Error::corrupt(
                std::path::Path::new(&store.describe(&segment_name(entry.number))),
                "its rows are not of this collection's dimension, metric, element and seed",
            ));
        }
        if let Some(SealedSegment::Leaves(segment)) = Arc::get_mut(&mut live.segment) {
            self.centroids.share(segment);
        }
        live.release_unserved_codes();
        Ok(live)
    }

    /// Settings for a new segment of this engine.
    ///
    /// * `first_leaf`: see [`SegmentEntry::first_leaf`].
    pub(crate) fn segment_settings(&self, identity: u64, first_leaf: u64) -> SegmentSettings {
        let index = self.settings.index_settings();
        let kind = match self.settings.index {
            IndexKind::Flat => SegmentKind::Flat,
            IndexKind::Cluster => SegmentKind::Cluster,
        };
        let policy = match self.settings.ablation.compression {
            true => Policy::Raw,
            false => Policy::Best(Tier::Hot),
        };
        SegmentSettings {
            dimension: index.dimension,
            metric: index.metric,
            element: index.element,
            kind,
            seed: index.seed,
            identity,
            first_leaf,
            policy,
        }
    }

    /// Settings for a new graph of this engine.
    pub(crate) fn graph_settings(&self, identity: u64) -> GraphSettings {
        let index = self.settings.index_settings();
        let settings = GraphSettings::new(index.dimension, index.metric, index.element);
        GraphSettings { seed: index.seed, identity, ..settings }
    }

    /// Counts of the index and of the tree. Cost: O(leaves in memory).
    pub(crate) fn stats(&self) -> (vstream_index::IndexStats, TreeStats) {
        let writing = self.lock();
        let mut index = writing.index_stats();
        let memtable_bytes = index.memory_bytes;
        let id_bytes = writing.known.memory_bytes();
        // Before a flush may show the memtable's rows in a segment too.
        let view = self.view();
        drop(writing);
        let mut stats = TreeStats {
            memtable_bytes,
            id_bytes,
            waits: self.waits.load(Ordering::Relaxed),
            waited_us: self.waited_us.load(Ordering::Relaxed),
            in_memory: self.left_memory.residence(),
            on_disk: self.left_disk.residence(),
            reads: self.retired_reads.load(Ordering::Relaxed),
            read_bytes: self.retired_read_bytes.load(Ordering::Relaxed),
            cache_bytes: self.reading.cache.as_ref().map_or(0, |cache| cache.stats().bytes),
            ..TreeStats::default()
        };
        index.leaves += view.leaves.len() as u64;
        let padded = view.leaves.rotation().map_or(0, Rotation::padded);
        stats.directory_bytes += view.leaves.memory_bytes() + self.centroids.memory_bytes(padded);
        for live in &view.segments {
            let (memory, io) = (live.segment.memory(), live.segment.io());
            stats.segments += 1;
            stats.graphs += u64::from(live.segment.graph().is_some());
            stats.segment_rows += live.live_rows();
            stats.segment_dead += live.tombstones.count();
            stats.segment_bytes += live.segment.bytes();
            stats.directory_bytes += memory.directory - memory.centroids;
            stats.code_bytes += memory.codes;
            stats.code_bytes_away += live.code_bytes_away();
            stats.id_bytes += live.ids.memory_bytes() + live.tombstones.memory_bytes();
            stats.reads += io.reads;
            stats.read_bytes += io.bytes;
            let graph = live.segment.graph();
            index.leaves += graph.map_or(0, |_| live.segment.leaf_count() as u64);
        }
        index.live += stats.segment_rows;
        index.dead += stats.segment_dead;
        // What the rows in memory take is counted already.
        index.memory_bytes +=
            stats.directory_bytes + stats.code_bytes + stats.id_bytes + stats.cache_bytes;
        (index, stats)
    }

    /// Leaves of all places: the most that a query may probe.
    pub(crate) fn leaves(&self) -> usize {
        let view = self.view.load();
        let immutable = view.immutable.as_ref().map_or(0, |immutable| immutable.rows().leaves());
        let graphs = view.segments.iter().filter(|live| live.segment.graph().is_some());
        let graphs: usize = graphs.map(|live| live.segment.leaf_count()).sum();
        view.memory.leaves() + immutable + graphs + view.leaves.len()
    }

    /// True if there are segments, and a query of them finds out itself how far it must go.
    pub(crate) fn bounds_itself(&self) -> bool {
        let view = self.view.load();
        !view.segments.is_empty() && view.bounds_itself(self.settings().metric)
    }

    /// Live rows, those in memory by the number of their leaves.
    pub(crate) fn rows_about(&self) -> u64 {
        /// Rows of a usual leaf in memory.
        const LEAF_ROWS: u64 = 256;
        let view = self.view.load();
        let immutable = view.immutable.as_ref().map_or(0, |immutable| immutable.rows().leaves());
        let leaves = (view.memory.leaves() + immutable) as u64;
        leaves * LEAF_ROWS + view.segments.iter().map(|live| live.live_rows()).sum::<u64>()
    }

    /// Writes so far, and what indexes count besides. The difference of two calls says how much
    /// changed between them.
    pub(crate) fn writes(&self) -> u64 {
        self.view.load().memory.writes()
    }
}

/// Approximate bytes of a row in memory without its fields: its numbers, codes, key and id.
fn row_bytes(settings: &Settings) -> u64 {
    let index = settings.index_settings();
    (index.dimension * (index.element.bytes() + 1) + 128) as u64
}

/// An empty memtable; its first write gets the sequence after `sequence`.
fn make_index(settings: &Settings, sequence: u64) -> Box<dyn Insert> {
    let index = settings.index_settings();
    match settings.index {
        IndexKind::Flat => Box::new(Flat::after(index, sequence)),
        IndexKind::Cluster => Box::new(Cluster::after(index, settings.cluster, sequence)),
    }
}
