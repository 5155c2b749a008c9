//! Which groups of rows a radius search may pass over, by the triangle inequality.
//!
//! For a group with centre `c` and a row `x` of it, `|q - x| >= |q - c| - |x - c|`. Three errors
//! are conceded, so that nothing is passed over which a scan of all rows would find:
//!
//! * sums: gap and reach are right to a share of themselves;
//! * rotation: query and row are rotated before they are compared with the centre, and what that
//!   rounds scales with their norms, however near they are to each other;
//! * cosine: a row is of length 1 only as far as its element goes, and a distance of the metric is
//!   what is left of 1, right to the rounding of a sum of products.

use vstream_vector::Metric;

use crate::traits::IndexSettings;

/// Share of gap and reach that is conceded to the rounding of sums.
const SUMS: f32 = 1e-3;
/// Share of a norm that is conceded to the rounding of the rotation, which has up to 4 rounds of
/// 12 additions each, at half an epsilon apiece.
const ROTATION: f32 = 32.0 * f32::EPSILON;

/// A query's radius as a bound on distances to centres.
#[derive(Clone, Copy, Debug)]
pub struct RadiusBound {
    /// Euclidean distance of the farthest row that may be within; infinite if nothing is known.
    distance: f32,
    /// What is conceded whatever the group.
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

    /// False only if no row of a group can be within the radius; true if arithmetic overflowed.
    ///
    /// * `gap`: distance of the query to the centre, not squared.
    /// * `reach`: largest distance of a row to the centre.
    #[inline]
    pub fn may_hold(&self, gap: f32, reach: f32) -> bool {
        let least = gap - reach - (SUMS + ROTATION) * (gap + reach) - self.rounding;
        least.is_nan() || reach >= f32::MAX || least <= self.distance
    }
}
