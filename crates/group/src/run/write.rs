//! Writes a run: groups in the order of their hashes, the rows of each by id.

use vstream_quantize::rabitq::Rotation;
use vstream_store::blocks::{seal, BlockAddress, CHECKSUM_BYTES};
use vstream_store::{FileWriter, Store};

use super::arrange;
use super::column::{encode_ids, IdEntry};
use super::format::{
    encode_directory, DirectoryBlock, Footer, Header, Meta, PartEntry, Shape, DIRECTORY_PARTS,
    HEADER, ID_ENTRIES, VERSION,
};
use super::head::{LeafHead, PartHead, PayloadHead};
use super::load::CodedRow;
use super::part::Part;
use super::pending::{CodedRows, Pending, PendingFields, StoredRow};
use super::presence;
use super::values::{encode_list, encode_names, encode_payloads, PAYLOAD_BLOCK_BYTES};
use crate::accept::GroupHash;
use crate::code::{encode_leaf, form};
use crate::error::Error;

/// Number of the footer, which lies at no offset that a reader knows before.
pub(super) const FOOTER_NUMBER: u64 = u64::MAX;

/// From how many rows on a part gets codes, and the order of clusters.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Thresholds {
    pub(crate) coded: usize,
    pub(crate) clustered: usize,
}

/// What a finished run holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RunSummary {
    pub(crate) rows: u64,
    pub(crate) bytes: u64,
    /// Rows whose codes stayed as they were in the runs before.
    pub(crate) kept: u64,
}

/// Streams a run to a store. Holds one part and one directory block in memory, the filter of groups
/// and 28 bytes per 64 parts.
pub(crate) struct RunWriter {
    file: Box<dyn FileWriter>,
    header: Header,
    rotation: Rotation,
    thresholds: Thresholds,
    offset: u64,
    group: Option<(GroupHash, String, bool)>,
    pending: Pending,
    directory: Vec<PartEntry>,
    /// Group of the last part.
    last_group: Option<GroupHash>,
    /// Rows whose codes were kept, those of copied parts included.
    kept: u64,
    meta: Meta,
}

impl RunWriter {
    /// Begins a run.
    ///
    /// * `groups`: at least as many as will be written, for the filter.
    pub(crate) fn create(
        store: &dyn Store,
        name: &str,
        header: Header,
        groups: u64,
        thresholds: Thresholds,
    ) -> Result<RunWriter, Error> {
        let shape = header.shape;
        let mut writer = RunWriter {
            file: store.create(name)?,
            header,
            rotation: Rotation::new(shape.dimension, shape.seed),
            thresholds,
            offset: 0,
            group: None,
            pending: Pending::default(),
            directory: Vec::with_capacity(DIRECTORY_PARTS),
            last_group: None,
            kept: 0,
            meta: Meta {
                rows: 0,
                tombstones: 0,
                groups: 0,
                directory: Vec::new(),
                presence: presence::empty(groups),
            },
        };
        writer.append(writer.header.encode(), 0)?;
        assert_eq!(writer.offset, (HEADER + CHECKSUM_BYTES) as u64, "the header's length is fixed");
        Ok(writer)
    }

    /// Begins a group; its hash is above that of the group before.
    ///
    /// * `drops`: true if rows of the group in older runs are gone.
    pub(crate) fn begin(&mut self, hash: GroupHash, name: &str, drops: bool) -> Result<(), Error> {
        self.end_group()?;
        debug_assert!(self.group.as_ref().is_none_or(|(last, _, _)| *last < hash));
        self.group = Some((hash, name.to_owned(), drops));
        Ok(())
    }

    /// Adds a row of the group; its id is above that of the row before.
    pub(crate) fn push(&mut self, row: StoredRow<'_>) -> Result<(), Error> {
        self.push_coded(row, None)
    }

    /// Works like [`RunWriter::push`] with a row whose codes may stay as they are.
    pub(crate) fn push_coded(
        &mut self,
        row: StoredRow<'_>,
        coded: Option<CodedRow<'_>>,
    ) -> Result<(), Error> {
        if self.pending.is_full() {
            self.write_part()?;
        }
        self.pending.push(row, coded);
        Ok(())
    }

    /// True if codes of a run of this shape are those that this run would have.
    pub(crate) fn has_codes_of(&self, shape: &Shape) -> bool {
        self.header.shape == *shape
    }

    /// Writes a part of another run of the store as it is, if it is what a merge would write. The
    /// part is of the group that was begun, and its ids are above those before. False if it is not.
    pub(crate) fn copy(&mut self, part: &Part) -> Result<bool, Error> {
        if !part.suits(&self.header.shape, &self.thresholds)? {
            return Ok(false);
        }
        if !self.pending.entries.is_empty() {
            self.write_part()?;
        }
        let from = self.offset;
        for block in part.payloads_of_blocks()? {
            self.append(block, self.offset)?;
        }
        self.kept += if part.is_coded() { u64::from(part.rows()) } else { 0 };
        self.end_part(PartEntry { offset: from, ..part.entry })?;
        Ok(true)
    }

    fn end_group(&mut self) -> Result<(), Error> {
        let drops = self.group.as_ref().is_some_and(|(_, _, drops)| *drops);
        if drops || !self.pending.entries.is_empty() {
            self.write_part()?;
        }
        Ok(())
    }

    /// Publishes the run. Errors: those of the store.
    pub(crate) fn finish(mut self) -> Result<RunSummary, Error> {
        self.end_group()?;
        self.write_directory()?;
        let meta_offset = self.offset;
        let meta = self.meta.encode();
        let meta_bytes = (meta.len() + CHECKSUM_BYTES) as u64;
        self.append(meta, meta_offset)?;
        let file_bytes = self.offset + (super::format::FOOTER + CHECKSUM_BYTES) as u64;
        let identity = self.header.identity;
        let footer = Footer { identity, meta_offset, meta_bytes, file_bytes };
        self.append(footer.encode(), FOOTER_NUMBER)?;
        let bytes = self.file.finish()?;
        Ok(RunSummary { rows: self.meta.rows, bytes, kept: self.kept })
    }

    fn append(&mut self, mut payload: Vec<u8>, number: u64) -> Result<(), Error> {
        let file = self.header.identity;
        seal(BlockAddress { file, number, version: VERSION }, &mut payload);
        self.file.append(&payload)?;
        self.offset += payload.len() as u64;
        Ok(())
    }

    fn write_directory(&mut self) -> Result<(), Error> {
        let Some(first) = self.directory.first() else { return Ok(()) };
        let bytes = encode_directory(&self.directory);
        let block = DirectoryBlock {
            first: first.group,
            offset: self.offset,
            bytes: (bytes.len() + CHECKSUM_BYTES) as u32,
        };
        self.meta.directory.push(block);
        self.directory.clear();
        self.append(bytes, self.offset)
    }

    /// Writes the pending rows as a part.
    fn write_part(&mut self) -> Result<(), Error> {
        let (group, name, _) = self.group.as_ref().expect("rows have a group");
        let (group, name) = (*group, name.clone());
        let pending = std::mem::take(&mut self.pending);
        let ends = (pending.entries.first(), pending.entries.last());
        let (first_id, last_id) = match ends {
            (Some(first), Some(last)) => (first.id, last.id),
            _ => (0, 0),
        };
        let (rows, entries) = (pending.rows() as u32, pending.entries.len() as u32);
        let part =
            PartBlocks::build(pending, name, self.header.shape, self.thresholds, &self.rotation);
        self.kept += part.kept;
        let offset = self.offset;
        let head = part.head.encode();
        let head_bytes = (head.len() + CHECKSUM_BYTES) as u32;
        self.append(head, offset)?;
        for block in part.blocks {
            self.append(block, self.offset)?;
        }
        let bytes = self.offset - offset;
        self.end_part(PartEntry {
            group,
            first_id,
            last_id,
            offset,
            head_bytes,
            bytes,
            rows,
            entries,
            drops: false,
        })
    }

    /// Notes a part whose blocks were written.
    fn end_part(&mut self, entry: PartEntry) -> Result<(), Error> {
        let (group, _, drops) = self.group.as_mut().expect("rows have a group");
        // Only the first part of a group says that older rows are gone.
        let entry = PartEntry { drops: std::mem::take(drops), ..entry };
        let is_new = self.last_group.replace(*group) != Some(*group);
        self.directory.push(entry);
        self.meta.rows += u64::from(entry.rows);
        self.meta.tombstones += u64::from(entry.entries - entry.rows);
        if is_new {
            self.meta.groups += 1;
            presence::add(&mut self.meta.presence, entry.group);
        }
        if self.directory.len() == DIRECTORY_PARTS {
            self.write_directory()?;
        }
        Ok(())
    }
}

/// The blocks of a part before they are sealed, in the order of the file.
struct PartBlocks {
    head: PartHead,
    blocks: Vec<Vec<u8>>,
    /// Rows whose codes stayed as they were.
    kept: u64,
}

impl PartBlocks {
    fn build(
        mut pending: Pending,
        group: String,
        shape: Shape,
        thresholds: Thresholds,
        rotation: &Rotation,
    ) -> PartBlocks {
        let n = pending.rows();
        let coded = n > 0 && n >= thresholds.coded;
        let kept = match coded {
            true => arrange::kept(&mut pending, shape.codes, thresholds.clustered),
            false => Vec::new(),
        };
        let fresh = rows_outside(n, &kept);
        let rotated = if coded { pending.rotated(&fresh, &shape, rotation) } else { Vec::new() };
        // Positions in `fresh`, as are the numbers of rotated rows.
        let new_leaves = if coded && n >= thresholds.clustered {
            arrange::by_cluster(&rotated, shape.padded(), shape.seed)
        } else {
            arrange::in_order(fresh.len())
        };
        let of = |leaf: &Vec<u32>| leaf.iter().map(|&at| fresh[at as usize]).collect();
        let kept_leaves = kept.iter().map(|leaf| leaf.rows.iter().map(|(row, _)| *row).collect());
        let leaves: Vec<Vec<u32>> = kept_leaves.chain(new_leaves.iter().map(of)).collect();
        let (rows, entries) = (n as u32, pending.entries.len() as u32);
        let head = PartHead {
            group,
            coded,
            rows,
            entries,
            ids: Vec::new(),
            leaves: Vec::new(),
            payloads: Vec::new(),
        };
        let mut part = PartBlocks { head, blocks: Vec::new(), kept: (n - fresh.len()) as u64 };
        part.put_ids(&pending.entries, &leaves);
        let mut seconds = Vec::new();
        kept.iter().for_each(|leaf| part.put_kept(&shape, leaf, &mut seconds));
        part.put_codes(&shape, &rotated, &new_leaves, &mut seconds);
        part.put_fields(&pending.fields, &leaves);
        part.blocks.extend(seconds);
        let order: Vec<u32> = leaves.concat();
        part.put_rows(&pending, &shape, &order);
        part.put_payloads(&pending.fields, &order);
        part
    }

    /// Adds a block and returns its length once it is sealed.
    fn put(&mut self, block: Vec<u8>) -> u32 {
        let bytes = (block.len() + CHECKSUM_BYTES) as u32;
        self.blocks.push(block);
        bytes
    }

    fn put_ids(&mut self, entries: &[IdEntry], leaves: &[Vec<u32>]) {
        let mut places = vec![0u32; leaves.iter().map(Vec::len).sum()];
        for (place, &row) in leaves.iter().flatten().enumerate() {
            places[row as usize] = place as u32;
        }
        let placed =
            |entry: &IdEntry| IdEntry { row: entry.row.map(|row| places[row as usize]), ..*entry };
        for entries in entries.chunks(ID_ENTRIES) {
            let placed: Vec<IdEntry> = entries.iter().map(placed).collect();
            let bytes = self.put(encode_ids(&placed));
            self.head.ids.push((entries[0].id, bytes));
        }
    }

    /// Takes over the head of a leaf, and the codes of those of its rows that are left.
    fn put_kept(&mut self, shape: &Shape, kept: &CodedRows, seconds: &mut Vec<Vec<u8>>) {
        let CodedRows { leaf, rows } = kept;
        let second_bytes = shape.second_bytes();
        let codes = if rows.len() == leaf.rows() {
            leaf.codes.to_vec()
        } else {
            let row_bytes = leaf.codes.len() / leaf.rows();
            let mut codes = Vec::with_capacity(rows.len() * row_bytes + CHECKSUM_BYTES);
            for &(_, at) in rows {
                codes.extend_from_slice(&leaf.codes[at as usize * row_bytes..][..row_bytes]);
            }
            codes
        };
        if second_bytes > 0 {
            let second = |at: u32| &leaf.seconds[at as usize * second_bytes..][..second_bytes];
            seconds.extend(rows.iter().map(|(_, at)| second(*at).to_vec()));
        }
        let bytes = [(codes.len() + CHECKSUM_BYTES) as u32, 0, 0];
        self.head.leaves.push(LeafHead { rows: rows.len() as u32, bytes, ..leaf.head.clone() });
        self.blocks.push(codes);
    }

    /// Makes the heads of new leaves and the blocks of their codes. Adds the blocks for a second look,
    /// which come later in the file.
    fn put_codes(
        &mut self,
        shape: &Shape,
        rotated: &[f32],
        leaves: &[Vec<u32>],
        seconds: &mut Vec<Vec<u8>>,
    ) {
        let padded = shape.padded();
        let mut rows = Vec::new();
        for leaf in leaves {
            let mut head = LeafHead { rows: leaf.len() as u32, ..LeafHead::default() };
            if self.head.coded {
                rows.clear();
                let row = |row: &u32| &rotated[*row as usize * padded..][..padded];
                leaf.iter().for_each(|number| rows.extend_from_slice(row(number)));
                let coded = encode_leaf(shape.codes, form(shape.metric), &rows, padded);
                head.bytes[0] = (coded.codes.len() + CHECKSUM_BYTES) as u32;
                (head.reach, head.low, head.step) = (coded.reach, coded.low, coded.step);
                (head.add_max, head.scale_max) = (coded.add_max, coded.scale_max);
                head.steps = coded.steps;
                self.blocks.push(coded.codes);
                let rows = coded.seconds.chunks(shape.second_bytes().max(1));
                seconds.extend(rows.map(<[u8]>::to_vec));
            }
            self.head.leaves.push(head);
        }
    }

    fn put_fields(&mut self, fields: &[PendingFields], leaves: &[Vec<u32>]) {
        let of = |row: &u32| &fields[*row as usize];
        for (at, leaf) in leaves.iter().enumerate() {
            if leaf.iter().any(|row| !of(row).attributes.is_empty()) {
                let items = leaf.iter().map(|row| of(row).attributes.as_slice());
                self.head.leaves[at].bytes[1] = self.put(encode_list(items));
            }
        }
        for (at, leaf) in leaves.iter().enumerate() {
            if leaf.iter().any(|row| !of(row).name.is_empty()) {
                let names = leaf.iter().map(|row| (of(row).check, of(row).name.as_str()));
                self.head.leaves[at].bytes[2] = self.put(encode_names(names));
            }
        }
    }

    fn put_rows(&mut self, pending: &Pending, shape: &Shape, order: &[u32]) {
        let vector_bytes = shape.dimension * shape.element.bytes();
        for rows in order.chunks(shape.block_rows(self.head.coded)) {
            let mut block = Vec::with_capacity(rows.len() * shape.row_bytes() + CHECKSUM_BYTES);
            for &row in rows {
                block.extend_from_slice(&pending.keys[row as usize]);
                let vector = &pending.vectors[row as usize * vector_bytes..][..vector_bytes];
                block.extend_from_slice(vector);
            }
            self.put(block);
        }
    }

    fn put_payloads(&mut self, fields: &[PendingFields], order: &[u32]) {
        let payload = |row: &u32| fields[*row as usize].payload.as_deref();
        let mut from = 0;
        while from < order.len() {
            let mut bytes = 0;
            let mut to = from;
            while to < order.len() && bytes < PAYLOAD_BLOCK_BYTES {
                bytes += payload(&order[to]).map_or(0, <[u8]>::len);
                to += 1;
            }
            if order[from..to].iter().any(|row| payload(row).is_some()) {
                let bytes = self.put(encode_payloads(order[from..to].iter().map(payload)));
                let (first_row, rows) = (from as u32, (to - from) as u32);
                self.head.payloads.push(PayloadHead { first_row, rows, bytes });
            }
            from = to;
        }
    }
}

/// The rows of `0..n` that are in none of some leaves, ascending.
fn rows_outside(n: usize, leaves: &[CodedRows]) -> Vec<u32> {
    let mut is_inside = vec![false; n];
    for (row, _) in leaves.iter().flat_map(|leaf| &leaf.rows) {
        is_inside[*row as usize] = true;
    }
    (0..n as u32).filter(|&row| !is_inside[row as usize]).collect()
}
