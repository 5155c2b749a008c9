//! What a row carries, in buffers of its own.

use crate::fields::Fields;
use crate::record::{put, Attributes};
use crate::value::ValueRef;

/// The fields of one row, owned. Reused from row to row; lends [`Fields`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FieldsBuffer {
    name: String,
    check: u64,
    attributes: Vec<u8>,
    payload: Vec<u8>,
    has_payload: bool,
}

impl FieldsBuffer {
    /// Forgets everything. Keeps the memory.
    pub fn clear(&mut self) {
        self.name.clear();
        self.check = 0;
        self.attributes.clear();
        self.set_payload(None);
    }

    /// Copies the fields of a row.
    pub fn set(&mut self, fields: Fields<'_>) {
        self.set_name(fields.name, fields.check);
        self.attributes.clear();
        self.attributes.extend_from_slice(fields.attributes.bytes());
        self.set_payload(fields.payload);
    }

    /// Sets the string id and the high half of its hash.
    pub fn set_name(&mut self, name: &str, check: u64) {
        self.name.clear();
        self.name.push_str(name);
        self.check = check;
    }

    /// Appends the value of a column. The caller keeps columns ascending, and values within the
    /// limits of [`crate::AttributesBuilder::set`].
    pub fn push(&mut self, column: u16, value: &ValueRef<'_>) {
        put(&mut self.attributes, column, value);
    }

    /// Sets or removes the payload.
    pub fn set_payload(&mut self, payload: Option<&[u8]>) {
        self.payload.clear();
        self.payload.extend_from_slice(payload.unwrap_or_default());
        self.has_payload = payload.is_some();
    }

    /// The fields.
    pub fn fields(&self) -> Fields<'_> {
        Fields {
            name: &self.name,
            check: self.check,
            attributes: Attributes(&self.attributes),
            payload: self.has_payload.then_some(&self.payload),
        }
    }
}

impl From<&Fields<'_>> for FieldsBuffer {
    fn from(fields: &Fields<'_>) -> FieldsBuffer {
        let mut buffer = FieldsBuffer::default();
        buffer.set(*fields);
        buffer
    }
}
