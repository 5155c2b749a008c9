//! The Gray-code curve (Faloutsos 1986).
//!
//! 1. Interleave the bits of the coordinates.
//! 2. The position is the rank of that word in the binary reflected Gray code, which is the
//!    inverse Gray code of the word.
//!
//! The words of consecutive positions differ in one bit. So consecutive cells differ in one
//! coordinate, by a power of two.

use super::zorder;

/// Position of `cell` in a grid of `2^levels` cells per axis.
pub(super) fn position(cell: &[u32], levels: u32) -> u64 {
    let mut rank = zorder::position(cell, levels);
    for shift in [1, 2, 4, 8, 16, 32] {
        rank ^= rank >> shift;
    }
    rank
}
