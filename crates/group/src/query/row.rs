//! Rows as answers carry them.

use vstream_attribute::Attributes;
use vstream_vector::Element;

use super::group::{GroupView, Place};
use crate::accept::read_vector;
use crate::error::Error;
use crate::run::{attributes, Content, Part, StoredRow};

/// What answers carry beside id and version; the string id, in a store of such ids, always.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct With {
    /// The values of its attributes.
    pub attributes: bool,
    /// The payload.
    pub payload: bool,
    /// The stored vector: normalised under cosine, rounded to the element.
    pub vector: bool,
}

impl With {
    /// Id and version alone.
    pub const NOTHING: With = With { attributes: false, payload: false, vector: false };
    /// Everything.
    pub const ALL: With = With { attributes: true, payload: true, vector: true };
}

impl Default for With {
    /// The attributes.
    fn default() -> With {
        With { attributes: true, ..With::NOTHING }
    }
}

/// A row, copied out of the store.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct OwnedRow {
    /// The user's id, or the low half of the hash of its name.
    pub id: u64,
    /// Version of the record.
    pub version: u64,
    /// The user's id as a text, in a store of string ids.
    pub name: String,
    /// The high half of the hash of the name.
    pub check: u64,
    /// The stored vector, if it was asked for.
    pub vector: Vec<f32>,
    /// The payload, if there is one and it was asked for.
    pub payload: Option<Vec<u8>>,
    attributes: Vec<u8>,
}

impl OwnedRow {
    /// The values of its attributes; none if they were not asked for.
    pub fn attributes(&self) -> Attributes<'_> {
        attributes(&self.attributes).expect("attributes that were checked")
    }

    /// Id and version alone.
    pub(super) fn bare(id: u64, version: u64) -> OwnedRow {
        OwnedRow { id, version, ..OwnedRow::default() }
    }

    /// Copies a row of the memtable; `None` for a tombstone.
    pub(super) fn copy(row: &StoredRow<'_>, element: Element, with: With) -> Option<OwnedRow> {
        let content = row.content?;
        Some(OwnedRow::of(row.id, row.version, &content, element, with))
    }

    fn of(id: u64, version: u64, content: &Content<'_>, element: Element, with: With) -> OwnedRow {
        let Content { vector: bytes, fields } = content;
        let mut vector = Vec::new();
        if with.vector {
            vector.resize(bytes.len() / element.bytes(), 0.0);
            read_vector(element, bytes, &mut vector);
        }
        let attributes = if with.attributes { fields.attributes.bytes() } else { &[] };
        OwnedRow {
            id,
            version,
            name: fields.name.to_owned(),
            check: fields.check,
            vector,
            payload: fields.payload.filter(|_| with.payload).map(<[u8]>::to_vec),
            attributes: attributes.to_vec(),
        }
    }

    /// Reads a row of a part whose id and version are known. Cost: up to four blocks.
    pub(super) fn read(
        part: &Part,
        row: u32,
        (id, version): (u64, u64),
        with: With,
    ) -> Result<OwnedRow, Error> {
        let fields = part.fields(row, with.attributes, with.payload)?;
        let mut vector = Vec::new();
        if with.vector {
            let shape = *part.shape();
            vector.resize(shape.dimension, 0.0);
            part.visit_rows(&[row], |_, _, _, bytes| {
                read_vector(shape.element, bytes, &mut vector);
            })?;
        }
        Ok(OwnedRow {
            id,
            version,
            name: fields.name,
            check: fields.check,
            vector,
            payload: fields.payload,
            attributes: fields.attributes,
        })
    }
}

impl GroupView {
    /// The row at a place. Cost: as [`OwnedRow::read`].
    pub(super) fn show(
        &self,
        place: Place,
        key: (u64, u64),
        element: Element,
        with: With,
    ) -> Result<OwnedRow, Error> {
        if !place.is_in_memory() {
            return OwnedRow::read(self.part(place), place.row, key, with);
        }
        let content = self.memory[place.row as usize].content.as_ref();
        let content = content.expect("a living row").content();
        Ok(OwnedRow::of(key.0, key.1, &content, element, with))
    }
}
