//! The bytes of what a row carries beside its vector, in logs and in files of rows.
//!
//! ```text
//! u16 bytes of the name | u16 1 with a payload, else 0 | u32 bytes of the attributes
//! | u32 bytes of the payload | u64 check | name | attributes | payload
//! ```
//!
//! Little-endian. The attributes are those of `vstream_attribute`.

use vstream_attribute::{
    Attributes, Fields, ATTRIBUTES_BYTES_MAX, PAYLOAD_BYTES_MAX, STRING_ID_BYTES_MAX,
};
use vstream_vector::cursor::ByteReader;

/// Bytes before the name.
const HEAD: usize = 20;
/// Most bytes of the fields of a row.
pub(crate) const FIELDS_BYTES_MAX: usize =
    HEAD + STRING_ID_BYTES_MAX + ATTRIBUTES_BYTES_MAX + PAYLOAD_BYTES_MAX;

/// Bytes of these fields. Fields that were checked take at most [`FIELDS_BYTES_MAX`].
pub(crate) fn bytes_of(fields: &Fields<'_>) -> usize {
    HEAD + carried(fields)
}

/// Bytes of the texts, values and payload alone.
pub(crate) fn carried(fields: &Fields<'_>) -> usize {
    fields.name.len() + fields.attributes.bytes().len() + fields.payload.map_or(0, <[u8]>::len)
}

/// Appends the fields of a row, which were checked.
pub(crate) fn put(fields: &Fields<'_>, out: &mut Vec<u8>) {
    let attributes = fields.attributes.bytes();
    let payload = fields.payload.unwrap_or(&[]);
    out.extend_from_slice(&(fields.name.len() as u16).to_le_bytes());
    out.extend_from_slice(&u16::from(fields.payload.is_some()).to_le_bytes());
    out.extend_from_slice(&(attributes.len() as u32).to_le_bytes());
    out.extend_from_slice(&(payload.len() as u32).to_le_bytes());
    out.extend_from_slice(&fields.check.to_le_bytes());
    out.extend_from_slice(fields.name.as_bytes());
    out.extend_from_slice(attributes);
    out.extend_from_slice(payload);
}

/// Reads the next fields of `input`; `None` if the bytes are those of no fields.
pub(crate) fn take<'a>(input: &mut ByteReader<'a>) -> Option<Fields<'a>> {
    let name = usize::from(input.u16().ok()?);
    let has_payload = match input.u16().ok()? {
        0 => false,
        1 => true,
        _ => return None,
    };
    let (attributes, payload) = (input.u32().ok()? as usize, input.u32().ok()? as usize);
    let check = input.u64().ok()?;
    let possible = name <= STRING_ID_BYTES_MAX
        && payload <= PAYLOAD_BYTES_MAX
        && (has_payload || payload == 0)
        && (name > 0 || check == 0);
    if !possible {
        return None;
    }
    let name = std::str::from_utf8(input.bytes(name).ok()?).ok()?;
    let attributes = Attributes::decode(input.bytes(attributes).ok()?).ok()?;
    let payload = input.bytes(payload).ok()?;
    Some(Fields { name, check, attributes, payload: has_payload.then_some(payload) })
}

#[cfg(test)]
mod tests;
