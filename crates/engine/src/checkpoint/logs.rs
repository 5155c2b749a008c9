//! The lengths of the logs that the manifest names.

use std::collections::VecDeque;

/// A number of logs and their bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Logs {
    pub(super) count: u64,
    pub(super) bytes: u64,
}

/// The logs in order, each with its number and its bytes of groups.
pub(super) struct LogSizes {
    logs: VecDeque<(u64, u64)>,
    bytes: u64,
}

impl LogSizes {
    /// * `logs`: number and bytes of each, in order; at least one.
    pub(super) fn new(logs: impl IntoIterator<Item = (u64, u64)>) -> LogSizes {
        let logs: VecDeque<(u64, u64)> = logs.into_iter().collect();
        let bytes = logs.iter().map(|(_, bytes)| bytes).sum();
        LogSizes { logs, bytes }
    }

    /// Counts bytes of the newest log.
    pub(super) fn grow(&mut self, bytes: u64) {
        self.logs.back_mut().expect("a log").1 += bytes;
        self.bytes += bytes;
    }

    /// Counts the next log, which is empty.
    pub(super) fn begin(&mut self, number: u64) {
        self.logs.push_back((number, 0));
    }

    /// Forgets the logs before this number.
    pub(super) fn drop_before(&mut self, number: u64) {
        while self.logs.front().is_some_and(|(log, _)| *log < number) {
            let (_, bytes) = self.logs.pop_front().expect("a log");
            self.bytes -= bytes;
        }
    }

    /// Bytes of all logs.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The logs from this number on. Cost: O(their count).
    pub(super) fn since(&self, number: u64) -> Logs {
        let since = self.logs.iter().rev().take_while(|(log, _)| *log >= number);
        since.fold(Logs::default(), |sum, (_, bytes)| Logs {
            count: sum.count + 1,
            bytes: sum.bytes + bytes,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::{LogSizes, Logs};

    #[test]
    fn logs_are_counted_until_they_are_dropped() {
        let mut logs = LogSizes::new([(3, 10), (5, 20)]);
        logs.grow(5);
        logs.begin(6);
        logs.grow(7);
        assert_eq!((logs.bytes(), logs.since(5)), (42, Logs { count: 2, bytes: 32 }));
        assert_eq!(logs.since(7), Logs::default());
        logs.drop_before(6);
        assert_eq!((logs.bytes(), logs.since(0)), (7, Logs { count: 1, bytes: 7 }));
    }
}
