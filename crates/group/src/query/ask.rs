//! What a query asks for, and its answer.

use vstream_attribute::{AttributeKind, Filter, Refused, RefusedKind, Schema};
use vstream_rank::{AnswerGroup, Bm25Settings, Expression, Language, TextQuery};

use super::row::{OwnedRow, With};
use crate::accept::K_MAX;
use crate::error::Error;

/// Most rows of all values of a [`GroupBy`] together.
pub const GROUPED_ROWS_MAX: usize = 10_000;

/// A query to one group. It has a vector, a text, or a rank expression; the rest is optional.
///
/// | vector | text | rank | order of the answer |
/// |---|---|---|---|
/// | yes | | | distance, nearest first |
/// | | yes | | BM25, best first |
/// | yes | yes | | reciprocal rank fusion of both orders, over all rows that may be in the answer |
/// | any | any | yes | the expression, largest first |
///
/// Ties stand in the order of ids.
#[derive(Clone, Copy, Debug)]
pub struct GroupQuery<'a> {
    /// `dimension` finite numbers.
    pub vector: Option<&'a [f32]>,
    /// Rows wanted, 1 to [`K_MAX`]. Not used with `group_by`.
    pub k: usize,
    /// Rows that may be in the answer.
    pub filter: Option<&'a Filter>,
    /// Words of the rows.
    pub text: Option<TextSearch<'a>>,
    /// The order of the answer.
    pub rank: Option<RankBy<'a>>,
    /// Largest distance of a row of the answer, as the metric counts: squared under l2. Needs a
    /// vector.
    pub radius: Option<f32>,
    /// At most so many rows of the answer with one value.
    pub diversify: Option<Diversity>,
    /// Groups of the answer by value, instead of rows.
    pub group_by: Option<GroupBy>,
    /// What the rows of the answer carry.
    pub with: With,
}

impl<'a> GroupQuery<'a> {
    /// A query for `k` rows that asks for nothing yet; its rows carry ids and versions.
    pub fn new(k: usize) -> GroupQuery<'a> {
        GroupQuery {
            vector: None,
            k,
            filter: None,
            text: None,
            rank: None,
            radius: None,
            diversify: None,
            group_by: None,
            with: With::NOTHING,
        }
    }

    /// A query for the `k` nearest rows.
    pub fn nearest(vector: &'a [f32], k: usize) -> GroupQuery<'a> {
        GroupQuery { vector: Some(vector), ..GroupQuery::new(k) }
    }
}

/// Words that are searched in attributes of type text. BM25 counts over all rows of the group,
/// whatever the filter.
#[derive(Clone, Copy, Debug)]
pub struct TextSearch<'a> {
    /// The words.
    pub query: &'a TextQuery,
    /// True if only rows for which the query holds may be in the answer; else words count for the
    /// order alone.
    pub must_match: bool,
    /// With a language, words are equal if their stems are.
    pub language: Option<Language>,
    /// Constants of BM25; the usual ones without.
    pub bm25: Option<&'a Bm25Settings>,
}

impl<'a> TextSearch<'a> {
    /// A search of words that must match, without stemming.
    pub fn new(query: &'a TextQuery) -> TextSearch<'a> {
        TextSearch { query, must_match: true, language: None, bm25: None }
    }
}

/// An order by an expression.
#[derive(Clone, Copy, Debug)]
pub struct RankBy<'a> {
    /// The expression, parsed with the schema of the store.
    pub expression: &'a Expression,
    /// Names, without `$`, and finite values of all its parameters.
    pub parameters: &'a [(&'a str, f64)],
    /// The time of the query in milliseconds since 1970-01-01 UTC, for `freshness`.
    pub now_ms: i64,
}

/// At most `per_value` rows with one value of a column; rows without a value share the missing one.
/// The answer is that of someone who goes through all rows in order, and takes a row unless its
/// value has had its share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Diversity {
    /// Number of the attribute in the schema; not one of type keywords or text.
    pub column: u16,
    /// Most rows with one value, 1 or more.
    pub per_value: usize,
}

/// The `values` best values of a column, each with its `per_value` best rows. A value stands where
/// its best row does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GroupBy {
    /// Number of the attribute in the schema; not one of type keywords or text.
    pub column: u16,
    /// Values wanted, 1 to [`K_MAX`].
    pub values: usize,
    /// Rows per value; `values · per_value` is at most [`GROUPED_ROWS_MAX`].
    pub per_value: usize,
}

/// A row of an answer.
#[derive(Clone, Debug, PartialEq)]
pub struct GroupHit {
    /// Distance to the query's vector, if it has one: that of the stored vector.
    pub distance: Option<f32>,
    /// What the order follows, unless that is the distance; larger is better.
    pub score: Option<f64>,
    /// Id, version, and what was asked for.
    pub row: OwnedRow,
}

/// The answer to a query.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct GroupAnswer {
    /// The best rows, best first. Empty with `group_by`.
    pub rows: Vec<GroupHit>,
    /// The best values, best first, if the query has `group_by`.
    pub groups: Vec<AnswerGroup<GroupHit>>,
    /// What the search did.
    pub stats: QueryStats,
}

/// What a search did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QueryStats {
    /// Rows of the group in runs and in memory, hidden ones included.
    pub rows: u64,
    /// Rows whose codes were read.
    pub coded_rows: u64,
    /// Rows that got an exact distance.
    pub exact_rows: u64,
    /// Rows that pass filter and text, as far as the search had to know: all of them if it was by
    /// text or rank.
    pub matches: u64,
    /// Bytes of the blocks of runs that were asked for, whether the cache had them or not.
    pub bytes: u64,
    /// Runs that hold rows of the group.
    pub runs: u64,
}

impl GroupQuery<'_> {
    /// True if the codes alone find the answer: the nearest rows, as they come.
    pub(super) fn is_plain(&self) -> bool {
        let orders = (self.text.is_some(), self.rank.is_some());
        orders == (false, false) && self.diversify.is_none() && self.group_by.is_none()
    }

    /// Errors: `Invalid` and `Refused` for what cannot be answered. The vector, the words and the
    /// parameters are checked where they are prepared.
    pub(super) fn check(&self, schema: &Schema) -> Result<(), Error> {
        if !(1..=K_MAX).contains(&self.k) {
            return Err(Error::invalid(format!("k is {}: use 1 to {K_MAX}.", self.k)));
        }
        if self.vector.is_none() && self.text.is_none() && self.rank.is_none() {
            let what = "A query has a vector, a text or a rank expression; scroll lists all rows.";
            return Err(Error::invalid(what));
        }
        if let Some(radius) = self.radius {
            if radius.is_nan() || self.vector.is_none() {
                let what = "A radius is a number, and of a query with a vector.";
                return Err(Error::invalid(what));
            }
        }
        if let Some(filter) = self.filter {
            filter.check(schema)?;
        }
        match (self.diversify, self.group_by) {
            (None, None) => Ok(()),
            (Some(_), Some(_)) => {
                Err(Error::invalid("A query has diversify or group_by, not both."))
            }
            (Some(Diversity { column, per_value }), None) => {
                check_column(schema, column)?;
                if per_value == 0 {
                    return Err(Error::invalid("Diversify allows 1 row or more per value."));
                }
                Ok(())
            }
            (None, Some(GroupBy { column, values, per_value })) => {
                check_column(schema, column)?;
                let rows = values.saturating_mul(per_value);
                if !(1..=K_MAX).contains(&values) || !(1..=GROUPED_ROWS_MAX).contains(&rows) {
                    let what = format!(
                        "An answer has 1 to {K_MAX} values, and 1 to {GROUPED_ROWS_MAX} rows of \
                         all values together."
                    );
                    return Err(Error::invalid(what));
                }
                Ok(())
            }
        }
    }
}

/// Errors: if answers cannot be grouped by a column.
fn check_column(schema: &Schema, column: u16) -> Result<(), Refused> {
    match schema.kind(column) {
        None => {
            let what = format!("The store has no column {column}.");
            Err(Refused::new(RefusedKind::UnknownAttribute, what))
        }
        Some(kind @ (AttributeKind::Keywords | AttributeKind::Text)) => {
            let kind = kind.name();
            let what =
                format!("Column {column} is of type {kind}; answers are grouped by single values.");
            Err(Refused::new(RefusedKind::WrongType, what))
        }
        Some(_) => Ok(()),
    }
}
