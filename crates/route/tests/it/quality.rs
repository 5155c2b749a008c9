//! The cost and recall of routing on real vectors. Ignored by default, because it needs a file:
//!
//! ```text
//! VSTREAM_ROUTE_BASE=base.fbin VSTREAM_ROUTE_QUERIES=query.fbin \
//!     cargo test --release -p vstream-route --test it -- --ignored --nocapture
//! ```
//!
//! Both files are `.fbin` (u32 rows, u32 dimension, rows of f32); queries must not be rows of the
//! base. The first 20,000 rows are the training sample; all of the first 200,000 are placed.

use std::path::Path;
use std::time::Instant;
use vstream_route::{partition_of_shard, Curve, EncoderSpec, Placement, RouteSettings, Template};
use vstream_vector::{kernels, Metric, Neighbor, TopK};

const SAMPLE_ROWS: usize = 20_000;
const BASE_ROWS: usize = 200_000;
const QUERIES: usize = 1_000;
pub(super) const NEIGHBORS: usize = 10;
const PARALLELISMS: [u32; 4] = [2, 4, 8, 16];

pub(super) struct Data {
    pub(super) dimension: usize,
    pub(super) base: Vec<f32>,
    pub(super) queries: Vec<f32>,
    truth: Vec<Vec<u64>>,
}

/// The measurement at one parallelism.
pub(super) struct Seen {
    pub(super) found: f64,
    pub(super) fan_out: f64,
    copies: f64,
    pub(super) balance: f64,
}

#[test]
#[ignore = "needs a data set: see the head of this file"]
fn table_of_encoders_on_real_vectors() {
    let data = load();
    let cells = |cells, recall_target| EncoderSpec::Cells { cells, recall_target };
    let lsh = |families| {
        let curve = Curve::Hilbert;
        EncoderSpec::Lsh { curve, families, hashes: 10, width: 0.05, bits: 7 }
    };
    for encoder in [cells(256, 0.98), cells(1024, 0.95), cells(1024, 0.98), lsh(1), lsh(8)] {
        let settings = RouteSettings {
            encoder,
            dimension: data.dimension,
            metric: Metric::Cosine,
            shards: 128,
            seed: 42,
        };
        let start = Instant::now();
        let sample = &data.base[..SAMPLE_ROWS * data.dimension];
        let template = Template::train(&settings, sample, 1).expect("the sample is good");
        println!("{:?}", settings.encoder);
        println!("  trained in {:.2?}, {} bytes", start.elapsed(), template.to_bytes().len());
        let start = Instant::now();
        let places = places(&template, &data);
        println!("  place {:.1?} each", start.elapsed() / BASE_ROWS as u32);
        for parallelism in PARALLELISMS {
            let seen = measure(&template, &data, &places, parallelism);
            println!(
                "  {parallelism:2} partitions: found {:.4}, fan-out {:.2}, copies {:.2}, max/mean {:.3}",
                seen.found, seen.fan_out, seen.copies, seen.balance
            );
            if matches!(settings.encoder, EncoderSpec::Cells { cells: 1024, recall_target } if recall_target == 0.98)
            {
                assert!(seen.found >= 0.98);
                assert!(seen.balance <= 1.15);
                assert!(parallelism != 4 || seen.fan_out < 3.0);
            }
        }
        let start = Instant::now();
        let mut out = Vec::new();
        for query in data.queries.chunks_exact(data.dimension) {
            template.fan_out(query, 16, &mut out).expect("the query is good");
        }
        println!("  fan-out {:.1?} each", start.elapsed() / QUERIES as u32);
    }
}

pub(super) fn places(template: &Template, data: &Data) -> Vec<Vec<Placement>> {
    let rows = data.base.chunks_exact(data.dimension).enumerate();
    rows.map(|(id, row)| {
        let mut out = Vec::new();
        template.place(id as u64, row, &mut out).expect("the row is good");
        out
    })
    .collect()
}

pub(super) fn measure(
    template: &Template,
    data: &Data,
    places: &[Vec<Placement>],
    parallelism: u32,
) -> Seen {
    let shards = template.shards();
    let partitions = |places: &[Placement]| -> Vec<u32> {
        let of = |place: &Placement| partition_of_shard(place.shard, shards, parallelism);
        let mut partitions: Vec<u32> = places.iter().map(of).collect();
        partitions.sort_unstable();
        partitions.dedup();
        partitions
    };
    let mut loads = vec![0usize; parallelism as usize];
    places.iter().flat_map(|p| partitions(p)).for_each(|p| loads[p as usize] += 1);
    let copies: usize = loads.iter().sum();
    let (mut found, mut visited) = (0, 0);
    let mut out = Vec::new();
    for (query, truth) in data.queries.chunks_exact(data.dimension).zip(&data.truth) {
        template.fan_out(query, parallelism, &mut out).expect("the query is good");
        visited += out.len();
        let holds = |id: &&u64| partitions(&places[**id as usize]).iter().any(|p| out.contains(p));
        found += truth.iter().filter(holds).count();
    }
    let queries = data.truth.len();
    let largest = loads.iter().copied().max().unwrap_or(0);
    Seen {
        found: found as f64 / (queries * NEIGHBORS) as f64,
        fan_out: visited as f64 / queries as f64,
        copies: copies as f64 / places.len() as f64,
        balance: largest as f64 * f64::from(parallelism) / copies as f64,
    }
}

pub(super) fn load() -> Data {
    let path = |name: &str| std::env::var(name).unwrap_or_else(|_| panic!("set {name}"));
    let (dimension, base) = read_fbin(path("VSTREAM_ROUTE_BASE").as_ref(), BASE_ROWS);
    let (same, queries) = read_fbin(path("VSTREAM_ROUTE_QUERIES").as_ref(), QUERIES);
    assert_eq!(dimension, same, "base and queries differ in dimension");
    with_truth(dimension, base, queries)
}

/// Adds the true neighbours of each query; rows and queries have length 1.
pub(super) fn with_truth(dimension: usize, base: Vec<f32>, queries: Vec<f32>) -> Data {
    let mut top = TopK::new(NEIGHBORS);
    let truth = queries.chunks_exact(dimension).map(|query| {
        top.reset(NEIGHBORS);
        for (id, row) in base.chunks_exact(dimension).enumerate() {
            let distance = -kernels::inner_product(query, row);
            top.offer(Neighbor { distance, id: id as u64, version: 0 });
        }
        let mut found = Vec::new();
        top.drain_sorted(&mut found);
        found.iter().map(|n| n.id).collect()
    });
    let truth = truth.collect();
    Data { dimension, base, queries, truth }
}

/// The first `rows` rows, at length 1.
pub(super) fn read_fbin(path: &Path, rows: usize) -> (usize, Vec<f32>) {
    let bytes = std::fs::read(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    let number = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().expect("4 bytes"));
    let dimension = number(4) as usize;
    assert!(number(0) as usize >= rows, "{} has too few rows", path.display());
    let values = bytes[8..][..rows * dimension * 4].chunks_exact(4);
    let mut out: Vec<f32> =
        values.map(|b| f32::from_le_bytes(b.try_into().expect("4 bytes"))).collect();
    normalise(&mut out, dimension);
    (dimension, out)
}

pub(super) fn normalise(rows: &mut [f32], dimension: usize) {
    for row in rows.chunks_exact_mut(dimension) {
        let norm = kernels::inner_product(row, row).sqrt();
        row.iter_mut().for_each(|x| *x /= norm);
    }
}
