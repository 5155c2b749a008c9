//! Z-order: the bits of the coordinates interleaved (Morton 1966).
//!
//! The top bits of all coordinates come first, beginning with dimension 0, then the next bits. The
//! position grows with each coordinate. Consecutive cells need not be neighbours.

/// Position of `cell` in a grid of `2^levels` cells per axis.
pub(super) fn position(cell: &[u32], levels: u32) -> u64 {
    let mut word = 0u64;
    for level in (0..levels).rev() {
        for &x in cell {
            word = word << 1 | u64::from(x >> level & 1);
        }
    }
    word
}
