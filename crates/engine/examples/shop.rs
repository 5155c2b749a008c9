//! Rows as applications have them: attributes, a payload, filters, and changes while queries filter.
//!
//! ```text
//! cargo run --release -p vstream-engine --example shop
//! ```

use std::sync::Arc;

use vstream_engine::{
    Applied, AttributeKind, AttributesBuilder, Condition, Element, Engine, Error, Fields, Filter,
    Metric, PayloadChange, Query, Row, Schema, Scratch, Settings, Update, ValueRef, With,
    WithAttributes,
};

/// Id, colour, price, pieces in stock, and where the product lies.
const PRODUCTS: [(u64, &str, f64, i64, [f32; 2]); 4] = [
    (1, "red", 4.5, 3, [0.0, 1.0]),
    (2, "red", 60.0, 1, [0.1, 1.0]),
    (3, "blue", 9.0, 5, [0.2, 0.9]),
    (4, "red", 7.0, 0, [0.9, 0.1]),
];

fn main() -> Result<(), Error> {
    // 1. The schema says what rows carry. Attributes can be added later.
    let schema = Schema::new([
        ("color", AttributeKind::Keyword),
        ("price", AttributeKind::F64),
        ("stock", AttributeKind::I64),
    ])?;
    let settings =
        Settings { schema: Arc::new(schema.clone()), ..Settings::new(2, Metric::L2, Element::F32) };
    let mut engine = Engine::create(settings)?;

    // 2. Attributes are built for a row and checked against the schema; the payload is opaque.
    let mut builder = AttributesBuilder::default();
    for (id, color, price, stock, vector) in &PRODUCTS {
        builder.clear();
        builder.set(&schema, 0, &ValueRef::Keyword(color))?;
        builder.set(&schema, 1, &ValueRef::F64(*price))?;
        builder.set(&schema, 2, &ValueRef::I64(*stock))?;
        let title = format!("product {id}");
        let fields =
            Fields { attributes: builder.build(), payload: Some(title.as_bytes()), ..Fields::NONE };
        engine.upsert(&Row { id: *id, version: 1, code: 0, shard: 0, vector, fields })?;
    }

    // 3. A filter is read from JSON, SQL or a dictionary. The recall target holds among its matches.
    let filter = Filter::from_sql(&schema, "color = 'red' and price < 50 and stock > 0", &[])?;
    let query = Query { filter: Some(&filter), ..Query::new(&[0.1, 1.0], 10) };
    let with =
        With { attributes: WithAttributes::Of(vec![1, 2]), payload: true, ..With::default() };
    let (reader, mut scratch) = (engine.reader(), Scratch::new());
    let mut found = || -> Result<Vec<u64>, Error> {
        let answer = reader.answer(&query, &with, &mut scratch)?;
        for row in &answer.rows {
            let fields = row.fields.fields();
            let title = String::from_utf8_lossy(fields.payload.unwrap_or_default());
            println!("{title}: {:?}", fields.attributes.get(1));
        }
        Ok(answer.neighbors.iter().map(|row| row.id).collect())
    };
    assert_eq!(found()?, [1]);

    // 4. An update changes attributes alone: the row keeps its vector and its place in the index.
    builder.clear();
    builder.set(&schema, 2, &ValueRef::I64(2))?;
    let update = Update { set: builder.build(), unset: &[], payload: PayloadChange::Keep };
    engine.update(4, 2, &update)?;
    assert_eq!(found()?, [1, 4]);

    // 5. An upsert on a condition replaces a row only if the condition holds for it.
    let sold_out = Filter::from_sql(&schema, "stock = 0", &[])?;
    let condition = Condition { filter: Some(&sold_out), ..Condition::default() };
    let vector = &PRODUCTS[0].4;
    let row = Row { id: 1, version: 3, code: 0, shard: 0, vector, fields: Fields::NONE };
    assert_eq!(engine.upsert_if(&row, &condition)?, Applied::ConditionFailed);

    // 6. Rows that match are counted and deleted together.
    assert_eq!(engine.reader().count(Some(&filter))?, 2);
    assert_eq!(engine.delete_where(&filter, 9)?, 2);
    assert_eq!(found()?, [] as [u64; 0]);
    Ok(())
}
