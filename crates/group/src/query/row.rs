//! Rows as answers carry them.

use vstream_attribute::Attributes;
use vstream_vector::Element;

use crate::accept::read_vector;
use crate::error::Error;
use crate::run::{attributes, Part, StoredRow};

/// What answers carry beside id, version, name and attributes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct With {
    /// The stored vector: normalised under cosine, rounded to the element.
    pub vector: bool,
    /// The payload.
    pub payload: bool,
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
    /// The values of its attributes.
    pub fn attributes(&self) -> Attributes<'_> {
        attributes(&self.attributes).expect("attributes that were checked")
    }

    /// Copies a row of the memtable; `None` for a tombstone.
    pub(super) fn copy(row: &StoredRow<'_>, element: Element, with: With) -> Option<OwnedRow> {
        let content = row.content?;
        let mut vector = Vec::new();
        if with.vector {
            vector.resize(content.vector.len() / element.bytes(), 0.0);
            read_vector(element, content.vector, &mut vector);
        }
        Some(OwnedRow {
            id: row.id,
            version: row.version,
            name: content.fields.name.to_owned(),
            check: content.fields.check,
            vector,
            payload: content.fields.payload.filter(|_| with.payload).map(<[u8]>::to_vec),
            attributes: content.fields.attributes.bytes().to_vec(),
        })
    }

    /// Reads a row of a part. Cost: two to four blocks.
    pub(super) fn read(part: &Part, row: u32, with: With) -> Result<OwnedRow, Error> {
        let fields = part.fields(row, with.payload)?;
        let mut found = OwnedRow {
            name: fields.name,
            check: fields.check,
            payload: fields.payload,
            attributes: fields.attributes,
            ..OwnedRow::default()
        };
        let shape = *part.shape();
        part.visit_rows(&[row], |_, id, version, vector| {
            (found.id, found.version) = (id, version);
            if with.vector {
                found.vector.resize(shape.dimension, 0.0);
                read_vector(shape.element, vector, &mut found.vector);
            }
        })?;
        Ok(found)
    }
}
