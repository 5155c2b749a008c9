//! Filters as messages, in the JSON form that all filters are read from.
//!
//! Nothing is decided here: what the reader of the JSON form refuses, such as places and words, is
//! handed to it under the name that it knows.

use prost_types::Timestamp;
use serde_json::{json, Map, Value as Json};

use super::proto::condition::ConditionOneOf;
use super::proto::r#match::MatchValue;
use super::proto::{Condition, DatetimeRange, FieldCondition, Filter, Match, Range, ValuesCount};
use super::read::point_id;
use super::value::finite;
use crate::collection::PointId;
use crate::failure::Failure;

/// The first and the last second of the years 1 to 9999, which a text of a time can have.
const SECONDS: std::ops::RangeInclusive<i64> = -62_135_596_800..=253_402_300_799;

/// The JSON form of a filter. Errors: `BAD_REQUEST` for what has no such form.
pub(super) fn json(filter: Filter) -> Result<Json, Failure> {
    let mut out = Map::new();
    let clauses = [("must", filter.must), ("should", filter.should), ("must_not", filter.must_not)];
    for (name, conditions) in clauses {
        if !conditions.is_empty() {
            out.insert(name.to_owned(), each(conditions)?);
        }
    }
    if let Some(least) = filter.min_should {
        let least = json!({
            "conditions": each(least.conditions)?,
            "min_count": least.min_count,
        });
        out.insert("min_should".to_owned(), least);
    }
    Ok(Json::Object(out))
}

/// The JSON form of a filter, if there is one.
pub(super) fn some(filter: Option<Filter>) -> Result<Option<Json>, Failure> {
    filter.map(json).transpose()
}

fn each(conditions: Vec<Condition>) -> Result<Json, Failure> {
    conditions.into_iter().map(condition).collect()
}

fn condition(condition: Condition) -> Result<Json, Failure> {
    let condition = condition.condition_one_of;
    Ok(match condition.ok_or_else(|| Failure::bad("a condition of the filter is empty"))? {
        ConditionOneOf::Field(field) => on_field(field)?,
        ConditionOneOf::IsEmpty(of) => json!({"is_empty": {"key": of.key}}),
        ConditionOneOf::IsNull(of) => json!({"is_null": {"key": of.key}}),
        ConditionOneOf::HasId(ids) => {
            let ids = ids.has_id.into_iter().map(|id| point_id(Some(id)));
            json!({"has_id": ids.collect::<Result<Vec<PointId>, _>>()?})
        }
        ConditionOneOf::Filter(filter) => json!({"filter": json(filter)?}),
        ConditionOneOf::Nested(nested) => json!({"nested": {"key": nested.key}}),
        ConditionOneOf::HasVector(vector) => json!({"has_vector": vector.has_vector}),
        ConditionOneOf::Slice(_) => {
            return Err(Failure::bad("'slice' is not supported: give ids or a condition"));
        }
    })
}

fn on_field(field: FieldCondition) -> Result<Json, Failure> {
    let FieldCondition {
        key,
        r#match,
        range,
        geo_bounding_box,
        geo_radius,
        values_count,
        geo_polygon,
        datetime_range,
        is_empty,
        is_null,
    } = field;
    if range.is_some() && datetime_range.is_some() {
        return Err(Failure::bad(format!("'{key}' has a range of numbers and one of times")));
    }
    let range = match datetime_range {
        Some(times) => Some(between_times(&times)?),
        None => range.map(|range| between(&range)).transpose()?,
    };
    let parts = [
        ("match", r#match.map(matched).transpose()?),
        ("range", range),
        ("values_count", values_count.as_ref().map(counted)),
        ("geo_bounding_box", geo_bounding_box.map(|_| json!({}))),
        ("geo_radius", geo_radius.map(|_| json!({}))),
        ("geo_polygon", geo_polygon.map(|_| json!({}))),
        ("is_empty", is_empty.map(Json::from)),
        ("is_null", is_null.map(Json::from)),
    ];
    let parts = parts.into_iter().filter_map(|(name, part)| Some((name.to_owned(), part?)));
    Ok(Json::Object(parts.chain([("key".to_owned(), Json::from(key))]).collect()))
}

fn matched(how: Match) -> Result<Json, Failure> {
    let how = how.match_value.ok_or_else(|| Failure::bad("a match of the filter is empty"))?;
    Ok(match how {
        MatchValue::Keyword(text) => json!({"value": text}),
        MatchValue::Integer(number) => json!({"value": number}),
        MatchValue::Boolean(is_true) => json!({"value": is_true}),
        MatchValue::Keywords(texts) => json!({"any": texts.strings}),
        MatchValue::Integers(numbers) => json!({"any": numbers.integers}),
        MatchValue::ExceptKeywords(texts) => json!({"except": texts.strings}),
        MatchValue::ExceptIntegers(numbers) => json!({"except": numbers.integers}),
        MatchValue::Text(text) => json!({"text": text}),
        MatchValue::Phrase(text) => json!({"phrase": text}),
        MatchValue::TextAny(text) => json!({"text_any": text}),
        MatchValue::Prefix(text) => json!({"prefix": text}),
        MatchValue::Substring(text) => json!({"substring": text}),
    })
}

fn between(range: &Range) -> Result<Json, Failure> {
    let bound = |bound: f64| Ok(Json::Number(finite(bound)?));
    bounds([range.lt, range.gt, range.gte, range.lte].map(|number| number.map(bound)))
}

fn between_times(range: &DatetimeRange) -> Result<Json, Failure> {
    let bound = |time: Timestamp| match SECONDS.contains(&time.seconds) {
        true => Ok(Json::from(time.to_string())),
        false => Err(Failure::bad("a time of the filter is outside of the years 1 to 9999")),
    };
    bounds([range.lt, range.gt, range.gte, range.lte].map(|time| time.map(bound)))
}

fn counted(count: &ValuesCount) -> Json {
    let parts = [("lt", count.lt), ("gt", count.gt), ("gte", count.gte), ("lte", count.lte)];
    let given = parts.into_iter().filter_map(|(name, count)| Some((name, count?)));
    Json::Object(given.map(|(name, count)| (name.to_owned(), Json::from(count))).collect())
}

/// * `given`: less than, greater than, at least, at most.
fn bounds(given: [Option<Result<Json, Failure>>; 4]) -> Result<Json, Failure> {
    let named = ["lt", "gt", "gte", "lte"].into_iter().zip(given);
    let given = named.filter_map(|(name, bound)| Some((name, bound?)));
    let given = given.map(|(name, bound)| Ok((name.to_owned(), bound?)));
    Ok(Json::Object(given.collect::<Result<_, Failure>>()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn on(key: &str) -> FieldCondition {
        FieldCondition { key: key.to_owned(), ..FieldCondition::default() }
    }

    fn filter(field: FieldCondition) -> Filter {
        let one = Condition { condition_one_of: Some(ConditionOneOf::Field(field)) };
        Filter { must: vec![one], ..Filter::default() }
    }

    #[test]
    fn times_and_numbers_become_bounds() {
        let time = |seconds| Some(Timestamp { seconds, nanos: 500_000_000 });
        let times = DatetimeRange { gte: time(1_795_600_800), ..DatetimeRange::default() };
        let made = json(filter(FieldCondition { datetime_range: Some(times), ..on("made") }));
        let expected = json!({"gte": "2026-11-25T10:00:00.500Z"});
        assert_eq!(made.unwrap()["must"][0], json!({"key": "made", "range": expected}));
        let far = DatetimeRange { lt: time(i64::MAX), ..DatetimeRange::default() };
        assert!(json(filter(FieldCondition { datetime_range: Some(far), ..on("made") })).is_err());
        let range = Range { lt: Some(2.5), gte: Some(-1.0), ..Range::default() };
        let made = json(filter(FieldCondition { range: Some(range), ..on("price") })).unwrap();
        assert_eq!(made["must"][0]["range"], json!({"lt": 2.5, "gte": -1.0}));
        let endless = Range { lt: Some(f64::INFINITY), ..Range::default() };
        assert!(json(filter(FieldCondition { range: Some(endless), ..on("price") })).is_err());
    }

    #[test]
    fn conditions_that_say_nothing_are_refused() {
        let empty = Filter { must: vec![Condition::default()], ..Filter::default() };
        assert!(json(empty).is_err());
        let empty = FieldCondition { r#match: Some(Match { match_value: None }), ..on("a") };
        assert!(json(filter(empty)).is_err());
        assert_eq!(json(Filter::default()).unwrap(), json!({}));
    }
}
