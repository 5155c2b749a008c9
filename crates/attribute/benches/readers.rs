//! Time to read a filter of five conditions in each form, and to hash a string id.
//!
//! `cargo bench -p vstream-attribute --bench readers`

use divan::{black_box, Bencher};
use vstream_attribute::{AttributeKind, Filter, NameHash, Schema, Value};

fn main() {
    divan::main();
}

const JSON: &str = r#"{
    "must": [
        {"key": "colour", "match": {"any": ["red", "green", "blue"]}},
        {"key": "price", "range": {"gte": 9.5, "lt": 100}},
        {"key": "born", "range": {"gte": "2024-05-01T00:00:00Z"}}
    ],
    "must_not": [{"key": "tags", "match": {"value": "sale"}}, {"is_null": {"key": "stock"}}]
}"#;

const SQL: &str = "colour IN ('red', 'green', 'blue') AND price >= 9.5 AND price < 100 \
                   AND born >= '2024-05-01T00:00:00Z' AND NOT has_any(tags, 'sale') \
                   AND stock IS NOT NULL";

fn shop() -> Schema {
    Schema::new([
        ("colour", AttributeKind::Keyword),
        ("tags", AttributeKind::Keywords),
        ("stock", AttributeKind::I64),
        ("price", AttributeKind::F64),
        ("born", AttributeKind::Timestamp),
    ])
    .expect("a schema")
}

#[divan::bench]
fn json(bencher: Bencher) {
    let schema = shop();
    bencher.bench(|| Filter::from_json(&schema, black_box(JSON)).expect("a filter"));
}

#[divan::bench]
fn sql(bencher: Bencher) {
    let schema = shop();
    bencher.bench(|| Filter::from_sql(&schema, black_box(SQL), &[]).expect("a filter"));
}

#[divan::bench]
fn dict(bencher: Bencher) {
    let schema = shop();
    let dict = serde_json::json!({
        "colour": {"$in": ["red", "green", "blue"]},
        "price": {"$gte": 9.5, "$lt": 100},
        "born": {"$gte": "2024-05-01T00:00:00Z"},
        "tags": {"$ne": "sale"},
        "stock": {"$exists": true},
    });
    bencher.bench(|| Filter::from_dict(&schema, black_box(&dict)).expect("a filter"));
}

#[divan::bench]
fn bytes(bencher: Bencher) {
    let mut bytes = Vec::new();
    Filter::from_json(&shop(), JSON).expect("a filter").encode(&mut bytes);
    bencher.bench(|| Filter::decode(black_box(&bytes)).expect("a filter"));
}

#[divan::bench]
fn simplify(bencher: Bencher) {
    let filter = Filter::from_json(&shop(), JSON).expect("a filter");
    bencher.with_inputs(|| filter.clone()).bench_values(Filter::simplify);
}

/// An `IN` of 10,000 numbers as a bound list is out of SQL's reach, so they stand in the text.
#[divan::bench]
fn sql_of_10_000_values(bencher: Bencher) {
    let schema = shop();
    let list: Vec<String> = (0..10_000).map(|number| number.to_string()).collect();
    let text = format!("stock IN ({})", list.join(", "));
    let parameters: [Value; 0] = [];
    bencher.bench(|| Filter::from_sql(&schema, black_box(&text), &parameters).expect("a filter"));
}

#[divan::bench]
fn name_of_36_bytes(bencher: Bencher) {
    let hash = NameHash::new([7; 16]);
    let name = "6f1ed002-ab5d-4e51-9b5e-0b6a9e3c1f11";
    bencher.bench(|| hash.hash(black_box(name)).expect("a name"));
}
