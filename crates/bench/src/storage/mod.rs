//! What vectors cost at rest, and what a search costs that reads them from there.

pub mod ablation;
mod asking;
mod codecs;
mod far;
mod larger;
pub mod streams;
pub mod tiers;

use vstream_index::{Cluster, ClusterSettings, IndexSettings, Insert, RowKey, VectorRef};
use vstream_vector::{Element, Metric};

pub use asking::Asking;
pub use codecs::{codec_table, CodecRow};
pub use far::{far, FarEffort, FarRow};
pub use larger::{seal, search, truth, Larger, LargerRow, MemoryRow};

use crate::runbook::Matrix;

/// The rows as they lie in the leaves of a cluster index, which is the order of a segment.
pub fn leaf_order(matrix: &Matrix) -> Matrix {
    let settings = IndexSettings {
        dimension: matrix.dimension,
        metric: Metric::L2,
        element: Element::F32,
        seed: 1,
    };
    let mut index = Cluster::new(settings, ClusterSettings::default());
    for row in 0..matrix.rows() {
        let key = RowKey { id: row as u64, version: 1, code: 0, shard: 0 };
        index.upsert(key, VectorRef::F32(matrix.row(row)));
    }
    let mut order = Vec::with_capacity(matrix.rows());
    index
        .reader()
        .for_each_row(&mut |vstream_index::IndexRow { key, .. }| order.push(key.id as u32));
    matrix.picked(&order)
}
