//! Buffers that a query needs, kept by its caller: no allocation per query after warm-up.

use crate::cluster::ClusterScratch;

/// Reusable buffers of one searching thread.
#[derive(Default)]
pub struct Scratch {
    pub(crate) cluster: ClusterScratch,
}

impl Scratch {
    /// Empty buffers; they grow to what the queries need and stay.
    pub fn new() -> Scratch {
        Scratch::default()
    }
}
