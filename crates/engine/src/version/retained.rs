//! Logs that stay for followers after a checkpoint has replaced them.

use std::collections::VecDeque;

use vstream_store::Store;

use super::directory::Directory;
use super::manifest::Manifest;
use crate::layout::log_name;

/// Pins the newest logs, so that a checkpoint does not take them from followers that lag behind. The
/// bytes are bounded: a follower that lags further begins again from files.
pub(super) struct RetainedLogs {
    /// Bytes of logs that the manifest does not name any more.
    bytes_max: u64,
    /// Ascending; all are pinned.
    logs: VecDeque<u64>,
}

impl RetainedLogs {
    /// Pins the logs of a manifest.
    pub(super) fn of(directory: &Directory, manifest: &Manifest, bytes_max: u64) -> RetainedLogs {
        let logs: VecDeque<u64> = manifest.logs.iter().copied().collect();
        directory.pin(&names(&logs));
        RetainedLogs { bytes_max, logs }
    }

    /// The logs that are there, ascending.
    pub(super) fn numbers(&self) -> Vec<u64> {
        self.logs.iter().copied().collect()
    }

    /// Pins a log that was begun.
    pub(super) fn begin(&mut self, directory: &Directory, number: u64) {
        directory.pin(&[log_name(number)]);
        self.logs.push_back(number);
    }

    /// Lets go of the oldest logs above the limit. If the directory cannot be listed, they stay until the
    /// next call.
    pub(super) fn trim(&mut self, directory: &Directory, manifest: &Manifest) {
        let Ok(listed) = directory.store.list("log-") else { return };
        let bytes_of = |number: u64| {
            let name = log_name(number);
            listed.iter().find(|entry| entry.name == name).map_or(0, |entry| entry.bytes)
        };
        let old = self.logs.iter().filter(|number| !manifest.logs.contains(number));
        let mut bytes: u64 = old.map(|&number| bytes_of(number)).sum();
        while let Some(&oldest) = self.logs.front() {
            if bytes <= self.bytes_max || manifest.logs.contains(&oldest) {
                return;
            }
            bytes -= bytes_of(oldest);
            self.logs.pop_front();
            directory.unpin(&[log_name(oldest)]);
        }
    }

    /// Lets go of all.
    pub(super) fn release(self, directory: &Directory) {
        directory.unpin(&names(&self.logs));
    }
}

fn names(logs: &VecDeque<u64>) -> Vec<String> {
    logs.iter().map(|&number| log_name(number)).collect()
}
