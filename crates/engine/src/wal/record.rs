//! The records of a log: one write each. Little-endian.
//!
//! ```text
//! record   u8 kind | u8 payload | u16 shard or columns | u32 bytes | u64 id | u64 version
//!   1 upsert of a plain row: shard; u64 code | the vector as it is stored
//!   2 delete of a row that is there
//!   3 upsert of a row with fields: shard; u64 code | the vector as it is stored
//!     | the fields, as in `field_bytes.rs`
//!   4 update of a row that is there: what becomes of the payload, 0 kept, 1 set, 2 removed; columns
//!     whose values go; bytes of the values that are set; then the values, as in `vstream_attribute`
//!     | a u16 per column that goes | with payload 1: u32 bytes of the payload, payload
//!     Read, and no longer written.
//!   5 delete of a row that is not there, which is remembered
//!
//! 6 update of a row that is there:
//!     u8 6 | u8 bytes of the id - 1 | bytes of the version - 1 << 3 | payload << 6, as in 4
//!     | n bytes of the values that are set | n columns whose values go | id | version
//!     | the values | a u16 per column that goes | with payload 1: n bytes of the payload, payload
//!   n: 7 bits per byte, the lowest first, with bit 7 in all but the last; n, id and version in as few
//!      bytes as they need
//! ```
//!
//! What a kind does not name is zero. An update holds only what it changes.

use vstream_attribute::{Attributes, Fields, ATTRIBUTES_MAX, PAYLOAD_BYTES_MAX};
use vstream_index::{IndexRow, RowKey};
use vstream_vector::cursor::ByteReader;

use crate::field_bytes;
use crate::row::{PayloadChange, Update};

const UPSERT: u8 = 1;
const DELETE: u8 = 2;
const UPSERT_FIELDS: u8 = 3;
const UPDATE: u8 = 4;
const REMEMBER: u8 = 5;
const SHORT_UPDATE: u8 = 6;

/// Bytes of the shortest record: an update with an id and a version below 256, which changes nothing.
pub(super) const RECORD_BYTES_MIN: usize = 6;

/// Most bytes of a number of bytes or columns.
const COUNT_BYTES_MAX: usize = 4;

/// A record in the bytes of a log.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Record<'a> {
    Upsert {
        key: RowKey,
        vector: &'a [u8],
        fields: Fields<'a>,
    },
    Delete {
        id: u64,
        version: u64,
    },
    Update {
        id: u64,
        version: u64,
        set: Attributes<'a>,
        /// Columns whose values go, two bytes each.
        unset: &'a [u8],
        payload: PayloadChange<'a>,
    },
    Remember {
        id: u64,
        version: u64,
    },
}

/// The part that begins every record.
struct Head {
    kind: u8,
    payload: u8,
    short: u16,
    bytes: u32,
    id: u64,
    version: u64,
}

impl Head {
    fn of(kind: u8, id: u64, version: u64) -> Head {
        Head { kind, payload: 0, short: 0, bytes: 0, id, version }
    }

    fn put(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&[self.kind, self.payload]);
        out.extend_from_slice(&self.short.to_le_bytes());
        out.extend_from_slice(&self.bytes.to_le_bytes());
        out.extend_from_slice(&self.id.to_le_bytes());
        out.extend_from_slice(&self.version.to_le_bytes());
    }
}

/// Appends the upsert of a row.
pub(super) fn put_upsert(row: &IndexRow<'_>, out: &mut Vec<u8>) {
    let IndexRow { key, vector, fields } = row;
    let kind = if fields.is_empty() { UPSERT } else { UPSERT_FIELDS };
    Head { short: key.shard, ..Head::of(kind, key.id, key.version) }.put(out);
    out.extend_from_slice(&key.code.to_le_bytes());
    vector.put(out);
    if kind == UPSERT_FIELDS {
        field_bytes::put(fields, out);
    }
}

/// Appends the delete of a row; `is_there`: whether the engine has the row.
pub(super) fn put_delete(id: u64, version: u64, is_there: bool, out: &mut Vec<u8>) {
    Head::of(if is_there { DELETE } else { REMEMBER }, id, version).put(out);
}

/// Appends the update of a row.
pub(super) fn put_update(id: u64, version: u64, update: &Update<'_>, out: &mut Vec<u8>) {
    let (payload, new) = match update.payload {
        PayloadChange::Keep => (0, None),
        PayloadChange::Set(payload) => (1, Some(payload)),
        PayloadChange::Remove => (2, None),
    };
    let (id_bytes, version_bytes) = (bytes_of(id), bytes_of(version));
    let lengths = (id_bytes - 1) | (version_bytes - 1) << 3 | payload << 6;
    out.extend_from_slice(&[SHORT_UPDATE, lengths as u8]);
    put_count(update.set.bytes().len(), out);
    put_count(update.unset.len(), out);
    out.extend_from_slice(&id.to_le_bytes()[..id_bytes]);
    out.extend_from_slice(&version.to_le_bytes()[..version_bytes]);
    out.extend_from_slice(update.set.bytes());
    update.unset.iter().for_each(|column| out.extend_from_slice(&column.to_le_bytes()));
    if let Some(new) = new {
        put_count(new.len(), out);
        out.extend_from_slice(new);
    }
}

/// Bytes that a number needs, 1 to 8.
fn bytes_of(number: u64) -> usize {
    (u64::BITS - number.leading_zeros()).div_ceil(8).max(1) as usize
}

/// Reads a number of so many bytes; `None` if it needs fewer.
fn take_number(input: &mut ByteReader<'_>, bytes: usize) -> Option<u64> {
    let mut number = [0; size_of::<u64>()];
    number[..bytes].copy_from_slice(input.bytes(bytes).ok()?);
    Some(u64::from_le_bytes(number)).filter(|&number| bytes_of(number) == bytes)
}

fn put_count(mut count: usize, out: &mut Vec<u8>) {
    while count >= 0x80 {
        out.push(count as u8 | 0x80);
        count >>= 7;
    }
    out.push(count as u8);
}

/// Reads a count; `None` if it is too large, or has more bytes than it needs.
fn take_count(input: &mut ByteReader<'_>) -> Option<usize> {
    let mut count = 0;
    for at in 0..COUNT_BYTES_MAX {
        let byte = input.u8().ok()?;
        count |= usize::from(byte & 0x7f) << (7 * at);
        if byte & 0x80 == 0 {
            return (at == 0 || byte != 0).then_some(count);
        }
    }
    None
}

impl Record<'_> {
    /// Reads the next record of `input`; `None` if the bytes are no possible record.
    pub(crate) fn take<'a>(input: &mut ByteReader<'a>, vector_bytes: usize) -> Option<Record<'a>> {
        let [kind, payload] = input.array().ok()?;
        if kind == SHORT_UPDATE {
            return take_short_update(payload, input);
        }
        let (short, bytes) = (input.u16().ok()?, input.u32().ok()?);
        let (id, version) = (input.u64().ok()?, input.u64().ok()?);
        let head = Head { kind, payload, short, bytes, id, version };
        if kind == UPDATE {
            return take_update(&head, input);
        }
        if payload != 0 || bytes != 0 {
            return None;
        }
        match kind {
            UPSERT | UPSERT_FIELDS => {
                let key = RowKey { id, version, code: input.u64().ok()?, shard: short };
                let vector = input.bytes(vector_bytes).ok()?;
                let fields = match kind {
                    UPSERT => Fields::NONE,
                    _ => field_bytes::take(input).filter(|fields| !fields.is_empty())?,
                };
                Some(Record::Upsert { key, vector, fields })
            }
            DELETE if short == 0 => Some(Record::Delete { id, version }),
            REMEMBER if short == 0 => Some(Record::Remember { id, version }),
            _ => None,
        }
    }
}

fn take_update<'a>(head: &Head, input: &mut ByteReader<'a>) -> Option<Record<'a>> {
    let (set, unset) = take_change(input, head.bytes as usize, usize::from(head.short))?;
    let payload = take_payload(head.payload, input, |input| Some(input.u32().ok()? as usize))?;
    Some(Record::Update { id: head.id, version: head.version, set, unset, payload })
}

fn take_short_update<'a>(lengths: u8, input: &mut ByteReader<'a>) -> Option<Record<'a>> {
    let (values, columns) = (take_count(input)?, take_count(input)?);
    let id = take_number(input, usize::from(lengths & 7) + 1)?;
    let version = take_number(input, usize::from(lengths >> 3 & 7) + 1)?;
    let (set, unset) = take_change(input, values, columns)?;
    let payload = take_payload(lengths >> 6, input, take_count)?;
    Some(Record::Update { id, version, set, unset, payload })
}

/// Reads the values that are set, and the columns whose values go.
fn take_change<'a>(
    input: &mut ByteReader<'a>,
    values: usize,
    columns: usize,
) -> Option<(Attributes<'a>, &'a [u8])> {
    let set = Attributes::decode(input.bytes(values).ok()?).ok()?;
    if columns > ATTRIBUTES_MAX {
        return None;
    }
    Some((set, input.bytes(2 * columns).ok()?))
}

fn take_payload<'a>(
    what: u8,
    input: &mut ByteReader<'a>,
    take_bytes: impl FnOnce(&mut ByteReader<'a>) -> Option<usize>,
) -> Option<PayloadChange<'a>> {
    match what {
        0 => Some(PayloadChange::Keep),
        1 => {
            let bytes = take_bytes(input).filter(|&bytes| bytes <= PAYLOAD_BYTES_MAX)?;
            Some(PayloadChange::Set(input.bytes(bytes).ok()?))
        }
        2 => Some(PayloadChange::Remove),
        _ => None,
    }
}

#[cfg(test)]
mod tests;
