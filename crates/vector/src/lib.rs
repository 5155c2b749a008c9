//! Arithmetic on vectors: metrics, distance kernels, top-k, k-means, seeded chance.
//!
//! Tier 0: depends on nothing of ours, knows no bytes at rest, no files, no clock.

#![deny(unsafe_code)]

mod element;
#[expect(unsafe_code, reason = "SIMD forms load through pointers and are called after detection")]
pub mod kernels;
mod kmeans;
mod metric;
mod neighbor;
mod number;
mod random;

pub use element::Element;
pub use kmeans::{mean, KMeans, KMeansSettings};
pub use metric::{Metric, MetricError};
pub use neighbor::{Neighbor, TopK};
pub use number::{Bf16, Number, F16};
pub use random::SplitMix;
