//! Packs words as bit fields of a fixed width after subtracting the smallest word, either of the
//! block or of each dimension.
//!
//! ```text
//! u8 0 | u32 least | u8 width                                  every word: width bits
//! u8 1 | u32 least | u8 least width | per dimension:           words of a row: width_d bits each
//!        (least_d - least): least width bits, width_d: 6 bits
//! then the rows' fields one after another; each of the two streams fills its last byte with zeros
//! ```

use vstream_vector::cursor::ByteReader;
use vstream_vector::kernels::{unpack, unpack_fields, Fields, WIDTH_MAX};

use super::bits::{BitReader, BitWriter};
use super::CodecError;

const UNIFORM: u8 = 0;
const PER_DIMENSION: u8 = 1;
/// Bits of a field that holds a width from 0 to 32.
const WIDTH_BITS: u32 = 6;
/// Bytes of layout, least word and width.
const BODY_HEAD: usize = 1 + 4 + 1;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Field {
    least: u32,
    width: u32,
}

fn width_of(range: u32) -> u32 {
    u32::BITS - range.leading_zeros()
}

/// The fields of each dimension.
fn fields(words: &[u32], dimension: usize) -> Vec<Field> {
    let mut extremes = vec![(u32::MAX, 0u32); dimension];
    for row in words.chunks_exact(dimension) {
        for ((least, most), &word) in extremes.iter_mut().zip(row) {
            (*least, *most) = ((*least).min(word), (*most).max(word));
        }
    }
    let field = |(least, most): (u32, u32)| Field { least, width: width_of(most - least) };
    extremes.into_iter().map(field).collect()
}

/// Appends the words of whole rows in the shorter of the two layouts. If they would take `limit`
/// bytes or more, it returns false and appends nothing.
pub(super) fn encode(words: &[u32], dimension: usize, limit: usize, out: &mut Vec<u8>) -> bool {
    let rows = words.len() / dimension;
    let (least, most) =
        words.iter().fold((u32::MAX, 0), |(l, m), &word| (l.min(word), m.max(word)));
    let block = Field { least, width: width_of(most - least) };
    let fields = fields(words, dimension);
    let spread = fields.iter().map(|field| field.least).max().unwrap_or(0) - block.least;
    let least_width = width_of(spread);
    let row_bits: usize = fields.iter().map(|field| field.width as usize).sum();
    let uniform = (words.len() * block.width as usize).div_ceil(8);
    let head = (dimension * (least_width + WIDTH_BITS) as usize).div_ceil(8);
    let per_dimension = head + (rows * row_bits).div_ceil(8);
    if BODY_HEAD + uniform.min(per_dimension) >= limit {
        return false;
    }
    let tag = if uniform <= per_dimension { UNIFORM } else { PER_DIMENSION };
    out.push(tag);
    out.extend_from_slice(&block.least.to_le_bytes());
    if tag == UNIFORM {
        out.push(block.width as u8);
        let mut bits = BitWriter::new(out);
        words.iter().for_each(|&word| bits.put(word - block.least, block.width));
        bits.finish();
        return true;
    }
    out.push(least_width as u8);
    let mut bits = BitWriter::new(out);
    for field in &fields {
        bits.put(field.least - block.least, least_width);
        bits.put(field.width, WIDTH_BITS);
    }
    bits.finish();
    let mut bits = BitWriter::new(out);
    for row in words.chunks_exact(dimension) {
        let fields = row.iter().zip(&fields);
        fields.for_each(|(&word, field)| bits.put(word - field.least, field.width));
    }
    bits.finish();
    true
}

/// A packed body whose lengths are checked.
pub(super) struct Packed<'a> {
    least: u32,
    /// The field of each dimension, if they differ.
    fields: &'a Fields,
    width: u32,
    row_bits: usize,
    stream: &'a [u8],
}

impl<'a> Packed<'a> {
    /// * `bits`: largest number of bits that a word may use.
    /// * `fields`: a buffer, kept between calls because most of them read one row.
    pub(super) fn read(
        mut input: ByteReader<'a>,
        rows: usize,
        dimension: usize,
        bits: u32,
        fields: &'a mut Fields,
    ) -> Result<Packed<'a>, CodecError> {
        fields.replace(std::iter::empty());
        let (tag, least, width) = (input.u8()?, input.u32()?, u32::from(input.u8()?));
        if width > WIDTH_MAX.min(bits) {
            return Err(CodecError("a field is wider than its element"));
        }
        let row_bits = match tag {
            UNIFORM => dimension * width as usize,
            PER_DIMENSION => {
                let head = (dimension * (width + WIDTH_BITS) as usize).div_ceil(8);
                read_fields(input.bytes(head)?, dimension, least, width, bits, fields)?;
                fields.bits()
            }
            _ => return Err(CodecError("an unknown layout of packed fields")),
        };
        let stream = input.rest();
        if stream.len() != (rows * row_bits).div_ceil(8) {
            return Err(CodecError("the fields of a block do not fill it"));
        }
        Ok(Packed { least, fields, width, row_bits, stream })
    }

    /// Reads the words of a row.
    pub(super) fn row(&self, row: usize, words: &mut [u32]) {
        let from = row * self.row_bits;
        if self.fields.is_empty() {
            return unpack(self.stream, from, self.width, self.least, words);
        }
        unpack_fields(self.stream, from, self.fields, words);
    }
}

/// Reads the field of each dimension. Errors: one is wider than its element.
fn read_fields(
    head: &[u8],
    dimension: usize,
    least: u32,
    width: u32,
    bits: u32,
    fields: &mut Fields,
) -> Result<(), CodecError> {
    let mut reader = BitReader::new(head, 0);
    let mut fits = true;
    let lowest = (1u64 << width) - 1;
    fields.replace((0..dimension).map(|_| {
        let both = reader.take_wide(width + WIDTH_BITS);
        let of = (both >> width) as u32;
        fits &= of <= WIDTH_MAX.min(bits);
        (of.min(WIDTH_MAX), least.wrapping_add((both & lowest) as u32))
    }));
    fits.then_some(()).ok_or(CodecError("a field is wider than its element"))
}
