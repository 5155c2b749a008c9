//! What a query to a group asks for.

use std::time::{SystemTime, UNIX_EPOCH};

use pyo3::prelude::*;
use vstream_engine::{Filter, Schema};
use vstream_group::{
    Diversity, Expression, GroupBy, GroupQuery, Language, PlainTerms, QueryError, RankBy,
    TextQuery, TextSearch, With,
};

use crate::failure::Failure;
use crate::filters::GivenFilter;
use crate::found::GivenSpread;

/// A query as it came, beside its vector: a tuple in Python.
#[derive(FromPyObject)]
pub(crate) struct GivenQuery {
    #[pyo3(item("k"))]
    k: usize,
    #[pyo3(item("filter"))]
    pub(super) filter: Option<GivenFilter>,
    #[pyo3(item("radius"))]
    radius: Option<f32>,
    /// The words, how many of them must hold (0: one, -1: all), whether rows must match at all, and
    /// a language.
    #[pyo3(item("text"))]
    text: Option<(String, i64, bool, Option<String>)>,
    /// The expression, names and values of its parameters.
    #[pyo3(item("rank"))]
    rank: Option<(String, Vec<(String, f64)>)>,
    /// The time of the query in milliseconds since 1970.
    #[pyo3(item("now"))]
    now: Option<i64>,
    #[pyo3(item("spread"))]
    spread: Option<GivenSpread>,
}

impl GivenQuery {
    /// True if the answer has scores.
    pub(super) fn is_ranked(&self) -> bool {
        self.text.is_some() || self.rank.is_some()
    }
}

/// A query that was read with the schema.
pub(super) struct Prepared<'a> {
    text: Option<(TextQuery, bool, Option<Language>)>,
    rank: Option<Expression>,
    parameters: Vec<(&'a str, f64)>,
    now_ms: i64,
    diversify: Option<Diversity>,
    group_by: Option<GroupBy>,
}

impl<'a> Prepared<'a> {
    /// Errors: `Invalid` for words, an expression or an attribute that cannot be read.
    pub(super) fn new(given: &'a GivenQuery, schema: &Schema) -> Result<Prepared<'a>, Failure> {
        let text = given.text.as_ref().map(|(words, least, must_match, language)| {
            let plain = match least {
                0 => PlainTerms::Any,
                -1 => PlainTerms::All,
                least => PlainTerms::AtLeast(usize::try_from(*least).unwrap_or(usize::MAX)),
            };
            let language = language.as_deref().map(Language::from_name).transpose()?;
            let words = TextQuery::parse(schema, words, plain)?;
            Ok::<_, QueryError>((words, *must_match, language))
        });
        let text = text.transpose().map_err(|error| of_query("text", error))?;
        let rank = given.rank.as_ref().map(|(text, _)| Expression::parse(schema, text));
        let rank = rank.transpose().map_err(|error| of_query("rank", error))?;
        let parameters = given.rank.iter().flat_map(|(_, parameters)| parameters);
        let spread = given.spread.as_ref().map(|spread| Ok((spread.column(schema)?, spread)));
        let spread: Option<(u16, &GivenSpread)> = spread.transpose().map_err(|e: Failure| e)?;
        let per_value = |spread: &GivenSpread| spread.per_value;
        Ok(Prepared {
            text,
            rank,
            parameters: parameters.map(|(name, value)| (name.as_str(), *value)).collect(),
            now_ms: given.now.unwrap_or_else(now_ms),
            diversify: spread
                .filter(|(_, spread)| !spread.by_value)
                .map(|(column, spread)| Diversity { column, per_value: per_value(spread) }),
            group_by: spread.filter(|(_, spread)| spread.by_value).map(|(column, spread)| {
                GroupBy { column, values: given.k, per_value: per_value(spread) }
            }),
        })
    }

    /// The column whose values the answer is grouped by.
    pub(super) fn grouped_by(&self) -> Option<u16> {
        self.group_by.map(|by| by.column)
    }

    /// The query.
    pub(super) fn query<'q>(
        &'q self,
        vector: Option<&'q [f32]>,
        given: &GivenQuery,
        filter: Option<&'q Filter>,
        with: With,
    ) -> GroupQuery<'q> {
        let text = self.text.as_ref().map(|(query, must_match, language)| TextSearch {
            must_match: *must_match,
            language: *language,
            ..TextSearch::new(query)
        });
        let rank = self.rank.as_ref().map(|expression| RankBy {
            expression,
            parameters: &self.parameters,
            now_ms: self.now_ms,
        });
        GroupQuery {
            vector,
            filter,
            text,
            rank,
            radius: given.radius,
            diversify: self.diversify,
            group_by: self.group_by,
            with,
            ..GroupQuery::new(given.k)
        }
    }
}

fn of_query(what: &str, error: QueryError) -> Failure {
    Failure::invalid(format!("{what}: {error}"))
}

/// The present moment, for `freshness`.
fn now_ms() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
}
