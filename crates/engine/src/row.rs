//! A record, as users hand it over.

/// A record to be kept.
#[derive(Clone, Copy, Debug)]
pub struct Row<'a> {
    /// The user's id.
    pub id: u64,
    /// Version; an upsert with an older one than is stored changes nothing.
    pub version: u64,
    /// Position on the routing line, kept for hand-over.
    pub code: u64,
    /// Virtual partition, an opaque key.
    pub shard: u16,
    /// `dimension` finite values that the element accepts ([`Element::accepts`]); not all zero under
    /// cosine, and with a norm up to [`crate::NORM_MAX`] under the other metrics.
    pub vector: &'a [f32],
}
