//! Filtered queries of automatic effort: the recall target holds for them too.

use std::ops::Bound;
use std::sync::Arc;

use vstream_engine::{
    AttributeKind, AttributesBuilder, Effort, Element, Engine, Fields, FieldsBuffer, Filter,
    Metric, Neighbor, Query, Range, Row, Schema, Scratch, Settings, Test, ValueRef,
};
use vstream_vector::SplitMix;

use super::{journaling, nearest, Kept, Model};

const DIMENSION: usize = 64;
const ROWS: u64 = 24_000;
const TOPICS: u64 = 40;
const K: usize = 10;

/// A row of a topic: its centre, one of its 30 subjects, and a spread, so far from the origin.
fn vector_of(random: &mut SplitMix, topic: u64, offset: f32) -> Vec<f32> {
    let mut centre = SplitMix(topic + 1);
    let mut subject = SplitMix((topic + 1) * 1_000 + random.below(30) as u64);
    let place = |_| offset + 2.0 * centre.normal() + subject.normal() + 0.7 * random.normal();
    (0..DIMENSION).map(place).collect()
}

fn filled(engine: &mut Engine, offset: f32) -> Model {
    let (schema, mut random) = (engine.schema().clone(), SplitMix(51));
    let (mut builder, mut model) = (AttributesBuilder::default(), Model::new());
    for id in 0..ROWS {
        let topic = random.below(TOPICS as usize) as u64;
        let vector = vector_of(&mut random, topic, offset);
        builder.clear();
        let name = format!("topic-{topic}");
        builder.set(&schema, 0, &ValueRef::Keyword(&name)).expect("a value");
        let number = ValueRef::I64(random.below(1_000) as i64);
        builder.set(&schema, 1, &number).expect("a value");
        let fields = Fields { attributes: builder.build(), ..Fields::NONE };
        let row = Row { id, version: 1, code: 0, shard: 0, vector: &vector, fields };
        engine.upsert(&row).expect("a good row");
        model.insert(id, Kept { version: 1, vector, fields: FieldsBuffer::from(&fields) });
    }
    model
}

/// Rows whose number is below `limit` of 1,000.
fn numbers(limit: i64) -> Filter {
    let range = Range { from: Bound::Unbounded, to: Bound::Excluded(limit) };
    Filter::Attribute(1, Test::I64Range(range))
}

fn topics(some: &[u64]) -> Filter {
    let mut names: Vec<String> = some.iter().map(|topic| format!("topic-{topic}")).collect();
    names.sort();
    Filter::Attribute(0, Test::KeywordIn(names))
}

/// Share of the true neighbours that automatic queries find; a row as near as the last one counts.
fn recall(engine: &Engine, (model, offset): (&Model, f32), filter: &Filter, seed: u64) -> f64 {
    let (reader, mut scratch, mut found) = (engine.reader(), Scratch::new(), Vec::new());
    let (mut random, mut hits, mut wanted) = (SplitMix(seed), 0, 0);
    for _ in 0..80 {
        let topic = random.below(TOPICS as usize) as u64;
        let vector = vector_of(&mut random, topic, offset);
        let truth: Vec<Neighbor> = nearest(model, &vector, Some(filter), K);
        let query =
            Query { effort: Effort::Unaudited, filter: Some(filter), ..Query::new(&vector, K) };
        reader.search(&query, &mut scratch, &mut found).expect("an answer");
        let last = truth.last().map_or(0.0, |row| row.distance) * 1.000_01;
        hits += found.iter().filter(|row| row.distance <= last).count().min(truth.len());
        wanted += truth.len();
    }
    hits as f64 / wanted.max(1) as f64
}

fn run(memory: Option<u64>, offset: f32) {
    let schema = [("topic", AttributeKind::Keyword), ("number", AttributeKind::I64)];
    let schema = Arc::new(Schema::new(schema).expect("a schema"));
    let settings = Settings::new(DIMENSION, Metric::L2, Element::F32);
    let settings = Settings { schema, memory, ..settings };
    let dir = tempfile::tempdir().expect("a directory");
    let builder = Engine::builder().dir(dir.path()).journaling(journaling(false));
    let mut engine = builder.create(settings).expect("an engine");
    let model = filled(&mut engine, offset);
    let filters = [
        ("half", numbers(500)),
        ("20 %", numbers(200)),
        ("4 %", numbers(40)),
        ("1 %", numbers(10)),
        ("0.2 %", numbers(2)),
        ("a topic", topics(&[3])),
        ("two topics, 4 %", Filter::And(vec![topics(&[5, 11]), numbers(800)])),
        ("another topic's half", Filter::And(vec![topics(&[7]), numbers(500)])),
    ];
    // No filtered query has been audited: rows stand in, or every leaf is visited.
    for (name, filter) in [&filters[0], &filters[2], &filters[6]] {
        let recall = recall(&engine, (&model, offset), filter, 60);
        println!("memory {memory:?}, first, {name}: {recall:.3}");
        assert!(recall >= 0.95, "memory {memory:?}, first, {name}: {recall:.3}");
    }
    let (reader, mut scratch, mut found) = (engine.reader(), Scratch::new(), Vec::new());
    let mut random = SplitMix(52);
    for turn in 0..40 {
        let vector = vector_of(&mut random, turn % TOPICS, offset);
        let filter = Some(&filters[turn as usize % filters.len()].1);
        let query = Query { filter, ..Query::new(&vector, K) };
        reader.search(&query, &mut scratch, &mut found).expect("an answer");
    }
    engine.catch_up();
    let estimates = engine.stats().recall_filtered;
    println!("{estimates:?}");
    assert!(estimates.iter().all(Option::is_some), "{estimates:?}");
    for (name, filter) in &filters {
        let recall = recall(&engine, (&model, offset), filter, 61);
        println!("memory {memory:?}, {name}: {recall:.3}");
        assert!(recall >= 0.93, "memory {memory:?}, {name}: {recall:.3}");
    }
}

#[test]
fn the_target_holds_in_memory() {
    run(None, 0.0);
}

#[test]
fn the_target_holds_in_segments() {
    run(Some(2 << 20), 0.0);
}

/// Vectors that are long and close together, such as temperatures in Kelvin: rounding is most of what codes know of them.
#[test]
fn the_target_holds_far_from_the_origin() {
    run(None, 300.0);
    run(Some(2 << 20), 300.0);
}
