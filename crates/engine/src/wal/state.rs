//! The state of all rows: their number and an order-free digest.

use vstream_segment::row_digest;

/// The state after the record `lsn`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct State {
    /// LSN of the last record, from 1; 0 before the first.
    pub(crate) lsn: u64,
    /// Number of living rows.
    pub(crate) live: u64,
    /// Sum mod 2^128 of a hash of (id, version) of every living row.
    pub(crate) digest: u128,
}

impl State {
    /// Applies the next record, an upsert over version `before`.
    pub(crate) fn upsert(&mut self, id: u64, before: Option<u64>, version: u64) {
        self.lsn += 1;
        match before {
            Some(before) => self.digest = self.digest.wrapping_sub(row_digest(id, before)),
            None => self.live += 1,
        }
        self.digest = self.digest.wrapping_add(row_digest(id, version));
    }

    /// Applies the next record, which changes no row.
    pub(crate) fn pass_over(&mut self) {
        self.lsn += 1;
    }

    /// Applies the next record, a delete of version `before`.
    pub(crate) fn delete(&mut self, id: u64, before: u64) {
        self.lsn += 1;
        self.live -= 1;
        self.digest = self.digest.wrapping_sub(row_digest(id, before));
    }
}
