//! Hilbert's curve in n dimensions.
//!
//! J. Skilling, "Programming the Hilbert curve", AIP Conf. Proc. 707 (2004):
//! 1. From the top bit down, undo the reflections and exchanges of the axes that the curve made on
//!    its way to this cell.
//! 2. Compute the Gray code of the result. Its interleaved bits are the position.
//!
//! Consecutive cells share a face.

use super::zorder;
use crate::lsh::HASHES_MAX;

/// Position of `cell` in a grid of `2^levels` cells per axis.
pub(super) fn position(cell: &[u32], levels: u32) -> u64 {
    let n = cell.len();
    let mut buffer = [0u32; HASHES_MAX + 6];
    let axes = &mut buffer[..n];
    axes.copy_from_slice(cell);
    let top = 1u32 << (levels - 1);

    let mut bit = top;
    while bit > 1 {
        let below = bit - 1;
        for i in 0..n {
            if axes[i] & bit != 0 {
                axes[0] ^= below;
            } else {
                let exchange = (axes[0] ^ axes[i]) & below;
                axes[0] ^= exchange;
                axes[i] ^= exchange;
            }
        }
        bit >>= 1;
    }

    for i in 1..n {
        axes[i] ^= axes[i - 1];
    }
    let mut flip = 0;
    let mut bit = top;
    while bit > 1 {
        if axes[n - 1] & bit != 0 {
            flip ^= bit - 1;
        }
        bit >>= 1;
    }
    axes.iter_mut().for_each(|x| *x ^= flip);
    zorder::position(axes, levels)
}
