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
//!   5 delete of a row that is not there, which is remembered
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

/// Bytes of the shortest record.
pub(super) const RECORD_BYTES_MIN: usize = 24;

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
    let values = update.set.bytes();
    let (payload, new) = match update.payload {
        PayloadChange::Keep => (0, None),
        PayloadChange::Set(payload) => (1, Some(payload)),
        PayloadChange::Remove => (2, None),
    };
    let (short, bytes) = (update.unset.len() as u16, values.len() as u32);
    Head { payload, short, bytes, ..Head::of(UPDATE, id, version) }.put(out);
    out.extend_from_slice(values);
    update.unset.iter().for_each(|column| out.extend_from_slice(&column.to_le_bytes()));
    if let Some(new) = new {
        out.extend_from_slice(&(new.len() as u32).to_le_bytes());
        out.extend_from_slice(new);
    }
}

impl Record<'_> {
    /// Reads the next record of `input`; `None` if the bytes are no possible record.
    pub(crate) fn take<'a>(input: &mut ByteReader<'a>, vector_bytes: usize) -> Option<Record<'a>> {
        let [kind, payload] = input.array().ok()?;
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
    let set = Attributes::decode(input.bytes(head.bytes as usize).ok()?).ok()?;
    let columns = usize::from(head.short);
    if columns > ATTRIBUTES_MAX {
        return None;
    }
    let unset = input.bytes(2 * columns).ok()?;
    let payload = match head.payload {
        0 => PayloadChange::Keep,
        1 => {
            let bytes = input.u32().ok()? as usize;
            if bytes > PAYLOAD_BYTES_MAX {
                return None;
            }
            PayloadChange::Set(input.bytes(bytes).ok()?)
        }
        2 => PayloadChange::Remove,
        _ => return None,
    };
    Some(Record::Update { id: head.id, version: head.version, set, unset, payload })
}

#[cfg(test)]
mod tests;
