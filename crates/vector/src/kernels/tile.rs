//! Inner products of a few rows with a few interleaved columns, written once for every level. The
//! compiler maps the 16 lanes to the registers of the level into which it inlines the code.

/// Rows of one tile.
pub const TILE_ROWS: usize = 8;

/// Columns of one tile, stored interleaved.
pub const TILE_COLUMNS: usize = 16;

/// Result of one tile: `tile[row][column]`.
pub type Tile = [[f32; TILE_COLUMNS]; TILE_ROWS];

/// * `FUSED`: use the fused multiply-add. Only for levels that have the instruction; elsewhere it
///   is a slow call.
/// * `AT_ONCE`: rows that are summed together, as many as fit the registers of the level; a divisor
///   of `TILE_ROWS`.
#[inline(always)]
pub(super) fn inner_product<const FUSED: bool, const AT_ONCE: usize>(
    rows: [&[f32]; TILE_ROWS],
    columns: &[[f32; TILE_COLUMNS]],
    out: &mut Tile,
) {
    for (out, rows) in out.chunks_exact_mut(AT_ONCE).zip(rows.chunks_exact(AT_ONCE)) {
        let rows: [&[f32]; AT_ONCE] = std::array::from_fn(|r| {
            assert_eq!(rows[r].len(), columns.len(), "rows and columns of different dimension");
            &rows[r][..columns.len()]
        });
        let mut sums = [[0.0f32; TILE_COLUMNS]; AT_ONCE];
        for (d, column) in columns.iter().enumerate() {
            for (sum, row) in sums.iter_mut().zip(rows) {
                let x = row[d];
                for (s, &y) in sum.iter_mut().zip(column) {
                    *s = if FUSED { x.mul_add(y, *s) } else { x * y + *s };
                }
            }
        }
        out.copy_from_slice(&sums);
    }
}
