//! The encoder `id`, which the unplaced template uses too: a hash of the record's id.

use crate::random::mix;

/// The code of a record that is placed by its id. Codes are uniform on the line and never change.
pub(crate) fn code(id: u64) -> u64 {
    // The finaliser maps zero to zero, so a constant is added first.
    mix(id.wrapping_add(0x9e37_79b9_7f4a_7c15))
}
