//! The reference kernels: 16 independent sums, so that the compiler may vectorise them.

use super::tile::{self, Tile, TILE_COLUMNS, TILE_ROWS};
use crate::widen::Widen;

macro_rules! sum_lanes {
    ($a:expr, $b:expr, $term:expr) => {{
        let (a, b) = ($a, $b);
        assert_eq!(a.len(), b.len(), "vectors of different dimension");
        let mut lanes = [0.0f32; 16];
        let mut chunks_a = a.chunks_exact(16);
        let mut chunks_b = b.chunks_exact(16);
        for (ca, cb) in (&mut chunks_a).zip(&mut chunks_b) {
            for i in 0..16 {
                lanes[i] += $term(ca[i], cb[i]);
            }
        }
        for (i, (&x, &y)) in chunks_a.remainder().iter().zip(chunks_b.remainder()).enumerate() {
            lanes[i] += $term(x, y);
        }
        lanes.iter().sum::<f32>()
    }};
}

/// Squared Euclidean distance of a query and a row.
pub fn l2_squared<N: Widen>(query: &[f32], row: &[N]) -> f32 {
    sum_lanes!(query, row, |x: f32, y: N| (x - y.widen()) * (x - y.widen()))
}

/// Inner product of a query and a row.
pub fn inner_product<N: Widen>(query: &[f32], row: &[N]) -> f32 {
    sum_lanes!(query, row, |x: f32, y: N| x * y.widen())
}

/// Squared Euclidean distances to `out.len()` rows.
pub fn l2_squared_batch(query: &[f32], rows: &[f32], out: &mut [f32]) {
    batch(query, rows, out, l2_squared);
}

/// Inner products with `out.len()` rows.
pub fn inner_product_batch(query: &[f32], rows: &[f32], out: &mut [f32]) {
    batch(query, rows, out, inner_product);
}

/// Inner products of a tile of rows and interleaved columns.
pub fn inner_product_tile(
    rows: [&[f32]; TILE_ROWS],
    columns: &[[f32; TILE_COLUMNS]],
    out: &mut Tile,
) {
    tile::inner_product::<false, 2>(rows, columns, out);
}

fn batch(query: &[f32], rows: &[f32], out: &mut [f32], one: impl Fn(&[f32], &[f32]) -> f32) {
    assert_eq!(rows.len(), out.len() * query.len(), "rows must be out.len() × query.len()");
    for (i, value) in out.iter_mut().enumerate() {
        *value = one(query, &rows[i * query.len()..(i + 1) * query.len()]);
    }
}
