//! Walks over row blocks of a segment, and over the fields of their rows.

use std::ops::Range;

use vstream_attribute::{Fields, FieldsBuffer};
use vstream_store::blocks::{BlockHandle, BlockReader};
use vstream_store::codec::{Decoder, BLOCK_ROWS};
use vstream_store::Error;

use crate::attached::{BlocksByNumber, FieldReader, WantedFields, WideMemo};
use crate::fields::lanes;
use crate::format::RowBlock;
use crate::read::{Segment, BLOCKS_AHEAD};
use crate::rows::Numbers;

/// A row block to be visited.
#[derive(Clone, Copy)]
pub(crate) struct WantedBlock {
    pub(crate) leaf: u32,
    /// Number of the block in its leaf.
    pub(crate) block: u32,
    /// A bit per row, set if the row is wanted.
    pub(crate) mask: u32,
}

/// A row block on a walk.
pub(crate) struct Visited<'a> {
    pub(crate) leaf: u32,
    pub(crate) first_row: u32,
    pub(crate) rows: usize,
    /// A bit per row, set if the row is wanted.
    pub(crate) mask: u32,
    pub(crate) block: RowBlock<'a>,
    pub(crate) offset: u64,
    pub(crate) bytes: usize,
}

impl Visited<'_> {
    /// The wanted rows of the block.
    pub(crate) fn wanted(&self) -> impl Iterator<Item = usize> {
        let mask = self.mask;
        (0..self.rows).filter(move |row| mask >> row & 1 == 1)
    }
}

impl Segment {
    pub(crate) fn all_leaves(&self) -> Range<u32> {
        0..self.leaves.len() as u32
    }

    /// The row blocks of some leaves, with all their rows.
    pub(crate) fn blocks_in<'a>(
        &'a self,
        leaves: impl Iterator<Item = u32> + 'a,
    ) -> impl Iterator<Item = WantedBlock> + 'a {
        leaves.flat_map(|leaf| {
            let rows = self.leaves[leaf as usize].rows as usize;
            let mask = move |block: usize| lanes(rows - block * BLOCK_ROWS);
            let blocks = 0..rows.div_ceil(BLOCK_ROWS);
            blocks.map(move |block| WantedBlock { leaf, block: block as u32, mask: mask(block) })
        })
    }

    /// Calls `visit` for some row blocks, in order. Reads many blocks at once.
    pub(crate) fn for_each_block(
        &self,
        reader: &BlockReader,
        mut blocks: impl Iterator<Item = WantedBlock>,
        visit: &mut dyn FnMut(Visited<'_>) -> Result<(), Error>,
    ) -> Result<(), Error> {
        loop {
            let wanted: Vec<WantedBlock> = blocks.by_ref().take(BLOCKS_AHEAD).collect();
            if wanted.is_empty() {
                return Ok(());
            }
            let address = |wanted: &WantedBlock| {
                self.row_block(self.leaves[wanted.leaf as usize].first_block + wanted.block)
            };
            let addresses: Vec<BlockHandle> = wanted.iter().map(address).collect();
            let read = reader.read_many(&addresses)?;
            for ((&wanted, bytes), address) in wanted.iter().zip(&read).zip(&addresses) {
                let WantedBlock { leaf, block, mask } = wanted;
                let place = &self.leaves[leaf as usize];
                let before = block as usize * BLOCK_ROWS;
                let rows = (place.rows as usize - before).min(BLOCK_ROWS);
                let offset = address.offset;
                let block =
                    RowBlock::decode(bytes, rows).map_err(|what| self.corrupt(offset, what))?;
                let first_row = place.first_row + before as u32;
                let bytes = bytes.len();
                visit(Visited { leaf, first_row, rows, mask, block, offset, bytes })?;
            }
        }
    }

    /// Like [`Segment::for_each_block`], with the wanted rows decoded. `visit` gets the number in the
    /// block of the first row that is decoded.
    pub(crate) fn for_each_decoded(
        &self,
        reader: &BlockReader,
        blocks: impl Iterator<Item = WantedBlock>,
        visit: &mut dyn FnMut(&Visited<'_>, usize, &Numbers) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let (mut decoder, mut numbers) = (Decoder::new(), Numbers::new(self.element()));
        self.for_each_block(reader, blocks, &mut |visited| {
            if visited.mask == 0 {
                return Ok(());
            }
            let first = visited.mask.trailing_zeros() as usize;
            let end = 32 - visited.mask.leading_zeros() as usize;
            numbers
                .decode(visited.block.vectors, first..end, self.shape(), &mut decoder)
                .map_err(|what| self.corrupt(visited.offset, what))?;
            visit(&visited, first, &numbers)
        })
    }
}

/// Most bytes of blocks of fields that a walk holds beside those that it needs for one row block.
const AHEAD_BYTES: usize = 8 << 20;
/// Most rows whose blocks of fields a walk reads at once.
const AHEAD_ROWS: u32 = 4096;

/// Reads the fields of successive rows of a segment.
pub(crate) struct FieldWalk<'a> {
    segment: &'a Segment,
    reader: &'a BlockReader,
    /// First row that the walk does not reach.
    end: u32,
    /// Rows whose blocks are held.
    held: Range<u32>,
    blocks: BlocksByNumber,
    wide: WideMemo,
    fields: FieldsBuffer,
}

impl<'a> FieldWalk<'a> {
    /// * `end`: rows from here on are not read ahead.
    pub(crate) fn new(segment: &'a Segment, reader: &'a BlockReader, end: u32) -> FieldWalk<'a> {
        FieldWalk {
            segment,
            reader,
            end,
            held: 0..0,
            blocks: BlocksByNumber::new(),
            wide: WideMemo::default(),
            fields: FieldsBuffer::default(),
        }
    }

    /// Calls `visit` with each of some rows of a range, ascending, and its fields. Rows of later calls
    /// come after these. Errors: `Corrupt`, those of the store.
    pub(crate) fn for_each(
        &mut self,
        range: Range<u32>,
        rows: impl Iterator<Item = u32>,
        visit: &mut dyn FnMut(u32, Fields<'_>),
    ) -> Result<(), Error> {
        let segment = self.segment;
        let Some(attached) = &segment.attached else {
            rows.for_each(|row| visit(row, Fields::NONE));
            return Ok(());
        };
        self.hold(range)?;
        let mut reader = FieldReader::new(segment, attached, &WantedFields::ALL, &self.blocks);
        for row in rows {
            reader.read(row, &mut self.wide, &mut self.fields)?;
            visit(row, self.fields.fields());
        }
        Ok(())
    }

    /// Reads the blocks of a range of rows, and of rows after it, unless they are held.
    fn hold(&mut self, range: Range<u32>) -> Result<(), Error> {
        if self.held.start <= range.start && range.end <= self.held.end {
            return Ok(());
        }
        let Some(attached) = &self.segment.attached else { return Ok(()) };
        let wanted =
            |end: u32| attached.blocks_of(std::iter::once(range.start..end), &WantedFields::ALL);
        let most = self.end.min(range.start.saturating_add(AHEAD_ROWS)).max(range.end);
        let mut end = most;
        let mut addresses = wanted(end);
        // Halve the distance until the blocks are few enough.
        while end > range.end
            && addresses.iter().map(|address| address.bytes).sum::<usize>() > AHEAD_BYTES
        {
            end = range.end.max(range.start + (end - range.start) / 2);
            addresses = wanted(end);
        }
        let mut before = std::mem::take(&mut self.blocks);
        let missing: Vec<BlockHandle> = addresses
            .iter()
            .filter(|address| match before.remove(&address.number) {
                Some(block) => {
                    self.blocks.insert(address.number, block);
                    false
                }
                None => true,
            })
            .copied()
            .collect();
        drop(before);
        let read = self.reader.read_many(&missing)?;
        self.blocks.extend(missing.iter().map(|address| address.number).zip(read));
        self.held = range.start..end;
        Ok(())
    }
}
