//! Rows that came since the last flush are found, however few they are.

use std::sync::Arc;

use vstream_engine::{
    AttributeKind, AttributesBuilder, Effort, Element, Engine, Fields, Filter, Journaling, Metric,
    Neighbor, Query, Row, Schema, Scratch, Settings, Test, ValueRef,
};
use vstream_vector::SplitMix;

use super::journaling;

const DIMENSION: usize = 64;
const ROWS: u64 = 60_000;
const KIND: u16 = 0;

/// Clusters of clusters: the leaves of a region are nearer to its rows than the middle of all rows is.
fn vector(random: &mut SplitMix) -> Vec<f32> {
    let (mut region, cluster) = (SplitMix(random.below(24) as u64), random.below(60) as u64);
    let mut within = SplitMix(region.next() ^ cluster);
    (0..DIMENSION)
        .map(|_| 3.0 * region.normal() + within.normal() + 0.5 * random.normal())
        .collect()
}

/// Inserts a row of one of two kinds.
fn put(engine: &mut Engine, id: u64, vector: &[f32]) {
    let (schema, mut builder) = (engine.schema().clone(), AttributesBuilder::default());
    let kind = if id.is_multiple_of(2) { "even" } else { "odd" };
    builder.set(&schema, KIND, &ValueRef::Keyword(kind)).expect("a value");
    let fields = Fields { attributes: builder.build(), ..Fields::NONE };
    let row = Row { id, version: 1, code: id << 32, shard: (id % 128) as u16, vector, fields };
    engine.upsert(&row).expect("a good row");
}

/// Rows of one middle, most leaves of which hold some of the nearest to a query.
fn spread(random: &mut SplitMix, offset: f32) -> Vec<f32> {
    (0..DIMENSION).map(|_| offset + random.normal()).collect()
}

/// An engine with rows in segments alone.
fn filled(metric: Metric, dir: &std::path::Path, vector: &mut dyn FnMut() -> Vec<f32>) -> Engine {
    let schema = Schema::new([("kind", AttributeKind::Keyword)]).expect("a schema");
    let settings = Settings {
        memory: Some(256 << 20),
        schema: Arc::new(schema),
        ..Settings::new(DIMENSION, metric, Element::F32)
    };
    let mut engine = Engine::builder()
        .dir(dir)
        .journaling(Journaling { log_bytes_max: 1 << 30, ..journaling(false) })
        .create(settings)
        .expect("an engine");
    for id in 0..ROWS {
        put(&mut engine, id, &vector());
    }
    engine.checkpoint().expect("a segment");
    assert_eq!(in_memory(&engine), 0);
    engine
}

fn even() -> Filter {
    Filter::Attribute(KIND, Test::KeywordIn(vec!["even".to_owned()]))
}

/// Rows that are in no segment.
fn in_memory(engine: &Engine) -> u64 {
    let stats = engine.stats();
    stats.index.live - stats.tree.segment_rows
}

/// Lets the guard decide how far queries go, with a filter and without one.
fn decide(engine: &Engine, filter: &Filter, vector: &mut dyn FnMut() -> Vec<f32>) {
    let (reader, mut scratch, mut out) = (engine.reader(), Scratch::new(), Vec::new());
    for at in 0..600 {
        let filter = Some(filter).filter(|_| at % 2 == 0);
        let vector = vector();
        let query = Query { effort: Effort::Auto, filter, ..Query::new(&vector, 10) };
        reader.search(&query, &mut scratch, &mut out).expect("a valid query");
    }
    engine.catch_up();
}

/// Share of the rows above [`ROWS`] in exact answers that answers with an effort have too, for the vectors of
/// some of these rows.
fn found(engine: &Engine, young: &[Vec<f32>], effort: Effort, filter: Option<&Filter>) -> f64 {
    let (reader, mut scratch) = (engine.reader(), Scratch::new());
    let mut ask = |vector: &[f32], effort| -> Vec<Neighbor> {
        let mut out = Vec::new();
        let query = Query { effort, filter, ..Query::new(vector, 10) };
        reader.search(&query, &mut scratch, &mut out).expect("a valid query");
        out
    };
    let (mut found, mut wanted) = (0, 0);
    for vector in young.iter().step_by(young.len().div_ceil(40) | 1) {
        let answer = ask(vector, effort);
        for row in ask(vector, Effort::Exact).iter().filter(|row| row.id >= ROWS) {
            wanted += 1;
            found += usize::from(answer.iter().any(|other| other.id == row.id));
        }
    }
    // By inner product longer rows are nearer to a vector than it is to itself.
    assert!(wanted >= 3, "{wanted}");
    f64::from(found as u32) / f64::from(wanted as u32)
}

/// Inserts more and more rows and asks for them by their vectors; `then` is called before, with their number.
fn find_the_newest(metric: Metric, then: &dyn Fn(&mut Engine, usize)) {
    let even = even();
    let (dir, mut random) = (tempfile::tempdir().expect("a directory"), SplitMix(11));
    let mut engine = filled(metric, dir.path(), &mut || vector(&mut random));
    decide(&engine, &even, &mut || vector(&mut random));
    let mut young: Vec<Vec<f32>> = Vec::new();
    for count in [20, 60, 200, 400, 900, 2_000, 6_000] {
        while young.len() < count {
            young.push(vector(&mut random));
            put(&mut engine, ROWS + young.len() as u64, young.last().expect("a row"));
        }
        engine.commit().expect("a commit");
        then(&mut engine, count);
        let leaves = engine.stats().index.leaves;
        for filter in [None, Some(&even)] {
            let effort = match filter {
                Some(_) => Effort::Unaudited,
                None => Effort::Chosen { probes: 8, refine: Some(200) },
            };
            let share = found(&engine, &young, effort, filter);
            let what = format!("{metric:?}, {count} beside {leaves} leaves, {filter:?}");
            assert!(share >= 0.97, "{what}: {share}");
        }
    }
}

/// The first leaves of a memtable beside segments have rows from everywhere, and their centroids are far from
/// every query.
#[test]
fn the_newest_rows_are_found_however_few_they_are() {
    for metric in [Metric::L2, Metric::Cosine, Metric::InnerProduct] {
        find_the_newest(metric, &|engine, count| assert_eq!(in_memory(engine), count as u64));
    }
}

#[test]
fn they_are_found_after_a_flush_too() {
    find_the_newest(Metric::L2, &|engine, _| {
        engine.checkpoint().expect("a segment");
        assert_eq!(in_memory(engine), 0);
    });
}

/// Leaves that are visited wherever they are do not end a search before nearer ones.
#[test]
fn few_new_rows_far_from_all_hide_no_older_ones() {
    let (dir, mut random) = (tempfile::tempdir().expect("a directory"), SplitMix(12));
    let mut engine = filled(Metric::L2, dir.path(), &mut || spread(&mut random, 0.0));
    let even = even();
    decide(&engine, &even, &mut || spread(&mut random, 0.0));
    let queries: Vec<Vec<f32>> = (0..60).map(|_| spread(&mut random, 0.0)).collect();
    let older = |engine: &Engine| -> f64 {
        let (reader, mut scratch) = (engine.reader(), Scratch::new());
        let mut ask = |vector: &[f32], effort| -> Vec<Neighbor> {
            let mut out = Vec::new();
            let query = Query { effort, filter: Some(&even), ..Query::new(vector, 10) };
            reader.search(&query, &mut scratch, &mut out).expect("a valid query");
            out
        };
        let mut found = 0;
        for vector in &queries {
            let (answer, truth) = (ask(vector, Effort::Unaudited), ask(vector, Effort::Exact));
            found +=
                truth.iter().filter(|row| answer.iter().any(|other| other.id == row.id)).count();
        }
        found as f64 / (10 * queries.len()) as f64
    };
    let before = older(&engine);
    for is_flushed in [false, true] {
        for at in 0..40 {
            put(&mut engine, ROWS + at, &spread(&mut random, 20.0));
        }
        engine.commit().expect("a commit");
        if is_flushed {
            engine.checkpoint().expect("a segment");
        }
        assert_eq!(in_memory(&engine), if is_flushed { 0 } else { 40 });
        let after = older(&engine);
        assert!(after >= before - 0.01, "{is_flushed}: {after}, {before} before");
    }
}
