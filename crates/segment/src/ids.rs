//! Finds rows of a segment by their ids.

use std::collections::HashMap;

use vstream_store::blocks::BlockHandle;
use vstream_store::Error;

use crate::format::{IdBlock, IdRow, ID_ROWS};
use crate::read::{Segment, BLOCKS_AHEAD};

/// A row that was found by its id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FoundRow {
    /// Number of the row in its segment.
    pub row: u32,
    /// Version of the row.
    pub version: u64,
    /// High half of the hash of its string id, of which the id is the low half; 0 without one.
    pub check: u64,
}

impl Segment {
    /// Row number and version of an id, deleted or not. Cost: one block. Errors: `Corrupt`, those of
    /// the store.
    pub fn find(&self, id: u64) -> Result<Option<(u32, u64)>, Error> {
        Ok(self.find_row(id)?.map(|found| (found.row, found.version)))
    }

    /// The row of an id, deleted or not. Cost and errors: as [`Segment::find`].
    pub fn find_row(&self, id: u64) -> Result<Option<FoundRow>, Error> {
        let Some(at) = self.id_block_of(id) else { return Ok(None) };
        let block = self.blocks.read(self.id_address(at))?;
        self.find_in(at, &block, id)
    }

    /// The rows of some ids, deleted or not, in the order of the ids. Cost: one block per 1,024 rows
    /// that lie near the ids, in one round of reads per 128 blocks. Errors: as [`Segment::find`].
    pub fn find_rows(&self, ids: &[u64]) -> Result<Vec<Option<FoundRow>>, Error> {
        let places: Vec<Option<usize>> = ids.iter().map(|&id| self.id_block_of(id)).collect();
        let mut wanted: Vec<usize> = places.iter().copied().flatten().collect();
        wanted.sort_unstable();
        wanted.dedup();
        let mut found = vec![None; ids.len()];
        for wanted in wanted.chunks(BLOCKS_AHEAD) {
            let addresses: Vec<BlockHandle> =
                wanted.iter().map(|&at| self.id_address(at)).collect();
            let read = self.blocks.read_many(&addresses)?;
            let blocks: HashMap<usize, _> = wanted.iter().copied().zip(&read).collect();
            for ((&id, place), out) in ids.iter().zip(&places).zip(&mut found) {
                if let Some((at, block)) = place.and_then(|at| blocks.get_key_value(&at)) {
                    *out = self.find_in(*at, block, id)?;
                }
            }
        }
        Ok(found)
    }

    /// The id block that has an id if the segment has it.
    fn id_block_of(&self, id: u64) -> Option<usize> {
        let after = self.ids.partition_point(|&(first, _)| first <= id);
        // The last entry is the end of the area, not a block.
        after.min(self.ids.len() - 1).checked_sub(1)
    }

    fn find_in(&self, at: usize, block: &[u8], id: u64) -> Result<Option<FoundRow>, Error> {
        let block = self.id_block(at, block)?;
        let Some(position) = block.find(id) else { return Ok(None) };
        let IdRow { row, version, .. } = block.get(position);
        if u64::from(row) >= self.rows() {
            return Err(self.corrupt(self.ids[at].1, "an id points behind the last row"));
        }
        Ok(Some(FoundRow { row, version, check: block.check(position) }))
    }

    pub(crate) fn id_blocks(&self) -> usize {
        self.ids.len() - 1
    }

    pub(crate) fn id_address(&self, at: usize) -> BlockHandle {
        let postings = if self.is_cluster() { self.leaves.len() } else { 0 };
        BlockHandle {
            number: (1 + self.row_blocks() + postings + at) as u64,
            offset: self.ids[at].1,
            bytes: (self.ids[at + 1].1 - self.ids[at].1) as usize,
        }
    }

    fn id_block<'a>(&self, at: usize, block: &'a [u8]) -> Result<IdBlock<'a>, Error> {
        let rows = (self.rows() as usize - at * ID_ROWS).min(ID_ROWS);
        IdBlock::decode(block, rows, self.has_fields())
            .map_err(|what| self.corrupt(self.ids[at].1, what))
    }

    /// Calls `visit` with id, version and row number of every row, deleted or not, in the order of
    /// the ids. Errors: `Corrupt`, those of the store.
    pub fn for_each_id(&self, visit: &mut dyn FnMut(u64, u64, u32)) -> Result<(), Error> {
        self.for_each_found(&mut |id, found| visit(id, found.version, found.row))
    }

    /// Like [`Segment::for_each_id`], with the check of each row.
    pub fn for_each_found(&self, visit: &mut dyn FnMut(u64, FoundRow)) -> Result<(), Error> {
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
                    visit(id, FoundRow { row, version, check: block.check(entry) });
                }
            }
        }
        Ok(())
    }
}
