//! The quality of training, and samples without any structure.

use super::{cells, clustered, lsh, settings, METRICS};
use crate::{partition_of_shard, Curve, RouteSettings, Template};
use vstream_vector::{kernels, Metric};

/// Queries of a template.
#[derive(Clone, Copy)]
struct Asked<'a> {
    template: &'a Template,
    metric: Metric,
    parallelism: u32,
}

impl Asked<'_> {
    /// Share of the true 10 nearest rows inside the visited partitions, and mean partitions
    /// visited.
    fn quality(self, rows: &[f32], queries: &[f32]) -> (f64, f64) {
        let Asked { template, metric, parallelism } = self;
        let dimension = template.dimension();
        let mut places = Vec::new();
        let partition_of: Vec<u32> = rows
            .chunks_exact(dimension)
            .map(|row| {
                template.place(1, row, &mut places).expect("the row is good");
                partition_of_shard(places[0].shard, template.shards(), parallelism)
            })
            .collect();
        let distance = |a: &[f32], b: &[f32]| match metric {
            Metric::L2 => kernels::l2_squared(a, b),
            Metric::InnerProduct => -kernels::inner_product(a, b),
            Metric::Cosine => -kernels::inner_product(a, b) / kernels::inner_product(b, b).sqrt(),
        };
        let (mut found, mut visited, mut asked) = (0, 0, 0);
        let mut partitions = Vec::new();
        for query in queries.chunks_exact(dimension) {
            let mut order: Vec<(f32, usize)> = rows
                .chunks_exact(dimension)
                .enumerate()
                .map(|(at, row)| (distance(query, row), at))
                .collect();
            order.sort_unstable_by(|a, b| a.0.total_cmp(&b.0));
            template.fan_out(query, parallelism, &mut partitions).expect("the query is good");
            found += order[..10].iter().filter(|n| partitions.contains(&partition_of[n.1])).count();
            visited += partitions.len();
            asked += 1;
        }
        (found as f64 / f64::from(asked * 10), visited as f64 / f64::from(asked))
    }
}

#[test]
fn the_target_is_met_with_a_part_of_the_partitions_under_every_metric() {
    let (sample, rows) = (clustered(4000, 12, 40, 2), clustered(12_000, 12, 40, 3));
    let queries = clustered(300, 12, 40, 4);
    for metric in METRICS {
        let mut last = 0.0;
        for target in [0.8, 0.95] {
            let settings = settings(cells(128, target), metric, 12, 128);
            let template = Template::train(&settings, &sample, 1).expect("the sample is good");
            let at = Asked { template: &template, metric, parallelism: 8 };
            let (found, visited) = at.quality(&rows, &queries);
            println!("{metric} target {target}: found {found:.3}, visited {visited:.2} of 8");
            assert!(found >= f64::from(target) - 0.02, "{metric}: found {found}");
            assert!(visited < 5.0 && visited >= last, "{metric}: visited {visited}");
            last = visited;
        }
        let settings = settings(cells(128, 1.0), metric, 12, 128);
        let template = Template::train(&settings, &sample, 1).expect("the sample is good");
        let at = Asked { template: &template, metric, parallelism: 8 };
        assert_eq!(at.quality(&rows, &queries), (1.0, 8.0), "1 means all");
    }
}

#[test]
fn fresh_rows_are_spread_evenly() {
    let sample = clustered(8000, 12, 40, 2);
    let settings = settings(cells(512, 0.95), Metric::L2, 12, 128);
    let template = Template::train(&settings, &sample, 1).expect("the sample is good");
    let mut counts = [0u32; 8];
    let mut places = Vec::new();
    for row in clustered(40_000, 12, 40, 3).chunks_exact(12) {
        template.place(1, row, &mut places).expect("the row is good");
        counts[partition_of_shard(places[0].shard, 128, 8) as usize] += 1;
    }
    assert!(counts.iter().all(|&c| c < 5750), "max/mean above 1.15: {counts:?}");
}

#[test]
fn the_same_sample_and_seed_make_the_same_template() {
    let sample = clustered(1000, 5, 8, 2);
    let mut settings = settings(cells(32, 0.95), Metric::Cosine, 5, 16);
    let train = |settings: &RouteSettings| {
        Template::train(settings, &sample, 4).expect("the sample is good")
    };
    let first = train(&settings);
    assert_eq!(first.to_bytes(), train(&settings).to_bytes());
    assert_eq!(first.epoch(), 4);
    settings.seed += 1;
    assert_ne!(first.to_bytes(), train(&settings).to_bytes());
}

#[test]
fn samples_without_structure_make_templates_that_work() {
    let rows = 400;
    let spread: Vec<f32> = clustered(rows, 2, 3, 5);
    let huge: Vec<f32> = spread.iter().map(|x| (x * 1e38).clamp(-3e38, 3e38)).collect();
    let tiny: Vec<f32> = spread.iter().map(|x| x * 1e-30).collect();
    let samples = [
        ("equal rows", [1.0, 2.0].repeat(rows)),
        ("two rows", [[1.0, 2.0].repeat(rows / 2), [3.0, -1.0].repeat(rows / 2)].concat()),
        ("huge", huge),
        ("tiny", tiny),
    ];
    for (name, sample) in &samples {
        for metric in METRICS {
            for (count, shards) in [(1, 1), (1, 4), (3, 128), (50, 4), (50, 128)] {
                let settings = settings(cells(count, 0.95), metric, 2, shards);
                let template = Template::train(&settings, sample, 1)
                    .unwrap_or_else(|e| panic!("{name} {metric} {count}: {e}"));
                let read = Template::from_bytes(&template.to_bytes());
                assert_eq!(read.as_ref(), Ok(&template), "{name} {metric} {count}");
                let (mut places, mut partitions) = (Vec::new(), Vec::new());
                for row in sample.chunks_exact(2) {
                    template.place(1, row, &mut places).expect("the row is good");
                    template.fan_out(row, 1, &mut partitions).expect("the query is good");
                    assert_eq!(partitions, [0]);
                    let all = u32::from(shards);
                    template.fan_out(row, all, &mut partitions).expect("the query is good");
                    assert!(partitions.iter().all(|&p| p < all));
                    if metric != Metric::InnerProduct {
                        assert!(partitions.contains(&u32::from(places[0].shard)), "{name}");
                    }
                }
            }
        }
    }
}

/// Rows around many small groups of centres, as word vectors lie: one centre per shard and more.
const MANY_CENTRES: usize = 600;

#[test]
fn templates_of_many_shards_are_read_back_and_follow_the_rule_of_flink() {
    let sample = clustered(8_400, 8, MANY_CENTRES, 2);
    for shards in [1024, 4096] {
        let settings = settings(cells(1024, 0.95), Metric::L2, 8, shards);
        let template = Template::train(&settings, &sample, 1).expect("the sample is good");
        assert_eq!(template.shards(), shards);
        assert_eq!(Template::from_bytes(&template.to_bytes()).as_ref(), Ok(&template));
        let (mut places, mut partitions) = (Vec::new(), Vec::new());
        let mut seen = vec![false; usize::from(shards)];
        for row in sample.chunks_exact(8).take(2_000) {
            template.place(1, row, &mut places).expect("the row is good");
            let shard = places[0].shard;
            assert_eq!(template.shard_of(places[0].code), shard);
            seen[usize::from(shard)] = true;
            for parallelism in [1, 127, 200, 300, u32::from(shards)] {
                let own = u32::from(shard) * parallelism / u32::from(shards);
                assert_eq!(partition_of_shard(shard, shards, parallelism), own);
                template.fan_out(row, parallelism, &mut partitions).expect("the query is good");
                assert!(partitions.contains(&own), "a row finds itself");
                assert!(partitions.iter().all(|&partition| partition < parallelism));
            }
        }
        assert!(seen[256..].contains(&true), "a shard beyond a byte is used");
        let used = seen.iter().filter(|&&used| used).count();
        assert!(used > 500, "{used} of {shards} shards are used");
        let above = u32::from(shards) + 1;
        let error = template.fan_out(&sample[..8], above, &mut partitions).unwrap_err();
        assert!(error.message().contains(&format!("number of shards, {shards}")), "{error}");
    }
}

#[test]
fn the_target_is_met_at_hundreds_of_partitions() {
    let (sample, rows) =
        (clustered(8_400, 8, MANY_CENTRES, 2), clustered(20_000, 8, MANY_CENTRES, 3));
    let queries = clustered(200, 8, MANY_CENTRES, 4);
    for shards in [1024, 4096] {
        let settings = settings(cells(1024, 0.95), Metric::L2, 8, shards);
        let template = Template::train(&settings, &sample, 1).expect("the sample is good");
        // 200 and 300 are between calibrated parallelisms, 256 and all shards are such.
        for parallelism in [200, 256, 300, u32::from(shards)] {
            let at = Asked { template: &template, metric: Metric::L2, parallelism };
            let (found, visited) = at.quality(&rows, &queries);
            println!("{shards} shards, {parallelism}: found {found:.3}, visited {visited:.2}");
            assert!(found >= 0.95 - 0.02, "{shards} shards, {parallelism}: found {found}");
            assert!(visited < f64::from(parallelism) / 3.0, "visited {visited}");
        }
    }
}

#[test]
fn lsh_cuts_its_line_into_many_shards() {
    let sample = clustered(5_000, 8, MANY_CENTRES, 2);
    for shards in [1024, 4096] {
        let settings = settings(lsh(Curve::Hilbert, 1), Metric::L2, 8, shards);
        let template = Template::train(&settings, &sample, 1).expect("the sample is good");
        assert_eq!(Template::from_bytes(&template.to_bytes()).as_ref(), Ok(&template));
        let mut places = Vec::new();
        let largest = sample.chunks_exact(8).map(|row| {
            template.place(1, row, &mut places).expect("the row is good");
            places[0].shard
        });
        assert!(largest.max() > Some(shards / 2));
        let error = Template::train(&settings, &sample[..8 * 1000], 1).unwrap_err();
        assert!(error.message().contains(&format!("{shards} shards need at least one")), "{error}");
    }
}
