//! Takes rows out of the shared state of another partition.
//!
//! 1. Segments are taken as they are: their files get a name here, and rows of other shards are deleted
//!    in the delete bitmap. One that is away stays there and is read there: this partition gets a pointer
//!    to the same far copy, which no partition deletes from then on. Nothing is sorted, coded or written again, so the cost per row is that of
//!    opening a segment and reading its keys.
//! 2. Rows that the logs of the state hold are inserted, and so are the rows of segments whose id has a
//!    row here already: the newer of the two must win.
//! 3. Without a limit to memory the first state is loaded leaf by leaf (`take/image.rs`).
//! 4. All other rows are inserted: those of further states without a limit to memory, and of states whose
//!    settings differ.

mod image;

use std::collections::HashMap;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use vstream_attribute::Schema;
use vstream_store::Syncing;

use crate::engine::Engine;
use crate::error::Error;
use crate::journal::Journal;
use crate::layout::{delete_bitmap_name, segment_name};
use crate::priority::{in_order, threads};
use crate::recovery::recover_part;
use crate::remembered::RememberedDelete;
use crate::settings::{IndexKind, SegmentIndex, Settings};
use crate::translate::Translation;
use crate::tree::{definer, is_deleted, Known, LiveSegment, Origin, SegmentEntry, Tree};
use crate::version::{AdoptedSegment, Directory, Manifest, VersionSet};

/// A shared state that was opened to take rows from.
struct Source {
    directory: Directory,
    manifest: Manifest,
}

/// Its rows: segments, and rows of an image and of logs in memory.
struct SourceRows {
    directory: Directory,
    manifest: Manifest,
    rows: Engine,
    /// Whether its segments show the rows of wanted shards alone.
    is_part: bool,
}

/// The segments of a source, for several threads.
#[derive(Clone, Copy)]
struct Segments<'a> {
    directory: &'a Directory,
    tree: &'a Tree,
    collection: u64,
    entries: &'a [SegmentEntry],
    is_part: bool,
}

impl Source {
    /// Reads the rows that are in no segment, and opens the segments: the rows of these shards alone, unless
    /// deletes are wanted that it remembers: these have no shard.
    fn recover(self, shards: &[bool], with_deletes: bool) -> Result<SourceRows, Error> {
        let Source { directory, manifest } = self;
        // Nobody searches this engine, so its rows need no index, and its segments no codes.
        let (index, memory, code_memory) = (IndexKind::Flat, None, None);
        let (segments, recall_guard) = (SegmentIndex::Clusters, false);
        let settings = manifest.settings.clone();
        let deletes_remembered = settings.deletes_remembered.filter(|_| with_deletes);
        let settings = Settings { index, memory, code_memory, segments, recall_guard, ..settings };
        let settings = Settings { deletes_remembered, ..settings };
        let mut rows = Engine::empty(settings)?;
        let is_part = !with_deletes;
        recover_part(&directory.store, &manifest, is_part.then_some(shards), &mut rows)?;
        Ok(SourceRows { directory, manifest, rows, is_part })
    }
}

impl SourceRows {
    fn segments(&self) -> Segments<'_> {
        Segments {
            directory: &self.directory,
            tree: &self.rows.tree,
            collection: self.manifest.collection,
            entries: &self.manifest.base.segments,
            is_part: self.is_part,
        }
    }
}

/// A row of a segment of the source whose id has a row here: position of the segment, and row.
type Place = (usize, u32);

impl Engine {
    /// Adds the rows of the shared state in `source` whose shard passes `keep`. Returns how many.
    ///
    /// Does not change `source`. Its files may be linked, so they must never be written again, but may
    /// be deleted. Those of an image that serve other shards need not be there, unless this
    /// engine remembers deletes. Cost: with a limit to memory the keys and ids of all segments of the state are
    /// read, the ids of wanted rows are sorted into tables, some 1.5 us per row that is taken in all, and rows that are
    /// in its logs are inserted; without one some 2 us per row that is taken of the first state, and an
    /// insert per row of others. Memory holds the ids of segments, rows of logs, and all that is taken of
    /// further states, meanwhile.
    ///
    /// Errors: `Invalid` if dimension, metric, element, ids or groups differ from this collection's, or if
    /// its schema is not open and does not extend that of `source`
    /// ([`Schema::extends`](vstream_attribute::Schema::extends)), `Unavailable` if the state is open;
    /// otherwise the same as [`Engine::open`]. After an error this engine may hold some of the rows: drop
    /// it.
    pub fn take_shared(&mut self, source: &Path, keep: &dyn Fn(u16) -> bool) -> Result<u64, Error> {
        let source = self.open_source(source)?;
        let _paused = self.guard.pause();
        let theirs = source.manifest.settings.schema.clone();
        let shards: Vec<bool> = (0..=u16::MAX).map(keep).collect();
        if self.can_load(&source.manifest)? {
            return self.take_image(&source, &shards);
        }
        let source = source.recover(&shards, self.remembered.is_some())?;
        let mut taken = 0;
        let known = if self.can_adopt(&source.manifest)? {
            let (adopted, known) = self.adopt(source.segments(), keep)?;
            taken += adopted;
            Some(known)
        } else {
            None
        };
        let (mut failed, mut translation) = (None, Translation::default());
        source.for_each_left(known.as_deref(), &mut |row| {
            if failed.is_none() && keep(row.shard) {
                failed = self.take_over(row, &theirs, &mut translation).err();
                taken += 1;
            }
        })?;
        if let Some(error) = failed {
            return Err(error);
        }
        if let Some(theirs) = &source.rows.remembered {
            theirs.list().into_iter().try_for_each(|delete| self.take_remembered(delete))?;
        }
        Ok(taken)
    }

    /// Remembers a delete of another engine, if this one remembers any. It is logged: the next checkpoint may be far, and
    /// states and the next opening have only logs until then.
    fn take_remembered(&mut self, delete: RememberedDelete) -> Result<(), Error> {
        let Some(ours) = &mut self.remembered else { return Ok(()) };
        let RememberedDelete { id, version, .. } = delete;
        // A row that is there says itself which upserts come too late.
        let is_news = ours.version_of(id) < Some(version) && self.tree.writer().find(id).is_none();
        if let (Some(journal), true) = (&mut self.journal, is_news) {
            journal.remember(id, version)?;
        }
        ours.note(delete);
        Ok(())
    }

    /// Opens a shared state whose rows fit this collection.
    fn open_source(&self, source: &Path) -> Result<Source, Error> {
        let mut directory = Directory::open(source, Syncing::Off)?;
        let manifest = Manifest::read(&directory.store)?;
        let ours = self.journal.as_ref().and_then(|journal| journal.versions().directory().tiers());
        directory.open_remote_beside(ours, &manifest)?;
        if !manifest.settings.row_form().is_like(&self.settings.row_form()) {
            return Err(Error::invalid(format!(
                "{} has another dimension, metric, element, or kind of ids or groups than this \
                 collection",
                source.display()
            )));
        }
        if !self.settings.schema.open {
            // As where the same files are opened: columns keep their meaning for whoever has them.
            self.settings.schema.extends(&manifest.settings.schema)?;
        }
        Ok(Source { directory, manifest })
    }

    /// True if the image of a state can be loaded leaf by leaf: this engine is empty, and both keep their
    /// rows in memory under an index of leaves. Adds its attributes, if the schema is open.
    fn can_load(&mut self, theirs: &Manifest) -> Result<bool, Error> {
        let of = |settings: &Settings| (settings.index, settings.memory, settings.seed);
        let is_like = of(&self.settings) == of(&theirs.settings)
            && of(&self.settings) == (IndexKind::Cluster, None, theirs.settings.seed);
        let is_empty = self.tree.stats().0.live == 0
            && self.remembered.is_none()
            && self.journal.as_ref().is_none_or(Journal::is_flushed);
        let has_image = theirs.base.image.is_some() && theirs.base.segments.is_empty();
        Ok(is_like && is_empty && has_image && self.take_columns(&theirs.settings.schema)?)
    }

    /// True if rows of `theirs` have the same columns here. Adds columns, if the schema is open.
    fn take_columns(&mut self, theirs: &Schema) -> Result<bool, Error> {
        if self.settings.schema.open {
            theirs.attributes.iter().try_for_each(|attribute| {
                self.add_attribute(&attribute.name, attribute.kind).map(|_| ())
            })?;
        }
        let ours = &self.settings.schema.attributes;
        let columns = ours.iter().zip(&theirs.attributes);
        let mut columns = columns.map(|(a, b)| (&a.name, a.kind) == (&b.name, b.kind));
        Ok(ours.len() >= theirs.attributes.len() && columns.all(|is_same| is_same))
    }

    /// True if the segments of a state can be served here as they are. Adds its attributes, if the
    /// schema is open, and writes the rows that are in memory to a segment.
    fn can_adopt(&mut self, theirs: &Manifest) -> Result<bool, Error> {
        let of = |settings: &Settings| (settings.index, settings.segments, settings.seed);
        let is_like = of(&self.settings) == of(&theirs.settings);
        let has_segments = theirs.base.image.is_none() && !theirs.base.segments.is_empty();
        let keeps_segments = self.settings.memory.is_some() && self.journal.is_some();
        if !(is_like && has_segments && keeps_segments) {
            return Ok(false);
        }
        if !self.take_columns(&theirs.settings.schema)? {
            return Ok(false);
        }
        let is_flushed =
            |engine: &Engine| engine.journal.as_ref().is_some_and(|journal| journal.is_flushed());
        if !is_flushed(self) {
            self.checkpoint()?;
        }
        Ok(is_flushed(self))
    }

    /// Serves the segments of a state; returns how many rows of them, and which rows must be inserted.
    fn adopt(
        &mut self,
        source: Segments<'_>,
        keep: &dyn Fn(u16) -> bool,
    ) -> Result<(u64, Vec<Place>), Error> {
        let journal = self.journal.as_mut().expect("segments are kept in a directory");
        let versions = journal.versions().clone();
        let numbers = Numbers::of(source, &versions)?;
        let entries = source.entries;
        let shards: Vec<bool> = (0..=u16::MAX).map(keep).collect();
        let threads = threads(journal.is_background());
        let mut kept = in_order(entries.len(), threads, &|at| {
            let live = source.tree.segment(entries[at].number)?;
            if source.is_part {
                let (bits, deleted) = live.delete_bitmap(u64::MAX - 1);
                return Ok(Kept { entry: None, bits, rows: live.segment.rows() - deleted });
            }
            let mut kept = Kept::none(live.segment.rows());
            live.for_each_live_key(&mut |row, key| {
                if shards[usize::from(key.shard)] {
                    kept.add(row);
                }
            })?;
            Ok(kept)
        })?;
        let known = leave_known(&self.tree, source, &mut kept)?;
        let rows = kept.iter().map(|kept| kept.rows).sum();
        kept.iter_mut().zip(entries).for_each(|(kept, entry)| kept.entry = Some(entry));
        kept.retain(|kept| kept.rows > 0);
        let taken = Mutex::new(Vec::new());
        let done = in_order(kept.len(), threads, &|at| {
            let here = numbers.entry(source, &kept[at])?;
            // Noted first: an attempt that fails may leave some of these files.
            taken.lock().unwrap_or_else(PoisonError::into_inner).extend(files_of(&here));
            take_segment(source, &kept[at], &here, &versions)
        });
        let adopted = done.map(|lives| {
            let adopted = lives.into_iter().zip(kept);
            adopted.map(|((entry, live), kept)| AdoptedSegment { entry, live, bits: kept.bits })
        });
        let done = adopted.and_then(|adopted| journal.adopt(adopted.collect()));
        if done.is_err() {
            let taken = taken.into_inner().unwrap_or_else(PoisonError::into_inner);
            taken.iter().for_each(|name| versions.directory().remove(name));
        }
        done.map(|()| (rows, known))
    }
}

impl SourceRows {
    /// Calls `visit` with the rows that segments do not bring along.
    ///
    /// * `known`: rows of segments that must be inserted, ascending; `None` for all rows.
    fn for_each_left(
        &self,
        known: Option<&[Place]>,
        visit: &mut dyn FnMut(&crate::row::Row<'_>),
    ) -> Result<(), Error> {
        let mut vector = vec![0.0; self.rows.settings.dimension];
        let pinned = self.rows.tree.pin();
        let mut show = |row: vstream_index::IndexRow<'_>| {
            row.vector.read(&mut vector);
            let vstream_index::RowKey { id, version, code, shard } = row.key;
            let fields = row.fields;
            visit(&crate::row::Row { id, version, code, shard, vector: &vector, fields });
        };
        let Some(known) = known else { return pinned.for_each_row(&mut show) };
        pinned.for_each_row_in_memory(&mut show);
        for group in known.chunk_by(|a, b| a.0 == b.0) {
            let entry = &self.manifest.base.segments[group[0].0];
            let live = self.rows.tree.segment(entry.number)?;
            let rows: Vec<u32> = group.iter().map(|&(_, row)| row).collect();
            live.show(&rows, &mut |_, row| show(row))?;
        }
        Ok(())
    }
}

/// Rows of a segment that are served here.
struct Kept<'a> {
    entry: Option<&'a SegmentEntry>,
    /// A bit per row, set if it is not among them.
    bits: Vec<u8>,
    rows: u64,
}

impl Kept<'_> {
    fn none(rows: u64) -> Kept<'static> {
        let mut bits = vec![u8::MAX; (rows as usize).div_ceil(8)];
        if !rows.is_multiple_of(8) {
            bits[rows as usize / 8] = (1 << (rows % 8)) - 1;
        }
        Kept { entry: None, bits, rows: 0 }
    }

    fn add(&mut self, row: u32) {
        self.bits[row as usize / 8] &= !(1 << (row % 8));
        self.rows += 1;
    }

    fn leave(&mut self, row: u32) {
        self.bits[row as usize / 8] |= 1 << (row % 8);
        self.rows -= 1;
    }
}

/// Leaves out the rows whose id has a row here, and returns them.
fn leave_known(
    tree: &Tree,
    source: Segments<'_>,
    kept: &mut [Kept<'_>],
) -> Result<Vec<Place>, Error> {
    let mut known = Vec::new();
    let writer = tree.writer();
    if tree.view().segments.is_empty() {
        return Ok(known);
    }
    for (at, kept) in kept.iter_mut().enumerate() {
        let live = source.tree.segment(source.entries[at].number)?;
        let before = known.len();
        live.ids.for_each(&mut |id, _, row| {
            if !is_deleted(&kept.bits, row) && writer.find(id).is_some() {
                known.push((at, row));
            }
        });
        known[before..].sort_unstable();
        known[before..].iter().for_each(|&(_, row)| kept.leave(row));
    }
    Ok(known)
}

/// Numbers that stand here for those of a state: of its segments, of the files that defined leaves of
/// them, and of delete bitmaps.
struct Numbers {
    /// By number there.
    here: HashMap<u64, u64>,
    /// The delete bitmap of each segment, by number of the segment there.
    bitmaps: HashMap<u64, u64>,
}

impl Numbers {
    fn of(source: Segments<'_>, versions: &VersionSet) -> Result<Numbers, Error> {
        let mut numbers = Numbers { here: HashMap::new(), bitmaps: HashMap::new() };
        for entry in source.entries {
            numbers.here.entry(entry.number).or_insert_with(|| versions.new_entry().0.number);
            numbers.bitmaps.insert(entry.number, versions.new_entry().0.number);
            let live = source.tree.segment(entry.number)?;
            for there in definers_of(&live) {
                numbers.here.entry(there).or_insert_with(|| versions.new_entry().0.number);
            }
        }
        Ok(numbers)
    }

    /// The entry of a segment here.
    fn entry(&self, source: Segments<'_>, kept: &Kept<'_>) -> Result<SegmentEntry, Error> {
        let there = kept.entry.expect("an entry of the state");
        let live = source.tree.segment(there.number)?;
        let deleted = there.rows - kept.rows;
        Ok(SegmentEntry {
            number: self.here[&there.number],
            tombstones: if deleted > 0 { self.bitmaps[&there.number] } else { 0 },
            deleted,
            origin: Some(Arc::new(self.origin(there, &live, source.collection))),
            ..there.clone()
        })
    }

    /// The origin of a segment here.
    fn origin(&self, entry: &SegmentEntry, live: &LiveSegment, collection: u64) -> Origin {
        let here = |there: u64| self.here[&there];
        match entry.origin.as_deref() {
            // A state that took the segment over itself.
            Some(Origin { collection, number, definers }) => {
                let in_use = definers_of(live);
                let definers = definers.iter().filter(|(_, there)| in_use.contains(there));
                let definers = definers.map(|&(written, there)| (written, here(there)));
                Origin { collection: *collection, number: *number, definers: definers.collect() }
            }
            None => {
                let definers = definers_of(live).into_iter().map(|there| (there, here(there)));
                Origin { collection, number: entry.number, definers: definers.collect() }
            }
        }
    }
}

/// Numbers of the files that defined the leaves of a segment, ascending.
fn definers_of(live: &LiveSegment) -> Vec<u64> {
    let Some(segment) = live.segment.leaves() else { return Vec::new() };
    let leaves = 0..segment.leaves();
    let mut definers: Vec<u64> = leaves.map(|leaf| definer(segment.leaf_number(leaf))).collect();
    definers.sort_unstable();
    definers.dedup();
    definers
}

/// Takes the file of a segment under its entry here, and opens it.
fn take_segment(
    source: Segments<'_>,
    kept: &Kept<'_>,
    here: &SegmentEntry,
    versions: &VersionSet,
) -> Result<(SegmentEntry, LiveSegment), Error> {
    let directory = versions.directory();
    let store = &directory.store;
    let collection = versions.manifest().collection;
    let there = kept.entry.expect("an entry of the state").number;
    let ids = Some(source.tree.segment(there)?.ids.clone());
    directory.take(source.directory, &segment_name(there), &segment_name(here.number))?;
    if here.deleted > 0 {
        here.write_delete_bitmap(store, collection, &kept.bits)?;
    }
    let known = Known { deleted: &kept.bits, wanted: None, ids };
    Ok((here.clone(), versions.tree().open(store, here, collection, known)?))
}

/// Names of the files of a segment.
fn files_of(entry: &SegmentEntry) -> impl Iterator<Item = String> {
    let bitmap = (entry.tombstones > 0).then(|| delete_bitmap_name(entry.tombstones));
    [segment_name(entry.number)].into_iter().chain(bitmap)
}
