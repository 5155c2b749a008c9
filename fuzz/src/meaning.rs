//! What a filter that was accepted means, read from its JSON by hand for one row.
//!
//! It shares no code with the readers of `vstream-attribute`: it looks at values as their writer
//! gave them, and knows neither columns nor trees. `None` where it does not know, which is a
//! timestamp in a text.

use std::cmp::Ordering;

use serde_json::{Map, Value as Json};
use vstream_attribute::{Schema, Value};

use crate::shop::Row;

/// A row under its schema.
#[derive(Clone, Copy)]
pub(crate) struct Seen<'a> {
    pub(crate) schema: &'a Schema,
    pub(crate) row: &'a Row,
    /// Ids are texts.
    pub(crate) has_names: bool,
}

/// Whether all of `parts` are true; `None` as soon as one is unknown.
fn all(parts: impl IntoIterator<Item = Option<bool>>) -> Option<bool> {
    parts.into_iter().try_fold(true, |all, part| Some(all & part?))
}

fn any(parts: impl IntoIterator<Item = Option<bool>>) -> Option<bool> {
    parts.into_iter().try_fold(false, |any, part| Some(any | part?))
}

fn list(json: &Json) -> Vec<&Json> {
    match json {
        Json::Array(list) => list.iter().collect(),
        one => vec![one],
    }
}

impl<'a> Seen<'a> {
    fn value(&self, name: &str) -> Option<&'a Value> {
        let column = self.schema.attributes.iter().position(|one| one.name == name);
        self.row.values[column.expect("a filter that was accepted names attributes")].as_ref()
    }

    fn is_id(&self, json: &Json) -> bool {
        match json {
            Json::String(name) => self.has_names && *name == self.row.name,
            number => !self.has_names && number.as_u64() == Some(self.row.id),
        }
    }

    /// The JSON form, as Qdrant has it.
    pub(crate) fn qdrant(&self, json: &Json) -> Option<bool> {
        let object = json.as_object()?;
        if let Some(name) = object.get("key").and_then(Json::as_str) {
            let (how, what) = object.iter().find(|(key, _)| *key != "key")?;
            return self.condition(name, how, what);
        }
        let only = if object.len() == 1 { object.iter().next() } else { None };
        match only.map(|(key, value)| (key.as_str(), value)) {
            Some(("filter", value)) => self.qdrant(value),
            Some(("has_id", ids)) => Some(list(ids).iter().any(|id| self.is_id(id))),
            Some(("has_hash", hashes)) => {
                Some(list(hashes).iter().any(|hash| hash.as_u64() == Some(self.row.id)))
            }
            Some(("is_null", of)) => Some(self.value(of["key"].as_str()?).is_none()),
            Some(("is_empty", of)) => Some(is_empty(self.value(of["key"].as_str()?))),
            _ => all(object.iter().map(|(clause, parts)| self.clause(clause, parts))),
        }
    }

    fn clause(&self, clause: &str, parts: &Json) -> Option<bool> {
        if parts.is_null() {
            return Some(true);
        }
        let parts_of = |json| list(json).into_iter().map(|part| self.qdrant(part));
        match clause {
            "must" => all(parts_of(parts)),
            "should" => Some(list(parts).is_empty() | any(parts_of(parts))?),
            "must_not" => Some(!any(parts_of(parts))?),
            _ => {
                let held: Option<Vec<bool>> = parts_of(&parts["conditions"]).collect();
                let held = held?.iter().filter(|held| **held).count();
                Some(held as u64 >= parts["min_count"].as_u64()?)
            }
        }
    }

    fn condition(&self, name: &str, how: &str, what: &Json) -> Option<bool> {
        let value = self.value(name);
        let count = match value {
            Some(Value::Keywords(texts)) => texts.len() as u64,
            _ => 0,
        };
        match how {
            "is_null" => Some(value.is_none() == what.as_bool()?),
            "is_empty" => Some(is_empty(value) == what.as_bool()?),
            "range" => {
                let bounds = what.as_object()?.iter().filter(|(_, bound)| !bound.is_null());
                let bounds = bounds.map(|(key, bound)| in_order(value, key, bound));
                Some(all(bounds)? && value.is_some())
            }
            "values_count" => {
                let (key, bound) = what.as_object()?.iter().next()?;
                let order = count.cmp(&bound.as_u64()?);
                Some(is_ordered(key, order))
            }
            _ => {
                let (how, what) = what.as_object()?.iter().next()?;
                match (how.as_str(), value) {
                    ("empty", value) => {
                        Some(matches!(value, Some(Value::Keywords(list)) if list.is_empty()))
                    }
                    ("prefix", value) => Some(begins(value, what.as_str()?)),
                    ("all", value) => Some(has_all(value, what)),
                    ("except", value) => Some(value.is_some() && !one_of(value, what)?),
                    (_, value) => one_of(value, what),
                }
            }
        }
    }

    /// The dictionary, as MongoDB has it.
    pub(crate) fn mongo(&self, json: &Json) -> Option<bool> {
        let entry = |(key, value): (&String, &Json)| {
            let parts = || list(value).into_iter().map(|part| self.mongo(part));
            match key.as_str() {
                "$and" => all(parts()),
                "$or" => any(parts()),
                "$nor" => Some(!any(parts())?),
                "$not" => Some(!self.mongo(value)?),
                name => match value {
                    Json::Object(operators) => self.operators(name, operators),
                    plain => self.operator(name, "$eq", plain),
                },
            }
        };
        all(json.as_object()?.iter().map(entry))
    }

    fn operators(&self, name: &str, operators: &Map<String, Json>) -> Option<bool> {
        all(operators.iter().map(|(operator, value)| match value {
            Json::Object(inner) => Some(!self.operators(name, inner)?),
            value => self.operator(name, operator, value),
        }))
    }

    fn operator(&self, name: &str, operator: &str, json: &Json) -> Option<bool> {
        if name == "id" {
            let is_one = list(json).iter().any(|id| self.is_id(id));
            return Some(is_one == matches!(operator, "$eq" | "$in"));
        }
        let value = self.value(name);
        match operator {
            "$eq" if json.is_null() => Some(value.is_none()),
            "$ne" if json.is_null() => Some(value.is_some()),
            "$eq" | "$in" | "$contains" | "$any" => one_of(value, json),
            "$ne" | "$nin" => Some(!one_of(value, json)?),
            "$exists" => Some(value.is_some() == json.as_bool()?),
            "$all" => Some(has_all(value, json)),
            "$prefix" => Some(begins(value, json.as_str()?)),
            order => in_order(value, &order[1..], json),
        }
    }
}

fn is_empty(value: Option<&Value>) -> bool {
    value.is_none_or(|value| matches!(value, Value::Keywords(list) if list.is_empty()))
}

fn begins(value: Option<&Value>, prefix: &str) -> bool {
    matches!(value, Some(Value::Keyword(text)) if text.starts_with(prefix))
}

fn has_all(value: Option<&Value>, json: &Json) -> bool {
    let Some(Value::Keywords(texts)) = value else { return false };
    list(json).iter().all(|one| texts.iter().any(|text| Some(text.as_str()) == one.as_str()))
}

fn one_of(value: Option<&Value>, json: &Json) -> Option<bool> {
    any(list(json).into_iter().map(|json| match (value?, json) {
        (Value::Keyword(text), Json::String(other)) => Some(text == other),
        (Value::Keywords(texts), Json::String(other)) => Some(texts.contains(other)),
        (Value::Bool(is_true), Json::Bool(other)) => Some(is_true == other),
        (Value::F64(number), Json::Number(other)) => Some(*number == other.as_f64()?),
        (Value::I64(_) | Value::Timestamp(_), Json::Number(_)) => {
            Some(compared(value?, json)? == Ordering::Equal)
        }
        _ => None,
    }))
    .or_else(|| value.is_none().then_some(false))
}

fn in_order(value: Option<&Value>, order: &str, bound: &Json) -> Option<bool> {
    let Some(value) = value else { return Some(false) };
    Some(is_ordered(order, compared(value, bound)?))
}

fn is_ordered(order: &str, found: Ordering) -> bool {
    match order {
        "gt" => found.is_gt(),
        "gte" => found.is_ge(),
        "lt" => found.is_lt(),
        _ => found.is_le(),
    }
}

/// A value beside a number: as singles of 64 bits if it is one, else without rounding.
fn compared(value: &Value, json: &Json) -> Option<Ordering> {
    let (Value::I64(whole) | Value::Timestamp(whole)) = value else {
        let Value::F64(number) = value else { return None };
        return number.partial_cmp(&json.as_f64()?);
    };
    let whole = i128::from(*whole);
    if let Some(other) = json.as_i64().map(i128::from).or(json.as_u64().map(i128::from)) {
        return Some(whole.cmp(&other));
    }
    let other = json.as_f64()?;
    // Every i64 is an i128, and a number beyond those of 128 bits saturates on its side.
    let floor = whole.cmp(&(other.floor() as i128));
    Some(if floor.is_eq() && other.fract() != 0.0 { Ordering::Less } else { floor })
}
