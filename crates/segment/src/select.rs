//! Rows of a segment that match a filter, leaf by leaf.

use std::sync::Arc;

use vstream_attribute::Filter;
use vstream_store::blocks::{Block, BlockHandle};
use vstream_store::Error;

use crate::attached::Attached;
use crate::fields::{ColumnBlock, Compiled, LeafChunk, Masks};
use crate::read::Segment;
use crate::search::SegmentView;

/// The filter of a query, compiled for one segment.
pub(crate) struct Selected {
    pub(crate) compiled: Compiled,
    /// Blocks that the leaves to be scanned next need, and where they come among those read.
    pub(crate) wanted: WantedColumnBlocks,
    pub(crate) first_block: usize,
}

/// Blocks of columns that some leaves need.
#[derive(Default)]
pub(crate) struct WantedColumnBlocks {
    /// Slot and chunk of each, ascending.
    keys: Vec<(usize, usize)>,
    pub(crate) addresses: Vec<BlockHandle>,
}

/// Decoded blocks of columns.
pub(crate) struct ColumnBlocks<'a> {
    keys: &'a [(usize, usize)],
    blocks: Vec<ColumnBlock<'a>>,
}

impl<'a> ColumnBlocks<'a> {
    fn get(&self, slot: usize, chunk: usize) -> Option<ColumnBlock<'a>> {
        self.keys.binary_search(&(slot, chunk)).ok().map(|at| self.blocks[at])
    }
}

impl Segment {
    /// Compiles a filter. Cost: a round of reads if it names ids. Errors: `Corrupt`, those of the
    /// store.
    pub(crate) fn compile(&self, filter: &Filter) -> Result<Compiled, Error> {
        let attached = self.attached.as_ref();
        let directory = attached.map(|attached| &attached.directory);
        let dictionaries = attached.map_or(&[][..], |attached| &attached.dictionaries);
        Compiled::new(filter, directory, dictionaries, &mut |ids| {
            let found = self.find_rows(ids)?;
            let mut rows: Vec<u32> = found.into_iter().flatten().map(|found| found.row).collect();
            rows.sort_unstable();
            rows.dedup();
            Ok(rows)
        })
    }

    /// An upper bound on the rows that match, deleted ones included. Cost: O(leaves).
    pub(crate) fn matches_at_most(&self, compiled: &Compiled) -> u64 {
        let directory = self.attached.as_ref().map(|attached| &attached.directory);
        let most = compiled.bounds(self.rows(), directory).most.min(self.rows());
        if most == 0 {
            return 0;
        }
        let leaves = 0..self.leaves.len() as u32;
        leaves.map(|leaf| self.leaf_matches(compiled, leaf)).sum::<u64>().min(most)
    }

    /// An upper bound on the rows of a leaf that match. Reads nothing.
    pub(crate) fn leaf_matches(&self, compiled: &Compiled, leaf: u32) -> u64 {
        let directory = self.attached.as_ref().map(|attached| &attached.directory);
        let place = &self.leaves[leaf as usize];
        let rows = (place.first_row, place.rows);
        compiled.leaf_bounds(leaf as usize, rows, directory).most.min(u64::from(place.rows))
    }

    /// The parts of a leaf by chunk.
    fn leaf_chunks(&self, attached: &Attached, leaf: u32, out: &mut Vec<LeafChunk>) {
        let place = &self.leaves[leaf as usize];
        let end = place.first_row + place.rows;
        let chunks = &attached.directory.chunks;
        let mut row = place.first_row;
        out.clear();
        while row < end {
            let chunk = attached.directory.chunk_of(row);
            let next = chunks.get(chunk + 1).map_or(end, |&next| next.min(end));
            out.push(LeafChunk {
                chunk,
                leaf_row: (row - place.first_row) as usize,
                chunk_row: (row - chunks[chunk]) as usize,
                rows: (next - row) as usize,
            });
            row = next;
        }
    }

    /// The blocks of columns that a filter needs for some leaves.
    pub(crate) fn wanted_columns(
        &self,
        compiled: &Compiled,
        leaves: impl Iterator<Item = u32>,
        out: &mut WantedColumnBlocks,
    ) {
        out.keys.clear();
        out.addresses.clear();
        let Some(attached) = self.attached.as_ref().filter(|_| !compiled.slots.is_empty()) else {
            return;
        };
        let mut chunks: Vec<usize> = Vec::new();
        let mut parts = Vec::new();
        for leaf in leaves {
            self.leaf_chunks(attached, leaf, &mut parts);
            chunks.extend(parts.iter().map(|part| part.chunk));
        }
        chunks.sort_unstable();
        chunks.dedup();
        for &slot in &compiled.slots {
            for &chunk in &chunks {
                if let Some(address) = attached.column_block(slot, chunk) {
                    out.keys.push((slot, chunk));
                    out.addresses.push(address);
                }
            }
        }
    }

    /// Decodes blocks of columns. Errors: `Corrupt`.
    pub(crate) fn column_blocks<'a>(
        &self,
        wanted: &'a WantedColumnBlocks,
        read: &'a [Arc<Block>],
    ) -> Result<ColumnBlocks<'a>, Error> {
        let mut blocks = Vec::with_capacity(read.len());
        for ((&(slot, chunk), address), bytes) in
            wanted.keys.iter().zip(&wanted.addresses).zip(read)
        {
            let attached = self.attached.as_ref().expect("a segment with columns");
            let rows = attached.chunk_rows(chunk, self.rows());
            let shape = attached.directory.columns[slot].shape;
            let block = ColumnBlock::decode(bytes, rows, shape);
            blocks.push(block.map_err(|what| self.corrupt(address.offset, what))?);
        }
        Ok(ColumnBlocks { keys: &wanted.keys, blocks })
    }

    /// Writes to `out` a bit per row of a leaf, 32 rows to a word, set if the row matches.
    pub(crate) fn leaf_masks(
        &self,
        compiled: &Compiled,
        leaf: u32,
        columns: &ColumnBlocks<'_>,
        out: &mut Vec<u32>,
    ) {
        let mut chunks = Vec::new();
        if let Some(attached) = &self.attached {
            self.leaf_chunks(attached, leaf, &mut chunks);
        }
        let place = &self.leaves[leaf as usize];
        let masks = Masks {
            first_row: place.first_row,
            rows: place.rows as usize,
            chunks: &chunks,
            blocks: &|slot, chunk| columns.get(slot, chunk),
        };
        out.clear();
        masks.push(&compiled.node, out);
    }
}

impl SegmentView<'_> {
    /// Clears the bits of rows of a leaf that are deleted.
    pub(crate) fn clear_deleted(&self, leaf: u32, masks: &mut [u32]) {
        if !self.has_tombstones() {
            return;
        }
        let first = self.segment.leaves[leaf as usize].first_row;
        for (word, mask) in masks.iter_mut().enumerate() {
            let mut left = *mask;
            while left != 0 {
                let lane = left.trailing_zeros();
                left &= left - 1;
                if !self.is_visible(first + 32 * word as u32 + lane) {
                    *mask &= !(1 << lane);
                }
            }
        }
    }
}
