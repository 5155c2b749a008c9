//! The JSON form of a filter, as users of Qdrant know it.
//!
//! A filter is an object of clauses, all of which must hold:
//!
//! | clause | holds if |
//! |---|---|
//! | `"must": […]` | all conditions hold |
//! | `"should": […]` | one holds; an empty list asks nothing |
//! | `"must_not": […]` | none holds; so it also holds for a row without the attribute |
//! | `"min_should": {"conditions": […], "min_count": n}` | at least n hold |
//!
//! A condition is a filter, or one of these. A single condition may stand in place of a list, and
//! (ours) in place of the whole filter.
//!
//! | condition | holds if |
//! |---|---|
//! | `{"key": "a", "match": {"value": v}}` | the value is v; a list has v |
//! | `… {"any": […]}` | it is one of these; a list has one of these |
//! | `… {"except": […]}` | there is a value, and it is none of these; not for lists |
//! | `… {"prefix": "x"}` (ours) | the keyword begins with x |
//! | `… {"all": […]}` (ours) | the list has all of these |
//! | `… {"empty": true}` (ours) | there is a list, and it has no entry |
//! | `{"key": "a", "range": {"gt", "gte", "lt", "lte"}}` | the number or timestamp is in the range |
//! | `{"key": "a", "values_count": {…}}` | a list has entries, or has none: only `gt 0`, `gte 1`, `lt 1` and `lte 0` |
//! | `{"is_null": {"key": "a"}}`, `{"key": "a", "is_null": true}` | there is no value |
//! | `{"is_empty": {"key": "a"}}`, `{"key": "a", "is_empty": true}` | there is no value, or an empty list |
//! | `{"has_id": […]}` | the id is one of these |
//! | `{"has_hash": […]}` (ours) | the hash of the string id is one of these, as [`Filter::to_json`] writes it |
//! | `{"filter": {…}}` (ours) | the filter holds |
//!
//! Beyond Qdrant, `value`, `any` and `except` take floats and timestamps too. A timestamp is an
//! RFC 3339 text or integer milliseconds. A key twice in one object is refused.

use serde_json::{Map, Value as Json};

use crate::error::{shown, Refused};
use crate::filter::leaf::{self, Column};
use crate::filter::limits::{bad, check_text, FILTER_DEPTH_MAX};
use crate::filter::literal::{Literal, Order};
use crate::filter::place::Place;
use crate::filter::{Filter, Test};
use crate::name::Names;
use crate::schema::{AttributeKind, IdKind};
use crate::strict;

/// The clauses of a filter.
const CLAUSES: [&str; 4] = ["must", "should", "must_not", "min_should"];

impl Filter {
    /// Reads the JSON form: see the table in `src/filter/json.rs`, or Qdrant's documentation.
    ///
    /// * `names`: a `&Schema`, or [`Names`] where the filter may name string ids.
    /// * `text`: at most [`crate::FILTER_TEXT_BYTES_MAX`] bytes.
    ///
    /// Cost: one pass over the text and one over the values. Errors, with the place in the filter:
    /// `BadFilter` if it cannot be read or is beyond the limits, `UnknownAttribute`, `WrongType` if
    /// a condition does not fit its attribute, `BadId`.
    pub fn from_json<'a>(names: impl Into<Names<'a>>, text: &str) -> Result<Filter, Refused> {
        check_text(text)?;
        let json = strict::parse(text)
            .map_err(|error| bad(format!("The filter is no JSON that can be read: {error}.")))?;
        Filter::from_json_value(names, &json)
    }

    /// Reads the JSON form from a value. Cost and errors: as [`Filter::from_json`].
    pub fn from_json_value<'a>(
        names: impl Into<Names<'a>>,
        json: &Json,
    ) -> Result<Filter, Refused> {
        let reader = Reader { names: names.into() };
        let filter = reader.condition(json, &Place::ROOT, 1)?;
        filter.check_limits()?;
        Ok(filter)
    }
}

struct Reader<'a> {
    names: Names<'a>,
}

impl Reader<'_> {
    fn filter(&self, json: &Json, place: &Place<'_>, level: usize) -> Result<Filter, Refused> {
        // "No row", an object in an object, takes two levels more than the node that it gives.
        if level > FILTER_DEPTH_MAX + 2 {
            return Err(place.bad(format!("A filter has at most {FILTER_DEPTH_MAX} levels.")));
        }
        let Json::Object(object) = json else {
            return Err(place.bad("A filter is an object with must, should, must_not, min_should."));
        };
        let mut clauses = Vec::new();
        for (key, value) in object {
            if !CLAUSES.contains(&key.as_str()) {
                let key = shown(key);
                let known = CLAUSES.join(", ");
                return Err(place.bad(format!("'{key}' is no clause: use {known}.")));
            }
            if !value.is_null() {
                self.clause(key, value, &place.key(key), level, &mut clauses)?;
            }
        }
        let only = if clauses.len() == 1 { clauses.pop() } else { None };
        Ok(only.unwrap_or(Filter::And(clauses)))
    }

    /// Adds what a clause asks.
    fn clause(
        &self,
        key: &str,
        json: &Json,
        place: &Place<'_>,
        level: usize,
        clauses: &mut Vec<Filter>,
    ) -> Result<(), Refused> {
        match key {
            "must" => clauses.push(Filter::And(self.conditions(json, place, level)?)),
            "should" => {
                let parts = self.conditions(json, place, level)?;
                clauses.extend((!parts.is_empty()).then_some(Filter::Or(parts)));
            }
            "must_not" => {
                let is_none = |one: &Json| one.as_object().is_some_and(Map::is_empty);
                if json.as_array().is_some_and(|list| list.len() == 1 && is_none(&list[0])) {
                    // The one way to write a filter that holds for no row.
                    clauses.push(Filter::NONE);
                } else {
                    let parts = self.conditions(json, place, level)?;
                    clauses.extend(parts.into_iter().map(Filter::negated));
                }
            }
            _ => {
                let parts = json.as_object().filter(|object| object.len() == 2);
                let conditions = parts.and_then(|object| object.get("conditions"));
                let least = parts.and_then(|object| object.get("min_count")?.as_u64());
                let (Some(conditions), Some(least)) = (conditions, least) else {
                    return Err(place.bad("'min_should' has 'conditions' and a 'min_count'."));
                };
                let least = usize::try_from(least).unwrap_or(usize::MAX);
                let parts = self.conditions(conditions, &place.key("conditions"), level)?;
                clauses.push(Filter::AtLeast(least, parts));
            }
        }
        Ok(())
    }

    fn conditions(
        &self,
        json: &Json,
        place: &Place<'_>,
        level: usize,
    ) -> Result<Vec<Filter>, Refused> {
        match json {
            Json::Array(list) => {
                let numbered = list.iter().enumerate();
                numbered.map(|(i, one)| self.condition(one, &place.at(i), level + 1)).collect()
            }
            Json::Object(_) => Ok(vec![self.condition(json, place, level + 1)?]),
            _ => Err(place.bad("Give an array of conditions.")),
        }
    }

    fn condition(&self, json: &Json, place: &Place<'_>, level: usize) -> Result<Filter, Refused> {
        let Json::Object(object) = json else {
            return Err(place.bad("A condition is an object."));
        };
        if object.contains_key("key") {
            return self.on_attribute(object, place);
        }
        let Some((key, value)) = object.iter().next().filter(|_| object.len() == 1) else {
            return self.filter(json, place, level);
        };
        let below = place.key(key);
        match key.as_str() {
            "filter" => self.filter(value, &below, level),
            "has_id" => {
                let ids = literals(value, &below)?;
                leaf::ids(&self.names, &ids).map_err(|refused| below.refused(&refused))
            }
            "has_hash" => self.has_hash(value, &below),
            "is_null" => Ok(self.named(value, &below)?.exists().negated()),
            "is_empty" => Ok(self.named(value, &below)?.is_empty()),
            "nested" | "has_vector" => {
                Err(place.bad(format!("'{key}' is not supported: values are not nested.")))
            }
            _ => self.filter(json, place, level),
        }
    }

    fn has_hash(&self, json: &Json, place: &Place<'_>) -> Result<Filter, Refused> {
        if self.names.schema.id != IdKind::String {
            return Err(place.bad("The ids of the collection are numbers: use 'has_id'."));
        }
        let list = json.as_array().ok_or_else(|| place.bad("Give an array of hashes."))?;
        let hashes = list.iter().map(|one| one.as_u64().map(i128::from).map(Literal::Integer));
        let hashes = hashes.collect::<Option<Vec<_>>>();
        let hashes = hashes.ok_or_else(|| place.bad("A hash is a whole number."))?;
        // Hashes are numbers already, so they are read like the ids of such a collection.
        let schema = crate::schema::Schema::default();
        leaf::ids(&Names::from(&schema), &hashes).map_err(|refused| place.refused(&refused))
    }

    /// The attribute of `{"key": "a"}`.
    fn named(&self, json: &Json, place: &Place<'_>) -> Result<Column<'_>, Refused> {
        let object = json.as_object().filter(|object| object.len() == 1);
        let Some(name) = object.and_then(|object| object.get("key")?.as_str()) else {
            return Err(place.bad("Give {\"key\": …} with the name of an attribute."));
        };
        Column::find(&self.names, name).map_err(|refused| place.refused(&refused))
    }

    fn on_attribute(
        &self,
        object: &Map<String, Json>,
        place: &Place<'_>,
    ) -> Result<Filter, Refused> {
        let Some(name) = object["key"].as_str() else {
            return Err(place.bad("'key' is the name of an attribute."));
        };
        let column = Column::find(&self.names, name).map_err(|refused| place.refused(&refused))?;
        let mut others = object.iter().filter(|(key, _)| *key != "key");
        let (Some((key, value)), None) = (others.next(), others.next()) else {
            return Err(place.bad(
                "A condition on an attribute has 'key' and one of match, range, is_null, is_empty \
                 and values_count.",
            ));
        };
        let below = place.key(key);
        let flag = || value.as_bool().ok_or_else(|| below.bad("Give true or false."));
        let asserted = |filter: Filter, is_so: bool| if is_so { filter } else { filter.negated() };
        match key.as_str() {
            "match" => matched(&column, value, &below),
            "range" => range(&column, value, &below),
            "values_count" => values_count(&column, value, &below),
            "is_null" => Ok(asserted(column.exists(), !flag()?)),
            "is_empty" => Ok(asserted(column.is_empty(), flag()?)),
            "geo_bounding_box" | "geo_radius" | "geo_polygon" => {
                Err(place.bad(format!("'{key}' is not supported: no attribute holds places.")))
            }
            _ => Err(place.bad(format!("'{}' is no condition on an attribute.", shown(key)))),
        }
    }
}

fn matched(column: &Column<'_>, json: &Json, place: &Place<'_>) -> Result<Filter, Refused> {
    let only = json.as_object().filter(|object| object.len() == 1);
    let Some((how, value)) = only.and_then(|object| object.iter().next()) else {
        return Err(place.bad("'match' has one of value, any, except, prefix, all and empty."));
    };
    let place = place.key(how);
    let filter = match how.as_str() {
        "value" => column.one_of(&[literal(value, &place)?]),
        "any" => column.one_of(&literals(value, &place)?),
        "except" if column.kind == AttributeKind::Keywords => {
            Err(bad("'except' is not supported for lists: use 'must_not' with 'any'."))
        }
        "except" => {
            column.one_of(&literals(value, &place)?).map(|filter| column.exists_and_not(filter))
        }
        "all" => column.all_of(&literals(value, &place)?),
        "prefix" => match value.as_str() {
            Some(prefix) => column.prefix(prefix),
            None => Err(bad("A prefix is a text.")),
        },
        "empty" => match (column.kind, value) {
            (AttributeKind::Keywords, Json::Bool(true)) => Ok(column.test(Test::IsEmpty)),
            (AttributeKind::Keywords, _) => Err(bad("'empty' is true, or left out.")),
            _ => Err(column.unfit("empty: it is no list")),
        },
        "text" | "text_any" | "phrase" => Err(bad(format!(
            "'{how}' searches words, which a filter does not: ask for words in a query of a group."
        ))),
        other => Err(bad(format!("'{}' is no way to match.", shown(other)))),
    };
    filter.map_err(|refused| place.refused(&refused))
}

fn range(column: &Column<'_>, json: &Json, place: &Place<'_>) -> Result<Filter, Refused> {
    let Json::Object(object) = json else {
        return Err(place.bad("'range' is an object with gt, gte, lt, lte."));
    };
    let mut bounds = Vec::new();
    for (key, value) in object {
        let order = match key.as_str() {
            "gt" => Order::Greater,
            "gte" => Order::GreaterOrEqual,
            "lt" => Order::Less,
            "lte" => Order::LessOrEqual,
            other => return Err(place.bad(format!("'{}' is no bound.", shown(other)))),
        };
        if !value.is_null() {
            bounds.push((order, literal(value, &place.key(key))?));
        }
    }
    column.range(&bounds).map_err(|refused| place.refused(&refused))
}

fn values_count(column: &Column<'_>, json: &Json, place: &Place<'_>) -> Result<Filter, Refused> {
    let only = json.as_object().filter(|object| object.len() == 1);
    let bound = only.and_then(|object| object.iter().next());
    let bound = bound.and_then(|(key, value)| Some((key.as_str(), value.as_u64()?)));
    match bound {
        _ if column.kind != AttributeKind::Keywords => {
            Err(place.refused(&column.unfit("counted: it is no list")))
        }
        Some(("gt", 0) | ("gte", 1)) => Ok(column.exists_and_not(column.test(Test::IsEmpty))),
        Some(("lt", 1) | ("lte", 0)) => Ok(column.is_empty()),
        _ => Err(place.bad("Only 'gt 0', 'gte 1', 'lt 1' and 'lte 0' are supported.")),
    }
}

fn literal<'a>(json: &'a Json, place: &Place<'_>) -> Result<Literal<'a>, Refused> {
    Literal::of_json(json).ok_or_else(|| place.bad("Give a text, a number, true or false."))
}

fn literals<'a>(json: &'a Json, place: &Place<'_>) -> Result<Vec<Literal<'a>>, Refused> {
    let list = json.as_array().ok_or_else(|| place.bad("Give an array of values."))?;
    list.iter().enumerate().map(|(i, one)| literal(one, &place.at(i))).collect()
}
