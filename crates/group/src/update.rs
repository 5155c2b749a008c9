//! A change of a row without its vector.

use vstream_attribute::Attributes;

/// A change of what a row carries beside its vector.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Update<'a> {
    /// Values of attributes to set; the other attributes keep theirs.
    pub set: Attributes<'a>,
    /// Columns whose values go. One that is also in `set` gets that value.
    pub unset: &'a [u16],
    /// What becomes of the payload.
    pub payload: PayloadChange<'a>,
}

/// What an update does to the payload of a row.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PayloadChange<'a> {
    /// It stays as it is.
    #[default]
    Keep,
    /// The row gets this one.
    Set(&'a [u8]),
    /// The row has none any more.
    Remove,
}
