//! The memory layout of the signs and factors of 32 rows: first the codes, then the factors.
//!
//! The factors are rounded to `bf16` and stored little-endian, all `add` before all `scale`. The
//! rounding error is some hundredths of the code's own error, and a scan reads a sixth less.
//!
//! Dimensions are grouped by four: *group* `g` holds dimensions `4g..4g + 4`. A row's *nibble* of a
//! group has bit `j` set if the sign of dimension `4g + j` is positive. A block has `D/4` groups of
//! 16 bytes, in order. Each byte holds the nibbles of two rows:
//!
//! ```text
//! byte of a group   0   1   2   3   4   5   6   7   8   9  10  11  12  13  14  15
//! low nibble: row   0   8   1   9   2  10   3  11   4  12   5  13   6  14   7  15
//! high nibble: row 16  24  17  25  18  26  19  27  20  28  21  29  22  30  23  31
//! ```
//!
//! A scan looks up 16 bytes per group. It sums even and odd bytes separately, as 16-bit numbers. In
//! this order the even sums are rows 0..8 (or 16..24), and the odd ones rows 8..16 (or 24..32).

use super::encode::Factors;

/// Number of rows of a block.
pub const BLOCK: usize = 32;

/// Bytes of one group: 32 nibbles.
pub(super) const GROUP_BYTES: usize = 16;

/// Bytes of the factors: `add` and `scale` of every lane.
pub(super) const FACTOR_BYTES: usize = 2 * 2 * BLOCK;

/// Bytes of the signs of a block.
#[inline]
pub(super) const fn code_bytes(padded: usize) -> usize {
    BLOCK * padded / 8
}

/// Bytes of a block of `padded`-dimensional codes; `padded` is a multiple of 64.
#[inline]
pub const fn block_bytes(padded: usize) -> usize {
    code_bytes(padded) + FACTOR_BYTES
}

/// Makes a block empty: the estimate of an empty lane is infinite.
pub fn clear(block: &mut [u8]) {
    block.fill(0);
    let factors = block.len() - FACTOR_BYTES;
    for add in block[factors..][..2 * BLOCK].chunks_exact_mut(2) {
        add.copy_from_slice(&bf16(f32::INFINITY));
    }
}

/// The nearest `bf16` of a finite or infinite number, ties to even.
#[inline]
fn bf16(x: f32) -> [u8; 2] {
    let bits = x.to_bits();
    (((bits + 0x7fff + (bits >> 16 & 1)) >> 16) as u16).to_le_bytes()
}

/// The factor `kind` (0: `add`, 1: `scale`) of a lane.
#[inline]
pub(super) fn factor(factors: &[u8], kind: usize, lane: usize) -> f32 {
    let index = 2 * (kind * BLOCK + lane);
    wide([factors[index], factors[index + 1]])
}

/// A factor as it is computed with.
#[inline]
pub(super) fn wide(bytes: [u8; 2]) -> f32 {
    f32::from_bits(u32::from(u16::from_le_bytes(bytes)) << 16)
}

/// The position of a row's nibble: the byte within a group and the shift within that byte.
#[inline]
pub(super) const fn place(lane: usize) -> (usize, u32) {
    let half = lane % 16;
    ((half % 8) * 2 + half / 8, if lane < 16 { 0 } else { 4 })
}

/// Writes a row's bits (`padded / 8` bytes from [`super::encode`]) and factors into lane
/// `lane < BLOCK` of `block`. Other lanes stay unchanged. Panics if a length is wrong.
pub fn pack_lane(block: &mut [u8], padded: usize, lane: usize, bits: &[u8], row: Factors) {
    check(block, padded, lane, bits);
    let (codes, factors) = block.split_at_mut(code_bytes(padded));
    let (index, shift) = place(lane);
    for (pair, &byte) in codes.chunks_exact_mut(2 * GROUP_BYTES).zip(bits) {
        let keep = 0xf0 >> shift;
        pair[index] = pair[index] & keep | (byte & 15) << shift;
        pair[index + GROUP_BYTES] = pair[index + GROUP_BYTES] & keep | (byte >> 4) << shift;
    }
    factors[2 * lane..][..2].copy_from_slice(&bf16(row.add));
    factors[2 * (BLOCK + lane)..][..2].copy_from_slice(&bf16(row.scale));
}

/// Reads back the bits that [`pack_lane`] wrote.
pub fn unpack_lane(block: &[u8], padded: usize, lane: usize, bits: &mut [u8]) {
    check(block, padded, lane, bits);
    let (index, shift) = place(lane);
    let codes = &block[..code_bytes(padded)];
    for (pair, byte) in codes.chunks_exact(2 * GROUP_BYTES).zip(bits) {
        *byte = pair[index] >> shift & 15 | (pair[index + GROUP_BYTES] >> shift & 15) << 4;
    }
}

/// Copies a row's bits and factors from a lane of one block to a lane of another block. Both refer to the
/// centroid that the row had. Other lanes stay unchanged. Panics if a length is wrong.
pub fn copy_lane(padded: usize, from: (&[u8], usize), to: (&mut [u8], usize)) {
    let ((from, source), (to, target)) = (from, to);
    assert!(source < BLOCK && target < BLOCK, "a block has {BLOCK} lanes");
    assert_eq!(from.len(), block_bytes(padded), "block of another dimension");
    assert_eq!(to.len(), from.len(), "block of another dimension");
    let (from, read) = from.split_at(code_bytes(padded));
    let (to, written) = to.split_at_mut(code_bytes(padded));
    let ((index, shift), (into, by)) = (place(source), place(target));
    let groups = from.chunks_exact(GROUP_BYTES).zip(to.chunks_exact_mut(GROUP_BYTES));
    for (from, to) in groups {
        to[into] = to[into] & 0xf0 >> by | (from[index] >> shift & 15) << by;
    }
    for kind in [0, BLOCK] {
        written[2 * (kind + target)..][..2].copy_from_slice(&read[2 * (kind + source)..][..2]);
    }
}

fn check(block: &[u8], padded: usize, lane: usize, bits: &[u8]) {
    assert!(lane < BLOCK, "a block has {BLOCK} lanes, not {lane}");
    assert_eq!(block.len(), block_bytes(padded), "block of another dimension");
    assert_eq!(bits.len(), padded / 8, "code of another dimension");
}
