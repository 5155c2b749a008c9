//! Deliberate defects that the crash lab must catch. Without the feature `defects`, which only
//! tests switch on, none is ever active and the compiler removes every trace of them.

/// A defect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Defect {
    /// Codes in a segment stand one row beside their own.
    CodesMisplaced,
    /// Approximate search in a segment finds rows that are gone.
    DeadFound,
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

    /// Gives the segments that this thread writes and reads a defect, or none.
    pub fn set_defect(defect: Option<Defect>) {
        ACTIVE.set(defect);
    }

    /// Gives the segments of all threads a defect, for as long as the process lives. The first one
    /// stays.
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
