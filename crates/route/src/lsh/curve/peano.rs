//! Peano's curve in n dimensions (Peano 1890), base 3.
//!
//! Write the position in base 3, one digit for each level and dimension, level by level. Digit t of
//! dimension i is the coordinate's digit. It is reflected (t → 2 − t) if the preceding digits of
//! the *other* dimensions have an odd sum. A reflection keeps the parity of a digit, so the sum may
//! be taken over coordinate digits, and the rule works in both directions.
//!
//! Consecutive cells share a face.

use crate::lsh::HASHES_MAX;

/// Position of `cell` in a grid of `3^levels` cells per axis.
pub(super) fn position(cell: &[u32], levels: u32) -> u64 {
    // Parity of the digits so far: of all dimensions, and of each dimension.
    let mut all = 0;
    let mut own = [0u32; HASHES_MAX + 6];
    let mut rank = 0u64;
    for level in (0..levels).rev() {
        let unit = 3u32.pow(level);
        for (&x, own) in cell.iter().zip(&mut own) {
            let digit = x / unit % 3;
            let reflected = (all ^ *own) & 1 == 1;
            rank = rank * 3 + u64::from(if reflected { 2 - digit } else { digit });
            all ^= digit & 1;
            *own ^= digit & 1;
        }
    }
    rank
}
