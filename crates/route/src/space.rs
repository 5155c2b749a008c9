//! Maps every metric to squared Euclidean distance, so that one kernel ranks cells for all of them.
//!
//! A row is compared in its *row form* and a query in its *query form*. For one query, the squared
//! Euclidean distance of the forms orders rows as the metric does:
//!
//! * l2: both forms are the vector itself.
//! * cosine: both forms are the vector scaled to length 1.
//! * inner_product: a row gets one more dimension with the value √(M² − |x|²). A query is scaled to
//!   length M and gets 0 there. Then |q' − x'|² = 2M² − 2⟨q', x⟩ (Bachrach et al., RecSys 2014). So
//!   the rank of a cell depends on the norms of its rows as well as on their direction. M is the
//!   99th percentile of the norms of the sample. A row that is longer than M gets 0.

use crate::error::RouteError;
use vstream_vector::{kernels, Metric};

/// The percentile of the sample's norms that becomes M. With the maximum, one outlier would give
/// all other rows nearly the same value in the additional dimension.
const NORM_QUANTILE: f64 = 0.99;

/// Dimension, metric and, for inner_product, the length M.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Space {
    pub(crate) dimension: usize,
    pub(crate) metric: Metric,
    /// M for inner_product, 0 otherwise.
    pub(crate) length: f32,
}

impl Space {
    pub(crate) fn new(dimension: usize, metric: Metric) -> Space {
        Space { dimension, metric, length: 0.0 }
    }

    /// Fits the space to a sample of checked rows.
    pub(crate) fn fit(dimension: usize, metric: Metric, sample: &[f32]) -> Space {
        let mut space = Space::new(dimension, metric);
        if metric == Metric::InnerProduct {
            let mut norms: Vec<f64> = sample.chunks_exact(dimension).map(norm).collect();
            norms.sort_unstable_by(f64::total_cmp);
            let index = (norms.len() as f64 * NORM_QUANTILE) as usize;
            let length =
                norms.get(index.min(norms.len().saturating_sub(1))).copied().unwrap_or(0.0);
            // The norm of a vector of very large values does not fit single precision.
            space.length = length.min(f64::from(f32::MAX)) as f32;
        }
        space
    }

    /// Dimensions of a row form or query form.
    pub(crate) fn form_dimension(&self) -> usize {
        self.dimension + usize::from(self.metric == Metric::InnerProduct)
    }

    /// Checks the dimension of a vector, that its values are finite and, under cosine, that it is
    /// not all zeros.
    ///
    /// Errors: `Invalid`.
    pub(crate) fn check(&self, vector: &[f32]) -> Result<(), RouteError> {
        if vector.len() != self.dimension {
            return Err(RouteError::invalid(format!(
                "The vector has {} dimensions, but the collection has {}: send {} values.",
                vector.len(),
                self.dimension,
                self.dimension
            )));
        }
        if let Some(index) = vector.iter().position(|x| !x.is_finite()) {
            return Err(RouteError::invalid(format!(
                "Value {index} of the vector is {}: send finite values only.",
                vector[index]
            )));
        }
        if self.metric == Metric::Cosine && vector.iter().all(|&x| x == 0.0) {
            return Err(RouteError::invalid(
                "The vector is all zeros and has no direction, which cosine needs: leave it out.",
            ));
        }
        Ok(())
    }

    /// Appends the row form of a checked vector.
    pub(crate) fn push_row(&self, vector: &[f32], out: &mut Vec<f32>) {
        match self.metric {
            Metric::L2 => out.extend_from_slice(vector),
            Metric::Cosine => push_scaled(vector, 1.0, out),
            Metric::InnerProduct => {
                out.extend_from_slice(vector);
                let rest = f64::from(self.length).powi(2) - norm(vector).powi(2);
                out.push(rest.max(0.0).sqrt() as f32);
            }
        }
    }

    /// Appends the query form of a checked vector.
    pub(crate) fn push_query(&self, vector: &[f32], out: &mut Vec<f32>) {
        match self.metric {
            Metric::L2 => out.extend_from_slice(vector),
            Metric::Cosine => push_scaled(vector, 1.0, out),
            Metric::InnerProduct => {
                push_scaled(vector, f64::from(self.length), out);
                out.push(0.0);
            }
        }
    }

    /// Orders rows for one query form as the metric does; smaller is closer.
    #[inline]
    pub(crate) fn distance(&self, query: &[f32], row: &[f32]) -> f32 {
        match self.metric {
            Metric::L2 | Metric::Cosine => kernels::l2_squared(query, row),
            Metric::InnerProduct => {
                -kernels::inner_product(&query[..self.dimension], &row[..self.dimension])
            }
        }
    }

    /// True if rows and queries have the same form.
    pub(crate) fn is_symmetric(&self) -> bool {
        self.metric != Metric::InnerProduct
    }
}

/// Euclidean norm. It is summed in double precision, so it is finite for every finite vector.
fn norm(vector: &[f32]) -> f64 {
    vector.iter().map(|&x| f64::from(x) * f64::from(x)).sum::<f64>().sqrt()
}

/// Appends `vector` scaled to `length`. A zero vector stays zero.
fn push_scaled(vector: &[f32], length: f64, out: &mut Vec<f32>) {
    let norm = norm(vector);
    let scale = if norm > 0.0 { length / norm } else { 0.0 };
    out.extend(vector.iter().map(|&x| (f64::from(x) * scale) as f32));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forms_order_rows_as_the_inner_product_does() {
        let rows = [[1.0f32, 2.0], [3.0, -1.0], [0.5, 0.5], [-2.0, 2.0], [0.0, 0.0]];
        let space = Space { length: 4.0, ..Space::new(2, Metric::InnerProduct) };
        let query = [0.7f32, 0.4];
        let mut query_form = Vec::new();
        space.push_query(&query, &mut query_form);
        let mut order: Vec<(f32, f32)> = rows
            .iter()
            .map(|row| {
                let mut form = Vec::new();
                space.push_row(row, &mut form);
                assert!((norm(&form) - 4.0).abs() < 1e-5, "rows lie on the sphere");
                let product = kernels::inner_product(&query, row);
                (kernels::l2_squared(&query_form, &form), product)
            })
            .collect();
        order.sort_unstable_by(|a, b| a.0.total_cmp(&b.0));
        assert!(order.windows(2).all(|w| w[0].1 >= w[1].1), "{order:?}");
    }

    #[test]
    fn tiny_and_huge_vectors_have_a_direction() {
        for scale in [1e-44f32, 1e38] {
            let space = Space::new(2, Metric::Cosine);
            let vector = [scale, scale];
            assert!(space.check(&vector).is_ok());
            let mut form = Vec::new();
            space.push_row(&vector, &mut form);
            assert!((form[0] - 0.5f32.sqrt()).abs() < 1e-6, "{form:?}");
        }
    }
}
