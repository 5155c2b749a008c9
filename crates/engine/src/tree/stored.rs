//! Reads rows by id, and names the rows that match a filter, at one moment over all places.

use vstream_attribute::Filter;
use vstream_index::stages::ExactSearch;
use vstream_index::{IndexRow, RowKey};

use super::{LiveSegment, Pinned};
use crate::error::Error;

impl LiveSegment {
    /// Calls `visit` with some rows, given in ascending order. Cost: one round of reads. Errors:
    /// `Corrupt`, `Io`.
    pub(crate) fn show(
        &self,
        rows: &[u32],
        visit: &mut dyn FnMut(u32, IndexRow<'_>),
    ) -> Result<(), Error> {
        // Blocks do not depend on the moment.
        Ok(self.segment.for_each_of(rows, self.at(0).blocks(), visit)?)
    }
}

impl Pinned {
    /// Calls `visit` with the visible rows of some ids, and with the position of each id.
    ///
    /// * `ids`: ascending, each once.
    ///
    /// Cost: a walk over the rows in memory, and a round of reads for each segment that has some of
    /// the rows. Errors: `Corrupt`, `Io`.
    pub(crate) fn show(
        &self,
        ids: &[u64],
        visit: &mut dyn FnMut(usize, IndexRow<'_>),
    ) -> Result<(), Error> {
        debug_assert!(ids.is_sorted_by(|a, b| a < b), "ascending, each once");
        let mut left = ids.len();
        for place in self.memory_places() {
            place.for_each_row(&mut |row| {
                if let Ok(at) = ids.binary_search(&row.key.id) {
                    left -= 1;
                    visit(at, row);
                }
            });
        }
        for live in &self.view.segments {
            if left == 0 {
                return Ok(());
            }
            let row_of = |(at, &id): (usize, &u64)| {
                let row = live.ids.find(id)?;
                live.tombstones.is_visible(row, self.sequence).then_some((row, at))
            };
            let mut rows: Vec<(u32, usize)> = ids.iter().enumerate().filter_map(row_of).collect();
            rows.sort_unstable();
            let numbers: Vec<u32> = rows.iter().map(|&(row, _)| row).collect();
            let mut next = rows.iter();
            live.show(&numbers, &mut |number, row| {
                let &(expected, at) = next.next().expect("a row that was asked for");
                debug_assert_eq!(number, expected);
                visit(at, row);
            })?;
            left -= rows.len();
        }
        Ok(())
    }

    /// Calls `visit` with the key of every visible row that matches, in any order. Errors: `Corrupt`,
    /// `Io`.
    pub(crate) fn for_each_match(
        &self,
        filter: Option<&Filter>,
        visit: &mut dyn FnMut(RowKey),
    ) -> Result<(), Error> {
        for place in self.memory_places() {
            let Ok(()) = place.for_each_match(filter, visit);
        }
        self.segments().try_for_each(|segment| segment.for_each_match(filter, visit))?;
        Ok(())
    }
}
