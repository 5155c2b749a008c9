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
//! record   see `record.rs`
//! ```

use vstream_index::IndexRow;
use vstream_store::blocks::{self, BlockAddress};
use vstream_vector::cursor::{ByteReader, Truncated};
use xxhash_rust::xxh3::xxh3_64;

use super::record::{put_delete, put_update, put_upsert, RECORD_BYTES_MIN};
use super::state::State;
use crate::row::Update;

pub(crate) const FORMAT: u32 = 1;
pub(crate) const LOG_MAGIC: &[u8; 8] = b"VSTRWLOG";
pub(crate) const GROUP_MAGIC: &[u8; 4] = b"VGRP";
pub(crate) const HEADER: usize = 64;
pub(crate) const GROUP_HEADER: usize = 64;
pub(crate) const CHECKSUM: usize = blocks::CHECKSUM_BYTES;
/// Most bytes of the records of one group: a group is closed at 1 MiB, and before a record that
/// would not fit. The longest record has some 1.1 MiB.
pub(crate) const RECORDS_BYTES_MAX: usize = 2 << 20;

/// Identifies one log among all logs of all collections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LogIdentity {
    pub(crate) collection: u64,
    pub(crate) number: u64,
}

impl LogIdentity {
    /// Returns the address of the group at `offset`, which its checksum covers.
    pub(crate) fn address(self, offset: u64) -> BlockAddress {
        let mut bytes = [0u8; 16];
        bytes[..8].copy_from_slice(&self.collection.to_le_bytes());
        bytes[8..].copy_from_slice(&self.number.to_le_bytes());
        BlockAddress { file: xxh3_64(&bytes), number: offset, version: FORMAT }
    }
}

/// Returns the header of a log, and its checksum, which begins the chain of groups.
pub(crate) fn encode_header(log: LogIdentity, first_lsn: u64) -> ([u8; HEADER], u64) {
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

/// The fields of a log's header that do not follow from the log's identity.
pub(crate) struct LogHeader {
    pub(crate) first_lsn: u64,
}

impl LogHeader {
    /// Reads the header of a log. Errors: `bytes` are fewer than [`HEADER`].
    pub(crate) fn decode(bytes: &[u8]) -> Result<LogHeader, Truncated> {
        let mut input = ByteReader::new(bytes).split(HEADER)?;
        input.skip(LOG_MAGIC.len() + 4 + 4 + 8 + 8)?;
        Ok(LogHeader { first_lsn: input.u64()? })
    }
}

/// Records that are written together or not at all.
pub(crate) struct Group {
    /// Space for the header, then the records.
    bytes: Vec<u8>,
    records: u32,
    first_lsn: u64,
    after: State,
}

impl Group {
    /// Returns an empty group that follows `state`.
    pub(crate) fn after(state: State) -> Group {
        let bytes = vec![0; GROUP_HEADER];
        Group { bytes, records: 0, first_lsn: state.lsn + 1, after: state }
    }

    pub(crate) fn bytes(&self) -> usize {
        self.bytes.len() + CHECKSUM
    }

    pub(crate) fn records(&self) -> u32 {
        self.records
    }

    pub(crate) fn last_lsn(&self) -> u64 {
        self.after.lsn
    }

    /// True if a record of this many bytes fits beside those of the group.
    pub(crate) fn fits(&self, record_bytes: usize) -> bool {
        self.bytes.len() - GROUP_HEADER + record_bytes <= RECORDS_BYTES_MAX
    }

    pub(crate) fn push_upsert(&mut self, row: &IndexRow<'_>, after: State) {
        put_upsert(row, &mut self.bytes);
        self.note(after);
    }

    pub(crate) fn push_update(&mut self, id: u64, version: u64, update: &Update<'_>, after: State) {
        put_update(id, version, update, &mut self.bytes);
        self.note(after);
    }

    /// * `is_there`: whether the engine has the row; otherwise the delete is only remembered.
    pub(crate) fn push_delete(&mut self, id: u64, version: u64, is_there: bool, after: State) {
        put_delete(id, version, is_there, &mut self.bytes);
        self.note(after);
    }

    fn note(&mut self, after: State) {
        self.records += 1;
        self.after = after;
    }

    /// Fills in the header, and appends the group and its checksum to `out`. `address` is where the
    /// group will be; `previous` is the checksum of the group before. Returns the checksum.
    pub(crate) fn seal(
        &mut self,
        address: BlockAddress,
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
        let checksum = blocks::checksum(address, &self.bytes);
        out.extend_from_slice(&self.bytes);
        out.extend_from_slice(&checksum.to_le_bytes());
        checksum
    }
}

/// The header of a group.
#[derive(Clone, Copy, Debug)]
pub(crate) struct GroupHeader {
    pub(crate) records_bytes: usize,
    pub(crate) first_lsn: u64,
    pub(crate) records: u32,
    pub(crate) synced_lsn: u64,
    pub(crate) live: u64,
    pub(crate) digest: u128,
    pub(crate) previous: u64,
}

impl GroupHeader {
    /// Reads the header of a group; `None` if no group can have this header.
    pub(crate) fn decode(header: &[u8]) -> Option<GroupHeader> {
        let mut input = ByteReader::new(header);
        let magic = input.array().ok()?;
        let records_bytes = input.u32().ok()? as usize;
        let first_lsn = input.u64().ok()?;
        let records = input.u32().ok()?;
        let reserved = input.u32().ok()?;
        let possible = &magic == GROUP_MAGIC
            && reserved == 0
            && records_bytes <= RECORDS_BYTES_MAX
            && (1..=records_bytes / RECORD_BYTES_MIN).contains(&(records as usize));
        if !possible {
            return None;
        }
        Some(GroupHeader {
            records_bytes,
            first_lsn,
            records,
            synced_lsn: input.u64().ok()?,
            live: input.u64().ok()?,
            digest: input.u128().ok()?,
            previous: input.u64().ok()?,
        })
    }

    /// Returns the length of the group with header and checksum.
    pub(crate) fn bytes(&self) -> usize {
        GROUP_HEADER + self.records_bytes + CHECKSUM
    }
}
