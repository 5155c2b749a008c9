//! The recall guard steers searches over memory and segments together.

use vstream_engine::{Effort, Element, Engine, Journaling, Metric, Query, Scratch, Settings};
use vstream_vector::SplitMix;

use super::journaling;
use crate::{ask, row};

const DIMENSION: usize = 24;
const ROWS: u64 = 40_000;

fn vector(random: &mut SplitMix) -> Vec<f32> {
    let center = random.below(200) as u64;
    let mut at = SplitMix(center);
    (0..DIMENSION).map(|_| 2.0 * at.normal() + random.normal()).collect()
}

/// Rows of many clusters whose centers move with the row number.
fn drifting(id: u64, random: &mut SplitMix, dimension: usize) -> Vec<f32> {
    let center = random.below(400) as u64;
    let (mut at, mut towards) = (SplitMix(center), SplitMix(center ^ 0xdead));
    let moved = id as f32 / 60_000.0;
    let number = |_| at.normal() + moved * towards.normal() + 0.7 * random.normal();
    (0..dimension).map(number).collect()
}

/// Leaves are shared by all segments: at the same number of probes, a query finds as much among many
/// segments, right after ingest, as in one.
#[test]
fn many_segments_answer_as_well_as_one() {
    const DIMENSION: usize = 64;
    const ROWS: u64 = 60_000;
    for (metric, is_drifting) in
        [(Metric::L2, true), (Metric::Cosine, true), (Metric::InnerProduct, false)]
    {
        let make = |rows_per_segment: Option<u64>| {
            let dir = tempfile::tempdir().expect("a directory");
            let settings = Settings {
                memory: Some(256 << 20),
                recall_guard: false,
                ..Settings::new(DIMENSION, metric, Element::F32)
            };
            let mut engine = Engine::builder()
                .dir(dir.path())
                .journaling(Journaling { log_bytes_max: 1 << 30, ..journaling(false) })
                .create(settings)
                .expect("an engine");
            let mut random = SplitMix(3);
            for id in 0..ROWS {
                let vector = drifting(id * u64::from(is_drifting), &mut random, DIMENSION);
                engine.upsert(&row(id, &vector)).expect("a good row");
                if rows_per_segment.is_some_and(|rows| id % rows == rows - 1) {
                    engine.checkpoint().expect("a segment");
                }
            }
            engine.checkpoint().expect("a segment");
            (engine, dir)
        };
        let (many, _many_dir) = make(Some(2_400));
        let (one, _one_dir) = make(None);
        let segments = (many.stats().tree.segments, one.stats().tree.segments);
        assert!(segments.0 >= 4 && segments.1 == 1, "{segments:?}");
        let mut random = SplitMix(99);
        let queries: Vec<Vec<f32>> = (0..200)
            .map(|_| {
                let id = random.below(ROWS as usize) as u64 * u64::from(is_drifting);
                drifting(id, &mut random, DIMENSION)
            })
            .collect();
        let truths: Vec<Vec<u64>> = queries
            .iter()
            .map(|query| {
                let truth = ask(&one.reader(), query, 10, Effort::Exact);
                truth.iter().map(|row| row.id).collect()
            })
            .collect();
        let recall = |engine: &Engine, effort: Effort| {
            let (reader, mut found) = (engine.reader(), 0);
            for (query, truth) in queries.iter().zip(&truths) {
                let answer = ask(&reader, query, 10, effort);
                found += answer.iter().filter(|row| truth.contains(&row.id)).count();
            }
            found as f64 / (10 * queries.len()) as f64
        };
        let leaves = (many.stats().index.leaves, one.stats().index.leaves);
        for probes in [16, 32] {
            let effort = Effort::Chosen { probes, refine: Some(400) };
            let (among, alone) = (recall(&many, effort), recall(&one, effort));
            let what =
                format!("{metric:?}, {probes} of {leaves:?} leaves in {segments:?} segments");
            // By inner product the nearest rows are far from the middle of their leaf, which a leaf
            // that grew describes less well.
            let less = if metric == Metric::InnerProduct { 0.03 } else { 0.01 };
            assert!(among >= alone - less, "{what}: {among}, in one {alone}");
        }
    }
}

#[test]
fn the_target_is_met_wherever_rows_are() {
    let dir = tempfile::tempdir().expect("a directory");
    let settings = Settings {
        memory: Some(3 << 20),
        recall_target: 0.9,
        ..Settings::new(DIMENSION, Metric::L2, Element::F32)
    };
    let mut engine = Engine::builder()
        .dir(dir.path())
        .journaling(journaling(true))
        .create(settings)
        .expect("an engine");
    let mut random = SplitMix(1);
    for id in 0..ROWS {
        engine.upsert(&row(id, &vector(&mut random))).expect("a good row");
        if id % 500 == 0 {
            engine.commit().expect("a commit");
        }
    }
    // Flushes are begun and ended by the writer, and done by a thread that may be slow today.
    for _ in 0..6_000 {
        if engine.stats().tree.segment_rows > ROWS / 2 {
            break;
        }
        std::thread::sleep(std::time::Duration::from_millis(10));
        engine.commit().expect("a commit");
    }
    let tree = engine.stats().tree;
    assert!(tree.segments >= 2 && tree.segment_rows > ROWS / 2, "{tree:?}");
    let reader = engine.reader();
    // The guard decides after the first of these. Its estimate is that of the last hundred audits, so it
    // speaks of the answers of now once these are behind the decision.
    for _ in 0..2 {
        for _ in 0..2_000 {
            ask(&reader, &vector(&mut random), 10, Effort::Auto);
        }
        engine.catch_up();
    }
    let (mut found, mut wanted) = (0, 0);
    for _ in 0..300 {
        let query = vector(&mut random);
        let truth = ask(&reader, &query, 10, Effort::Exact);
        let answer = ask(&reader, &query, 10, Effort::Unaudited);
        found += answer.iter().filter(|row| truth.iter().any(|hit| hit.id == row.id)).count();
        wanted += truth.len();
    }
    let recall = found as f64 / wanted as f64;
    let stats = engine.stats();
    let estimate = stats.recall.expect("audits were made");
    let off = (estimate.recall - recall).abs();
    assert!(recall >= 0.87, "{recall} with {} probes, {estimate:?}", stats.probes);
    assert!(off <= 0.06, "{recall} where the guard says {estimate:?}");
    assert!((stats.probes as u64) < stats.index.leaves, "{} of all", stats.probes);
}

/// Of these rows a query must visit more than a quarter of the leaves: it goes as far as the guard decided, and no
/// farther. Once it went as far as it found out itself, and measured many times as many rows.
#[test]
fn a_decision_for_many_leaves_counts() {
    const DIMENSION: usize = 64;
    const ROWS: u64 = 80_000;
    let dir = tempfile::tempdir().expect("a directory");
    let settings = Settings {
        memory: Some(8 << 20),
        ..Settings::new(DIMENSION, Metric::Cosine, Element::F32)
    };
    let builder = Engine::builder().dir(dir.path()).journaling(journaling(false));
    let mut engine = builder.create(settings).expect("an engine");
    let mut random = SplitMix(8);
    let mut vector = || -> Vec<f32> {
        (0..DIMENSION).map(|at| random.normal() / (1.0 + at as f32 / 24.0)).collect()
    };
    for id in 0..ROWS {
        engine.upsert(&row(id, &vector())).expect("a good row");
    }
    engine.checkpoint().expect("a segment");
    engine.compact().expect("merged");
    let reader = engine.reader();
    for _ in 0..3 {
        (0..200).for_each(|_| drop(ask(&reader, &vector(), 10, Effort::Auto)));
        engine.catch_up();
    }
    let stats = engine.stats();
    let (leaves, probes) = (stats.index.leaves as usize, stats.probes);
    assert!(leaves > 256 && probes > leaves / 4, "{probes} of {leaves} leaves are no test");
    assert!(probes < leaves && stats.refine < ROWS as usize / 10, "{probes}, {}", stats.refine);
    let (mut found, mut exact) = (0, 0);
    let mut scratch = Scratch::default();
    for _ in 0..200 {
        let query = vector();
        let truth = ask(&reader, &query, 10, Effort::Exact);
        let asked = Query { effort: Effort::Unaudited, ..Query::new(&query, 10) };
        let mut answer = Vec::new();
        exact += reader.search(&asked, &mut scratch, &mut answer).expect("an answer").exact;
        found += answer.iter().filter(|row| truth.iter().any(|hit| hit.id == row.id)).count();
    }
    let recall = found as f64 / 2_000.0;
    println!("{recall} with {probes} of {leaves} leaves, {exact} exact distances");
    assert!(recall >= 0.93, "{recall} with {probes} of {leaves} leaves");
    assert!(exact <= 200 * (stats.refine + 100), "{exact} exact distances, {stats:?}");
}
