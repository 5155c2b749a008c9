//! Limits of filters, at the limit and one beyond it, on a small stack.

use serde_json::{json, Value as Json};
use vstream_attribute::{
    Filter, Range, Refused, Test, Value, FILTER_DEPTH_MAX, FILTER_NODES_MAX, FILTER_TEXT_BYTES_MAX,
    FILTER_VALUES_MAX,
};

use crate::model::{shop, COLOUR, STOCK};

/// Runs on a stack of half of the smallest that a thread of Java has by default.
fn on_a_small_stack(test: impl FnOnce() + Send + 'static) {
    let thread = std::thread::Builder::new().stack_size(512 << 10).spawn(test).unwrap();
    thread.join().unwrap();
}

fn nested(levels: usize) -> Filter {
    let leaf = Filter::Attribute(COLOUR, Test::Exists);
    (1..levels).fold(leaf, |inner, _| Filter::And(vec![inner, Filter::Ids(vec![1])]))
}

#[test]
fn depth_is_limited_in_all_forms() {
    on_a_small_stack(|| {
        let schema = shop();
        let deepest = nested(FILTER_DEPTH_MAX);
        let text = deepest.to_json(&schema).unwrap();
        assert_eq!(Filter::from_json(&schema, &text).unwrap(), deepest);
        let mut bytes = Vec::new();
        deepest.encode(&mut bytes);
        assert_eq!(Filter::decode(&bytes).unwrap(), deepest);

        let deeper = nested(FILTER_DEPTH_MAX + 1);
        assert!(deeper.check(&schema).is_err());
        assert!(deeper.to_json(&schema).is_err());
        let mut bytes = Vec::new();
        deeper.encode(&mut bytes);
        assert!(Filter::decode(&bytes).is_err());
        let text = format!("{{\"must\": [{text}, {{\"has_id\": [1]}}]}}");
        let refused = Filter::from_json(&schema, &text).unwrap_err();
        assert!(refused.message.contains("at most 16 levels"), "{refused}");

        for depth in [FILTER_DEPTH_MAX - 1, FILTER_DEPTH_MAX, 100] {
            let dict = (0..depth).fold(json!({"stock": 1}), |inner, _| json!({"$not": inner}));
            assert_eq!(Filter::from_dict(&schema, &dict).is_ok(), depth < FILTER_DEPTH_MAX);
        }
    });
}

#[test]
fn nesting_in_texts_never_overflows_the_stack() {
    on_a_small_stack(|| {
        let schema = shop();
        let refused = |text: String| {
            assert!(text.len() <= FILTER_TEXT_BYTES_MAX);
            Filter::from_sql(&schema, &text, &[]).unwrap_err();
        };
        for count in [100, 1_000, FILTER_TEXT_BYTES_MAX] {
            // As often as asked, but within the limit of a text.
            let many = |part: &str| part.repeat(count.min(FILTER_TEXT_BYTES_MAX / 3 / part.len()));
            refused(format!("{}stock = 1{}", many("("), many(")")));
            for opening in [
                "(",
                "NOT ",
                "stock = - ",
                "has_any(",
                "stock IN (",
                "stock NOT IN (",
                "1 BETWEEN (",
                "NOT (",
                "1 = (",
                "sold AND (sold OR (",
                "(1, (",
                "stock LIKE (",
            ] {
                refused(many(opening));
                refused(many(opening) + "1");
                refused(many(opening) + "sold");
            }
            for chained in
                [" IS TRUE", " = sold", " IS NULL", ".a", " AND sold OR", " BETWEEN 1 AND sold"]
            {
                refused("sold".to_owned() + &many(chained));
            }
            let json = format!("{}{}", many("{\"must\":"), many("}"));
            assert!(Filter::from_json(&schema, &json).is_err());
            let json = format!("{}{}", many("["), many("]"));
            assert!(Filter::from_json(&schema, &json).is_err());
        }
    });
}

#[test]
fn the_longest_chains_are_read_on_a_small_stack() {
    on_a_small_stack(|| {
        let schema = shop();
        let chain = vec!["stock = 1"; 1_300].join(" AND ");
        let Filter::And(parts) = Filter::from_sql(&schema, &chain, &[]).unwrap() else {
            panic!("no And")
        };
        assert_eq!(parts.len(), 1_300);
        let chain = vec!["sold"; 2_048].join(" OR ");
        assert!(Filter::from_sql(&schema, &chain, &[]).is_ok());
    });
}

fn read_json(list: &[Json]) -> Result<Filter, Refused> {
    Filter::from_json(&shop(), &json!({"must": list}).to_string())
}

#[test]
fn nodes_and_values_are_limited_in_all_forms() {
    let schema = shop();
    let conditions = vec![json!({"has_id": [1]}); FILTER_NODES_MAX];
    assert!(read_json(&conditions[1..]).is_ok());
    assert!(read_json(&conditions).unwrap_err().message.contains("4096"));
    let parts = vec![json!({"stock": 1}); FILTER_NODES_MAX];
    assert!(Filter::from_dict(&schema, &json!({"$or": parts[1..]})).is_ok());
    assert!(Filter::from_dict(&schema, &json!({"$or": parts})).is_err());
    let wide = Filter::Or(vec![Filter::Ids(vec![]); FILTER_NODES_MAX]);
    let mut bytes = Vec::new();
    wide.encode(&mut bytes);
    assert!(Filter::decode(&bytes).is_err());

    let numbers: Vec<i64> = (0..=FILTER_VALUES_MAX as i64).collect();
    let value = |numbers: &[i64]| json!({"stock": {"$in": numbers}});
    assert!(Filter::from_dict(&schema, &value(&numbers[1..])).is_ok());
    assert!(Filter::from_dict(&schema, &value(&numbers)).is_err());
    let condition = |numbers: &[i64]| json!({"key": "stock", "match": {"any": numbers}});
    assert!(read_json(&[condition(&numbers[1..])]).is_ok());
    assert!(read_json(&[condition(&numbers)]).is_err());
    let sql = |numbers: &[i64]| {
        let list: Vec<String> = numbers.iter().map(|number| (-number).to_string()).collect();
        Filter::from_sql(&schema, &format!("stock NOT IN ({})", list.join(",")), &[])
    };
    assert!(sql(&numbers[1..]).is_ok());
    assert!(sql(&numbers).unwrap_err().message.contains("65536"));
    let mut bytes = Vec::new();
    Filter::Attribute(STOCK, Test::I64In(numbers)).encode(&mut bytes);
    assert!(Filter::decode(&bytes).is_err());
}

#[test]
fn long_texts_and_large_filters_are_refused() {
    let schema = shop();
    let long = " ".repeat(FILTER_TEXT_BYTES_MAX);
    assert!(Filter::from_json(&schema, &format!("{{}}{long}")).is_err());
    assert!(Filter::from_sql(&schema, &format!("sold{long}"), &[]).is_err());
    assert!(Filter::from_sql(&schema, &format!("sold{}", &long[4..]), &[]).is_ok());
    let texts = Value::Keywords(vec!["x".repeat(4096); 4096]);
    let distinct = (0..4096).map(|i| format!("{i}{}", "x".repeat(4096))).collect();
    assert!(Filter::from_sql(&schema, "colour IN (?)", &[texts]).is_ok());
    let refused = Filter::from_sql(&schema, "colour IN (?)", &[Value::Keywords(distinct)]);
    assert!(refused.unwrap_err().message.contains("bytes"));
    // The message of a refusal stays short, whatever the text.
    let key = "k".repeat(100_000);
    let refused = Filter::from_dict(&schema, &json!({ key: 1 })).unwrap_err();
    assert!(refused.message.len() < 1000, "{} bytes", refused.message.len());
}

#[test]
fn hand_made_filters_are_checked() {
    use std::ops::Bound;
    let schema = shop();
    let bad = |test: Test| {
        let filter = Filter::Not(Box::new(Filter::Attribute(STOCK, test)));
        assert!(filter.check(&schema).is_err(), "{filter:?}");
        assert!(filter.to_json(&schema).is_err());
    };
    bad(Test::Bool(true));
    bad(Test::KeywordIn(vec![]));
    bad(Test::F64In(vec![]));
    bad(Test::I64In(vec![2, 1]));
    assert!(Filter::Attribute(7, Test::Exists).check(&schema).is_err());
    assert!(Filter::Ids(vec![2, 1]).check(&schema).is_err());
    let nan = Range { from: Bound::Included(f64::NAN), to: Bound::Unbounded };
    assert!(Filter::Attribute(3, Test::F64Range(nan)).check(&schema).is_err());
}
