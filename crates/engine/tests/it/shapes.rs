//! The shapes that users have: embeddings of 256 to 768 numbers, k from 1 to 1,000, rows that were
//! rewritten and deleted, against brute force.
//!
//! Above 512 bytes a row the search takes a second look at longer codes before exact distances; no
//! test of fewer dimensions gets there.

use std::collections::BTreeMap;

use vstream_engine::{Effort, Element, Engine, Metric, Query, Row, Scratch, Settings};
use vstream_vector::SplitMix;

const ROWS: usize = 6_000;
const QUERIES: usize = 200;
const CENTRES: usize = 150;
/// Directions in which the rows of one centre differ most, as those of real embeddings do.
const WIDE: usize = 24;

/// A collection, the rows that live in it, and queries that are none of them.
struct Shape {
    metric: Metric,
    engine: Engine,
    live: BTreeMap<u64, Vec<f32>>,
    queries: Vec<Vec<f32>>,
}

/// Rows around centres, most of their spread in a few directions of each centre.
struct Source {
    chance: SplitMix,
    dimension: usize,
    centres: Vec<Vec<f32>>,
}

impl Source {
    fn new(dimension: usize, seed: u64) -> Source {
        let mut chance = SplitMix(seed);
        let centres =
            (0..CENTRES).map(|_| (0..dimension).map(|_| chance.normal()).collect()).collect();
        Source { chance, dimension, centres }
    }

    fn row(&mut self) -> Vec<f32> {
        let which = self.chance.below(CENTRES);
        let first = which * 7 % (self.dimension - WIDE);
        let mut row = self.centres[which].clone();
        for (at, x) in row.iter_mut().enumerate() {
            let spread = if (first..first + WIDE).contains(&at) { 1.5 } else { 0.4 };
            *x += spread * self.chance.normal();
        }
        row
    }
}

impl Shape {
    /// Writes the rows, rewrites a tenth of them and deletes a fifth.
    fn new(dimension: usize, metric: Metric, target: f64) -> Shape {
        let mut source = Source::new(dimension, 11);
        let mut settings = Settings::new(dimension, metric, Element::F32);
        settings.recall_target = target;
        let mut engine = Engine::create(settings).expect("an engine");
        let mut live = BTreeMap::new();
        for step in 0..ROWS + ROWS / 10 {
            let id = (if step < ROWS { step } else { source.chance.below(ROWS) }) as u64;
            let (version, vector) = (step as u64 + 1, source.row());
            let row =
                Row { id, version, code: 0, shard: 0, vector: &vector, fields: Default::default() };
            engine.upsert(&row).expect("written");
            live.insert(id, vector);
        }
        for _ in 0..ROWS / 5 {
            let id = source.chance.below(ROWS) as u64;
            let lived = engine.delete(id, u64::MAX).expect("deleted");
            assert_eq!(lived, live.remove(&id).is_some());
        }
        let queries = (0..QUERIES).map(|_| source.row()).collect();
        Shape { metric, engine, live, queries }
    }

    /// Distance of the `k`-th nearest living row, with what 32-bit arithmetic may be off.
    fn reach(&self, query: &[f32], k: usize) -> f64 {
        let mut all: Vec<f64> = self.live.values().map(|row| self.distance(query, row)).collect();
        all.sort_unstable_by(f64::total_cmp);
        all[k - 1] + 1e-5 * all[k - 1].abs().max(1.0)
    }

    fn distance(&self, a: &[f32], b: &[f32]) -> f64 {
        let sum = |f: fn(f64, f64) -> f64| -> f64 {
            a.iter().zip(b).map(|(&x, &y)| f(f64::from(x), f64::from(y))).sum()
        };
        match self.metric {
            Metric::L2 => sum(|x, y| (x - y) * (x - y)),
            Metric::InnerProduct => -sum(|x, y| x * y),
            Metric::Cosine => {
                let norm = |v: &[f32]| v.iter().map(|&x| f64::from(x).powi(2)).sum::<f64>().sqrt();
                1.0 - sum(|x, y| x * y) / (norm(a) * norm(b))
            }
        }
    }

    fn ask(&self, scratch: &mut Scratch, query: &[f32], k: usize, effort: Effort) -> Vec<u64> {
        let mut found = Vec::new();
        let query = Query { vector: query, k, effort, filter: None, radius: None };
        self.engine.reader().search(&query, scratch, &mut found).expect("answered");
        found.iter().map(|row| row.id).collect()
    }

    /// Share of the answer's rows that are as near as the `k`-th true one; a row that does not live,
    /// comes twice or is missing ends the test.
    fn share(&self, scratch: &mut Scratch, query: &[f32], k: usize, effort: Effort) -> f64 {
        let mut answer = self.ask(scratch, query, k, effort);
        let reach = self.reach(query, k);
        let near = answer.iter().filter(|id| self.distance(query, &self.live[id]) <= reach);
        let near = near.count();
        answer.sort_unstable();
        answer.dedup();
        assert_eq!(answer.len(), k, "{} rows live", self.live.len());
        near as f64 / k as f64
    }
}

#[test]
fn a_search_of_every_leaf_finds_every_row_in_every_shape() {
    for (dimension, metric) in [
        (256, Metric::Cosine),
        (384, Metric::L2),
        (768, Metric::Cosine),
        (256, Metric::InnerProduct),
    ] {
        let shape = Shape::new(dimension, metric, 0.95);
        let mut scratch = Scratch::new();
        let every = Effort::Chosen { probes: ROWS, refine: Some(ROWS) };
        for k in [1, 10, 100, 1000] {
            for effort in [every, Effort::Exact] {
                let queries = &shape.queries[..20];
                let shares = queries.iter().map(|q| shape.share(&mut scratch, q, k, effort));
                let mean = shares.sum::<f64>() / queries.len() as f64;
                // Codes that bound a distance are right but for one row in some thousand.
                let least = if effort == Effort::Exact { 1.0 } else { 0.998 };
                assert!(mean >= least, "{dimension}-d {metric}, k {k}, {effort:?}: {mean}");
            }
        }
    }
}

#[test]
fn automatic_effort_holds_its_target_in_every_shape() {
    for dimension in [256, 384, 768] {
        for k in [1, 10, 100] {
            let shape = Shape::new(dimension, Metric::Cosine, 0.95);
            let (stream, held_out) = shape.queries.split_at(QUERIES / 2);
            let mut scratch = Scratch::new();
            for _ in 0..8 {
                for query in stream {
                    shape.ask(&mut scratch, query, k, Effort::Auto);
                }
                shape.engine.catch_up();
            }
            let shares =
                held_out.iter().map(|query| shape.share(&mut scratch, query, k, Effort::Unaudited));
            let recall = shares.sum::<f64>() / held_out.len() as f64;
            // Half the width of a 99.9 % interval of a mean over 100 queries of such a spread.
            let margin = if k == 1 { 0.07 } else { 0.03 };
            assert!(recall >= 0.95 - margin, "{dimension}-d, k {k}: {recall}");
        }
    }
}
