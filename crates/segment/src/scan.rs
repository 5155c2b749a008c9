//! Walks over whole areas of a segment: exact answers, rows for compaction, verification.

use std::fmt;

use vstream_index::{distance, IndexRow, RowKey, SearchStats, VectorRef};
use vstream_store::codec::{describe, Codec, Decoder, BLOCK_ROWS};
use vstream_vector::{Metric, Neighbor, SplitMix, TopK};

use crate::digest::row_digest;
use crate::format::{IdRow, RowBlock, ID_ROWS};
use crate::read::{Segment, BLOCKS_AHEAD};
use crate::rows::Numbers;
use crate::search::SegmentView;
use vstream_store::Error;

/// Storage of a row block.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BlockReport {
    /// Leaf of the block.
    pub leaf: u32,
    /// Rows of the block.
    pub rows: usize,
    /// Codec of its vectors.
    pub codec: Codec,
    /// Bytes of the coded vectors.
    pub coded_bytes: u64,
    /// Bytes of the vectors without coding.
    pub raw_bytes: u64,
    /// Bytes of ids, versions, codes and shards.
    pub key_bytes: u64,
}

impl fmt::Display for BlockReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let BlockReport { leaf, rows, codec, coded_bytes, raw_bytes, .. } = self;
        let ratio = *coded_bytes as f64 / *raw_bytes as f64;
        write!(f, "leaf {leaf}: {rows} rows, {codec}, {coded_bytes} B, ratio {ratio:.3}")
    }
}

/// A row block on a walk.
pub(crate) struct Visited<'a> {
    pub(crate) leaf: u32,
    pub(crate) first_row: u32,
    pub(crate) rows: usize,
    pub(crate) block: RowBlock<'a>,
    offset: u64,
    bytes: usize,
}

impl Segment {
    /// Calls `visit` for the row blocks of some leaves, in order. Reads many blocks at once and
    /// bypasses the cache.
    pub(crate) fn for_each_block(
        &self,
        leaves: impl Iterator<Item = u32>,
        visit: &mut dyn FnMut(Visited<'_>) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let mut blocks = leaves.flat_map(|leaf| {
            let place = &self.leaves[leaf as usize];
            let n = (place.rows as usize).div_ceil(BLOCK_ROWS) as u32;
            (0..n).map(move |at| (leaf, at))
        });
        loop {
            let wanted: Vec<(u32, u32)> = blocks.by_ref().take(BLOCKS_AHEAD).collect();
            if wanted.is_empty() {
                return Ok(());
            }
            let address = |&(leaf, at): &(u32, u32)| {
                self.row_block(self.leaves[leaf as usize].first_block + at)
            };
            let addresses: Vec<_> = wanted.iter().map(address).collect();
            let read = self.passing.read_many(&addresses)?;
            for ((&(leaf, at), bytes), address) in wanted.iter().zip(&read).zip(&addresses) {
                let place = &self.leaves[leaf as usize];
                let before = at as usize * BLOCK_ROWS;
                let rows = (place.rows as usize - before).min(BLOCK_ROWS);
                let offset = address.offset;
                let block =
                    RowBlock::decode(bytes, rows).map_err(|what| self.corrupt(offset, what))?;
                let first_row = place.first_row + before as u32;
                let bytes = bytes.len();
                visit(Visited { leaf, first_row, rows, block, offset, bytes })?;
            }
        }
    }

    /// Like [`Segment::for_each_block`], with every row decoded.
    pub(crate) fn for_each_decoded(
        &self,
        leaves: impl Iterator<Item = u32>,
        visit: &mut dyn FnMut(&Visited<'_>, &Numbers),
    ) -> Result<(), Error> {
        let (mut decoder, mut numbers) = (Decoder::new(), Numbers::new(self.element()));
        self.for_each_block(leaves, &mut |visited| {
            let vectors = visited.block.vectors;
            numbers
                .decode(vectors, 0..visited.rows, self.shape(), &mut decoder)
                .map_err(|what| self.corrupt(visited.offset, what))?;
            visit(&visited, &numbers);
            Ok(())
        })
    }

    fn all_leaves(&self) -> std::ops::Range<u32> {
        0..self.leaves.len() as u32
    }

    /// Reports the storage of every row block. Errors: `Corrupt`, those of the store.
    pub fn report(&self, visit: &mut dyn FnMut(BlockReport)) -> Result<(), Error> {
        self.for_each_block(self.all_leaves(), &mut |visited| {
            let vectors = visited.block.vectors;
            let (codec, rows) =
                describe(vectors).map_err(|what| self.corrupt(visited.offset, what))?;
            visit(BlockReport {
                leaf: visited.leaf,
                rows,
                codec,
                coded_bytes: vectors.len() as u64,
                raw_bytes: (rows * self.dimension() * self.element().bytes()) as u64,
                key_bytes: (visited.bytes - vectors.len()) as u64,
            });
            Ok(())
        })
    }

    /// Reads every byte and checks it: checksums, rows against counts, ids against rows, the
    /// digest. Cost: the whole file, 16 bytes of memory per row. Errors: `Corrupt` with the offset,
    /// those of the store.
    pub fn verify(&self) -> Result<(), Error> {
        let mut keys: Vec<(u64, u64)> = Vec::with_capacity(self.rows() as usize);
        let (mut digest, mut codes) = (0u128, (u64::MAX, 0));
        self.for_each_decoded(self.all_leaves(), &mut |visited, _| {
            for row in 0..visited.rows {
                let RowKey { id, version, code, .. } = visited.block.key(row);
                keys.push((id, version));
                digest = digest.wrapping_add(row_digest(id, version));
                codes = (codes.0.min(code), codes.1.max(code));
            }
        })?;
        if digest != self.digest() || codes != self.code_range() {
            return Err(self.corrupt(0, "the rows are not those of the digest in its meta block"));
        }
        if self.centroids.is_some() {
            let all: Vec<u32> = self.all_leaves().collect();
            for leaves in all.chunks(BLOCKS_AHEAD) {
                let addresses: Vec<_> = leaves.iter().map(|&leaf| self.posting(leaf)).collect();
                self.passing.read_many(&addresses)?;
            }
        }
        let mut last = None;
        let mut fits = true;
        self.for_each_id(&mut |id, version, row| {
            fits &= keys.get(row as usize) == Some(&(id, version));
            fits &= last.is_none_or(|last| last < id);
            last = Some(id);
        })?;
        if !fits {
            let at = self.id_address(0).offset;
            return Err(self.corrupt(at, "the ids of the id area are not those of the rows"));
        }
        Ok(())
    }
}

impl Segment {
    /// Calls `visit` with id, version and row number of every row, deleted or not, in the order of
    /// the ids. Errors: `Corrupt`, those of the store.
    pub fn for_each_id(&self, visit: &mut dyn FnMut(u64, u64, u32)) -> Result<(), Error> {
        let all: Vec<usize> = (0..self.id_blocks()).collect();
        for blocks in all.chunks(BLOCKS_AHEAD) {
            let addresses: Vec<_> = blocks.iter().map(|&at| self.id_address(at)).collect();
            let read = self.passing.read_many(&addresses)?;
            for ((&at, bytes), address) in blocks.iter().zip(&read).zip(&addresses) {
                let block = self.id_block(at, bytes)?;
                let rows = self.rows() as usize - at * ID_ROWS;
                for entry in 0..rows.min(ID_ROWS) {
                    let IdRow { id, version, row } = block.get(entry);
                    if u64::from(row) >= self.rows() {
                        let what = "an id points behind the last row";
                        return Err(self.corrupt(address.offset, what));
                    }
                    visit(id, version, row);
                }
            }
        }
        Ok(())
    }
}

impl SegmentView<'_> {
    /// Offers the exact distance of every visible row.
    pub(crate) fn search_exactly(
        &self,
        query: &[f32],
        out: &mut TopK,
    ) -> Result<SearchStats, Error> {
        let segment = self.segment;
        let mut stats = SearchStats { leaves: segment.leaves(), ..SearchStats::default() };
        self.for_each_visible(segment.all_leaves(), &mut |key, vector| {
            stats.rows += 1;
            let distance = distance(segment.metric(), query, vector);
            if distance <= out.bound() {
                out.offer(Neighbor { distance, id: key().id, version: key().version });
            }
        })?;
        stats.exact = stats.rows;
        Ok(stats)
    }

    /// Adds every visible row at a distance of at most `radius` to `out`, in no order.
    ///
    /// Exact: it skips a leaf only if the triangle inequality proves that no row of it is near
    /// enough. Errors: `Corrupt`, those of the store; `out` is incomplete then.
    pub(crate) fn rows_within(
        &self,
        query: &[f32],
        radius: f32,
        out: &mut Vec<Neighbor>,
    ) -> Result<SearchStats, Error> {
        let segment = self.segment;
        let leaves = self.near_leaves(query, radius);
        let mut stats = SearchStats { leaves: leaves.len(), ..SearchStats::default() };
        self.for_each_visible(leaves.into_iter(), &mut |key, vector| {
            stats.rows += 1;
            let distance = distance(segment.metric(), query, vector);
            if distance <= radius {
                out.push(Neighbor { distance, id: key().id, version: key().version });
            }
        })?;
        stats.exact = stats.rows;
        Ok(stats)
    }

    /// Leaves that may hold a row within `radius`.
    fn near_leaves(&self, query: &[f32], radius: f32) -> Vec<u32> {
        let segment = self.segment;
        let all = segment.all_leaves();
        if segment.centroids.is_none() || segment.metric() == Metric::InnerProduct {
            return all.collect();
        }
        let padded = segment.rotation.padded();
        let (mut rotated, mut centroid) = (vec![0.0; padded], vec![0.0; padded]);
        segment.rotation.apply(query, &mut rotated);
        let length = vstream_vector::kernels::norm_squared(&rotated).sqrt();
        let bound = segment.radius_bound(length, radius);
        let near = |&leaf: &u32| {
            segment.centroid(leaf, &mut centroid);
            let gap = vstream_vector::kernels::l2_squared(&rotated, &centroid).sqrt();
            segment.may_hold(leaf, gap, &bound)
        };
        all.filter(near).collect()
    }

    /// Copies the vector of a live row of a leaf to `out` and returns its id; `pick` chooses the
    /// row. `None` if no row lives. Errors: `Corrupt`, those of the store.
    pub fn sample(&self, leaf: u32, pick: u64, out: &mut Vec<f32>) -> Result<Option<u64>, Error> {
        let mut living = 0;
        let mut random = SplitMix(pick);
        let mut found = None;
        self.for_each_visible(std::iter::once(leaf), &mut |key, vector| {
            // The number of live rows is known only at the end, so the n-th row replaces the choice
            // with a probability of 1/n.
            living += 1;
            if random.below(living) == 0 {
                out.resize(self.segment.dimension(), 0.0);
                vector.read(out);
                found = Some(key().id);
            }
        })?;
        Ok(found)
    }

    /// Calls `visit` with every visible row, leaf by leaf. Errors: `Corrupt`, those of the store.
    pub fn for_each_row(&self, visit: &mut dyn FnMut(IndexRow<'_>)) -> Result<(), Error> {
        self.for_each_visible(self.segment.all_leaves(), &mut |key, vector| {
            visit(IndexRow::plain(key(), vector));
        })
    }

    fn for_each_visible(
        &self,
        leaves: impl Iterator<Item = u32>,
        visit: &mut dyn FnMut(&dyn Fn() -> RowKey, VectorRef<'_>),
    ) -> Result<(), Error> {
        let dimension = self.segment.dimension();
        self.segment.for_each_decoded(leaves, &mut |visited, numbers| {
            for row in 0..visited.rows {
                if self.is_visible(visited.first_row + row as u32) {
                    visit(&|| visited.block.key(row), numbers.row(row, dimension));
                }
            }
        })
    }
}
