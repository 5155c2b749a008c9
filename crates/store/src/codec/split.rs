//! Splits floats into exponents, which get codes of a fixed width, and the other bits, which stay
//! unchanged.
//!
//! The upper byte of a word (the exponent, in the rotated form) takes few values. The most common
//! values have a code. The other ones are *rare*: their code is all ones, and the byte itself
//! follows at the end.
//!
//! ```text
//! u8 code bits c, 1..=4 | 2^c - 1 bytes: the common upper bytes | rows x u8: rare words of each row
//! | rows x dimension x (c + lower bits): code above, lower bits below | rare upper bytes, in order
//! ```

use vstream_vector::cursor::ByteReader;
use vstream_vector::kernels::{join, unpack, CODES};

use super::bits::BitWriter;
use super::CodecError;

const CODE_BITS_MAX: u32 = 4;
const _: () = assert!(1 << CODE_BITS_MAX == CODES);

/// Appends the words of whole rows, `bits` wide. False if they take `limit` bytes or more, or if a
/// row has more than 255 rare words; the content of `out` is then useless.
pub(super) fn encode(
    words: &[u32],
    dimension: usize,
    bits: u32,
    limit: usize,
    out: &mut Vec<u8>,
) -> bool {
    let lower = bits - 8;
    let mut counts = [0u32; 256];
    words.iter().for_each(|word| counts[(word >> lower) as usize] += 1);
    let mut common: Vec<u8> = (0..=255).collect();
    common.sort_by_key(|&byte| std::cmp::Reverse(counts[usize::from(byte)]));
    let rare = |c: u32| -> usize {
        common[(1 << c) - 1..].iter().map(|&byte| counts[usize::from(byte)] as usize).sum()
    };
    let code_bits = (1..=CODE_BITS_MAX)
        .min_by_key(|&c| words.len() * c as usize + 8 * (rare(c) + (1 << c)))
        .expect("a range that is not empty");
    let stream = (words.len() * (code_bits + lower) as usize).div_ceil(8);
    if (1 << code_bits) + words.len() / dimension + stream + rare(code_bits) >= limit {
        return false;
    }
    let common = &common[..(1 << code_bits) - 1];
    let escape = common.len() as u8;
    let mut codes = [escape; 256];
    common.iter().zip(0..).for_each(|(&byte, code)| codes[usize::from(byte)] = code);
    let code_of = |word: &u32| codes[(word >> lower) as usize];

    out.push(code_bits as u8);
    out.extend_from_slice(common);
    for row in words.chunks_exact(dimension) {
        let rare = row.iter().filter(|word| code_of(word) == escape).count();
        let Ok(rare) = u8::try_from(rare) else { return false };
        out.push(rare);
    }
    let mut stream = BitWriter::new(out);
    for word in words {
        let low = word & ((1 << lower) - 1);
        stream.put(u32::from(code_of(word)) << lower | low, code_bits + lower);
    }
    stream.finish();
    let rare = words.iter().filter(|word| code_of(word) == escape);
    out.extend(rare.map(|word| (word >> lower) as u8));
    true
}

/// A split body whose lengths are checked.
pub(super) struct Split<'a> {
    code_bits: u32,
    lower: u32,
    dimension: usize,
    /// The upper bytes of all codes; zero for rare words.
    upper: [u8; CODES],
    rare_counts: &'a [u8],
    stream: &'a [u8],
    rare: &'a [u8],
}

impl<'a> Split<'a> {
    pub(super) fn read(
        mut input: ByteReader<'a>,
        rows: usize,
        dimension: usize,
        bits: u32,
    ) -> Result<Split<'a>, CodecError> {
        let code_bits = u32::from(input.u8()?);
        if !(1..=CODE_BITS_MAX).contains(&code_bits) || !matches!(bits, 16 | 32) {
            return Err(CodecError("the width of exponent codes is out of range"));
        }
        let lower = bits - 8;
        let common = input.bytes((1 << code_bits) - 1)?;
        let rare_counts = input.bytes(rows)?;
        let stream_bytes = (rows * dimension * (code_bits + lower) as usize).div_ceil(8);
        let stream = input.bytes(stream_bytes)?;
        let rare = input.rest();
        if rare.len() != rare_counts.iter().map(|&n| usize::from(n)).sum::<usize>() {
            return Err(CodecError("the rare exponents of a block do not add up"));
        }
        let mut upper = [0; CODES];
        upper[..common.len()].copy_from_slice(common);
        Ok(Split { code_bits, lower, dimension, upper, rare_counts, stream, rare })
    }

    /// Reads the words of a row. Only damaged bytes contain more rare words than the row's count; these
    /// decode to zero above.
    pub(super) fn row(&self, row: usize, words: &mut [u32]) {
        let width = self.code_bits + self.lower;
        unpack(self.stream, row * self.dimension * width as usize, width, 0, words);
        let before = |n: usize| self.rare_counts[..n].iter().map(|&n| usize::from(n)).sum();
        let rare = &self.rare[before(row)..before(row + 1)];
        join(words, self.lower, &self.upper, (1 << self.code_bits) - 1, rare);
    }
}
