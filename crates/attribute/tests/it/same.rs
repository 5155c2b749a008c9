//! Forms of a filter that must mean the same: JSON, bytes, simplified.

use proptest::prelude::*;
use vstream_attribute::{Filter, IdKind, Schema};

use crate::model::{filter, rows, shop};

proptest! {
    #![proptest_config(ProptestConfig { cases: 1500, ..ProptestConfig::default() })]

    #[test]
    fn json_gives_an_equal_filter_back(filter in filter(), string_ids in any::<bool>()) {
        let id = if string_ids { IdKind::String } else { IdKind::U64 };
        let schema = Schema { id, ..shop() };
        let text = filter.to_json(&schema).unwrap();
        prop_assert_eq!(Filter::from_json(&schema, &text).unwrap(), filter, "{}", text);
    }

    #[test]
    fn bytes_give_an_equal_filter_back(filter in filter()) {
        prop_assert_eq!(filter.check(&shop()), Ok(()));
        let mut bytes = Vec::new();
        filter.encode(&mut bytes);
        let decoded = Filter::decode(&bytes).unwrap();
        prop_assert_eq!(&decoded, &filter);
        let mut again = Vec::new();
        decoded.encode(&mut again);
        prop_assert_eq!(&again, &bytes);
        for end in 0..bytes.len() {
            prop_assert!(Filter::decode(&bytes[..end]).is_err());
        }
    }

    #[test]
    fn a_simplified_filter_holds_for_the_same_rows(filter in filter(), rows in rows()) {
        let schema = shop();
        let simple = filter.clone().simplify();
        for row in &rows {
            prop_assert_eq!(row.holds(&schema, &filter), row.holds(&schema, &simple), "{:?}", row);
        }
        prop_assert_eq!(simple.check(&schema), Ok(()));
        prop_assert!(nodes(&simple) <= nodes(&filter));
        prop_assert_eq!(simple.clone().simplify(), simple);
    }
}

fn nodes(filter: &Filter) -> usize {
    match filter {
        Filter::And(parts) | Filter::Or(parts) | Filter::AtLeast(_, parts) => {
            1 + parts.iter().map(nodes).sum::<usize>()
        }
        Filter::Not(part) => 1 + nodes(part),
        Filter::Attribute(..) | Filter::Ids(_) => 1,
    }
}

#[test]
fn simple_forms_are_those_that_masks_want() {
    let schema = shop();
    for (text, simple) in [
        (r#"{"must": [{"should": [{"must": []}]}]}"#, r#"{"must":[]}"#),
        (
            r#"{"must_not": [{"must_not": [{"key": "sold", "match": {"value": true}}]}]}"#,
            r#"{"key":"sold","match":{"value":true}}"#,
        ),
        (
            r#"{"should": [{"key": "colour", "match": {"value": "b"}},
                        {"key": "stock", "match": {"value": 1}},
                        {"should": [{"key": "colour", "match": {"any": ["a", "b"]}}]}]}"#,
            r#"{"should":[{"key":"colour","match":{"any":["a","b"]}},{"key":"stock","match":{"any":[1]}}]}"#,
        ),
        (
            r#"{"must": [{"key": "stock", "range": {"gte": 2}}, {"has_id": [2, 1, 2]},
                      {"key": "stock", "range": {"lt": 9, "gt": 1}}]}"#,
            r#"{"must":[{"key":"stock","range":{"gte":2,"lt":9}},{"has_id":[1,2]}]}"#,
        ),
        (
            r#"{"must": [{"key": "price", "range": {"gt": 2}}, {"key": "price", "range": {"lte": 2}}]}"#,
            r#"{"must_not":[{}]}"#,
        ),
        (
            r#"{"min_should": {"conditions": [{"key": "sold", "is_null": true}, {}], "min_count": 2}}"#,
            r#"{"is_null":{"key":"sold"}}"#,
        ),
    ] {
        let read = Filter::from_json(&schema, text).unwrap();
        assert_eq!(read.simplify().to_json(&schema).unwrap(), simple, "{text}");
    }
}
