//! Filters as Qdrant's clients write them.
//!
//! Our own JSON form is Qdrant's. What differs is said here: a key that no row has yet is no mistake,
//! and ids are texts where a collection holds them so.

use serde_json::{json, Map, Value as Json};
use vstream_engine::{AttributeKind, Filter, IdKind, Names, Schema, ATTRIBUTES_MAX};

use super::payload::{keyword, listed};
use crate::collection::{Collection, PointId};
use crate::failure::Failure;

/// Reads a filter. Errors: `BAD_REQUEST` with the place in the filter.
pub(super) fn read(collection: &Collection, json: &Json) -> Result<Filter, Failure> {
    let schema = collection.reader().schema();
    let ours = Rewriter { schema: &schema, ids: collection.ids.kind }.filter(json)?;
    let names = Names::new(&schema, &collection.ids.hash);
    Ok(Filter::from_json_value(names, &ours)?.simplify())
}

/// Reads a filter, if there is one.
pub(super) fn read_some(
    collection: &Collection,
    json: &Option<Json>,
) -> Result<Option<Filter>, Failure> {
    let is_given = |json: &&Json| !json.is_null();
    json.as_ref().filter(is_given).map(|json| read(collection, json)).transpose()
}

struct Rewriter<'a> {
    schema: &'a Schema,
    ids: IdKind,
}

impl Rewriter<'_> {
    /// A filter or a condition; what is neither stays for the reader, which says why.
    fn filter(&self, json: &Json) -> Result<Json, Failure> {
        let Json::Object(object) = json else { return Ok(json.clone()) };
        let given = object.iter().filter(|(_, value)| !value.is_null());
        let object: Map<String, Json> =
            given.map(|(key, value)| (key.clone(), value.clone())).collect();
        if let Some(Json::String(name)) = object.get("key") {
            return self.condition(name, &object);
        }
        let mut out = Map::new();
        for (key, value) in &object {
            let value = match key.as_str() {
                "must" | "should" | "must_not" => self.each(value)?,
                "min_should" => match value {
                    Json::Object(parts) => {
                        let mut parts = parts.clone();
                        if let Some(conditions) = parts.get("conditions") {
                            let conditions = self.each(conditions)?;
                            parts.insert("conditions".to_owned(), conditions);
                        }
                        Json::Object(parts)
                    }
                    other => other.clone(),
                },
                "filter" => self.filter(value)?,
                "has_id" => self.has_id(value)?,
                "is_empty" | "is_null" => match value.get("key").and_then(Json::as_str) {
                    Some(name) if self.is_unknown(name)? => return Ok(all()),
                    Some(name) => json!({"key": plain(name)}),
                    None => value.clone(),
                },
                _ => value.clone(),
            };
            out.insert(key.clone(), value);
        }
        Ok(Json::Object(out))
    }

    fn each(&self, json: &Json) -> Result<Json, Failure> {
        match json {
            Json::Array(list) => {
                Ok(Json::Array(list.iter().map(|one| self.filter(one)).collect::<Result<_, _>>()?))
            }
            one => self.filter(one),
        }
    }

    fn has_id(&self, json: &Json) -> Result<Json, Failure> {
        let ids: Vec<PointId> = serde_json::from_value(json.clone())
            .map_err(|error| Failure::bad(format!("has_id: {error}")))?;
        let as_held = |id: PointId| match (self.ids, id) {
            (IdKind::U64, PointId::Number(number)) => Ok(Json::from(number)),
            (IdKind::String, PointId::Number(number)) => Ok(Json::from(number.to_string())),
            (IdKind::String, PointId::Text(text)) => Ok(Json::from(text)),
            (IdKind::U64, PointId::Text(text)) => Err(Failure::bad(format!(
                "has_id: the ids of the collection are whole numbers: '{text}' is none"
            ))),
        };
        Ok(Json::Array(ids.into_iter().map(as_held).collect::<Result<_, _>>()?))
    }

    /// A condition on the value of a key.
    fn condition(&self, name: &str, object: &Map<String, Json>) -> Result<Json, Failure> {
        if self.is_unknown(name)? {
            let holds = |key: &str| object.get(key).and_then(Json::as_bool) == Some(true);
            let counted = object.get("values_count");
            let is_none_enough = counted.is_some_and(|counted| {
                let below = |key: &str| counted.get(key).and_then(Json::as_u64);
                below("lt").is_some_and(|n| n > 0) || below("lte").is_some()
            });
            let is_met = holds("is_empty") || holds("is_null") || is_none_enough;
            return Ok(if is_met { all() } else { none() });
        }
        let mut out = object.clone();
        out.insert("key".to_owned(), Json::from(plain(name)));
        let kind = self.schema.column(plain(name)).and_then(|column| self.schema.kind(column));
        if let (Some(Json::Object(how)), Some(kind)) = (object.get("match"), kind) {
            let given = how.iter().filter(|(_, value)| !value.is_null());
            let how: Map<String, Json> =
                given.map(|(key, value)| (key.clone(), as_attribute(kind, value))).collect();
            out.insert("match".to_owned(), Json::Object(how));
        }
        Ok(Json::Object(out))
    }

    /// True if no row can have a value under this key. Errors: `BAD_REQUEST` if rows may have one that
    /// is no attribute, because there are too many keys.
    fn is_unknown(&self, name: &str) -> Result<bool, Failure> {
        if self.schema.column(plain(name)).is_some() {
            return Ok(false);
        }
        if self.schema.attributes.len() >= ATTRIBUTES_MAX {
            return Err(Failure::bad(format!(
                "the key '{name}' cannot be asked for: payloads had more than {ATTRIBUTES_MAX} keys"
            )));
        }
        Ok(true)
    }
}

/// The name of an attribute: a key may say that its value is a list.
fn plain(name: &str) -> &str {
    name.strip_suffix("[]").unwrap_or(name)
}

/// A value, or a list of them, in the form that the attribute holds.
fn as_attribute(kind: AttributeKind, value: &Json) -> Json {
    match (kind, value) {
        (_, Json::Array(list)) => list.iter().map(|one| as_attribute(kind, one)).collect(),
        (AttributeKind::Keyword, Json::String(text)) => Json::from(keyword(text)),
        (AttributeKind::Keywords, value) => listed(value).map_or(value.clone(), Json::from),
        _ => value.clone(),
    }
}

fn all() -> Json {
    json!({"must": []})
}

fn none() -> Json {
    json!({"must_not": [{}]})
}
