//! Columns of whole numbers: the least value, a width in bytes, then the difference of each value
//! to the least.
//!
//! ```text
//! u64 least | u8 width, 0..=8 | rows x width bytes
//! ```

use vstream_vector::cursor::ByteReader;

use crate::malformed::Malformed;

/// Appends a column.
pub(crate) fn put(out: &mut Vec<u8>, values: impl Iterator<Item = u64> + Clone) {
    let (least, most) =
        values.clone().fold((u64::MAX, 0), |(least, most), x| (least.min(x), most.max(x)));
    let least = least.min(most);
    let width = (u64::BITS - (most - least).leading_zeros()).div_ceil(8) as usize;
    out.extend_from_slice(&least.to_le_bytes());
    out.push(width as u8);
    for value in values {
        out.extend_from_slice(&(value - least).to_le_bytes()[..width]);
    }
}

/// A column, borrowed from the bytes of a block.
#[derive(Clone, Copy)]
pub(crate) struct Column<'a> {
    least: u64,
    width: usize,
    above: &'a [u8],
}

impl<'a> Column<'a> {
    /// Reads a column of `n` values from `input`.
    pub(crate) fn take(input: &mut ByteReader<'a>, n: usize) -> Result<Column<'a>, Malformed> {
        let (least, width) = (input.u64()?, usize::from(input.u8()?));
        if width > 8 {
            return Err(Malformed("a column is wider than its numbers"));
        }
        let above = input.bytes(n * width);
        let above = above.map_err(|_| Malformed("a column is shorter than its rows"))?;
        Ok(Column { least, width, above })
    }

    /// The value of a row, which must be in the column.
    #[inline]
    pub(crate) fn get(&self, row: usize) -> u64 {
        if self.width == 0 {
            return self.least;
        }
        let from = row * self.width;
        let above = match self.above[from..].first_chunk() {
            // One read and a mask, where a copy of `width` bytes would be a call.
            Some(word) => u64::from_le_bytes(*word) & (u64::MAX >> (64 - 8 * self.width)),
            None => {
                let mut word = [0u8; 8];
                word[..self.width].copy_from_slice(&self.above[from..from + self.width]);
                u64::from_le_bytes(word)
            }
        };
        // The sum wraps only if the bytes are damaged.
        self.least.wrapping_add(above)
    }
}
