//! What the rows of an open segment carry beside their vectors: where its blocks are, and reading it
//! for some rows.
//!
//! 1. The directory of fields is in memory, with the dictionaries that all blocks of a column share.
//! 2. Some rows need certain blocks of names, columns and payloads: [`Segment::fields_blocks`].
//! 3. [`Segment::fields_from`] puts the fields of each row together from these blocks.

use std::collections::HashMap;
use std::sync::Arc;

use vstream_attribute::{AttributeKind, FieldsBuffer, ValueRef};
use vstream_store::blocks::{Block, BlockHandle, BlockReader};
use vstream_store::Error;

use crate::fields::{
    f64_of, i64_of, number, span_of, Area, ColumnBlock, ColumnEntry, Counts, Directory, Extent,
    NamesBlock, RowSpan, SharedTexts, WideBlock,
};
use crate::format::Meta;
use crate::malformed::Malformed;
use crate::read::Segment;

/// Which columns are wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WantedColumns<'a> {
    /// None of them.
    None,
    /// These, ascending.
    These(&'a [u16]),
    /// All of them.
    All,
}

/// Which fields are wanted. What is not wanted is not read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WantedFields<'a> {
    /// String ids, with the high halves of their hashes.
    pub names: bool,
    /// Values of attributes.
    pub columns: WantedColumns<'a>,
    /// Payloads.
    pub payload: bool,
}

impl WantedFields<'_> {
    /// All of them.
    pub const ALL: WantedFields<'static> =
        WantedFields { names: true, columns: WantedColumns::All, payload: true };

    fn has_column(&self, column: u16) -> bool {
        match self.columns {
            WantedColumns::None => false,
            WantedColumns::These(columns) => columns.binary_search(&column).is_ok(),
            WantedColumns::All => true,
        }
    }
}

/// Fields of an open segment.
pub(crate) struct Attached {
    pub(crate) directory: Directory,
    /// Shared dictionaries by slot.
    pub(crate) dictionaries: Vec<Option<SharedTexts>>,
    /// Length of the directory with its checksum.
    pub(crate) directory_bytes: u32,
}

/// Blocks that were read, by their numbers.
pub(crate) type BlocksByNumber = HashMap<u64, Arc<Block>>;

impl Attached {
    /// Reads the directory, which ends where meta begins. Errors: `Corrupt`, those of the store.
    pub(crate) fn read(file: &BlockReader, offset: u64, meta: &Meta) -> Result<Attached, Error> {
        let address = BlockHandle {
            number: number(Area::Directory, 0, 0),
            offset,
            bytes: meta.fields_bytes as usize,
        };
        let leaves: Vec<u32> = meta.leaves.iter().map(|leaf| leaf.rows).collect();
        let counts = Counts { rows: meta.rows as u32, leaves: &leaves };
        let directory = Directory::decode(&file.read(address)?, &counts)
            .map_err(|what| Error::corrupt(file.file().name(), offset, what))?;
        Ok(Attached { directory, dictionaries: Vec::new(), directory_bytes: meta.fields_bytes })
    }

    /// Reads the shared dictionaries into memory, in one round of reads. Errors: `Corrupt`, those of
    /// the store.
    pub(crate) fn hold_dictionaries(&mut self, file: &BlockReader) -> Result<(), Error> {
        let columns = &self.directory.columns;
        let address = |column: &ColumnEntry| {
            let dictionary = column.dictionary?;
            Some(handle(number(Area::Dictionary, column.column, 0), dictionary.extent))
        };
        let addresses: Vec<BlockHandle> = columns.iter().filter_map(address).collect();
        let mut read = file.read_many(&addresses)?.into_iter().zip(&addresses);
        for column in columns {
            let held = match column.dictionary.and_then(|_| read.next()) {
                Some((block, address)) => {
                    let shared = SharedTexts::new(block.to_vec(), column);
                    let corrupt = |what| Error::corrupt(file.file().name(), address.offset, what);
                    Some(shared.map_err(corrupt)?)
                }
                None => None,
            };
            self.dictionaries.push(held);
        }
        Ok(())
    }

    /// Every block of fields but the directory, by offset.
    pub(crate) fn extents(&self) -> Vec<Extent> {
        self.directory.extents()
    }

    pub(crate) fn memory_bytes(&self) -> usize {
        let shared = self.dictionaries.iter().flatten().map(SharedTexts::memory_bytes);
        self.directory.memory_bytes() + size_of_val(&*self.dictionaries) + shared.sum::<usize>()
    }

    /// Address of the block of a column in a chunk; `None` if no row of the chunk has a value.
    pub(crate) fn column_block(&self, slot: usize, chunk: usize) -> Option<BlockHandle> {
        let entry = &self.directory.columns[slot];
        let extent = entry.blocks[chunk];
        (extent.bytes > 0).then(|| handle(number(Area::Column, entry.column, chunk), extent))
    }

    /// Address of a block of names, or of payloads and texts.
    pub(crate) fn span_block(&self, span: &RowSpan, are_names: bool) -> BlockHandle {
        span_block(if are_names { Area::Names } else { Area::Wide }, span)
    }

    /// Rows of a chunk.
    pub(crate) fn chunk_rows(&self, chunk: usize, rows: u64) -> usize {
        let chunks = &self.directory.chunks;
        let end = chunks.get(chunk + 1).copied().unwrap_or(rows as u32);
        (end - chunks[chunk]) as usize
    }

    /// Whether wide blocks are wanted: for payloads, or for columns of texts.
    fn wants_wide(&self, wanted: &WantedFields<'_>) -> bool {
        let is_text = |entry: &ColumnEntry| {
            entry.shape.kind == AttributeKind::Text && wanted.has_column(entry.column)
        };
        wanted.payload || self.directory.columns.iter().any(is_text)
    }

    /// Slots of the wanted columns that have values in blocks of their own.
    fn wanted_slots<'s>(
        &'s self,
        wanted: &'s WantedFields<'s>,
    ) -> impl Iterator<Item = usize> + 's {
        let columns = self.directory.columns.iter().enumerate();
        columns
            .filter(|(_, entry)| entry.shape.kind != AttributeKind::Text)
            .filter(|(_, entry)| wanted.has_column(entry.column))
            .map(|(slot, _)| slot)
    }

    /// The blocks that rows need, each once, by offset. `rows` are ranges of rows.
    pub(crate) fn blocks_of(
        &self,
        rows: impl Iterator<Item = std::ops::Range<u32>>,
        wanted: &WantedFields<'_>,
    ) -> Vec<BlockHandle> {
        let Directory { names, wide, .. } = &self.directory;
        let slots: Vec<usize> = self.wanted_slots(wanted).collect();
        let wants_wide = self.wants_wide(wanted);
        let mut out = Vec::new();
        for rows in rows.filter(|rows| !rows.is_empty()) {
            let mut add = |area, spans: &[RowSpan]| {
                let from = spans.partition_point(|span| span.first_row + span.rows <= rows.start);
                let own = spans[from..].iter().take_while(|span| span.first_row < rows.end);
                out.extend(own.map(|span| span_block(area, span)));
            };
            if wanted.names {
                add(Area::Names, names);
            }
            if wants_wide {
                add(Area::Wide, wide);
            }
            let chunks =
                self.directory.chunk_of(rows.start)..=self.directory.chunk_of(rows.end - 1);
            for &slot in &slots {
                out.extend(chunks.clone().filter_map(|chunk| self.column_block(slot, chunk)));
            }
        }
        out.sort_unstable_by_key(|block: &BlockHandle| block.offset);
        out.dedup();
        out
    }
}

fn handle(number: u64, extent: Extent) -> BlockHandle {
    BlockHandle { number, offset: extent.offset, bytes: extent.bytes as usize }
}

fn span_block(area: Area, span: &RowSpan) -> BlockHandle {
    handle(number(area, 0, span.first_row as usize), span.extent)
}

impl Segment {
    /// Reads the fields of some rows, in the order of the rows.
    ///
    /// * `rows`: row numbers below [`Segment::rows`], in any order.
    ///
    /// Cost: one round of reads through the cache; a block of up to 64 KiB per wanted column, of names
    /// and of payloads for each row, fewer if rows are near each other. Errors: `Corrupt`, those of
    /// the store.
    pub fn fields(
        &self,
        rows: &[u32],
        wanted: &WantedFields<'_>,
    ) -> Result<Vec<FieldsBuffer>, Error> {
        let read = self.blocks.read_many(&self.fields_blocks(rows, wanted))?;
        self.fields_from(rows, wanted, &read)
    }

    /// The blocks that [`Segment::fields_from`] needs, for callers that read the blocks of several
    /// segments in one round.
    pub fn fields_blocks(&self, rows: &[u32], wanted: &WantedFields<'_>) -> Vec<BlockHandle> {
        let ranges = rows.iter().map(|&row| row..row + 1);
        self.attached.as_ref().map_or(Vec::new(), |attached| attached.blocks_of(ranges, wanted))
    }

    /// The fields of some rows, from the blocks at the addresses of [`Segment::fields_blocks`].
    /// Errors: `Corrupt`.
    pub fn fields_from(
        &self,
        rows: &[u32],
        wanted: &WantedFields<'_>,
        blocks: &[Arc<Block>],
    ) -> Result<Vec<FieldsBuffer>, Error> {
        let mut out = vec![FieldsBuffer::default(); rows.len()];
        let Some(attached) = &self.attached else { return Ok(out) };
        let numbers = self.fields_blocks(rows, wanted);
        let numbers = numbers.iter().map(|address| address.number);
        let blocks: BlocksByNumber = numbers.zip(blocks.iter().cloned()).collect();
        let mut wide = WideMemo::default();
        let mut reader = FieldReader::new(self, attached, wanted, &blocks);
        // In the order of the rows, each block of payloads is decompressed once.
        let mut order: Vec<usize> = (0..rows.len()).collect();
        order.sort_unstable_by_key(|&at| rows[at]);
        for at in order {
            reader.read(rows[at], &mut wide, &mut out[at])?;
        }
        Ok(out)
    }
}

/// The wide block that was read last, decompressed.
#[derive(Default)]
pub(crate) struct WideMemo(Option<(u64, WideBlock)>);

/// A chunk, and the block of a column in it if a row of the chunk has a value.
type LastBlock<'a> = (usize, Option<ColumnBlock<'a>>);

/// Puts the fields of rows together from blocks.
pub(crate) struct FieldReader<'a> {
    segment: &'a Segment,
    attached: &'a Attached,
    wants_names: bool,
    wants_wide: bool,
    wants_payload: bool,
    /// Wanted slots, and the last block of each.
    slots: Vec<(usize, Option<LastBlock<'a>>)>,
    blocks: &'a BlocksByNumber,
}

impl<'a> FieldReader<'a> {
    pub(crate) fn new(
        segment: &'a Segment,
        attached: &'a Attached,
        wanted: &WantedFields<'_>,
        blocks: &'a BlocksByNumber,
    ) -> FieldReader<'a> {
        let columns = attached.directory.columns.iter().enumerate();
        let slots = columns.filter(|(_, entry)| wanted.has_column(entry.column));
        FieldReader {
            segment,
            attached,
            wants_names: wanted.names,
            wants_wide: attached.wants_wide(wanted),
            wants_payload: wanted.payload,
            slots: slots.map(|(slot, _)| (slot, None)).collect(),
            blocks,
        }
    }

    /// Reads the fields of a row to `out`. Errors: `Corrupt`.
    pub(crate) fn read(
        &mut self,
        row: u32,
        wide: &mut WideMemo,
        out: &mut FieldsBuffer,
    ) -> Result<(), Error> {
        out.clear();
        let directory = &self.attached.directory;
        if let Some(at) = span_of(&directory.names, row).filter(|_| self.wants_names) {
            let span = &directory.names[at];
            let (block, offset) = self.block(span_block(Area::Names, span))?;
            let name = NamesBlock::decode(block, span.rows)
                .and_then(|names| names.get(row - span.first_row));
            let (check, name) = name.map_err(|what| self.segment.corrupt(offset, what))?;
            out.set_name(name, check);
        }
        let span = span_of(&directory.wide, row).filter(|_| self.wants_wide);
        let span = span.map(|at| &directory.wide[at]);
        if let Some(span) = span {
            self.hold_wide(span, wide)?;
        }
        let corrupt_wide =
            |what| self.segment.corrupt(span.map_or(0, |span| span.extent.offset), what);
        let wide = match (span, &wide.0) {
            (Some(span), Some((_, block))) => {
                block.row(row - span.first_row).map_err(corrupt_wide)?
            }
            _ => Default::default(),
        };
        if self.wants_payload {
            out.set_payload(wide.payload);
        }
        for at in 0..self.slots.len() {
            let slot = self.slots[at].0;
            let entry = &directory.columns[slot];
            if entry.shape.kind == AttributeKind::Text {
                if let Some((column, text)) =
                    wide.texts.iter().find(|(column, _)| *column == entry.column)
                {
                    out.push(*column, &ValueRef::Text(text));
                }
                continue;
            }
            self.push_value(at, row, out)?;
        }
        Ok(())
    }

    fn block(&self, address: BlockHandle) -> Result<(&'a [u8], u64), Error> {
        let missing = || self.segment.corrupt(address.offset, "a block of fields was not read");
        let block = self.blocks.get(&address.number).ok_or_else(missing)?;
        Ok((block, address.offset))
    }

    fn hold_wide(&self, span: &RowSpan, wide: &mut WideMemo) -> Result<(), Error> {
        let address = span_block(Area::Wide, span);
        if wide.0.as_ref().is_none_or(|(number, _)| *number != address.number) {
            let (block, offset) = self.block(address)?;
            let decoded = WideBlock::decode(block, span.rows);
            let decoded = decoded.map_err(|what| self.segment.corrupt(offset, what))?;
            wide.0 = Some((address.number, decoded));
        }
        Ok(())
    }

    /// Appends the value of a row in the column at a position of `slots`.
    fn push_value(&mut self, at: usize, row: u32, out: &mut FieldsBuffer) -> Result<(), Error> {
        let attached = self.attached;
        let slot = self.slots[at].0;
        let entry = &attached.directory.columns[slot];
        let chunk = attached.directory.chunk_of(row);
        let address = attached.column_block(slot, chunk);
        if self.slots[at].1.as_ref().is_none_or(|(held, _)| *held != chunk) {
            let block = match address {
                None => None,
                Some(address) => {
                    let (bytes, offset) = self.block(address)?;
                    let rows = attached.chunk_rows(chunk, self.segment.rows());
                    let block = ColumnBlock::decode(bytes, rows, entry.shape);
                    Some(block.map_err(|what| self.segment.corrupt(offset, what))?)
                }
            };
            self.slots[at].1 = Some((chunk, block));
        }
        let Some((_, Some(block))) = &self.slots[at].1 else { return Ok(()) };
        let row = (row - attached.directory.chunks[chunk]) as usize;
        let Some(position) = block.position(row) else { return Ok(()) };
        let shared = attached.dictionaries.get(slot).and_then(Option::as_ref);
        let value = value_of(entry, block, position, shared);
        let offset = address.map_or(0, |address| address.offset);
        let value = value.map_err(|what| self.segment.corrupt(offset, what))?;
        out.push(entry.column, &value);
        Ok(())
    }
}

/// The value at a position of a block.
pub(crate) fn value_of<'b>(
    entry: &ColumnEntry,
    block: &ColumnBlock<'b>,
    position: usize,
    shared: Option<&'b SharedTexts>,
) -> Result<ValueRef<'b>, Malformed> {
    let text = |code: u64| match (&block.texts, shared) {
        (Some(texts), _) => texts.get(code),
        (None, Some(shared)) => shared.view().1.get(code),
        (None, None) => Err(Malformed("a column of texts without a dictionary")),
    };
    Ok(match entry.shape.kind {
        AttributeKind::Keyword => ValueRef::Keyword(text(block.value(position))?),
        AttributeKind::Keywords => {
            let texts: Result<Vec<&str>, Malformed> = block.list(position).map(text).collect();
            let texts = texts?;
            if texts.iter().any(|text| text.len() > usize::from(u16::MAX)) {
                return Err(Malformed("a text of a list is too long"));
            }
            ValueRef::Keywords(texts)
        }
        AttributeKind::I64 => ValueRef::I64(i64_of(block.value(position))),
        AttributeKind::Timestamp => ValueRef::Timestamp(i64_of(block.value(position))),
        AttributeKind::F64 => {
            let number = f64_of(block.value(position));
            if !number.is_finite() {
                return Err(Malformed("a number that is not finite"));
            }
            ValueRef::F64(number)
        }
        AttributeKind::Bool => ValueRef::Bool(block.value(position) == 1),
        AttributeKind::Text => return Err(Malformed("a column of texts has values")),
    })
}
