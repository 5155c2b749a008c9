use super::*;
use crate::error::Malformed;

fn shop() -> Schema {
    Schema::from_json(
        r#"{"id": "string", "open": true, "groups": {"mode": "isolated"},
            "attributes": {"zone": "keyword", "price": "f64", "born": "timestamp", "a": "text",
                           "tags": "keywords", "count": "i64", "sold": "bool"}}"#,
    )
    .unwrap()
}

#[test]
fn an_object_keeps_the_order_of_its_columns() {
    let schema = shop();
    let names: Vec<&str> = schema.attributes.iter().map(|one| one.name.as_str()).collect();
    assert_eq!(names, ["zone", "price", "born", "a", "tags", "count", "sold"]);
    assert_eq!((schema.id, schema.grouping), (IdKind::String, Grouping::Isolated));
    assert!(schema.open);
}

#[test]
fn json_and_bytes_give_the_schema_back() {
    let mut wide = Schema::default();
    wide.set_grouping(Grouping::Shared).unwrap();
    for column in 1..ATTRIBUTES_MAX {
        let kind = AttributeKind::ALL[column % AttributeKind::ALL.len()];
        wide.add(&format!("Größe {column} \"{}\"", "x".repeat(column % 100)), kind).unwrap();
    }
    for schema in [shop(), wide, Schema::default()] {
        assert_eq!(Schema::from_json(&schema.to_json()).unwrap(), schema);
        let mut bytes = Vec::new();
        schema.encode(&mut bytes);
        assert_eq!(Schema::decode(&bytes).unwrap(), schema);
        for end in 0..bytes.len() {
            assert!(Schema::decode(&bytes[..end]).is_err(), "{end} of {}", bytes.len());
        }
        bytes.push(0);
        assert_eq!(Schema::decode(&bytes), Err(Malformed("bytes follow a schema")));
    }
}

#[test]
fn wrong_texts_are_refused() {
    for (text, part) in [
        ("{", "cannot be read"),
        ("[]", "an object with id"),
        (r#"{"ids": "u64"}"#, "no key 'ids'"),
        (r#"{"id": "uuid"}"#, "\"u64\" or \"string\""),
        (r#"{"open": 1}"#, "boolean"),
        (r#"{"open": true, "open": false}"#, "'open' is there twice"),
        (r#"{"attributes": {"a": "i64", "a": "i64"}}"#, "'a' is there twice"),
        (r#"{"attributes": {"a": "i64", "a": "f64"}}"#, "not f64"),
        (r#"{"attributes": {"a": "int"}}"#, "'int' of 'a' is no type"),
        (r#"{"attributes": {"$a": "i64"}}"#, "no name"),
        (r#"{"attributes": {"": "i64"}}"#, "no name"),
        (r#"{"attributes": [{"name": "a"}]}"#, "a name and a type"),
        (r#"{"attributes": [{"name": "a", "type": "i64", "x": 1}]}"#, "a name and a type"),
        (r#"{"groups": {"mode": "some"}}"#, "'groups' must be"),
        (r#"{"groups": {"mode": "shared", "x": 1}}"#, "'groups' must be"),
    ] {
        let refused = Schema::from_json(text).unwrap_err();
        assert_eq!(refused.kind, RefusedKind::BadSchema);
        assert!(refused.message.contains(part), "{text}: {refused}");
    }
}

#[test]
fn a_schema_extends_one_with_fewer_attributes_alone() {
    let older = shop();
    let mut newer = older.clone();
    newer.add("colour", AttributeKind::Keyword).unwrap();
    newer.open = false;
    assert_eq!(newer.extends(&older), Ok(()));
    assert_eq!(older.extends(&older), Ok(()));
    let cannot = |schema: &Schema, part: &str| {
        let refused = schema.extends(&newer).unwrap_err();
        assert_eq!(refused.kind, RefusedKind::BadSchema);
        assert!(refused.message.contains(part), "{refused}");
    };
    cannot(&older, "'colour' cannot be removed");
    let mut other = newer.clone();
    other.attributes[1].kind = AttributeKind::I64;
    cannot(&other, "'price' is of type f64, not i64");
    let mut other = newer.clone();
    other.attributes.swap(0, 1);
    cannot(&other, "Column 0 is 'zone', not 'price'");
    cannot(&Schema { id: IdKind::U64, ..newer.clone() }, "kind of ids");
    cannot(&Schema { grouping: Grouping::None, ..newer.clone() }, "groups");
}

#[test]
fn shared_groups_are_an_attribute() {
    let text = r#"{"attributes": {"price": "f64"}, "groups": {"mode": "shared"}}"#;
    let schema = Schema::from_json(text).unwrap();
    assert_eq!(schema.group_column(), Some(1));
    assert_eq!(schema.attributes[1].name, GROUP_ATTRIBUTE);
    let again =
        r#"{"attributes": {"group": "keyword", "price": "f64"}, "groups": {"mode": "shared"}}"#;
    assert_eq!(Schema::from_json(again).unwrap().group_column(), Some(0));
    let other = r#"{"attributes": {"group": "i64"}, "groups": {"mode": "shared"}}"#;
    assert_eq!(Schema::from_json(other).unwrap_err().kind, RefusedKind::BadSchema);
    assert_eq!(shop().group_column(), None);
    // Bytes say nothing else.
    let mut bytes = Vec::new();
    schema.encode(&mut bytes);
    assert_eq!(Schema::decode(&bytes), Ok(schema));
    for attributes in [vec![], vec![("group", AttributeKind::I64)]] {
        let bare = Schema { grouping: Grouping::Shared, ..Schema::new(attributes).unwrap() };
        bytes.clear();
        bare.encode(&mut bytes);
        assert_eq!(Schema::decode(&bytes), Err(Malformed("shared groups without their attribute")));
    }
}
