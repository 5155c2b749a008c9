//! Streams of numbers of 0 to 32 bits each, lowest bit first.

use vstream_vector::kernels::WIDTH_MAX;

use super::CodecError;

/// Appends numbers to a byte vector.
pub(super) struct BitWriter<'a> {
    out: &'a mut Vec<u8>,
    held: u64,
    bits: u32,
}

impl<'a> BitWriter<'a> {
    pub(super) fn new(out: &'a mut Vec<u8>) -> BitWriter<'a> {
        BitWriter { out, held: 0, bits: 0 }
    }

    /// Appends the low `width` bits of `value`. All other bits of `value` must be zero.
    #[inline]
    pub(super) fn put(&mut self, value: u32, width: u32) {
        debug_assert!(width <= WIDTH_MAX && u64::from(value) >> width == 0);
        self.held |= u64::from(value) << self.bits;
        self.bits += width;
        if self.bits >= 32 {
            self.out.extend_from_slice(&(self.held as u32).to_le_bytes());
            self.held >>= 32;
            self.bits -= 32;
        }
    }

    /// Pads the last byte with zeros.
    pub(super) fn finish(self) {
        let bytes = self.bits.div_ceil(8) as usize;
        self.out.extend_from_slice(&self.held.to_le_bytes()[..bytes]);
    }
}

/// Reads numbers from any bit position of a byte slice.
#[derive(Clone, Copy)]
pub(super) struct BitReader<'a> {
    bytes: &'a [u8],
    bit: usize,
}

impl<'a> BitReader<'a> {
    /// A reader that starts at bit `bit`.
    pub(super) fn new(bytes: &'a [u8], bit: usize) -> BitReader<'a> {
        BitReader { bytes, bit }
    }

    /// Reads the next `width` bits. Bits beyond the end are zeros; callers check the length before
    /// or after.
    #[inline]
    pub(super) fn take(&mut self, width: u32) -> u32 {
        debug_assert!(width <= WIDTH_MAX);
        self.take_wide(width) as u32
    }

    /// As [`BitReader::take`], of up to 57 bits.
    #[inline]
    pub(super) fn take_wide(&mut self, width: u32) -> u64 {
        let (byte, shift) = (self.bit / 8, self.bit % 8);
        self.bit += width as usize;
        let word = match self.bytes.get(byte..).and_then(|rest| rest.first_chunk::<8>()) {
            Some(word) => u64::from_le_bytes(*word),
            None => self.tail(byte),
        };
        (word >> shift) & ((1u64 << width) - 1)
    }

    #[cold]
    fn tail(&self, byte: usize) -> u64 {
        let rest = self.bytes.get(byte..).unwrap_or(&[]);
        let mut word = [0u8; 8];
        word[..rest.len()].copy_from_slice(rest);
        u64::from_le_bytes(word)
    }

    /// Errors: more bits were read than there are.
    pub(super) fn check(&self) -> Result<(), CodecError> {
        if self.bit > self.bytes.len() * 8 {
            return Err(CodecError("a stream of bits ends too early"));
        }
        Ok(())
    }

    /// Number of bytes from which at least one bit was read.
    pub(super) fn bytes_taken(&self) -> usize {
        self.bit.div_ceil(8)
    }
}
