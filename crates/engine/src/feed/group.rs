//! A group of a log as it travels: its header and its records as in the log (`wal/format.rs`), then a
//! u64 XXH3-64 of both. The checksum in the log is bound to a place there; this one is not.

use std::path::Path;

use xxhash_rust::xxh3::xxh3_64;

use crate::error::Error;
use crate::records::checked;
use crate::wal::{GroupHeader, CHECKSUM, GROUP_HEADER};

/// Makes a group of a log ready to travel.
///
/// * `group`: whole, with the checksum that it has in the log.
pub(super) fn seal(group: &[u8]) -> Vec<u8> {
    let mut out = group[..group.len() - CHECKSUM].to_vec();
    let checksum = xxh3_64(&out);
    out.extend_from_slice(&checksum.to_le_bytes());
    out
}

/// Header and records of a group that travelled. Errors: `Corrupt`.
pub(super) fn unseal(group: &[u8]) -> Result<(GroupHeader, &[u8]), Error> {
    let header = checked(group).filter(|body| body.len() >= GROUP_HEADER).and_then(|body| {
        let (header, records) = body.split_at(GROUP_HEADER);
        let header = GroupHeader::decode(header)?;
        (header.records_bytes == records.len()).then_some((header, records))
    });
    header.ok_or_else(|| corrupt("its bytes are not those that were sent"))
}

/// An error about a group that was received.
pub(super) fn corrupt(what: &str) -> Error {
    Error::corrupt(Path::new("a group of the writer"), what)
}
