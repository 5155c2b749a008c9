//! A filter as JSON, which the reader turns into an equal filter.

use std::ops::Bound;

use serde_json::{json, Map, Value as Json};

use crate::error::Refused;
use crate::filter::{Filter, Range, Test};
use crate::schema::{IdKind, Schema};

impl Filter {
    /// The filter as JSON, in the form of Qdrant and in one line. [`Filter::from_json`] reads an
    /// equal filter from it, unless a hand-made filter repeats a value in a list.
    ///
    /// String ids are written as their hashes, because the texts are not known here.
    ///
    /// Cost: one pass. Errors: as [`Filter::check`].
    pub fn to_json(&self, schema: &Schema) -> Result<String, Refused> {
        self.check(schema)?;
        Ok(node(schema, self).to_string())
    }
}

fn node(schema: &Schema, filter: &Filter) -> Json {
    let parts = |parts: &[Filter]| parts.iter().map(|part| node(schema, part)).collect::<Json>();
    match filter {
        Filter::And(all) => json!({ "must": parts(all) }),
        Filter::Or(any) if any.is_empty() => json!({"must_not": [{}]}),
        Filter::Or(any) => json!({ "should": parts(any) }),
        Filter::AtLeast(least, of) => {
            json!({"min_should": {"conditions": parts(of), "min_count": least}})
        }
        Filter::Not(part) => match &**part {
            Filter::Attribute(column, Test::Exists) => {
                json!({"is_null": {"key": name(schema, *column)}})
            }
            part => json!({"must_not": [node(schema, part)]}),
        },
        Filter::Attribute(column, test) => condition(name(schema, *column), test),
        Filter::Ids(ids) => match schema.id {
            IdKind::U64 => json!({ "has_id": ids }),
            IdKind::String => json!({ "has_hash": ids }),
        },
    }
}

fn name(schema: &Schema, column: u16) -> &str {
    &schema.attributes[usize::from(column)].name
}

fn condition(key: &str, test: &Test) -> Json {
    match test {
        Test::Exists => json!({"key": key, "is_null": false}),
        Test::KeywordIn(texts) | Test::AnyOf(texts) => json!({"key": key, "match": {"any": texts}}),
        Test::KeywordPrefix(prefix) => json!({"key": key, "match": {"prefix": prefix}}),
        Test::AllOf(texts) => json!({"key": key, "match": {"all": texts}}),
        Test::IsEmpty => json!({"key": key, "match": {"empty": true}}),
        Test::I64In(numbers) => json!({"key": key, "match": {"any": numbers}}),
        Test::I64Range(bounds) => json!({"key": key, "range": range(bounds)}),
        Test::F64In(numbers) => json!({"key": key, "match": {"any": numbers}}),
        Test::F64Range(bounds) => json!({"key": key, "range": range(bounds)}),
        Test::Bool(is_true) => json!({"key": key, "match": {"value": is_true}}),
    }
}

fn range<T: Copy + Into<Json>>(range: &Range<T>) -> Json {
    let mut bounds = Map::new();
    match range.from {
        Bound::Unbounded => None,
        Bound::Included(from) => bounds.insert("gte".to_owned(), from.into()),
        Bound::Excluded(from) => bounds.insert("gt".to_owned(), from.into()),
    };
    match range.to {
        Bound::Unbounded => None,
        Bound::Included(to) => bounds.insert("lte".to_owned(), to.into()),
        Bound::Excluded(to) => bounds.insert("lt".to_owned(), to.into()),
    };
    Json::Object(bounds)
}
