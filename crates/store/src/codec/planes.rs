//! Byte planes: the lowest bytes of all words, then the second bytes, and so on. zstd compresses
//! each plane unless that makes it longer.
//!
//! ```text
//! per plane, lowest byte first: u32 length of its bytes; the plane is as it is if that is the number of words
//! then the planes' bytes one after another
//! ```
//!
//! The highest plane is the last one with a byte that is not zero. The first byte of the body is
//! the number of planes.

use std::cell::RefCell;

use vstream_vector::cursor::ByteReader;

use super::CodecError;

/// A compromise of speed and size: on planes of a few thousand bytes higher levels gain nothing
/// measurable.
const LEVEL: i32 = 1;
/// Shortest match that zstd looks for. Exponents repeat by chance, and coding a short chance match
/// costs more than coding its bytes.
const MATCH_MIN: u32 = 7;

/// Compression state that all blocks share.
pub(super) struct Planes {
    compressor: zstd::bulk::Compressor<'static>,
    plane: Vec<u8>,
    coded: Vec<u8>,
}

/// A buffer that all blocks share.
pub(super) struct PlaneReader {
    plane: Vec<u8>,
}

impl Planes {
    pub(super) fn new() -> Planes {
        let mut compressor =
            zstd::bulk::Compressor::new(LEVEL).expect("a zstd context: out of memory");
        let set = compressor.set_parameter(zstd::zstd_safe::CParameter::MinMatch(MATCH_MIN));
        set.expect("a match length that zstd knows");
        Planes { compressor, plane: Vec::new(), coded: Vec::new() }
    }

    /// Appends the planes of the words.
    pub(super) fn encode(&mut self, words: &[u32], out: &mut Vec<u8>) {
        let all = words.iter().fold(0, |all, word| all | word);
        let planes = (u32::BITS - all.leading_zeros()).div_ceil(8);
        out.push(planes as u8);
        let head = out.len();
        out.resize(head + 4 * planes as usize, 0);
        for plane in 0..planes {
            self.plane.clear();
            self.plane.extend(words.iter().map(|word| (word >> (8 * plane)) as u8));
            self.coded.clear();
            self.coded.reserve(zstd::zstd_safe::compress_bound(words.len()));
            let coded = match self.compressor.compress_to_buffer(&self.plane, &mut self.coded) {
                Ok(n) if n < words.len() => &self.coded[..n],
                _ => &self.plane[..],
            };
            let offset = head + 4 * plane as usize;
            out[offset..offset + 4].copy_from_slice(&(coded.len() as u32).to_le_bytes());
            out.extend_from_slice(coded);
        }
    }
}

/// Decompresses one plane; returns its length, `None` if it is damaged or longer than `out`.
fn decompress(coded: &[u8], out: &mut [u8]) -> Option<usize> {
    thread_local! {
        /// It takes 95 KiB, and there is a [`PlaneReader`] for each segment that a thread searches.
        static DECOMPRESSOR: RefCell<zstd::bulk::Decompressor<'static>> = RefCell::new(
            zstd::bulk::Decompressor::new().expect("a zstd context: out of memory"),
        );
    }
    DECOMPRESSOR.with_borrow_mut(|context| context.decompress_to_buffer(coded, out).ok())
}

impl PlaneReader {
    pub(super) fn new() -> PlaneReader {
        PlaneReader { plane: Vec::new() }
    }

    /// Decodes what [`Planes::encode`] appended into `words`.
    ///
    /// * `bits`: largest number of bits that a word may use.
    pub(super) fn decode(
        &mut self,
        mut input: ByteReader<'_>,
        bits: u32,
        words: &mut [u32],
    ) -> Result<(), CodecError> {
        let planes = u32::from(input.u8()?);
        if planes > bits.div_ceil(8) {
            return Err(CodecError("more byte planes than an element has bytes"));
        }
        let mut lengths = input.split(4 * planes as usize)?;
        words.fill(0);
        for plane in 0..planes {
            let coded = input.bytes(lengths.u32()? as usize)?;
            let plane_bytes = if coded.len() == words.len() {
                coded
            } else {
                self.plane.resize(words.len(), 0);
                if decompress(coded, &mut self.plane) != Some(words.len()) {
                    return Err(CodecError("a byte plane does not decompress to its length"));
                }
                &self.plane[..]
            };
            let shift = 8 * plane;
            words.iter_mut().zip(plane_bytes).for_each(|(w, &byte)| *w |= u32::from(byte) << shift);
        }
        if !input.is_empty() {
            return Err(CodecError("bytes are left over after the byte planes"));
        }
        Ok(())
    }
}
