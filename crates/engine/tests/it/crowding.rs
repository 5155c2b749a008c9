//! Dead rows take no place of living ones: a row that was just written is found by its own vector,
//! however many of its former selves lie around it.

use vstream_engine::{Effort, Element, Engine, Metric, Row, Settings};
use vstream_vector::SplitMix;

use super::{ask, engine};

const ROWS: u64 = 4_000;
const WANDERER: u64 = 1 << 40;

/// A vector of numbers that the element holds.
fn vector(random: &mut SplitMix, element: Element, dimension: usize) -> Vec<f32> {
    let number = |random: &mut SplitMix| match element {
        Element::U8 => (random.unit() * 200.0).floor(),
        Element::I8 => (random.unit() * 200.0).floor() - 100.0,
        _ => random.normal(),
    };
    (0..dimension).map(|_| number(random)).collect()
}

fn put(engine: &mut Engine, id: u64, version: u64, vector: &[f32]) {
    let row = Row { id, version, code: 0, shard: 0, vector, fields: Default::default() };
    engine.upsert(&row).expect("a good row");
}

/// Rewrites one row near one place, among writes of other rows, and asks for it each time.
fn wanders(dimension: usize, metric: Metric, element: Element, rewrites: u64) {
    let seed = dimension as u64 + rewrites;
    println!("{metric} of {dimension} {element}, seed {seed}");
    let mut random = SplitMix(seed);
    let mut engine = engine(Settings::new(dimension, metric, element));
    for id in 0..ROWS {
        let row = vector(&mut random, element, dimension);
        put(&mut engine, id, 1, &row);
    }
    // Its inner product with itself is the largest if it is the longest.
    let long = if metric == Metric::InnerProduct { 8.0 } else { 1.0 };
    let mut place = vector(&mut random, element, dimension);
    if !element.is_integer() {
        place.iter_mut().for_each(|x| *x *= long);
    }
    let reader = engine.reader();
    for version in 1..=rewrites {
        for (at, x) in place.iter_mut().enumerate() {
            if element.is_integer() {
                // One number of it changes by one.
                let step = if *x >= 100.0 { -1.0 } else { 1.0 };
                *x += if at as u64 == version % dimension as u64 { step } else { 0.0 };
            } else {
                *x += 1e-3 * long * random.normal();
            }
        }
        put(&mut engine, WANDERER, version, &place);
        for _ in 0..random.below(12) {
            let row = vector(&mut random, element, dimension);
            put(&mut engine, random.below(ROWS as usize) as u64, 1 + version, &row);
        }
        if version % 8 == 0 {
            let answer = ask(&reader, &place, 1, Effort::Auto);
            assert_eq!((answer[0].id, answer[0].version), (WANDERER, version), "rewrite {version}");
            let answer = ask(&reader, &place, 10, Effort::Auto);
            assert_eq!(answer[0].id, WANDERER, "rewrite {version}");
            assert_eq!(answer.len(), 10);
        }
    }
}

#[test]
fn a_row_that_was_just_written_is_first_by_its_own_vector() {
    wanders(256, Metric::L2, Element::F32, 10_000);
    wanders(64, Metric::Cosine, Element::F32, 3_000);
    wanders(768, Metric::Cosine, Element::F16, 2_000);
    wanders(384, Metric::InnerProduct, Element::F32, 2_000);
    wanders(128, Metric::L2, Element::U8, 3_000);
    wanders(8, Metric::L2, Element::F32, 3_000);
    wanders(1_536, Metric::L2, Element::Bf16, 1_000);
}

/// Share of the true ten nearest that an effort finds for these queries.
fn recall(engine: &Engine, queries: &[Vec<f32>], effort: Effort) -> f64 {
    let reader = engine.reader();
    let (mut found, mut wanted) = (0, 0);
    for query in queries {
        let truth = ask(&reader, query, 10, Effort::Exact);
        let answer = ask(&reader, query, 10, effort);
        assert_eq!(answer.len(), truth.len());
        found += answer.iter().filter(|row| truth.contains(row)).count();
        wanted += truth.len();
    }
    f64::from(found as u32) / f64::from(wanted as u32)
}

/// Deletes the 60 nearest rows of each query: the next ones come up, as if the others had never
/// been there.
fn comes_up_behind(dimension: usize, effort: Effort) {
    let mut random = SplitMix(dimension as u64);
    let settings = Settings::new(dimension, Metric::L2, Element::F32);
    let (mut engine, mut control) = (super::engine(settings.clone()), super::engine(settings));
    let mut row = || vector(&mut random, Element::F32, dimension);
    let rows: Vec<Vec<f32>> = (0..12_000).map(|_| row()).collect();
    let queries: Vec<Vec<f32>> = (0..40).map(|_| row()).collect();
    for (id, row) in rows.iter().enumerate() {
        put(&mut engine, id as u64, 1, row);
    }
    let mut gone = std::collections::BTreeSet::new();
    for query in &queries {
        gone.extend(ask(&engine.reader(), query, 60, Effort::Exact).iter().map(|row| row.id));
    }
    for &id in &gone {
        assert!(engine.delete(id, 2).expect("a delete"));
    }
    for (id, row) in rows.iter().enumerate().filter(|(id, _)| !gone.contains(&(*id as u64))) {
        put(&mut control, id as u64, 1, row);
    }
    let (left, fresh) = (recall(&engine, &queries, effort), recall(&control, &queries, effort));
    println!("{dimension} dimensions, {effort:?}: {left}, {fresh} without dead rows");
    assert!(left >= fresh - 0.03, "{dimension} dimensions: {left}, but {fresh} without dead rows");
    let all = ask(&engine.reader(), &queries[0], 1_000, effort);
    assert_eq!(all.len(), 1_000);
    for id in (0..12_000).filter(|id| id % 100 != 7) {
        engine.delete(id, 2).expect("a delete");
    }
    let living = engine.stats().index.live as usize;
    let all = ask(&engine.reader(), &queries[0], 1_000, effort);
    assert_eq!(all.len(), living, "all that live");
}

#[test]
fn rows_behind_those_that_were_deleted_come_up() {
    // All leaves: the two trees are not the same.
    for dimension in [64, 256, 768] {
        comes_up_behind(dimension, Effort::Chosen { probes: 1_000, refine: Some(400) });
    }
}

#[test]
fn a_moment_is_not_crowded_by_what_came_after_it() {
    const DIMENSION: usize = 256;
    let mut random = SplitMix(3);
    // Without a guard, or another effort may be in force when the moment is searched.
    let settings = Settings::new(DIMENSION, Metric::L2, Element::F32);
    let mut engine = engine(Settings { recall_guard: false, ..settings });
    for id in 0..ROWS {
        let row = vector(&mut random, Element::F32, DIMENSION);
        put(&mut engine, id, 1, &row);
    }
    let query = vector(&mut random, Element::F32, DIMENSION);
    let reader = engine.reader();
    let efforts = [Effort::Auto, Effort::Chosen { probes: 1_000, refine: Some(100) }];
    let answers = efforts.map(|effort| ask(&reader, &query, 10, effort));
    let moment = reader.read_snapshot();
    // Rows nearer than any of then.
    for id in 0..2_000 {
        let near: Vec<f32> = query.iter().map(|x| x + 0.05 * random.normal()).collect();
        put(&mut engine, WANDERER + id, 1, &near);
    }
    let (mut out, mut scratch) = (Vec::new(), vstream_engine::Scratch::new());
    for (effort, then) in efforts.into_iter().zip(answers) {
        let asked =
            vstream_engine::Query { vector: &query, k: 10, effort, filter: None, radius: None };
        moment.search(&asked, &mut scratch, &mut out).expect("an answer");
        let found = out.iter().filter(|row| then.contains(row)).count();
        assert!(found >= 9, "{effort:?}: {found} of 10 of the rows of then");
        assert!(out.iter().all(|row| row.id < WANDERER), "a row that came later");
    }
}
