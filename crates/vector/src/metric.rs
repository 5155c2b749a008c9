//! Distance metrics. A smaller distance is closer, for every metric.

#[cfg(test)]
mod tests;

use std::fmt;
use std::str::FromStr;

/// A distance metric.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Metric {
    /// Squared Euclidean distance, `Σ (aᵢ − bᵢ)²` (as hnswlib, faiss and Milvus report it).
    L2,
    /// `1 − cos(a, b)`. Vectors are normalised when they are accepted, and zero vectors are
    /// refused.
    Cosine,
    /// `−⟨a, b⟩`, so that the largest product is the smallest distance.
    InnerProduct,
}

impl Metric {
    /// The name in settings, files and metrics: `l2`, `cosine`, `inner_product`.
    pub fn name(self) -> &'static str {
        match self {
            Metric::L2 => "l2",
            Metric::Cosine => "cosine",
            Metric::InnerProduct => "inner_product",
        }
    }

    /// The stored tag, which no other metric ever gets.
    pub fn tag(self) -> u8 {
        match self {
            Metric::L2 => 0,
            Metric::Cosine => 1,
            Metric::InnerProduct => 2,
        }
    }

    /// The metric of a stored tag.
    pub fn from_tag(tag: u8) -> Option<Metric> {
        [Metric::L2, Metric::Cosine, Metric::InnerProduct].into_iter().find(|m| m.tag() == tag)
    }
}

impl fmt::Display for Metric {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A name that is not a metric or element type.
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
