//! The JSON form, on rows that a reader can follow by eye.

use vstream_attribute::{Filter, IdKind, NameHash, Names, RefusedKind, Schema, Value};

use crate::model::{shop, Row};

/// Rows: 0 has all values, 1 has others, 2 has none.
pub fn three_rows() -> [Row; 3] {
    let words = |list: &[&str]| Value::Keywords(list.iter().map(|one| (*one).into()).collect());
    let text = |text: &str| Value::Keyword(text.into());
    [
        vec![
            Some(text("red")),
            Some(words(&["new", "sale"])),
            Some(Value::I64(3)),
            Some(Value::F64(9.5)),
            Some(Value::Bool(true)),
            Some(Value::Timestamp(1_714_559_400_000)),
            Some(Value::Text("a chair".into())),
        ],
        vec![
            Some(text("rose")),
            Some(words(&[])),
            Some(Value::I64(-7)),
            Some(Value::F64(20.0)),
            Some(Value::Bool(false)),
            Some(Value::Timestamp(0)),
            None,
        ],
        vec![None; 7],
    ]
    .map(|values| Row { id: 0, values })
}

/// The rows for which a filter holds, as ids 0, 1, 2.
pub fn found(schema: &Schema, filter: &Filter) -> Vec<usize> {
    let mut rows = three_rows();
    for (id, row) in rows.iter_mut().enumerate() {
        row.id = id as u64;
    }
    (0..3).filter(|at| rows[*at].holds(schema, filter)).collect()
}

#[test]
fn conditions_find_the_rows_that_qdrant_users_expect() {
    let schema = shop();
    for (text, rows) in [
        (r#"{}"#, &[0, 1, 2][..]),
        (r#"{"must": [], "should": [], "must_not": null}"#, &[0, 1, 2]),
        (r#"{"must": {"key": "colour", "match": {"value": "red"}}}"#, &[0]),
        (r#"{"must_not": [{"key": "colour", "match": {"value": "red"}}]}"#, &[1, 2]),
        (r#"{"must": [{"key": "colour", "match": {"any": ["rose", "red"]}}]}"#, &[0, 1]),
        (r#"{"must": [{"key": "colour", "match": {"except": ["red"]}}]}"#, &[1]),
        (r#"{"must": [{"key": "colour", "match": {"prefix": "ro"}}]}"#, &[1]),
        (r#"{"must": [{"key": "tags", "match": {"value": "sale"}}]}"#, &[0]),
        (r#"{"must": [{"key": "tags", "match": {"all": ["sale", "new"]}}]}"#, &[0]),
        (r#"{"must": [{"key": "tags", "match": {"all": ["sale", "old"]}}]}"#, &[]),
        (r#"{"must": [{"key": "tags", "match": {"empty": true}}]}"#, &[1]),
        (r#"{"must": [{"is_empty": {"key": "tags"}}]}"#, &[1, 2]),
        (r#"{"must": [{"key": "tags", "is_empty": false}]}"#, &[0]),
        (r#"{"must": [{"key": "tags", "values_count": {"gt": 0}}]}"#, &[0]),
        (r#"{"must": [{"key": "tags", "values_count": {"lt": 1}}]}"#, &[1, 2]),
        (r#"{"must": [{"is_null": {"key": "tags"}}]}"#, &[2]),
        (r#"{"must": [{"is_null": {"key": "note"}}]}"#, &[1, 2]),
        (r#"{"must": [{"key": "note", "is_null": false}]}"#, &[0]),
        (r#"{"must": [{"key": "stock", "range": {"gt": -7.5, "lte": 2.9}}]}"#, &[1]),
        (r#"{"must": [{"key": "stock", "range": {"gt": 2.5}}]}"#, &[0]),
        (r#"{"must": [{"key": "stock", "range": {"lt": 1e30, "gt": -1e30}}]}"#, &[0, 1]),
        (r#"{"must": [{"key": "stock", "range": {"gte": 1e30}}]}"#, &[]),
        (r#"{"must": [{"key": "stock", "range": {"lte": -18446744073709551616}}]}"#, &[]),
        (r#"{"must": [{"key": "stock", "match": {"value": 3.0}}]}"#, &[0]),
        (r#"{"must": [{"key": "price", "range": {"gte": 9.5, "lt": 20}}]}"#, &[0]),
        (r#"{"must": [{"key": "price", "match": {"value": 20}}]}"#, &[1]),
        (r#"{"must": [{"key": "sold", "match": {"value": false}}]}"#, &[1]),
        (r#"{"must": [{"key": "born", "range": {"gt": "2024-05-01T10:29:59.999Z"}}]}"#, &[0]),
        (r#"{"must": [{"key": "born", "match": {"value": "2024-05-01T12:30:00+02:00"}}]}"#, &[0]),
        (r#"{"must": [{"key": "born", "range": {"lt": "1970-01-02", "gte": 0}}]}"#, &[1]),
        (r#"{"must": [{"has_id": [2, 0]}]}"#, &[0, 2]),
        (r#"{"must": [{"has_id": [2, 0]}], "must_not": [{"has_id": [0]}]}"#, &[2]),
        (
            r#"{"should": [{"has_id": [1]}, {"must": [{"key": "stock", "range": {"gt": 0}}]}]}"#,
            &[0, 1],
        ),
        (
            r#"{"min_should": {"conditions": [{"has_id": [0, 1]}, {"has_id": [1, 2]},
             {"filter": {"must": {"has_id": [1]}}}], "min_count": 2}}"#,
            &[1],
        ),
        (r#"{"must_not": [{}]}"#, &[]),
        (r#"{"key": "stock", "match": {"any": []}}"#, &[]),
    ] {
        let filter = Filter::from_json(&schema, text).unwrap_or_else(|e| panic!("{text}: {e}"));
        assert_eq!(found(&schema, &filter), rows, "{text}");
        assert_eq!(filter.check(&schema), Ok(()), "{text}");
    }
}

#[test]
fn a_wrong_filter_is_refused_with_its_place() {
    use RefusedKind::{BadFilter, BadId, UnknownAttribute, WrongType};
    let schema = shop();
    for (text, kind, part) in [
        ("", BadFilter, "no JSON"),
        ("{} {}", BadFilter, "trailing"),
        (r#"{"must": [], "must": []}"#, BadFilter, "twice"),
        ("[]", BadFilter, "A condition is an object"),
        (r#"{"most": []}"#, BadFilter, "'most' is no clause"),
        (
            r#"{"must": [{"key": "size", "match": {"value": 1}}]}"#,
            UnknownAttribute,
            "at 'must[0]': The collection has no attribute 'size'",
        ),
        (
            r#"{"must": [{"should": [{"key": "price", "match": {"value": "9"}}]}]}"#,
            WrongType,
            "at 'must[0].should[0].match.value': The attribute 'price' is of type f64: compare it \
          with a number, not '9'.",
        ),
        (r#"{"must": [{"key": "stock", "match": {"value": 1.5}}]}"#, WrongType, "not 1.5"),
        (
            r#"{"must": [{"key": "stock", "match": {"value": 18446744073709551615}}]}"#,
            WrongType,
            "not 18446744073709551615",
        ),
        (r#"{"must": [{"key": "colour", "match": {"any": ["a", null]}}]}"#, WrongType, "not null"),
        (r#"{"must": [{"key": "colour", "range": {"gt": "a"}}]}"#, WrongType, "by order"),
        (r#"{"must": [{"key": "colour", "match": {"all": ["a"]}}]}"#, WrongType, "no list"),
        (r#"{"must": [{"key": "sold", "match": {"value": 1}}]}"#, WrongType, "true or false"),
        (r#"{"must": [{"key": "born", "match": {"value": "yesterday"}}]}"#, WrongType, "RFC 3339"),
        (r#"{"must": [{"key": "tags", "match": {"prefix": "a"}}]}"#, WrongType, "prefix"),
        (r#"{"must": [{"key": "tags", "match": {"except": ["a"]}}]}"#, BadFilter, "must_not"),
        (r#"{"must": [{"key": "note", "match": {"value": "a"}}]}"#, WrongType, "by words"),
        (r#"{"must": [{"key": "note", "match": {"text": "a"}}]}"#, BadFilter, "searches words"),
        (r#"{"must": [{"key": "note", "match": {"phrase": "a"}}]}"#, BadFilter, "searches words"),
        (
            r#"{"must": [{"key": "sold", "match": {"value": true, "any": []}}]}"#,
            BadFilter,
            "'match' has one of",
        ),
        (
            r#"{"must": [{"key": "sold", "match": {"value": true}, "range": {}}]}"#,
            BadFilter,
            "has 'key' and one of",
        ),
        (r#"{"must": [{"key": "sold"}]}"#, BadFilter, "has 'key' and one of"),
        (r#"{"must": [{"key": 7, "match": {"value": true}}]}"#, BadFilter, "'key' is the name"),
        (r#"{"must": [{"key": "sold", "geo_radius": {}}]}"#, BadFilter, "no attribute holds"),
        (
            r#"{"must": [{"key": "stock", "range": {"above": 1}}]}"#,
            BadFilter,
            "'above' is no bound",
        ),
        (r#"{"must": [{"nested": {"key": "a", "filter": {}}}]}"#, BadFilter, "not nested"),
        (r#"{"must": [{"has_id": ["a"]}]}"#, BadId, "whole numbers"),
        (r#"{"must": [{"has_id": [-1]}]}"#, BadId, "-1 is none"),
        (r#"{"must": [{"has_hash": [1]}]}"#, BadFilter, "use 'has_id'"),
        (r#"{"must": 5}"#, BadFilter, "array of conditions"),
        (r#"{"min_should": {"conditions": []}}"#, BadFilter, "'min_count'"),
    ] {
        let refused = Filter::from_json(&schema, text).unwrap_err();
        assert_eq!(refused.kind, kind, "{text}: {refused}");
        assert!(refused.message.contains(part), "{text}: {refused}");
    }
}

#[test]
fn string_ids_are_hashed_and_written_as_hashes() {
    let hash = NameHash::new([7; 16]);
    let schema = Schema { id: IdKind::String, ..shop() };
    let text = r#"{"must": [{"has_id": ["ab", "cd", "ab"]}]}"#;
    let filter = Filter::from_json(Names::new(&schema, &hash), text).unwrap();
    let mut ids = [hash.hash("ab").unwrap().id, hash.hash("cd").unwrap().id];
    ids.sort_unstable();
    assert_eq!(filter, Filter::And(vec![Filter::Ids(ids.to_vec())]));
    let written = filter.to_json(&schema).unwrap();
    assert_eq!(Filter::from_json(&schema, &written).unwrap(), filter);
    let refused = Filter::from_json(&schema, text).unwrap_err();
    assert!(refused.message.contains("needs the hash"), "{refused}");
    let number = Filter::from_json(Names::new(&schema, &hash), r#"{"must": [{"has_id": [1]}]}"#);
    assert_eq!(number.unwrap_err().kind, RefusedKind::BadId);
}
