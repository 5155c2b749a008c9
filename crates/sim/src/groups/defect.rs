//! Deliberate defects that the lab of group stores must notice.

use std::cell::Cell;

/// What is wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GroupDefect {
    /// The disk says that bytes are synced and loses them.
    SyncsLost,
    /// The disk says that names are synced and loses them.
    NamesLost,
    /// Now and then a row gets attributes and payload of the one before it.
    FieldsOfAnotherRow,
    /// Now and then a row gets the vector of the one before it.
    VectorOfAnotherRow,
    /// Now and then a row goes to another group.
    WrongGroup,
    /// Now and then a payload is lost.
    PayloadLost,
    /// Updates do not reach the store.
    UpdatesSkipped,
    /// Deletes and dropped groups do not reach the store.
    DeletesSkipped,
    /// Merges forget deletes that are to be remembered.
    DeletesForgotten,
}

impl GroupDefect {
    /// All of them.
    pub const ALL: [GroupDefect; 9] = [
        GroupDefect::SyncsLost,
        GroupDefect::NamesLost,
        GroupDefect::FieldsOfAnotherRow,
        GroupDefect::VectorOfAnotherRow,
        GroupDefect::WrongGroup,
        GroupDefect::PayloadLost,
        GroupDefect::UpdatesSkipped,
        GroupDefect::DeletesSkipped,
        GroupDefect::DeletesForgotten,
    ];

    /// Runs `work` on this thread with the defect.
    pub fn planted<T>(self, work: impl FnOnce() -> T) -> T {
        ACTIVE.set(Some(self));
        let done = work();
        ACTIVE.set(None);
        done
    }
}

thread_local! {
    static ACTIVE: Cell<Option<GroupDefect>> = const { Cell::new(None) };
}

pub(super) fn active() -> Option<GroupDefect> {
    ACTIVE.get()
}
