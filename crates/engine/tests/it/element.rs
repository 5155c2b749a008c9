//! What each element type holds of a row, and what it weighs.

use vstream_engine::{Effort, Element, Metric, Settings};
use vstream_index::contract::{clustered, fitted};

use vstream_vector::SplitMix;

use super::{ask, engine, row};

#[test]
fn values_are_rounded_to_the_nearest_that_the_element_has() {
    let a_third = 1.0f32 / 3.0;
    // The nearest half and the nearest upper half of a single.
    let stored =
        [(Element::F32, a_third), (Element::F16, 0.333_251_95), (Element::Bf16, 0.333_984_38)];
    for (element, value) in stored {
        let mut l2 = engine(Settings::new(1, Metric::L2, element));
        l2.upsert(&row(1, &[a_third])).expect("a good row");
        let distance = ask(&l2.reader(), &[a_third], 1, Effort::Exact)[0].distance;
        assert_eq!(distance, (a_third - value) * (a_third - value), "{element}");
        assert_eq!(ask(&l2.reader(), &[value], 1, Effort::Exact)[0].distance, 0.0, "{element}");
    }
}

/// Against the distances of `f32`, which the other tests hold to be right.
#[test]
fn distances_are_those_of_f32_within_the_roundoff_of_the_element() {
    const DIMENSION: usize = 64;
    let mut random = SplitMix(12);
    for metric in [Metric::L2, Metric::Cosine, Metric::InnerProduct] {
        for element in Element::ALL {
            let vectors = fitted(element, clustered(&mut random, 3_000, DIMENSION, 30));
            let [narrow, wide] = [element, Element::F32].map(|element| {
                let mut engine = engine(Settings::new(DIMENSION, metric, element));
                for (id, vector) in vectors.chunks_exact(DIMENSION).enumerate() {
                    engine.upsert(&row(id as u64, vector)).expect("a good row");
                }
                engine.reader()
            });
            for query in vectors.chunks_exact(DIMENSION).take(100) {
                let found = ask(&narrow, query, 10, Effort::Exact);
                let truth = ask(&wide, query, 10, Effort::Exact);
                // The sizes of what is summed: of both vectors, their squares.
                let square = query.iter().map(|x| x * x).sum::<f32>();
                let size = if metric == Metric::Cosine { 1.0 } else { 2.0 * square };
                let bound = 4.0 * element.roundoff() * size;
                for (found, truth) in found.iter().zip(&truth) {
                    let apart = (found.distance - truth.distance).abs();
                    assert!(apart <= bound, "{metric} {element}: {found:?}, {truth:?}");
                }
            }
        }
    }
}

#[test]
fn narrow_rows_take_less_memory() {
    const DIMENSION: usize = 128;
    const ROWS: usize = 5_000;
    let vectors = clustered(&mut SplitMix(13), ROWS, DIMENSION, 20);
    let [f32, f16, bf16, u8, i8] = Element::ALL.map(|element| {
        let mut engine = engine(Settings::new(DIMENSION, Metric::L2, element));
        let vectors = fitted(element, vectors.clone());
        for (id, vector) in vectors.chunks_exact(DIMENSION).enumerate() {
            engine.upsert(&row(id as u64, vector)).expect("a good row");
        }
        engine.stats().index.memory_bytes
    });
    println!("{f32} {f16} {bf16} {u8} {i8}");
    let saved = |bytes: usize| (bytes * DIMENSION * ROWS) as u64;
    assert!(f16 + saved(2) <= f32 && bf16 + saved(2) <= f32, "{f16}, {bf16} of {f32}");
    assert!(u8 + saved(3) <= f32 && i8 + saved(3) <= f32, "{u8}, {i8} of {f32}");
}
