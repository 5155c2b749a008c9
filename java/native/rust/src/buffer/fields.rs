//! `fields` blocks: what a row carries beside key and vector, and what an update changes of it.

use vstream_attribute::{
    Attributes, Fields, ATTRIBUTES_BYTES_MAX, PAYLOAD_BYTES_MAX, STRING_ID_BYTES_MAX,
};

use vstream_group::GROUP_BYTES_MAX;

use super::{take, take_text, u32_at, u64_at, ALIGNMENT};
use crate::failure::Failure;

const HEADER: usize = 32;

const HAS_PAYLOAD: u16 = 1;
const REMOVES_PAYLOAD: u16 = 2;
const LEFT_OUT: u16 = 4;

/// A block that was read. It borrows the buffer.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct FieldsBlock<'a> {
    /// Name, attributes and payload of a row; of an update what it sets.
    pub(crate) fields: Fields<'a>,
    /// The group of the row; empty where rows have none.
    pub(crate) group: &'a str,
    /// Columns that an update unsets, two bytes each.
    unset: &'a [u8],
    /// True if an update removes the payload.
    pub(crate) removes_payload: bool,
}

impl<'a> FieldsBlock<'a> {
    /// Reads a block at the start of `bytes` and steps behind it. Errors: `Invalid` for lengths
    /// that do not fit, attributes that are none, or a name that is no UTF-8.
    pub(crate) fn take(bytes: &mut &'a [u8]) -> Result<FieldsBlock<'a>, Failure> {
        let mut header = *bytes;
        let header = take(&mut header, HEADER)?;
        let length = u32_at(header, 0) as usize;
        let flags = u16::from_le_bytes([header[4], header[5]]);
        let columns = usize::from(u16::from_le_bytes([header[6], header[7]]));
        let [name, attributes, payload, group] =
            [16, 20, 24, 28].map(|at| u32_at(header, at) as usize);
        let within = name <= STRING_ID_BYTES_MAX
            && attributes <= ATTRIBUTES_BYTES_MAX
            && payload <= PAYLOAD_BYTES_MAX
            && group <= GROUP_BYTES_MAX;
        // The limits keep the sum small.
        let fits = within
            && length
                == (HEADER + name + attributes + payload + 2 * columns + group)
                    .next_multiple_of(ALIGNMENT);
        if !fits {
            return Err(Failure::invalid("The lengths of a row's fields do not fit together."));
        }
        let has_payload = flags & HAS_PAYLOAD != 0;
        if flags & !(HAS_PAYLOAD | REMOVES_PAYLOAD) != 0 || (payload > 0 && !has_payload) {
            return Err(Failure::invalid(format!("Flags {flags:#x} of a row's fields.")));
        }
        let mut body = &take(bytes, length)?[HEADER..];
        let name = take_text(&mut body, name, "A string id")?;
        let attributes = Attributes::decode(take(&mut body, attributes)?)
            .map_err(|error| Failure::invalid(format!("The attributes of a row: {error}.")))?;
        let payload = take(&mut body, payload)?;
        let unset = take(&mut body, 2 * columns)?;
        let group = take_text(&mut body, group, "The name of a group")?;
        let fields = Fields {
            name,
            check: u64_at(header, 8),
            attributes,
            payload: has_payload.then_some(payload),
        };
        Ok(FieldsBlock { fields, group, unset, removes_payload: flags & REMOVES_PAYLOAD != 0 })
    }

    /// The columns that an update unsets.
    pub(crate) fn unset(&self) -> impl Iterator<Item = u16> + use<'a> {
        self.unset.chunks_exact(2).map(|pair| u16::from_le_bytes([pair[0], pair[1]]))
    }
}

/// Appends the block of a row of an answer. `left_out` says that attributes and payload did not fit
/// into the answer.
pub(crate) fn push_fields(out: &mut Vec<u8>, fields: &Fields<'_>, left_out: bool) {
    let (name, attributes) = (fields.name.as_bytes(), fields.attributes.bytes());
    let payload = fields.payload.unwrap_or_default();
    let length =
        (HEADER + name.len() + attributes.len() + payload.len()).next_multiple_of(ALIGNMENT);
    let end = out.len() + length;
    let flags = if fields.payload.is_some() { HAS_PAYLOAD } else { 0 }
        | if left_out { LEFT_OUT } else { 0 };
    out.reserve(length);
    out.extend_from_slice(&(length as u32).to_le_bytes());
    out.extend_from_slice(&flags.to_le_bytes());
    out.extend_from_slice(&[0; 2]);
    out.extend_from_slice(&fields.check.to_le_bytes());
    for part in [name, attributes, payload] {
        out.extend_from_slice(&(part.len() as u32).to_le_bytes());
    }
    out.extend_from_slice(&[0; 4]);
    for part in [name, attributes, payload] {
        out.extend_from_slice(part);
    }
    out.resize(end, 0);
}
