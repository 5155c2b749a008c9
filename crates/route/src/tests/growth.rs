//! Cells that are split and retrained while a stream drifts.

use super::{cells, clustered, settings, templates, METRICS};
use crate::template::Encoder;
use crate::{partition_of_shard, LiveSample, Rebalance, RetrainSettings, RouteErrorKind, Template};
use proptest::prelude::*;
use vstream_vector::{kernels, Metric, SplitMix};

const DIMENSION: usize = 4;
const CELLS: usize = 8;
const SHARDS: u16 = 32;
const PARALLELISM: u32 = 4;

/// Rows as a job stores them: each with the code that the template of its time gave it.
struct Stored {
    vectors: Vec<f32>,
    codes: Vec<u64>,
}

impl Stored {
    fn push(&mut self, template: &Template, vectors: &[f32]) {
        let mut places = Vec::new();
        for vector in vectors.chunks_exact(DIMENSION) {
            template.place(0, vector, &mut places).expect("a good row");
            self.codes.push(places[0].code);
        }
        self.vectors.extend_from_slice(vectors);
    }

    fn loads(&self, template: &Template) -> Vec<f64> {
        let mut loads = vec![0.0; template.cells()];
        self.codes.iter().for_each(|&code| loads[template.cell_of(code)] += 1.0);
        loads
    }

    fn partition(&self, template: &Template, row: usize, parallelism: u32) -> u32 {
        partition_of_shard(template.shard_of(self.codes[row]), SHARDS, parallelism)
    }

    fn uneven(&self, template: &Template) -> f64 {
        let mut held = [0.0f64; PARALLELISM as usize];
        for row in 0..self.codes.len() {
            held[self.partition(template, row, PARALLELISM) as usize] += 1.0;
        }
        let largest = held.iter().copied().fold(0.0, f64::max);
        largest * f64::from(PARALLELISM) / self.codes.len() as f64
    }

    fn retrain(&self, template: &Template, seed: u64) -> Template {
        let loads = self.loads(template);
        let live = LiveSample { vectors: &self.vectors, codes: &self.codes };
        template
            .retrain(&live, &loads, &loads, &retrain_settings(seed))
            .expect("good rows")
            .template
    }
}

fn retrain_settings(seed: u64) -> RetrainSettings {
    let limits = Rebalance { moved_max: 1.0, ..Rebalance::new(PARALLELISM) };
    RetrainSettings { limits, recall_target: 0.95, seed }
}

fn first(metric: Metric, seed: u64) -> (Template, Stored) {
    let sample = clustered(400, DIMENSION, 6, seed);
    let template =
        Template::train(&settings(cells(CELLS, 0.95), metric, DIMENSION, SHARDS), &sample, 1)
            .expect("the sample is good");
    let mut stored = Stored { vectors: Vec::new(), codes: Vec::new() };
    stored.push(&template, &sample);
    (template, stored)
}

/// Rows of one narrow cluster, to which the stream drifts.
fn narrow(rows: usize, at: &[f32], random: &mut SplitMix) -> Vec<f32> {
    (0..rows)
        .flat_map(|_| at.iter().map(|x| x + 0.4 * random.normal()).collect::<Vec<_>>())
        .collect()
}

fn roots(template: &Template) -> usize {
    match &template.inner.encoder {
        Encoder::Cells(cells) => cells.root_count(),
        _ => 0,
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    #[test]
    fn rows_of_every_epoch_stay_in_their_root_cell_and_are_found_by_themselves(
        seed in any::<u64>(),
        metric in 0usize..2,
        hot in 0usize..400,
    ) {
        let (mut template, mut stored) = first(METRICS[metric], seed);
        let mut random = SplitMix(seed);
        let trained = roots(&template);
        for round in 0..3 {
            let at = stored.vectors[hot * DIMENSION..][..DIMENSION].to_vec();
            stored.push(&template, &narrow(500, &at, &mut random));
            let older = template.clone();
            template = stored.retrain(&older, round);
            prop_assert_eq!(template.epoch(), older.epoch() + 1);
            prop_assert!(template.cells() >= older.cells());
            prop_assert_eq!(roots(&template), trained);
            let bytes = template.to_bytes();
            prop_assert_eq!(&Template::from_bytes(&bytes).expect("its own bytes"), &template);
            let moves = template.moves_since(&older);
            let (mut places, mut visits) = (Vec::new(), Vec::new());
            let step = 64 - CELLS.trailing_zeros();
            for (row, vector) in stored.vectors.chunks_exact(DIMENSION).enumerate() {
                let code = stored.codes[row];
                template.place(0, vector, &mut places).expect("a good row");
                prop_assert_eq!(places[0].code >> step, code >> step, "another root cell");
                prop_assert_eq!(places[0].shard, template.shard_of(places[0].code));
                let hit = moves.iter().find(|m| m.first <= code && code <= m.last);
                prop_assert_eq!(
                    hit.map_or(older.shard_of(code), |hit| hit.to),
                    template.shard_of(code)
                );
                for parallelism in [1, 3, PARALLELISM, u32::from(SHARDS)] {
                    template.fan_out(vector, parallelism, &mut visits).expect("a good query");
                    prop_assert!(visits.contains(&stored.partition(&template, row, parallelism)));
                }
            }
        }
        prop_assert!(template.cells() > trained, "nothing was split");
    }
}

#[test]
fn a_drift_into_one_cell_is_spread_and_its_neighbours_are_found() {
    for metric in METRICS {
        let (mut template, mut stored) = first(metric, 3);
        let mut random = SplitMix(17);
        let at = stored.vectors[..DIMENSION].to_vec();
        let mut still = 0.0;
        for round in 0..8 {
            stored.push(&template, &narrow(300, &at, &mut random));
            let loads = stored.loads(&template);
            still = loads.iter().copied().fold(0.0, f64::max) / loads.iter().sum::<f64>();
            template = stored.retrain(&template, round);
        }
        // One root cell has most of the rows. As a single cell it would overfill any partition.
        assert!(template.cells() > CELLS + 3, "{metric}: {} cells", template.cells());
        assert!(still < 0.35, "{metric}: a cell has {still} of all rows");
        assert!(stored.uneven(&template) < 1.35, "{metric}: {}", stored.uneven(&template));
        let (mut found, mut out) = (0, Vec::new());
        let queries = narrow(200, &at, &mut random);
        for query in queries.chunks_exact(DIMENSION) {
            template.fan_out(query, PARALLELISM, &mut out).expect("a good query");
            let mut near: Vec<(f32, usize)> = stored
                .vectors
                .chunks_exact(DIMENSION)
                .enumerate()
                .map(|(row, vector)| (distance(metric, query, vector), row))
                .collect();
            near.sort_unstable_by(|a, b| a.0.total_cmp(&b.0));
            let holds = |row: usize| out.contains(&stored.partition(&template, row, PARALLELISM));
            found += near[..10].iter().filter(|near| holds(near.1)).count();
        }
        assert!(found >= 1_860, "{metric}: {found} of 2,000");
    }
}

fn distance(metric: Metric, a: &[f32], b: &[f32]) -> f32 {
    let norm = |v: &[f32]| kernels::inner_product(v, v).sqrt();
    match metric {
        Metric::L2 => kernels::l2_squared(a, b),
        Metric::Cosine => -kernels::inner_product(a, b) / norm(b),
        Metric::InnerProduct => -kernels::inner_product(a, b),
    }
}

#[test]
fn the_same_rows_and_seed_make_the_same_template() {
    let (template, mut stored) = first(Metric::L2, 5);
    let at = stored.vectors[..DIMENSION].to_vec();
    stored.push(&template, &narrow(900, &at, &mut SplitMix(2)));
    assert_eq!(stored.retrain(&template, 4).to_bytes(), stored.retrain(&template, 4).to_bytes());
}

#[test]
fn an_interval_is_halved_until_its_load_could_not_be_told_any_more() {
    let (mut template, mut stored) = first(Metric::L2, 9);
    let mut random = SplitMix(1);
    let at = stored.vectors[..DIMENSION].to_vec();
    for round in 0..14 {
        stored.push(&template, &narrow(200, &at, &mut random));
        template = stored.retrain(&template, round);
    }
    let Encoder::Cells(cells) = &template.inner.encoder else { panic!("cells") };
    let codes = 1u64 << 52;
    assert!(cells.starts.iter().all(|start| start % codes == 0), "a bucket in two cells");
    assert!(cells.starts.windows(2).all(|pair| pair[0] < pair[1]));
}

#[test]
fn what_cannot_be_learned_from_is_refused_and_changes_nothing() {
    let (template, stored) = first(Metric::Cosine, 2);
    let before = template.to_bytes();
    let loads = stored.loads(&template);
    let refused =
        |template: &Template, vectors: &[f32], codes: &[u64], settings: &RetrainSettings| {
            let loads = vec![1.0; template.cells()];
            let live = LiveSample { vectors, codes };
            let error =
                template.retrain(&live, &loads, &loads, settings).expect_err("it cannot be");
            assert_eq!(error.kind(), RouteErrorKind::Invalid, "{error}");
        };
    let Stored { vectors, codes } = &stored;
    let good = retrain_settings(1);
    refused(&template, &vectors[1..], codes, &good);
    refused(&template, &[], &[], &good);
    let few = 2 * CELLS - 1;
    refused(&template, &vectors[..few * DIMENSION], &codes[..few], &good);
    for bad in [f32::NAN, f32::INFINITY] {
        let mut vectors = vectors.clone();
        vectors[77] = bad;
        refused(&template, &vectors, codes, &good);
    }
    let mut zero = vectors.clone();
    zero[..DIMENSION].fill(0.0);
    refused(&template, &zero, codes, &good);
    for recall_target in [0.0, -1.0, 1.5, f32::NAN] {
        refused(&template, vectors, codes, &RetrainSettings { recall_target, ..good });
    }
    let nowhere = RetrainSettings { limits: Rebalance::new(0), ..good };
    refused(&template, vectors, codes, &nowhere);
    let live = LiveSample { vectors, codes };
    assert!(template.retrain(&live, &loads[1..], &loads, &good).is_err());
    assert_eq!(template.to_bytes(), before);
    for (name, other) in templates().iter().filter(|(_, t)| t.cells() == 0) {
        let vectors = vec![0.5; 3 * 100];
        let live = LiveSample { vectors: &vectors, codes: &[0; 100] };
        assert!(other.retrain(&live, &[], &[], &good).is_err(), "{name}");
    }
}
