//! An index that scans every row: the oracle of the other kinds, and enough for small collections.
//!
//! 1. The writer appends rows to chunks of 1,024; a delete marks its row.
//! 2. When more rows are dead than alive, the writer copies the living rows to new chunks.

use std::convert::Infallible;
use std::ops::Range;
use std::sync::Arc;

use vstream_attribute::Filter;
use vstream_quantize::rabitq::Rotation;
use vstream_vector::{Neighbor, TopK};

use crate::id_map::IdMap;
use crate::probe::{Probe, SearchStats};
use crate::publish::Published;
use crate::reach::{note, Reach};
use crate::rows::{distance, IndexRow, RowChunk, RowKey, RowWriter, Sequence, Visible, NEVER};
use crate::scratch::Scratch;
use crate::stages::{Candidate, ExactSearch, Found, RotatedQuery, Scanned, StagedSearch, Wanted};
use crate::traits::{
    Applied, IndexSettings, IndexSnapshot, IndexStats, Insert, PinnedRows, Search,
};

const CHUNK_ROWS: usize = 1024;

type Chunks = Vec<Arc<RowChunk>>;

struct Shared {
    settings: IndexSettings,
    published: Published<Chunks>,
}

/// The exact index. See the module's steps.
pub struct Flat {
    shared: Arc<Shared>,
    chunks: Chunks,
    open: RowWriter,
    ids: IdMap,
    sequence: Sequence,
    dead: usize,
    rewrites: u64,
}

impl Flat {
    /// An empty index.
    pub fn new(settings: IndexSettings) -> Flat {
        Flat::after(settings, 0)
    }

    /// An empty index whose first write gets the sequence after `sequence`.
    pub fn after(settings: IndexSettings, sequence: u64) -> Flat {
        let open = RowWriter::new(settings.element, settings.dimension, CHUNK_ROWS);
        let chunks = vec![open.chunk().clone()];
        let published = Published::new(chunks.clone(), sequence);
        let shared = Arc::new(Shared { settings, published });
        Flat { shared, chunks, open, ids: IdMap::default(), sequence, dead: 0, rewrites: 0 }
    }

    fn push(&mut self, row: IndexRow<'_>, inserted: Sequence) {
        if self.open.is_full() {
            let settings = &self.shared.settings;
            self.open = RowWriter::new(settings.element, settings.dimension, CHUNK_ROWS);
            self.chunks.push(self.open.chunk().clone());
        }
        let lane = self.open.push(row, inserted);
        self.ids.insert(row.key.id, ((self.chunks.len() - 1) as u32, lane as u32));
    }

    fn mark(&mut self, address: (u32, u32), sequence: Sequence) {
        self.chunks[address.0 as usize].mark_deleted(address.1 as usize, sequence);
        self.dead += 1;
    }

    /// Copies the living rows if the dead outnumber them, and publishes.
    fn publish(&mut self, chunks_before: usize) {
        if self.dead > CHUNK_ROWS && self.dead > self.ids.len() {
            let old = std::mem::take(&mut self.chunks);
            let settings = &self.shared.settings;
            self.open = RowWriter::new(settings.element, settings.dimension, CHUNK_ROWS);
            self.chunks.push(self.open.chunk().clone());
            for chunk in &old {
                for lane in (0..chunk.len()).filter(|&lane| chunk.is_alive(lane)) {
                    let row = IndexRow::plain(chunk.key(lane), chunk.vector(lane));
                    self.push(row, chunk.inserted(lane));
                }
            }
            self.dead = 0;
            self.rewrites += 1;
            self.shared.published.swap(self.chunks.clone(), self.sequence);
        } else if self.chunks.len() != chunks_before {
            self.shared.published.swap(self.chunks.clone(), self.sequence);
        } else {
            self.shared.published.publish(self.sequence);
        }
    }
}

impl Insert for Flat {
    fn upsert_over(&mut self, row: IndexRow<'_>, on_superseded: &mut dyn FnMut(u64)) -> Applied {
        let key = row.key;
        let chunks_before = self.chunks.len();
        let old = self.ids.get(key.id);
        if let Some(address) = old {
            if self.chunks[address.0 as usize].key(address.1 as usize).version > key.version {
                return Applied::Stale;
            }
        }
        self.sequence += 1;
        on_superseded(self.sequence);
        if let Some(address) = old {
            self.mark(address, self.sequence);
        }
        self.push(row, self.sequence);
        self.publish(chunks_before);
        old.map_or(Applied::Inserted, |_| Applied::Replaced)
    }

    fn delete(&mut self, id: u64, version: u64) -> bool {
        let Some(address) = self.ids.get(id) else { return false };
        if self.chunks[address.0 as usize].key(address.1 as usize).version > version {
            return false;
        }
        self.sequence += 1;
        self.ids.remove(id);
        self.mark(address, self.sequence);
        self.publish(self.chunks.len());
        true
    }

    fn sequence_foreign_delete(&mut self, on_superseded: &mut dyn FnMut(u64)) {
        self.sequence += 1;
        on_superseded(self.sequence);
        self.shared.published.publish(self.sequence);
    }

    fn tombstone_at(&mut self, id: u64, sequence: u64) {
        if let Some(address) = self.ids.get(id) {
            self.ids.remove(id);
            self.mark(address, sequence);
        }
    }

    fn version_of(&self, id: u64) -> Option<u64> {
        let (chunk, lane) = self.ids.get(id)?;
        Some(self.chunks[chunk as usize].key(lane as usize).version)
    }

    fn reader(&self) -> Arc<dyn Search> {
        self.shared.clone()
    }

    fn stats(&self) -> IndexStats {
        let rows: u64 = self.chunks.iter().map(|chunk| chunk.memory_bytes()).sum();
        IndexStats {
            live: self.ids.len() as u64,
            dead: self.dead as u64,
            memory_bytes: rows + self.ids.memory_bytes(),
            rewrites: self.rewrites,
            ..IndexStats::default()
        }
    }
}

impl Shared {
    fn pinned(&self, as_of: Option<Sequence>) -> Pinned {
        let (chunks, pin) = self.published.pin();
        Pinned { settings: self.settings, chunks: chunks.to_vec(), pin: as_of.unwrap_or(pin) }
    }
}

impl Search for Shared {
    fn search(&self, probe: &Probe<'_>, _scratch: &mut Scratch, out: &mut TopK) -> SearchStats {
        let (chunks, pin) = self.published.pin();
        search(&chunks, self.settings, probe.vector, pin, out)
    }

    fn search_radius(
        &self,
        vector: &[f32],
        radius: f32,
        filter: Option<&Filter>,
        out: &mut Vec<Neighbor>,
    ) -> SearchStats {
        let Ok(stats) = self.pinned(None).search_radius(vector, radius, filter, out);
        stats
    }

    fn audit(
        &self,
        probe: &Probe<'_>,
        scratch: &mut Scratch,
        out: &mut TopK,
        reach: &mut Vec<Reach>,
    ) -> usize {
        self.search(probe, scratch, out);
        note(out.rows(), &[], |_| (0, std::iter::empty()), reach);
        0
    }

    fn sample(&self, pick: u64, out: &mut Vec<f32>) -> Option<u64> {
        let pinned = self.pinned(None);
        let chunk = &pinned.chunks[(pick % pinned.chunks.len() as u64) as usize];
        let lane = (pick / pinned.chunks.len() as u64) as usize % chunk.len().max(1);
        if lane >= chunk.len() || !chunk.is_visible(lane, pinned.visible()) {
            return None;
        }
        out.resize(self.settings.dimension, 0.0);
        chunk.vector(lane).read(out);
        Some(chunk.key(lane).id)
    }

    fn pin(&self) -> Box<dyn PinnedRows> {
        Box::new(self.pinned(None))
    }

    fn snapshot(&self, as_of: Option<u64>) -> Box<dyn IndexSnapshot> {
        Box::new(self.pinned(as_of))
    }

    fn leaves(&self) -> usize {
        0
    }

    fn writes(&self) -> u64 {
        self.published.sequence()
    }
}

/// The rows of one moment.
struct Pinned {
    settings: IndexSettings,
    chunks: Chunks,
    pin: Sequence,
}

impl Pinned {
    fn visible(&self) -> Visible {
        Visible { inserted: self.pin, deleted: self.pin }
    }
}

impl PinnedRows for Pinned {
    fn for_each_row(&self, visit: &mut dyn FnMut(IndexRow<'_>)) {
        self.chunks.iter().for_each(|chunk| chunk.for_each_row(self.visible(), visit));
    }
}

impl ExactSearch for Pinned {
    type Error = Infallible;

    fn leaves(&self) -> usize {
        0
    }

    fn rotation(&self) -> Option<&Rotation> {
        None
    }

    fn scan_loose(&self, vector: &[f32], _: Option<&Filter>, out: &mut TopK) -> usize {
        search(&self.chunks, self.settings, vector, self.pin, out).rows
    }

    fn exact(
        &self,
        vector: &[f32],
        _: Option<&Filter>,
        out: &mut TopK,
    ) -> Result<SearchStats, Infallible> {
        Ok(search(&self.chunks, self.settings, vector, self.pin, out))
    }

    fn for_each_match(
        &self,
        _: Option<&Filter>,
        visit: &mut dyn FnMut(RowKey),
    ) -> Result<(), Infallible> {
        self.for_each_row(&mut |row| visit(row.key));
        Ok(())
    }

    fn search_radius(
        &self,
        vector: &[f32],
        radius: f32,
        _: Option<&Filter>,
        out: &mut Vec<Neighbor>,
    ) -> Result<SearchStats, Infallible> {
        let mut stats = SearchStats::default();
        for chunk in &self.chunks {
            stats.rows += scan_radius(chunk, self.settings, vector, self.visible(), radius, out);
        }
        stats.exact = stats.rows;
        Ok(stats)
    }
}

/// No row is in a leaf, so every stage is empty.
impl StagedSearch for Pinned {
    type State = Scratch;
    type Address = Infallible;
    type Block = Infallible;

    fn select(&self, _: Option<&Filter>, _: &mut Scratch) -> Result<u64, Infallible> {
        Ok(self.chunks.iter().map(|chunk| chunk.len() as u64).sum())
    }

    fn estimate_leaves(&self, _: &RotatedQuery, _: usize, _: &mut Scratch, _: &mut Vec<f32>) {}

    fn rank_leaves(&self, _: &RotatedQuery, _: f32, _: &mut Scratch, _: &mut Vec<f32>) {}

    fn keep_leaves(&self, _: Range<usize>, _: f32, _: &mut Scratch) -> usize {
        0
    }

    fn next_codes(&self, _: &mut Scratch) -> Option<Vec<Infallible>> {
        None
    }

    fn scan_codes(
        &self,
        _: &RotatedQuery,
        _: &[Infallible],
        _: Wanted,
        _: &mut Scratch,
        _: &mut Vec<Candidate>,
    ) -> Scanned {
        Scanned::default()
    }

    fn rows_of(&self, _: &[Candidate], _: &mut Scratch) -> Vec<Infallible> {
        Vec::new()
    }

    fn refine(
        &self,
        _: Found<'_>,
        _: &[Infallible],
        _: &mut Scratch,
        _: &mut TopK,
        _: &mut dyn FnMut(usize, Neighbor),
    ) -> Result<usize, Infallible> {
        Ok(0)
    }
}

impl IndexSnapshot for Pinned {
    fn sequence(&self) -> u64 {
        self.pin
    }

    fn search(&self, probe: &Probe<'_>, _: &mut Scratch, out: &mut TopK) -> SearchStats {
        search(&self.chunks, self.settings, probe.vector, self.pin, out)
    }
}

fn search(
    chunks: &Chunks,
    settings: IndexSettings,
    vector: &[f32],
    pin: Sequence,
    out: &mut TopK,
) -> SearchStats {
    let visible = Visible { inserted: pin, deleted: pin };
    let mut stats = SearchStats::default();
    for chunk in chunks {
        stats.rows += scan_exactly(chunk, settings, vector, visible, out);
    }
    stats.exact = stats.rows;
    stats
}

/// Offers every visible row of a chunk; returns how many there were.
pub(crate) fn scan_exactly(
    chunk: &RowChunk,
    settings: IndexSettings,
    query: &[f32],
    visible: Visible,
    out: &mut TopK,
) -> usize {
    debug_assert!(visible.deleted < NEVER);
    let mut rows = 0;
    for lane in 0..chunk.len() {
        if !chunk.is_visible(lane, visible) {
            continue;
        }
        rows += 1;
        let distance = distance(settings.metric, query, chunk.vector(lane));
        if distance <= out.bound() {
            let key = chunk.key(lane);
            out.offer(Neighbor { distance, id: key.id, version: key.version });
        }
    }
    rows
}

/// Adds every visible row of a chunk within `radius` to `out`; returns how many visible rows there
/// were.
pub(crate) fn scan_radius(
    chunk: &RowChunk,
    settings: IndexSettings,
    query: &[f32],
    visible: Visible,
    radius: f32,
    out: &mut Vec<Neighbor>,
) -> usize {
    let mut rows = 0;
    for lane in (0..chunk.len()).filter(|&lane| chunk.is_visible(lane, visible)) {
        rows += 1;
        let distance = distance(settings.metric, query, chunk.vector(lane));
        if distance <= radius {
            let key = chunk.key(lane);
            out.push(Neighbor { distance, id: key.id, version: key.version });
        }
    }
    rows
}
