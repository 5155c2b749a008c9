//! A query in the form that estimates need.

use super::{code_bytes, kernels, ExtendedFactors, GROUP, PADDED_MAX};

/// The query's integers for 64 bytes of code (two groups, or one group and zeros). `plane[half][j]`
/// belongs to byte `j`; half 0 belongs to its low nibble.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C, align(64))]
pub(super) struct Planes {
    /// The integers divided by 128, rounded down.
    pub(super) coarse: [[i8; 64]; 2],
    /// The remainder, 0..=127.
    pub(super) fine: [[i8; 64]; 2],
}

impl Planes {
    pub(super) const ZERO: Planes = Planes { coarse: [[0; 64]; 2], fine: [[0; 64]; 2] };
}

/// A rotated query with its coordinates rounded to 15-bit integers. Queries reuse it.
///
/// The rounding adds a random error of about `|r| · max|qᵢ| / 57,000` to `⟨r, q⟩`. For a query that
/// is as far from its centroid as from the origin, that is a two-thousandth of the error of the
/// code. Such a query needs only 8-bit integers, which raise the mean error by half a percent. But
/// the error of the code grows with `|q − c|`, and the error of the rounding with `|q|`. Measured
/// with GloVe, moved away from the origin by ten times its length: the best 10 estimates hold 0.897
/// of the true 10 nearest rows with 8 bits, and 0.917 with 15 bits, as before the move. The second
/// plane of bytes costs 0.3 ns per row at 128 dimensions.
#[derive(Clone, Debug, Default)]
pub struct ExtendedQuery {
    padded: usize,
    planes: Vec<Planes>,
    pub(super) step: f32,
    /// `−7.5 · Σ` of the rounded query.
    pub(super) bias: f32,
}

impl ExtendedQuery {
    /// An empty query. Build it before use.
    pub fn new() -> ExtendedQuery {
        ExtendedQuery::default()
    }

    /// Fills it with a rotated query of `D` finite values, `D` a multiple of 64 up to 8,192.
    ///
    /// Cost: O(D), about 50 ns at 128 dimensions with AVX-512; allocates only when `D` grows.
    /// Panics if `D` is not such a multiple.
    pub fn build(&mut self, query: &[f32]) {
        assert!(
            query.len().is_multiple_of(GROUP),
            "a rotated query has a multiple of 64 dimensions"
        );
        assert!(query.len() <= PADDED_MAX, "a code has {PADDED_MAX} dimensions at most");
        self.padded = query.len();
        self.planes.clear();
        self.planes.resize(query.len().div_ceil(2 * GROUP), Planes::ZERO);
        (self.step, self.bias) = kernels::build(query, &mut self.planes);
    }

    /// Estimates the distance of one row.
    ///
    /// * `code`, `factors`: those of the row, from [`super::encode`].
    /// * `base`: [`crate::Form::base`] of the query and the centroid of the row.
    ///
    /// Cost: about 5 ns at 128 dimensions in cache with AVX-512. A row that is not in the cache
    /// costs many times that, so prefetch codes. Panics if `code` has another dimension.
    #[inline]
    pub fn estimate(&self, code: &[u8], factors: ExtendedFactors, base: f32) -> f32 {
        assert_eq!(code.len(), code_bytes(self.padded), "code of another dimension");
        let product = kernels::product(code, &self.planes) as f32 * self.step + self.bias;
        product * factors.scale + (base + factors.add)
    }

    #[cfg(test)]
    pub(super) fn planes(&self) -> &[Planes] {
        &self.planes
    }
}
