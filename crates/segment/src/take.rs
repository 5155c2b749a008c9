//! Reads rows of a segment that are to be written to another.

use std::sync::Arc;

use vstream_index::{IndexRow, RowKey, VectorRef};
use vstream_store::blocks::{Block, BlockHandle, BlockReader};
use vstream_store::codec::{describe, Decoder, BLOCK_ROWS};
use vstream_store::Cache;

use crate::format::RowBlock;
use crate::read::Segment;
use crate::rows::Numbers;
use crate::scan::{FieldWalk, WantedBlock};
use vstream_store::Error;

/// Receives the number of a row and the row.
pub type Visit<'a> = dyn FnMut(u32, IndexRow<'_>) + 'a;

impl Segment {
    /// Writes the centroid of a leaf of a cluster segment, rotated, to `out`.
    pub fn leaf_centroid(&self, leaf: usize, out: &mut Vec<f32>) {
        out.resize(self.rotation.padded(), 0.0);
        self.centroid(leaf as u32, out);
    }

    /// Rotates a vector with the rotation of the centroids.
    pub fn rotate(&self, vector: &[f32], out: &mut Vec<f32>) {
        out.resize(self.rotation.padded(), 0.0);
        self.rotation.apply(vector, out);
    }

    /// Reads the rows of some leaves, in ascending order, into the cache of `reader`, at once. Errors:
    /// `Corrupt`, those of the store.
    pub fn read_ahead(&self, leaves: &[usize], reader: &BlockReader) -> Result<(), Error> {
        let blocks = self.blocks_in(leaves.iter().map(|&leaf| leaf as u32));
        let address = |wanted: WantedBlock| {
            self.row_block(self.leaves[wanted.leaf as usize].first_block + wanted.block)
        };
        let blocks: Vec<BlockHandle> = blocks.map(address).collect();
        reader.read_many(&blocks).map(drop)
    }

    /// Calls `visit` with the rows of a leaf and their fields, read through `reader`. Errors: `Corrupt`,
    /// those of the store.
    pub fn for_each_in_leaf(
        &self,
        leaf: usize,
        reader: &BlockReader,
        visit: &mut Visit<'_>,
    ) -> Result<(), Error> {
        let dimension = self.dimension();
        let place = &self.leaves[leaf];
        let mut walk = FieldWalk::new(self, &self.passing, place.first_row + place.rows);
        let blocks = self.blocks_in(std::iter::once(leaf as u32));
        self.for_each_decoded(reader, blocks, &mut |visited, _, numbers| {
            let range = visited.first_row..visited.first_row + visited.rows as u32;
            walk.for_each(range.clone(), range, &mut |row, fields| {
                let at = (row - visited.first_row) as usize;
                let (key, vector) = (visited.block.key(at), numbers.row(at, dimension));
                visit(row, IndexRow { key, vector, fields });
            })
        })
    }

    /// Calls `visit` with number, key and vector of the rows of a leaf, read through `reader`. Reads no
    /// fields. Errors: `Corrupt`, those of the store.
    pub fn for_each_vector_in_leaf(
        &self,
        leaf: usize,
        reader: &BlockReader,
        visit: &mut dyn FnMut(u32, RowKey, VectorRef<'_>),
    ) -> Result<(), Error> {
        let dimension = self.dimension();
        let blocks = self.blocks_in(std::iter::once(leaf as u32));
        self.for_each_decoded(reader, blocks, &mut |visited, _, numbers| {
            for row in 0..visited.rows {
                let number = visited.first_row + row as u32;
                visit(number, visited.block.key(row), numbers.row(row, dimension));
            }
            Ok(())
        })
    }

    /// A reader of the segment's blocks that bypasses caches.
    pub fn uncached(&self) -> &BlockReader {
        &self.passing
    }

    /// A reader of the segment's blocks through the cache that it was opened with.
    pub fn cached(&self) -> &BlockReader {
        &self.blocks
    }

    /// A reader of the segment's blocks with a cache of its own.
    pub fn reader_with(&self, cache: Arc<Cache<Block>>) -> BlockReader {
        let (file, version) = (self.blocks.file().clone(), self.header.version());
        BlockReader::new(file, self.identity(), version, Some(cache))
    }

    /// Calls `visit` with some rows and their fields, given in ascending order, read through `reader`.
    /// Errors: `Corrupt`, those of the store.
    pub fn for_each_of(
        &self,
        rows: &[u32],
        reader: &BlockReader,
        visit: &mut Visit<'_>,
    ) -> Result<(), Error> {
        // Number of the block of a row, its first row, and its number of rows.
        let block_of = |row: u32| {
            let leaf = &self.leaves[self.leaves.partition_point(|leaf| leaf.first_row <= row) - 1];
            let before = (row - leaf.first_row) / BLOCK_ROWS as u32;
            let first_row = leaf.first_row + before * BLOCK_ROWS as u32;
            let rows = (leaf.first_row + leaf.rows - first_row).min(BLOCK_ROWS as u32);
            (leaf.first_block + before, first_row, rows)
        };
        let placed: Vec<((u32, u32, u32), u32)> =
            rows.iter().map(|&row| (block_of(row), row)).collect();
        let groups = || placed.chunk_by(|a, b| a.0 == b.0);
        let addresses: Vec<BlockHandle> =
            groups().map(|group| self.row_block(group[0].0 .0)).collect();
        let (mut decoder, mut numbers) = (Decoder::new(), Numbers::new(self.element()));
        let mut walk = FieldWalk::new(self, reader, 0);
        for ((group, bytes), address) in groups().zip(reader.read_many(&addresses)?).zip(&addresses)
        {
            let (_, first_row, n) = group[0].0;
            let corrupt = |what: &dyn std::fmt::Display| self.corrupt(address.offset, what);
            let block = RowBlock::decode(&bytes, n as usize).map_err(|what| corrupt(&what))?;
            let (codec, _) = describe(block.vectors).map_err(|what| corrupt(&what))?;
            let span = (group[group.len() - 1].1 - group[0].1 + 1) as usize;
            let is_one_by_one = takes_rows_alone(codec.is_random_access(), span, group.len());
            for part in group.chunks(if is_one_by_one { 1 } else { n as usize }) {
                let (first, last) = (part[0].1, part[part.len() - 1].1);
                let (from, to) = ((first - first_row) as usize, (last - first_row) as usize + 1);
                numbers
                    .decode(block.vectors, from..to, self.shape(), &mut decoder)
                    .map_err(|what| corrupt(&what))?;
                let rows = part.iter().map(|&(_, row)| row);
                walk.for_each(first..last + 1, rows, &mut |row, fields| {
                    let at = (row - first_row) as usize;
                    let vector = numbers.row(at - from, self.dimension());
                    visit(row, IndexRow { key: block.key(at), vector, fields });
                })?;
            }
        }
        Ok(())
    }
}

/// True if each of some rows of a block is decoded alone: rows of a block that has no random access come
/// together, and so do rows that are near each other, because every decoding reads the block's head.
///
/// * `span`: rows from the first to the last of them.
pub(crate) fn takes_rows_alone(has_random_access: bool, span: usize, rows: usize) -> bool {
    has_random_access && span > 3 * rows
}
