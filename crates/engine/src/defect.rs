//! Deliberate defects that the crash lab must catch. Without the feature `defects`, which only
//! tests switch on, none is ever active and the compiler removes every trace of them.

/// A defect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Defect {
    /// The log says that it is synced and is not.
    SyncSkipped,
    /// Writes are acknowledged although the sync failed.
    SyncFailureIgnored,
    /// Groups are applied without a look at their checksum.
    ChecksumIgnored,
    /// Recovery is off by one: it leaves out the last group of each log.
    LastGroupSkipped,
    /// The log says of every delete that it removed nothing.
    DeletesNotLogged,
    /// What follows the last whole group stays in the log, and new groups come after it.
    TailNotCut,
    /// What is read after a restart counts as synced.
    PageCacheTrusted,
    /// Old logs are removed before the manifest that makes them superfluous is published.
    LogsRemovedEarly,
    /// The manifest is published before the base image that it names is written.
    ManifestBeforeBase,
    /// Damage in the middle of a log is taken for its torn end.
    DamageTakenForTail,
    /// What did not fit on the disk is forgotten instead of being written later.
    FullDiskForgotten,
    /// Nobody compares what was recovered with what the manifest says was there.
    WatermarkIgnored,
    /// A flush publishes its segment without the tombstones that older segments have by then.
    MarksNotPersisted,
    /// A merged segment is published without the tombstones that its sources got meanwhile.
    MergeForgetsMarks,
    /// Rows that a merge takes out of a segment live on there too.
    TakenRowsStay,
    /// Rows that die while they are flushed live again in their segment.
    FrozenDeathsForgotten,
    /// A group is acknowledged when it is handed to the log, which keeps it until the next one.
    GroupKeptBack,
    /// Updates do not reach the log.
    UpdatesNotLogged,
    /// Updates that are read from a log leave the payload as it was.
    PayloadUpdatesSkipped,
    /// Checkpoints do not write the deletes that are remembered.
    RememberedNotPersisted,
    /// Records are applied to rows of a part of the base image that has them already.
    PartsReplayedOver,
    /// Of a row that moved from shard to shard the older part of the base image counts.
    OlderPartCounts,
    /// Codes in a segment stand one row beside their own.
    #[cfg(feature = "defects")]
    CodesMisplaced,
    /// Approximate search in a segment finds rows that are gone.
    #[cfg(feature = "defects")]
    DeadFound,
    /// A segment gives rows the values of others.
    #[cfg(feature = "defects")]
    ValuesMisplaced,
    /// A segment gives rows the payloads of others.
    #[cfg(feature = "defects")]
    PayloadsMisplaced,
    /// A segment gives rows the ids of others.
    #[cfg(feature = "defects")]
    NamesMisplaced,
    /// Summaries of leaves lack values that rows have.
    #[cfg(feature = "defects")]
    SummariesIncomplete,
}

#[cfg(feature = "defects")]
impl Defect {
    /// All of them.
    pub const ALL: [Defect; 28] = [
        Defect::SyncSkipped,
        Defect::SyncFailureIgnored,
        Defect::ChecksumIgnored,
        Defect::LastGroupSkipped,
        Defect::DeletesNotLogged,
        Defect::TailNotCut,
        Defect::PageCacheTrusted,
        Defect::LogsRemovedEarly,
        Defect::ManifestBeforeBase,
        Defect::DamageTakenForTail,
        Defect::FullDiskForgotten,
        Defect::WatermarkIgnored,
        Defect::MarksNotPersisted,
        Defect::MergeForgetsMarks,
        Defect::TakenRowsStay,
        Defect::FrozenDeathsForgotten,
        Defect::GroupKeptBack,
        Defect::UpdatesNotLogged,
        Defect::PayloadUpdatesSkipped,
        Defect::RememberedNotPersisted,
        Defect::PartsReplayedOver,
        Defect::OlderPartCounts,
        Defect::CodesMisplaced,
        Defect::DeadFound,
        Defect::ValuesMisplaced,
        Defect::PayloadsMisplaced,
        Defect::NamesMisplaced,
        Defect::SummariesIncomplete,
    ];

    /// Those that only rows with fields show.
    pub const SHOWN_BY_FIELDS: [Defect; 7] = [
        Defect::UpdatesNotLogged,
        Defect::PayloadUpdatesSkipped,
        Defect::RememberedNotPersisted,
        Defect::ValuesMisplaced,
        Defect::PayloadsMisplaced,
        Defect::NamesMisplaced,
        Defect::SummariesIncomplete,
    ];

    /// Those that a death of the process alone shows: what it had written, the operating system
    /// writes.
    pub const SHOWN_BY_KILLS: [Defect; 6] = [
        Defect::LastGroupSkipped,
        Defect::DeletesNotLogged,
        Defect::GroupKeptBack,
        Defect::LogsRemovedEarly,
        Defect::ManifestBeforeBase,
        Defect::MarksNotPersisted,
    ];

    /// The same defect, as segments know it.
    fn in_segments(self) -> Option<vstream_segment::Defect> {
        match self {
            Defect::CodesMisplaced => Some(vstream_segment::Defect::CodesMisplaced),
            Defect::DeadFound => Some(vstream_segment::Defect::DeadFound),
            Defect::ValuesMisplaced => Some(vstream_segment::Defect::ValuesMisplaced),
            Defect::PayloadsMisplaced => Some(vstream_segment::Defect::PayloadsMisplaced),
            Defect::NamesMisplaced => Some(vstream_segment::Defect::NamesMisplaced),
            Defect::SummariesIncomplete => Some(vstream_segment::Defect::SummariesIncomplete),
            _ => None,
        }
    }

    /// The defect of a name, as `Debug` writes it.
    pub fn from_name(name: &str) -> Option<Defect> {
        Defect::ALL.into_iter().find(|defect| format!("{defect:?}") == name)
    }
}

#[cfg(feature = "defects")]
mod switch {
    use super::Defect;
    use std::cell::Cell;
    use std::sync::OnceLock;

    thread_local! {
        static ACTIVE: Cell<Option<Defect>> = const { Cell::new(None) };
    }

    static EVERYWHERE: OnceLock<Defect> = OnceLock::new();

    /// Gives this thread's engines a defect, or none.
    pub fn set_defect(defect: Option<Defect>) {
        ACTIVE.set(defect);
        vstream_segment::set_defect(defect.and_then(Defect::in_segments));
    }

    /// Gives the engines of all threads a defect, for as long as the process lives. The first one
    /// stays.
    pub fn set_defect_everywhere(defect: Defect) {
        let _ = EVERYWHERE.set(defect);
        if let Some(defect) = defect.in_segments() {
            vstream_segment::set_defect_everywhere(defect);
        }
    }

    pub(crate) fn active(defect: Defect) -> bool {
        ACTIVE.get() == Some(defect) || EVERYWHERE.get() == Some(&defect)
    }
}

#[cfg(feature = "defects")]
pub(crate) use switch::active;
#[cfg(feature = "defects")]
pub use switch::{set_defect, set_defect_everywhere};

#[cfg(not(feature = "defects"))]
pub(crate) const fn active(_defect: Defect) -> bool {
    false
}
