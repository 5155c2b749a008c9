//! The file of remembered deletes. Little-endian.
//!
//! ```text
//! deletes-N  header 40 B: magic "VSTRGONE" | u32 format | u32 0 | u64 collection | u64 number N
//!                         | u64 deletes
//!            deletes, 24 B each, the oldest first: u64 id | u64 version
//!            | u64 when it was made, in milliseconds since 1970-01-01 UTC
//!            u64 XXH3-64 of all before
//! ```

use std::path::Path;

use vstream_store::{Access, Range, Store};
use vstream_vector::cursor::{ByteReader, Truncated};
use xxhash_rust::xxh3::xxh3_64;

use crate::error::Error;
use crate::layout::remembered_name;
use crate::records::checked;
use crate::remembered::RememberedDelete;
use crate::settings::DELETES_REMEMBERED_MAX;

const MAGIC: &[u8; 8] = b"VSTRGONE";
const FORMAT: u32 = 1;
const HEADER: usize = 40;
const ENTRY: usize = 24;

/// Writes `deletes` as file `number`; returns its length.
pub(crate) fn write_remembered(
    store: &dyn Store,
    (collection, number): (u64, u64),
    deletes: &[RememberedDelete],
) -> Result<u64, Error> {
    let mut out = Vec::with_capacity(HEADER + deletes.len() * ENTRY + 8);
    out.extend_from_slice(MAGIC);
    out.extend_from_slice(&FORMAT.to_le_bytes());
    out.extend_from_slice(&[0; 4]);
    for word in [collection, number, deletes.len() as u64] {
        out.extend_from_slice(&word.to_le_bytes());
    }
    for delete in deletes {
        for word in [delete.id, delete.version, delete.at_ms] {
            out.extend_from_slice(&word.to_le_bytes());
        }
    }
    out.extend_from_slice(&xxh3_64(&out).to_le_bytes());
    let name = remembered_name(number);
    // A failed attempt may have left a file of this name; no manifest names it.
    store.delete(&name)?;
    store.put(&name, &out)?;
    Ok(out.len() as u64)
}

/// Reads file `number`. Errors: `Corrupt`, `Io`.
pub(crate) fn read_remembered(
    store: &dyn Store,
    (collection, number): (u64, u64),
) -> Result<Vec<RememberedDelete>, Error> {
    let file = store.open(&remembered_name(number), Access::Cached)?;
    let corrupt = |what: &str| Error::corrupt(Path::new(file.name()), what);
    let bytes_max = HEADER + DELETES_REMEMBERED_MAX * ENTRY + 8;
    if !((HEADER + 8) as u64..=bytes_max as u64).contains(&file.bytes()) {
        return Err(corrupt("too short or too long for remembered deletes"));
    }
    let bytes = file.read(Range { offset: 0, bytes: file.bytes() as usize })?;
    let body = checked(&bytes)
        .ok_or_else(|| corrupt("the checksum at its end does not match its content"))?;
    let mut input = ByteReader::new(body);
    let truncated = |at| Error::truncated(Path::new(file.name()), at);
    let count = take_header(&mut input, [collection, number]).map_err(truncated)?;
    let count = count.filter(|&count| input.left() as u64 == count.saturating_mul(ENTRY as u64));
    let Some(count) = count else {
        return Err(corrupt("these are not the remembered deletes that the manifest names"));
    };
    let entry = |input: &mut ByteReader<'_>| -> Result<RememberedDelete, Truncated> {
        Ok(RememberedDelete { id: input.u64()?, version: input.u64()?, at_ms: input.u64()? })
    };
    (0..count).map(|_| entry(&mut input).map_err(truncated)).collect()
}

/// Number of deletes; `None` if this is the header of another file.
fn take_header(input: &mut ByteReader<'_>, expected: [u64; 2]) -> Result<Option<u64>, Truncated> {
    let mut same = &input.array()? == MAGIC && input.u32()? == FORMAT && input.u32()? == 0;
    for word in expected {
        same &= input.u64()? == word;
    }
    let count = input.u64()?;
    Ok(same.then_some(count))
}
