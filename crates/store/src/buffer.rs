//! Bytes that were read, at an address that direct input and output accepts.

use std::ops::Deref;

/// Direct reads need offsets, lengths and addresses that are multiples of this.
pub(crate) const ALIGNMENT: usize = 4096;

/// Bytes that were read. It dereferences to a slice. Moving it copies no bytes.
#[derive(Clone, Debug, Default)]
pub struct Buffer {
    bytes: Vec<u8>,
    start: usize,
    len: usize,
}

impl Buffer {
    /// A buffer of `len` zeros whose address is a multiple of 4,096.
    pub(crate) fn aligned(len: usize) -> Buffer {
        let bytes = vec![0; len + ALIGNMENT];
        let start = bytes.as_ptr().align_offset(ALIGNMENT);
        Buffer { bytes, start, len }
    }

    /// The bytes, mutable.
    pub(crate) fn as_mut(&mut self) -> &mut [u8] {
        &mut self.bytes[self.start..self.start + self.len]
    }

    /// Keeps `len` bytes from offset `skip`. Both must lie within the buffer.
    pub(crate) fn narrow(mut self, skip: usize, len: usize) -> Buffer {
        assert!(skip + len <= self.len, "a part of the buffer");
        self.start += skip;
        self.len = len;
        self
    }

    /// Bytes of memory that the buffer uses.
    pub fn capacity(&self) -> usize {
        self.bytes.capacity()
    }
}

impl From<Vec<u8>> for Buffer {
    fn from(bytes: Vec<u8>) -> Buffer {
        let len = bytes.len();
        Buffer { bytes, start: 0, len }
    }
}

impl Deref for Buffer {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.bytes[self.start..self.start + self.len]
    }
}
