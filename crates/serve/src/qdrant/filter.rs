//! Filters as Qdrant's clients write them.
//!
//! Our own JSON form is Qdrant's. What differs is said here: a key that no row has yet is no mistake, an object has
//! values if one of its values has, and ids are texts where a collection holds them so. What rows may have under a key
//! without an attribute of it is refused: a filter that is wrong about it would delete what it should not.

use std::borrow::Cow;

use serde_json::{json, Map, Value as Json};
use vstream_engine::{AttributeKind, Filter, IdKind, Names, RefusedKind, Schema, ATTRIBUTES_MAX};

use super::payload::{keyword, listed, LEVELS_MAX};
use crate::collection::{Collection, PointId};
use crate::failure::Failure;

/// Kinds that a value under a key without an attribute may turn out to have.
const KINDS: [AttributeKind; 5] = [
    AttributeKind::Keyword,
    AttributeKind::F64,
    AttributeKind::Bool,
    AttributeKind::Keywords,
    AttributeKind::Timestamp,
];

/// Reads a filter. Errors: `BAD_REQUEST` with the place in the filter.
pub(super) fn read(collection: &Collection, json: &Json) -> Result<Filter, Failure> {
    read_by(&collection.reader().schema(), collection, json)
}

/// Reads a filter of rows whose attributes a schema has. Errors: as [`read`].
pub(super) fn read_by(
    schema: &Schema,
    collection: &Collection,
    json: &Json,
) -> Result<Filter, Failure> {
    let ours = Rewriter { schema, collection }.filter(json.clone())?;
    let names = Names::new(schema, &collection.ids.hash);
    Ok(Filter::from_json_value(names, &ours)?.simplify())
}

/// The filter of a read, if it has one.
pub(super) struct ReadFilter {
    json: Option<Json>,
    filter: Option<Filter>,
    /// Attributes that there were when it was read.
    known: usize,
}

impl ReadFilter {
    /// Errors: as [`read`].
    pub(super) fn new(collection: &Collection, json: Option<Json>) -> Result<ReadFilter, Failure> {
        let json = json.filter(|json| !json.is_null());
        let mut one = ReadFilter { json, filter: None, known: 0 };
        one.read(collection)?;
        Ok(one)
    }

    pub(super) fn get(&self) -> Option<&Filter> {
        self.filter.as_ref()
    }

    /// Does what looks at rows; again if attributes were added since the filter was read: rows may have them, and it
    /// took them for keys that none has. Errors: those of `work`.
    pub(super) fn look<T>(
        &mut self,
        collection: &Collection,
        mut work: impl FnMut(Option<&Filter>) -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        loop {
            let done = work(self.get())?;
            if self.json.is_none() || attributes(collection) == self.known {
                return Ok(done);
            }
            let before = self.filter.clone();
            self.read(collection)?;
            if self.filter == before {
                return Ok(done);
            }
        }
    }

    fn read(&mut self, collection: &Collection) -> Result<(), Failure> {
        self.known = attributes(collection);
        self.filter = self.json.as_ref().map(|json| read(collection, json)).transpose()?;
        Ok(())
    }
}

fn attributes(collection: &Collection) -> usize {
    collection.reader().schema().attributes.len()
}

struct Rewriter<'a> {
    schema: &'a Schema,
    collection: &'a Collection,
}

impl Rewriter<'_> {
    /// A filter or a condition; what is neither stays for the reader, which says why.
    ///
    /// Nothing is copied: whether a filter is too deep or too long is found by the reader, after this.
    fn filter(&self, json: Json) -> Result<Json, Failure> {
        let Json::Object(mut object) = json else { return Ok(json) };
        object.retain(|_, value| !value.is_null());
        if let Some(Json::String(name)) = object.get("key") {
            return self.condition(name, &object);
        }
        if object.len() == 1 {
            for asked in ["is_empty", "is_null"] {
                let of = object.get(asked).and_then(|value| value.get("key")?.as_str());
                if let Some(name) = of {
                    return self.has_none(&self.key(name), asked);
                }
            }
        }
        for (key, value) in &mut object {
            let given = value.take();
            *value = match key.as_str() {
                "must" | "should" | "must_not" => self.each(given)?,
                "min_should" => self.min_should(given)?,
                "filter" => self.filter(given)?,
                "has_id" => self.has_id(given)?,
                _ => given,
            };
        }
        Ok(Json::Object(object))
    }

    fn min_should(&self, mut json: Json) -> Result<Json, Failure> {
        if let Some(conditions) = json.get_mut("conditions") {
            *conditions = self.each(conditions.take())?;
        }
        Ok(json)
    }

    fn each(&self, json: Json) -> Result<Json, Failure> {
        match json {
            Json::Array(list) => {
                let list = list.into_iter().map(|one| self.filter(one));
                Ok(Json::Array(list.collect::<Result<_, _>>()?))
            }
            one => self.filter(one),
        }
    }

    fn has_id(&self, json: Json) -> Result<Json, Failure> {
        let ids: Vec<PointId> = serde_json::from_value(json)
            .map_err(|error| Failure::bad(format!("has_id: {error}")))?;
        let as_held = |id: PointId| match (self.collection.ids.kind, id) {
            (IdKind::U64, PointId::Number(number)) => Ok(Json::from(number)),
            (IdKind::String, PointId::Number(number)) => Ok(Json::from(number.to_string())),
            (IdKind::String, PointId::Text(text)) => Ok(Json::from(text)),
            (IdKind::U64, PointId::Text(text)) => Err(Failure::bad(format!(
                "has_id: the ids of the collection are whole numbers: '{text}' is none"
            ))),
        };
        let ids = self.collection.meant(ids)?.into_iter();
        Ok(Json::Array(ids.map(as_held).collect::<Result<_, _>>()?))
    }

    /// A condition on the value of a key.
    fn condition(&self, name: &str, object: &Map<String, Json>) -> Result<Json, Failure> {
        let name = self.key(name);
        let name = &*name;
        for asked in ["is_empty", "is_null"] {
            if let (Some(Json::Bool(is_so)), 2) = (object.get(asked), object.len()) {
                let has_none = self.has_none(name, asked)?;
                return Ok(if *is_so { has_none } else { json!({"must_not": [has_none]}) });
            }
        }
        let counted = object.get("values_count");
        if counted.is_some() && self.values_of(plain(name)).next().is_some() {
            let what = format!("the values of '{name}' are not counted: it is an object");
            return Err(Failure::bad(what));
        }
        if self.is_unknown(name)? {
            check_form(name, object)?;
            let is_none_enough = counted.is_some_and(|counted| {
                let below = |key: &str| counted.get(key).and_then(Json::as_u64);
                below("lt").is_some_and(|n| n > 0) || below("lte").is_some()
            });
            return Ok(if is_none_enough { all() } else { none() });
        }
        let kind = self.schema.column(plain(name)).and_then(|column| self.schema.kind(column));
        let mut out = kind.map_or_else(|| object.clone(), |kind| of_kind(kind, object));
        out.insert("key".to_owned(), Json::from(plain(name)));
        Ok(Json::Object(out))
    }

    /// A key without the quotes that Qdrant has around parts with a dot: here a dot is a dot.
    fn key<'n>(&self, name: &'n str) -> Cow<'n, str> {
        let is_quoted = name.matches('"').count().is_multiple_of(2);
        if !is_quoted || self.schema.column(plain(name)).is_some() {
            return Cow::Borrowed(name);
        }
        Cow::Owned(name.replace('"', ""))
    }

    /// That a row has no value under a key, nor under one of an object of that name.
    ///
    /// * `asked`: `is_empty` or `is_null`.
    fn has_none(&self, name: &str, asked: &str) -> Result<Json, Failure> {
        let own = (!self.is_unknown(name)?).then(|| json!({asked: {"key": plain(name)}}));
        let inner = self.values_of(plain(name)).map(|value| json!({"is_null": {"key": value}}));
        Ok(json!({"must": own.into_iter().chain(inner).collect::<Json>()}))
    }

    /// The attributes of an object.
    fn values_of<'s>(&'s self, name: &'s str) -> impl Iterator<Item = &'s str> {
        let names = self.schema.attributes.iter().map(|attribute| attribute.name.as_str());
        names
            .filter(move |inner| inner.strip_prefix(name).is_some_and(|rest| rest.starts_with('.')))
    }

    /// True if no row can have a value under this key but an object. Errors: `BAD_REQUEST` if rows may have one that
    /// is no attribute: because there are too many keys, or it is in a list of objects or too deep.
    fn is_unknown(&self, name: &str) -> Result<bool, Failure> {
        if self.schema.column(plain(name)).is_some() {
            return Ok(false);
        }
        if name.contains('"') {
            return Err(Failure::bad(format!("the key '{name}' has a quote without its other")));
        }
        if plain(name).contains('[') {
            return Err(Failure::bad(format!(
                "the key '{name}' cannot be asked for: values in a list of objects are not"
            )));
        }
        if name.split('.').count() > LEVELS_MAX {
            return Err(Failure::bad(format!(
                "the key '{name}' cannot be asked for: values below {LEVELS_MAX} levels are not"
            )));
        }
        if self.schema.attributes.len() >= ATTRIBUTES_MAX {
            return Err(Failure::bad(format!(
                "the key '{name}' cannot be asked for: payloads had more than {ATTRIBUTES_MAX} keys"
            )));
        }
        Ok(true)
    }
}

/// Checks the form of a condition on a key whose kind of value nobody knows yet. Errors: `BAD_REQUEST` unless it could
/// be asked of some kind.
fn check_form(name: &str, object: &Map<String, Json>) -> Result<(), Failure> {
    // No row has a value under a name that no attribute can have, but a wrong condition on it is one.
    let schema = |kind| Schema::new([(name, kind)]).or_else(|_| Schema::new([("key", kind)]));
    let mut why = "no kind of value can meet it".to_owned();
    for kind in KINDS {
        let (schema, mut object) = (schema(kind)?, of_kind(kind, object));
        object.insert("key".to_owned(), Json::from(schema.attributes[0].name.as_str()));
        match Filter::from_json_value(&schema, &json!({"must": [object]})) {
            Ok(_) => return Ok(()),
            Err(refused) if refused.kind == RefusedKind::WrongType => {}
            // What no kind has.
            Err(refused) => why = refused.to_string(),
        }
    }
    Err(Failure::bad(format!("the condition on '{name}': {why}")))
}

/// A condition whose values have the form that an attribute of a kind holds.
fn of_kind(kind: AttributeKind, condition: &Map<String, Json>) -> Map<String, Json> {
    let mut out = condition.clone();
    if let Some(Json::Object(how)) = condition.get("match") {
        let given = how.iter().filter(|(_, value)| !value.is_null());
        let how: Map<String, Json> =
            given.map(|(key, value)| (key.clone(), as_attribute(kind, value))).collect();
        out.insert("match".to_owned(), Json::Object(how));
    }
    out
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
