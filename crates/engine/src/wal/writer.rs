//! Writes groups to a log and syncs it, without threads.

use std::collections::VecDeque;

use vstream_store::{FileStore, LogFile};

use super::format::{encode_header, Group, LogIdentity};
use crate::defect::{self, Defect};
use crate::error::Error;
use crate::layout::log_name;

/// Appends to the newest log.
pub(crate) struct LogWriter {
    file: LogFile,
    log: LogIdentity,
    /// Checksum of the last group, or of the log's header.
    previous: u64,
    /// LSN of the last record that was written.
    written: u64,
    /// LSN of the last record that is on the disk.
    synced: u64,
    sealed: Vec<u8>,
}

/// The end of the whole part of a log.
pub(crate) struct LogEnd {
    pub(crate) number: u64,
    /// LSN of the last record of its whole part, or of the logs before.
    pub(crate) lsn: u64,
    /// Length of its whole part.
    pub(crate) bytes: u64,
    /// Length of the file.
    pub(crate) found: u64,
    /// Checksum of the last whole group, or of the header.
    pub(crate) previous: u64,
}

/// An empty log, ready for writes.
pub(crate) struct Spare {
    file: LogFile,
    log: LogIdentity,
    previous: u64,
}

impl Spare {
    /// Makes an empty log whose header is on the disk. Its first record will have LSN `lsn + 1`.
    pub(crate) fn create(store: &FileStore, log: LogIdentity, lsn: u64) -> Result<Spare, Error> {
        let name = log_name(log.number);
        // A failed attempt may have left a file of this name; no manifest names it.
        vstream_store::Store::delete(store, &name)?;
        let mut file = store.create_log(&name)?;
        let (header, previous) = encode_header(log, lsn + 1);
        file.append(&header)?;
        file.sync()?;
        Ok(Spare { file, log, previous })
    }

    /// Returns the writer of this log, which is still empty.
    pub(super) fn writer(self, lsn: u64) -> LogWriter {
        let Spare { file, log, previous } = self;
        LogWriter { file, log, previous, written: lsn, synced: lsn, sealed: Vec::new() }
    }
}

impl LogWriter {
    /// Continues in the last log after the last recovered record. Cuts every log at the end of its
    /// whole part, and syncs it.
    ///
    /// * `known`: LSN of the last record that the manifest knows to be on the disk.
    /// * `recovered`: LSN of the last record that was recovered.
    /// * `ends`: the ends of the logs, in order.
    pub(crate) fn reopen(
        store: &FileStore,
        collection: u64,
        known: u64,
        recovered: u64,
        ends: &[LogEnd],
    ) -> Result<LogWriter, Error> {
        let mut last = None;
        for end in ends {
            let log = LogIdentity { collection, number: end.number };
            let cut = if defect::active(Defect::TailNotCut) { end.found } else { end.bytes };
            let is_sure = end.lsn <= known || defect::active(Defect::PageCacheTrusted);
            let sure = if is_sure { cut } else { 0 };
            let file = store.reopen_log(&log_name(end.number), cut, sure)?;
            last = Some(Spare { file, log, previous: end.previous });
        }
        Ok(last.expect("a manifest names a log").writer(recovered))
    }

    /// Writes groups in order: all of them or, if the disk is full, none.
    pub(crate) fn write(&mut self, groups: &mut VecDeque<Group>) -> Result<(), Error> {
        let mut sealed = std::mem::take(&mut self.sealed);
        if !defect::active(Defect::GroupKeptBack) {
            sealed.clear();
        }
        let held_bytes = sealed.len();
        let mut previous = self.previous;
        for group in groups.iter_mut() {
            let offset = self.file.bytes() + sealed.len() as u64;
            previous = group.seal(self.log.address(offset), self.synced, previous, &mut sealed);
        }
        let appended = if defect::active(Defect::GroupKeptBack) {
            let appended = self.file.append(&sealed[..held_bytes]);
            sealed.drain(..held_bytes);
            appended
        } else {
            self.file.append(&sealed)
        };
        self.sealed = sealed;
        if appended.is_err() && defect::active(Defect::FullDiskForgotten) {
            groups.clear();
        }
        appended?;
        self.previous = previous;
        self.written = groups.back().map_or(self.written, Group::last_lsn);
        groups.clear();
        Ok(())
    }

    /// Forces all bytes that were written to the disk.
    pub(crate) fn sync(&mut self) -> Result<(), Error> {
        if !defect::active(Defect::SyncSkipped) && self.synced < self.written {
            let synced = self.file.sync();
            if !defect::active(Defect::SyncFailureIgnored) {
                synced?;
            }
        }
        self.synced = self.written;
        Ok(())
    }

    /// Syncs this log, and continues in the next one.
    pub(crate) fn rotate(&mut self, next: Spare) -> Result<(), Error> {
        self.sync()?;
        *self = next.writer(self.written);
        Ok(())
    }

    /// True if no attempt to write can succeed any more.
    pub(crate) fn is_poisoned(&self) -> bool {
        self.file.is_poisoned()
    }

    /// True if records wait for a sync.
    pub(crate) fn has_unsynced(&self) -> bool {
        self.synced < self.written
    }

    /// Returns the LSN of the last record that is on the disk.
    pub(crate) fn synced(&self) -> u64 {
        self.synced
    }
}
