//! A query as codes see it, and the order in which it visits leaves.

use vstream_quantize::rabitq::{QueryTable, Rotation};
use vstream_quantize::Form;
use vstream_vector::{kernels, Metric};

use crate::settings::IndexSettings;

/// A query as the codes of every place with the same rotation see it. Reused from query to query.
#[derive(Default)]
pub struct RotatedQuery {
    vector: Vec<f32>,
    table: QueryTable,
    norm_squared: f32,
}

impl RotatedQuery {
    /// Rotates `query` (`dimension` values) and builds the lookup table of its scans.
    ///
    /// Cost: O(D log D); allocates only when `D` grows.
    pub fn rotate(&mut self, rotation: &Rotation, query: &[f32]) {
        self.vector.resize(rotation.padded(), 0.0);
        rotation.apply(query, &mut self.vector);
        self.table.build(&self.vector);
        self.norm_squared = kernels::norm_squared(&self.vector);
    }

    /// The rotated query, `padded` values.
    pub fn vector(&self) -> &[f32] {
        &self.vector
    }

    /// The lookup table with which code blocks are scanned.
    pub fn table(&self) -> &QueryTable {
        &self.table
    }

    /// The squared norm of the query.
    pub fn norm_squared(&self) -> f32 {
        self.norm_squared
    }

    /// The norm of the query.
    pub fn norm(&self) -> f32 {
        self.norm_squared.sqrt()
    }
}

/// A query after the rotations of several places, whose vectors have one dimension. Places with one
/// seed share a rotation, as nearly all do.
#[derive(Default)]
pub struct RotatedQueries {
    /// By seed. Those after the first `len` are of earlier queries.
    queries: Vec<(Option<u64>, RotatedQuery)>,
    len: usize,
}

impl RotatedQueries {
    /// Begins a query.
    pub fn clear(&mut self) {
        self.len = 0;
    }

    /// The position of the query after `rotation`, which is done unless it was done before. A place
    /// without a rotation never reads the query.
    pub fn rotate(&mut self, rotation: Option<&Rotation>, vector: &[f32]) -> usize {
        let seed = rotation.map(Rotation::seed);
        if let Some(known) = self.queries[..self.len].iter().position(|(known, _)| *known == seed) {
            return known;
        }
        if self.len == self.queries.len() {
            self.queries.push(Default::default());
        }
        let (known, query) = &mut self.queries[self.len];
        *known = seed;
        if let Some(rotation) = rotation {
            query.rotate(rotation, vector);
        }
        self.len += 1;
        self.len - 1
    }

    /// The query at a position that [`RotatedQueries::rotate`] returned since the last clear.
    pub fn get(&self, position: usize) -> &RotatedQuery {
        &self.queries[position].1
    }
}

/// The form in which codes estimate distances of a metric.
pub fn form_of(metric: Metric) -> Form {
    match metric {
        Metric::L2 | Metric::Cosine => Form::L2,
        Metric::InnerProduct => Form::InnerProduct,
    }
}

/// A distance of the metric as an estimate would state it, rounded up by the error that the length of
/// a stored row may have.
pub fn as_estimate(settings: IndexSettings, distance: f32) -> f32 {
    match settings.metric {
        // For two directions: |a - b|^2 = 2 (1 - cos).
        Metric::Cosine => 2.0 * distance + 3.0 * settings.element.roundoff(),
        Metric::L2 | Metric::InnerProduct => distance,
    }
}

/// Orders leaves for one query: a search visits leaves in ascending order of cost.
#[derive(Clone, Copy, Debug)]
pub struct LeafCost {
    /// By inner product, how much a leaf's best row is credited per unit of the leaf's reach.
    credit: Option<f32>,
}

impl LeafCost {
    /// By inner product, a leaf is credited what its best row may add to the product of the centroid.
    ///
    /// A row `x = c + r` has the product `<q, c> + <q, r>`. Over residuals of one length in random
    /// directions `<q, r>` has the deviation `|q| |r| / sqrt(D)`, and the largest of `n` of them is
    /// about `sqrt(2 ln n)` deviations.
    ///
    /// * `dimension`: dimensions of the vectors, ≥ 1.
    /// * `norm`: norm of the query.
    pub fn new(form: Form, dimension: usize, norm: f32) -> LeafCost {
        /// `sqrt(2 ln 256)`: a leaf has some 256 rows.
        const LARGEST: f32 = 3.33;
        let credit = match form {
            Form::L2 => None,
            Form::InnerProduct => Some(norm * LARGEST / (dimension as f32).sqrt().max(LARGEST)),
        };
        LeafCost { credit }
    }

    /// The cost of a leaf.
    ///
    /// * `base`: [`Form::base`] of the query and the centroid, exact or estimated.
    /// * `reach`: largest Euclidean distance of a row to the centroid; read by inner product alone.
    #[inline]
    pub fn of_leaf(&self, base: f32, reach: impl FnOnce() -> f32) -> f32 {
        match self.credit {
            None => base,
            Some(credit) => base - credit * reach().min(f32::MAX),
        }
    }
}
