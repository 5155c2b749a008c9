//! The directory of the fields of a segment.
//!
//! ```text
//! u32 chunks | per chunk: u32 first row
//! u32 names blocks | per block: u32 first row, u32 rows, u64 offset, u32 bytes
//! u32 wide blocks | per block: the same
//! u32 columns
//! per column:
//!   u16 column | u8 kind | u8 form | u32 rows with a value | u32 special
//!   u32 texts of the dictionary | u64 offset, u32 bytes of its block    zeros without one
//!   per chunk: u64 offset, u32 bytes of the block                       zeros without one
//!   per leaf: u32 rows with a value | if there are: u64 least, u64 largest, 32 bytes of a filter
//! ```
//!
//! *special* counts the rows with `true` in a column of truth values, and those with an empty list in
//! a column of lists; otherwise it is 0.

use vstream_attribute::{AttributeKind, ATTRIBUTES_MAX};
use vstream_vector::cursor::ByteReader;

use super::block::{Form, Shape, CHUNK_ROWS};
use super::place::{Extent, RowSpan};
use super::summary::Summary;
use super::wide::SPAN_ROWS_MAX;
use super::words::SHARED_TEXTS;
use crate::malformed::Malformed;

/// Most bytes of a block of fields: lists of 64 KiB in a chunk, or a payload and what is with it.
const BLOCK_BYTES_MAX: u32 = 2 << 20;

/// A shared dictionary.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Dictionary {
    pub(crate) texts: u32,
    pub(crate) extent: Extent,
}

/// A column in the directory.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ColumnEntry {
    pub(crate) column: u16,
    pub(crate) shape: Shape,
    /// Rows with a value.
    pub(crate) present: u32,
    /// Rows with `true`, or with an empty list.
    pub(crate) special: u32,
    pub(crate) dictionary: Option<Dictionary>,
    /// By chunk; no bytes where no row has a value.
    pub(crate) blocks: Vec<Extent>,
    pub(crate) leaves: Vec<Summary>,
}

/// Where the fields of a segment are.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Directory {
    /// First row of each chunk.
    pub(crate) chunks: Vec<u32>,
    pub(crate) names: Vec<RowSpan>,
    pub(crate) wide: Vec<RowSpan>,
    /// Ascending by column.
    pub(crate) columns: Vec<ColumnEntry>,
}

/// What the directory must agree with.
pub(crate) struct Counts<'a> {
    pub(crate) rows: u32,
    /// Rows of each leaf.
    pub(crate) leaves: &'a [u32],
}

impl Directory {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        put_u32(&mut out, self.chunks.len() as u32);
        self.chunks.iter().for_each(|&row| put_u32(&mut out, row));
        for spans in [&self.names, &self.wide] {
            put_u32(&mut out, spans.len() as u32);
            for span in spans {
                put_u32(&mut out, span.first_row);
                put_u32(&mut out, span.rows);
                put_extent(&mut out, span.extent);
            }
        }
        put_u32(&mut out, self.columns.len() as u32);
        for column in &self.columns {
            out.extend_from_slice(&column.column.to_le_bytes());
            out.extend_from_slice(&[column.shape.kind.tag(), column.shape.form as u8]);
            put_u32(&mut out, column.present);
            put_u32(&mut out, column.special);
            put_u32(&mut out, column.dictionary.map_or(0, |dictionary| dictionary.texts));
            let extent = column.dictionary.map(|dictionary| dictionary.extent);
            put_extent(&mut out, extent.unwrap_or_default());
            column.blocks.iter().for_each(|&extent| put_extent(&mut out, extent));
            column.leaves.iter().for_each(|leaf| leaf.put(&mut out));
        }
        out
    }

    /// Reads a directory. Checks its counts against its length before it allocates memory for them,
    /// and against `counts`.
    pub(crate) fn decode(bytes: &[u8], counts: &Counts<'_>) -> Result<Directory, Malformed> {
        let mut input = ByteReader::new(bytes);
        let chunks = input.u32()? as usize;
        input.require_items(chunks, 4)?;
        let chunks: Vec<u32> = (0..chunks).map(|_| input.u32()).collect::<Result<_, _>>()?;
        let names = take_spans(&mut input, counts.rows)?;
        let wide = take_spans(&mut input, counts.rows)?;
        let columns = input.u32()? as usize;
        if columns > ATTRIBUTES_MAX {
            return Err(Malformed("a segment has too many columns"));
        }
        let mut directory = Directory { chunks, names, wide, columns: Vec::with_capacity(columns) };
        directory.check_chunks(counts.rows)?;
        for _ in 0..columns {
            let entry = ColumnEntry::take(&mut input, directory.chunks.len(), counts)?;
            if directory.columns.last().is_some_and(|last| last.column >= entry.column) {
                return Err(Malformed("the columns are out of order"));
            }
            directory.columns.push(entry);
        }
        if !input.is_empty() {
            return Err(Malformed("bytes are left over in the directory of fields"));
        }
        Ok(directory)
    }

    fn check_chunks(&self, rows: u32) -> Result<(), Malformed> {
        let ends = self.chunks.iter().skip(1).copied().chain([rows]);
        let mut sizes = self.chunks.iter().zip(ends).map(|(&from, end)| end.checked_sub(from));
        let fit = sizes.all(|n| n.is_some_and(|n| (1..=CHUNK_ROWS as u32).contains(&n)));
        let begins = self.chunks.first().map_or(rows == 0, |&first| first == 0);
        if !fit || !begins {
            return Err(Malformed("the chunks of the columns are not those of the rows"));
        }
        Ok(())
    }

    /// Every block, with its area's offset and length.
    pub(crate) fn extents(&self) -> Vec<Extent> {
        let spans = self.names.iter().chain(&self.wide).map(|span| span.extent);
        let columns = self.columns.iter().flat_map(|column| {
            let dictionary = column.dictionary.map(|dictionary| dictionary.extent);
            column.blocks.iter().copied().filter(|extent| extent.bytes > 0).chain(dictionary)
        });
        let mut all: Vec<Extent> = spans.chain(columns).collect();
        all.sort_unstable();
        all
    }

    /// The slot of a column.
    pub(crate) fn slot(&self, column: u16) -> Option<usize> {
        self.columns.binary_search_by_key(&column, |entry| entry.column).ok()
    }

    /// The chunk of a row.
    pub(crate) fn chunk_of(&self, row: u32) -> usize {
        self.chunks.partition_point(|&first| first <= row) - 1
    }

    /// Bytes of memory that it holds.
    pub(crate) fn memory_bytes(&self) -> usize {
        let columns = self.columns.iter().map(|column| {
            size_of::<ColumnEntry>() + size_of_val(&*column.blocks) + size_of_val(&*column.leaves)
        });
        size_of_val(&*self.chunks)
            + size_of_val(&*self.names)
            + size_of_val(&*self.wide)
            + columns.sum::<usize>()
    }
}

impl ColumnEntry {
    fn take(
        input: &mut ByteReader<'_>,
        chunks: usize,
        counts: &Counts<'_>,
    ) -> Result<ColumnEntry, Malformed> {
        let column = input.u16()?;
        let (kind, form) = (AttributeKind::from_tag(input.u8()?), Form::from_tag(input.u8()?));
        let (Some(kind), Some(form)) = (kind, form) else {
            return Err(Malformed("a column of an unknown kind or form"));
        };
        let shape = Shape { kind, form };
        let (present, special, texts) = (input.u32()?, input.u32()?, input.u32()?);
        let extent = take_extent(input)?;
        let has_dictionary = form == Form::Shared;
        let fits = if has_dictionary { extent.bytes > 0 } else { extent == Extent::default() };
        if !shape.is_possible() || !fits || texts as usize > SHARED_TEXTS {
            return Err(Malformed("a column of a form that its kind does not have"));
        }
        let is_special = matches!(kind, AttributeKind::Bool | AttributeKind::Keywords);
        if usize::from(column) >= ATTRIBUTES_MAX || special > if is_special { present } else { 0 } {
            return Err(Malformed("a column is out of range, or its counts are"));
        }
        input.require_items(chunks, 12)?;
        let blocks = (0..chunks).map(|_| take_extent(input)).collect::<Result<Vec<_>, _>>()?;
        if blocks.iter().any(|extent| extent.bytes == 0 && extent.offset != 0) {
            return Err(Malformed("a block of a column has an offset and no bytes"));
        }
        input.require_items(counts.leaves.len(), 4)?;
        let mut leaves = Vec::with_capacity(counts.leaves.len());
        let mut sum = 0u64;
        for &rows in counts.leaves {
            let leaf = Summary::take(input)?;
            if leaf.present > rows {
                return Err(Malformed("a leaf has more values than rows"));
            }
            sum += u64::from(leaf.present);
            leaves.push(leaf);
        }
        if sum != u64::from(present) {
            return Err(Malformed("the values of the leaves do not add up"));
        }
        let dictionary = has_dictionary.then_some(Dictionary { texts, extent });
        Ok(ColumnEntry { column, shape, present, special, dictionary, blocks, leaves })
    }
}

fn put_u32(out: &mut Vec<u8>, x: u32) {
    out.extend_from_slice(&x.to_le_bytes());
}

fn put_extent(out: &mut Vec<u8>, extent: Extent) {
    out.extend_from_slice(&extent.offset.to_le_bytes());
    put_u32(out, extent.bytes);
}

fn take_extent(input: &mut ByteReader<'_>) -> Result<Extent, Malformed> {
    let extent = Extent { offset: input.u64()?, bytes: input.u32()? };
    if extent.bytes > BLOCK_BYTES_MAX {
        return Err(Malformed("a block of fields is too long"));
    }
    Ok(extent)
}

fn take_spans(input: &mut ByteReader<'_>, rows: u32) -> Result<Vec<RowSpan>, Malformed> {
    let count = input.u32()? as usize;
    input.require_items(count, 20)?;
    let mut spans: Vec<RowSpan> = Vec::with_capacity(count);
    let mut end = 0;
    for _ in 0..count {
        let (first_row, n) = (input.u32()?, input.u32()?);
        let span = RowSpan { first_row, rows: n, extent: take_extent(input)? };
        let fits = (1..=SPAN_ROWS_MAX).contains(&n) && first_row >= end && span.extent.bytes > 0;
        match first_row.checked_add(n).filter(|&next| fits && next <= rows) {
            Some(next) => end = next,
            None => return Err(Malformed("blocks of names or payloads are not of its rows")),
        }
        spans.push(span);
    }
    Ok(spans)
}
