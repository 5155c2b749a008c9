//! Collections whose merges write graphs: the answers are those of brute force.

use std::collections::BTreeSet;
use std::path::Path;

use vstream_attribute::Filter;
use vstream_engine::{
    inspect_collection, verify, AttributeKind, Effort, Element, Engine, ErrorKind, Fields,
    IndexKind, Journaling, Metric, Neighbor, Query, Row, RowId, Schema, Scratch, SegmentIndex,
    Settings, With,
};
use vstream_vector::{kernels, Number, SplitMix, Widen, F16};

use super::{journaling, rows, tiny, vector_of, Model};
use crate::{ask, row};

fn settings(dimension: usize, metric: Metric, element: Element) -> Settings {
    Settings {
        memory: Some(64 << 20),
        segments: SegmentIndex::Graph,
        recall_target: 0.9,
        ..Settings::new(dimension, metric, element)
    }
}

/// Rows around 200 centres, as the element holds them; directions under cosine.
fn vector(settings: &Settings, random: &mut SplitMix) -> Vec<f32> {
    let mut centre = SplitMix(random.below(200) as u64 + 1);
    let place = |_| {
        let value = 0.3 * centre.normal() + random.normal();
        match settings.element.is_integer() {
            true => (128.0 + 24.0 * value).round().clamp(0.0, 255.0),
            false => value,
        }
    };
    let vector: Vec<f32> = (0..settings.dimension).map(place).collect();
    let norm = match settings.metric {
        Metric::Cosine => kernels::norm_squared(&vector).sqrt(),
        _ => 1.0,
    };
    vector.into_iter().map(|x| x / norm).collect()
}

fn create(dir: &Path, settings: Settings) -> Engine {
    // Checkpoints come when the test says so, not when a log is long.
    let journaling = Journaling { log_bytes_max: 1 << 30, ..journaling(false) };
    let builder = Engine::builder().dir(dir).journaling(journaling);
    builder.create(settings).expect("an engine")
}

fn put(engine: &mut Engine, model: &mut Model, (id, version): (u64, u64), vector: Vec<f32>) {
    engine.upsert(&Row { version, ..row(id, &vector) }).expect("a good row");
    model.insert(id, (version, vector));
}

/// The nearest rows, ties by id, by the kernel that answers use.
fn truth(model: &Model, settings: &Settings, query: &[f32], k: usize) -> Vec<Neighbor> {
    let norm = kernels::norm_squared(query).sqrt();
    let direction: Vec<f32> = query.iter().map(|x| x / norm).collect();
    let distance = |vector: &[f32]| match (settings.metric, settings.element) {
        (Metric::L2, _) => kernels::l2_squared(query, vector),
        (Metric::Cosine, _) => 1.0 - kernels::inner_product(&direction, vector),
        (Metric::InnerProduct, Element::F16) => {
            let narrow: Vec<F16> = vector.iter().map(|&x| F16::narrow(x)).collect();
            -kernels::inner_product(query, &narrow)
        }
        (Metric::InnerProduct, _) => -kernels::inner_product(query, vector),
    };
    let mut all: Vec<Neighbor> = model
        .iter()
        .map(|(&id, (version, vector))| Neighbor {
            distance: distance(vector),
            id,
            version: *version,
        })
        .collect();
    all.sort_unstable_by(Neighbor::order);
    all.truncate(k);
    all
}

/// Share of the true ten neighbours that searches find.
fn recall(engine: &Engine, model: &Model, effort: Effort, queries: usize) -> f64 {
    let (settings, reader) = (engine.settings(), engine.reader());
    let mut random = SplitMix(77);
    let mut found = 0;
    for _ in 0..queries {
        let query = vector(settings, &mut random);
        let truth = truth(model, settings, &query, 10);
        let answer = ask(&reader, &query, 10, effort);
        assert!(
            answer.iter().all(|row| model[&row.id].0 == row.version),
            "a row of another version"
        );
        found += answer.iter().filter(|row| truth.iter().any(|hit| hit.id == row.id)).count();
    }
    found as f64 / (10 * queries) as f64
}

/// What is asked of rows wherever they are.
fn check_answers(engine: &Engine, model: &Model, seed: u64) {
    let (settings, reader) = (engine.settings(), engine.reader());
    let mut random = SplitMix(seed);
    assert_eq!(reader.count(None).expect("rows"), model.len() as u64);
    for _ in 0..3 {
        let query = vector(settings, &mut random);
        let expected = truth(model, settings, &query, 50);
        assert_eq!(ask(&reader, &query, 50, Effort::Exact), expected, "seed {seed}");
        let radius = expected[49].distance;
        let (mut near, mut scratch) = (Vec::new(), Scratch::new());
        reader.search_radius(&query, radius, None, &mut scratch, &mut near).expect("rows");
        assert_eq!(near, expected, "seed {seed}");
        // Of every second of the nearest: a filter by id, with any effort.
        let ids: BTreeSet<u64> = expected.iter().step_by(2).map(|row| row.id).collect();
        let filter = Filter::Ids(ids.iter().copied().collect());
        let asked = Query { filter: Some(&filter), effort: Effort::Auto, ..Query::new(&query, 10) };
        let mut answer = Vec::new();
        reader.search(&asked, &mut scratch, &mut answer).expect("an answer");
        let wanted: Vec<Neighbor> = expected.iter().step_by(2).take(10).copied().collect();
        assert_eq!(answer, wanted, "seed {seed}");
        assert_eq!(reader.count(Some(&filter)).expect("rows"), ids.len() as u64);
        let wanted: Vec<RowId> = ids.iter().map(|&id| RowId::from(id)).collect();
        let got = reader.get(&wanted, &With::everything()).expect("rows");
        for (id, row) in ids.iter().zip(got) {
            let row = row.expect("a row that is there");
            assert_eq!((row.version, row.vector.as_ref()), (model[id].0, Some(&model[id].1)));
        }
    }
    let page = reader.scroll(None, Some(1_000), 500, &With::default()).expect("a page");
    let ids: Vec<u64> = page.rows.iter().map(|row| row.id).collect();
    assert_eq!(ids, model.range(1_001..).take(500).map(|(&id, _)| id).collect::<Vec<_>>());
}

#[test]
fn merged_rows_are_found_in_a_graph() {
    let dir = tempfile::tempdir().expect("a directory");
    let settings = settings(64, Metric::L2, Element::F32);
    let mut engine = create(dir.path(), settings.clone());
    let (mut random, mut model) = (SplitMix(1), Model::new());
    for id in 0..20_000 {
        let vector = vector(&settings, &mut random);
        put(&mut engine, &mut model, (id, 1), vector);
        if id % 5_000 == 4_999 {
            engine.checkpoint().expect("a checkpoint");
        }
    }
    engine.compact().expect("a compaction");
    let tree = engine.stats().tree;
    assert_eq!((tree.segments, tree.graphs, tree.segment_rows), (1, 1, 20_000));
    // Every tenth row goes, and every tenth gets another vector; new ones stay in memory.
    for id in (0..20_000).step_by(10) {
        assert!(engine.delete(id, 2).expect("a delete"));
        model.remove(&id);
        let vector = vector(&settings, &mut random);
        put(&mut engine, &mut model, (id + 5, 3), vector);
    }
    for id in 20_000..21_000 {
        let vector = vector(&settings, &mut random);
        put(&mut engine, &mut model, (id, 1), vector);
    }
    check_answers(&engine, &model, 2);

    // The guard aims at 0.9 over memory and graph together, and says so.
    let reader = engine.reader();
    for _ in 0..600 {
        ask(&reader, &vector(&settings, &mut random), 10, Effort::Auto);
    }
    engine.catch_up();
    let stats = engine.stats();
    let estimate = stats.recall.expect("audits");
    let found = recall(&engine, &model, Effort::Unaudited, 200);
    println!("recall {found}, {} probes, {estimate:?}", stats.probes);
    assert!(found >= 0.87, "{found}, {estimate:?}");
    assert!((found - estimate.recall).abs() < 0.05, "{found}, {estimate:?}");
    let before = engine.stats().tree.reads;
    ask(&reader, &vector(&settings, &mut random), 10, Effort::Unaudited);
    let reads = engine.stats().tree.reads - before;
    let blocks = 20_000 / 10;
    assert!(reads < blocks / 2, "{reads} reads of {blocks} blocks");

    // More effort finds more; the least finds something.
    let chosen = |refine| Effort::Chosen { probes: 8, refine: Some(refine) };
    let steps = [80, 320, 2_000].map(|refine| recall(&engine, &model, chosen(refine), 100));
    println!("recall by rows to refine: {steps:?}");
    assert!(steps[0] > 0.1 && steps[0] < steps[1] && steps[2] > 0.9, "{steps:?}");
    reopened(engine, dir.path(), &model);
}

/// The rows are there after a restart, in a snapshot, and where a copy is opened.
fn reopened(mut engine: Engine, dir: &Path, model: &Model) {
    engine.checkpoint().expect("a checkpoint");
    assert_eq!(rows(&engine), *model);
    let copies = tempfile::tempdir().expect("a directory");
    engine.snapshot(&copies.path().join("snapshot")).expect("a snapshot");
    let restored =
        Settings { memory: None, segments: SegmentIndex::Clusters, ..engine.settings().clone() };
    let restored = Engine::restore(restored, &copies.path().join("snapshot")).expect("rows");
    assert_eq!(rows(&restored), *model);
    drop(restored);
    engine.close().expect("closed");
    let verified = verify(dir).expect("a collection");
    assert_eq!((verified.findings, verified.rows), (vec![], model.len() as u64));
    let summary = inspect_collection(dir).expect("a manifest").expect("a collection");
    assert_eq!((summary.index, summary.segments.len()), (SegmentIndex::Graph, 2));
    let mut engine = Engine::open(dir).expect("it opens");
    assert_eq!(engine.settings().segments, SegmentIndex::Graph);
    assert_eq!((rows(&engine), engine.stats().tree.graphs), (model.clone(), 1));
    check_answers(&engine, model, 3);
    // Half of the shards go to another partition.
    let half = copies.path().join("half");
    let mut other = create(&half, engine.settings().clone());
    engine.close().expect("closed");
    let taken = other.take_shared(dir, &|shard| shard % 2 == 0).expect("rows");
    let wanted: Model = (model.iter().filter(|(id, _)| *id % 128 % 2 == 0))
        .map(|(id, row)| (*id, row.clone()))
        .collect();
    assert_eq!((taken, rows(&other)), (wanted.len() as u64, wanted));
    engine = Engine::open(dir).expect("it opens");
    assert_eq!(engine.stats().index.live, model.len() as u64);
}

#[test]
fn graphs_hold_every_metric_and_element() {
    for (metric, element, dimension) in [
        (Metric::Cosine, Element::F32, 96),
        (Metric::L2, Element::U8, 128),
        (Metric::InnerProduct, Element::F16, 64),
    ] {
        let dir = tempfile::tempdir().expect("a directory");
        let mut settings = settings(dimension, metric, element);
        settings.recall_guard = false;
        let mut engine = create(dir.path(), settings.clone());
        let (mut random, mut model) = (SplitMix(4), Model::new());
        for id in 0..4_000 {
            let exact = vector(&settings, &mut random);
            let narrow = |x: &f32| F16::narrow(*x).widen();
            let held: Vec<f32> = match element {
                Element::F16 => exact.iter().map(narrow).collect(),
                _ => exact,
            };
            put(&mut engine, &mut model, (id, 1), held);
            // A few hundred rows of one vector.
            if id % 16 == 0 {
                let same: Vec<f32> = model[&0].1.clone();
                put(&mut engine, &mut model, (id, 1), same);
            }
            if id % 1_000 == 999 {
                engine.checkpoint().expect("a checkpoint");
            }
        }
        engine.compact().expect("a compaction");
        assert_eq!(engine.stats().tree.graphs, 1, "{metric} {element}");
        let stored = rows(&engine);
        let ids = |model: &Model| model.keys().copied().collect::<Vec<_>>();
        assert_eq!(ids(&stored), ids(&model));
        // Under cosine the engine divides by the norm again, so its rows are the truth.
        check_answers(&engine, &stored, 5);
        let found = recall(&engine, &stored, Effort::probes(100), 50);
        assert!(found > 0.9, "{metric} {element}: {found}");
    }
}

#[test]
fn the_largest_segments_are_graphs_and_worn_ones_are_rewritten() {
    let dir = tempfile::tempdir().expect("a directory");
    let settings = Settings {
        segments: SegmentIndex::Graph,
        ..tiny(IndexKind::Cluster, Metric::L2, Element::U8)
    };
    let mut engine = create(dir.path(), settings);
    let mut model = Model::new();
    let flushed = |engine: &mut Engine, model: &mut Model, ids: std::ops::Range<u64>| {
        for id in ids {
            put(engine, model, (id, 1), vector_of(id));
        }
        engine.checkpoint().expect("a checkpoint");
        engine.compact().expect("a compaction");
    };
    // Four of 2,000 rows become a graph; four of 300 rows, which are small beside it, do not.
    for at in 0..4 {
        flushed(&mut engine, &mut model, at * 2_000..(at + 1) * 2_000);
    }
    let tree = engine.stats().tree;
    assert_eq!((tree.segments, tree.graphs), (1, 1), "{tree:?}");
    for at in 0..4 {
        flushed(&mut engine, &mut model, 8_000 + at * 300..8_000 + (at + 1) * 300);
    }
    let tree = engine.stats().tree;
    assert_eq!((tree.segments, tree.graphs), (2, 1), "{tree:?}");
    // Most rows of the graph go: it is written again, without them.
    for id in 0..6_000 {
        engine.delete(id, 9).expect("a delete");
        model.remove(&id);
    }
    engine.checkpoint().expect("a checkpoint");
    engine.compact().expect("a compaction");
    let tree = engine.stats().tree;
    assert_eq!((tree.graphs, tree.segment_dead), (1, 0), "{tree:?}");
    assert_eq!(rows(&engine), model);
}

#[test]
fn rows_with_fields_stay_in_leaves() {
    let dir = tempfile::tempdir().expect("a directory");
    let settings = Settings {
        segments: SegmentIndex::Graph,
        ..tiny(IndexKind::Cluster, Metric::L2, Element::U8)
    };
    let mut engine = create(dir.path(), settings);
    let payload = |id: u64| (id >= 4_000 && id.is_multiple_of(3)).then(|| id.to_le_bytes());
    for id in 0..8_000u64 {
        let (vector, payload) = (vector_of(id), payload(id));
        let fields = Fields { payload: payload.as_ref().map(|bytes| &bytes[..]), ..Fields::NONE };
        engine.upsert(&Row { fields, ..row(id, &vector) }).expect("a good row");
        if id % 1_000 == 999 {
            engine.checkpoint().expect("a checkpoint");
        }
        if id == 3_999 {
            engine.compact().expect("a compaction");
            assert_eq!(engine.stats().tree.graphs, 1);
        }
    }
    // A graph meets three segments of its size, which have payloads.
    engine.compact().expect("a compaction");
    for id in 0..2_000 {
        engine.delete(id, 2).expect("a delete");
    }
    for id in 8_000..20_000u64 {
        let vector = vector_of(id);
        let fields = Fields { payload: Some(b"more"), ..Fields::NONE };
        engine.upsert(&Row { fields, ..row(id, &vector) }).expect("a good row");
        if id % 4_000 == 3_999 {
            engine.checkpoint().expect("a checkpoint");
            engine.compact().expect("a compaction");
        }
    }
    let tree = engine.stats().tree;
    assert_eq!((tree.graphs, tree.segment_rows), (0, 18_000), "{tree:?}");
    let ids: Vec<RowId> = (0..8_000).map(RowId::from).collect();
    let got = engine.reader().get(&ids, &With::everything()).expect("rows");
    for (id, row) in (0..8_000u64).zip(got) {
        assert_eq!(row.is_some(), id >= 2_000, "row {id}");
        let Some(row) = row else { continue };
        assert_eq!(row.fields.fields().payload, payload(id).as_ref().map(|bytes| &bytes[..]));
        assert_eq!(row.vector, Some(vector_of(id)));
    }
    engine.close().expect("closed");
    assert_eq!(verify(dir.path()).expect("a collection").findings, vec![]);
}

#[test]
fn what_graphs_cannot_hold_is_refused_before_anything_is_made() {
    let graph = settings(16, Metric::L2, Element::F32);
    let mut schema = Schema::default();
    schema.add("price", AttributeKind::F64).expect("an attribute");
    let refused = [
        (Settings { index: IndexKind::Flat, ..graph.clone() }, "index is flat"),
        (Settings { memory: None, ..graph.clone() }, "memory has no limit"),
        (Settings { code_memory: Some(1 << 20), ..graph.clone() }, "code-memory is set"),
        (Settings { schema: schema.into(), ..graph.clone() }, "attributes"),
    ];
    for (settings, what) in refused {
        let dir = tempfile::tempdir().expect("a directory");
        let created = Engine::builder().dir(&dir.path().join("rows")).create(settings);
        let error = created.err().expect("it cannot be");
        assert_eq!(error.kind(), ErrorKind::Invalid);
        assert!(error.message().contains(what), "{error}");
        assert!(!dir.path().join("rows").exists());
    }
    let dir = tempfile::tempdir().expect("a directory");
    let mut engine = create(dir.path(), graph);
    let error = engine.add_attribute("price", AttributeKind::F64).expect_err("no attributes");
    assert_eq!(error.kind(), ErrorKind::Invalid);
    assert_eq!(engine.schema().attributes.len(), 0);
    engine.close().expect("closed");
    // The setting may change, both ways, and is kept.
    for segments in [SegmentIndex::Clusters, SegmentIndex::Graph] {
        let builder = Engine::builder().dir(dir.path());
        let opened = builder.adjust(&mut |settings, _| settings.segments = segments).open();
        opened.expect("it opens").close().expect("closed");
        assert_eq!(Engine::open(dir.path()).expect("it opens").settings().segments, segments);
    }
    assert_eq!(SegmentIndex::from_name("graph").expect("a name"), SegmentIndex::Graph);
    assert!(SegmentIndex::from_name("tree").is_err());
}
