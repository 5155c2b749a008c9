//! Deliberate defects of remote stores that the crash lab must detect. Only tests switch on the
//! feature `defects`. Without it no defect is ever active, and the compiler removes these checks.

/// One deliberate defect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Defect {
    /// `push` lists a snapshot before it sends the files.
    ListBeforeFiles,
    /// A write request without an answer counts as done.
    DoubtTrusted,
    /// The missing rest of a range that came in part counts as zeros.
    ShortRangeFilled,
    /// A fetched file is not compared with the pushed checksum.
    FetchUnchecked,
    /// A fetched file gets its name before its bytes are on the disk.
    FetchUnsynced,
    /// A restore reports that it is done while files are missing.
    MarkRemovedEarly,
}

#[cfg(feature = "defects")]
impl Defect {
    /// All defects.
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

    /// Activates a defect for the stores of this thread, or none.
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
