//! Attributes of rows from and to JSON.

use proptest::prelude::*;
use serde_json::{json, Value as Json};
use vstream_attribute::{
    attributes_to_json, AttributeKind, Attributes, AttributesBuilder, Grouping, IdKind,
    RefusedKind, Schema, ATTRIBUTES_MAX,
};

use crate::model::{row, shop};

fn set(json: &Json) -> Result<Json, RefusedKind> {
    let (schema, mut builder) = (shop(), AttributesBuilder::default());
    for (name, value) in json.as_object().unwrap() {
        builder.set_json(&schema, name, value).map_err(|refused| refused.kind)?;
    }
    let attributes = builder.build();
    assert_eq!(Attributes::decode(attributes.bytes()), Ok(attributes));
    Ok(Json::Object(attributes_to_json(&schema, attributes)))
}

#[test]
fn values_are_typed_by_their_attributes() {
    for (given, kept) in [
        (json!({}), json!({})),
        (
            json!({"colour": "red", "note": "a b", "sold": false}),
            json!({"colour": "red", "note": "a b", "sold": false}),
        ),
        (json!({"stock": 3.0, "price": 7}), json!({"stock": 3, "price": 7.0})),
        (json!({"stock": i64::MIN as f64}), json!({"stock": i64::MIN})),
        (json!({"tags": ["b", "a", "b"]}), json!({"tags": ["b", "a", "b"]})),
        (json!({"tags": []}), json!({"tags": []})),
        (
            json!({"born": "2024-05-01T12:30:00.25+02:00"}),
            json!({"born": "2024-05-01T10:30:00.25Z"}),
        ),
        (json!({"born": "2024-05-01"}), json!({"born": "2024-05-01T00:00:00Z"})),
        (json!({"born": "1969-12-31T23:59:59.9999Z"}), json!({"born": "1969-12-31T23:59:59.999Z"})),
        (json!({"born": 0}), json!({"born": "1970-01-01T00:00:00Z"})),
        (json!({"born": i64::MAX}), json!({"born": i64::MAX})),
        (json!({"colour": null}), json!({})),
    ] {
        assert_eq!(set(&given), Ok(kept), "{given}");
    }
    for (wrong, kind) in [
        (json!({"size": 1}), RefusedKind::UnknownAttribute),
        (json!({"size": null}), RefusedKind::UnknownAttribute),
        (json!({"colour": 1}), RefusedKind::WrongType),
        (json!({"colour": ["a"]}), RefusedKind::WrongType),
        (json!({"tags": "a"}), RefusedKind::WrongType),
        (json!({"tags": ["a", 1]}), RefusedKind::WrongType),
        (json!({"stock": 1.5}), RefusedKind::WrongType),
        (json!({"stock": 9.3e18}), RefusedKind::WrongType),
        (json!({"stock": u64::MAX}), RefusedKind::WrongType),
        (json!({"stock": true}), RefusedKind::WrongType),
        (json!({"price": "1"}), RefusedKind::WrongType),
        (json!({"sold": 1}), RefusedKind::WrongType),
        (json!({"born": "2024-13-01"}), RefusedKind::WrongType),
        (json!({"born": {"at": 1}}), RefusedKind::WrongType),
        (json!({"colour": "x".repeat(5000)}), RefusedKind::TooLarge),
        (json!({"note": "x".repeat(70_000)}), RefusedKind::TooLarge),
    ] {
        assert_eq!(set(&wrong), Err(kind));
    }
}

#[test]
fn null_removes_and_a_refusal_changes_nothing() {
    let (schema, mut builder) = (shop(), AttributesBuilder::default());
    builder.set_json(&schema, "stock", &json!(1)).unwrap();
    builder.set_json(&schema, "price", &json!(2)).unwrap();
    assert!(builder.set_json(&schema, "stock", &json!("x")).is_err());
    assert_eq!(
        Json::Object(attributes_to_json(&schema, builder.build())),
        json!({"stock": 1, "price": 2.0})
    );
    builder.set_json(&schema, "stock", &Json::Null).unwrap();
    assert_eq!(Json::Object(attributes_to_json(&schema, builder.build())), json!({"price": 2.0}));
}

#[test]
fn a_large_value_may_replace_a_large_value() {
    let (schema, mut builder) = (shop(), AttributesBuilder::default());
    for letter in ["a", "b", "c"] {
        builder.set_json(&schema, "note", &json!(letter.repeat(60_000))).unwrap();
    }
    assert!(Attributes::decode(builder.build().bytes()).is_ok());
}

#[test]
fn an_open_schema_takes_the_kind_of_the_first_value() {
    let mut schema = Schema { open: true, ..Schema::default() };
    let mut builder = AttributesBuilder::default();
    let mut add = |name: &str, json: Json| builder.set_json_adding(&mut schema, name, &json);
    assert_eq!(add("none", Json::Null), Ok(false));
    for (name, json) in [
        ("a", json!("x")),
        ("b", json!(["x"])),
        ("c", json!(1)),
        ("d", json!(1.5)),
        ("e", json!(true)),
        ("f", json!([])),
    ] {
        assert_eq!(add(name, json), Ok(true));
    }
    assert_eq!(add("a", json!("y")), Ok(false));
    assert_eq!(add("c", json!(1.5)).unwrap_err().kind, RefusedKind::WrongType);
    for (name, json, kind) in [
        ("x", json!({}), RefusedKind::WrongType),
        ("x", json!([1]), RefusedKind::WrongType),
        ("x", json!(u64::MAX), RefusedKind::WrongType),
        ("$x", json!(1), RefusedKind::BadSchema),
        ("x", json!("x".repeat(5000)), RefusedKind::TooLarge),
    ] {
        assert_eq!(add(name, json).unwrap_err().kind, kind);
    }
    let kinds: Vec<AttributeKind> = schema.attributes.iter().map(|one| one.kind).collect();
    use AttributeKind::{Bool, Keyword, Keywords, F64, I64};
    assert_eq!(kinds, [Keyword, Keywords, I64, F64, Bool, Keywords]);
    let row = json!({"a": "y", "b": ["x"], "c": 1, "d": 1.5, "e": true, "f": []});
    assert_eq!(Json::Object(attributes_to_json(&schema, builder.build())), row);
    let mut closed = Schema { open: false, ..schema.clone() };
    let refused = builder.set_json_adding(&mut closed, "g", &json!(1)).unwrap_err();
    assert_eq!(refused.kind, RefusedKind::UnknownAttribute);
    for column in schema.attributes.len()..ATTRIBUTES_MAX {
        schema.add(&format!("n{column}"), I64).unwrap();
    }
    let refused = builder.set_json_adding(&mut schema, "one more", &json!(1)).unwrap_err();
    assert_eq!(refused.kind, RefusedKind::BadSchema);
    assert_eq!((schema.id, schema.grouping), (IdKind::U64, Grouping::None));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, ..ProptestConfig::default() })]

    #[test]
    fn json_gives_the_row_back(row in row()) {
        let schema = shop();
        row.with(&schema, |_, attributes| {
            let json = attributes_to_json(&schema, attributes);
            let text = Json::Object(json).to_string();
            let mut builder = AttributesBuilder::default();
            let json: Json = serde_json::from_str(&text).unwrap();
            for (name, value) in json.as_object().unwrap() {
                builder.set_json(&schema, name, value).unwrap();
            }
            prop_assert_eq!(builder.build(), attributes, "{}", text);
            Ok(())
        })?;
    }
}
