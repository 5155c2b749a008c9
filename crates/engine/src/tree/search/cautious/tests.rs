use std::collections::HashSet;

use vstream_index::{Effort, Probe};
use vstream_vector::{Element, Metric, SplitMix, TopK};

use crate::tree::{Tree, TreeScratch};
use crate::{Engine, Journaling, Row, Settings};

const DIMENSION: usize = 96;
const ROWS: u64 = 40_000;
const SEED: u64 = 77;

/// Rows around centres, or anywhere without any.
fn vector(centres: usize, random: &mut SplitMix) -> Vec<f32> {
    let mut at = SplitMix(random.below(centres.max(1)) as u64);
    let spread = if centres == 0 { 1.0 } else { 0.5 };
    let mut centre = || if centres == 0 { 0.0 } else { at.normal() };
    (0..DIMENSION).map(|_| centre() + spread * random.normal()).collect()
}

/// An engine with most rows in segments.
fn made(dir: &std::path::Path, metric: Metric, centres: usize) -> Engine {
    let settings = Settings {
        memory: Some(2 << 20),
        recall_guard: false,
        ..Settings::new(DIMENSION, metric, Element::F32)
    };
    // Merges here and not beside it, so that the segments are the same however busy the machine is.
    let journaling = Journaling { background: false, ..Journaling::default() };
    let mut engine =
        Engine::builder().dir(dir).journaling(journaling).create(settings).expect("an engine");
    let mut random = SplitMix(SEED);
    for id in 0..ROWS {
        let vector = &vector(centres, &mut random);
        let row = Row { id, version: 1, code: 0, shard: 0, vector, fields: Default::default() };
        engine.upsert(&row).expect("a good row");
        // Rows that are gone, in memory and in segments.
        if id % 7 == 6 {
            engine.delete(id - 5, 1).expect("a delete");
        }
    }
    engine
}

/// Mean recall of some queries for `k`, and the mean share of the rows that they looked at.
fn measured(
    tree: &Tree,
    metric: Metric,
    centres: usize,
    (k, theta, least): (usize, f32, usize),
) -> (f64, f64) {
    let (mut scratch, mut out) = (TreeScratch::default(), TopK::default());
    let mut random = SplitMix(SEED ^ 1);
    let (mut found, mut rows) = (0, 0);
    const QUERIES: usize = 50;
    for _ in 0..QUERIES {
        let mut vector = vector(centres, &mut random);
        if metric == Metric::Cosine {
            let norm = vector.iter().map(|x| x * x).sum::<f32>().sqrt();
            vector.iter_mut().for_each(|x| *x /= norm);
        }
        let mut ask = |effort| {
            out.reset(k);
            let probe = Probe { vector: &vector, k, effort, filter: None };
            let stats = tree.pin().search(&probe, &mut scratch, &mut out).expect("an answer");
            let ids: Vec<u64> = out.rows().iter().map(|row| row.id).collect();
            assert_eq!(ids.iter().collect::<HashSet<_>>().len(), ids.len(), "a row is there twice");
            (stats, ids)
        };
        let (_, truth) = ask(Effort::Exact);
        let (stats, ids) = ask(Effort::Cautious { depth: 0, theta, least });
        assert_eq!((truth.len(), ids.len()), (k, k));
        found += ids.iter().filter(|id| truth.contains(id)).count();
        rows += stats.rows;
    }
    (found as f64 / (QUERIES * k) as f64, rows as f64 / (QUERIES as u64 * ROWS) as f64)
}

/// Without a decision a query finds what it should, wherever rows are, and leaves out what is far where
/// there is something to leave out.
#[test]
fn a_query_without_a_decision_finds_its_rows() {
    for metric in [Metric::L2, Metric::Cosine, Metric::InnerProduct] {
        for centres in [0, 40] {
            let dir = tempfile::tempdir().expect("a directory");
            let engine = made(dir.path(), metric, centres);
            assert!(engine.stats().tree.segments > 1, "{:?}", engine.stats().tree);
            let reader = engine.reader();
            // Three for a target of 0.95, one for 0.99.
            for (k, theta, measured_least) in
                [(1, 1.5, 384), (10, 1.5, 384), (100, 1.5, 384), (10, 2.08, 1_920)]
            {
                let asked = (k, theta, measured_least);
                let (recall, rows) = measured(reader.tree(), metric, centres, asked);
                let least = if theta > 2.0 { 0.985 } else { 0.95 };
                println!("seed {SEED}, {metric:?}, {centres} centres, k {k}, theta {theta}: {recall}, {rows}");
                assert!(recall >= least, "{metric:?}, {centres} centres, k {k}: {recall}");
                let leaves_out =
                    metric != Metric::InnerProduct && centres > 0 && k <= 10 && theta < 2.0;
                assert!(!leaves_out || rows < 0.8, "{metric:?}, k {k}: {rows} of the rows");
            }
        }
    }
}
