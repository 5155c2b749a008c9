//! Settings of a new graph segment, and the widths of its codes.

use vstream_vector::{Element, Metric};

use crate::layout::Layout;

/// Bits per dimension of the codes that lead a search.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CodeBits {
    /// `padded / 8 + 5` bytes per vector, with `padded` the dimension rounded up to 64.
    One,
    /// `padded / 2 + 7` bytes per vector, an eighth of the error.
    Four,
}

/// Settings of a new segment.
#[derive(Clone, Copy, Debug)]
pub struct GraphSettings {
    /// Dimensions of every vector, 1..=4,096.
    pub dimension: usize,
    /// Formula of the distance. Rows under cosine come normalised.
    pub metric: Metric,
    /// Element type of the rows.
    pub element: Element,
    /// Most neighbours of a row (Λ), 2..=255.
    pub degree: usize,
    /// Candidates of a search while the graph is built (L), 1..=10,000.
    pub list: usize,
    /// Pruning factor of squared distances (α), 1..=4.
    pub alpha: f32,
    /// Which rows share a block.
    pub layout: Layout,
    /// Codes in memory.
    pub codes: CodeBits,
    /// Share of the rows in the navigation graph (μ), 0..=0.5; 0 for none.
    pub sample: f32,
    /// Most neighbours in the navigation graph, 2..=255.
    pub sample_degree: usize,
    /// Seed of everything random.
    pub seed: u64,
    /// A number that no other file ever had. It exposes blocks of another file.
    pub identity: u64,
}

impl GraphSettings {
    /// Settings that suit most data: Λ = 31, L = 75, α = 1.2, BNS, codes of one bit, μ = 0.05.
    pub fn new(dimension: usize, metric: Metric, element: Element) -> GraphSettings {
        GraphSettings {
            dimension,
            metric,
            element,
            degree: 31,
            list: 75,
            alpha: 1.2,
            layout: Layout::Bns { passes: 16, swaps: 8 },
            codes: CodeBits::One,
            sample: 0.05,
            sample_degree: 20,
            seed: 0,
            identity: 0,
        }
    }

    /// What is wrong with the settings, as a sentence.
    pub(crate) fn defect(&self) -> Option<&'static str> {
        let degrees = 2..=255;
        if !(1..=vstream_store::codec::DIMENSION_MAX).contains(&self.dimension) {
            Some("the dimension is out of range: use 1 to 4096")
        } else if !degrees.contains(&self.degree) || !degrees.contains(&self.sample_degree) {
            Some("a degree is out of range: use 2 to 255")
        } else if !(1..=10_000).contains(&self.list) {
            Some("the list is out of range: use 1 to 10000")
        } else if !(1.0..=4.0).contains(&self.alpha) {
            Some("alpha is out of range: use 1 to 4")
        } else if !(0.0..=0.5).contains(&self.sample) {
            Some("the sample is out of range: use 0 to 0.5")
        } else if !self.layout.is_valid() {
            Some("the passes of the layout are out of range: use 1 to 64")
        } else {
            None
        }
    }
}
