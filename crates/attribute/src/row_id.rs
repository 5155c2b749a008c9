//! Which row is meant.

use crate::name::HashedName;

/// Which row is meant. A number stands for the row of that id.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RowId {
    /// The id; the low half of its hash where ids are texts.
    pub id: u64,
    /// The high half of the hash where ids are texts; a row whose text has another hash is another
    /// row. 0: not compared.
    pub check: u64,
}

impl RowId {
    /// True if a row with this id and this check may be the one that is meant.
    pub fn may_be(self, check: u64) -> bool {
        self.check == 0 || self.check == check
    }
}

impl From<u64> for RowId {
    fn from(id: u64) -> RowId {
        RowId { id, check: 0 }
    }
}

impl From<HashedName> for RowId {
    fn from(HashedName { id, check }: HashedName) -> RowId {
        RowId { id, check }
    }
}
