//! Attributes that are added, and what a schema refuses.

use std::sync::Arc;

use vstream_engine::{
    AttributeKind, AttributesBuilder, Element, Engine, ErrorKind, Fields, Grouping, IdKind, Metric,
    RefusedKind, Row, Schema, Settings, Update, ValueRef,
};

use super::journaling;

const DIMENSION: usize = 64;

fn settings(schema: Schema) -> Settings {
    let settings = Settings::new(DIMENSION, Metric::Cosine, Element::F32);
    Settings { schema: Arc::new(schema), recall_guard: false, ..settings }
}

fn row<'a>(id: u64, vector: &'a [f32], fields: Fields<'a>) -> Row<'a> {
    Row { id, version: 1, code: 0, shard: 0, vector, fields }
}

#[test]
fn an_attribute_is_there_after_a_restart() {
    let dir = tempfile::tempdir().expect("a directory");
    let builder = Engine::builder().dir(dir.path()).journaling(journaling(false));
    let mut engine = builder.create(settings(Schema::default())).expect("an engine");
    let (vector, reader) = (vec![1.0; DIMENSION], engine.reader());
    engine.upsert(&row(1, &vector, Fields::NONE)).expect("a plain row");
    assert_eq!(engine.add_attribute("price", AttributeKind::F64), Ok(0));
    assert_eq!(engine.add_attribute("colour", AttributeKind::Keyword), Ok(1));
    assert_eq!(engine.add_attribute("price", AttributeKind::F64), Ok(0), "it is there");
    let other = engine.add_attribute("price", AttributeKind::I64).expect_err("another type");
    assert_eq!(other.refused(), Some(RefusedKind::BadSchema));
    assert_eq!(reader.schema().attributes.len(), 2, "readers see it");
    let mut builder = AttributesBuilder::default();
    builder.set(engine.schema(), 0, &ValueRef::F64(2.5)).expect("a value");
    let fields = Fields { attributes: builder.build(), ..Fields::NONE };
    engine.upsert(&row(2, &vector, fields)).expect("a row with a price");
    engine.detach().expect("closed");
    let engine = Engine::open(dir.path()).expect("it opens");
    let names = engine.schema().attributes.iter().map(|attribute| attribute.name.as_str());
    assert_eq!(names.collect::<Vec<_>>(), ["price", "colour"]);
    assert_eq!(engine.stats().index.live, 2);
}

#[test]
fn an_open_schema_adds_attributes_and_a_closed_one_refuses_them() {
    let mut closed = Engine::create(settings(Schema::default())).expect("an engine");
    let refused = closed.admit_attribute("price", AttributeKind::F64).expect_err("closed");
    assert_eq!(
        (refused.kind(), refused.refused()),
        (ErrorKind::Invalid, Some(RefusedKind::UnknownAttribute))
    );
    let open = Schema { open: true, ..Schema::default() };
    let mut open = Engine::create(settings(open)).expect("an engine");
    assert_eq!(open.admit_attribute("price", AttributeKind::F64), Ok(0));
    assert_eq!(open.admit_attribute("price", AttributeKind::F64), Ok(0));
    let refused = open.admit_attribute("price", AttributeKind::Bool).expect_err("another type");
    assert_eq!(refused.refused(), Some(RefusedKind::WrongType));
    for number in 1..256 {
        let name = format!("attribute-{number}");
        assert_eq!(open.admit_attribute(&name, AttributeKind::I64), Ok(number));
    }
    let refused = open.admit_attribute("one more", AttributeKind::I64).expect_err("too many");
    assert_eq!(refused.refused(), Some(RefusedKind::BadSchema));
}

/// A refused write changes nothing, in the engine and in its log.
#[test]
fn refused_rows_change_nothing() {
    let dir = tempfile::tempdir().expect("a directory");
    let schema = Schema::new([("price", AttributeKind::F64)]).expect("a schema");
    let schema = Schema { id: IdKind::String, ..schema };
    let builder = Engine::builder().dir(dir.path()).journaling(journaling(false));
    let mut engine = builder.create(settings(schema)).expect("an engine");
    let vector = vec![1.0; DIMENSION];
    let others = Schema::new([("price", AttributeKind::I64), ("x", AttributeKind::Bool)]);
    let others = others.expect("a schema");
    let named = Fields { name: "a", check: 1, ..Fields::NONE };
    let (mut number, mut unknown) = (AttributesBuilder::default(), AttributesBuilder::default());
    number.set(&others, 0, &ValueRef::I64(3)).expect("a value");
    unknown.set(&others, 1, &ValueRef::Bool(true)).expect("a value");
    let (number, unknown) = (number.build(), unknown.build());
    let payload = vec![0; (1 << 20) + 1];
    let (long, payload) = ("x".repeat(513), Some(&payload[..]));
    for (fields, reason) in [
        (Fields { attributes: number, ..named }, RefusedKind::WrongType),
        (Fields { attributes: unknown, ..named }, RefusedKind::UnknownAttribute),
        (Fields { payload, ..named }, RefusedKind::TooLarge),
        (Fields { name: "", check: 0, ..named }, RefusedKind::BadId),
        (Fields { name: &long, ..named }, RefusedKind::BadId),
    ] {
        for error in [
            engine.upsert(&row(7, &vector, fields)).expect_err("refused"),
            engine.upsert_checked(&row(7, &vector, fields)).expect_err("refused"),
            engine.check_fields(&fields).expect_err("refused"),
        ] {
            assert_eq!((error.kind(), error.refused()), (ErrorKind::Invalid, Some(reason)));
        }
    }
    let update = Update { set: number, ..Update::default() };
    let error = engine.update(7, 1, &update).expect_err("refused");
    assert_eq!(error.refused(), Some(RefusedKind::WrongType));
    let stats = engine.stats();
    assert_eq!((stats.index.live, stats.journal.expect("a journal").lsn), (0, 0));
    engine.upsert(&row(7, &vector, named)).expect("a good row");
}

#[test]
fn isolated_groups_are_refused() {
    let isolated = Schema { grouping: Grouping::Isolated, ..Schema::default() };
    let error = Engine::create(settings(isolated)).err().expect("refused");
    assert_eq!(error.kind(), ErrorKind::Invalid);
    assert!(error.message().contains("shared"), "{error}");
}

#[test]
fn rows_are_taken_over_by_a_schema_that_extends_theirs_alone() {
    use AttributeKind::{Keyword, F64, I64};
    let root = tempfile::tempdir().expect("a directory");
    let of = |attributes: &[(&str, AttributeKind)]| {
        settings(Schema::new(attributes.iter().copied()).expect("a schema"))
    };
    let builder = || Engine::builder().scratch().journaling(journaling(false));
    let (live, copy) = (root.path().join("live"), root.path().join("copy"));
    let made = builder().dir(&live).create(of(&[("price", F64), ("colour", Keyword)]));
    let mut engine = made.expect("an engine");
    let vector = vec![1.0; DIMENSION];
    let mut values = AttributesBuilder::default();
    values.set(engine.schema(), 0, &ValueRef::F64(2.5)).expect("a value");
    let fields = Fields { attributes: values.build(), ..Fields::NONE };
    engine.upsert(&row(1, &vector, fields)).expect("a row with a price");
    let state = engine.share().expect("a state");
    std::fs::create_dir(&copy).expect("a directory");
    for file in state.files().expect("files") {
        std::fs::copy(&file.path, copy.join(&file.name)).expect("copied");
    }
    std::fs::write(copy.join("COLLECTION"), state.manifest()).expect("a manifest");
    let take = |attributes: &[(&str, AttributeKind)]| {
        Engine::create(of(attributes)).expect("an engine").take_shared(&copy, &|_| true)
    };
    assert_eq!(take(&[("price", F64), ("colour", Keyword), ("size", I64)]), Ok(1));
    let others: [&[(&str, AttributeKind)]; 3] = [
        &[("colour", Keyword), ("price", F64)],
        &[("price", F64)],
        &[("price", F64), ("colour", I64)],
    ];
    for other in others {
        let refused = take(other).expect_err("it is refused");
        assert_eq!(refused.refused(), Some(RefusedKind::BadSchema), "{other:?}: {refused}");
    }
}
