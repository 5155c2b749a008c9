//! Fields that own their bytes.

use crate::fields::Fields;
use crate::record::Attributes;

/// What a row carries beside key and vector, copied. Reused from row to row.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FieldsBuffer {
    name: String,
    check: u64,
    attributes: Vec<u8>,
    payload: Option<Vec<u8>>,
}

impl FieldsBuffer {
    /// Replaces what is held by a copy of `fields`.
    pub fn set(&mut self, fields: &Fields<'_>) {
        self.name.clear();
        self.name.push_str(fields.name);
        self.check = fields.check;
        self.attributes.clear();
        self.attributes.extend_from_slice(fields.attributes.bytes());
        match (fields.payload, &mut self.payload) {
            (Some(payload), Some(held)) => {
                held.clear();
                held.extend_from_slice(payload);
            }
            (payload, held) => *held = payload.map(<[u8]>::to_vec),
        }
    }

    /// What is held. Cost: a pass over the attributes.
    pub fn fields(&self) -> Fields<'_> {
        let attributes =
            Attributes::decode(&self.attributes).expect("attributes that were checked");
        Fields { name: &self.name, check: self.check, attributes, payload: self.payload.as_deref() }
    }
}

impl From<&Fields<'_>> for FieldsBuffer {
    fn from(fields: &Fields<'_>) -> FieldsBuffer {
        let mut buffer = FieldsBuffer::default();
        buffer.set(fields);
        buffer
    }
}
