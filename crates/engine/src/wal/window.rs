//! A window on a file, for reading from front to back in large pieces.

use vstream_store::{Buffer, Range, ReadAt};

use crate::error::Error;

/// Bytes per read, unless the caller asks for more.
const READ_BYTES: usize = 1 << 20;

/// The part of a file that was read last.
pub(crate) struct Window<'a> {
    file: &'a dyn ReadAt,
    start: u64,
    held: Buffer,
}

impl<'a> Window<'a> {
    pub(crate) fn new(file: &'a dyn ReadAt) -> Window<'a> {
        Window { file, start: 0, held: Buffer::default() }
    }

    /// Returns `bytes` bytes from `offset`, or fewer where the file ends.
    pub(crate) fn get(&mut self, offset: u64, bytes: usize) -> Result<&[u8], Error> {
        let left = self.file.bytes().saturating_sub(offset);
        let wanted = bytes.min(usize::try_from(left).unwrap_or(usize::MAX));
        let held_end = self.start + self.held.len() as u64;
        if offset < self.start || offset + wanted as u64 > held_end {
            let bytes = wanted.max(READ_BYTES.min(usize::try_from(left).unwrap_or(usize::MAX)));
            self.held = self.file.read(Range { offset, bytes })?;
            self.start = offset;
        }
        let at = (offset - self.start) as usize;
        Ok(&self.held[at..at + wanted])
    }
}
