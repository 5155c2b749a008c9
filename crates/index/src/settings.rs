//! What is fixed for the life of an index.

use vstream_vector::{Element, Metric};

/// Settings that are fixed for the life of an index.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct IndexSettings {
    /// Dimensions of every vector, ≥ 1.
    pub dimension: usize,
    /// Formula of the distance. Under cosine the caller normalises rows.
    pub metric: Metric,
    /// Number type in which rows are held.
    pub element: Element,
    /// Seed of every random choice of the index.
    pub seed: u64,
}
