//! Filters in their four forms. Input: form u8, then the text or the bytes.
//!
//! What a reader accepts must be within the limits, survive every other form, and mean the same in
//! all of them for the rows of a [`Shop`].

use serde_json::Value as Json;
use vstream_attribute::{Filter, IdKind, Value, FILTER_DEPTH_MAX, FILTER_NODES_MAX};

use crate::meaning::Seen;
use crate::shop::Shop;

const JSON: u8 = 0;
const DICT: u8 = 1;
const SQL: u8 = 2;
const BYTES: u8 = 3;
/// Beside the form: the ids are texts.
const NAMED: u8 = 4;

pub(crate) fn read(bytes: &[u8]) {
    let [form, bytes @ ..] = bytes else { return };
    let shop = Shop::of(form & NAMED > 0);
    if form % 4 == BYTES {
        if let Ok(filter) = Filter::decode(bytes) {
            accepted(shop, &filter);
        }
        return;
    }
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    match form % 4 {
        JSON => {
            let Ok(filter) = Filter::from_json(shop.names(), text) else { return };
            accepted(shop, &filter);
            let json: Json = serde_json::from_str(text).expect("it was read");
            means(shop, &filter, text, |seen| seen.qdrant(&json));
        }
        DICT => {
            let Ok(json) = serde_json::from_str::<Json>(text) else { return };
            let Ok(filter) = Filter::from_dict(shop.names(), &json) else { return };
            accepted(shop, &filter);
            means(shop, &filter, text, |seen| seen.mongo(&json));
        }
        _ => {
            let parameters =
                [Value::I64(2), Value::Keyword("ab".into()), Value::F64(0.5), Value::Bool(true)];
            for given in 0..=parameters.len() {
                let read = Filter::from_sql(shop.names(), text, &parameters[..given]);
                read.iter().for_each(|filter| accepted(shop, filter));
            }
        }
    }
}

/// The stored rows answer as their writer would.
fn means(shop: &Shop, filter: &Filter, text: &str, holds: impl Fn(Seen<'_>) -> Option<bool>) {
    let has_names = shop.schema.id == IdKind::String;
    for row in &shop.rows {
        if let Some(holds) = holds(Seen { schema: &shop.schema, row, has_names }) {
            assert_eq!(row.holds(filter), holds, "{text} for {:?}, {}", row.values, row.name);
        }
    }
}

/// Every form gives the filter back, and the simplified one holds for the same rows.
fn accepted(shop: &Shop, filter: &Filter) {
    let mut bytes = Vec::new();
    filter.encode(&mut bytes);
    assert_eq!(Filter::decode(&bytes).as_ref(), Ok(filter));
    assert!(depth(filter) <= FILTER_DEPTH_MAX && nodes(filter) <= FILTER_NODES_MAX);
    // Bytes may name columns that this schema has not.
    if filter.check(&shop.schema).is_ok() {
        let text = filter.to_json(&shop.schema).expect("a filter of this schema");
        let again = Filter::from_json(shop.names(), &text).expect("what was written");
        // Bytes may name a value twice, which texts do not.
        shop.rows.iter().for_each(|row| assert_eq!(row.holds(filter), row.holds(&again), "{text}"));
        let text = again.to_json(&shop.schema).expect("a filter of this schema");
        assert_eq!(Filter::from_json(shop.names(), &text).as_ref(), Ok(&again), "{text}");
    }
    let simple = filter.clone().simplify();
    for row in &shop.rows {
        assert_eq!(row.holds(filter), row.holds(&simple), "{filter:?}, simplified {simple:?}");
    }
}

fn parts(filter: &Filter) -> &[Filter] {
    match filter {
        Filter::And(parts) | Filter::Or(parts) | Filter::AtLeast(_, parts) => parts,
        Filter::Not(part) => std::slice::from_ref(part),
        Filter::Attribute(..) | Filter::Ids(_) => &[],
    }
}

fn depth(filter: &Filter) -> usize {
    1 + parts(filter).iter().map(depth).max().unwrap_or(0)
}

fn nodes(filter: &Filter) -> usize {
    1 + parts(filter).iter().map(nodes).sum::<usize>()
}

const QDRANT: [&str; 12] = [
    r#"{"must": [{"key": "colour", "match": {"value": "red"}}, {"has_id": [2, 0, 17]}]}"#,
    r#"{"must_not": [{"key": "tags", "match": {"any": ["a", "ab"]}}], "should": []}"#,
    r#"{"should": [{"key": "stock", "range": {"gt": -2.5, "lte": 3}}, {"is_null": {"key": "born"}}]}"#,
    r#"{"min_should": {"conditions": [{"key": "sold", "match": {"value": true}}, {"has_id": [1]},
        {"key": "price", "range": {"gte": 0.25, "lt": 2}}, {"filter": {}}], "min_count": 2}}"#,
    r#"{"must": [{"key": "born", "range": {"lt": "2024-05-02T00:00:00Z", "gte": 0}}]}"#,
    r#"{"key": "colour", "match": {"except": ["a", "it's"]}}"#,
    r#"{"must": {"key": "tags", "match": {"all": ["a", "b"]}}, "must_not": [{}]}"#,
    r#"{"must": [{"key": "tags", "values_count": {"gt": 0}}, {"key": "tags", "is_empty": false}]}"#,
    r#"{"must": [{"key": "colour", "match": {"prefix": "ab"}}, {"is_empty": {"key": "note"}}]}"#,
    r#"{"should": [{"must": [{"must_not": [{"key": "stock", "match": {"any": [1, -4, 3.0]}}]}]}]}"#,
    r#"{"must": [{"key": "stock", "range": {"lte": -18446744073709551616, "gt": 1e30}}]}"#,
    r#"{"must": [{"key": "tags", "match": {"empty": true}}, {"key": "born", "is_null": true}]}"#,
];
const MONGO: [&str; 8] = [
    r#"{"colour": "red", "price": {"$gte": -1, "$lt": 1.5}}"#,
    r#"{"$or": [{"stock": {"$gt": 0}}, {"tags": {"$any": ["a", "it's"]}}], "id": {"$nin": [1, 2]}}"#,
    r#"{"$and": [{"sold": true}, {"$nor": [{"stock": -4}, {"colour": null}]}]}"#,
    r#"{"stock": {"$not": {"$gt": -1, "$lte": 2.5}}, "note": {"$exists": true}}"#,
    r#"{"$not": {"tags": {"$all": ["a", "b"]}}, "colour": {"$prefix": "a", "$ne": "abc"}}"#,
    r#"{"colour": {"$nin": ["red", "b"]}, "tags": {"$contains": "ab"}, "id": 3}"#,
    r#"{"born": {"$gte": "2024-05-01", "$lt": 1714600000000}, "price": {"$in": [0.25, 1, -0.5]}}"#,
    r#"{"sold": {"$eq": false}, "stock": {"$ne": null}, "id": {"$in": ["row 3", "row 40"]}}"#,
];
const WHERE: [&str; 8] = [
    "(price BETWEEN -1.5 AND 3 OR NOT sold) AND colour IN ('red', 'b', NULL)",
    "colour LIKE 'ab%' AND born >= '2024-05-01T00:00:00Z' AND has_any(tags, 'a', 'b')",
    "\"stock\" <> ? AND id NOT IN (1, 2, 3) AND stock IS NOT NULL OR sold IS FALSE",
    "NOT (stock NOT BETWEEN 2 AND 4) AND -1 < price AND colour = $2",
    "has_all(tags, 'a', 'b') OR price = ? OR sold = true OR sold IS NOT TRUE",
    "id = 7 OR id IN ('row 3', 'row 5') AND born IS NULL",
    "((((((((stock = 1))))))))",
    "stock IN (?) AND colour = ? AND price < ? AND sold = ?",
];

/// Every form, and the bytes of what the texts mean.
pub(crate) fn corpus() -> Vec<Vec<u8>> {
    let mut corpus = Vec::new();
    for named in [0, NAMED] {
        let shop = Shop::of(named > 0);
        let mut add = |form: u8, bytes: &[u8]| {
            corpus.push([&[form | named], bytes].concat());
        };
        for text in QDRANT {
            add(JSON, text.as_bytes());
            if let Ok(filter) = Filter::from_json(shop.names(), text) {
                let mut bytes = Vec::new();
                filter.encode(&mut bytes);
                add(BYTES, &bytes);
            }
        }
        MONGO.iter().for_each(|text| add(DICT, text.as_bytes()));
        WHERE.iter().for_each(|text| add(SQL, text.as_bytes()));
    }
    // Deeper than any reader may go.
    let nested = |open: &str, close: &str, times: usize| open.repeat(times) + &close.repeat(times);
    corpus.push([&[JSON], nested(r#"{"must":["#, "]}", 400).as_bytes()].concat());
    corpus.push([&[DICT], nested(r#"{"$not":"#, "}", 400).as_bytes()].concat());
    corpus.push([&[SQL], nested("NOT (", ")", 400).as_bytes()].concat());
    corpus
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The examples are read, hold for some rows and not for others, and are judged without gaps:
    /// otherwise the comparison of meanings would compare nothing.
    #[test]
    fn most_examples_are_judged_for_most_rows() {
        let (mut judged, mut held, mut read_texts) = (0, 0, 0);
        for has_names in [false, true] {
            let shop = Shop::of(has_names);
            let texts = QDRANT.map(|text| (text, true)).into_iter();
            for (text, is_qdrant) in texts.chain(MONGO.map(|text| (text, false))) {
                let json: Json = serde_json::from_str(text).expect("JSON");
                let read = match is_qdrant {
                    true => Filter::from_json_value(shop.names(), &json),
                    false => Filter::from_dict(shop.names(), &json),
                };
                read_texts += usize::from(read.is_ok());
                for row in shop.rows.iter().filter(|_| read.is_ok()) {
                    let seen = Seen { schema: &shop.schema, row, has_names };
                    let holds = if is_qdrant { seen.qdrant(&json) } else { seen.mongo(&json) };
                    judged += usize::from(holds.is_some());
                    held += usize::from(holds == Some(true));
                }
            }
        }
        println!("{read_texts} texts, {judged} rows judged, {held} held");
        assert!(read_texts >= 30, "only {read_texts} texts are read");
        assert!(judged * 10 >= read_texts * 96 * 8 && held * 20 >= judged && held * 2 <= judged);
    }
}
