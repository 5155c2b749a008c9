//! Everything that a row carries beside key and vector.

use crate::record::Attributes;

/// What a row carries beside key and vector. Borrowed: copies cost nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Fields<'a> {
    /// The user's id as a text, in a collection of string ids; empty otherwise. The key then holds
    /// a hash of it.
    pub name: &'a str,
    /// The high half of the 128-bit hash of `name`; 0 without a name. The key's id is the low half.
    pub check: u64,
    /// Values of attributes.
    pub attributes: Attributes<'a>,
    /// Opaque bytes, or JSON as text.
    pub payload: Option<&'a [u8]>,
}

impl Fields<'_> {
    /// Nothing beside key and vector.
    pub const NONE: Fields<'static> =
        Fields { name: "", check: 0, attributes: Attributes::NONE, payload: None };

    /// True if the row carries nothing beside key and vector.
    pub fn is_empty(&self) -> bool {
        self.name.is_empty() && self.attributes.is_empty() && self.payload.is_none()
    }
}
