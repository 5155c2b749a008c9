//! A chunk of rows. The one writer fills it with vectors, each with id, version, routing and life span.

mod cold;
mod columns;
mod dictionary;
mod values;
mod vector;

use std::sync::atomic::{AtomicU16, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use vstream_attribute::{Fields, FieldsBuffer, Update};
use vstream_vector::{kernels, Element};

use self::vector::Vectors;
use crate::append::Pen;
use crate::slab::Slots;

pub(crate) use self::columns::{
    ordered, Carried, Carrier, Column, Load, Stored, CARRIED_STEPS, WORD,
};
pub use self::dictionary::Dictionary;
pub(crate) use self::dictionary::{CodeCounts, Texts};
pub use self::values::Outlook;
pub(crate) use self::values::Values;
pub use self::vector::distance;
pub use self::vector::{VectorBuffer, VectorRef};

/// Number of a write of one index. Every accepted upsert, delete and batch takes the next one.
pub(crate) type Sequence = u64;

/// The `deleted` sequence of a living row.
pub(crate) const NEVER: Sequence = u64::MAX;

/// The `inserted` sequence of a row that came into its leaf by a write of its own, not by a batch: see
/// [`Visible`].
pub(crate) fn by_write(sequence: Sequence) -> Sequence {
    debug_assert!(sequence < BY_WRITE);
    sequence | BY_WRITE
}

/// Set in the `inserted` sequence of such rows. No index makes so many writes.
const BY_WRITE: Sequence = 1 << 63;

/// A row without its vector.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RowKey {
    /// The user's id.
    pub id: u64,
    /// Version of the record; larger is newer.
    pub version: u64,
    /// Position on the routing line.
    pub code: u64,
    /// Virtual partition, opaque here.
    pub shard: u16,
}

/// A search may see rows that were inserted at or before `inserted` and not deleted at or before
/// `deleted`. A row that [`by_write`] marks counts if it was inserted at or before `deleted`: no copy of
/// it is in a tail.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Visible {
    pub(crate) inserted: Sequence,
    pub(crate) deleted: Sequence,
}

/// True if a search that sees `visible` may return a row with this `inserted` and `deleted` sequence.
#[inline]
pub(crate) fn is_visible((inserted, deleted): (Sequence, Sequence), visible: Visible) -> bool {
    let last = if inserted & BY_WRITE == 0 { visible.inserted } else { visible.deleted };
    inserted & !BY_WRITE <= last && deleted > visible.deleted
}

/// A row: what identifies it, its vector, and what it carries beside.
#[derive(Clone, Copy, Debug)]
pub struct IndexRow<'a> {
    /// Id, version and routing.
    pub key: RowKey,
    /// The vector in the element type of the collection.
    pub vector: VectorRef<'a>,
    /// String id, attributes and payload.
    pub fields: Fields<'a>,
}

impl<'a> IndexRow<'a> {
    /// A row that carries nothing beside its vector.
    pub fn plain(key: RowKey, vector: VectorRef<'a>) -> IndexRow<'a> {
        IndexRow { key, vector, fields: Fields::NONE }
    }
}

struct RowMeta {
    id: AtomicU64,
    version: AtomicU64,
    inserted: AtomicU64,
    deleted: AtomicU64,
}

/// Where routing sent a record; zeros in a collection without partitions.
#[derive(Default)]
struct Routing {
    code: AtomicU64,
    shard: AtomicU16,
}

/// Rows of one chunk, as readers see them. Lanes are numbered in the order of arrival.
///
/// `vectors` and `metas`, which lead to every row, fill two cache lines from the first byte.
#[repr(C, align(64))]
pub(crate) struct RowChunk {
    vectors: Vectors,
    metas: Slots<RowMeta>,
    dimension: usize,
    /// Allocated with the first row whose routing is not all zeros.
    routings: OnceLock<Slots<Routing>>,
    /// Set with the first row that carries anything beside its vector.
    carried: OnceLock<Arc<Carried>>,
    /// Lane of `carried` that belongs to the first lane; a multiple of 32 or 0.
    first: usize,
}

/// The writing end of a chunk.
pub(crate) struct RowWriter {
    chunk: Arc<RowChunk>,
    pen: Pen,
    load: Load,
    len: usize,
}

impl RowWriter {
    /// An empty chunk for `capacity` rows.
    pub(crate) fn new(element: Element, dimension: usize, capacity: usize) -> RowWriter {
        RowWriter::in_run(element, dimension, capacity, Load::new(capacity))
    }

    /// An empty chunk that shares what its rows carry with the chunks before it.
    pub(crate) fn in_run(
        element: Element,
        dimension: usize,
        capacity: usize,
        load: Load,
    ) -> RowWriter {
        let (pen, vectors) = Vectors::new(element, dimension, capacity);
        let metas = Slots::new(capacity, || RowMeta {
            id: AtomicU64::new(0),
            version: AtomicU64::new(0),
            inserted: AtomicU64::new(NEVER),
            deleted: AtomicU64::new(NEVER),
        });
        let (routings, carried) = (OnceLock::new(), OnceLock::new());
        let first = load.first();
        let chunk = Arc::new(RowChunk { vectors, dimension, metas, routings, carried, first });
        RowWriter { chunk, pen, load, len: 0 }
    }

    /// The readers' side.
    pub(crate) fn chunk(&self) -> &Arc<RowChunk> {
        &self.chunk
    }

    /// Rows pushed.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// What the rows carry so far, if any carries anything.
    pub(crate) fn carried(&self) -> Option<&Arc<Carried>> {
        self.load.carried()
    }

    /// Ends the chunk: the load of the one after it.
    pub(crate) fn into_load(self) -> Load {
        self.load.after(self.chunk.metas.len())
    }

    /// True if no more row fits.
    pub(crate) fn is_full(&self) -> bool {
        self.len == self.chunk.metas.len()
    }

    /// Appends a new row that lives from `inserted` on; returns its lane.
    pub(crate) fn push(
        &mut self,
        carrier: &mut Carrier,
        row: IndexRow<'_>,
        inserted: Sequence,
    ) -> usize {
        let IndexRow { key, vector, fields } = row;
        if !fields.is_empty() {
            self.load.write(carrier, self.len, fields);
        }
        self.publish(key, vector, inserted)
    }

    /// Appends a copy of a published row of another chunk, and of what it carries.
    pub(crate) fn push_copy(
        &mut self,
        carrier: &mut Carrier,
        (from, old): (&RowChunk, usize),
        inserted: Sequence,
    ) -> usize {
        let mut values = carrier.take_values();
        from.copy_values(old, &carrier.dictionary, &mut values);
        let row = (from.key(old), from.vector(old));
        let lane = self.push_values(carrier, row, &mut values, inserted);
        carrier.give_back(values);
        lane
    }

    /// Appends a row with values that were gathered for it, which it takes.
    pub(crate) fn push_values(
        &mut self,
        carrier: &mut Carrier,
        (key, vector): (RowKey, VectorRef<'_>),
        values: &mut Values,
        inserted: Sequence,
    ) -> usize {
        if !values.is_empty() {
            self.load.put(carrier, self.len, values);
        }
        self.publish(key, vector, inserted)
    }

    /// Publishes the next lane, whose fields are written.
    fn publish(&mut self, key: RowKey, vector: VectorRef<'_>, inserted: Sequence) -> usize {
        let lane = self.len;
        let meta = &self.chunk.metas[lane];
        if let Some(carried) = self.load.carried() {
            self.chunk.carried.get_or_init(|| carried.clone());
        }
        // Relaxed is enough: the push of the vector below publishes the lane with Release.
        meta.id.store(key.id, Ordering::Relaxed);
        meta.version.store(key.version, Ordering::Relaxed);
        if (key.code, key.shard) != (0, 0) {
            let capacity = self.chunk.metas.len();
            let routings =
                self.chunk.routings.get_or_init(|| Slots::new(capacity, Routing::default));
            routings[lane].code.store(key.code, Ordering::Relaxed);
            routings[lane].shard.store(key.shard, Ordering::Relaxed);
        }
        meta.inserted.store(inserted, Ordering::Relaxed);
        self.chunk.vectors.push(&mut self.pen, vector);
        self.len += 1;
        lane
    }
}

impl RowChunk {
    /// Rows published so far.
    pub(crate) fn len(&self) -> usize {
        self.vectors.len() / self.dimension
    }

    /// The published among the first 32 lanes.
    pub(crate) fn published(&self) -> u32 {
        match self.len() {
            len @ 0..WORD => (1 << len) - 1,
            _ => u32::MAX,
        }
    }

    /// Id, version, code and shard of a published row.
    pub(crate) fn key(&self, lane: usize) -> RowKey {
        let meta = &self.metas[lane];
        let routing = self.routings.get().map(|routings| &routings[lane]);
        RowKey {
            id: meta.id.load(Ordering::Relaxed),
            version: meta.version.load(Ordering::Relaxed),
            code: routing.map_or(0, |routing| routing.code.load(Ordering::Relaxed)),
            shard: routing.map_or(0, |routing| routing.shard.load(Ordering::Relaxed)),
        }
    }

    /// What the rows of the chunk carry, and the lane there of the chunk's first; `None` if none
    /// carries anything.
    #[inline]
    pub(crate) fn carried(&self) -> Option<(&Carried, usize)> {
        self.carried.get().map(|carried| (&**carried, self.first))
    }

    /// Copies what a published row carries.
    pub(crate) fn read_fields(&self, lane: usize, out: &mut FieldsBuffer) {
        match self.carried() {
            Some((carried, first)) => carried.read(first + lane, out),
            None => out.clear(),
        }
    }

    /// Gathers what a published row carries, for a lane that takes it.
    pub(crate) fn copy_values(&self, lane: usize, dictionary: &Dictionary, out: &mut Values) {
        match self.carried() {
            Some((carried, first)) => out.copy(dictionary, (carried, first + lane)),
            None => out.clear(),
        }
    }

    /// Gathers what a published row carries after an update, for a lane that takes it: see
    /// [`Values::change`].
    pub(crate) fn change_values(
        &self,
        (lane, dictionary): (usize, &Dictionary),
        update: &Update<'_>,
        out: &mut Values,
        on_code: &mut dyn FnMut(bool, u32),
    ) {
        let carried = self.carried().map(|(carried, first)| (carried, first + lane));
        out.change(dictionary, carried, update, on_code);
    }

    /// What an update would make of a published row.
    pub(crate) fn outlook(
        &self,
        lane: usize,
        dictionary: &Dictionary,
        update: &Update<'_>,
    ) -> Outlook {
        let carried = self.carried().map(|(carried, first)| (carried, first + lane));
        let (check, fits) = values::outlook(dictionary, carried, update);
        Outlook { version: self.key(lane).version, check, fits }
    }

    /// Calls `visit` with each keyword code of a published row.
    pub(crate) fn for_each_code(&self, lane: usize, mut visit: impl FnMut(u32)) {
        if let Some((carried, first)) = self.carried() {
            carried.for_each_stored(first + lane, |_, stored| {
                stored.codes().iter().for_each(|&code| visit(code));
            });
        }
    }

    /// Id of a lane; of no meaning if the lane is not published.
    #[inline]
    pub(crate) fn id(&self, lane: usize) -> u64 {
        self.metas[lane].id.load(Ordering::Relaxed)
    }

    /// Lanes that there is room for.
    pub(crate) fn lanes(&self) -> usize {
        self.metas.len()
    }

    /// Sequence of the write or batch that put the row into this chunk, as `push` got it.
    pub(crate) fn inserted(&self, lane: usize) -> Sequence {
        self.metas[lane].inserted.load(Ordering::Relaxed)
    }

    /// True unless the row was deleted, replaced or moved away.
    pub(crate) fn is_alive(&self, lane: usize) -> bool {
        self.metas[lane].deleted.load(Ordering::Relaxed) == NEVER
    }

    /// Marks a row deleted as of `sequence`. Only the writer calls this, at most once per row.
    pub(crate) fn mark_deleted(&self, lane: usize, sequence: Sequence) {
        debug_assert!(self.is_alive(lane), "a row dies once");
        self.metas[lane].deleted.store(sequence, Ordering::Relaxed);
    }

    /// True if a search that sees `visible` may return the row.
    #[inline]
    pub(crate) fn is_visible(&self, lane: usize, visible: Visible) -> bool {
        let meta = &self.metas[lane];
        let life = (meta.inserted.load(Ordering::Relaxed), meta.deleted.load(Ordering::Relaxed));
        is_visible(life, visible)
    }

    /// The vector of a published row.
    #[inline]
    pub(crate) fn vector(&self, lane: usize) -> VectorRef<'_> {
        self.vectors.slice(lane * self.dimension, self.dimension)
    }

    /// Prefetches the fields that lead to the rows.
    #[inline]
    pub(crate) fn prefetch_head(&self) {
        kernels::prefetch(std::slice::from_ref(&self.vectors));
        kernels::prefetch(std::slice::from_ref(&self.metas));
    }

    /// Prefetches ids and life spans of all lanes.
    #[inline]
    pub(crate) fn prefetch_ids(&self) {
        kernels::prefetch(&self.metas);
    }

    /// Prefetches what a published row carries.
    #[inline]
    pub(crate) fn prefetch_values(&self, lane: usize) {
        if let Some((carried, first)) = self.carried() {
            carried.prefetch_lane(first + lane);
            carried.prefetch_cold(first + lane);
        }
    }

    /// Prefetches what a published row carries that no mask tests.
    #[inline]
    pub(crate) fn prefetch_cold(&self, lane: usize) {
        if let Some((carried, first)) = self.carried() {
            carried.prefetch_cold(first + lane);
        }
    }

    /// Does one of the [`CARRIED_STEPS`] steps that prefetch what a published row carries.
    #[inline]
    pub(crate) fn prefetch_carried(&self, step: usize, lane: usize) {
        if let Some((carried, first)) = self.carried() {
            carried.prefetch_row(step, first + lane);
        }
    }

    /// Prefetches a published row.
    #[inline]
    pub(crate) fn prefetch(&self, lane: usize) {
        kernels::prefetch(std::slice::from_ref(&self.metas[lane]));
        self.vector(lane).prefetch();
    }

    /// Calls `visit` with every visible row.
    pub(crate) fn for_each_row(&self, visible: Visible, visit: &mut dyn FnMut(IndexRow<'_>)) {
        self.for_each_row_of(&|_| true, visible, visit);
    }

    /// Calls `visit` with every visible row of the chosen shards.
    pub(crate) fn for_each_row_of(
        &self,
        is_chosen: &dyn Fn(u16) -> bool,
        visible: Visible,
        visit: &mut dyn FnMut(IndexRow<'_>),
    ) {
        let mut buffer = FieldsBuffer::default();
        for lane in (0..self.len()).filter(|&lane| self.is_visible(lane, visible)) {
            let key = self.key(lane);
            if !is_chosen(key.shard) {
                continue;
            }
            let mut row = IndexRow::plain(key, self.vector(lane));
            if self.carried.get().is_some() {
                self.read_fields(lane, &mut buffer);
                row.fields = buffer.fields();
            }
            visit(row);
        }
    }

    /// Bytes of what the rows carry, of a chunk that is the only one of its run.
    pub(crate) fn carried_bytes(&self) -> u64 {
        self.carried().map_or(0, |(carried, _)| carried.memory_bytes() as u64)
    }

    /// Bytes of vectors and metadata, reserved capacity included; without what the rows carry.
    pub(crate) fn memory_bytes(&self) -> u64 {
        let routings = self.routings.get().map_or(0, |slots| slots.len() * size_of::<Routing>());
        (self.vectors.bytes() + self.metas.len() * size_of::<RowMeta>() + routings) as u64
    }
}
