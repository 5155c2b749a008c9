//! Long work lets others compute first, and goes in short turns.

use vstream_engine::{work_done, yield_to_others};

/// What a point costs to parse or to write, in units of a turn: a turn is eight of them.
const POINT_UNITS: usize = 1 << 10;

/// This thread has long work, and lets others compute first from now on.
pub(crate) fn take_turns() {
    yield_to_others();
    vstream_engine::take_turns();
}

/// Called after each point of long work. Cost: next to nothing on threads whose work is short.
pub(crate) fn point_done() {
    work_done(POINT_UNITS);
}
