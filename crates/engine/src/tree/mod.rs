//! The places that rows are served from: memory, memory that is being flushed, segments.
//!
//! 1. Writes go to the *memtable*, an index. A full memtable becomes *immutable*: a new one takes
//!    the writes, and a thread writes the old one to a *segment*, which then serves its rows.
//!    Segments are *merged* into larger ones, without the rows that are gone.
//! 2. An id lives in one place at most. A write that ends the life of a row in another place adds a
//!    tombstone there with its own sequence, before it publishes that sequence.
//! 3. A *view* is the list of the places, immutable and swapped whole. A query takes the view, pins
//!    the sequence of its memory, and looks whether the view is still the same: then all tombstones up
//!    to that sequence are on rows of that view, and every place is searched as of it. So it sees
//!    the rows of one moment, each once, wherever they lie.
//! 4. Whoever writes or changes the list of places holds one lock. Queries never do.
//!
//! The index in memory gives the sequences; the one after it goes on where it ended.

mod audit;
mod code_residency;
mod heat;
mod ids;
mod live_segment;
mod pin;
mod search;
mod segment_entry;
mod write;

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use arc_swap::ArcSwap;
use vstream_index::{Cluster, Flat, Insert, Search};
use vstream_store::{Access, Cache, FileStore, Store};

pub(crate) use self::code_residency::CodeResidency;
pub(crate) use self::live_segment::{is_deleted, open_segment, LiveSegment, Reading};
pub(crate) use self::pin::Pinned;
pub(crate) use self::search::TreeScratch;
pub(crate) use self::segment_entry::SegmentEntry;
use self::write::Writing;
pub(crate) use self::write::{ImmutableMemtable, Retired, Room};
use crate::error::Error;
use crate::layout::segment_name;
use crate::settings::{IndexKind, Settings};
use vstream_segment::{Codes, SegmentKind, SegmentSettings};
use vstream_store::codec::{Policy, Tier};

/// Share of the memory setting that the block cache takes; the rest is for two memories, the one
/// that takes writes and the one that is being flushed.
const CACHE_SHARE: u64 = 4;

/// Counts of the places of an engine that keeps segments.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TreeStats {
    /// Segments.
    pub segments: u64,
    /// Rows in them that live.
    pub segment_rows: u64,
    /// Rows in them that are gone and wait for a compaction.
    pub segment_dead: u64,
    /// Length of their files.
    pub segment_bytes: u64,
    /// Bytes of memory for leaf directories.
    pub directory_bytes: u64,
    /// Bytes of memory for codes.
    pub code_bytes: u64,
    /// Bytes of codes that are not in memory.
    pub code_bytes_away: u64,
    /// Bytes of memory to find rows by id and to tell which are gone.
    pub id_bytes: u64,
    /// Bytes in the block cache.
    pub cache_bytes: u64,
    /// Bytes of memory of rows that are in no segment yet.
    pub memtable_bytes: u64,
    /// Ranges of files read by queries, and by walks over segments.
    pub reads: u64,
    /// Bytes of them.
    pub read_bytes: u64,
    /// Times that the writer was held up because memory was full before it could be flushed.
    pub waits: u64,
    /// Microseconds of them together.
    pub waited_us: u64,
}

/// What readers see: swapped whole, never changed.
pub(crate) struct View {
    pub(crate) memory: Arc<dyn Search>,
    pub(crate) immutable: Option<Arc<ImmutableMemtable>>,
    /// In the order of the manifest.
    pub(crate) segments: Vec<Arc<LiveSegment>>,
}

/// All places of an engine.
pub(crate) struct Tree {
    settings: Settings,
    reading: Reading,
    view: ArcSwap<View>,
    residency: Arc<CodeResidency>,
    writing: Mutex<Writing>,
    /// Signalled when the immutable memtable has become a segment.
    settled: Condvar,
    waits: AtomicU64,
    waited_us: AtomicU64,
}

impl Tree {
    /// Without a row.
    pub(crate) fn new(settings: &Settings) -> Tree {
        let memory = make_index(settings, 0);
        let view = View { memory: memory.reader(), immutable: None, segments: Vec::new() };
        let cache =
            settings.memory.map(|bytes| Arc::new(Cache::new((bytes / CACHE_SHARE) as usize)));
        let access = if settings.ablation.page_cache { Access::Direct } else { Access::Cached };
        let residency = Arc::new(CodeResidency::new(settings));
        // With a limit they come one by one.
        let codes = if residency.is_limited() { Codes::OnDemand } else { Codes::Resident };
        Tree {
            settings: settings.clone(),
            reading: Reading { cache, access, codes },
            residency,
            writing: Mutex::new(Writing::new(memory, view.memory.clone())),
            view: ArcSwap::from_pointee(view),
            settled: Condvar::new(),
            waits: AtomicU64::new(0),
            waited_us: AtomicU64::new(0),
        }
    }

    pub(crate) fn settings(&self) -> &Settings {
        &self.settings
    }

    fn lock(&self) -> MutexGuard<'_, Writing> {
        self.writing.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The newest view, where a moment between two writes does not matter.
    pub(crate) fn view(&self) -> Arc<View> {
        self.view.load_full()
    }

    /// True if rows in memory become segments: memory has a limit, or there are segments already.
    pub(crate) fn keeps_segments(&self) -> bool {
        self.settings.memory.is_some() || !self.view.load().segments.is_empty()
    }

    /// The segment of a number. Errors: `Internal` if there is none.
    pub(crate) fn segment(&self, number: u64) -> Result<Arc<LiveSegment>, Error> {
        let found = self.view().segments.iter().find(|live| live.number == number).cloned();
        found.ok_or_else(|| {
            Error::internal(format!("segment {number} is in no place: report the defect"))
        })
    }

    /// Opens a segment as rows of this engine are read.
    pub(crate) fn open(
        &self,
        store: &FileStore,
        entry: &SegmentEntry,
        collection: u64,
        delete_bitmap: &[u8],
    ) -> Result<LiveSegment, Error> {
        let live = LiveSegment::open(store, entry, collection, delete_bitmap, &self.reading)?;
        let (found, wanted) = (&live.segment, self.settings.index_settings());
        let fits = (found.dimension(), found.metric(), found.element())
            == (wanted.dimension, wanted.metric, wanted.element);
        if !fits {
            return Err(Error::corrupt(
                std::path::Path::new(&store.describe(&segment_name(entry.number))),
                "its rows are not of this collection's dimension, metric and element",
            ));
        }
        Ok(live)
    }

    /// What segments of this engine are written as.
    pub(crate) fn segment_settings(&self, identity: u64) -> SegmentSettings {
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
            policy,
        }
    }

    /// Counts. Cost: O(leaves in memory).
    pub(crate) fn stats(&self) -> (vstream_index::IndexStats, TreeStats) {
        let writing = self.lock();
        let mut index = writing.index_stats();
        let memtable_bytes = index.memory_bytes;
        drop(writing);
        let mut stats = TreeStats {
            memtable_bytes,
            waits: self.waits.load(Ordering::Relaxed),
            waited_us: self.waited_us.load(Ordering::Relaxed),
            cache_bytes: self.reading.cache.as_ref().map_or(0, |cache| cache.stats().bytes),
            ..TreeStats::default()
        };
        for live in &self.view().segments {
            let (memory, io) = (live.segment.memory(), live.segment.io());
            stats.segments += 1;
            stats.segment_rows += live.live_rows();
            stats.segment_dead += live.tombstones.count();
            stats.segment_bytes += live.segment.bytes();
            stats.directory_bytes += memory.directory;
            stats.code_bytes += memory.codes;
            stats.code_bytes_away += live.segment.code_bytes().1;
            stats.id_bytes += live.ids.memory_bytes() + live.tombstones.memory_bytes();
            stats.reads += io.reads;
            stats.read_bytes += io.bytes;
            index.leaves += live.segment.leaves() as u64;
            index.memory_bytes += live.memory_bytes();
        }
        index.live += stats.segment_rows;
        index.dead += stats.segment_dead;
        index.memory_bytes += stats.cache_bytes;
        (index, stats)
    }

    /// Leaves that a query may probe.
    pub(crate) fn leaves(&self) -> usize {
        let view = self.view.load();
        let immutable = view.immutable.as_ref().map_or(0, |immutable| immutable.rows().leaves());
        let live: usize = view.segments.iter().map(|live| live.segment.leaves()).sum();
        view.memory.leaves() + immutable + live
    }

    /// Writes so far, with what indexes count besides: says how much changed between two calls.
    pub(crate) fn writes(&self) -> u64 {
        self.view.load().memory.writes()
    }
}

/// An empty index for rows in memory, whose first write gets the sequence after `sequence`.
fn make_index(settings: &Settings, sequence: u64) -> Box<dyn Insert> {
    let index = settings.index_settings();
    match settings.index {
        IndexKind::Flat => Box::new(Flat::after(index, sequence)),
        IndexKind::Cluster => Box::new(Cluster::after(index, settings.cluster, sequence)),
    }
}
