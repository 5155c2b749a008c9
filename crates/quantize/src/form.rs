//! The distance that a code estimates.

use vstream_vector::kernels;

/// The distance to estimate. A smaller one is closer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// Squared Euclidean distance `|q − x|²`.
    L2,
    /// Negative inner product `−⟨q, x⟩`.
    InnerProduct,
}

impl Form {
    /// The exact distance of two vectors of equal length. For a query and a centroid (both rotated
    /// or neither) it is the `base` of a RaBitQ estimate.
    pub fn base(self, query: &[f32], centroid: &[f32]) -> f32 {
        match self {
            Form::L2 => kernels::l2_squared(query, centroid),
            Form::InnerProduct => -kernels::inner_product(query, centroid),
        }
    }
}
