//! Z-order: the bits of the coordinates interleaved (Morton 1966).
//!
//! The top bits of all coordinates come first, dimension 0 foremost, then the next bits. The
//! position grows in each coordinate, and no other neighbourhood is promised.

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
