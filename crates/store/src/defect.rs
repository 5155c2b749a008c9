//! Deliberate defects of remote stores that the crash lab must catch. Without the feature
//! `defects`, which only tests switch on, none is ever active and the compiler removes every trace
//! of them.

/// A defect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Defect {
    /// A snapshot is listed before its files are sent.
    ListBeforeFiles,
    /// A request to write that gave no answer counts as done.
    DoubtTrusted,
    /// What is missing of a range that came in part counts as zeros.
    ShortRangeFilled,
    /// Nobody compares a fetched file with what was pushed.
    FetchUnchecked,
    /// A fetched file gets its name before its bytes are on the disk.
    FetchUnsynced,
    /// A restore says that it is done while files are missing.
    MarkRemovedEarly,
}

#[cfg(feature = "defects")]
impl Defect {
    /// All of them.
    pub const ALL: [Defect; 6] = [
        Defect::ListBeforeFiles,
        Defect::DoubtTrusted,
        Defect::ShortRangeFilled,
        Defect::FetchUnchecked,
        Defect::FetchUnsynced,
        Defect::MarkRemovedEarly,
    ];
}

#[cfg(feature = "defects")]
mod switch {
    use super::Defect;
    use std::cell::Cell;

    thread_local! {
        static ACTIVE: Cell<Option<Defect>> = const { Cell::new(None) };
    }

    /// Gives this thread's stores a defect, or none.
    pub fn set_defect(defect: Option<Defect>) {
        ACTIVE.set(defect);
    }

    pub(crate) fn active(defect: Defect) -> bool {
        ACTIVE.get() == Some(defect)
    }
}

#[cfg(feature = "defects")]
pub(crate) use switch::active;
#[cfg(feature = "defects")]
pub use switch::set_defect;

#[cfg(not(feature = "defects"))]
pub(crate) const fn active(_defect: Defect) -> bool {
    false
}
