//! The paper's codec: each number is coded as its exclusive or with the same dimension of the row
//! before (Gorilla).
//!
//! The body is a stream of bits, row by row and within a row dimension by dimension. The first row
//! is not coded. For each other number:
//!
//! ```text
//! 0                                     the same as in the row before
//! 1 0 | the window's bits               fits the dimension's window of meaningful bits
//! 1 1 | 5 bits trailing zeros | 5 bits length - 1 | that many bits      a new window
//! ```
//!
//! Pelkonen and others, "Gorilla", VLDB 2015. VStream (PVLDB 18(6), 2025) applies it to each
//! dimension; its byte layout with bitmaps per row is not reproduced here. To decode a row, all
//! earlier rows are needed.

use super::bits::{BitReader, BitWriter};
use super::CodecError;

#[derive(Clone, Copy, Debug, Default)]
struct Window {
    /// Number of meaningful bits; 0 before the first window.
    length: u32,
    /// Number of zeros below the meaningful bits.
    trailing: u32,
}

/// Appends the words of whole rows, `bits` wide.
pub(super) fn encode(words: &[u32], dimension: usize, bits: u32, out: &mut Vec<u8>) {
    let mut stream = BitWriter::new(out);
    let mut windows = vec![Window::default(); dimension];
    let (first, _) = words.split_at(dimension.min(words.len()));
    first.iter().for_each(|&word| stream.put(word, bits));
    for (row, before) in words.chunks_exact(dimension).skip(1).zip(words.chunks_exact(dimension)) {
        for ((&word, &last), window) in row.iter().zip(before).zip(&mut windows) {
            let change = word ^ last;
            if change == 0 {
                stream.put(0, 1);
                continue;
            }
            let inside = window.length > 0
                && (u64::from(change) >> window.trailing) >> window.length == 0
                && change.trailing_zeros() >= window.trailing;
            if inside {
                stream.put(0b01, 2);
            } else {
                let trailing = change.trailing_zeros();
                let length = u32::BITS - change.leading_zeros() - trailing;
                *window = Window { length, trailing };
                stream.put(0b11, 2);
                stream.put(trailing, 5);
                stream.put(length - 1, 5);
            }
            stream.put(change >> window.trailing, window.length);
        }
    }
    stream.finish();
}

/// Decodes what [`encode`] appended into `words`, which are whole rows.
pub(super) fn decode(
    bytes: &[u8],
    dimension: usize,
    bits: u32,
    words: &mut [u32],
) -> Result<(), CodecError> {
    let mut stream = BitReader::new(bytes, 0);
    let mut windows = vec![Window::default(); dimension];
    for index in 0..words.len() {
        if index < dimension {
            words[index] = stream.take(bits);
            continue;
        }
        let (last, window) = (words[index - dimension], &mut windows[index % dimension]);
        words[index] = last;
        if stream.take(1) == 0 {
            continue;
        }
        if stream.take(1) == 1 {
            let (trailing, length) = (stream.take(5), stream.take(5) + 1);
            *window = Window { length, trailing };
        }
        if window.length == 0 || window.trailing + window.length > bits {
            return Err(CodecError("a window of the xor codec is out of range"));
        }
        words[index] = last ^ stream.take(window.length) << window.trailing;
    }
    stream.check()?;
    if stream.bytes_taken() != bytes.len() {
        return Err(CodecError("bytes are left over after the xor stream"));
    }
    Ok(())
}
