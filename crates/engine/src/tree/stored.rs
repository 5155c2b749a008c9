//! Reads rows by id, and names the rows that match a filter, at one moment over all places.

use vstream_attribute::{Fields, Filter};
use vstream_index::stages::ExactSearch;
use vstream_index::{IndexRow, LeastIds, RowKey, VectorRef};
use vstream_segment::WantedFields;
use vstream_vector::Neighbor;

use super::{LiveSegment, Pinned, TreeScratch};
use crate::error::Error;

impl LiveSegment {
    /// Calls `visit` with some rows, given in ascending order. Cost: one round of reads. Errors:
    /// `Corrupt`, `Io`.
    pub(crate) fn show(
        &self,
        rows: &[u32],
        visit: &mut dyn FnMut(u32, IndexRow<'_>),
    ) -> Result<(), Error> {
        Ok(self.segment.for_each_of(rows, visit)?)
    }

    /// Reads some rows, ascending, each with the position that `visit` gets. Reads vectors only if
    /// they are wanted. Cost and errors: as [`LiveSegment::show`].
    fn read(
        &self,
        rows: &[(u32, usize)],
        wanted: Wanted<'_>,
        visit: &mut dyn FnMut(usize, ReadRow<'_>),
    ) -> Result<(), Error> {
        let numbers: Vec<u32> = rows.iter().map(|&(row, _)| row).collect();
        if wanted.vector {
            let mut next = rows.iter();
            return self.show(&numbers, &mut |number, row| {
                let &(expected, at) = next.next().expect("a row that was asked for");
                debug_assert_eq!(number, expected);
                let IndexRow { key, vector, fields } = row;
                visit(at, ReadRow { version: key.version, vector: Some(vector), fields });
            });
        }
        let read = self.segment.fields(&numbers, &wanted.fields)?;
        for (&(row, at), fields) in rows.iter().zip(&read) {
            let (version, fields) = (self.ids.version(row), fields.fields());
            visit(at, ReadRow { version, vector: None, fields });
        }
        Ok(())
    }
}

/// What of rows is read.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wanted<'a> {
    pub(crate) vector: bool,
    pub(crate) fields: WantedFields<'a>,
}

/// The rows of an answer, and the buffers of the search that found them: they lead to the rows in
/// memory without a pass over the ids there.
pub(crate) struct Answered<'a> {
    pub(crate) rows: &'a [Neighbor],
    pub(crate) scratch: &'a mut TreeScratch,
}

/// A row that was read.
pub(crate) struct ReadRow<'a> {
    pub(crate) version: u64,
    /// At least if it was asked for.
    pub(crate) vector: Option<VectorRef<'a>>,
    /// At least those that were asked for.
    pub(crate) fields: Fields<'a>,
}

impl Pinned {
    /// Calls `visit` with the position of each id that has a visible row, and with that row.
    ///
    /// * `ids`: ascending, each once.
    /// * `answered`: if the ids are those of an answer at this moment.
    ///
    /// Cost: a look-up per id and place, and a round of reads for each segment that has some of the rows.
    /// A pass over the ids in memory if one of the rows there was written after the moment. Errors: `Corrupt`, `Io`.
    pub(crate) fn read(
        &self,
        ids: &[u64],
        wanted: Wanted<'_>,
        answered: Option<Answered<'_>>,
        visit: &mut dyn FnMut(usize, ReadRow<'_>),
    ) -> Result<(), Error> {
        debug_assert!(ids.is_sorted_by(|a, b| a < b), "ascending, each once");
        // A row is visible in one place. Segments have tables of ids, which rows in memory lack, so that
        // memory is asked only for rows that are there.
        let mut left: Vec<usize> = (0..ids.len()).collect();
        for live in &self.view.segments {
            let mut rows: Vec<(u32, usize)> = Vec::new();
            left.retain(|&at| {
                let row = live.ids.find(ids[at]);
                let row = row.filter(|&row| live.tombstones.is_visible(row, self.sequence));
                rows.extend(row.map(|row| (row, at)));
                row.is_none()
            });
            if !rows.is_empty() {
                rows.sort_unstable();
                live.read(&rows, wanted, visit)?;
            }
        }
        if !left.is_empty() {
            let ids: Vec<u64> = left.iter().map(|&at| ids[at]).collect();
            self.read_memory(&ids, answered, &mut |at, row| visit(left[at], row));
        }
        Ok(())
    }

    /// Reads the rows in memory.
    fn read_memory(
        &self,
        ids: &[u64],
        mut answered: Option<Answered<'_>>,
        visit: &mut dyn FnMut(usize, ReadRow<'_>),
    ) {
        let mut show = |row: IndexRow<'_>| {
            let at = ids.binary_search(&row.key.id).expect("an id that was asked for");
            let IndexRow { key, vector, fields } = row;
            visit(at, ReadRow { version: key.version, vector: Some(vector), fields });
        };
        for (number, place) in self.memory_places().enumerate() {
            match &mut answered {
                Some(Answered { rows, scratch }) => {
                    let is_left = |row: &&Neighbor| ids.binary_search(&row.id).is_ok();
                    let rows: Vec<Neighbor> = rows.iter().filter(is_left).copied().collect();
                    let scratch = &mut scratch.memory[number].stage;
                    place.read_rows(&rows, scratch, &mut |_, row| show(row));
                }
                None => place.read_ids(ids, &mut |_, row| show(row)),
            }
        }
    }

    /// Offers the ids of all visible rows that match.
    ///
    /// Cost: a look at the id of every row, and at the row where `least` wants the id; with a filter a
    /// read of all rows in segments that may match. Errors: `Corrupt`, `Io`.
    pub(crate) fn least_ids(
        &self,
        filter: Option<&Filter>,
        least: &mut LeastIds,
    ) -> Result<(), Error> {
        self.memory_places().for_each(|place| place.least_ids(filter, least));
        if filter.is_some() {
            self.segments().try_for_each(|segment| {
                segment.for_each_match(filter, &mut |key| least.offer(key.id))
            })?;
            self.graphs().try_for_each(|graph| {
                graph.for_each_match(filter, &mut |key| least.offer(key.id))
            })?;
            return Ok(());
        }
        for live in &self.view.segments {
            live.ids.least_ids(least, |row| live.tombstones.is_visible(row, self.sequence));
        }
        Ok(())
    }

    /// Number of visible rows. Cost: a look at the tombstones of segments, and a pass over the rows in memory.
    pub(crate) fn count(&self) -> u64 {
        let mut count = 0;
        for place in self.memory_places() {
            let Ok(()) = place.for_each_match(None, &mut |_| count += 1);
        }
        for live in &self.view.segments {
            let mut gone = 0;
            live.tombstones.for_each(&mut |_, when| gone += u64::from(when <= self.sequence));
            count += live.segment.rows() - gone;
        }
        count
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
        self.graphs().try_for_each(|graph| graph.for_each_match(filter, visit))?;
        Ok(())
    }
}
