//! Payloads: kept as JSON, and their values as attributes, so that filters find them.
//!
//! | value | attribute |
//! |---|---|
//! | text | keyword; of a text above [`KEYWORD_BYTES_MAX`] bytes its beginning and a hash |
//! | number | f64, unless an index said integer |
//! | true, false | bool |
//! | list | keywords: the texts of its texts, numbers and truth values, and [`OTHER`] for anything else |
//! | object | its values, under `name.of.value`; [`OTHER`] if there are none, or at the last level |
//! | null | nothing |

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::Arc;

use serde_json::value::RawValue;
use serde_json::{Map, Value as Json};
use sha2::{Digest, Sha256};
use vstream_engine::{
    attributes_to_json, AttributeKind, AttributesBuilder, Fields, Schema, ValueRef, ATTRIBUTES_MAX,
    PAYLOAD_BYTES_MAX,
};

use crate::access::hex;
use crate::failure::Failure;

/// Longer texts are attributes by their beginning and a hash: such as the text of a document.
const KEYWORD_BYTES_MAX: usize = 256;
/// Bytes of the beginning that such an attribute has.
const BEGINNING: usize = 32;
/// Bytes of its hash, SHA-256 cut off: nobody finds two texts with one.
const HASH: usize = 16;
/// Stands for what is neither text, number nor truth value in a list, and for an object without values, so that neither
/// passes for nothing.
const OTHER: &str = "\0";
/// Most levels of objects whose values are attributes.
pub(super) const LEVELS_MAX: usize = 8;

/// Which parts of the payload are wanted.
#[derive(Clone, Debug)]
pub(crate) enum WithPayload {
    All(bool),
    Include(Vec<String>),
    Exclude(Vec<String>),
}

/// The keyword that stands for a text.
pub(super) fn keyword(text: &str) -> Cow<'_, str> {
    if text.len() <= KEYWORD_BYTES_MAX {
        return Cow::Borrowed(text);
    }
    let beginning = text.char_indices().take_while(|(at, c)| at + c.len_utf8() <= BEGINNING);
    let beginning: String = beginning.map(|(_, c)| c).collect();
    Cow::Owned(format!("{beginning}#{}", hex(&Sha256::digest(text)[..HASH])))
}

/// The text of a value in a list.
pub(super) fn listed(value: &Json) -> Option<String> {
    match value {
        Json::String(text) => Some(keyword(text).into_owned()),
        Json::Number(number) => Some(number.to_string()),
        Json::Bool(is_true) => Some(is_true.to_string()),
        Json::Null | Json::Array(_) | Json::Object(_) => None,
    }
}

/// A value as an attribute takes it, and the kind that an attribute of it gets.
fn valued(value: &Json) -> Option<(AttributeKind, Cow<'_, Json>)> {
    Some(match value {
        Json::Null | Json::Object(_) => return None,
        Json::Bool(_) => (AttributeKind::Bool, Cow::Borrowed(value)),
        Json::Number(_) => (AttributeKind::F64, Cow::Borrowed(value)),
        Json::String(text) if text.len() <= KEYWORD_BYTES_MAX => {
            (AttributeKind::Keyword, Cow::Borrowed(value))
        }
        Json::String(text) => {
            (AttributeKind::Keyword, Cow::Owned(Json::from(keyword(text).into_owned())))
        }
        Json::Array(list) => {
            let text = |value| listed(value).unwrap_or_else(|| OTHER.to_owned());
            let mut texts: Vec<String> = list.iter().map(text).collect();
            texts.dedup_by(|a, b| a == b && a == OTHER);
            (AttributeKind::Keywords, Cow::Owned(Json::from(texts)))
        }
    })
}

/// Is told the name of a value, its kind and the value.
type Visit<'v, 'a> = &'v mut dyn FnMut(&str, AttributeKind, Cow<'a, Json>) -> Result<(), Failure>;

/// Calls `visit` with the name of every value of a payload, its kind and the value; returns their number.
fn each_value<'a>(
    payload: &'a Map<String, Json>,
    above: &str,
    level: usize,
    visit: Visit<'_, 'a>,
) -> Result<usize, Failure> {
    let mut count = 0;
    for (key, value) in payload {
        let name = match above {
            "" => Cow::Borrowed(key.as_str()),
            above => Cow::Owned(format!("{above}.{key}")),
        };
        let inner = match value {
            Json::Object(inner) if level < LEVELS_MAX => {
                each_value(inner, &name, level + 1, visit)?
            }
            _ => 0,
        };
        if inner > 0 {
            count += inner;
        } else if value.is_object() {
            let value = Cow::Owned(Json::from(vec![OTHER]));
            visit(&name, AttributeKind::Keywords, value)?;
            count += 1;
        } else if let Some((kind, value)) = valued(value) {
            visit(&name, kind, value)?;
            count += 1;
        }
    }
    Ok(count)
}

/// Adds the attributes to a schema that payloads need and it lacks; none above the number that a collection can have.
/// Errors: `BAD_REQUEST` for a name that an attribute cannot have, or if the schema takes no more.
pub(super) fn extend<'a>(
    schema: &mut Arc<Schema>,
    payloads: impl Iterator<Item = &'a Map<String, Json>>,
) -> Result<(), Failure> {
    for payload in payloads {
        each_value(payload, "", 1, &mut |name, kind, _| {
            if schema.column(name).is_some() || schema.attributes.len() >= ATTRIBUTES_MAX {
                return Ok(());
            }
            if !schema.open {
                return Err(Failure::bad(format!("the collection has no attribute '{name}'")));
            }
            Arc::make_mut(schema).add(name, kind)?;
            Ok(())
        })?;
    }
    Ok(())
}

/// Encodes the attributes of a payload. Errors: `BAD_REQUEST` for a value of another kind than the
/// attribute has.
pub(super) fn encode(
    schema: &Schema,
    payload: &Map<String, Json>,
    builder: &mut AttributesBuilder,
) -> Result<(), Failure> {
    builder.clear();
    each_value(payload, "", 1, &mut |name, kind, value| {
        let Some(column) = schema.column(name) else { return Ok(()) };
        // A text is a list of one where an attribute holds lists.
        let is_one =
            kind != AttributeKind::Keywords && schema.kind(column) == Some(AttributeKind::Keywords);
        let value = match listed(&value).filter(|_| is_one) {
            Some(text) => Cow::Owned(Json::from(vec![text])),
            None => value,
        };
        // Where an attribute holds no lists, a list of objects and an object without values are payload alone.
        let is_list = schema.kind(column) == Some(AttributeKind::Keywords);
        let is_other = |one: &Json| one.as_str() == Some(OTHER);
        if !is_list && value.as_array().is_some_and(|list| list.iter().any(is_other)) {
            return Ok(());
        }
        Ok(builder.set_json(schema, name, &value)?)
    })?;
    Ok(())
}

/// The bytes of a payload. Errors: `BAD_REQUEST` if it is too large.
pub(super) fn bytes(payload: &Map<String, Json>) -> Result<Vec<u8>, Failure> {
    let bytes = serde_json::to_vec(payload);
    let bytes = bytes.map_err(|error| Failure::bad(format!("the payload: {error}")))?;
    if bytes.len() > PAYLOAD_BYTES_MAX {
        return Err(Failure::bad(format!(
            "a payload has {} bytes: the limit is {PAYLOAD_BYTES_MAX}",
            bytes.len()
        )));
    }
    Ok(bytes)
}

/// The payload of a row. What another face gave the row as attributes alone is part of it, and of two numbers, short
/// texts or truth values under one name the attribute's holds: filters go by it.
pub(super) fn of_row(schema: &Schema, fields: &Fields<'_>) -> Map<String, Json> {
    let Some(mut payload) = kept(fields) else {
        return attributes_to_json(schema, fields.attributes);
    };
    let lacking = lacking(schema, fields, &payload);
    if !lacking.is_empty() {
        let mut all = attributes_to_json(schema, fields.attributes);
        for name in lacking {
            if let Some(value) = all.remove(name) {
                put(&mut payload, name, value);
            }
        }
    }
    payload
}

/// The payload that is kept with a row, if that is an object.
fn kept(fields: &Fields<'_>) -> Option<Map<String, Json>> {
    fields.payload.and_then(|bytes| serde_json::from_slice(bytes).ok())
}

/// Names of the attributes of a row that its payload lacks, or has with another value.
fn lacking<'s>(
    schema: &'s Schema,
    fields: &Fields<'_>,
    payload: &Map<String, Json>,
) -> Vec<&'s str> {
    let mut builder = AttributesBuilder::default();
    let lacks = |(column, value): (u16, ValueRef<'_>)| {
        let name = schema.attributes.get(usize::from(column))?.name.as_str();
        let is_there = match find(payload, name) {
            None => false,
            // These are attributes in another form, and a text that is too long for one is.
            Some(Json::Array(_) | Json::Object(_)) => true,
            Some(Json::String(text)) if text.len() > KEYWORD_BYTES_MAX => true,
            Some(_) if matches!(value, ValueRef::Keywords(_)) => true,
            Some(other) => {
                builder.clear();
                // A value that the attribute cannot have is another thing of the same name.
                builder.set_json(schema, name, other).is_err()
                    || builder.build().get(column) == Some(value)
            }
        };
        (!is_there).then_some(name)
    };
    fields.attributes.iter().filter_map(lacks).collect()
}

/// The values of an object as they are written, by names without escapes.
type Written<'a> = HashMap<&'a str, &'a RawValue>;

/// Whether [`lacking`] finds nothing, as far as that is seen without reading values; false where it takes a closer
/// look. Most payloads are those of this interface, and come out as they went in.
fn surely_has_all(schema: &Schema, fields: &Fields<'_>, payload: &str) -> bool {
    let Ok(written) = serde_json::from_str::<Written<'_>>(payload) else { return false };
    fields.attributes.iter().all(|(column, value)| {
        let Some(attribute) = schema.attributes.get(usize::from(column)) else { return true };
        surely_has(&written, &attribute.name, &value)
    })
}

fn surely_has(written: &Written<'_>, name: &str, value: &ValueRef<'_>) -> bool {
    if let Some(raw) = written.get(name) {
        return surely_is(raw.get(), value);
    }
    let Some((outer, inner)) = name.split_once('.') else { return false };
    let object = written.get(outer).map(|raw| serde_json::from_str::<Written<'_>>(raw.get()));
    matches!(object, Some(Ok(object)) if surely_has(&object, inner, value))
}

fn surely_is(raw: &str, value: &ValueRef<'_>) -> bool {
    if raw.starts_with(['[', '{']) {
        return true;
    }
    match value {
        ValueRef::Keyword(text) => {
            let inner = raw.strip_prefix('"').and_then(|raw| raw.strip_suffix('"'));
            let inner = inner.filter(|inner| !inner.contains('\\'));
            inner.is_some_and(|inner| inner.len() > KEYWORD_BYTES_MAX || inner == *text)
        }
        ValueRef::Keywords(_) => true,
        ValueRef::F64(number) => raw.parse() == Ok(*number),
        ValueRef::I64(number) => raw.parse() == Ok(*number),
        ValueRef::Bool(is_true) => raw == if *is_true { "true" } else { "false" },
        ValueRef::Timestamp(_) | ValueRef::Text(_) => false,
    }
}

/// The value of an attribute in a payload: under its name, or in objects whose names are its first parts.
fn find<'a>(payload: &'a Map<String, Json>, name: &str) -> Option<&'a Json> {
    payload.get(name).or_else(|| {
        name.match_indices('.').find_map(|(at, _)| match payload.get(&name[..at]) {
            Some(Json::Object(inner)) => find(inner, &name[at + 1..]),
            _ => None,
        })
    })
}

/// Puts a value where [`find`] would find one; under its name if it finds none.
fn put(payload: &mut Map<String, Json>, name: &str, value: Json) {
    let inner = name.match_indices('.').find_map(|(at, _)| match payload.get(&name[..at]) {
        Some(Json::Object(inner)) => find(inner, &name[at + 1..]).map(|_| at),
        _ => None,
    });
    match inner.filter(|_| !payload.contains_key(name)) {
        None => drop(payload.insert(name.to_owned(), value)),
        Some(at) => {
            if let Some(Json::Object(inner)) = payload.get_mut(&name[..at]) {
                put(inner, &name[at + 1..], value);
            }
        }
    }
}

/// The wanted part of the payload of a row.
pub(super) fn wanted(
    schema: &Schema,
    fields: &Fields<'_>,
    with: &WithPayload,
) -> Option<Box<RawValue>> {
    let is_whole = matches!(with, WithPayload::All(true));
    let text = fields.payload.and_then(|bytes| std::str::from_utf8(bytes).ok());
    if let Some(text) = text.filter(|text| is_whole && text.starts_with('{')) {
        let lacks_none =
            || kept(fields).is_some_and(|kept| lacking(schema, fields, &kept).is_empty());
        if surely_has_all(schema, fields, text) || lacks_none() {
            if let Ok(raw) = RawValue::from_string(text.to_owned()) {
                return Some(raw);
            }
        }
    }
    let payload = of_row(schema, fields);
    let payload = match with {
        WithPayload::All(false) => return None,
        WithPayload::All(true) => payload,
        WithPayload::Include(keys) => included(&payload, keys),
        WithPayload::Exclude(keys) => excluded(payload, keys),
    };
    serde_json::value::to_raw_value(&payload).ok()
}

/// The values under some keys, each with the objects around it.
fn included(payload: &Map<String, Json>, keys: &[String]) -> Map<String, Json> {
    let mut out = Map::new();
    for key in keys {
        // A key may have dots itself, and filters find its value first.
        if let Some(value) = payload.get(key) {
            out.insert(key.clone(), value.clone());
            continue;
        }
        let mut from = payload;
        let mut to = &mut out;
        let mut parts = key.split('.').peekable();
        while let Some(part) = parts.next() {
            let Some(value) = from.get(part) else { break };
            if parts.peek().is_none() {
                to.insert(part.to_owned(), value.clone());
                break;
            }
            let Json::Object(inner) = value else { break };
            from = inner;
            let next = to.entry(part).or_insert_with(|| Json::Object(Map::new()));
            let Json::Object(next) = next else { break };
            to = next;
        }
    }
    out
}

/// A payload without the values under some keys.
pub(super) fn excluded(mut payload: Map<String, Json>, keys: &[String]) -> Map<String, Json> {
    for key in keys {
        if payload.remove(key).is_some() {
            continue;
        }
        let mut at = &mut payload;
        let mut parts = key.split('.').peekable();
        while let Some(part) = parts.next() {
            if parts.peek().is_none() {
                at.remove(part);
                break;
            }
            let Some(Json::Object(inner)) = at.get_mut(part) else { break };
            at = inner;
        }
    }
    payload
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn map(json: Json) -> Map<String, Json> {
        json.as_object().cloned().unwrap_or_default()
    }

    #[test]
    fn values_become_attributes_of_the_kinds_that_the_table_says() {
        let payload = map(json!({
            "city": "Oslo", "price": 3, "open": true, "tags": ["a", "b"], "sizes": [1, 2.5],
            "place": {"lat": 59.9, "of": {"country": "no"}}, "nothing": null, "of": {"no": {}, "none": {"at": null}}, "parts": [{"a": 1}, {"a": 2}],
        }));
        let mut schema = Arc::new(Schema { open: true, ..Schema::default() });
        extend(&mut schema, std::iter::once(&payload)).expect("names that attributes can have");
        let attributes = schema.attributes.iter();
        let mut found: Vec<_> = attributes.map(|one| (one.name.clone(), one.kind)).collect();
        found.sort_by(|a, b| a.0.cmp(&b.0));
        let expected = [
            ("city", AttributeKind::Keyword),
            ("of.no", AttributeKind::Keywords),
            ("of.none", AttributeKind::Keywords),
            ("open", AttributeKind::Bool),
            ("parts", AttributeKind::Keywords),
            ("place.lat", AttributeKind::F64),
            ("place.of.country", AttributeKind::Keyword),
            ("price", AttributeKind::F64),
            ("sizes", AttributeKind::Keywords),
            ("tags", AttributeKind::Keywords),
        ];
        assert_eq!(found, expected.map(|(name, kind)| (name.to_owned(), kind)));
    }

    /// What is seen at a glance agrees with the closer look, and is enough for payloads of this interface.
    #[test]
    fn a_glance_at_a_payload_is_right() {
        let own = map(json!({
            "city": "Oslo", "price": 3, "half": 2.5, "open": true, "tags": ["a", "b"], "long": "x".repeat(400),
            "place": {"lat": 59.9, "of": {"country": "no"}},
        }));
        let mut schema = Arc::new(Schema { open: true, ..Schema::default() });
        extend(&mut schema, std::iter::once(&own)).expect("names that attributes can have");
        let mut builder = AttributesBuilder::default();
        encode(&schema, &own, &mut builder).expect("values of these kinds");
        let attributes = builder.build();
        let fields = Fields { attributes, ..Fields::NONE };
        let glance = |payload: &Map<String, Json>| {
            surely_has_all(&schema, &fields, &Json::from(payload.clone()).to_string())
        };
        assert!(glance(&own) && lacking(&schema, &fields, &own).is_empty());
        let changes = [
            ("city", json!("Rome")),
            ("city", Json::Null),
            ("price", json!(4)),
            ("half", json!("2.5")),
            ("open", json!(false)),
            ("place", json!({"lat": 60, "of": {"country": "no"}})),
            ("place", json!({"lat": 59.9})),
            ("place", json!(1)),
        ];
        for (key, value) in changes {
            let mut other = own.clone();
            other.insert(key.to_owned(), value);
            assert!(!glance(&other), "{key}: {:?}", lacking(&schema, &fields, &other));
            other.remove(key);
            assert!(!glance(&other) && !lacking(&schema, &fields, &other).is_empty(), "{key}");
        }
    }

    #[test]
    fn a_long_text_is_a_keyword_that_others_do_not_share() {
        let (one, other) = ("é".repeat(200), "é".repeat(201));
        let keywords = [keyword(&one), keyword(&other)];
        assert_ne!(keywords[0], keywords[1]);
        assert!(keywords.iter().all(|keyword| keyword.len() <= 72));
        assert_eq!(keyword("short"), "short");
    }

    #[test]
    fn parts_of_a_payload_are_chosen_by_their_names() {
        let payload = map(json!({"a": 1, "b": {"c": 2, "d": {"e": 3}}}));
        let keys = |keys: &[&str]| keys.iter().map(|&key| key.to_owned()).collect::<Vec<_>>();
        let found = included(&payload, &keys(&["b.d", "a", "b.x", "x.y"]));
        assert_eq!(Json::from(found), json!({"a": 1, "b": {"d": {"e": 3}}}));
        let found = excluded(payload, &keys(&["b.d.e", "a", "x.y"]));
        assert_eq!(Json::from(found), json!({"b": {"c": 2, "d": {}}}));
    }
}
