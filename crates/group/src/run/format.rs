//! The bytes of a run, version 2. Little-endian; a checksum follows every block. The number of a
//! block is its offset.
//!
//! ```text
//! header      what the rows are, identity of the file
//! parts, in the order of (hash of the group, first id), each:
//!   head      name of the group, lengths of everything below (head.rs)
//!   ids       blocks of 1,024 entries by id: ids, versions, row numbers; tombstones have a time instead
//!   codes     a block per leaf
//!   values    a block per leaf with any: attributes; then a block per leaf with names
//!   seconds   a block per row with its code for a second look, if the kind of codes has any
//!   rows      a block per row if there are codes, else blocks of about 4 KiB, all but the last of
//!             equal length: u64 id | u64 version | vector
//!   payloads  compressed blocks of whole payloads
//! directory   after every 64 parts: a block with an entry per part
//! meta        counts, the first group of every directory block, the filter of groups
//! footer      where meta is, how long the file is
//! ```
//!
//! A part holds up to 16,384 rows or 16 MiB of one group. A larger group has several parts, with
//! ascending ids. So a merge never needs more than one part of each run in memory.

use vstream_vector::cursor::ByteReader;
use vstream_vector::{Element, Metric};

use crate::accept::GroupHash;
use crate::code::CodeKind;
use crate::error::Malformed;
use crate::settings::DIMENSION_MAX;

pub(crate) const VERSION: u32 = 2;
const MAGIC: &[u8; 8] = b"VSTRGRUN";
const FOOTER_MAGIC: &[u8; 8] = b"VSTRGEND";
pub(crate) const HEADER: usize = 48;
pub(crate) const FOOTER: usize = 40;
/// Parts of a directory block.
pub(crate) const DIRECTORY_PARTS: usize = 64;
/// Most rows, and bytes of content, of a part; one more row may pass the second.
pub(crate) const PART_ROWS_MAX: usize = 16_384;
pub(crate) const PART_BYTES_MAX: usize = 16 << 20;
/// Entries of an id block.
pub(crate) const ID_ENTRIES: usize = 1024;
/// Bytes before the vector of a stored row.
pub(crate) const ROW_KEY: usize = 16;
/// Bytes of a block of rows, unless a single row is longer.
const ROW_BLOCK_BYTES: usize = 4096;

/// The settings that the bytes of a run depend on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Shape {
    pub(crate) dimension: usize,
    pub(crate) metric: Metric,
    pub(crate) element: Element,
    pub(crate) codes: CodeKind,
    /// Seed of the rotation of the codes.
    pub(crate) seed: u64,
}

impl Shape {
    /// Bytes of a stored row.
    pub(crate) fn row_bytes(&self) -> usize {
        ROW_KEY + self.dimension * self.element.bytes()
    }

    /// Rows of a block of rows. A search of coded rows reads few of them, so each is a block.
    pub(crate) fn block_rows(&self, coded: bool) -> usize {
        if coded {
            1
        } else {
            (ROW_BLOCK_BYTES / self.row_bytes()).max(1)
        }
    }

    /// Bytes of a row's code for a second look; 0 if the kind of codes has none.
    pub(crate) fn second_bytes(&self) -> usize {
        self.codes.second_bytes(self.padded())
    }

    /// Dimensions of a rotated vector.
    pub(crate) fn padded(&self) -> usize {
        self.dimension.next_multiple_of(64)
    }
}

/// The header of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Header {
    pub(crate) shape: Shape,
    /// Number that no other file of the store ever had.
    pub(crate) identity: u64,
}

impl Header {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let Shape { dimension, metric, element, codes, seed } = self.shape;
        let mut out = MAGIC.to_vec();
        out.extend_from_slice(&VERSION.to_le_bytes());
        out.extend_from_slice(&(dimension as u32).to_le_bytes());
        out.extend_from_slice(&[metric.tag(), element.tag(), codes.tag(), 0]);
        out.extend_from_slice(&seed.to_le_bytes());
        out.extend_from_slice(&self.identity.to_le_bytes());
        out.resize(HEADER, 0);
        out
    }

    /// Reads a header before its checksum is known to be right.
    pub(crate) fn decode(bytes: &[u8]) -> Result<Header, Malformed> {
        let mut input = ByteReader::new(bytes);
        if &input.array()? != MAGIC {
            return Err(Malformed("it does not begin as a run"));
        }
        if input.u32()? != VERSION {
            return Err(Malformed("another version of the format wrote it"));
        }
        let dimension = input.u32()? as usize;
        let [metric, element, codes, _] = input.array()?;
        let kinds = (Metric::from_tag(metric), Element::from_tag(element));
        let (Some(metric), Some(element)) = kinds else {
            return Err(Malformed("an unknown metric or element"));
        };
        let codes = CodeKind::from_tag(codes).ok_or(Malformed("an unknown kind of codes"))?;
        if !(1..=DIMENSION_MAX).contains(&dimension) {
            return Err(Malformed("the dimension is out of range"));
        }
        let (seed, identity) = (input.u64()?, input.u64()?);
        Ok(Header { shape: Shape { dimension, metric, element, codes, seed }, identity })
    }
}

/// The entry of a part in a directory block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PartEntry {
    pub(crate) group: GroupHash,
    /// Ids of the part's rows and tombstones lie between these.
    pub(crate) first_id: u64,
    pub(crate) last_id: u64,
    pub(crate) offset: u64,
    /// Length of the head with its checksum, and of the whole part.
    pub(crate) head_bytes: u32,
    pub(crate) bytes: u64,
    pub(crate) rows: u32,
    /// Rows and tombstones.
    pub(crate) entries: u32,
    /// True if rows of the group in older runs are gone.
    pub(crate) drops: bool,
}

const ENTRY: usize = 61;

/// Encodes a directory block.
pub(crate) fn encode_directory(entries: &[PartEntry]) -> Vec<u8> {
    let mut out = Vec::with_capacity(entries.len() * ENTRY);
    for entry in entries {
        out.extend_from_slice(&entry.group.to_le_bytes());
        out.extend_from_slice(&entry.first_id.to_le_bytes());
        out.extend_from_slice(&entry.last_id.to_le_bytes());
        out.extend_from_slice(&entry.offset.to_le_bytes());
        out.extend_from_slice(&entry.bytes.to_le_bytes());
        for number in [entry.head_bytes, entry.rows, entry.entries] {
            out.extend_from_slice(&number.to_le_bytes());
        }
        out.push(u8::from(entry.drops));
    }
    out
}

/// Decodes a directory block that lies at `end`; its parts lie before it, one after another.
pub(crate) fn decode_directory(bytes: &[u8], end: u64) -> Result<Vec<PartEntry>, Malformed> {
    let count = bytes.len() / ENTRY;
    if bytes.len() != count * ENTRY || count == 0 || count > DIRECTORY_PARTS {
        return Err(Malformed("a directory block of another length"));
    }
    let mut input = ByteReader::new(bytes);
    let mut entries: Vec<PartEntry> = Vec::with_capacity(count);
    for _ in 0..count {
        let (group, first_id, last_id) = (input.u128()?, input.u64()?, input.u64()?);
        let (offset, bytes) = (input.u64()?, input.u64()?);
        let (head_bytes, rows, all) = (input.u32()?, input.u32()?, input.u32()?);
        let drops = input.u8()? == 1;
        let entry = PartEntry {
            group,
            first_id,
            last_id,
            offset,
            head_bytes,
            bytes,
            rows,
            entries: all,
            drops,
        };
        let in_order = entries.last().is_none_or(|last| {
            (last.group, last.last_id) < (group, first_id)
                && last.offset.checked_add(last.bytes) == Some(offset)
        });
        if !in_order || rows > all || all as usize > PART_ROWS_MAX || first_id > last_id {
            return Err(Malformed("the parts of a directory block are out of order"));
        }
        if u64::from(head_bytes) > bytes {
            return Err(Malformed("a part is shorter than its head"));
        }
        entries.push(entry);
    }
    let last = entries.last().and_then(|last| last.offset.checked_add(last.bytes));
    if last != Some(end) {
        return Err(Malformed("the parts of a directory block do not end at it"));
    }
    Ok(entries)
}

/// A directory block, as memory knows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct DirectoryBlock {
    /// Group of its first part.
    pub(crate) first: GroupHash,
    pub(crate) offset: u64,
    pub(crate) bytes: u32,
}

/// What an open run keeps in memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Meta {
    pub(crate) rows: u64,
    pub(crate) tombstones: u64,
    pub(crate) groups: u64,
    pub(crate) directory: Vec<DirectoryBlock>,
    /// The filter of groups (presence.rs).
    pub(crate) presence: Vec<u8>,
}

impl Meta {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(40 + 28 * self.directory.len() + self.presence.len());
        for count in [self.rows, self.tombstones, self.groups] {
            out.extend_from_slice(&count.to_le_bytes());
        }
        out.extend_from_slice(&(self.directory.len() as u64).to_le_bytes());
        out.extend_from_slice(&(self.presence.len() as u64).to_le_bytes());
        for block in &self.directory {
            out.extend_from_slice(&block.first.to_le_bytes());
            out.extend_from_slice(&block.offset.to_le_bytes());
            out.extend_from_slice(&block.bytes.to_le_bytes());
        }
        out.extend_from_slice(&self.presence);
        out
    }

    pub(crate) fn decode(bytes: &[u8]) -> Result<Meta, Malformed> {
        let mut input = ByteReader::new(bytes);
        let (rows, tombstones, groups) = (input.u64()?, input.u64()?, input.u64()?);
        let (blocks, presence) = (input.u64()?, input.u64()?);
        let needed = blocks.checked_mul(28).and_then(|bytes| bytes.checked_add(presence));
        if needed != Some(input.left() as u64) {
            return Err(Malformed("meta is not as long as its counts say"));
        }
        // Merges make room for as many groups as their runs say that they have.
        let parts = blocks * DIRECTORY_PARTS as u64;
        let entries = parts * PART_ROWS_MAX as u64;
        if groups > parts || rows > entries || tombstones > entries {
            return Err(Malformed("more groups or rows than the directory has room for"));
        }
        let mut directory: Vec<DirectoryBlock> = Vec::with_capacity(blocks as usize);
        for _ in 0..blocks {
            let (first, offset, bytes) = (input.u128()?, input.u64()?, input.u32()?);
            let in_order =
                directory.last().is_none_or(|last| last.first <= first && last.offset < offset);
            if !in_order {
                return Err(Malformed("the directory blocks are out of order"));
            }
            directory.push(DirectoryBlock { first, offset, bytes });
        }
        let presence = input.bytes(presence as usize)?.to_vec();
        Ok(Meta { rows, tombstones, groups, directory, presence })
    }
}

/// The footer: the position of meta.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Footer {
    pub(crate) identity: u64,
    pub(crate) meta_offset: u64,
    /// With its checksum.
    pub(crate) meta_bytes: u64,
    pub(crate) file_bytes: u64,
}

impl Footer {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut out = FOOTER_MAGIC.to_vec();
        for word in [self.identity, self.meta_offset, self.meta_bytes, self.file_bytes] {
            out.extend_from_slice(&word.to_le_bytes());
        }
        out
    }

    pub(crate) fn decode(bytes: &[u8]) -> Result<Footer, Malformed> {
        let mut input = ByteReader::new(bytes);
        if &input.array()? != FOOTER_MAGIC {
            return Err(Malformed("it does not end as a run: torn, or not ours"));
        }
        let (identity, meta_offset) = (input.u64()?, input.u64()?);
        let (meta_bytes, file_bytes) = (input.u64()?, input.u64()?);
        Ok(Footer { identity, meta_offset, meta_bytes, file_bytes })
    }
}

#[cfg(test)]
mod tests {
    use super::{DirectoryBlock, Meta, DIRECTORY_PARTS, PART_ROWS_MAX};

    /// Counts that no directory has room for are refused with a right checksum too: merges take
    /// memory for that many groups.
    #[test]
    fn counts_of_meta_fit_its_directory() {
        let block = |at: u64| DirectoryBlock { first: at.into(), offset: 100 * at, bytes: 90 };
        for blocks in 0..4 {
            let parts = blocks * DIRECTORY_PARTS as u64;
            let entries = parts * PART_ROWS_MAX as u64;
            let directory: Vec<DirectoryBlock> = (0..blocks).map(block).collect();
            let meta = |rows, tombstones, groups| {
                let presence = vec![0xff; 8];
                Meta { rows, tombstones, groups, directory: directory.clone(), presence }
            };
            let whole = meta(entries, entries, parts);
            assert_eq!(Meta::decode(&whole.encode()).unwrap(), whole);
            for more in [1, 1 << 40, u64::MAX - entries] {
                for bad in [
                    meta(entries + more, 0, 0),
                    meta(0, entries + more, 0),
                    meta(0, 0, parts + more.min(u64::MAX - parts)),
                ] {
                    assert!(Meta::decode(&bad.encode()).is_err(), "{bad:?}");
                }
            }
        }
    }

    /// The same for the counts of the lengths that follow.
    #[test]
    fn lengths_of_meta_are_those_of_its_bytes() {
        let meta = Meta { rows: 0, tombstones: 0, groups: 0, directory: vec![], presence: vec![1] };
        let bytes = meta.encode();
        for at in [24, 32] {
            for count in [2, 1 << 33, u64::MAX / 28, u64::MAX] {
                let mut bad = bytes.clone();
                bad[at..at + 8].copy_from_slice(&u64::to_le_bytes(count));
                assert!(Meta::decode(&bad).is_err(), "{count} at {at}");
            }
        }
    }
}
