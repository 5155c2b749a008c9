//! What a write did.

/// The result of a write of one row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Applied {
    /// The engine did not hold the id.
    Inserted,
    /// The engine held the id with an older or the same version. The new row is there now.
    Replaced,
    /// The engine holds the id with a newer version, or remembers a newer delete of it. Nothing
    /// changed.
    Stale,
    /// The row is there, and the condition of the write does not hold for it. Nothing changed.
    ConditionFailed,
    /// An update found no row. Nothing changed.
    Missing,
}

impl Applied {
    /// True if the write changed something.
    pub fn is_applied(self) -> bool {
        matches!(self, Applied::Inserted | Applied::Replaced)
    }
}

impl From<vstream_index::Applied> for Applied {
    fn from(applied: vstream_index::Applied) -> Applied {
        match applied {
            vstream_index::Applied::Inserted => Applied::Inserted,
            vstream_index::Applied::Replaced => Applied::Replaced,
            vstream_index::Applied::Stale => Applied::Stale,
        }
    }
}
