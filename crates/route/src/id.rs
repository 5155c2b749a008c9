//! The encoder `id`, and the unplaced range: a hash of the record's id.

use crate::random::mix;

/// The code of a record that is placed by its id: uniform on the line, the same for ever.
pub(crate) fn code(id: u64) -> u64 {
    // Added first because the finaliser maps zero to zero.
    mix(id.wrapping_add(0x9e37_79b9_7f4a_7c15))
}
