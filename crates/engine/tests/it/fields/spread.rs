//! Answers with at most n rows per value of an attribute, and shared groups, against brute force.

use std::collections::HashMap;
use std::sync::Arc;

use vstream_engine::{
    AttributeKind, AttributesBuilder, Effort, Element, Engine, ErrorKind, Fields, FieldsBuffer,
    Filter, Grouping, Metric, Neighbor, Query, RefusedKind, Row, Schema, Scratch, Settings, Spread,
    SpreadOf, Test, Update, Value, ValueRef, With, GROUP_ATTRIBUTE,
};
use vstream_vector::SplitMix;

use super::{journaling, nearest, Kept, Model};

const DIMENSION: usize = 64;
const ROWS: u64 = 8_000;
const COLOUR: u16 = 0;
const YEAR: u16 = 1;
const SOLD: u16 = 2;

/// Rows near a query are nearly all of the colour that belongs to their place.
fn filled(engine: &mut Engine) -> Model {
    let (schema, mut random) = (engine.schema().clone(), SplitMix(81));
    let (mut builder, mut model) = (AttributesBuilder::default(), Model::new());
    for id in 0..ROWS {
        let place = random.below(6);
        let vector: Vec<f32> =
            (0..DIMENSION).map(|_| (place * 10 + random.below(9)) as f32).collect();
        builder.clear();
        let colour = if random.below(50) == 0 { random.below(300) } else { place };
        // One in ten has no colour.
        if random.below(10) > 0 {
            let name = format!("colour {colour}");
            builder.set(&schema, COLOUR, &ValueRef::Keyword(&name)).expect("a value");
        }
        builder.set(&schema, YEAR, &ValueRef::I64(random.below(7) as i64)).expect("a value");
        builder.set(&schema, SOLD, &ValueRef::Bool(random.below(9) == 0)).expect("a value");
        let fields = Fields { attributes: builder.build(), ..Fields::NONE };
        let row = Row { id, version: 1, code: 0, shard: 0, vector: &vector, fields };
        engine.upsert(&row).expect("a good row");
        model.insert(id, Kept { version: 1, vector, fields: FieldsBuffer::from(&fields) });
    }
    model
}

fn value_of(model: &Model, id: u64, column: u16) -> Option<Value> {
    model[&id].fields.fields().attributes.get(column).map(|value| value.to_value())
}

/// All matching rows in order; a row is taken unless its value has had its share.
fn spread(rows: &[Neighbor], model: &Model, column: u16, n: usize, k: usize) -> Vec<Neighbor> {
    let (mut counts, mut taken) = (HashMap::new(), Vec::new());
    for row in rows {
        let count: &mut usize =
            counts.entry(format!("{:?}", value_of(model, row.id, column))).or_default();
        if *count < n && taken.len() < k {
            *count += 1;
            taken.push(*row);
        }
    }
    taken
}

#[test]
fn answers_are_spread_as_by_brute_force() {
    let attributes = [
        ("colour", AttributeKind::Keyword),
        ("year", AttributeKind::I64),
        ("sold", AttributeKind::Bool),
    ];
    let schema = Arc::new(Schema::new(attributes).expect("a schema"));
    let settings = Settings::new(DIMENSION, Metric::L2, Element::F32);
    let dir = tempfile::tempdir().expect("a directory");
    let mut engine = Engine::builder()
        .dir(dir.path())
        .journaling(journaling(false))
        .create(Settings { schema, memory: Some(1 << 20), ..settings })
        .expect("an engine");
    let model = filled(&mut engine);
    let (reader, mut scratch, mut random) = (engine.reader(), Scratch::new(), SplitMix(82));
    let recent = Filter::Attribute(YEAR, Test::I64In(vec![1, 2, 3]));
    for round in 0..24 {
        let place = random.below(6);
        let vector: Vec<f32> =
            (0..DIMENSION).map(|_| (place * 10 + random.below(9)) as f32).collect();
        let filter = [None, Some(&recent)][round % 2];
        let (column, n, k) =
            [(COLOUR, 1, 40), (COLOUR, 2, 10), (YEAR, 3, 20), (SOLD, 5, 10)][round / 2 % 4];
        let query = Query { effort: Effort::Exact, filter, ..Query::new(&vector, k) };
        let all = nearest(&model, &vector, filter, usize::MAX);
        let by = Spread { column, per_value: n, of: SpreadOf::Rows };
        let found = reader.answer_spread(&query, &by, &With::everything(), &mut scratch);
        let found = found.expect("an answer");
        let wanted = spread(&all, &model, column, n, k);
        assert_eq!(found.neighbors, wanted, "round {round}");
        assert!(found.values.is_empty());
        for (neighbor, row) in found.neighbors.iter().zip(&found.rows) {
            assert_eq!(row.fields, model[&neighbor.id].fields);
        }

        let by = Spread { of: SpreadOf::Values, ..by };
        let k = k.min(12);
        let query = Query { k, ..query };
        let found = reader.answer_spread(&query, &by, &With::default(), &mut scratch);
        let found = found.expect("an answer");
        let best = spread(&all, &model, column, 1, k);
        let mut at = 0;
        assert_eq!(found.values.len(), best.len(), "round {round}");
        for ((value, rows), best) in found.values.iter().zip(&best) {
            assert_eq!(*value, value_of(&model, best.id, column));
            let of_value =
                all.iter().filter(|row| value_of(&model, row.id, column) == *value).take(n);
            let of_value: Vec<Neighbor> = of_value.copied().collect();
            assert_eq!(found.neighbors[at..at + rows], of_value, "round {round}");
            at += rows;
        }
        assert_eq!(found.neighbors.len(), at);
    }
}

#[test]
fn what_cannot_be_spread_is_refused() {
    let attributes = [("tags", AttributeKind::Keywords), ("year", AttributeKind::I64)];
    let schema = Arc::new(Schema::new(attributes).expect("a schema"));
    let settings = Settings::new(4, Metric::L2, Element::F32);
    let engine = Engine::create(Settings { schema, ..settings }).expect("an engine");
    let (reader, mut scratch) = (engine.reader(), Scratch::new());
    let mut refused = |column, per_value, k, of| {
        let by = Spread { column, per_value, of };
        let query = Query::new(&[0.0; 4], k);
        let answer = reader.answer_spread(&query, &by, &With::default(), &mut scratch);
        answer.map(|found| assert!(found.neighbors.is_empty())).err().map(|error| error.kind())
    };
    assert_eq!(refused(0, 1, 10, SpreadOf::Rows), Some(ErrorKind::Invalid));
    assert_eq!(refused(2, 1, 10, SpreadOf::Rows), Some(ErrorKind::Invalid));
    assert_eq!(refused(1, 0, 10, SpreadOf::Rows), Some(ErrorKind::Invalid));
    assert_eq!(refused(1, 1, 0, SpreadOf::Values), Some(ErrorKind::Invalid));
    assert_eq!(refused(1, 101, 10, SpreadOf::Values), Some(ErrorKind::Invalid));
    assert_eq!(refused(1, 100, 10, SpreadOf::Values), None);
    assert_eq!(refused(1, 5, 1000, SpreadOf::Rows), None);
}

#[test]
fn a_row_of_shared_groups_has_a_group() {
    let mut schema = Schema::new([("price", AttributeKind::F64)]).expect("a schema");
    let bare = Schema { grouping: Grouping::Shared, ..schema.clone() };
    schema.set_grouping(Grouping::Shared).expect("a schema with groups");
    let group = schema.column(GROUP_ATTRIBUTE).expect("the attribute");
    assert_eq!((group, schema.group_column()), (1, Some(1)));
    let settings = |schema| Settings {
        schema: Arc::new(schema),
        ..Settings::new(4, Metric::L2, Element::F32)
    };
    let error = Engine::create(settings(bare)).err().expect("refused");
    assert!(error.message().contains("group"), "{error}");
    let mut engine = Engine::create(settings(schema.clone())).expect("an engine");
    let mut builder = AttributesBuilder::default();
    let mut upsert = |engine: &mut Engine, id, name: Option<&str>| {
        builder.clear();
        builder.set(&schema, 0, &ValueRef::F64(2.0)).expect("a value");
        if let Some(name) = name {
            builder.set(&schema, group, &ValueRef::Keyword(name)).expect("a value");
        }
        let fields = Fields { attributes: builder.build(), ..Fields::NONE };
        let row = Row { id, version: 1, code: 0, shard: 0, vector: &[id as f32; 4], fields };
        engine.upsert(&row).map(|_| ()).map_err(|error| error.refused())
    };
    assert_eq!(upsert(&mut engine, 1, None), Err(Some(RefusedKind::BadGroup)));
    assert_eq!(upsert(&mut engine, 1, Some("")), Err(Some(RefusedKind::BadGroup)));
    for id in 0..40 {
        upsert(&mut engine, id, Some(["ann", "bob"][id as usize % 2])).expect("a good row");
    }
    let unset = Update { unset: &[group], ..Update::default() };
    let error = engine.update(1, 2, &unset).expect_err("refused");
    assert_eq!(error.refused(), Some(RefusedKind::BadGroup));
    let ann = Filter::Attribute(group, Test::KeywordIn(vec!["ann".to_owned()]));
    let (reader, mut scratch, mut found) = (engine.reader(), Scratch::new(), Vec::new());
    let query = Query { filter: Some(&ann), ..Query::new(&[0.0; 4], 40) };
    reader.search(&query, &mut scratch, &mut found).expect("an answer");
    assert_eq!(
        found.iter().map(|row| row.id).collect::<Vec<_>>(),
        (0..40).step_by(2).collect::<Vec<u64>>()
    );
}
