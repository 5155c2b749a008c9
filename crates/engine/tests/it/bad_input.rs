//! Bad input is refused with a sentence, before anything changes.

use vstream_engine::{
    Applied, Effort, Element, Engine, Error, ErrorKind, Metric, Query, Scratch, Settings,
};

use super::{ask, engine, row};

fn refused<T: std::fmt::Debug>(result: Result<T, Error>, words: &str) {
    let error = result.expect_err("it must be refused");
    assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
    assert!(error.message().contains(words), "'{error}' does not say '{words}'");
}

#[test]
fn bad_vectors_change_nothing() {
    let mut cosine = engine(Settings::new(3, Metric::Cosine, Element::F32));
    cosine.upsert(&row(1, &[1.0, 0.0, 0.0])).expect("a good row");
    refused(cosine.upsert(&row(1, &[1.0, 2.0])), "2 dimensions, the collection 3");
    refused(cosine.upsert(&row(1, &[1.0, f32::NAN, 0.0])), "NaN at position 1");
    refused(cosine.upsert(&row(1, &[f32::INFINITY, 0.0, 0.0])), "inf at position 0");
    refused(cosine.upsert(&row(1, &[0.0; 3])), "no direction");
    refused(cosine.upsert(&row(1, &[f32::MAX, f32::MAX, f32::MAX])), "no direction");
    let answer = ask(&cosine.reader(), &[2.0, 0.0, 0.0], 5, Effort::Exact);
    assert_eq!((answer.len(), answer[0].id, answer[0].distance), (1, 1, 0.0));
}

#[test]
fn vectors_with_extreme_norms_are_normalised_in_double_precision() {
    let mut cosine = engine(Settings::new(2, Metric::Cosine, Element::F32));
    cosine.upsert(&row(1, &[1e-30, 0.0])).expect("a small vector has a direction");
    cosine.upsert(&row(2, &[0.0, 1e30])).expect("a large vector has a direction");
    let answer = ask(&cosine.reader(), &[0.0, 1e-25], 2, Effort::Exact);
    assert_eq!(answer.iter().map(|n| (n.id, n.distance)).collect::<Vec<_>>(), [(2, 0.0), (1, 1.0)]);
}

#[test]
fn bytes_take_whole_numbers_only() {
    let mut bytes = engine(Settings::new(2, Metric::L2, Element::U8));
    refused(bytes.upsert(&row(1, &[1.5, 0.0])), "1.5 at position 0");
    refused(bytes.upsert(&row(1, &[0.0, 256.0])), "256 at position 1");
    refused(bytes.upsert(&row(1, &[-1.0, 0.0])), "-1 at position 0");
    assert_eq!(bytes.upsert(&row(1, &[255.0, 0.0])), Ok(Applied::Inserted));
    assert_eq!(ask(&bytes.reader(), &[250.0, 0.5], 1, Effort::Auto)[0].distance, 25.25);
}

#[test]
fn signed_bytes_take_whole_numbers_only() {
    let mut bytes = engine(Settings::new(2, Metric::L2, Element::I8));
    refused(bytes.upsert(&row(1, &[0.0, 0.5])), "0.5 at position 1: element i8 takes whole");
    refused(bytes.upsert(&row(1, &[128.0, 0.0])), "128 at position 0");
    refused(bytes.upsert(&row(1, &[-129.0, 0.0])), "from -128 to 127");
    assert_eq!(bytes.stats().index.live, 0);
    assert_eq!(bytes.upsert(&row(1, &[-128.0, 127.0])), Ok(Applied::Inserted));
    assert_eq!(ask(&bytes.reader(), &[-128.0, 127.5], 1, Effort::Auto)[0].distance, 0.25);
}

#[test]
fn what_would_become_infinite_is_refused() {
    let mut halves = engine(Settings::new(2, Metric::L2, Element::F16));
    refused(halves.upsert(&row(1, &[0.0, 65_520.0])), "65520 at position 1: element f16 takes");
    refused(halves.upsert(&row(1, &[-1e30, 0.0])), "from -65504 to 65504");
    assert_eq!(halves.upsert(&row(1, &[65_519.0, 1e-30])), Ok(Applied::Inserted));
    assert_eq!(ask(&halves.reader(), &[65_504.0, 0.0], 1, Effort::Auto)[0].distance, 0.0);
    let mut halves = engine(Settings::new(1, Metric::InnerProduct, Element::Bf16));
    refused(halves.upsert(&row(1, &[f32::MAX])), "element bf16 takes numbers");
    refused(halves.upsert(&row(1, &[1e38])), "a norm of 1.000e38: inner_product takes norms up to");
    assert_eq!(halves.upsert(&row(1, &[1e14])), Ok(Applied::Inserted));
}

#[test]
fn bad_queries_are_refused() {
    let mut l2 = engine(Settings::new(2, Metric::L2, Element::F32));
    l2.upsert(&row(1, &[1.0, 0.0])).expect("a good row");
    let reader = l2.reader();
    let mut out = Vec::new();
    let mut refuse = |vector: &[f32], k: usize, words: &str| {
        let query = Query { vector, k, effort: Effort::Auto, filter: None, radius: None };
        refused(reader.search(&query, &mut Scratch::new(), &mut out), words);
    };
    refuse(&[1.0], 1, "1 dimensions, the collection 2");
    refuse(&[1.0, f32::NAN], 1, "NaN at position 1");
    refuse(&[1.0, 0.0], 0, "k is 0: choose a value from 1 to 1000");
    refuse(&[1.0, 0.0], 1001, "k is 1001");
    let mut within = |vector: &[f32], radius: f32, words: &str| {
        refused(reader.search_radius(vector, radius, None, &mut Scratch::new(), &mut out), words);
    };
    within(&[1.0, f32::NAN], 1.0, "NaN at position 1");
    within(&[1.0, 0.0], f32::NAN, "radius is not a number");
}

#[test]
fn bad_settings_are_refused() {
    let mut settings = Settings::new(0, Metric::L2, Element::F32);
    refused(Engine::create(settings.clone()).map(|_| ()), "dimension is 0");
    settings.dimension = 8;
    settings.recall_target = 1.0;
    refused(Engine::create(settings).map(|_| ()), "recall-target is 1");
}

#[test]
fn deletes_of_unknown_ids_and_old_versions_change_nothing() {
    let mut l2 = engine(Settings::new(1, Metric::L2, Element::F32));
    l2.upsert(&row(1, &[1.0])).expect("a good row");
    assert_eq!(l2.delete(2, 9), Ok(false));
    assert_eq!(l2.delete(1, 0), Ok(false));
    assert_eq!(l2.stats().index.live, 1);
    assert_eq!(l2.delete(1, 1), Ok(true));
    assert_eq!(l2.delete(1, 1), Ok(false));
}
