//! Vectors at the edges of what numbers hold: huge norms, vanishing ones, rare outliers.

use vstream_engine::{
    Durability, Effort, Element, Engine, ErrorKind, IndexKind, Journaling, Metric, Settings,
    NORM_MAX,
};
use vstream_index::contract::clustered;
use vstream_vector::SplitMix;

use super::{ask, engine, row};

const DIMENSION: usize = 64;

/// `vector` at another norm.
fn scaled(vector: &[f32], norm: f64) -> Vec<f32> {
    let own = self::norm(vector);
    vector.iter().map(|&x| (f64::from(x) * norm / own) as f32).collect()
}

fn norm(vector: &[f32]) -> f64 {
    vector.iter().map(|&x| f64::from(x).powi(2)).sum::<f64>().sqrt()
}

fn within(engine: &Engine, query: &[f32], radius: f32) -> Vec<(u64, f32)> {
    let (mut scratch, mut out) = Default::default();
    engine
        .reader()
        .search_radius(query, radius, None, &mut scratch, &mut out)
        .expect("a valid query");
    out.iter().map(|n| (n.id, n.distance)).collect()
}

fn exact(engine: &Engine, query: &[f32], k: usize) -> Vec<(u64, f32)> {
    ask(&engine.reader(), query, k, Effort::Exact).iter().map(|n| (n.id, n.distance)).collect()
}

#[test]
fn a_norm_that_arithmetic_cannot_hold_is_refused_before_anything_changes() {
    let base = clustered(&mut SplitMix(3), 1, DIMENSION, 1);
    let (most, more) = (scaled(&base, NORM_MAX * 0.999_999), scaled(&base, NORM_MAX * 1.000_001));
    for element in [Element::F32, Element::Bf16] {
        for metric in [Metric::L2, Metric::InnerProduct] {
            let mut engine = engine(Settings::new(DIMENSION, metric, element));
            engine.upsert(&row(1, &most)).expect("a norm at the limit");
            let before = engine.stats().index;
            let error = engine.upsert(&row(1, &more)).expect_err("a norm above the limit");
            assert_eq!(error.kind(), ErrorKind::Invalid);
            assert!(error.message().contains("takes norms up to 1e15"), "{error}");
            assert_eq!(engine.stats().index, before);
            let found = exact(&engine, &most, 1);
            assert!(found[0].1.is_finite(), "{found:?}");
            let query = vstream_engine::Query {
                vector: &more,
                k: 1,
                effort: Effort::Auto,
                filter: None,
                radius: None,
            };
            let (mut scratch, mut out) = Default::default();
            let asked = engine.reader().search(&query, &mut scratch, &mut out);
            assert_eq!(asked.expect_err("a query above the limit").kind(), ErrorKind::Invalid);
            let asked = engine.reader().search_radius(&more, 1.0, None, &mut scratch, &mut out);
            assert_eq!(asked.expect_err("a query above the limit").kind(), ErrorKind::Invalid);
        }
        let mut cosine = engine(Settings::new(DIMENSION, Metric::Cosine, element));
        cosine.upsert(&row(1, &more)).expect("cosine takes directions");
    }
}

/// Exact and radius search agree with a scan in memory and in a segment; returns the share of rows
/// that are the first answer of an approximate search to their own vector.
fn share_found(metric: Metric, element: Element, vectors: &[f32]) -> f64 {
    let settings = Settings { recall_guard: false, ..Settings::new(DIMENSION, metric, element) };
    let mut scan = engine(Settings { index: IndexKind::Flat, ..settings.clone() });
    let dir = tempfile::tempdir().expect("a directory");
    let journaling =
        Journaling { durability: Durability::None, log_bytes_max: 1 << 30, background: false };
    let settings = Settings { memory: Some(64 << 20), ..settings };
    let mut other = Engine::builder()
        .dir(dir.path())
        .journaling(journaling)
        .create(settings)
        .expect("an engine");
    for (id, vector) in vectors.chunks_exact(DIMENSION).enumerate() {
        scan.upsert(&row(id as u64, vector)).expect("a good row");
        other.upsert(&row(id as u64, vector)).expect("a good row");
    }
    let (mut found, mut asked) = (0, 0);
    for place in ["memory", "segment"] {
        for query in vectors.chunks_exact(DIMENSION).step_by(37) {
            let truth = exact(&scan, query, 10);
            assert_eq!(exact(&other, query, 10), truth, "{place}, {metric}, {element}");
            let radius = truth[9].1;
            assert_eq!(within(&other, query, radius), within(&scan, query, radius), "{place}");
            let own = ask(&other.reader(), query, 1, Effort::probes(8));
            found += usize::from((own[0].id, own[0].distance) == truth[0]);
            asked += 1;
        }
        other.checkpoint().expect("a checkpoint");
    }
    found as f64 / asked as f64
}

#[test]
fn rows_at_the_limit_are_found_as_ordinary_ones_are() {
    const ROWS: usize = 6_000;
    let mut random = SplitMix(4);
    let mut vectors = clustered(&mut random, ROWS, DIMENSION, 60);
    let longest = vectors.chunks_exact(DIMENSION).map(norm).fold(0.0, f64::max);
    let scale = NORM_MAX * 0.99 / longest;
    vectors.iter_mut().for_each(|x| *x = (f64::from(*x) * scale) as f32);
    for metric in [Metric::L2, Metric::InnerProduct] {
        for element in [Element::F32, Element::Bf16] {
            let share = share_found(metric, element, &vectors);
            assert!(share > 0.97, "{metric}, {element}: {share}");
        }
    }
}

/// Norms from 1 to the limit in one collection: codes tell such rows apart badly, but what is
/// exact stays exact.
#[test]
fn rows_of_every_size_are_found_by_exact_and_radius_search() {
    const ROWS: usize = 3_000;
    let mut random = SplitMix(5);
    let mut vectors = clustered(&mut random, ROWS, DIMENSION, 60);
    for vector in vectors.chunks_exact_mut(DIMENSION) {
        let norm = NORM_MAX * 0.99 / 10f64.powi(random.below(16) as i32);
        vector.copy_from_slice(&scaled(vector, norm));
    }
    share_found(Metric::L2, Element::F32, &vectors);
    share_found(Metric::L2, Element::Bf16, &vectors);
    share_found(Metric::InnerProduct, Element::F32, &vectors);
}

/// Directions do not depend on how long the vectors are that give them, down to the least number.
#[test]
fn cosine_takes_vectors_of_any_length_as_the_same_direction() {
    const ROWS: usize = 2_000;
    let vectors = clustered(&mut SplitMix(6), ROWS, DIMENSION, 40);
    let mut plain = engine(Settings::new(DIMENSION, Metric::Cosine, Element::F32));
    let mut small = engine(Settings::new(DIMENSION, Metric::Cosine, Element::F32));
    for (id, vector) in vectors.chunks_exact(DIMENSION).enumerate() {
        plain.upsert(&row(id as u64, vector)).expect("a good row");
        // Squares of these vanish wholly or in part; the numbers themselves keep their bits.
        let shrunk = scaled(vector, [1e-17, 1e-19, 1e-25, 1e-34][id % 4]);
        small.upsert(&row(id as u64, &shrunk)).expect("a good row");
    }
    for query in vectors.chunks_exact(DIMENSION).step_by(41) {
        let truth = exact(&plain, query, 10);
        for (found, truth) in exact(&small, &scaled(query, 1e-20), 10).iter().zip(&truth) {
            assert!((found.1 - truth.1).abs() < 1e-6, "{found:?}, {truth:?}");
        }
    }
    let mut least = engine(Settings::new(2, Metric::Cosine, Element::F32));
    let tiny = f32::from_bits(1);
    least.upsert(&row(1, &[tiny, tiny])).expect("the least numbers have a direction");
    let distance = ask(&least.reader(), &[1.0, 1.0], 1, Effort::Exact)[0].distance;
    assert!(distance.abs() < 1e-6, "{distance}");
}

/// However much is asked for, there is no more than all rows.
#[test]
fn an_effort_beyond_all_rows_is_that_of_all_rows() {
    const ROWS: usize = 3_000;
    let vectors = clustered(&mut SplitMix(7), ROWS, DIMENSION, 40);
    let mut engine = engine(Settings::new(DIMENSION, Metric::L2, Element::F32));
    for (id, vector) in vectors.chunks_exact(DIMENSION).enumerate() {
        engine.upsert(&row(id as u64, vector)).expect("a good row");
    }
    let reader = engine.reader();
    for refine in [1 << 32, 1 << 61, 1 << 62, usize::MAX] {
        let effort = Effort::Chosen { probes: usize::MAX, refine: Some(refine) };
        for query in vectors.chunks_exact(DIMENSION).step_by(300) {
            assert_eq!(ask(&reader, query, 10, effort), ask(&reader, query, 10, Effort::Exact));
        }
    }
    let query = &vectors[..DIMENSION];
    assert_eq!(ask(&reader, query, 10, Effort::probes(usize::MAX)).len(), 10);
}
