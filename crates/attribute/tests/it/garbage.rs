//! Damaged bytes and texts: an error or a filter within the limits, never a panic.

use proptest::prelude::*;
use vstream_attribute::{Attributes, Filter, Schema, Value};

use crate::model::{filter, row, shop};

/// Where a change goes, and what it is.
type Change = (prop::sample::Index, u8, u8);

fn changes() -> impl Strategy<Value = Vec<Change>> {
    prop::collection::vec((any::<prop::sample::Index>(), any::<u8>(), 0u8..4), 1..6)
}

/// Replaces, inserts, removes, or repeats the rest from an earlier place.
fn changed(mut bytes: Vec<u8>, changes: &[Change]) -> Vec<u8> {
    for (at, byte, how) in changes {
        if bytes.is_empty() {
            return bytes;
        }
        let at = at.index(bytes.len());
        match how {
            0 => bytes[at] = *byte,
            1 => bytes.insert(at, *byte),
            2 => drop(bytes.remove(at)),
            _ => bytes.extend_from_within(at / 2..at),
        }
    }
    bytes
}

/// A filter that a reader let through is a good one.
fn accept(filter: &Filter) {
    let schema = shop();
    assert_eq!(filter.check(&schema), Ok(()));
    let text = filter.to_json(&schema).unwrap();
    assert_eq!(&Filter::from_json(&schema, &text).unwrap(), filter, "{text}");
    let mut bytes = Vec::new();
    filter.encode(&mut bytes);
    assert_eq!(&Filter::decode(&bytes).unwrap(), filter);
}

const SQL: [&str; 4] = [
    "(price BETWEEN -1.5 AND 3 OR NOT sold) AND colour IN ('red', 'blue', NULL)",
    "name LIKE 'ab%' AND born >= '2024-05-01T00:00:00Z' AND has_any(tags, 'new', 'sale')",
    "\"stock\" <> 7 AND id NOT IN (1, 2, 3) AND stock IS NOT NULL OR sold IS FALSE",
    "NOT (stock NOT BETWEEN 2 AND 4) AND -1 < price",
];

fn soup() -> impl Strategy<Value = String> {
    let words = vec![
        "price", "stock", "tags", "sold", "colour", "id", "(", ")", ",", "AND", "OR", "NOT", "IN",
        "BETWEEN", "LIKE", "IS", "NULL", "TRUE", "=", "<>", "<", ">=", "'a%'", "1", "-", "2.5",
        "?", "$1", "has_any(", "--", "/*", "\"", "'", ".", "CASE", "SELECT", "::", "[", "{",
    ];
    prop::collection::vec(prop::sample::select(words), 0..30).prop_map(|words| words.join(" "))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 4000, ..ProptestConfig::default() })]

    #[test]
    fn changed_bytes_of_a_filter(filter in filter(), changes in changes()) {
        let mut bytes = Vec::new();
        filter.encode(&mut bytes);
        if let Ok(filter) = Filter::decode(&changed(bytes, &changes)) {
            let mut bytes = Vec::new();
            filter.encode(&mut bytes);
            prop_assert_eq!(Filter::decode(&bytes), Ok(filter));
        }
    }

    #[test]
    fn random_bytes(mut bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        if let Some(first) = bytes.first_mut() {
            *first = 1;
        }
        let _ = Filter::decode(&bytes);
        let _ = Schema::decode(&bytes);
        let _ = Attributes::decode(&bytes);
        let _ = Attributes::decode(bytes.get(1..).unwrap_or_default());
    }

    #[test]
    fn changed_bytes_of_rows_and_schemas(row in row(), changes in changes()) {
        let schema = shop();
        let bytes = row.with(&schema, |_, attributes| attributes.bytes().to_vec());
        let bytes = changed(bytes, &changes);
        if let Ok(attributes) = Attributes::decode(&bytes) {
            prop_assert_eq!(attributes.iter().count(), attributes.iter().count());
        }
        let mut bytes = Vec::new();
        schema.encode(&mut bytes);
        if let Ok(schema) = Schema::decode(&changed(bytes, &changes)) {
            prop_assert_eq!(Schema::from_json(&schema.to_json()), Ok(schema));
        }
        let text = changed(schema.to_json().into_bytes(), &changes);
        if let Ok(schema) = Schema::from_json(&String::from_utf8_lossy(&text)) {
            prop_assert_eq!(Schema::from_json(&schema.to_json()), Ok(schema));
        }
    }

    #[test]
    fn changed_json_of_a_filter(filter in filter(), changes in changes()) {
        let text = filter.to_json(&shop()).unwrap();
        let text = changed(text.into_bytes(), &changes);
        let text = String::from_utf8_lossy(&text);
        if let Ok(filter) = Filter::from_json(&shop(), &text) {
            accept(&filter);
        }
        if let Ok(dict) = serde_json::from_str(&text) {
            if let Ok(filter) = Filter::from_dict(&shop(), &dict) {
                accept(&filter);
            }
        }
    }

    #[test]
    fn changed_sql(at in 0usize..4, changes in changes()) {
        let text = changed(SQL[at].as_bytes().to_vec(), &changes);
        if let Ok(filter) = Filter::from_sql(&shop(), &String::from_utf8_lossy(&text), &[]) {
            accept(&filter);
        }
    }

    #[test]
    fn words_of_sql_in_any_order(text in soup(), number in any::<i64>()) {
        for parameters in [&[][..], &[Value::I64(number)]] {
            if let Ok(filter) = Filter::from_sql(&shop(), &text, parameters) {
                accept(&filter);
            }
        }
    }
}
