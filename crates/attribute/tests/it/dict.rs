//! Dictionaries in the style of MongoDB.

use serde_json::{json, Value as Json};
use vstream_attribute::{Filter, RefusedKind};

use crate::json::found;
use crate::model::shop;

#[test]
fn operators_find_the_rows_that_mongo_users_expect() {
    let schema = shop();
    let cases: Vec<(Json, &[usize])> = vec![
        (json!({}), &[0, 1, 2]),
        (json!({"colour": "red"}), &[0]),
        (json!({"colour": "red", "stock": {"$gte": 3}}), &[0]),
        (json!({"colour": "red", "stock": {"$gt": 3}}), &[]),
        (json!({"colour": {"$ne": "red"}}), &[1, 2]),
        (json!({"colour": {"$ne": null}}), &[0, 1]),
        (json!({"colour": null}), &[2]),
        (json!({"colour": {"$in": ["red", "blue"]}}), &[0]),
        (json!({"colour": {"$nin": ["red", "blue"]}}), &[1, 2]),
        (json!({"colour": {"$prefix": "r"}}), &[0, 1]),
        (json!({"tags": "new"}), &[0]),
        (json!({"tags": {"$contains": "new"}}), &[0]),
        (json!({"tags": {"$any": ["old", "new"]}}), &[0]),
        (json!({"tags": {"$all": ["old", "new"]}}), &[]),
        (json!({"tags": {"$exists": false}}), &[2]),
        (json!({"price": {"$gt": 9, "$lt": 21, "$ne": 20}}), &[0]),
        (json!({"born": {"$gte": "2024-01-01", "$lt": "2025-01-01T00:00:00Z"}}), &[0]),
        (json!({"price": {"$not": {"$gt": 9, "$lt": 10}}}), &[1, 2]),
        (json!({"$or": [{"sold": true}, {"stock": -7}]}), &[0, 1]),
        (json!({"$and": [{"sold": true}, {"stock": -7}]}), &[]),
        (json!({"$nor": [{"sold": true}, {"stock": -7}]}), &[2]),
        (json!({"$not": {"sold": true}}), &[1, 2]),
        (json!({"id": 1}), &[1]),
        (json!({"id": {"$nin": [1]}, "stock": {"$exists": true}}), &[0]),
    ];
    for (dict, rows) in cases {
        let filter = Filter::from_dict(&schema, &dict).unwrap_or_else(|e| panic!("{dict}: {e}"));
        assert_eq!(found(&schema, &filter), rows, "{dict}");
        assert_eq!(filter.check(&schema), Ok(()), "{dict}");
    }
}

#[test]
fn a_wrong_dictionary_is_refused_with_its_place() {
    use RefusedKind::{BadFilter, UnknownAttribute, WrongType};
    let schema = shop();
    for (dict, kind, part) in [
        (json!([]), BadFilter, "a dictionary of"),
        (json!({"size": 1}), UnknownAttribute, "no attribute 'size'"),
        (json!({"$xor": []}), BadFilter, "'$xor' joins nothing"),
        (json!({"$or": []}), BadFilter, "at '$or': Give a list of at least one"),
        (
            json!({"$or": [{"stock": {"$over": 1}}]}),
            BadFilter,
            "at '$or[0].stock.$over': '$over' is no operator",
        ),
        (json!({"stock": {}}), BadFilter, "an operator such as $eq"),
        (json!({"stock": {"$gt": "1"}}), WrongType, "at 'stock': The attribute 'stock'"),
        (json!({"stock": [1, 2]}), BadFilter, "Give a text, a number"),
        (json!({"stock": {"$in": 1}}), BadFilter, "a list of values"),
        (json!({"stock": {"$not": 1}}), BadFilter, "a dictionary of operators"),
        (json!({"colour": {"$contains": "e"}}), WrongType, "no list"),
        (json!({"colour": {"$exists": 1}}), BadFilter, "true or false"),
        (json!({"id": {"$gt": 1}}), BadFilter, "no order"),
        (json!({"id": {"$exists": true}}), BadFilter, "An id is compared by"),
    ] {
        let refused = Filter::from_dict(&schema, &dict).unwrap_err();
        assert_eq!(refused.kind, kind, "{dict}: {refused}");
        assert!(refused.message.contains(part), "{dict}: {refused}");
    }
}
