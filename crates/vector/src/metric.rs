//! The formula of each distance. Smaller is closer, everywhere.

#[cfg(test)]
mod tests;

use std::fmt;
use std::str::FromStr;

/// How far apart two vectors are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Metric {
    /// Squared Euclidean distance, `Σ (aᵢ − bᵢ)²` (as hnswlib, faiss and Milvus report it).
    L2,
    /// `1 − cos(a, b)`; vectors are normalised when they are accepted, zero vectors are refused.
    Cosine,
    /// `−⟨a, b⟩`, so that the largest product is the smallest distance.
    InnerProduct,
}

impl Metric {
    /// Name used in settings, files and metrics: `l2`, `cosine`, `inner_product`.
    pub fn name(self) -> &'static str {
        match self {
            Metric::L2 => "l2",
            Metric::Cosine => "cosine",
            Metric::InnerProduct => "inner_product",
        }
    }

    /// Persisted tag; never reused.
    pub fn tag(self) -> u8 {
        match self {
            Metric::L2 => 0,
            Metric::Cosine => 1,
            Metric::InnerProduct => 2,
        }
    }

    /// The metric of a persisted tag.
    pub fn from_tag(tag: u8) -> Option<Metric> {
        [Metric::L2, Metric::Cosine, Metric::InnerProduct].into_iter().find(|m| m.tag() == tag)
    }
}

impl fmt::Display for Metric {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A name that is no metric or element type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MetricError {
    pub(crate) what: &'static str,
    pub(crate) name: String,
    pub(crate) choices: &'static str,
}

impl fmt::Display for MetricError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "unknown {} '{}': choose one of {}", self.what, self.name, self.choices)
    }
}

impl std::error::Error for MetricError {}

impl FromStr for Metric {
    type Err = MetricError;

    /// Accepts the names of [`Metric::name`] and the aliases `ip`, `dot`, `euclid`, `euclidean`, `cos`.
    fn from_str(name: &str) -> Result<Metric, MetricError> {
        match name {
            "l2" | "euclid" | "euclidean" => Ok(Metric::L2),
            "cosine" | "cos" => Ok(Metric::Cosine),
            "inner_product" | "ip" | "dot" => Ok(Metric::InnerProduct),
            _ => Err(MetricError {
                what: "metric",
                name: name.to_owned(),
                choices: "l2, cosine, inner_product",
            }),
        }
    }
}
