//! A part of a group in a run: reads what a query needs of it.

use std::cell::Cell;
use std::sync::Arc;

use vstream_attribute::Attributes;
use vstream_store::blocks::{Block, BlockHandle, BlockReader, CHECKSUM_BYTES};

use super::column::{decode_ids, find_id, IdEntry};
use super::format::{PartEntry, Shape, ID_ENTRIES, ROW_KEY};
use super::head::{Layout, LeafHead, PartHead};
use super::pending::attributes;
use super::read::Run;
use super::values::{decode_payloads, payload, List, Names};
use crate::accept::same_hash;
use crate::error::{Error, Malformed};

/// An open part.
pub(crate) struct Part {
    pub(super) run: Arc<Run>,
    pub(super) reader: BlockReader,
    pub(crate) entry: PartEntry,
    pub(super) head: PartHead,
    pub(super) layout: Layout,
    /// First row of each leaf, then the number of rows.
    pub(super) firsts: Vec<u32>,
    /// Bytes of the blocks that were asked for, from the file or the cache.
    asked_bytes: Cell<u64>,
}

impl Part {
    /// Opens a part for a query. Errors: `Corrupt`, `BadGroup` if it belongs to another group of
    /// the same hash.
    pub(crate) fn open(run: &Arc<Run>, entry: PartEntry, group: &str) -> Result<Part, Error> {
        let part = Part::open_with(run, entry, run.blocks.clone())?;
        if part.head.group != group {
            return Err(same_hash(group));
        }
        Ok(part)
    }

    /// Opens a part for a query that does not know the group.
    pub(crate) fn open_any(run: &Arc<Run>, entry: PartEntry) -> Result<Part, Error> {
        Part::open_with(run, entry, run.blocks.clone())
    }

    pub(super) fn open_with(
        run: &Arc<Run>,
        entry: PartEntry,
        reader: BlockReader,
    ) -> Result<Part, Error> {
        let (offset, bytes) = (entry.offset, entry.head_bytes as usize);
        let block = reader.read(BlockHandle { number: offset, offset, bytes })?;
        let head = PartHead::decode(run.shape(), &entry, &block);
        let head = head.map_err(|what| run.corrupt(offset, what))?;
        let layout = head.lay_out(run.shape(), &entry).map_err(|what| run.corrupt(offset, what))?;
        let mut firsts = vec![0];
        for leaf in &head.leaves {
            firsts.push(firsts[firsts.len() - 1] + leaf.rows);
        }
        let asked_bytes = Cell::new(bytes as u64);
        Ok(Part { run: run.clone(), reader, entry, head, layout, firsts, asked_bytes })
    }

    pub(crate) fn run(&self) -> &Arc<Run> {
        &self.run
    }

    pub(crate) fn shape(&self) -> &Shape {
        self.run.shape()
    }

    /// Name of the group.
    pub(crate) fn group(&self) -> &str {
        &self.head.group
    }

    pub(crate) fn rows(&self) -> u32 {
        self.head.rows
    }

    /// True if its leaves have codes.
    pub(crate) fn is_coded(&self) -> bool {
        self.head.coded
    }

    pub(crate) fn leaves(&self) -> &[LeafHead] {
        &self.head.leaves
    }

    /// Number of the first row of a leaf.
    pub(crate) fn first_row(&self, leaf: usize) -> u32 {
        self.firsts[leaf]
    }

    /// The leaf of a row, and its place in it.
    pub(crate) fn leaf_of(&self, row: u32) -> (usize, usize) {
        let leaf = self.firsts.partition_point(|&first| first <= row) - 1;
        (leaf, (row - self.firsts[leaf]) as usize)
    }

    /// Bytes of the blocks that were asked for so far.
    pub(crate) fn asked_bytes(&self) -> u64 {
        self.asked_bytes.get()
    }

    pub(super) fn read(&self, handles: &[BlockHandle]) -> Result<Vec<Arc<Block>>, Error> {
        let bytes: usize = handles.iter().map(|handle| handle.bytes).sum();
        self.asked_bytes.set(self.asked_bytes.get() + bytes as u64);
        Ok(self.reader.read_many(handles)?)
    }

    pub(super) fn corrupt(&self, handle: BlockHandle, what: Malformed) -> Error {
        self.run.corrupt(handle.offset, what)
    }

    /// The error of a leaf whose attributes are none.
    pub(crate) fn bad_attributes(&self, leaf: usize, what: Malformed) -> Error {
        self.corrupt(self.layout.attributes[leaf], what)
    }

    /// All rows and tombstones, by id.
    pub(crate) fn ids(&self) -> Result<Vec<IdEntry>, Error> {
        let all: Vec<usize> = (0..self.layout.ids.len()).collect();
        self.id_blocks(&all)
    }

    fn id_blocks(&self, wanted: &[usize]) -> Result<Vec<IdEntry>, Error> {
        let handles: Vec<BlockHandle> = wanted.iter().map(|&at| self.layout.ids[at]).collect();
        let mut entries = Vec::new();
        for ((block, &at), &handle) in self.read(&handles)?.iter().zip(wanted).zip(&handles) {
            let count = (self.head.entries as usize - at * ID_ENTRIES).min(ID_ENTRIES);
            decode_ids(block, count, self.head.rows, &mut entries)
                .map_err(|what| self.corrupt(handle, what))?;
        }
        Ok(entries)
    }

    /// The entries of some ids. Cost: the id blocks that may hold one of them.
    ///
    /// * `ids`: ascending.
    pub(crate) fn find(&self, ids: &[u64]) -> Result<Vec<IdEntry>, Error> {
        let from = ids.partition_point(|&id| id < self.entry.first_id);
        let to = ids.partition_point(|&id| id <= self.entry.last_id);
        let ids = &ids[from.min(to)..to];
        let block_of = |id: u64| self.head.ids.partition_point(|(first, _)| *first <= id);
        let mut wanted: Vec<usize> =
            ids.iter().filter_map(|&id| block_of(id).checked_sub(1)).collect();
        wanted.dedup();
        let mut found = self.id_blocks(&wanted)?;
        let mut next = ids.iter().copied().peekable();
        found.retain(|entry| {
            while next.next_if(|&id| id < entry.id).is_some() {}
            next.peek() == Some(&entry.id)
        });
        Ok(found)
    }

    /// Version and row of one id; no row for a tombstone. Cost: the id block that may hold it, if
    /// there is one, and a binary search in it.
    pub(crate) fn find_one(&self, id: u64) -> Result<Option<(u64, Option<u32>)>, Error> {
        let after = self.head.ids.partition_point(|(first, _)| *first <= id);
        if after == 0 || id > self.entry.last_id {
            return Ok(None);
        }
        let handle = self.layout.ids[after - 1];
        let block = self.read(&[handle])?.remove(0);
        let count = (self.head.entries as usize - (after - 1) * ID_ENTRIES).min(ID_ENTRIES);
        find_id(&block, count, self.head.rows, id).map_err(|what| self.corrupt(handle, what))
    }

    /// The check of a row's name; 0 where ids are numbers. Cost: the block of its leaf's names.
    pub(crate) fn check_of(&self, row: u32) -> Result<u64, Error> {
        Ok(self.fields(row, false, false)?.check)
    }

    /// The codes of leaves, which must be coded.
    pub(crate) fn codes(&self, leaves: &[usize]) -> Result<Vec<Arc<Block>>, Error> {
        let handles: Vec<BlockHandle> = leaves.iter().map(|&at| self.layout.codes[at]).collect();
        self.read(&handles)
    }

    /// The attributes of the rows of leaves; `None` for a leaf whose rows have none.
    pub(crate) fn attributes(&self, leaves: &[usize]) -> Result<Vec<LeafAttributes>, Error> {
        let there = |at: &&usize| self.layout.attributes[**at].bytes > 0;
        let handles: Vec<BlockHandle> =
            leaves.iter().filter(there).map(|&at| self.layout.attributes[at]).collect();
        let mut blocks = self.read(&handles)?.into_iter();
        let mut found = Vec::with_capacity(leaves.len());
        for &leaf in leaves {
            let handle = self.layout.attributes[leaf];
            let block = if handle.bytes > 0 { blocks.next() } else { None };
            let rows = self.head.leaves[leaf].rows as usize;
            if let Some(block) = &block {
                List::decode(block, rows).map_err(|what| self.corrupt(handle, what))?;
            }
            found.push(LeafAttributes { block, rows });
        }
        Ok(found)
    }

    fn row_block(&self, block: usize) -> BlockHandle {
        let shape = self.shape();
        let per_block = shape.block_rows(self.head.coded);
        let full = per_block * shape.row_bytes() + CHECKSUM_BYTES;
        let offset = self.layout.rows_at + (block * full) as u64;
        let rows = (self.head.rows as usize - block * per_block).min(per_block);
        let bytes = rows * shape.row_bytes() + CHECKSUM_BYTES;
        BlockHandle { number: offset, offset, bytes }
    }

    /// Reads rows and calls `visit` with number, id, version and vector of each.
    ///
    /// * `rows`: ascending numbers below `self.rows()`.
    pub(crate) fn visit_rows(
        &self,
        rows: &[u32],
        mut visit: impl FnMut(u32, u64, u64, &[u8]),
    ) -> Result<(), Error> {
        let (per_block, row_bytes) =
            (self.shape().block_rows(self.head.coded), self.shape().row_bytes());
        let mut wanted: Vec<usize> = rows.iter().map(|&row| row as usize / per_block).collect();
        wanted.dedup();
        let mut rows = rows.iter().copied().peekable();
        // Blocks are read some megabytes at a time, which bounds the memory.
        for wanted in wanted.chunks(1024) {
            let handles: Vec<BlockHandle> = wanted.iter().map(|&at| self.row_block(at)).collect();
            for (block, &at) in self.read(&handles)?.iter().zip(wanted) {
                while let Some(row) = rows.next_if(|&row| row as usize / per_block == at) {
                    let bytes = &block[row as usize % per_block * row_bytes..][..row_bytes];
                    let (key, vector) = bytes.split_at(ROW_KEY);
                    let word = |at: usize| {
                        u64::from_le_bytes(key[at..at + 8].try_into().expect("eight bytes"))
                    };
                    visit(row, word(0), word(8), vector);
                }
            }
        }
        Ok(())
    }

    /// Reads codes for a second look and calls `visit` with the position in `rows` and the code of
    /// each. The run must have such codes.
    ///
    /// * `rows`: ascending numbers below `self.rows()`.
    pub(crate) fn visit_seconds(
        &self,
        rows: &[u32],
        mut visit: impl FnMut(usize, &[u8]),
    ) -> Result<(), Error> {
        let bytes = self.shape().second_bytes() + CHECKSUM_BYTES;
        let handle = |row: &u32| {
            let offset = self.layout.seconds_at + u64::from(*row) * bytes as u64;
            BlockHandle { number: offset, offset, bytes }
        };
        for (chunk, rows) in rows.chunks(1024).enumerate() {
            let handles: Vec<BlockHandle> = rows.iter().map(handle).collect();
            for (at, block) in self.read(&handles)?.iter().enumerate() {
                visit(1024 * chunk + at, block);
            }
        }
        Ok(())
    }

    /// What a row carries beside its vector. Cost: up to three blocks: those of names, and of
    /// attributes and payloads if they are wanted.
    pub(crate) fn fields(
        &self,
        row: u32,
        with_attributes: bool,
        with_payload: bool,
    ) -> Result<OwnedFields, Error> {
        let (leaf, within) = self.leaf_of(row);
        let mut fields = OwnedFields::default();
        if with_attributes {
            let leaf_attributes = self.attributes(&[leaf])?;
            let handle = self.layout.attributes[leaf];
            let found =
                leaf_attributes[0].get(within).map_err(|what| self.corrupt(handle, what))?;
            fields.attributes = found.bytes().to_vec();
        }
        let handle = self.layout.names[leaf];
        if handle.bytes > 0 {
            let block = self.read(&[handle])?.remove(0);
            let names = Names::decode(&block, self.head.leaves[leaf].rows as usize);
            let name = names.and_then(|names| {
                let (check, name) = names.get(within)?;
                Ok((check, name.to_owned()))
            });
            (fields.check, fields.name) = name.map_err(|what| self.corrupt(handle, what))?;
        }
        if with_payload {
            fields.payload = self.payload(row)?;
        }
        Ok(fields)
    }

    fn payload(&self, row: u32) -> Result<Option<Vec<u8>>, Error> {
        let after = self.head.payloads.partition_point(|block| block.first_row <= row);
        let Some(at) = after.checked_sub(1) else { return Ok(None) };
        let (head, handle) = (self.head.payloads[at], self.layout.payloads[at]);
        if row >= head.first_row + head.rows {
            return Ok(None);
        }
        let block = self.read(&[handle])?.remove(0);
        let found = decode_payloads(&block).and_then(|bytes| {
            let list = List::decode(&bytes, head.rows as usize)?;
            Ok(payload(list.get((row - head.first_row) as usize))?.map(<[u8]>::to_vec))
        });
        found.map_err(|what| self.corrupt(handle, what))
    }
}

/// The attributes of the rows of a leaf.
pub(crate) struct LeafAttributes {
    /// A list that was checked.
    block: Option<Arc<Block>>,
    rows: usize,
}

impl LeafAttributes {
    /// The attributes of row `row` of the leaf. Errors: if the bytes are none.
    pub(crate) fn get(&self, row: usize) -> Result<Attributes<'_>, Malformed> {
        match &self.block {
            Some(block) => attributes(List::again(block, self.rows).get(row)),
            None => Ok(Attributes::NONE),
        }
    }
}

/// What a row carries, copied from its run.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct OwnedFields {
    pub(crate) attributes: Vec<u8>,
    pub(crate) check: u64,
    pub(crate) name: String,
    pub(crate) payload: Option<Vec<u8>>,
}
