//! Values of attributes as JSON.
//!
//! | attribute | JSON that it accepts | JSON that it gives |
//! |---|---|---|
//! | keyword, text | a string | the string |
//! | keywords | an array of strings | the array |
//! | i64 | an integer, or a number without a fraction such as `3.0` | an integer |
//! | f64 | any number | a number with a fraction or exponent |
//! | bool | `true`, `false` | the same |
//! | timestamp | an RFC 3339 string, or integer milliseconds | the string in UTC; the integer outside of the years -9999 to 9999 |
//!
//! `null` removes the value. An attribute that an open schema lacks gets the kind of its first
//! value: string → keyword, array → keywords, integer → i64, other number → f64, bool → bool.

use serde_json::{Map, Value as Json};

use crate::error::{shown, Refused, RefusedKind};
use crate::moment;
use crate::record::{Attributes, AttributesBuilder};
use crate::schema::{AttributeKind, Schema};
use crate::value::ValueRef;

impl AttributesBuilder {
    /// Sets the value of an attribute from JSON; `null` removes it.
    ///
    /// Errors: `UnknownAttribute` if the schema has no such attribute, also if it is open;
    /// otherwise as [`AttributesBuilder::set`]. Nothing is set then.
    pub fn set_json(&mut self, schema: &Schema, name: &str, json: &Json) -> Result<(), Refused> {
        let Some(column) = schema.column(name) else { return Err(unknown(name)) };
        if json.is_null() {
            self.unset(column);
            return Ok(());
        }
        let kind = schema.attributes[usize::from(column)].kind;
        self.set(schema, column, &typed(name, kind, json)?)
    }

    /// As [`AttributesBuilder::set_json`], but adds an attribute that an open schema lacks. Returns
    /// true if it added one. `null` for an unknown attribute adds nothing.
    ///
    /// Errors: as there, and `BadSchema` if the attribute cannot be added. The schema and the
    /// attributes stay as they were then.
    pub fn set_json_adding(
        &mut self,
        schema: &mut Schema,
        name: &str,
        json: &Json,
    ) -> Result<bool, Refused> {
        if !schema.open || schema.column(name).is_some() {
            return self.set_json(schema, name, json).map(|()| false);
        }
        if json.is_null() {
            return Ok(false);
        }
        let kind = kind_of(name, json)?;
        let value = typed(name, kind, json)?;
        let column = schema.add(name, kind)?;
        if let Err(refused) = self.set(schema, column, &value) {
            schema.attributes.pop();
            return Err(refused);
        }
        Ok(true)
    }
}

/// The values of a row as a JSON object. An attribute without a value is left out; so is a column
/// that the schema lacks. Cost: one pass over the row.
pub fn attributes_to_json(schema: &Schema, attributes: Attributes<'_>) -> Map<String, Json> {
    let named = attributes.iter().filter_map(|(column, value)| {
        let attribute = schema.attributes.get(usize::from(column))?;
        Some((attribute.name.clone(), value_to_json(&value)))
    });
    named.collect()
}

fn value_to_json(value: &ValueRef<'_>) -> Json {
    match value {
        ValueRef::Keyword(text) | ValueRef::Text(text) => Json::from(*text),
        ValueRef::Keywords(texts) => Json::from(texts.clone()),
        ValueRef::I64(number) => Json::from(*number),
        ValueRef::F64(number) => Json::from(*number),
        ValueRef::Bool(is_true) => Json::from(*is_true),
        ValueRef::Timestamp(millis) => {
            moment::text(*millis).map_or_else(|| Json::from(*millis), Json::from)
        }
    }
}

/// The kind of an attribute whose first value this is.
fn kind_of(name: &str, json: &Json) -> Result<AttributeKind, Refused> {
    match json {
        Json::String(_) => Ok(AttributeKind::Keyword),
        Json::Array(_) => Ok(AttributeKind::Keywords),
        Json::Number(number) if number.is_f64() => Ok(AttributeKind::F64),
        Json::Number(_) => Ok(AttributeKind::I64),
        Json::Bool(_) => Ok(AttributeKind::Bool),
        Json::Null | Json::Object(_) => {
            let what = format!("The value of '{}' is an object: give a plain value.", shown(name));
            Err(Refused::new(RefusedKind::WrongType, what))
        }
    }
}

/// The value as the attribute's kind.
fn typed<'a>(name: &str, kind: AttributeKind, json: &'a Json) -> Result<ValueRef<'a>, Refused> {
    let wanted = match kind {
        AttributeKind::Keyword | AttributeKind::Text => "a string",
        AttributeKind::Keywords => "an array of strings",
        AttributeKind::I64 => "an integer from -2^63 to 2^63 - 1",
        AttributeKind::F64 => "a number",
        AttributeKind::Bool => "true or false",
        AttributeKind::Timestamp => "an RFC 3339 string or integer milliseconds",
    };
    let value = match (kind, json) {
        (AttributeKind::Keyword, Json::String(text)) => Some(ValueRef::Keyword(text)),
        (AttributeKind::Text, Json::String(text)) => Some(ValueRef::Text(text)),
        (AttributeKind::Keywords, Json::Array(list)) => {
            list.iter().map(Json::as_str).collect::<Option<Vec<_>>>().map(ValueRef::Keywords)
        }
        (AttributeKind::I64, json) => integral(json).map(ValueRef::I64),
        (AttributeKind::F64, json) => json.as_f64().map(ValueRef::F64),
        (AttributeKind::Bool, Json::Bool(is_true)) => Some(ValueRef::Bool(*is_true)),
        (AttributeKind::Timestamp, Json::String(text)) => {
            moment::millis(text).map(ValueRef::Timestamp)
        }
        (AttributeKind::Timestamp, json) => integral(json).map(ValueRef::Timestamp),
        _ => None,
    };
    value.ok_or_else(|| {
        let what = format!(
            "The attribute '{name}' is of type {}: give {wanted}, not {}.",
            kind.name(),
            shown(&json_start(json))
        );
        Refused::new(RefusedKind::WrongType, what)
    })
}

/// A number without a fraction that fits.
fn integral(json: &Json) -> Option<i64> {
    const END: f64 = 9_223_372_036_854_775_808.0;
    json.as_i64().or_else(|| {
        let number = json.as_f64().filter(|_| json.is_f64())?;
        let fits = number.fract() == 0.0 && (-END..END).contains(&number);
        fits.then_some(number as i64)
    })
}

/// The JSON as a message shows it; lists and objects by their type alone.
fn json_start(json: &Json) -> String {
    match json {
        Json::Array(_) => "this array".to_owned(),
        Json::Object(_) => "an object".to_owned(),
        Json::String(text) => format!("'{text}'"),
        other => other.to_string(),
    }
}

fn unknown(name: &str) -> Refused {
    let what = format!("The collection has no attribute '{}'.", shown(name));
    Refused::new(RefusedKind::UnknownAttribute, what)
}
