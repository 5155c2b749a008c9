//! The writer's side: finds the place of an id, applies writes, and moves rows from place to place.

mod replace;
mod room;

use std::sync::atomic::Ordering;
use std::sync::{Arc, MutexGuard};
use std::time::{Duration, Instant};

use vstream_attribute::Update;
use vstream_index::{
    Applied, Cluster, IndexRow, IndexSettings, IndexStats, Insert, Outlook, Search,
};
use vstream_store::Store;

pub(crate) use self::room::Room;
use self::room::{wall, WAIT};
use super::find::{find_live, Foreseen};
use super::known_ids::KnownIds;
use super::residence::Arrivals;
use super::{make_index, Leaves, LiveSegment, Tree, View};
use crate::error::Error;
use crate::field_bytes;
use crate::priority::threads;
use vstream_segment::{
    drawn_for, suit, write_into, write_pinned, SegmentKind, SegmentSettings, SegmentSummary,
    Targets,
};

/// The memtable's bytes are counted again when writes may have filled half of the room left below
/// its limit, but not before they may have filled the limit divided by this number. So they are
/// counted a few dozen times until the memtable is full.
const LOOKS: u64 = 64;
/// Deltas, and segments where they are merged whole, above which a second merge begins.
const DELTAS_MANY: f64 = 10.0;
const SEGMENTS_MANY: f64 = 32.0;
/// Time that readers get to release a view before one of them may have to free its memory.
const RETIRED_FOR: Duration = Duration::from_millis(100);

/// A memtable that takes no more rows. Its rows may still be deleted or replaced.
pub(crate) struct ImmutableMemtable {
    rows: Arc<dyn Search>,
    /// Sequence of the last write in it.
    sequence: u64,
    settings: SegmentSettings,
    /// See [`Settings::merges_ranges`](crate::settings::Settings::merges_ranges).
    merges_ranges: bool,
}

impl ImmutableMemtable {
    pub(crate) fn rows(&self) -> &Arc<dyn Search> {
        &self.rows
    }

    /// Sequence of its last write.
    pub(crate) fn sequence(&self) -> u64 {
        self.sequence
    }

    /// Writes the rows that lived at its last write as segment `name`: as runs of the leaves that
    /// segments define, unless these leaves are few or too many for so few rows.
    pub(crate) fn write(
        &self,
        store: &dyn Store,
        name: &str,
        (identity, first_leaf): (u64, u64),
        leaves: &Leaves,
    ) -> Result<SegmentSummary, Error> {
        let settings = SegmentSettings { identity, first_leaf, ..self.settings };
        let rows = self.rows.snapshot(Some(self.sequence));
        if settings.kind == SegmentKind::Cluster && self.rows.leaves() > 0 {
            let mut targets = leaves.targets(&|_| false);
            let mut n = 0;
            rows.for_each_row(&mut |_| n += 1);
            let drawn = self.merges_ranges && !targets.is_empty();
            if drawn {
                targets = drawn_for(targets, n, identity);
            }
            if drawn || suit(&targets, n) {
                let targets = Targets::new(settings.dimension, settings.seed, targets);
                return Ok(write_into(store, name, settings, &*rows, &targets)?);
            }
        }
        Ok(write_pinned(store, name, settings, &*rows)?)
    }
}

/// The writer's side of the immutable memtable.
struct ImmutableWriter {
    index: Box<dyn Insert>,
    /// Id and sequence of rows deleted since it became immutable.
    deaths: Vec<(u64, u64)>,
    immutable: Arc<ImmutableMemtable>,
    arrivals: Arrivals,
}

/// State under the writer's lock.
pub(super) struct Writing {
    memory: Box<dyn Insert>,
    reader: Arc<dyn Search>,
    immutable: Option<ImmutableWriter>,
    segments: Vec<Arc<LiveSegment>>,
    leaves: Arc<Leaves>,
    /// The ids of the segments, and of segments that were.
    pub(super) known: KnownIds,
    /// True if the first write makes it, of all segments that are there then.
    pub(super) knows_later: bool,
    /// Rows that the next writes are about.
    foreseen: Foreseen,
    /// See [`View::since`].
    since: u64,
    /// Writes since the memtable's bytes were counted. A row with large fields counts as several.
    writes: u64,
    /// Writes after which the bytes are counted again.
    writes_max: u64,
    /// Bytes of the memtable when they were counted last.
    memory_bytes: u64,
    /// Bytes of the immutable memtable without its `deaths`.
    immutable_bytes: u64,
    /// Bytes of an empty memtable, which it takes whatever the limit.
    empty_bytes: u64,
    /// Approximate bytes of a row in memory without its fields.
    row_bytes: u64,
    /// Of the rows of the memtable; `None` if they stay in it.
    arrivals: Option<Arrivals>,
    /// Splits and the like of memtables that take no more rows, and of merges of segments.
    maintained: IndexStats,
}

/// A live row's version and place.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Found {
    pub(crate) version: u64,
    place: Place,
}

#[derive(Clone, Copy, Debug)]
enum Place {
    Memtable,
    ImmutableMemtable,
    /// Position among the segments, and row in that segment.
    Segment(usize, u32),
}

impl Writing {
    /// * `leaves_memory`: whether rows go to segments.
    pub(super) fn new(
        memory: Box<dyn Insert>,
        view: &View,
        row_bytes: u64,
        leaves_memory: bool,
    ) -> Writing {
        let (immutable, segments) = (None, Vec::new());
        let (reader, leaves) = (view.memory.clone(), view.leaves.clone());
        let (writes, writes_max, memory_bytes, immutable_bytes) = (0, 0, 0, 0);
        let empty_bytes = memory.stats().memory_bytes;
        Writing {
            memory,
            reader,
            immutable,
            segments,
            leaves,
            known: KnownIds::default(),
            knows_later: false,
            foreseen: Foreseen::default(),
            since: 0,
            writes,
            writes_max,
            memory_bytes,
            immutable_bytes,
            empty_bytes,
            row_bytes,
            arrivals: leaves_memory.then(Arrivals::default),
            maintained: IndexStats::default(),
        }
    }

    /// Counts of both memtables, and all maintenance so far.
    pub(super) fn index_stats(&self) -> IndexStats {
        let mut stats = self.memory.stats();
        stats.add_maintenance(&self.maintained);
        if let Some(immutable) = &self.immutable {
            let more = immutable.index.stats();
            stats.live += more.live;
            stats.dead += more.dead;
            stats.leaves += more.leaves;
            stats.memory_bytes += more.memory_bytes;
        }
        stats
    }

    /// Bytes of the memtable, as counted a short while ago.
    ///
    /// Cost: O(1), and O(leaves in memory) when writes may have filled half of what was left below
    /// `limit`.
    ///
    /// * `limit`: the next limit in bytes; `step`: bytes by which it may be exceeded.
    fn look(&mut self, limit: u64, step: u64) -> u64 {
        if self.writes >= self.writes_max {
            self.writes = 0;
            self.memory_bytes = self.memory.stats().memory_bytes;
            let left = limit.saturating_sub(self.memory_bytes) / 2;
            self.writes_max = (left.max(step) / self.row_bytes).max(1);
        }
        self.memory_bytes
    }

    /// Bytes of the immutable memtable.
    fn immutable_bytes(&self) -> u64 {
        let bytes = |immutable: &ImmutableWriter| {
            let deaths = immutable.deaths.capacity() * size_of::<(u64, u64)>();
            self.immutable_bytes.saturating_sub(self.empty_bytes) + deaths as u64
        };
        self.immutable.as_ref().map_or(0, bytes)
    }

    fn find(&self, id: u64) -> Option<Found> {
        if let Some(version) = self.memory.version_of(id) {
            return Some(Found { version, place: Place::Memtable });
        }
        self.find_elsewhere(id)
    }

    fn find_elsewhere(&self, id: u64) -> Option<Found> {
        if let Some(immutable) = &self.immutable {
            if let Some(version) = immutable.index.version_of(id) {
                return Some(Found { version, place: Place::ImmutableMemtable });
            }
        }
        if !self.known.may_have(id) {
            return None;
        }
        let foreseen = self.foreseen.find(&self.segments, id);
        let (at, row) = foreseen.or_else(|| find_live(&self.segments, id))?;
        let version = self.segments[at].ids.version(row);
        Some(Found { version, place: Place::Segment(at, row) })
    }

    fn note_arrival(&mut self) {
        if let Some(arrivals) = &mut self.arrivals {
            arrivals.note(Instant::now());
        }
    }

    /// How many more rows without fields take as much memory as the fields of this one.
    fn rows_in(&self, row: &IndexRow<'_>) -> u64 {
        field_bytes::carried(&row.fields) as u64 / self.row_bytes
    }

    fn view(&self) -> View {
        View {
            memory: self.reader.clone(),
            immutable: self.immutable.as_ref().map(|immutable| immutable.immutable.clone()),
            segments: self.segments.clone(),
            leaves: self.leaves.clone(),
            since: self.since,
        }
    }

    /// Replaces the list of segments.
    ///
    /// * `leaves`: those of the list as it was expected to become.
    fn set_segments(&mut self, leaves: Arc<Leaves>, settings: IndexSettings) {
        let is_as_expected = leaves.are_of(&self.segments);
        self.leaves = match is_as_expected {
            true => leaves,
            false => Arc::new(Leaves::of(&self.segments, settings)),
        };
    }
}

/// Adds the tombstone of a row outside the memtable, with the sequence of the write.
fn tombstone_at(
    immutable: &mut Option<ImmutableWriter>,
    segments: &[Arc<LiveSegment>],
    id: u64,
    place: Place,
    sequence: u64,
) {
    match place {
        Place::Memtable => {}
        Place::ImmutableMemtable => {
            let immutable = immutable.as_mut().expect("the place of a row that was found");
            immutable.index.tombstone_at(id, sequence);
            immutable.deaths.push((id, sequence));
        }
        Place::Segment(at, row) => {
            segments[at].tombstones.add(row, sequence);
        }
    }
}

/// The right to write. While it is held, no row moves from place to place.
pub(crate) struct Writer<'a> {
    writing: MutexGuard<'a, Writing>,
}

impl Writer<'_> {
    /// The live row of an id.
    pub(crate) fn find(&self, id: u64) -> Option<Found> {
        self.writing.find(id)
    }

    /// Says how many upserts come next, so that their rows are placed together.
    pub(crate) fn expect(&mut self, upserts: usize) {
        self.writing.memory.expect(upserts);
    }

    /// Looks up together what the next writes are about.
    ///
    /// * `ids`: of rows that are mostly there.
    pub(crate) fn foresee(&mut self, mut ids: Vec<u64>) {
        self.expect(ids.len());
        let Writing { segments, known, foreseen, .. } = &mut *self.writing;
        ids.retain(|&id| known.may_have(id));
        foreseen.look_up(segments, ids);
    }

    /// The shard of the row of an id that is in no segment.
    pub(crate) fn shard_in_memory(&self, id: u64) -> Option<u16> {
        let Writing { memory, immutable, .. } = &*self.writing;
        let immutable = || immutable.as_ref()?.index.shard_of(id);
        memory.shard_of(id).or_else(immutable)
    }

    /// Adds a row, or replaces the row of the same id unless that one is newer.
    pub(crate) fn upsert(&mut self, row: IndexRow<'_>) -> Applied {
        let Writing { memory, immutable, segments, .. } = &mut *self.writing;
        if immutable.is_none() && segments.is_empty() {
            let applied = memory.upsert_over(row, &mut |_| {});
            if applied != Applied::Stale {
                self.writing.note_arrival();
            }
            return applied;
        }
        let before = self.writing.find(row.key.id);
        self.upsert_over(row, before)
    }

    /// Like [`Writer::upsert`], with `before` the present result of [`Writer::find`] for the id.
    pub(crate) fn upsert_over(&mut self, row: IndexRow<'_>, before: Option<Found>) -> Applied {
        let key = row.key;
        if before.is_some_and(|before| before.version > key.version) {
            return Applied::Stale;
        }
        self.writing.writes += 1 + self.writing.rows_in(&row);
        let Writing { memory, immutable, segments, .. } = &mut *self.writing;
        let place = before.map_or(Place::Memtable, |before| before.place);
        let on_superseded =
            &mut |sequence| tombstone_at(immutable, segments, key.id, place, sequence);
        let applied = memory.upsert_over(row, on_superseded);
        self.writing.note_arrival();
        match applied {
            Applied::Inserted if before.is_some() => Applied::Replaced,
            applied => applied,
        }
    }

    /// What an update would make of the live row of an id; `None` if it is not in the memtable, which
    /// alone can change the fields of a row.
    pub(crate) fn outlook(&self, id: u64, update: &Update<'_>) -> Option<Outlook> {
        self.writing.memory.outlook(id, update)
    }

    /// The live row of an id that is not in the memtable.
    pub(crate) fn find_elsewhere(&self, id: u64) -> Option<Found> {
        self.writing.find_elsewhere(id)
    }

    /// Changes what a row of the memtable carries beside its vector.
    pub(crate) fn change_fields(&mut self, id: u64, version: u64, update: &Update<'_>) {
        let payload = update.payload.of(None).map_or(0, <[u8]>::len);
        let bytes = update.set.bytes().len() + payload;
        self.writing.writes += 1 + bytes as u64 / self.writing.row_bytes;
        let is_there = self.writing.memory.change_fields(id, version, update);
        debug_assert!(is_there, "a row that was found in the memtable");
    }

    /// Shows the row that was found under an id. Errors: `Corrupt`, `Io`, if it is in a segment that
    /// cannot be read.
    pub(crate) fn show(
        &self,
        id: u64,
        found: Found,
        visit: &mut dyn FnMut(IndexRow<'_>),
    ) -> Result<(), Error> {
        let Writing { memory, immutable, segments, .. } = &*self.writing;
        let is_there = match found.place {
            Place::Memtable => memory.show(id, visit),
            Place::ImmutableMemtable => {
                let immutable = immutable.as_ref().expect("the place of a row that was found");
                immutable.index.show(id, visit)
            }
            Place::Segment(at, row) => {
                segments[at].show(&[row], &mut |_, row| visit(row))?;
                true
            }
        };
        debug_assert!(is_there, "a row that was found");
        Ok(())
    }

    /// The check of the string id of the row that was found. Errors: as [`Writer::show`].
    pub(crate) fn check_of(&self, id: u64, found: Found) -> Result<u64, Error> {
        if let Place::Segment(at, _) = found.place {
            return Ok(self.writing.segments[at].segment.check_of(id)?);
        }
        let mut check = 0;
        self.show(id, found, &mut |row| check = row.fields.check)?;
        Ok(check)
    }

    /// Deletes the row of `id` unless it is newer than `version`; true if a row was deleted.
    pub(crate) fn delete(&mut self, id: u64, version: u64) -> bool {
        let Writing { memory, immutable, segments, .. } = &mut *self.writing;
        if immutable.is_none() && segments.is_empty() {
            return memory.delete(id, version);
        }
        match self.writing.find(id) {
            Some(found) if found.version <= version => self.delete_found(id, found),
            _ => return false,
        }
        true
    }

    /// Deletes a row, with `found` the present result of [`Writer::find`] for the id.
    pub(crate) fn delete_found(&mut self, id: u64, found: Found) {
        self.writing.writes += 1;
        let Writing { memory, immutable, segments, .. } = &mut *self.writing;
        if let Place::Memtable = found.place {
            let died = memory.delete(id, found.version);
            debug_assert!(died, "a row that was found");
            return;
        }
        memory.sequence_foreign_delete(&mut |sequence| {
            tombstone_at(immutable, segments, id, found.place, sequence)
        });
    }
}

impl Tree {
    /// Takes the writer's lock. Where queries came first, the first call makes the filter of ids.
    pub(crate) fn writer(&self) -> Writer<'_> {
        let mut writing = self.lock();
        if std::mem::take(&mut writing.knows_later) {
            writing.known = KnownIds::of(&writing.segments, threads(true));
        }
        Writer { writing }
    }

    /// Bytes at which the memtable is full.
    fn memtable_bytes_max(&self) -> u64 {
        self.settings.memory.map_or(u64::MAX, |bytes| bytes / 8 * 3)
    }

    /// True if the memtable is full.
    pub(crate) fn is_full(&self) -> bool {
        self.room() != Room::Enough
    }

    /// Room in memory. Cost: that of [`Writing::look`].
    pub(crate) fn room(&self) -> Room {
        let limit = self.memtable_bytes_max();
        if limit == u64::MAX {
            return Room::Enough;
        }
        let mut writing = self.lock();
        let immutable = writing.immutable_bytes();
        let next = limit.min(wall(limit).saturating_sub(immutable));
        let bytes = writing.look(next, limit / LOOKS);
        // A flush cannot free the bytes of an empty memtable.
        let counted = bytes.saturating_sub(writing.empty_bytes);
        let used = counted + writing.writes * writing.row_bytes;
        Room::of((counted, used), immutable, limit)
    }

    /// What merges make fewer, over how many of it there should be: of deltas, where segments are merged
    /// by ranges of leaves, and else of segments.
    pub(crate) fn pile(&self) -> f64 {
        let view = self.view.load();
        match self.settings.merges_ranges() {
            true => view.leaves.deltas() as f64 / DELTAS_MANY,
            false => view.segments.len() as f64 / SEGMENTS_MANY,
        }
    }

    /// Makes the memtable immutable and begins a new one. If an immutable memtable still waits to
    /// be written, returns that one and changes nothing.
    ///
    /// Cost for readers: nothing. For the writer: an empty index.
    pub(crate) fn rotate_memtable(&self) -> Arc<ImmutableMemtable> {
        let mut writing = self.lock();
        if let Some(immutable) = &writing.immutable {
            return immutable.immutable.clone();
        }
        // Its last rows go to leaves, since all searches compare those of a tail while it is written.
        let expected = writing.memory.expect(0);
        let sequence = writing.reader.writes();
        let stats = writing.memory.stats();
        writing.immutable_bytes = stats.memory_bytes;
        writing.maintained.add_maintenance(&stats);
        let mut fresh = make_index(&self.settings, sequence);
        fresh.expect(expected);
        let rows = std::mem::replace(&mut writing.reader, fresh.reader());
        let index = std::mem::replace(&mut writing.memory, fresh);
        let (settings, merges_ranges) =
            (self.segment_settings(0, 0), self.settings.merges_ranges());
        let immutable = Arc::new(ImmutableMemtable { rows, sequence, settings, merges_ranges });
        let arrivals = writing.arrivals.replace(Arrivals::default()).unwrap_or_default();
        writing.immutable = Some(ImmutableWriter {
            index,
            deaths: Vec::new(),
            immutable: immutable.clone(),
            arrivals,
        });
        (writing.memory_bytes, writing.writes, writing.writes_max) = (0, 0, 0);
        self.view.store(Arc::new(writing.view()));
        immutable
    }

    /// Makes a loaded index the memtable, before the first write.
    pub(crate) fn end_load(&self, index: Cluster) {
        let mut writing = self.lock();
        assert_eq!(writing.memory.stats().live, 0, "an index is loaded before the first write");
        writing.reader = index.reader();
        writing.memory = Box::new(index);
        (writing.memory_bytes, writing.writes, writing.writes_max) = (0, 0, 0);
        self.view.store(Arc::new(writing.view()));
    }

    /// Counts the splits, merges, rewrites and moves of a merge.
    pub(crate) fn note_maintenance(&self, made: &IndexStats) {
        self.lock().maintained.add_maintenance(made);
    }

    /// True if no segment serves the rows of `immutable` yet.
    pub(crate) fn is_immutable(&self, immutable: &Arc<ImmutableMemtable>) -> bool {
        let writing = self.lock();
        writing.immutable.as_ref().is_some_and(|held| Arc::ptr_eq(&held.immutable, immutable))
    }

    /// True if no row is in memory and none waits to be written.
    pub(crate) fn is_flushed(&self) -> bool {
        let writing = self.lock();
        writing.immutable.is_none() && writing.memory.stats().live == 0
    }

    /// Makes the writer wait while the immutable memtable is written, or, if there is no room, until that
    /// begins: for a short time at most.
    pub(crate) fn wait_for_room(&self, room: Room) {
        let writing = self.lock();
        if writing.immutable.is_some() || room == Room::None {
            let begun = Instant::now();
            let pause = if let Room::Little(pause) = room { pause } else { WAIT };
            drop(self.settled.wait_timeout(writing, pause));
            self.note_wait(begun);
        }
    }

    /// Makes the writer wait for `WAIT` while segments are merged.
    pub(crate) fn wait_for_merge(&self) {
        let begun = Instant::now();
        std::thread::sleep(WAIT);
        self.note_wait(begun);
    }

    fn note_wait(&self, begun: Instant) {
        self.waits.fetch_add(1, Ordering::Relaxed);
        self.waited_us.fetch_add(begun.elapsed().as_micros() as u64, Ordering::Relaxed);
    }
}

/// A view that is no longer current. Its drop waits up to `RETIRED_FOR` until queries have released
/// the view: otherwise one of them would spend long on freeing its memory.
pub(crate) struct Retired {
    view: Arc<View>,
    _index: Option<Box<dyn Insert>>,
}

impl Drop for Retired {
    fn drop(&mut self) {
        let end = Instant::now() + RETIRED_FOR;
        while Arc::strong_count(&self.view) > 1 && Instant::now() < end {
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}
