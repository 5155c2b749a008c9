//! The defect of bytes that are no segment.

use std::fmt;

use vstream_vector::cursor::Truncated;

/// The defect of bytes that are no segment; the caller adds file and offset.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Malformed(pub(crate) &'static str);

impl fmt::Display for Malformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

impl From<Truncated> for Malformed {
    fn from(_: Truncated) -> Malformed {
        Malformed("a block is too short")
    }
}
