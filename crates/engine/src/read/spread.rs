//! Answers in which at most n rows have the same value of an attribute.
//!
//! The nearest rows may all have one value, so one search for k rows is not enough. The search goes
//! on in rounds: a value that has its n rows is excluded by the filter of the next round, and the
//! round is wider. It ends when the answer is full or a round finds no more rows. As each round finds
//! the nearest rows of the values that are left, the answer is that of someone who goes through all
//! rows in the order of distances; each round meets the recall target of the query.

use std::cmp::Ordering;
use std::collections::HashSet;

use vstream_attribute::{AttributeKind, Filter, Refused, RefusedKind, Schema, Test, Value};
use vstream_index::SearchStats;
use vstream_rank::{Diversify, GroupBy};
use vstream_vector::Neighbor;

use super::{StoredRow, With, WithAttributes};
use crate::error::Error;
use crate::reader::{Effort, Query, ReadSnapshot, Reader, Scratch};
use crate::row::RowId;
use crate::settings::K_MAX;

/// How much wider a search is than its answer, and a round than the one before.
const WIDER: usize = 4;

/// How the rows of an answer are spread over the values of an attribute. Rows without a value share
/// the missing one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Spread {
    /// Number of the attribute in the schema; not one of type keywords or text.
    pub column: u16,
    /// Most rows with one value, 1 or more.
    pub per_value: usize,
    /// What the `k` of the query counts.
    pub of: SpreadOf,
}

/// What an answer has `k` of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SpreadOf {
    /// The k nearest rows that leave no value with too many.
    Rows,
    /// The k values whose nearest rows are nearest, each with its nearest rows: `k` times
    /// `per_value` is at most [`K_MAX`].
    Values,
}

/// An answer that is spread over values.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SpreadAnswer {
    /// Nearest first, ties by id; under [`SpreadOf::Values`] value by value.
    pub neighbors: Vec<Neighbor>,
    /// The same rows, as far as they were asked for.
    pub rows: Vec<StoredRow>,
    /// Under [`SpreadOf::Values`] the values in the order of their nearest rows, with their numbers
    /// of rows; `None` is the missing value. Empty under [`SpreadOf::Rows`].
    pub values: Vec<(Option<Value>, usize)>,
    /// What the searches took together.
    pub stats: SearchStats,
}

/// A row with its value.
type Valued = (Option<Value>, Neighbor);

/// What one search in rounds looks for.
struct Wanted<'a> {
    column: u16,
    kind: AttributeKind,
    rows: usize,
    per_value: usize,
    /// Rows of these values alone.
    among: Option<&'a [Option<Value>]>,
}

impl Reader {
    /// The nearest rows, of which at most some have one value of an attribute; at one moment.
    ///
    /// Cost: a search for four times `k` rows, and a wider one for every value that takes more than
    /// its share of what was found; under [`SpreadOf::Values`] twice that. Errors: those of
    /// [`Reader::answer`]; `Invalid` for a column of lists or texts, for no rows per value, for too
    /// many of them, or for a filter of more than 13 levels.
    pub fn answer_spread(
        &self,
        query: &Query<'_>,
        spread: &Spread,
        with: &With,
        scratch: &mut Scratch,
    ) -> Result<SpreadAnswer, Error> {
        self.read_snapshot().answer_spread(query, spread, with, scratch)
    }
}

impl ReadSnapshot {
    /// As [`Reader::answer_spread`], at this moment.
    pub fn answer_spread(
        &self,
        query: &Query<'_>,
        spread: &Spread,
        with: &With,
        scratch: &mut Scratch,
    ) -> Result<SpreadAnswer, Error> {
        let schema = self.reader().schema();
        with.check(&schema)?;
        let kind = grouping_kind(&schema, spread.column)?;
        if !(1..=K_MAX).contains(&query.k) {
            let k = query.k;
            return Err(Error::invalid(format!("k is {k}: choose a value from 1 to {K_MAX}")));
        }
        let rows = match spread.of {
            SpreadOf::Rows => query.k,
            SpreadOf::Values => query.k.saturating_mul(spread.per_value),
        };
        if spread.per_value == 0 || rows > K_MAX {
            return Err(Error::invalid(format!(
                "there are {} rows per value: choose 1 or more, and {K_MAX} rows of all values \
                 together at most",
                spread.per_value
            )));
        }
        let wanted = Wanted {
            column: spread.column,
            kind,
            rows: query.k,
            per_value: match spread.of {
                SpreadOf::Rows => spread.per_value,
                SpreadOf::Values => 1,
            },
            among: None,
        };
        let mut stats = SearchStats::default();
        let found = self.rounds(query, &wanted, Vec::new(), scratch, &mut stats)?;
        let (neighbors, values) = match spread.of {
            SpreadOf::Rows => (found.into_iter().map(|(_, row)| row).collect(), Vec::new()),
            SpreadOf::Values => {
                let of: Vec<Option<Value>> = found.iter().map(|(value, _)| value.clone()).collect();
                let per_value = spread.per_value;
                let among = Some(&of[..]);
                let wanted = Wanted { rows, per_value, among, ..wanted };
                let found = self.rounds(query, &wanted, found, scratch, &mut stats)?;
                by_value(&of, found, per_value)
            }
        };
        let ids: Vec<RowId> = neighbors.iter().map(|row: &Neighbor| row.id.into()).collect();
        let rows = self.get(&ids, with)?.into_iter().map(|row| {
            row.ok_or_else(|| Error::internal("a row of an answer is gone: report the defect"))
        });
        Ok(SpreadAnswer { rows: rows.collect::<Result<_, _>>()?, neighbors, values, stats })
    }

    /// Searches until the answer is full or there are no more rows.
    ///
    /// * `known`: rows that are in the running already.
    fn rounds(
        &self,
        query: &Query<'_>,
        wanted: &Wanted<'_>,
        known: Vec<Valued>,
        scratch: &mut Scratch,
        stats: &mut SearchStats,
    ) -> Result<Vec<Valued>, Error> {
        let with = With { attributes: WithAttributes::Of(vec![wanted.column]), ..With::default() };
        let mut width = wanted.rows.saturating_mul(WIDER).min(K_MAX);
        let (mut kept, mut full): (Vec<Valued>, Vec<Option<Value>>) = (known, Vec::new());
        loop {
            let filter = wanted.filter(query.filter, &full);
            // The guard measures what users ask for, not the filters of later rounds.
            let is_first = full.is_empty() && wanted.among.is_none();
            let effort = match query.effort {
                Effort::Auto if !is_first => Effort::Unaudited,
                effort => effort,
            };
            let round = Query { k: width, effort, filter: filter.as_ref(), ..*query };
            let found = self.answer(&round, &with, scratch)?;
            *stats += found.stats;
            let is_last = found.neighbors.len() < width;
            let mut seen = HashSet::new();
            let mut best = Diversify::new(wanted.rows, wanted.per_value);
            let fresh = found.neighbors.into_iter().zip(&found.rows).map(|(neighbor, row)| {
                let value = row.fields.fields().attributes.get(wanted.column);
                (value.map(|value| value.to_value()), neighbor)
            });
            for (value, row) in kept.into_iter().chain(fresh) {
                if seen.insert(row.id) {
                    best.offer(value.as_ref().map(Value::as_ref).as_ref(), row);
                }
            }
            kept = best.finish();
            let known_full = full.len();
            full = wanted.full(&kept);
            let is_done = wanted.left(&full).is_some_and(|left| left.is_empty());
            if is_last || is_done || kept.len() == wanted.rows {
                return Ok(kept);
            }
            debug_assert!(width < K_MAX || full.len() > known_full, "a round makes progress");
            width = width.saturating_mul(WIDER).min(K_MAX);
        }
    }
}

impl Wanted<'_> {
    /// The values that have their rows, sorted.
    fn full(&self, kept: &[Valued]) -> Vec<Option<Value>> {
        let mut values: Vec<Option<Value>> = kept.iter().map(|(value, _)| value.clone()).collect();
        values.sort_unstable_by(order);
        let same = |a: &Option<Value>, b: &Option<Value>| order(a, b).is_eq();
        let full = values.chunk_by(same).filter(|rows| rows.len() == self.per_value);
        full.map(|rows| rows[0].clone()).collect()
    }

    /// The wanted values that are not full; `None` if all values are wanted.
    fn left(&self, full: &[Option<Value>]) -> Option<Vec<Option<Value>>> {
        let is_left =
            |value: &&Option<Value>| full.binary_search_by(|at| order(at, value)).is_err();
        self.among.map(|among| among.iter().filter(is_left).cloned().collect())
    }

    /// The filter of a round: that of the query, without the values that are full.
    fn filter(&self, of_query: Option<&Filter>, full: &[Option<Value>]) -> Option<Filter> {
        let mut parts = match of_query {
            None => Vec::new(),
            Some(Filter::And(parts)) => parts.clone(),
            Some(filter) => vec![filter.clone()],
        };
        if let Some(left) = self.left(full) {
            let mut any = vec![self.one_of(&left)];
            if left.contains(&None) {
                any.push(Filter::Not(Box::new(Filter::Attribute(self.column, Test::Exists))));
            }
            parts.push(Filter::Or(any));
        } else if !full.is_empty() {
            parts.push(Filter::Not(Box::new(self.one_of(full))));
            if full.contains(&None) {
                parts.push(Filter::Attribute(self.column, Test::Exists));
            }
        }
        (!parts.is_empty()).then_some(Filter::And(parts))
    }

    /// Holds for rows that have one of these values; the missing one is passed over.
    fn one_of(&self, values: &[Option<Value>]) -> Filter {
        let (mut texts, mut whole, mut real, mut truths) = (vec![], vec![], vec![], vec![]);
        for value in values.iter().flatten() {
            match value {
                Value::Keyword(text) => texts.push(text.clone()),
                Value::I64(number) | Value::Timestamp(number) => whole.push(*number),
                Value::F64(number) => real.push(*number),
                Value::Bool(is_true) => truths.push(*is_true),
                Value::Keywords(_) | Value::Text(_) => {}
            }
        }
        let test = match self.kind {
            AttributeKind::I64 | AttributeKind::Timestamp => {
                whole.sort_unstable();
                Test::I64In(whole)
            }
            AttributeKind::F64 => {
                real.sort_unstable_by(f64::total_cmp);
                Test::F64In(real)
            }
            AttributeKind::Bool => {
                let test = |&is_true| Filter::Attribute(self.column, Test::Bool(is_true));
                return Filter::Or(truths.iter().map(test).collect());
            }
            AttributeKind::Keyword | AttributeKind::Keywords | AttributeKind::Text => {
                texts.sort_unstable();
                Test::KeywordIn(texts)
            }
        };
        Filter::Attribute(self.column, test)
    }
}

/// An order of values of one attribute; 0 and -0 are one value.
fn order(a: &Option<Value>, b: &Option<Value>) -> Ordering {
    match (a, b) {
        (Some(Value::Keyword(a)), Some(Value::Keyword(b))) => a.cmp(b),
        (Some(Value::I64(a)), Some(Value::I64(b)))
        | (Some(Value::Timestamp(a)), Some(Value::Timestamp(b))) => a.cmp(b),
        (Some(Value::F64(a)), Some(Value::F64(b))) => (a + 0.0).total_cmp(&(b + 0.0)),
        (Some(Value::Bool(a)), Some(Value::Bool(b))) => a.cmp(b),
        _ => a.is_some().cmp(&b.is_some()),
    }
}

/// Rows value by value, with the values and their numbers of rows.
fn by_value(
    of: &[Option<Value>],
    found: Vec<Valued>,
    per_value: usize,
) -> (Vec<Neighbor>, Vec<(Option<Value>, usize)>) {
    let mut collector = GroupBy::among(of.iter().map(Option::as_ref), per_value);
    for (value, row) in found {
        let value = value.as_ref().map(Value::as_ref);
        // A collector of known values has room for all their rows.
        let _ = collector.offer(value.as_ref(), row);
    }
    let (mut neighbors, mut values) = (Vec::new(), Vec::new());
    for group in collector.finish(of.len()) {
        values.push((group.value, group.rows.len()));
        neighbors.extend(group.rows);
    }
    (neighbors, values)
}

/// The kind of a column by which answers are spread.
fn grouping_kind(schema: &Schema, column: u16) -> Result<AttributeKind, Refused> {
    match schema.kind(column) {
        None => {
            let what = format!("The collection has no attribute of column {column}.");
            Err(Refused::new(RefusedKind::UnknownAttribute, what))
        }
        Some(kind @ (AttributeKind::Keywords | AttributeKind::Text)) => {
            let (name, kind) = (&schema.attributes[usize::from(column)].name, kind.name());
            let what = format!("'{name}' is of type {kind}; answers are grouped by single values.");
            Err(Refused::new(RefusedKind::WrongType, what))
        }
        Some(kind) => Ok(kind),
    }
}
