//! The effect of drift on routing, and of retraining, without a job. Ignored by default, because it
//! needs files:
//!
//! ```text
//! VSTREAM_ROUTE_DRIFT=drift.fbin VSTREAM_ROUTE_QUERIES=query.fbin \
//! cargo test --release -p vstream-route --test it drift -- --ignored --nocapture
//! ```
//!
//! `make data/drift` makes the first file: 30,000 rows at random, then rows cluster by cluster. A
//! second of the stream has 1,800 inserts and 600 deletes of random rows. Rows move at once, so
//! every miss is due to the template and none to a hand-over.

use super::quality::{read_fbin, NEIGHBORS};
use std::collections::HashSet;
use std::path::PathBuf;
use std::time::{Duration, Instant};
use vstream_route::{
    partition_of_shard, EncoderSpec, LiveSample, Rebalance, RetrainSettings, RouteSettings,
    Template,
};
use vstream_vector::{kernels, Metric, Neighbor, SplitMix, TopK};

const PRELOAD: usize = 30_000;
const SAMPLE: usize = 20_000;
const SECONDS: usize = 60;
const INSERTS: usize = 1_800;
const DELETES: usize = 600;
const QUERIES: usize = 200;
const SHARDS: u16 = 128;
const PARALLELISM: u32 = 4;
/// Live rows in the sample of a retraining.
const LIVE: usize = 8_192;
/// Seconds between two retrainings.
const RETRAIN_SECONDS: usize = 4;

/// How the template follows the drift.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Policy {
    Nothing,
    Cells,
    Retrain,
}

/// A second of the stream.
struct Second {
    deletes: Vec<u32>,
    /// The neighbours of each query at the end of the second.
    truth: Vec<u32>,
}

/// The stream, which is the same for every policy.
struct Stream {
    dimension: usize,
    values: Vec<f32>,
    queries: Vec<f32>,
    seconds: Vec<Second>,
}

impl Stream {
    fn new(dimension: usize, values: Vec<f32>, queries: Vec<f32>) -> Stream {
        let mut stream = Stream { dimension, values, queries, seconds: Vec::new() };
        let mut live: Vec<u32> = (0..PRELOAD as u32).collect();
        let mut random = SplitMix(7);
        for second in 0..SECONDS {
            live.extend(stream.inserts(second));
            let deletes =
                (0..DELETES).map(|_| live.swap_remove(random.below(live.len()))).collect();
            let mut truth = Vec::with_capacity(QUERIES * NEIGHBORS);
            let (mut top, mut found) = (TopK::new(NEIGHBORS), Vec::new());
            for query in stream.asked(second) {
                top.reset(NEIGHBORS);
                for &row in &live {
                    let distance = -kernels::inner_product(query, stream.row(row));
                    top.offer(Neighbor { distance, id: u64::from(row), version: 0 });
                }
                top.drain_sorted(&mut found);
                truth.extend(found.iter().map(|n| n.id as u32));
            }
            stream.seconds.push(Second { deletes, truth });
        }
        stream
    }

    fn row(&self, row: u32) -> &[f32] {
        &self.values[row as usize * self.dimension..][..self.dimension]
    }

    fn inserts(&self, second: usize) -> std::ops::Range<u32> {
        let first = (PRELOAD + second * INSERTS) as u32;
        first..first + INSERTS as u32
    }

    fn asked(&self, second: usize) -> impl Iterator<Item = &[f32]> {
        let all = self.queries.chunks_exact(self.dimension);
        all.skip(second * QUERIES % 10_000).take(QUERIES)
    }
}

/// The stored rows of the stream and their codes.
struct Rows<'a> {
    stream: &'a Stream,
    live: Vec<u32>,
    /// Code of each row.
    codes: Vec<u64>,
}

impl Rows<'_> {
    fn insert(&mut self, row: u32, template: &Template) {
        let mut places = Vec::new();
        template.place(0, self.stream.row(row), &mut places).expect("a good row");
        self.codes[row as usize] = places[0].code;
        self.live.push(row);
    }

    fn by_cell(&self, template: &Template) -> Vec<f64> {
        let mut cells = vec![0.0; template.cells()];
        self.live.iter().for_each(|&row| cells[template.cell_of(self.codes[row as usize])] += 1.0);
        cells
    }

    fn partition(&self, template: &Template, row: u32) -> u32 {
        partition_of_shard(template.shard_of(self.codes[row as usize]), SHARDS, PARALLELISM)
    }

    /// Largest number of rows in a partition, divided by the mean.
    fn uneven(&self, template: &Template) -> f64 {
        let mut held = [0usize; PARALLELISM as usize];
        self.live.iter().for_each(|&row| held[self.partition(template, row) as usize] += 1);
        let largest = held.iter().copied().max().unwrap_or(0);
        largest as f64 * f64::from(PARALLELISM) / self.live.len() as f64
    }

    /// Share of the neighbours that the visited partitions hold, and the mean number of these
    /// partitions.
    fn found(&self, template: &Template, second: usize) -> (f64, f64) {
        let (mut found, mut visited, mut out) = (0, 0, Vec::new());
        let truth = self.stream.seconds[second].truth.chunks_exact(NEIGHBORS);
        for (query, truth) in self.stream.asked(second).zip(truth) {
            template.fan_out(query, PARALLELISM, &mut out).expect("a good query");
            visited += out.len();
            let holds = |row: &&u32| out.contains(&self.partition(template, **row));
            found += truth.iter().filter(holds).count();
        }
        (found as f64 / (QUERIES * NEIGHBORS) as f64, visited as f64 / QUERIES as f64)
    }

    fn retrained(&self, template: &Template, recall_target: f32) -> Template {
        let share = LIVE as f64 / self.live.len() as f64;
        let drawn = |row: &&u32| (SplitMix(u64::from(**row)).unit() as f64) < share;
        let drawn: Vec<u32> = self.live.iter().filter(drawn).copied().collect();
        let vectors: Vec<f32> =
            drawn.iter().flat_map(|&row| self.stream.row(row)).copied().collect();
        let codes: Vec<u64> = drawn.iter().map(|&row| self.codes[row as usize]).collect();
        let rows = self.by_cell(template);
        let settings = RetrainSettings { limits: limits(), recall_target, seed: 42 };
        let live = LiveSample { vectors: &vectors, codes: &codes };
        template.retrain(&live, &rows, &rows, &settings).expect("a good sample").template
    }
}

fn limits() -> Rebalance {
    Rebalance { trigger: 1.1, ..Rebalance::new(PARALLELISM) }
}

fn run(stream: &Stream, first: &Template, policy: Policy, recall_target: f32) {
    let codes = vec![0; stream.values.len() / stream.dimension];
    let mut rows = Rows { stream, live: Vec::new(), codes };
    let mut template = first.clone();
    (0..PRELOAD as u32).for_each(|row| rows.insert(row, &template));
    let (mut worst, mut sum, mut visits, mut even) = (1.0f64, 0.0, 0.0, 1.0f64);
    let (mut retrainings, mut learning) = (0, Duration::ZERO);
    for second in 0..SECONDS {
        stream.inserts(second).for_each(|row| rows.insert(row, &template));
        let deletes: HashSet<u32> = stream.seconds[second].deletes.iter().copied().collect();
        rows.live.retain(|row| !deletes.contains(row));
        let (found, fan_out) = rows.found(&template, second);
        (worst, sum, visits) = (worst.min(found), sum + found, visits + fan_out);
        if second >= SECONDS / 2 {
            even = even.max(rows.uneven(&template));
        }
        let held = rows.by_cell(&template);
        if policy == Policy::Retrain && second % RETRAIN_SECONDS == RETRAIN_SECONDS - 1 {
            let began = Instant::now();
            template = rows.retrained(&template, recall_target);
            (retrainings, learning) = (retrainings + 1, learning + began.elapsed());
        } else if policy != Policy::Nothing {
            let plan = template.rebalance(&held, &held, &limits()).expect("good loads");
            template = plan.map_or(template, |plan| plan.template);
        }
    }
    println!(
        "{policy:?}, target {recall_target}: found {:.4}, worst second {worst:.4}, fan-out {:.2}, \
         rows after 30 s at most {even:.2}, {} cells, {retrainings} retrainings in {learning:.1?}",
        sum / SECONDS as f64,
        visits / SECONDS as f64,
        template.cells()
    );
}

#[test]
#[ignore = "needs a data set: see the head of this file"]
fn recall_of_fan_out_under_drift() {
    let path = |name: &str| -> PathBuf {
        std::env::var_os(name).unwrap_or_else(|| panic!("set {name}")).into()
    };
    let (dimension, values) = read_fbin(&path("VSTREAM_ROUTE_DRIFT"), PRELOAD + SECONDS * INSERTS);
    let (_, queries) = read_fbin(&path("VSTREAM_ROUTE_QUERIES"), 10_000);
    let stream = Stream::new(dimension, values, queries);
    for recall_target in [0.98, 0.995] {
        let settings = RouteSettings {
            encoder: EncoderSpec::Cells { cells: 1024, recall_target },
            dimension,
            metric: Metric::Cosine,
            shards: SHARDS,
            seed: 42,
        };
        let sample = &stream.values[..SAMPLE * dimension];
        let first = Template::train(&settings, sample, 1).expect("a sample");
        for policy in [Policy::Nothing, Policy::Cells, Policy::Retrain] {
            run(&stream, &first, policy, recall_target);
        }
    }
}
