//! Deliberate defects that the crash lab must catch. Without the feature `defects`, which only
//! tests switch on, none is ever active and the compiler removes every trace of them.

/// A defect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Defect {
    /// Codes in a segment are stored one row off.
    CodesMisplaced,
    /// Approximate search in a segment finds deleted rows.
    DeadFound,
    /// The values of a column are stored one row off, within their chunk.
    ValuesMisplaced,
    /// A payload is read from the row after its own.
    PayloadsMisplaced,
    /// A string id is read from the row after its own.
    NamesMisplaced,
    /// The summary of a leaf leaves out every second value.
    SummariesIncomplete,
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

    /// Sets the defect of the segments that this thread writes and reads, or none.
    pub fn set_defect(defect: Option<Defect>) {
        ACTIVE.set(defect);
    }

    /// Sets the defect of the segments of all threads until the process ends. Only the first call
    /// has an effect.
    pub fn set_defect_everywhere(defect: Defect) {
        let _ = EVERYWHERE.set(defect);
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
