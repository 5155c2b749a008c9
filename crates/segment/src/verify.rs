//! Reads a whole segment: reports how it is stored, and checks every byte.
//!
//! 1. Rows: every vector decodes, keys have the digest and the range of codes of the meta block.
//! 2. Codes: every posting has its checksum.
//! 3. Ids: they are those of the rows, in order.
//! 4. Fields: every block decodes strictly. Values add up to the counts of the directory, of the leaves
//!    and of the dictionaries. Names have the checks of the id area.

use std::fmt;

use vstream_attribute::{AttributeKind, ValueRef};
use vstream_index::RowKey;
use vstream_store::codec::{describe, Codec};
use vstream_store::Error;

use crate::attached::{value_of, Attached};
use crate::digest::row_digest;
use crate::fields::{
    ordered_f64, ordered_i64, ColumnBlock, ColumnEntry, Mark, NamesBlock, RowSpan, Summary,
    WideBlock,
};
use crate::ids::FoundRow;
use crate::malformed::Malformed;
use crate::read::{Segment, BLOCKS_AHEAD};

/// Checks the payload of a block of names or payloads.
type CheckSpan<'a> = dyn FnMut(&RowSpan, &[u8]) -> Result<(), Malformed> + 'a;

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

/// Storage of one column of attributes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ColumnReport {
    /// Number of the column in the schema.
    pub column: u16,
    /// Kind of its values.
    pub kind: AttributeKind,
    /// Rows with a value.
    pub rows: u32,
    /// Texts of the dictionary that all its blocks share, if they share one.
    pub texts: Option<u32>,
    /// Bytes of its blocks and its dictionary. Texts of a text column lie with the payloads.
    pub bytes: u64,
}

impl fmt::Display for ColumnReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ColumnReport { column, kind, rows, texts, bytes } = self;
        write!(f, "column {column}: {}, {rows} rows, {bytes} B", kind.name())?;
        match texts {
            Some(texts) => write!(f, ", {texts} texts"),
            None => Ok(()),
        }
    }
}

/// Storage of what rows carry beside keys and vectors.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FieldsReport {
    /// Columns of attributes, ascending.
    pub columns: Vec<ColumnReport>,
    /// Bytes of names.
    pub name_bytes: u64,
    /// Bytes of payloads and texts, compressed.
    pub payload_bytes: u64,
    /// Bytes of the directory, with the summaries of leaves.
    pub directory_bytes: u64,
}

impl Segment {
    /// Reports the storage of fields; `None` if its rows have none. Reads nothing.
    pub fn fields_report(&self) -> Option<FieldsReport> {
        let attached = self.attached.as_ref()?;
        let directory = &attached.directory;
        let sum = |spans: &[RowSpan]| spans.iter().map(|span| u64::from(span.extent.bytes)).sum();
        let column = |entry: &ColumnEntry| {
            let dictionary = entry.dictionary.map(|dictionary| dictionary.extent);
            let blocks = entry.blocks.iter().chain(&dictionary);
            ColumnReport {
                column: entry.column,
                kind: entry.shape.kind,
                rows: entry.present,
                texts: entry.dictionary.map(|dictionary| dictionary.texts),
                bytes: blocks.map(|extent| u64::from(extent.bytes)).sum(),
            }
        };
        Some(FieldsReport {
            columns: directory.columns.iter().map(column).collect(),
            name_bytes: sum(&directory.names),
            payload_bytes: sum(&directory.wide),
            directory_bytes: u64::from(attached.directory_bytes),
        })
    }

    /// Reports the storage of every row block. Errors: `Corrupt`, those of the store.
    pub fn report(&self, visit: &mut dyn FnMut(BlockReport)) -> Result<(), Error> {
        let blocks = self.blocks_in(self.all_leaves());
        self.for_each_block(&self.passing, blocks, &mut |visited| {
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
    /// digest, fields against their directory. Cost: the whole file, 16 bytes of memory per row, 24
    /// with fields. Errors: `Corrupt` with the offset, those of the store.
    pub fn verify(&self) -> Result<(), Error> {
        let mut keys: Vec<(u64, u64)> = Vec::with_capacity(self.rows() as usize);
        let (mut digest, mut codes) = (0u128, (u64::MAX, 0));
        let blocks = self.blocks_in(self.all_leaves());
        self.for_each_decoded(&self.passing, blocks, &mut |visited, _, _| {
            for row in 0..visited.rows {
                let RowKey { id, version, code, .. } = visited.block.key(row);
                keys.push((id, version));
                digest = digest.wrapping_add(row_digest(id, version));
                codes = (codes.0.min(code), codes.1.max(code));
            }
            Ok(())
        })?;
        if digest != self.digest() || codes != self.code_range() {
            return Err(self.corrupt(0, "the rows are not those of the digest in its meta block"));
        }
        if self.is_cluster() {
            let all: Vec<u32> = self.all_leaves().collect();
            for leaves in all.chunks(BLOCKS_AHEAD) {
                let addresses: Vec<_> = leaves.iter().map(|&leaf| self.posting(leaf)).collect();
                self.passing.read_many(&addresses)?;
            }
        }
        let mut checks = vec![0u64; if self.has_fields() { keys.len() } else { 0 }];
        let mut last = None;
        let mut fits = true;
        self.for_each_found(&mut |id, FoundRow { row, version, check }| {
            fits &= keys.get(row as usize) == Some(&(id, version));
            fits &= last.is_none_or(|last| last < id);
            last = Some(id);
            if let Some(held) = checks.get_mut(row as usize) {
                *held = check;
            }
        })?;
        if !fits {
            let at = self.id_address(0).offset;
            return Err(self.corrupt(at, "the ids of the id area are not those of the rows"));
        }
        match &self.attached {
            Some(attached) => self.verify_fields(attached, checks),
            None => Ok(()),
        }
    }

    fn verify_fields(&self, attached: &Attached, mut checks: Vec<u64>) -> Result<(), Error> {
        let directory = &attached.directory;
        self.for_each_span(&directory.names, attached, true, &mut |span, block| {
            let names = NamesBlock::decode(block, span.rows)?;
            for at in 0..span.rows {
                let (check, _) = names.get(at)?;
                let held = &mut checks[(span.first_row + at) as usize];
                if check != *held {
                    return Err(Malformed("a name has another check than its id"));
                }
                *held = 0;
            }
            Ok(())
        })?;
        if checks.iter().any(|&check| check != 0) {
            let at = self.id_address(0).offset;
            return Err(self.corrupt(at, "an id has a check and no name"));
        }
        let mut texts = TextRows::new(attached);
        self.for_each_span(&directory.wide, attached, false, &mut |span, block| {
            let wide = WideBlock::decode(block, span.rows)?;
            if !wide.is_filled() {
                return Err(Malformed("bytes are left over in a wide block"));
            }
            for at in 0..span.rows {
                for (column, _) in wide.row(at)?.texts {
                    texts.add(column, span.first_row + at)?;
                }
            }
            Ok(())
        })?;
        for slot in 0..directory.columns.len() {
            self.verify_column(attached, slot, texts.rows_of(slot))?;
        }
        Ok(())
    }

    /// Reads some blocks of names or payloads, one at a time.
    fn for_each_span(
        &self,
        spans: &[RowSpan],
        attached: &Attached,
        are_names: bool,
        check: &mut CheckSpan<'_>,
    ) -> Result<(), Error> {
        for span in spans {
            let address = attached.span_block(span, are_names);
            let block = self.passing.read(address)?;
            check(span, &block).map_err(|what| self.corrupt(address.offset, what))?;
        }
        Ok(())
    }

    /// Checks the blocks of a column against the directory.
    ///
    /// * `texts`: rows that have a text of the column in a wide block, ascending.
    fn verify_column(&self, attached: &Attached, slot: usize, texts: &[u32]) -> Result<(), Error> {
        let directory = &attached.directory;
        let entry = &directory.columns[slot];
        let shared = attached.dictionaries[slot].as_ref();
        let mut tally = Tally::new(self, entry, shared.map_or(0, |shared| shared.view().1.len()));
        let mut offset = 0;
        for (chunk, &first_row) in directory.chunks.iter().enumerate() {
            let Some(address) = attached.column_block(slot, chunk) else { continue };
            offset = address.offset;
            let bytes = self.passing.read(address)?;
            let rows = attached.chunk_rows(chunk, self.rows());
            let mut check = || {
                let block = ColumnBlock::decode(&bytes, rows, entry.shape)?;
                block.check(entry.shape, tally.counts.len())?;
                for row in 0..rows {
                    if let Some(position) = block.position(row) {
                        let value = match entry.shape.kind {
                            AttributeKind::Text => None,
                            _ => Some(value_of(entry, &block, position, shared)?),
                        };
                        let codes: Vec<u64> = match entry.shape.is_list() {
                            true => block.list(position).collect(),
                            false => vec![block.value(position)],
                        };
                        tally.add(first_row + row as u32, value.as_ref(), codes);
                    }
                }
                Ok(())
            };
            check().map_err(|what: Malformed| self.corrupt(offset, what))?;
        }
        let counts = shared.map(|shared| shared.view().0);
        let has_counts = (0..tally.counts.len())
            .all(|code| counts.is_none_or(|counts| counts.get(code) == tally.counts[code]));
        let has_texts = entry.shape.kind != AttributeKind::Text || tally.rows == texts;
        if !tally.is_of(entry) || !has_counts || !has_texts {
            let what = format!("the values of column {} are not those counted", entry.column);
            return Err(self.corrupt(offset, what));
        }
        Ok(())
    }
}

/// Rows that have texts, by slot.
struct TextRows<'a> {
    attached: &'a Attached,
    rows: Vec<Vec<u32>>,
}

impl<'a> TextRows<'a> {
    fn new(attached: &'a Attached) -> TextRows<'a> {
        TextRows { attached, rows: vec![Vec::new(); attached.directory.columns.len()] }
    }

    fn add(&mut self, column: u16, row: u32) -> Result<(), Malformed> {
        let slot = self.attached.directory.slot(column);
        let slot = slot.ok_or(Malformed("a text of a column that the directory lacks"))?;
        self.rows[slot].push(row);
        Ok(())
    }

    fn rows_of(&self, slot: usize) -> &[u32] {
        &self.rows[slot]
    }
}

/// What the directory says of a column, counted again.
struct Tally<'a> {
    segment: &'a Segment,
    present: u32,
    special: u32,
    /// Rows by code of the shared dictionary.
    counts: Vec<u64>,
    leaves: Vec<Summary>,
    /// Leaf of the last row.
    leaf: usize,
    /// Rows with a value, in a column of texts.
    rows: Vec<u32>,
    is_text: bool,
}

impl<'a> Tally<'a> {
    fn new(segment: &'a Segment, entry: &ColumnEntry, codes: usize) -> Tally<'a> {
        Tally {
            segment,
            present: 0,
            special: 0,
            counts: vec![0; codes],
            leaves: vec![Summary::NONE; segment.leaves()],
            leaf: 0,
            rows: Vec::new(),
            is_text: entry.shape.kind == AttributeKind::Text,
        }
    }

    /// Adds the value of a row; rows ascend. A text has no value here.
    fn add(&mut self, row: u32, value: Option<&ValueRef<'_>>, mut codes: Vec<u64>) {
        let end = |leaf: usize| {
            let place = &self.segment.leaves[leaf];
            place.first_row + place.rows
        };
        while end(self.leaf) <= row {
            self.leaf += 1;
        }
        self.present += 1;
        let leaf = &mut self.leaves[self.leaf];
        leaf.present += 1;
        if self.is_text {
            self.rows.push(row);
        }
        if !self.counts.is_empty() {
            codes.sort_unstable();
            codes.dedup();
            codes.iter().for_each(|&code| self.counts[code as usize] += 1);
        }
        match value {
            None | Some(ValueRef::Text(_)) => {}
            Some(ValueRef::Keyword(text)) => leaf.add(Mark::of_text(text)),
            Some(ValueRef::Keywords(texts)) => {
                self.special += u32::from(texts.is_empty());
                texts.iter().for_each(|text| leaf.add(Mark::of_text(text)));
            }
            Some(ValueRef::I64(x) | ValueRef::Timestamp(x)) => {
                leaf.add(Mark::of_number(ordered_i64(*x)));
            }
            Some(ValueRef::F64(x)) => leaf.add(Mark::of_number(ordered_f64(*x))),
            Some(ValueRef::Bool(is_true)) => {
                self.special += u32::from(*is_true);
                leaf.add(Mark::of_number(u64::from(*is_true)));
            }
        }
    }

    fn is_of(&self, entry: &ColumnEntry) -> bool {
        self.present == entry.present
            && self.special == entry.special
            && self.leaves == entry.leaves
    }
}
