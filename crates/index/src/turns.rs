//! Long work in short turns, where there are more threads than processors.
//!
//! A thread that waits for its turn may wait for milliseconds, which is longer than a query takes, also
//! if the thread that has the turn is one that lets others compute first. So threads with long work
//! offer their turn after each piece of it.

use std::cell::Cell;

/// Units of work after which a turn is offered: some 100 us.
const TURN: usize = 1 << 13;

thread_local! {
    /// Units since this thread had its turn; `None` for threads whose work is short.
    static SINCE: Cell<Option<usize>> = const { Cell::new(None) };
}

/// This thread has long work from now on, and offers its turn as it goes.
pub fn take_turns() {
    SINCE.set(Some(0));
}

/// Called after a piece of work, which may be long. Cost: a comparison on threads whose work is short.
///
/// * `units`: some 10 ns each, such as rows whose codes were scanned.
pub fn work_done(units: usize) {
    let Some(since) = SINCE.get() else { return };
    let is_over = since + units >= TURN;
    SINCE.set(Some(if is_over { 0 } else { since + units }));
    if is_over {
        std::thread::yield_now();
    }
}
