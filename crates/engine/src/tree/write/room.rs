//! Whether there is room in memory for another row, and how much a writer slows down before there is none.

use std::time::Duration;

/// Time that the writer waits at a time while memory is full and being flushed, or a merge runs.
pub(super) const WAIT: Duration = Duration::from_millis(5);
/// Time that it waits at a time where nearly no room is left, and the shortest that is worth a wait.
const WAIT_MOST: Duration = Duration::from_millis(20);
const WAIT_LEAST: Duration = Duration::from_micros(200);
/// Least bytes of the hard limit to memory: an empty index alone exceeds a lower one.
const WALL_MIN: u64 = 1 << 20;

/// Room in memory for another row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Room {
    Enough,
    /// The memtable is full, or it fills while the immutable memtable is written: the writer slows down. It
    /// waits so long at a time, the longer the less room is left, so that it hardly ever meets the hard limit
    /// and stands still there.
    Little(Duration),
    /// Another row would exceed the hard limit: the immutable memtable must be written first.
    None,
}

/// The hard limit to both memtables together, where `limit` bytes make one full. Memory is counted now and then:
/// the slack covers what is written between two counts.
pub(super) fn wall(limit: u64) -> u64 {
    (limit * 2 - limit / 16).max(WALL_MIN)
}

impl Room {
    /// The room beside the bytes in use.
    ///
    /// * `used`: bytes of the memtable as counted, and with what was written since; `immutable`: bytes of the
    ///   immutable memtable, 0 if there is none.
    pub(super) fn of((counted, used): (u64, u64), immutable: u64, limit: u64) -> Room {
        let wall = wall(limit);
        if counted + immutable >= wall {
            return Room::None;
        }
        match slow_down(used, immutable, wall) {
            pause if pause >= WAIT_LEAST => Room::Little(pause),
            _ if used >= limit => Room::Little(WAIT),
            _ => Room::Enough,
        }
    }
}

/// How long the writer waits at a time while the immutable memtable is written: not at all up to three quarters
/// of the room beside it, then by the square of what is filled of the last, up to [`WAIT_MOST`].
fn slow_down(used: u64, immutable: u64, wall: u64) -> Duration {
    let quarter = wall.saturating_sub(immutable) / 4;
    if immutable == 0 || used <= 3 * quarter {
        return Duration::ZERO;
    }
    let filled = (used - 3 * quarter) as f64 / quarter.max(1) as f64;
    WAIT_MOST.mul_f64(filled.min(1.0).powi(2))
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT: u64 = 12 << 20;

    /// The room with so many bytes in each memtable.
    fn room(used: u64, immutable: u64) -> Room {
        Room::of((used, used), immutable, LIMIT)
    }

    #[test]
    fn a_full_memtable_is_flushed_and_nobody_waits_before_it_is() {
        assert_eq!(room(0, 0), Room::Enough);
        assert_eq!(room(LIMIT - 1, 0), Room::Enough);
        assert_eq!(room(LIMIT, 0), Room::Little(WAIT));
        assert_eq!(room(wall(LIMIT), 0), Room::None);
    }

    #[test]
    fn the_writer_slows_down_steadily_beside_a_flush_and_stops_at_the_limit_alone() {
        let left = wall(LIMIT) - LIMIT;
        assert_eq!(room(left / 2, LIMIT), Room::Enough);
        let mut last = Duration::ZERO;
        for used in (left * 3 / 4..left).step_by(64 << 10) {
            let pause = match room(used, LIMIT) {
                Room::Enough => Duration::ZERO,
                Room::Little(pause) => pause,
                Room::None => panic!("{used} of {left} bytes"),
            };
            assert!((last..=WAIT_MOST).contains(&pause), "{pause:?} after {last:?}");
            last = pause;
        }
        assert!(last > WAIT_MOST / 2, "{last:?}");
        assert_eq!(room(left, LIMIT), Room::None);
    }

    #[test]
    fn rows_since_the_last_count_slow_the_writer_down_but_do_not_stop_it() {
        let left = wall(LIMIT) - LIMIT;
        assert_eq!(Room::of((left / 2, 2 * left), LIMIT, LIMIT), Room::Little(WAIT_MOST));
        // A limit so low that an empty index exceeds it leaves room all the same.
        assert_eq!(Room::of((1 << 10, 1 << 10), 0, 1 << 12), Room::Enough);
    }
}
