//! What a user decides about an engine, checked once.

use vstream_index::{ClusterSettings, IndexSettings};
use vstream_vector::{Element, Metric};

use crate::error::Error;

/// Largest dimension that is accepted.
pub const DIMENSION_MAX: usize = 4096;
/// Largest `k` of a query.
pub const K_MAX: usize = 1000;

/// Which index serves the rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IndexKind {
    /// Exact scan; for small collections and as an oracle.
    Flat,
    /// Centroid tree over coded leaves; the default.
    Cluster,
}

/// Settings of one engine. Build with [`Settings::new`] and change fields.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    /// Dimensions of every vector, 1..=[`DIMENSION_MAX`].
    pub dimension: usize,
    /// Formula of the distance.
    pub metric: Metric,
    /// Type of the stored numbers, which says what a vector may hold ([`Element::range`]).
    pub element: Element,
    /// Index kind.
    pub index: IndexKind,
    /// Recall@k that searches of `Effort::Auto` are steered to, 0.5..=0.999.
    pub recall_target: f64,
    /// Steer the effort by sampled exact checks in the background, within 3 % of one core. Without
    /// it the effort is a fixed function of the collection's size.
    pub recall_guard: bool,
    /// Seed of every random choice.
    pub seed: u64,
    /// Sizes of the cluster index.
    pub cluster: ClusterSettings,
}

impl Settings {
    /// The defaults for a collection.
    pub fn new(dimension: usize, metric: Metric, element: Element) -> Settings {
        Settings {
            dimension,
            metric,
            element,
            index: IndexKind::Cluster,
            recall_target: 0.95,
            recall_guard: true,
            seed: 42,
            cluster: ClusterSettings::default(),
        }
    }

    /// Checks every field; the error names the field and what to change.
    pub fn validate(&self) -> Result<(), Error> {
        if !(1..=DIMENSION_MAX).contains(&self.dimension) {
            return Err(Error::invalid(format!(
                "dimension is {}: choose a value from 1 to {DIMENSION_MAX}",
                self.dimension
            )));
        }
        if !(0.5..=0.999).contains(&self.recall_target) {
            return Err(Error::invalid(format!(
                "recall-target is {}: choose a value from 0.5 to 0.999",
                self.recall_target
            )));
        }
        if !(64..=1024).contains(&self.cluster.leaf_rows_max)
            || self.cluster.leaf_rows_min * 2 > self.cluster.leaf_rows_max
            || !(1..=1024).contains(&self.cluster.batch_rows)
        {
            return Err(Error::invalid(
                "cluster sizes are out of range: leaf rows from 64 to 1024, at least twice the \
                 minimum, and batches from 1 to 1024 rows",
            ));
        }
        Ok(())
    }

    /// Rows under cosine are normalised when they are accepted: an integer element cannot hold a
    /// direction, so they are held as `f32` then.
    pub(crate) fn index_settings(&self) -> IndexSettings {
        let direction = self.metric == Metric::Cosine && self.element.is_integer();
        let element = if direction { Element::F32 } else { self.element };
        IndexSettings { dimension: self.dimension, metric: self.metric, element, seed: self.seed }
    }
}
