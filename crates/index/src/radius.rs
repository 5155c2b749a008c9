//! Decides by the triangle inequality which leaves a radius search may pass over.
//!
//! For a leaf with centroid `c` and a row `x` of it, `|q - x| >= |q - c| - |x - c|`. The bound
//! concedes three errors, so that a search passes over no row that a scan of all rows would find:
//!
//! * sums: gap and reach are right to a share of themselves;
//! * rotation: query and row are rotated before they are compared with the centroid. The rounding
//!   error of a rotation scales with the norm, however near query and row are to each other;
//! * cosine: the length of a row is 1 only within the rounding of its element. A distance of the
//!   metric is 1 minus a sum of products, right to the rounding of that sum.

use vstream_vector::Metric;

use crate::traits::IndexSettings;

/// Share of gap and reach conceded to the rounding of sums.
const SUMS: f32 = 1e-3;
/// Share of a norm conceded to the rounding of the rotation: up to 4 rounds of 12 additions, half an
/// epsilon for each addition.
const ROTATION: f32 = 32.0 * f32::EPSILON;

/// A query's radius as a bound on distances to centroids.
#[derive(Clone, Copy, Debug)]
pub struct RadiusBound {
    /// Euclidean distance of the farthest row that may be within the radius; infinite if the metric
    /// sets no bound.
    distance: f32,
    /// Distance conceded for every leaf.
    rounding: f32,
}

impl RadiusBound {
    /// * `length`: norm of the query.
    /// * `radius`: a distance of the metric.
    pub fn new(settings: IndexSettings, length: f32, radius: f32) -> RadiusBound {
        let square = match settings.metric {
            Metric::L2 => radius,
            // |a - b|² = |a|² + |b|² - 2 ⟨a, b⟩, where |b| is 1 up to the roundoff.
            Metric::Cosine => {
                let sums = 2.0 * settings.dimension as f32 * f32::EPSILON;
                2.0 * radius + 3.0 * settings.element.roundoff() + sums
            }
            Metric::InnerProduct => f32::INFINITY,
        };
        // The row's norm is at most that of the query, the gap and the reach together.
        RadiusBound { distance: square.max(0.0).sqrt(), rounding: 2.0 * ROTATION * length }
    }

    /// False only if no row of a leaf can be within the radius; true if arithmetic overflowed.
    ///
    /// * `gap`: distance of the query to the centroid, not squared.
    /// * `reach`: largest distance of a row to the centroid, not squared.
    #[inline]
    pub fn may_hold(&self, gap: f32, reach: f32) -> bool {
        let least = gap - reach - (SUMS + ROTATION) * (gap + reach) - self.rounding;
        least.is_nan() || reach >= f32::MAX || least <= self.distance
    }
}
