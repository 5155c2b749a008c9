//! Arithmetic on vectors: metrics, distance kernels, top-k, k-means, a seeded generator. Beside it,
//! the byte cursor that every decoder above reads through.
//!
//! Tier 0: this crate depends on no other crate of the workspace. It knows no file, no file format
//! and no clock.
//!
//! A good first change: accept `innerproduct` as a name of the metric, as some libraries write it
//! (`src/metric.rs`; its test: `src/metric/tests.rs`).

#![deny(unsafe_code)]

pub mod cursor;
mod element;
#[expect(unsafe_code, reason = "SIMD forms load through pointers and are called after detection")]
pub mod kernels;
mod kmeans;
mod metric;
mod neighbor;
mod number;
mod random;
mod widen;

pub use element::Element;
pub use kmeans::{mean, KMeans, KMeansSettings};
pub use metric::{Metric, MetricError};
pub use neighbor::{Neighbor, TopK};
pub use number::Number;
pub use random::SplitMix;
pub use widen::{Bf16, Widen, F16};
