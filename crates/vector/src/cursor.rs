//! A cursor over little-endian bytes: every decoder of the workspace reads through it.
//!
//! Each read checks the length first and advances only if it succeeds, so damaged input gives an
//! error with its offset, never a panic. A decoder checks a count with
//! [`ByteReader::require_items`] before it takes memory for that many items.
//!
//! ```
//! use vstream_vector::cursor::{ByteReader, Truncated};
//!
//! let mut input = ByteReader::new(&[7, 0, 0, 0, 9, 0]);
//! assert_eq!(input.u32(), Ok(7));
//! assert_eq!(input.u32(), Err(Truncated { offset: 4, needed: 4, left: 2 }));
//! assert_eq!(input.u16(), Ok(9));
//! assert!(input.is_empty());
//! ```

#[cfg(test)]
mod tests;

use std::fmt;

/// The input ends before the value that was to be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Truncated {
    /// Position at which the read began, in bytes from the start of the input.
    pub offset: usize,
    /// Bytes that the read needs; `usize::MAX` if that number does not fit a `usize`.
    pub needed: usize,
    /// Bytes that the input still has at `offset`.
    pub left: usize,
}

impl fmt::Display for Truncated {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Truncated { offset, needed, left } = self;
        write!(f, "{needed} bytes are needed at offset {offset} and {left} are left")
    }
}

impl std::error::Error for Truncated {}

/// Reads values from the front of a byte slice.
///
/// A read that fails returns [`Truncated`] and leaves the reader where it was. Cost: O(1) and no
/// allocation, except for [`ByteReader::f32s`]. A copy of a reader is independent of the original.
#[derive(Clone, Copy, Debug)]
pub struct ByteReader<'a> {
    rest: &'a [u8],
    offset: usize,
}

impl<'a> ByteReader<'a> {
    /// A reader at the start of `bytes`.
    pub fn new(bytes: &'a [u8]) -> ByteReader<'a> {
        ByteReader::with_offset(bytes, 0)
    }

    /// A reader of `bytes`, which begin at `offset` of a larger input such as a file.
    pub fn with_offset(bytes: &'a [u8], offset: usize) -> ByteReader<'a> {
        ByteReader { rest: bytes, offset }
    }

    /// Position of the next byte, in bytes from the start of the input.
    #[inline]
    pub fn offset(&self) -> usize {
        self.offset
    }

    /// Bytes that are not read yet. They stay unread.
    #[inline]
    pub fn rest(&self) -> &'a [u8] {
        self.rest
    }

    /// Number of bytes that are not read yet.
    #[inline]
    pub fn left(&self) -> usize {
        self.rest.len()
    }

    /// True if every byte is read.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    /// Checks that `count` items of `item_bytes` bytes each are left; reads nothing.
    #[inline]
    pub fn require_items(&self, count: usize, item_bytes: usize) -> Result<(), Truncated> {
        let needed = count.saturating_mul(item_bytes);
        if needed <= self.left() {
            return Ok(());
        }
        Err(self.truncated(needed))
    }

    /// The next `count` bytes.
    #[inline]
    pub fn bytes(&mut self, count: usize) -> Result<&'a [u8], Truncated> {
        let split = self.rest.split_at_checked(count);
        let (bytes, rest) = split.ok_or_else(|| self.truncated(count))?;
        (self.rest, self.offset) = (rest, self.offset + count);
        Ok(bytes)
    }

    /// The next `N` bytes as an array, such as a magic number or a row of one-byte tags.
    #[inline]
    pub fn array<const N: usize>(&mut self) -> Result<[u8; N], Truncated> {
        let split = self.rest.split_first_chunk::<N>();
        let (array, rest) = split.ok_or_else(|| self.truncated(N))?;
        (self.rest, self.offset) = (rest, self.offset + N);
        Ok(*array)
    }

    /// A reader of the next `count` bytes alone, which this reader skips. Both count offsets from
    /// the start of the same input.
    #[inline]
    pub fn split(&mut self, count: usize) -> Result<ByteReader<'a>, Truncated> {
        let offset = self.offset;
        self.bytes(count).map(|bytes| ByteReader::with_offset(bytes, offset))
    }

    /// Passes over `count` bytes.
    #[inline]
    pub fn skip(&mut self, count: usize) -> Result<(), Truncated> {
        self.bytes(count).map(|_| ())
    }

    /// The next byte.
    #[inline]
    pub fn u8(&mut self) -> Result<u8, Truncated> {
        self.array().map(u8::from_le_bytes)
    }

    /// The next two bytes as a number.
    #[inline]
    pub fn u16(&mut self) -> Result<u16, Truncated> {
        self.array().map(u16::from_le_bytes)
    }

    /// The next four bytes as a number.
    #[inline]
    pub fn u32(&mut self) -> Result<u32, Truncated> {
        self.array().map(u32::from_le_bytes)
    }

    /// The next eight bytes as a number.
    #[inline]
    pub fn u64(&mut self) -> Result<u64, Truncated> {
        self.array().map(u64::from_le_bytes)
    }

    /// The next 16 bytes as a number.
    #[inline]
    pub fn u128(&mut self) -> Result<u128, Truncated> {
        self.array().map(u128::from_le_bytes)
    }

    /// The next four bytes as a signed number.
    #[inline]
    pub fn i32(&mut self) -> Result<i32, Truncated> {
        self.array().map(i32::from_le_bytes)
    }

    /// The next four bytes as a float; any bits, so it may be infinite or NaN.
    #[inline]
    pub fn f32(&mut self) -> Result<f32, Truncated> {
        self.array().map(f32::from_le_bytes)
    }

    /// The next eight bytes as a float; any bits, so it may be infinite or NaN.
    #[inline]
    pub fn f64(&mut self) -> Result<f64, Truncated> {
        self.array().map(f64::from_le_bytes)
    }

    /// The next `count` floats of four bytes each; any bits. Allocates only if all of them are
    /// there.
    pub fn f32s(&mut self, count: usize) -> Result<Vec<f32>, Truncated> {
        let bytes = self.bytes(count.saturating_mul(4))?;
        let (floats, _) = bytes.as_chunks::<4>();
        Ok(floats.iter().map(|float| f32::from_le_bytes(*float)).collect())
    }

    #[cold]
    fn truncated(&self, needed: usize) -> Truncated {
        Truncated { offset: self.offset, needed, left: self.left() }
    }
}
