//! A chunk of rows: vectors with id, version, place and life span, filled by the one writer.

use std::sync::atomic::{AtomicU16, AtomicU64, Ordering};
use std::sync::Arc;

use vstream_vector::{kernels, Element, Metric};

use crate::append::{append_buffer, Cells, Pen};
use crate::slab::Slots;

/// Sequence of a write inside one index: every accepted upsert, delete and move takes the next one.
pub(crate) type Sequence = u64;

/// `deleted` of a row that lives.
pub(crate) const NEVER: Sequence = u64::MAX;

/// What is known of a row besides its vector.
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

/// The vector of a row, in the element type of its collection.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum VectorRef<'a> {
    /// Single precision.
    F32(&'a [f32]),
    /// Bytes.
    U8(&'a [u8]),
}

impl VectorRef<'_> {
    /// Copies the vector as `f32` into `out`, which has its dimension.
    pub fn read(&self, out: &mut [f32]) {
        match self {
            VectorRef::F32(row) => out.copy_from_slice(row),
            VectorRef::U8(row) => out.iter_mut().zip(*row).for_each(|(x, &b)| *x = f32::from(b)),
        }
    }
}

/// Which rows a search may see: inserted at or before `inserted`, not deleted at or before `deleted`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Visible {
    pub(crate) inserted: Sequence,
    pub(crate) deleted: Sequence,
}

struct RowMeta {
    id: AtomicU64,
    version: AtomicU64,
    code: AtomicU64,
    inserted: AtomicU64,
    deleted: AtomicU64,
    shard: AtomicU16,
}

enum Vectors {
    F32(Cells<f32>),
    U8(Cells<u8>),
}

/// Rows of one chunk, as readers see them. Lanes are numbered in the order of arrival.
pub(crate) struct RowChunk {
    vectors: Vectors,
    dimension: usize,
    metas: Slots<RowMeta>,
}

/// The writing end of a chunk.
pub(crate) struct RowWriter {
    chunk: Arc<RowChunk>,
    pen: Pen,
    len: usize,
}

impl RowWriter {
    /// An empty chunk for `capacity` rows.
    pub(crate) fn new(element: Element, dimension: usize, capacity: usize) -> RowWriter {
        let (pen, vectors) = match element {
            Element::F32 => {
                let (pen, cells) = append_buffer(capacity * dimension);
                (pen, Vectors::F32(cells))
            }
            Element::U8 => {
                let (pen, cells) = append_buffer(capacity * dimension);
                (pen, Vectors::U8(cells))
            }
        };
        let metas = Slots::new(capacity, || RowMeta {
            id: AtomicU64::new(0),
            version: AtomicU64::new(0),
            code: AtomicU64::new(0),
            inserted: AtomicU64::new(NEVER),
            deleted: AtomicU64::new(NEVER),
            shard: AtomicU16::new(0),
        });
        let chunk = Arc::new(RowChunk { vectors, dimension, metas });
        RowWriter { chunk, pen, len: 0 }
    }

    /// The readers' side.
    pub(crate) fn chunk(&self) -> &Arc<RowChunk> {
        &self.chunk
    }

    /// Rows pushed.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// True if no more row fits.
    pub(crate) fn is_full(&self) -> bool {
        self.len == self.chunk.metas.len()
    }

    /// Appends a row that lives from `inserted` on; returns its lane.
    pub(crate) fn push(&mut self, key: RowKey, vector: VectorRef<'_>, inserted: Sequence) -> usize {
        let lane = self.len;
        let meta = &self.chunk.metas[lane];
        // Relaxed is enough: the push of the vector below publishes the lane with Release.
        meta.id.store(key.id, Ordering::Relaxed);
        meta.version.store(key.version, Ordering::Relaxed);
        meta.code.store(key.code, Ordering::Relaxed);
        meta.shard.store(key.shard, Ordering::Relaxed);
        meta.inserted.store(inserted, Ordering::Relaxed);
        match (&self.chunk.vectors, vector) {
            (Vectors::F32(cells), VectorRef::F32(row)) => cells.push(&mut self.pen, row),
            (Vectors::U8(cells), VectorRef::U8(row)) => cells.push(&mut self.pen, row),
            _ => panic!("a row of another element type than its collection"),
        }
        self.len += 1;
        lane
    }
}

impl RowChunk {
    /// Rows published so far.
    pub(crate) fn len(&self) -> usize {
        match &self.vectors {
            Vectors::F32(rows) => rows.len() / self.dimension,
            Vectors::U8(rows) => rows.len() / self.dimension,
        }
    }

    /// Id, version, code and shard of a published row.
    pub(crate) fn key(&self, lane: usize) -> RowKey {
        let meta = &self.metas[lane];
        RowKey {
            id: meta.id.load(Ordering::Relaxed),
            version: meta.version.load(Ordering::Relaxed),
            code: meta.code.load(Ordering::Relaxed),
            shard: meta.shard.load(Ordering::Relaxed),
        }
    }

    /// Sequence of the write that brought the row here.
    pub(crate) fn inserted(&self, lane: usize) -> Sequence {
        self.metas[lane].inserted.load(Ordering::Relaxed)
    }

    /// True if the row was not deleted, replaced or moved away.
    pub(crate) fn is_alive(&self, lane: usize) -> bool {
        self.metas[lane].deleted.load(Ordering::Relaxed) == NEVER
    }

    /// Ends the life of a row. Only the writer calls this, at most once per row.
    pub(crate) fn mark_deleted(&self, lane: usize, at: Sequence) {
        debug_assert!(self.is_alive(lane), "a row dies once");
        self.metas[lane].deleted.store(at, Ordering::Relaxed);
    }

    /// True if a search that sees `visible` may return the row.
    #[inline]
    pub(crate) fn is_visible(&self, lane: usize, visible: Visible) -> bool {
        let meta = &self.metas[lane];
        meta.inserted.load(Ordering::Relaxed) <= visible.inserted
            && meta.deleted.load(Ordering::Relaxed) > visible.deleted
    }

    /// The vector of a published row.
    #[inline]
    pub(crate) fn vector(&self, lane: usize) -> VectorRef<'_> {
        let start = lane * self.dimension;
        match &self.vectors {
            Vectors::F32(rows) => VectorRef::F32(rows.slice(start, self.dimension)),
            Vectors::U8(rows) => VectorRef::U8(rows.slice(start, self.dimension)),
        }
    }

    /// Starts loading what leads to the rows.
    #[inline]
    pub(crate) fn prefetch_head(&self) {
        kernels::prefetch(std::slice::from_ref(self));
    }

    /// Starts loading a published row.
    #[inline]
    pub(crate) fn prefetch(&self, lane: usize) {
        kernels::prefetch(std::slice::from_ref(&self.metas[lane]));
        match self.vector(lane) {
            VectorRef::F32(row) => kernels::prefetch(row),
            VectorRef::U8(row) => kernels::prefetch(row),
        }
    }

    /// Shows every visible row to `visit`.
    pub(crate) fn for_each_row(
        &self,
        visible: Visible,
        visit: &mut dyn FnMut(RowKey, VectorRef<'_>),
    ) {
        for lane in (0..self.len()).filter(|&lane| self.is_visible(lane, visible)) {
            visit(self.key(lane), self.vector(lane));
        }
    }

    /// Bytes held: vectors and the rest, reserved capacity included.
    pub(crate) fn memory_bytes(&self) -> u64 {
        let vectors = match &self.vectors {
            Vectors::F32(rows) => rows.capacity() * 4,
            Vectors::U8(rows) => rows.capacity(),
        };
        (vectors + self.metas.len() * std::mem::size_of::<RowMeta>()) as u64
    }
}

/// Distance of a query to a stored vector: the metric's formula on the stored bytes.
#[inline]
pub fn distance(metric: Metric, query: &[f32], row: VectorRef<'_>) -> f32 {
    match (metric, row) {
        (Metric::L2, VectorRef::F32(row)) => kernels::l2_squared(query, row),
        (Metric::L2, VectorRef::U8(row)) => kernels::l2_squared_u8(query, row),
        (Metric::Cosine, VectorRef::F32(row)) => 1.0 - kernels::inner_product(query, row),
        (Metric::Cosine, VectorRef::U8(row)) => 1.0 - kernels::inner_product_u8(query, row),
        (Metric::InnerProduct, VectorRef::F32(row)) => -kernels::inner_product(query, row),
        (Metric::InnerProduct, VectorRef::U8(row)) => -kernels::inner_product_u8(query, row),
    }
}
