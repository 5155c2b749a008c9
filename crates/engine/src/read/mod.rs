//! Reads rows: by id, in the order of ids, and those of an answer.

mod rows;
mod spread;

pub use spread::{Spread, SpreadAnswer, SpreadOf};
use vstream_attribute::{FieldsBuffer, Filter, IdKind, Refused, RefusedKind, Schema};
use vstream_index::{LeastIds, SearchStats};
use vstream_vector::Neighbor;

use crate::error::Error;
use crate::reader::{Query, ReadSnapshot, Reader, Scratch};
use crate::row::RowId;
use crate::tree::Answered;

/// Most rows that one call reads.
pub const READ_ROWS_MAX: usize = 10_000;

/// What of a row is wanted beside id and version.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct With {
    /// Which attributes.
    pub attributes: WithAttributes,
    /// The payload.
    pub payload: bool,
    /// The vector in its stored form: under cosine a direction.
    pub vector: bool,
}

/// Which attributes of a row are wanted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum WithAttributes {
    /// None of them.
    #[default]
    None,
    /// All of them.
    All,
    /// Those of these columns.
    Of(Vec<u16>),
}

impl With {
    /// Everything that a row has.
    pub fn everything() -> With {
        With { attributes: WithAttributes::All, payload: true, vector: true }
    }

    /// Errors: `UnknownAttribute` for a column that the schema lacks.
    fn check(&self, schema: &Schema) -> Result<(), Refused> {
        let WithAttributes::Of(columns) = &self.attributes else { return Ok(()) };
        match columns.iter().find(|&&column| schema.kind(column).is_none()) {
            None => Ok(()),
            Some(column) => {
                let what = format!("The collection has no attribute of column {column}.");
                Err(Refused::new(RefusedKind::UnknownAttribute, what))
            }
        }
    }
}

/// A row that was read.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct StoredRow {
    /// The user's id; the low half of its hash in a collection of string ids.
    pub id: u64,
    /// Version.
    pub version: u64,
    /// The vector in its stored form, if it was asked for.
    pub vector: Option<Vec<f32>>,
    /// String id, and what was asked for of attributes and payload.
    pub fields: FieldsBuffer,
}

/// Some rows in the order of ids.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Page {
    /// The rows, ascending by id.
    pub rows: Vec<StoredRow>,
    /// Where the next page begins; `None` after the last.
    pub next: Option<u64>,
}

/// An answer with what its rows carry, all of one moment.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Answer {
    /// The nearest rows, nearest first, ties by id.
    pub neighbors: Vec<Neighbor>,
    /// The same rows, as far as they were asked for.
    pub rows: Vec<StoredRow>,
    /// What the search took.
    pub stats: SearchStats,
}

impl Reader {
    /// The rows of some ids at one moment, in the order of `ids`; `None` where there is none.
    ///
    /// Cost: a look-up per id and place, and a round of reads per segment that has some of them. On a
    /// [`ReadSnapshot`] a pass over the ids in memory, if one of the rows was written since.
    /// Errors: `Invalid` for more than [`READ_ROWS_MAX`] ids or an unknown column; `Corrupt`, `Io`.
    pub fn get(&self, ids: &[RowId], with: &With) -> Result<Vec<Option<StoredRow>>, Error> {
        self.read_snapshot().get(ids, with)
    }

    /// The first `limit` rows that match, in the order of ids, after the id `after`; from the first on
    /// if it is `None`. Give [`Page::next`] to go on.
    ///
    /// Each call sees its own moment; on a [`ReadSnapshot`] all pages are of one. Cost: a look at the
    /// ids of all rows, or of all matches, and memory for `limit` of them, then a read of `limit` rows.
    /// Errors:
    /// `Invalid` for a limit that is not 1 to [`READ_ROWS_MAX`], an unknown column, or a filter that
    /// does not fit the schema; `Corrupt`, `Io`.
    pub fn scroll(
        &self,
        filter: Option<&Filter>,
        after: Option<u64>,
        limit: usize,
        with: &With,
    ) -> Result<Page, Error> {
        self.read_snapshot().scroll(filter, after, limit, with)
    }

    /// Number of rows that match at one moment. Cost: a pass over them; without a filter over those in
    /// memory and those that are gone. Errors: `Invalid` for a filter that does not fit the schema;
    /// `Corrupt`, `Io`.
    pub fn count(&self, filter: Option<&Filter>) -> Result<u64, Error> {
        self.read_snapshot().count(filter)
    }

    /// Searches like [`Reader::search`], and reads the rows of the answer at the same moment. Errors:
    /// those of `search`, and `Invalid` for an unknown column.
    pub fn answer(
        &self,
        query: &Query<'_>,
        with: &With,
        scratch: &mut Scratch,
    ) -> Result<Answer, Error> {
        self.read_snapshot().answer(query, with, scratch)
    }
}

impl ReadSnapshot {
    /// As [`Reader::get`], at this moment.
    pub fn get(&self, ids: &[RowId], with: &With) -> Result<Vec<Option<StoredRow>>, Error> {
        let schema = self.reader().schema();
        with.check(&schema)?;
        check_limit("the number of ids", ids.len(), 0)?;
        let wanted: Vec<u64> = ids.iter().map(|id| id.id).collect();
        let mut rows = rows::read(self.rows(), &schema, self.dimension(), &wanted, with, None)?;
        for (id, row) in ids.iter().zip(&mut rows) {
            let is_other = |row: &StoredRow| row.fields.fields().check != id.check;
            if id.check != 0 && row.as_ref().is_some_and(is_other) {
                *row = None;
            }
        }
        Ok(rows)
    }

    /// As [`Reader::scroll`], at this moment.
    pub fn scroll(
        &self,
        filter: Option<&Filter>,
        after: Option<u64>,
        limit: usize,
        with: &With,
    ) -> Result<Page, Error> {
        let schema = self.reader().schema();
        with.check(&schema)?;
        check_limit("limit", limit, 1)?;
        filter.map_or(Ok(()), |filter| filter.check(&schema))?;
        let mut least = LeastIds::new(after, limit);
        self.rows().least_ids(filter, &mut least)?;
        let (ids, next) = least.finish();
        let rows = rows::read(self.rows(), &schema, self.dimension(), &ids, with, None)?;
        Ok(Page { rows: rows.into_iter().flatten().collect(), next })
    }

    /// As [`Reader::count`], at this moment.
    pub fn count(&self, filter: Option<&Filter>) -> Result<u64, Error> {
        let Some(filter) = filter else { return Ok(self.rows().count()) };
        filter.check(&self.reader().schema())?;
        let mut count = 0;
        self.rows().for_each_match(Some(filter), &mut |_| count += 1)?;
        Ok(count)
    }

    /// As [`Reader::answer`], at this moment.
    pub fn answer(
        &self,
        query: &Query<'_>,
        with: &With,
        scratch: &mut Scratch,
    ) -> Result<Answer, Error> {
        let schema = self.reader().schema();
        with.check(&schema)?;
        let mut neighbors = Vec::new();
        let stats = self.search(query, scratch, &mut neighbors)?;
        if *with == With::default() && schema.id == IdKind::U64 {
            let row = |row: &Neighbor| StoredRow {
                id: row.id,
                version: row.version,
                ..StoredRow::default()
            };
            let rows = neighbors.iter().map(row).collect();
            return Ok(Answer { neighbors, rows, stats });
        }
        let ids: Vec<u64> = neighbors.iter().map(|row| row.id).collect();
        let answered = Some(Answered { rows: &neighbors, scratch: &mut scratch.tree });
        let rows = rows::read(self.rows(), &schema, self.dimension(), &ids, with, answered)?;
        let found = rows.into_iter().map(|row| {
            row.ok_or_else(|| Error::internal("a row of an answer is gone: report the defect"))
        });
        Ok(Answer { neighbors, rows: found.collect::<Result<_, _>>()?, stats })
    }
}

fn check_limit(what: &str, count: usize, least: usize) -> Result<(), Error> {
    if (least..=READ_ROWS_MAX).contains(&count) {
        return Ok(());
    }
    Err(Error::invalid(format!(
        "{what} is {count}: choose a value from {least} to {READ_ROWS_MAX}"
    )))
}
