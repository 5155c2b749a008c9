//! Long work in short turns, where there are more threads than processors.
//!
//! A thread that waits for its turn may wait for milliseconds, which is longer than a query takes, also
//! if the thread that has the turn is one that lets others compute first. So threads with long work
//! offer their turn after each few points.

use std::cell::Cell;

use vstream_engine::yield_to_others;

/// Points after which a turn is offered: some 100 us of work.
const POINTS: u32 = 8;

thread_local! {
    /// Points since this thread had its turn; `None` for threads whose work is short.
    static SINCE: Cell<Option<u32>> = const { Cell::new(None) };
}

/// This thread has long work, and lets others compute first from now on.
pub(crate) fn take_turns() {
    yield_to_others();
    SINCE.set(Some(0));
}

/// Called after each point of long work. Cost: nothing on threads whose work is short.
pub(crate) fn point_done() {
    let Some(since) = SINCE.get() else { return };
    let is_over = since + 1 >= POINTS;
    SINCE.set(Some(if is_over { 0 } else { since + 1 }));
    if is_over {
        std::thread::yield_now();
    }
}
