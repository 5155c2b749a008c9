//! Attributes of rows, and schemas. Input: form u8, then the bytes or the text.

use vstream_attribute::{
    attributes_to_json, AttributeKind, Attributes, AttributesBuilder, Grouping, IdKind, Schema,
    ATTRIBUTES_MAX,
};
use vstream_vector::SplitMix;

use crate::shop;

const ROW: u8 = 0;
const SCHEMA: u8 = 1;
const SCHEMA_TEXT: u8 = 2;
const FORMS: u8 = 3;

pub(crate) fn read(bytes: &[u8]) {
    let [form, bytes @ ..] = bytes else { return };
    match form % FORMS {
        ROW => row(bytes),
        SCHEMA => {
            if let Ok(schema) = Schema::decode(bytes) {
                accepted(&schema);
            }
        }
        _ => {
            let Ok(text) = std::str::from_utf8(bytes) else { return };
            if let Ok(schema) = Schema::from_json(text) {
                accepted(&schema);
            }
        }
    }
}

/// Whatever reads a row that was accepted finds the same values.
fn row(bytes: &[u8]) {
    let Ok(attributes) = Attributes::decode(bytes) else { return };
    let mut columns = Vec::new();
    for (column, value) in attributes.iter() {
        assert_eq!(attributes.get(column).as_ref(), Some(&value));
        columns.push(column);
    }
    assert!(columns.windows(2).all(|pair| pair[0] < pair[1]));
    let mut builder = AttributesBuilder::default();
    builder.set_all(attributes);
    assert_eq!(builder.build(), attributes);
    // A row of another schema is a row all the same; one that fits comes back from JSON.
    let schema = shop::schema();
    let fits = |(column, value): (u16, vstream_attribute::ValueRef<'_>)| {
        AttributesBuilder::default().set(&schema, column, &value).is_ok()
    };
    if attributes.iter().all(fits) {
        let mut builder = AttributesBuilder::default();
        for (name, value) in &attributes_to_json(&schema, attributes) {
            builder.set_json(&schema, name, value).expect("a value of its kind");
        }
        assert_eq!(builder.build(), attributes);
    }
}

fn accepted(schema: &Schema) {
    assert!(schema.attributes.len() <= ATTRIBUTES_MAX);
    for (column, attribute) in schema.attributes.iter().enumerate() {
        assert_eq!(schema.column(&attribute.name), Some(column as u16), "a name twice");
    }
    let mut bytes = Vec::new();
    schema.encode(&mut bytes);
    assert_eq!(Schema::decode(&bytes).as_ref(), Ok(schema));
    assert_eq!(Schema::from_json(&schema.to_json()).as_ref(), Ok(schema));
}

pub(crate) fn corpus() -> Vec<Vec<u8>> {
    let (mut corpus, mut random) = (Vec::new(), SplitMix(5));
    let shop = shop::schema();
    let of = |form: u8, bytes: &[u8]| [&[form], bytes].concat();
    for _ in 0..20 {
        let values: Vec<_> =
            shop.attributes.iter().map(|one| shop::value(one.kind, &mut random)).collect();
        corpus.push(of(ROW, &shop::encoded(&shop, &values)));
    }
    let names = (0..40).map(|number| format!("a{number}"));
    let mut wide = Schema { open: true, grouping: Grouping::Isolated, ..Schema::default() };
    for (name, kind) in names.zip(AttributeKind::ALL.into_iter().cycle()) {
        wide.add(&name, kind).expect("a new name");
    }
    let named = Schema { id: IdKind::String, id_key: [9; 16], ..shop.clone() };
    for schema in [Schema::default(), shop, wide, named] {
        let mut bytes = Vec::new();
        schema.encode(&mut bytes);
        corpus.push(of(SCHEMA, &bytes));
        corpus.push(of(SCHEMA_TEXT, schema.to_json().as_bytes()));
    }
    let text =
        r#"{"attributes": {"price": "f64", "tags": "keywords"}, "groups": {"mode": "shared"}}"#;
    corpus.push(of(SCHEMA_TEXT, text.as_bytes()));
    corpus
}
