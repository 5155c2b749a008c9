//! An index that scans every row: the oracle of the other kinds, and enough for small collections.
//!
//! 1. The writer appends rows to chunks of 1,024; a delete marks its row.
//! 2. When more rows are dead than alive, the writer copies the living rows to new chunks.

use std::convert::Infallible;
use std::ops::Range;
use std::sync::Arc;

use vstream_attribute::{Fields, FieldsBuffer, Filter};
use vstream_quantize::rabitq::Rotation;
use vstream_vector::{Neighbor, TopK};

use crate::filter::Compiled;
use crate::id_map::IdMap;
use crate::least_ids::LeastIds;
use crate::probe::{Probe, SearchStats};
use crate::publish::Published;
use crate::reach::{note, Reach};
use crate::rows::{
    distance, Carrier, CodeCounts, Dictionary, IndexRow, RowChunk, RowKey, RowWriter, Sequence,
    Visible, NEVER,
};
use crate::scratch::Scratch;
use crate::stages::{Candidate, ExactSearch, Found, RotatedQuery, Scanned, StagedSearch};
use crate::traits::{
    Applied, IndexSettings, IndexSnapshot, IndexStats, Insert, PinnedRows, Search,
};
use crate::{stages, wanted::Wanted};

const CHUNK_ROWS: usize = 1024;

type Chunks = Vec<Arc<RowChunk>>;

struct Shared {
    settings: IndexSettings,
    published: Published<Chunks>,
    dictionary: Arc<Dictionary>,
    /// Living rows of this index per code.
    living: CodeCounts,
}

/// The exact index. See the module's steps.
pub struct Flat {
    shared: Arc<Shared>,
    chunks: Chunks,
    open: RowWriter,
    carrier: Carrier,
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
        Flat::with_dictionary(settings, sequence, Arc::default())
    }

    /// An index as [`Flat::after`] makes it, which shares its dictionary of keywords with others: each
    /// text is held once.
    pub fn with_dictionary(
        settings: IndexSettings,
        sequence: u64,
        dictionary: Arc<Dictionary>,
    ) -> Flat {
        let open = RowWriter::new(settings.element, settings.dimension, CHUNK_ROWS);
        let chunks = vec![open.chunk().clone()];
        let published = Published::new(chunks.clone(), sequence);
        let carrier = Carrier::new(dictionary.clone());
        let shared = Shared { settings, published, dictionary, living: CodeCounts::default() };
        let (shared, ids) = (Arc::new(shared), IdMap::default());
        Flat { shared, chunks, open, carrier, ids, sequence, dead: 0, rewrites: 0 }
    }

    /// The chunk that has room.
    fn open(&mut self) -> &mut RowWriter {
        if self.open.is_full() {
            let settings = &self.shared.settings;
            self.open = RowWriter::new(settings.element, settings.dimension, CHUNK_ROWS);
            self.chunks.push(self.open.chunk().clone());
        }
        &mut self.open
    }

    fn push(&mut self, row: IndexRow<'_>) {
        let sequence = self.sequence;
        self.open();
        let lane = self.open.push(&mut self.carrier, row, sequence);
        self.open.chunk().for_each_code(lane, |code| self.shared.living.raise(code));
        self.ids.insert(row.key.id, ((self.chunks.len() - 1) as u32, lane as u32));
    }

    fn row_at(&self, address: (u32, u32)) -> (&Arc<RowChunk>, usize) {
        (&self.chunks[address.0 as usize], address.1 as usize)
    }

    fn mark(&mut self, address: (u32, u32), sequence: Sequence) {
        let (rows, lane) = self.row_at(address);
        rows.mark_deleted(lane, sequence);
        rows.for_each_code(lane, |code| {
            self.shared.living.lower(code);
        });
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
                    self.open();
                    let copy = (&**chunk, lane);
                    let new = self.open.push_copy(&mut self.carrier, copy, chunk.inserted(lane));
                    let address = ((self.chunks.len() - 1) as u32, new as u32);
                    self.ids.insert(chunk.key(lane).id, address);
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
        self.push(row);
        self.publish(chunks_before);
        old.map_or(Applied::Inserted, |_| Applied::Replaced)
    }

    fn delete(&mut self, id: u64, version: u64) -> bool {
        let Some(address) = self.ids.get(id) else { return false };
        if self.chunks[address.0 as usize].key(address.1 as usize).version > version {
            return false;
        }
        self.sequence += 1;
        self.ids.remove(id, self.sequence);
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
            self.ids.remove(id, sequence);
            self.mark(address, sequence);
        }
    }

    fn version_of(&self, id: u64) -> Option<u64> {
        let (chunk, lane) = self.ids.get(id)?;
        Some(self.chunks[chunk as usize].key(lane as usize).version)
    }

    fn shard_of(&self, id: u64) -> Option<u16> {
        let (rows, lane) = self.row_at(self.ids.get(id)?);
        Some(rows.key(lane).shard)
    }

    fn fields_of(&self, id: u64, out: &mut FieldsBuffer) -> bool {
        let Some(address) = self.ids.get(id) else { return false };
        let (rows, lane) = self.row_at(address);
        rows.read_fields(lane, out);
        true
    }

    fn show(&self, id: u64, visit: &mut dyn FnMut(IndexRow<'_>)) -> bool {
        let Some(address) = self.ids.get(id) else { return false };
        let (rows, lane) = self.row_at(address);
        let mut fields = FieldsBuffer::default();
        rows.read_fields(lane, &mut fields);
        let (key, vector) = (rows.key(lane), rows.vector(lane));
        visit(IndexRow { key, vector, fields: fields.fields() });
        true
    }

    fn replace_fields(&mut self, id: u64, version: u64, fields: Fields<'_>) -> bool {
        let Some(old) = self.ids.get(id) else { return false };
        let (rows, lane) = self.row_at(old);
        let (rows, key) = (rows.clone(), rows.key(lane));
        if key.version > version {
            return false;
        }
        let chunks_before = self.chunks.len();
        self.sequence += 1;
        self.mark(old, self.sequence);
        self.push(IndexRow { key: RowKey { version, ..key }, vector: rows.vector(lane), fields });
        self.publish(chunks_before);
        true
    }

    fn reader(&self) -> Arc<dyn Search> {
        Arc::new(FlatReader(self.shared.clone()))
    }

    fn stats(&self) -> IndexStats {
        let bytes = |chunk: &Arc<RowChunk>| chunk.memory_bytes() + chunk.carried_bytes();
        let rows = self.chunks.iter().map(bytes).sum::<u64>() + self.shared.living.memory_bytes();
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
    fn pinned(self: &Arc<Shared>, as_of: Option<Sequence>) -> Pinned {
        let (chunks, pin) = self.published.pin();
        Pinned { shared: self.clone(), chunks: chunks.to_vec(), pin: as_of.unwrap_or(pin) }
    }
}

/// The reading side.
struct FlatReader(Arc<Shared>);

impl Search for FlatReader {
    fn search(&self, probe: &Probe<'_>, _scratch: &mut Scratch, out: &mut TopK) -> SearchStats {
        let (chunks, pin) = self.0.published.pin();
        let filter = probe.filter.map(|filter| Compiled::new(filter, &self.0.dictionary));
        search(&chunks, self.0.settings, (probe.vector, filter.as_ref()), pin, out)
    }

    fn search_radius(
        &self,
        vector: &[f32],
        radius: f32,
        filter: Option<&Filter>,
        out: &mut Vec<Neighbor>,
    ) -> SearchStats {
        let Ok(stats) = self.0.pinned(None).search_radius(vector, radius, filter, out);
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
        note(out.rows(), &[], |_| (0, 0.0, std::iter::empty()), reach);
        0
    }

    fn sample(&self, pick: u64, out: &mut Vec<f32>) -> Option<u64> {
        let pinned = self.0.pinned(None);
        let chunk = &pinned.chunks[(pick % pinned.chunks.len() as u64) as usize];
        let lane = (pick / pinned.chunks.len() as u64) as usize % chunk.len().max(1);
        if lane >= chunk.len() || !chunk.is_visible(lane, pinned.visible()) {
            return None;
        }
        out.resize(self.0.settings.dimension, 0.0);
        chunk.vector(lane).read(out);
        Some(chunk.key(lane).id)
    }

    fn pin(&self) -> Box<dyn PinnedRows> {
        Box::new(self.0.pinned(None))
    }

    fn snapshot(&self, as_of: Option<u64>) -> Box<dyn IndexSnapshot> {
        Box::new(self.0.pinned(as_of))
    }

    fn leaves(&self) -> usize {
        0
    }

    fn writes(&self) -> u64 {
        self.0.published.sequence()
    }
}

/// The rows of one moment.
struct Pinned {
    shared: Arc<Shared>,
    chunks: Chunks,
    pin: Sequence,
}

impl Pinned {
    fn visible(&self) -> Visible {
        Visible { inserted: self.pin, deleted: self.pin }
    }

    fn compile(&self, filter: Option<&Filter>) -> Option<Compiled> {
        filter.map(|filter| Compiled::new(filter, &self.shared.dictionary))
    }

    fn search(&self, vector: &[f32], filter: Option<&Filter>, out: &mut TopK) -> SearchStats {
        let filter = self.compile(filter);
        search(&self.chunks, self.shared.settings, (vector, filter.as_ref()), self.pin, out)
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

    fn scan_loose(&self, vector: &[f32], filter: Option<&Filter>, out: &mut TopK) -> usize {
        self.search(vector, filter, out).rows
    }

    fn exact(
        &self,
        vector: &[f32],
        filter: Option<&Filter>,
        out: &mut TopK,
    ) -> Result<SearchStats, Infallible> {
        Ok(self.search(vector, filter, out))
    }

    fn for_each_match(
        &self,
        filter: Option<&Filter>,
        visit: &mut dyn FnMut(RowKey),
    ) -> Result<(), Infallible> {
        let filter = self.compile(filter);
        for chunk in &self.chunks {
            chunk.for_each_match(filter.as_ref(), self.visible(), |lane| visit(chunk.key(lane)));
        }
        Ok(())
    }

    fn search_radius(
        &self,
        vector: &[f32],
        radius: f32,
        filter: Option<&Filter>,
        out: &mut Vec<Neighbor>,
    ) -> Result<SearchStats, Infallible> {
        let filter = self.compile(filter);
        let mut stats = SearchStats::default();
        let (settings, visible) = (self.shared.settings, self.visible());
        for chunk in &self.chunks {
            let query = (vector, filter.as_ref());
            stats.rows += scan_radius(chunk, settings, query, visible, radius, out);
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

    fn select(&self, filter: Option<&Filter>, _: &mut Scratch) -> Result<u64, Infallible> {
        let rows = self.chunks.iter().map(|chunk| chunk.len() as u64).sum();
        let filter = self.compile(filter);
        Ok(filter.map_or(rows, |filter| filter.at_most(rows, &self.shared.living)))
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
        _: stages::Wanted,
        _: &mut Scratch,
        _: &mut Vec<Candidate>,
    ) -> Result<Scanned, Infallible> {
        Ok(Scanned::default())
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

impl Pinned {
    fn find(&self, mut wanted: Wanted, visit: &mut dyn FnMut(usize, IndexRow<'_>)) {
        for chunk in self.chunks.iter().rev() {
            wanted.find(chunk, self.visible(), visit);
        }
    }
}

impl IndexSnapshot for Pinned {
    fn sequence(&self) -> u64 {
        self.pin
    }

    fn search(&self, probe: &Probe<'_>, _: &mut Scratch, out: &mut TopK) -> SearchStats {
        Pinned::search(self, probe.vector, probe.filter, out)
    }

    fn read_rows(
        &self,
        rows: &[Neighbor],
        _: &mut Scratch,
        visit: &mut dyn FnMut(usize, IndexRow<'_>),
    ) {
        self.find(Wanted::new(rows), visit);
    }

    fn read_ids(&self, ids: &[u64], visit: &mut dyn FnMut(usize, IndexRow<'_>)) {
        self.find(Wanted::of_ids(ids), visit);
    }

    fn least_ids(&self, filter: Option<&Filter>, least: &mut LeastIds) {
        let filter = self.compile(filter);
        for chunk in &self.chunks {
            chunk.least_ids(filter.as_ref(), self.visible(), least);
        }
    }
}

fn search(
    chunks: &Chunks,
    settings: IndexSettings,
    query: (&[f32], Option<&Compiled>),
    pin: Sequence,
    out: &mut TopK,
) -> SearchStats {
    let visible = Visible { inserted: pin, deleted: pin };
    let mut stats = SearchStats::default();
    for chunk in chunks {
        stats.rows += scan_exactly(chunk, settings, query, visible, out);
    }
    stats.exact = stats.rows;
    stats
}

/// Offers every visible row of a chunk that matches; returns how many there were.
pub(crate) fn scan_exactly(
    chunk: &RowChunk,
    settings: IndexSettings,
    (query, filter): (&[f32], Option<&Compiled>),
    visible: Visible,
    out: &mut TopK,
) -> usize {
    debug_assert!(visible.deleted < NEVER);
    let mut rows = 0;
    chunk.for_each_match(filter, visible, |lane| {
        rows += 1;
        let distance = distance(settings.metric, query, chunk.vector(lane));
        if distance <= out.bound() {
            let key = chunk.key(lane);
            out.offer(Neighbor { distance, id: key.id, version: key.version });
        }
    });
    rows
}

/// Adds every visible row of a chunk that matches and is within `radius` to `out`; returns how many
/// visible rows matched.
pub(crate) fn scan_radius(
    chunk: &RowChunk,
    settings: IndexSettings,
    (query, filter): (&[f32], Option<&Compiled>),
    visible: Visible,
    radius: f32,
    out: &mut Vec<Neighbor>,
) -> usize {
    let mut rows = 0;
    chunk.for_each_match(filter, visible, |lane| {
        rows += 1;
        let distance = distance(settings.metric, query, chunk.vector(lane));
        if distance <= radius {
            let key = chunk.key(lane);
            out.push(Neighbor { distance, id: key.id, version: key.version });
        }
    });
    rows
}
