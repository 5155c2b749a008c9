//! The model against values by hand, against the real router, and against itself.

use vstream_route::{EncoderSpec, RouteSettings, Template};
use vstream_vector::{Metric, SplitMix};

use super::deployment::{Deployment, GBIT};
use super::fan_out::{fan_out, MEASURED};
use super::slowest::waits;
use super::{load, report, sizes, walls};

/// How far two measurements of a fan-out may be apart: other shards move it by up to a tenth.
const MARGIN: f64 = 0.1;

fn near(one: f64, other: f64, share: f64) -> bool {
    (one - other).abs() <= share * other.abs()
}

#[test]
fn fan_out_agrees_with_the_table_of_routing() {
    for (partitions, measured) in [(4, 1.89), (8, 3.17), (16, 5.86)] {
        assert!(near(fan_out(partitions), measured, MARGIN), "{partitions} partitions");
    }
    for (partitions, measured) in MEASURED {
        assert!(near(fan_out(partitions), measured, 1e-9), "{partitions} partitions");
    }
}

#[test]
fn fan_out_grows_and_never_exceeds_the_partitions() {
    let mut before = 0.0;
    for partitions in 1..5_000 {
        let visited = fan_out(partitions);
        assert!(visited > before && visited <= partitions as f64, "{partitions} partitions");
        before = visited;
    }
}

#[test]
fn sizes_are_those_that_the_serialisers_write() {
    let job = Deployment { k: 10, dimension: 100, source_partitions: 4, ..Deployment::of(4, 1e6) };
    // Each begins with 5 bytes of Flink; a vector has 404, a ticket 33, ten rows 204.
    assert_eq!(sizes::record(&job), 5 + 9 + 404);
    assert_eq!(sizes::write(&job), 5 + 26 + 404);
    assert_eq!(sizes::query(&job), 5 + 33 + 404 + 1);
    assert_eq!(sizes::copy(&job), 5 + 3 + 33 + 5 + 404 + 2);
    assert_eq!(sizes::partial(&job, 4), 5 + 33 + 4 + 204 + 44 + 4 + 1);
    assert_eq!(sizes::mark(4), 5 + 26 + 36);
    assert_eq!(sizes::gathering(&job, 2.0), f64::from(33 + 2 + 8 + 16 + 4 + 1 + 44 + 1 + 2 * 204));
}

#[test]
fn a_small_job_carries_what_one_counts_by_hand() {
    let job = Deployment {
        queries_per_s: 100.0,
        writes_per_s: 1_000.0,
        source_partitions: 2,
        ..Deployment::of(4, 1e6)
    };
    // Four place tasks send four partitions ten marks per second, each of 35 + 16 bytes.
    let marks = load::hops(&job)[5];
    assert_eq!((marks.messages, marks.bytes), (160.0, 160.0 * 51.0));
    assert_eq!(load::marks_bytes(&job), 40.0 * 51.0);
    // Each of 40 marks has two offsets.
    assert!(near(load::minimum_cores(&job), 40.0 * 2.0 * 27e-9, 1e-9));
    assert!(near(load::hops(&job)[3].messages, 192.0, 1e-9));
    assert_eq!(load::memory_bytes(&job), 250_000.0 * 619.0);
    assert!(near(load::restore_same_s(&job, 1e6), 3.0 + 114.5, 1e-9));
    assert_eq!(load::acks(&job), 32.0);
}

#[test]
fn a_restore_takes_what_it_took() {
    // 17.9 to 21.0 s for a million rows, into four partitions that share two cores.
    let two = Deployment::of(2, 1e6);
    let restored = load::restore_other_s(&two, 10.0 * GBIT);
    assert!((15.0..=21.0).contains(&restored), "{restored} s");
}

#[test]
fn a_checkpoint_uploads_what_it_uploaded() {
    // 10.5 MB for 10,000 upserts and deletes in two partitions.
    let job = Deployment { writes_per_s: 2_000.0, checkpoint_s: 5.0, ..Deployment::of(2, 1e6) };
    assert!(near(load::upload_bytes(&job), 10.5e6, MARGIN), "{}", load::upload_bytes(&job));
}

#[test]
fn a_template_has_as_many_bytes_as_the_router_writes() {
    let (dimension, cells, rows) = (16, 64, 4_000);
    let mut random = SplitMix(7);
    let sample: Vec<f32> = (0..rows * dimension).map(|_| random.normal()).collect();
    for shards in [16, 64] {
        let settings = RouteSettings {
            encoder: EncoderSpec::Cells { cells, recall_target: 0.98 },
            dimension,
            metric: Metric::Cosine,
            shards,
            seed: 42,
        };
        let template = Template::train(&settings, &sample, 1).expect("the sample is good");
        let bytes = template.to_bytes().len() as f64;
        let modelled = sizes::template(cells as u64, dimension as u64, u64::from(shards));
        // The number of neighbours that a cell counts depends on the data.
        assert!(near(modelled as f64, bytes, 0.25), "{modelled} instead of {bytes}");
    }
    // The template of GloVe, with 1,024 cells and 256 shards.
    assert!(near(sizes::template(1024, 100, 256) as f64, 936_108.0, 0.01));
}

#[test]
fn growing_loads_grow_and_falling_loads_fall() {
    for step in 0..16 {
        let (fewer, more) = (Deployment::of(1 << step, 1e9), Deployment::of(2 << step, 1e9));
        for wall in walls::growing() {
            assert!((wall.load)(&fewer) < (wall.load)(&more), "{} at {}", wall.part, 1 << step);
        }
        for wall in walls::falling() {
            assert!((wall.load)(&fewer) > (wall.load)(&more), "{} at {}", wall.part, 1 << step);
        }
    }
}

#[test]
fn a_wall_is_the_first_number_above_the_limit() {
    for wall in walls::growing() {
        let at = wall.met_at(|p| Deployment::of(p, 1e9)).expect("all meet a limit");
        assert!((wall.load)(&Deployment::of(at, 1e9)) > wall.limit, "{}", wall.part);
        assert!((wall.load)(&Deployment::of(at - 1, 1e9)) <= wall.limit, "{}", wall.part);
    }
    let shards = walls::growing()[0];
    assert_eq!(shards.met_at(|p| Deployment::of(p, 1e9)), Some(4_097));
}

#[test]
fn the_slowest_of_many_is_slower_and_a_seed_repeats_it() {
    let (one, many) = (waits(1.0, 4_000, 1), waits(55.0, 4_000, 1));
    assert!(near(one.p50, 2.4, 0.05) && near(one.p99, 4.5, 0.1), "{one:?}");
    assert!(many.p50 > one.p50 && many.p99 > one.p99, "{many:?}");
    assert_eq!(many, waits(55.0, 4_000, 1));
    assert_eq!(report::tables(3), report::tables(3));
}

#[test]
fn the_page_has_the_tables_that_the_model_prints() {
    let page = include_str!("../../../../docs/design/scale.md");
    for line in report::tables(42).lines().filter(|line| line.starts_with('|')) {
        assert!(page.lines().any(|other| other == line), "docs/design/scale.md lacks {line}");
    }
}
