//! Values of payloads: messages, and the JSON that they mean.

use std::collections::BTreeMap;

use serde_json::value::RawValue;
use serde_json::{Map, Number, Value as Json};

use super::proto::value::Kind;
use super::proto::{ListValue, Struct, Value};
use crate::failure::Failure;

/// Values by their keys.
pub(super) type Fields = BTreeMap<String, Value>;

/// The payload that some fields mean. Errors: `BAD_REQUEST` for a number that is not finite.
pub(super) fn payload(fields: Fields) -> Result<Map<String, Json>, Failure> {
    fields.into_iter().map(|(key, value)| Ok((key, json(value)?))).collect()
}

fn json(value: Value) -> Result<Json, Failure> {
    Ok(match value.kind {
        None | Some(Kind::NullValue(_)) => Json::Null,
        Some(Kind::DoubleValue(number)) => Json::Number(finite(number)?),
        Some(Kind::IntegerValue(number)) => Json::from(number),
        Some(Kind::StringValue(text)) => Json::from(text),
        Some(Kind::BoolValue(is_true)) => Json::from(is_true),
        Some(Kind::StructValue(fields)) => Json::Object(payload(fields.fields)?),
        Some(Kind::ListValue(list)) => {
            Json::Array(list.values.into_iter().map(json).collect::<Result<_, _>>()?)
        }
    })
}

/// A number as JSON has it. Errors: `BAD_REQUEST` unless it is finite.
pub(super) fn finite(number: f64) -> Result<Number, Failure> {
    Number::from_f64(number).ok_or_else(|| Failure::bad(format!("{number} is no finite number")))
}

/// The fields of a payload.
pub(super) fn fields(payload: Map<String, Json>) -> Fields {
    payload.into_iter().map(|(key, json)| (key, value(json))).collect()
}

/// The fields of a payload in an answer; none of one that is no object.
pub(super) fn raw_fields(payload: Option<Box<RawValue>>) -> Fields {
    let payload = payload.and_then(|payload| serde_json::from_str(payload.get()).ok());
    payload.map_or_else(Fields::new, fields)
}

fn value(json: Json) -> Value {
    let kind = match json {
        Json::Null => Kind::NullValue(0),
        Json::Bool(is_true) => Kind::BoolValue(is_true),
        Json::Number(number) => match number.as_i64() {
            Some(number) => Kind::IntegerValue(number),
            None => Kind::DoubleValue(number.as_f64().unwrap_or_default()),
        },
        Json::String(text) => Kind::StringValue(text),
        Json::Array(list) => {
            Kind::ListValue(ListValue { values: list.into_iter().map(value).collect() })
        }
        Json::Object(object) => Kind::StructValue(Struct { fields: fields(object) }),
    };
    Value { kind: Some(kind) }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn values_come_back_as_they_went() {
        let payload = json!({
            "text": "Oslo", "whole": -3, "large": i64::MAX, "part": 0.1, "real": 3.0, "yes": true,
            "nothing": null, "list": [1, "a", [false]], "object": {"inner": {"x": 1.5}}, "empty": {},
        });
        let Json::Object(object) = payload.clone() else { unreachable!() };
        let raw = serde_json::value::to_raw_value(&payload).unwrap();
        assert_eq!(super::payload(fields(object)), super::payload(raw_fields(Some(raw))));
        let Json::Object(object) = payload.clone() else { unreachable!() };
        assert_eq!(Json::Object(super::payload(fields(object)).unwrap()), payload);
    }

    #[test]
    fn a_number_that_json_has_not_is_refused() {
        for number in [f64::NAN, f64::INFINITY] {
            let fields =
                Fields::from([("a".to_owned(), Value { kind: Some(Kind::DoubleValue(number)) })]);
            assert!(payload(fields).unwrap_err().message.contains("finite"));
        }
    }
}
