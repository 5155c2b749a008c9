//! Whole parts in memory, for merges.

use std::sync::Arc;

use vstream_attribute::Fields;
use vstream_store::blocks::{unseal, Block, BlockAddress, BlockHandle, CHECKSUM_BYTES};
use vstream_store::{Buffer, Range};

use super::column::IdEntry;
use super::format::{PartEntry, Shape, ROW_KEY, VERSION};
use super::head::LeafHead;
use super::part::{OwnedFields, Part};
use super::pending::{attributes, Content, StoredRow};
use super::values::{decode_payloads, payload, List, Names};
use super::write::Thresholds;
use crate::error::{Error, Malformed};

/// A part in memory.
pub(crate) struct LoadedPart {
    pub(crate) entries: Vec<IdEntry>,
    rows: RowBlocks,
    fields: Vec<OwnedFields>,
    leaves: Vec<Arc<LeafCodes>>,
    /// First row of each leaf.
    firsts: Vec<u32>,
}

/// The codes of a leaf, which a merge may keep.
pub(crate) struct LeafCodes {
    pub(super) head: LeafHead,
    pub(super) codes: Arc<Block>,
    /// Codes for a second look of all rows of the leaf, if there are any.
    pub(super) seconds: Vec<u8>,
    /// Number of rows of its part.
    pub(super) part_rows: u32,
    /// True if the rows of the part are in the order of their ids, so that leaves are no clusters.
    pub(super) is_by_id: bool,
}

/// A row of a leaf whose codes may be kept.
#[derive(Clone, Copy)]
pub(crate) struct CodedRow<'a> {
    pub(super) leaf: &'a Arc<LeafCodes>,
    /// Number of the row in the leaf.
    pub(super) at: u32,
}

/// The blocks of rows of a part, one after another, as they are in the file.
struct RowBlocks {
    bytes: Buffer,
    row_bytes: usize,
    per_block: usize,
}

impl RowBlocks {
    /// The vector of a row.
    fn vector(&self, row: usize) -> &[u8] {
        let block = self.per_block * self.row_bytes + CHECKSUM_BYTES;
        let from = row / self.per_block * block + row % self.per_block * self.row_bytes;
        &self.bytes[from + ROW_KEY..from + self.row_bytes]
    }
}

impl Part {
    /// Reads the whole part, up to some 16 MiB and its codes.
    ///
    /// * `with_codes`: false if the codes are of no use.
    pub(crate) fn load(&self, with_codes: bool) -> Result<LoadedPart, Error> {
        let entries = self.ids()?;
        let is_by_id = entries.iter().filter_map(|entry| entry.row).is_sorted();
        let leaves = match with_codes && self.head.coded {
            true => self.load_codes(is_by_id)?,
            false => Vec::new(),
        };
        let mut fields: Vec<OwnedFields> = Vec::new();
        fields.resize_with(self.head.rows as usize, OwnedFields::default);
        self.load_leaves(&mut fields)?;
        let rows = self.load_rows()?;
        for (head, &handle) in self.head.payloads.iter().zip(&self.layout.payloads) {
            let block = self.read(&[handle])?.remove(0);
            let mut take = || -> Result<(), Malformed> {
                let bytes = decode_payloads(&block)?;
                let list = List::decode(&bytes, head.rows as usize)?;
                for row in 0..head.rows as usize {
                    let found = payload(list.get(row))?;
                    fields[head.first_row as usize + row].payload = found.map(<[u8]>::to_vec);
                }
                Ok(())
            };
            take().map_err(|what| self.corrupt(handle, what))?;
        }
        Ok(LoadedPart { entries, rows, fields, leaves, firsts: self.firsts.clone() })
    }

    fn load_codes(&self, is_by_id: bool) -> Result<Vec<Arc<LeafCodes>>, Error> {
        let all: Vec<usize> = (0..self.head.leaves.len()).collect();
        let mut leaves = Vec::with_capacity(all.len());
        for ((codes, head), &first) in
            self.codes(&all)?.into_iter().zip(&self.head.leaves).zip(&self.firsts)
        {
            let mut seconds = Vec::new();
            if self.shape().second_bytes() > 0 {
                let rows: Vec<u32> = (first..first + head.rows).collect();
                self.visit_seconds(&rows, |_, second| seconds.extend_from_slice(second))?;
            }
            let (head, part_rows) = (head.clone(), self.head.rows);
            leaves.push(Arc::new(LeafCodes { head, codes, seconds, part_rows, is_by_id }));
        }
        Ok(leaves)
    }

    fn load_rows(&self) -> Result<RowBlocks, Error> {
        let (shape, rows) = (self.shape(), self.head.rows as usize);
        let (row_bytes, per_block) = (shape.row_bytes(), shape.block_rows(self.head.coded));
        let bytes = rows * row_bytes + rows.div_ceil(per_block) * CHECKSUM_BYTES;
        let bytes = self.reader.file().read(Range { offset: self.layout.rows_at, bytes })?;
        let block_bytes = per_block * row_bytes + CHECKSUM_BYTES;
        for (at, block) in bytes.chunks(block_bytes).enumerate() {
            self.check(self.layout.rows_at + (at * block_bytes) as u64, block)?;
        }
        Ok(RowBlocks { bytes, row_bytes, per_block })
    }

    /// Checks a block at its offset; its payload.
    fn check<'a>(&self, number: u64, block: &'a [u8]) -> Result<&'a [u8], Error> {
        let address = BlockAddress { file: self.run.identity(), number, version: VERSION };
        Ok(unseal(address, block, self.reader.file().name(), number)?)
    }

    fn load_leaves(&self, fields: &mut [OwnedFields]) -> Result<(), Error> {
        let leaves: Vec<usize> = (0..self.head.leaves.len()).collect();
        for (leaf, attributes) in self.attributes(&leaves)?.iter().enumerate() {
            let (from, rows) = (self.firsts[leaf] as usize, self.head.leaves[leaf].rows as usize);
            for row in 0..rows {
                let found = attributes.get(row);
                let found =
                    found.map_err(|what| self.corrupt(self.layout.attributes[leaf], what))?;
                fields[from + row].attributes = found.bytes().to_vec();
            }
            let handle = self.layout.names[leaf];
            if handle.bytes == 0 {
                continue;
            }
            let block = self.read(&[handle])?.remove(0);
            let names = Names::decode(&block, rows).map_err(|what| self.corrupt(handle, what))?;
            for row in 0..rows {
                let (check, name) = names.get(row).map_err(|what| self.corrupt(handle, what))?;
                let fields = &mut fields[from + row];
                (fields.check, fields.name) = (check, name.to_owned());
            }
        }
        Ok(())
    }

    /// True if a merge into a run of this shape and these thresholds would write the part as it is:
    /// it has codes, and the order of clusters, where the run gives them.
    pub(super) fn suits(&self, shape: &Shape, to: &Thresholds) -> Result<bool, Error> {
        let rows = self.head.rows as usize;
        let is_coded = rows > 0 && rows >= to.coded;
        if self.shape() != shape || is_coded != self.head.coded {
            return Ok(false);
        }
        if !is_coded || rows < to.clustered {
            return Ok(true);
        }
        // In the order of ids there are no clusters.
        Ok(!self.ids()?.iter().filter_map(|entry| entry.row).is_sorted())
    }

    /// The payloads of all blocks, in the order of the file. Cost: one read.
    pub(super) fn payloads_of_blocks(&self) -> Result<Vec<Vec<u8>>, Error> {
        let PartEntry { offset, bytes, head_bytes, .. } = self.entry;
        let read = self.reader.file().read(Range { offset, bytes: bytes as usize })?;
        let layout = &self.layout;
        let mut lengths = vec![head_bytes as usize];
        let mut named = |handles: &[BlockHandle]| {
            lengths.extend(handles.iter().map(|handle| handle.bytes).filter(|&bytes| bytes > 0));
        };
        named(&layout.ids);
        named(&layout.codes);
        named(&layout.attributes);
        named(&layout.names);
        let (shape, rows) = (self.shape(), self.head.rows as usize);
        if layout.rows_at > layout.seconds_at {
            lengths.extend(vec![shape.second_bytes() + CHECKSUM_BYTES; rows]);
        }
        let per_block = shape.block_rows(self.head.coded);
        for from in (0..rows).step_by(per_block) {
            let rows = (rows - from).min(per_block);
            lengths.push(rows * shape.row_bytes() + CHECKSUM_BYTES);
        }
        lengths.extend(layout.payloads.iter().map(|handle| handle.bytes));
        let mut blocks = Vec::with_capacity(lengths.len());
        let mut at = 0;
        for length in lengths {
            let block = self.check(offset + at as u64, &read[at..at + length])?;
            let mut copy = Vec::with_capacity(length);
            copy.extend_from_slice(block);
            blocks.push(copy);
            at += length;
        }
        Ok(blocks)
    }
}

impl LeafCodes {
    /// Number of rows.
    pub(super) fn rows(&self) -> usize {
        self.head.rows as usize
    }
}

impl LoadedPart {
    /// Entry `at`, in the order of ids, as a row.
    pub(crate) fn row(&self, at: usize) -> StoredRow<'_> {
        let IdEntry { id, version, row, deleted_at } = self.entries[at];
        let content = row.map(|row| {
            let row = row as usize;
            let fields = &self.fields[row];
            Content {
                vector: self.rows.vector(row),
                fields: Fields {
                    name: &fields.name,
                    check: fields.check,
                    attributes: attributes(&fields.attributes).expect("attributes were checked"),
                    payload: fields.payload.as_deref(),
                },
            }
        });
        StoredRow { id, version, content, deleted_at }
    }

    /// The leaf of the codes of entry `at`, if it has a row and codes were loaded.
    pub(crate) fn coded(&self, at: usize) -> Option<CodedRow<'_>> {
        let row = self.entries[at].row.filter(|_| !self.leaves.is_empty())?;
        let leaf = self.firsts.partition_point(|&first| first <= row) - 1;
        Some(CodedRow { leaf: &self.leaves[leaf], at: row - self.firsts[leaf] })
    }
}
