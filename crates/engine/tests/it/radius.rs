//! Radius search at its borders: a radius that is exactly the distance of a row finds that row,
//! wherever the rows lie, and finds what a scan of all rows finds.

use std::path::Path;

use vstream_engine::{
    Durability, Element, Engine, IndexKind, Journaling, Metric, Neighbor, Reader, Scratch, Settings,
};
use vstream_index::contract::{clustered, fitted};
use vstream_vector::SplitMix;

use super::{engine, row};

const DIMENSION: usize = 64;
const ROWS: usize = 4_000;

fn within(reader: &Reader, vector: &[f32], radius: f32) -> Vec<Neighbor> {
    let mut out = Vec::new();
    reader
        .search_radius(vector, radius, None, &mut Scratch::new(), &mut out)
        .expect("a valid query");
    out
}

fn fill(engine: &mut Engine, vectors: &[f32]) {
    for (id, vector) in vectors.chunks_exact(DIMENSION).enumerate() {
        engine.upsert(&row(id as u64, vector)).expect("a good row");
    }
}

/// An engine whose rows are in two segments.
fn in_segments(dir: &Path, settings: Settings, vectors: &[f32]) -> Engine {
    let journaling =
        Journaling { durability: Durability::None, log_bytes_max: 1 << 30, background: false };
    let settings = Settings { memory: Some(64 << 20), ..settings };
    let mut engine =
        Engine::builder().dir(dir).journaling(journaling).create(settings).expect("an engine");
    let (first, second) = vectors.split_at(vectors.len() / DIMENSION / 3 * DIMENSION);
    fill(&mut engine, first);
    engine.checkpoint().expect("a checkpoint");
    for (id, vector) in (first.len() / DIMENSION..).zip(second.chunks_exact(DIMENSION)) {
        engine.upsert(&row(id as u64, vector)).expect("a good row");
    }
    engine.checkpoint().expect("a checkpoint");
    assert_eq!(engine.stats().tree.segment_rows, ROWS as u64, "every row is in a segment");
    engine
}

fn compare(metric: Metric, element: Element, offset: f32) {
    let mut random = SplitMix(81);
    let mut vectors = clustered(&mut random, ROWS, DIMENSION, 40);
    if !element.is_integer() {
        vectors.iter_mut().for_each(|x| *x += offset);
    }
    let vectors = fitted(element, vectors);
    let settings = Settings { recall_guard: false, ..Settings::new(DIMENSION, metric, element) };
    let mut scan = engine(Settings { index: IndexKind::Flat, ..settings.clone() });
    fill(&mut scan, &vectors);
    let mut memory = engine(settings.clone());
    fill(&mut memory, &vectors);
    let dir = tempfile::tempdir().expect("a directory");
    let segments = in_segments(dir.path(), settings, &vectors);
    let places = [("memory", memory.reader()), ("segments", segments.reader())];
    for at in (0..ROWS).step_by(ROWS / 40) {
        let mut query = vectors[at * DIMENSION..][..DIMENSION].to_vec();
        if at % 3 > 0 && !element.is_integer() {
            query.iter_mut().for_each(|x| *x += random.normal() * 0.05);
        }
        let all = within(&scan.reader(), &query, f32::INFINITY);
        assert_eq!(all.len(), ROWS);
        for rank in [0, 1, 9, 99, 999] {
            let radius = all[rank].distance;
            let truth = within(&scan.reader(), &query, radius);
            assert!(truth.len() > rank, "the row at the border is within");
            for (place, reader) in &places {
                let found = within(reader, &query, radius);
                assert_eq!(
                    found, truth,
                    "{place}, {metric}, {element}, offset {offset}, row {at}, rank {rank}"
                );
            }
        }
    }
}

#[test]
fn a_row_at_the_border_is_found_under_every_metric_and_element() {
    for metric in [Metric::L2, Metric::Cosine, Metric::InnerProduct] {
        Element::ALL.into_iter().for_each(|element| compare(metric, element, 0.0));
    }
}

/// Where the rows are far from the origin, the rounding of a distance scales with their norm.
#[test]
fn a_row_at_the_border_is_found_far_from_the_origin() {
    for element in [Element::F32, Element::F16, Element::Bf16] {
        for offset in [100.0, 3_000.0] {
            compare(Metric::L2, element, offset);
            compare(Metric::Cosine, element, offset);
        }
    }
}
