//! The bytes of a log. Little-endian throughout.
//!
//! ```text
//! log-N    header 64 B: magic "VSTRWLOG" | u32 format | u32 0 | u64 collection | u64 number N
//!                       | u64 LSN of its first record | 16 B 0 | u64 XXH3-64 of all before
//!          groups, one after the other
//! group    header 64 B: magic "VGRP" | u32 bytes of the records | u64 LSN of the first record
//!                       | u32 records | u32 0 | u64 LSN that was on the disk when it was written
//!                       | u64 living rows after it | u128 digest after it
//!                       | u64 checksum of the group before, or of the log's header
//!          records
//!          u64 checksum: as of a block, at (file of the log, offset of the group, format)
//! record   u8 kind: 1 upsert, 2 delete | u8 0 | u16 shard | u32 0 | u64 id | u64 version
//!          upsert: u64 code | the vector as it is stored
//! ```

use vstream_index::{RowKey, VectorRef};
use vstream_store::blocks::{self, BlockAddress};
use xxhash_rust::xxh3::xxh3_64;

use super::state::State;
use crate::words::{u128_at, u32_at, u64_at};

pub(super) const FORMAT: u32 = 1;
pub(super) const LOG_MAGIC: &[u8; 8] = b"VSTRWLOG";
pub(super) const GROUP_MAGIC: &[u8; 4] = b"VGRP";
pub(super) const HEADER: usize = 64;
pub(super) const GROUP_HEADER: usize = 64;
pub(super) const CHECKSUM: usize = blocks::CHECKSUM_BYTES;
/// Records of one group at most: a group is closed at 1 MiB, after one more record.
pub(super) const RECORDS_BYTES_MAX: usize = 2 << 20;

const UPSERT: u8 = 1;
const DELETE: u8 = 2;
const UPSERT_HEADER: usize = 32;
const DELETE_BYTES: usize = 24;

/// A log among all that there ever were.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct LogIdentity {
    pub(super) collection: u64,
    pub(super) number: u64,
}

impl LogIdentity {
    /// Where the group at `offset` belongs.
    pub(super) fn place(self, offset: u64) -> BlockAddress {
        let mut bytes = [0u8; 16];
        bytes[..8].copy_from_slice(&self.collection.to_le_bytes());
        bytes[8..].copy_from_slice(&self.number.to_le_bytes());
        BlockAddress { file: xxh3_64(&bytes), number: offset, version: FORMAT }
    }
}

/// The header of a log, and its checksum, with which the chain of groups begins.
pub(super) fn encode_header(log: LogIdentity, first_lsn: u64) -> ([u8; HEADER], u64) {
    let mut header = [0u8; HEADER];
    header[..8].copy_from_slice(LOG_MAGIC);
    header[8..12].copy_from_slice(&FORMAT.to_le_bytes());
    header[16..24].copy_from_slice(&log.collection.to_le_bytes());
    header[24..32].copy_from_slice(&log.number.to_le_bytes());
    header[32..40].copy_from_slice(&first_lsn.to_le_bytes());
    let checksum = xxh3_64(&header[..56]);
    header[56..].copy_from_slice(&checksum.to_le_bytes());
    (header, checksum)
}

/// Records that are written together, or not at all.
pub(crate) struct Group {
    /// Room for the header, then records.
    bytes: Vec<u8>,
    records: u32,
    first_lsn: u64,
    after: State,
}

impl Group {
    /// An empty group that follows `state`.
    pub(super) fn after(state: State) -> Group {
        let bytes = vec![0; GROUP_HEADER];
        Group { bytes, records: 0, first_lsn: state.lsn + 1, after: state }
    }

    pub(super) fn bytes(&self) -> usize {
        self.bytes.len() + CHECKSUM
    }

    pub(super) fn records(&self) -> u32 {
        self.records
    }

    pub(super) fn last_lsn(&self) -> u64 {
        self.after.lsn
    }

    pub(super) fn push_upsert(&mut self, key: &RowKey, vector: VectorRef<'_>, after: State) {
        self.push_head(UPSERT, key.shard, key.id, key.version, after);
        self.bytes.extend_from_slice(&key.code.to_le_bytes());
        vector.put(&mut self.bytes);
    }

    pub(super) fn push_delete(&mut self, id: u64, version: u64, after: State) {
        self.push_head(DELETE, 0, id, version, after);
    }

    fn push_head(&mut self, kind: u8, shard: u16, id: u64, version: u64, after: State) {
        self.bytes.extend_from_slice(&[kind, 0]);
        self.bytes.extend_from_slice(&shard.to_le_bytes());
        self.bytes.extend_from_slice(&[0; 4]);
        self.bytes.extend_from_slice(&id.to_le_bytes());
        self.bytes.extend_from_slice(&version.to_le_bytes());
        self.records += 1;
        self.after = after;
    }

    /// Adds the sealed group to `out`, where it will lie at `offset`; returns its checksum.
    pub(super) fn seal(
        &mut self,
        place: BlockAddress,
        synced_lsn: u64,
        previous: u64,
        out: &mut Vec<u8>,
    ) -> u64 {
        let records_bytes = (self.bytes.len() - GROUP_HEADER) as u32;
        let header = &mut self.bytes[..GROUP_HEADER];
        header[..4].copy_from_slice(GROUP_MAGIC);
        header[4..8].copy_from_slice(&records_bytes.to_le_bytes());
        header[8..16].copy_from_slice(&self.first_lsn.to_le_bytes());
        header[16..20].copy_from_slice(&self.records.to_le_bytes());
        header[24..32].copy_from_slice(&synced_lsn.to_le_bytes());
        header[32..40].copy_from_slice(&self.after.live.to_le_bytes());
        header[40..56].copy_from_slice(&self.after.digest.to_le_bytes());
        header[56..].copy_from_slice(&previous.to_le_bytes());
        let checksum = blocks::checksum(place, &self.bytes);
        out.extend_from_slice(&self.bytes);
        out.extend_from_slice(&checksum.to_le_bytes());
        checksum
    }
}

/// The header of a group as it was read.
#[derive(Clone, Copy, Debug)]
pub(super) struct GroupHeader {
    pub(super) records_bytes: usize,
    pub(super) first_lsn: u64,
    pub(super) records: u32,
    pub(super) synced_lsn: u64,
    pub(super) live: u64,
    pub(super) digest: u128,
    pub(super) previous: u64,
}

impl GroupHeader {
    /// Nothing if this is not the header of a group that could be.
    pub(super) fn decode(header: &[u8]) -> Option<GroupHeader> {
        let records_bytes = u32_at(header, 4) as usize;
        let records = u32_at(header, 16);
        let possible = &header[..4] == GROUP_MAGIC
            && header[20..24] == [0; 4]
            && records_bytes <= RECORDS_BYTES_MAX
            && (1..=records_bytes / DELETE_BYTES).contains(&(records as usize));
        possible.then(|| GroupHeader {
            records_bytes,
            first_lsn: u64_at(header, 8),
            records,
            synced_lsn: u64_at(header, 24),
            live: u64_at(header, 32),
            digest: u128_at(header, 40),
            previous: u64_at(header, 56),
        })
    }

    /// Length of the group with header and checksum.
    pub(super) fn bytes(&self) -> usize {
        GROUP_HEADER + self.records_bytes + CHECKSUM
    }
}

/// A record as it was read.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Record<'a> {
    Upsert { key: RowKey, vector: &'a [u8] },
    Delete { id: u64, version: u64 },
}

impl Record<'_> {
    /// Takes the first record off `bytes`; nothing if there is none that could be.
    pub(super) fn take<'a>(bytes: &mut &'a [u8], vector_bytes: usize) -> Option<Record<'a>> {
        let upsert = match *bytes.first()? {
            UPSERT => true,
            DELETE => false,
            _ => return None,
        };
        let length = if upsert { UPSERT_HEADER + vector_bytes } else { DELETE_BYTES };
        let (record, rest) = bytes.split_at_checked(length)?;
        let (id, version) = (u64_at(record, 8), u64_at(record, 16));
        if record[1] != 0 || record[4..8] != [0; 4] || (!upsert && record[2..4] != [0; 2]) {
            return None;
        }
        *bytes = rest;
        if !upsert {
            return Some(Record::Delete { id, version });
        }
        let shard = u16::from_le_bytes([record[2], record[3]]);
        let key = RowKey { id, version, code: u64_at(record, 24), shard };
        Some(Record::Upsert { key, vector: &record[UPSERT_HEADER..] })
    }
}
