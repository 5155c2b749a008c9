//! The recall of routing on real word vectors, a set that is small enough for the repository.
//!
//! `fixtures/words100.i8` holds 500 queries, then 9,000 rows of GloVe 6B (public domain, PDDL 1.0)
//! with 100 numbers. Each row is scaled to 127 at most and rounded. `quality.rs` uses the whole
//! data set.

use vstream_route::{EncoderSpec, RouteSettings, Template};
use vstream_vector::Metric;

use crate::quality::{measure, normalise, places, with_truth, Data};

const DIMENSION: usize = 100;
const QUERIES: usize = 500;
/// Rows that the template is trained on.
const SAMPLE: usize = 4_000;

fn words() -> Data {
    let bytes = include_bytes!("../fixtures/words100.i8");
    let mut values: Vec<f32> = bytes.iter().map(|&byte| f32::from(byte as i8)).collect();
    normalise(&mut values, DIMENSION);
    let base = values.split_off(QUERIES * DIMENSION);
    with_truth(DIMENSION, base, values)
}

#[test]
fn cells_find_their_target_on_real_vectors_and_visit_few_partitions() {
    let data = words();
    for (recall_target, visited_max) in [(0.9, 0.55), (0.98, 0.75)] {
        let settings = RouteSettings {
            encoder: EncoderSpec::Cells { cells: 128, recall_target },
            dimension: DIMENSION,
            metric: Metric::Cosine,
            shards: 128,
            seed: 42,
        };
        let sample = &data.base[..SAMPLE * DIMENSION];
        let template = Template::train(&settings, sample, 1).expect("a good sample");
        let places = places(&template, &data);
        for parallelism in [2, 4, 8, 16] {
            let seen = measure(&template, &data, &places, parallelism);
            let (found, fan_out, balance) = (seen.found, seen.fan_out, seen.balance);
            let about = format!("target {recall_target}, {parallelism} partitions");
            assert!(found >= f64::from(recall_target) - 0.01, "{about}: found {found}");
            let visited = fan_out / f64::from(parallelism);
            assert!(visited <= visited_max, "{about}: visits {fan_out}");
            assert!(balance <= 1.25, "{about}: fullest over mean {balance}");
        }
    }
}
