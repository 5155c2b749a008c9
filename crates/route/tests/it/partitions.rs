//! How the fan-out grows with the partitions, on real vectors. Ignored by default, because it needs
//! the files that `quality.rs` names:
//!
//! ```text
//! VSTREAM_ROUTE_BASE=data/glove100/base.fbin VSTREAM_ROUTE_QUERIES=data/glove100/query.fbin \
//!     cargo test --release -p vstream-route --test it partitions -- --ignored --nocapture
//! ```
//!
//! `docs/design/scale.md` extrapolates from this table.
//!
//! A second table compares templates with more shards (`docs/design/route.md`).

use crate::quality::{load, measure, places, Data};
use std::time::Instant;
use vstream_route::{EncoderSpec, Placement, RouteSettings, Template};
use vstream_vector::Metric;

const PARALLELISMS: [u32; 7] = [4, 8, 16, 32, 64, 128, 256];

/// Shards of these templates.
const SHARDS: u16 = 256;

/// Cells of the template, and rows of its sample.
const TEMPLATES: [(usize, usize); 3] = [(1024, 20_000), (4096, 40_000), (4096, 100_000)];

#[test]
#[ignore = "needs a data set: see the head of this file"]
fn table_of_partitions_on_real_vectors() {
    let data = load();
    for (cells, sample_rows) in TEMPLATES {
        let template = trained(&data, SHARDS, (cells, sample_rows));
        let start = Instant::now();
        let places = places(&template, &data);
        println!("  place {:.1?} each", start.elapsed() / places.len() as u32);
        for parallelism in PARALLELISMS {
            holds_the_target(&template, &data, &places, parallelism);
        }
    }
}

/// Trains a template, and prints its time and size.
fn trained(data: &Data, shards: u16, (cells, sample_rows): (usize, usize)) -> Template {
    let settings = RouteSettings {
        encoder: EncoderSpec::Cells { cells, recall_target: 0.98 },
        dimension: data.dimension,
        metric: Metric::Cosine,
        shards,
        seed: 42,
    };
    let start = Instant::now();
    let sample = &data.base[..sample_rows * data.dimension];
    let template = Template::train(&settings, sample, 1).expect("the sample is good");
    let (took, bytes) = (start.elapsed(), template.to_bytes().len());
    println!("{shards} shards, {cells} cells, {sample_rows} rows: {took:.1?}, {bytes} bytes");
    template
}

/// Routes the queries, and prints what it found and cost.
fn holds_the_target(template: &Template, data: &Data, places: &[Vec<Placement>], parallelism: u32) {
    let start = Instant::now();
    let seen = measure(template, data, places, parallelism);
    println!(
        "  {parallelism:4} partitions: found {:.3}, fan-out {:.2}, max/mean {:.2}, \
         {:.0?} for a thousand queries",
        seen.found,
        seen.fan_out,
        seen.balance,
        start.elapsed()
    );
    assert!(seen.found >= 0.97, "the target is missed by more than a hundredth");
}

/// Shards of the templates that are compared.
const COMPARED: [u16; 3] = [128, 1024, 4096];

/// What the number of shards costs. Run it as the table above, with `table_of_shards` in place of
/// `table_of_partitions`.
#[test]
#[ignore = "needs a data set: see the head of this file"]
fn table_of_shards_on_real_vectors() {
    let data = load();
    for (shards, (cells, sample_rows)) in COMPARED
        .into_iter()
        .flat_map(|shards| [(shards, (1024, 20_000)), (shards, (4096, 100_000))])
    {
        let template = trained(&data, shards, (cells, sample_rows));
        let places = places(&template, &data);
        // Those of 200, 300 and 1,000 are not calibrated.
        for parallelism in [16, 64, 128, 200, 256, 300, 1000, 1024] {
            if parallelism > u32::from(shards) {
                continue;
            }
            holds_the_target(&template, &data, &places, parallelism);
        }
    }
}
