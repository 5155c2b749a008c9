//! The rows that callers write and read.

use vstream_attribute::Fields;
pub use vstream_attribute::{PayloadChange, RowId, Update};

/// A row to store.
#[derive(Clone, Copy, Debug)]
pub struct Row<'a> {
    /// The user's id; the low half of its hash in a collection of string ids.
    pub id: u64,
    /// Version. An upsert changes nothing if its version is older than the stored one.
    pub version: u64,
    /// Routing code, kept for the hand-over.
    pub code: u64,
    /// Shard; the engine does not interpret it.
    pub shard: u16,
    /// `dimension` finite values that the element accepts ([`crate::Element::accepts`]): not all zero
    /// under cosine; with a norm up to [`crate::NORM_MAX`] under the other metrics.
    pub vector: &'a [f32],
    /// String id, attributes and payload, as the collection's schema has them.
    pub fields: Fields<'a>,
}
