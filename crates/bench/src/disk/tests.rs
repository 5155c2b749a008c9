//! Plans, truth and the arithmetic, each against a direct computation; a small run end to end.

use std::collections::HashSet;
use std::path::Path;

use serde_json::{json, Value};
use vstream_engine::{Element, Neighbor, SegmentIndex};
use vstream_store::{FileStore, Syncing};
use vstream_vector::{kernels, SplitMix};

use super::forms::{at_recall, FormsRun, Point};
use super::larger::LargerSettings;
use super::updates::UpdatesSettings;
use super::*;
use crate::runbook::Matrix;

const DIMENSION: usize = 64;

/// Whole numbers around 40 centres.
fn points(rows: usize, seed: u64) -> Matrix {
    let mut centres = SplitMix(1);
    let centres: Vec<f32> = (0..40 * DIMENSION).map(|_| centres.unit() * 150.0).collect();
    let mut random = SplitMix(seed);
    let row = |_| {
        let centre = random.below(40) * DIMENSION;
        let x = |d: usize| (centres[centre + d] + random.normal() * 20.0).round().clamp(0.0, 255.0);
        (0..DIMENSION).map(x).collect::<Vec<f32>>()
    };
    Matrix { dimension: DIMENSION, values: (0..rows).flat_map(row).collect() }
}

fn data(folder: &Path, rows: usize) -> RowFile {
    let path = folder.join("base.fbin");
    points(rows, 2).write(&path).expect("writes");
    RowFile::open(&path).expect("opens")
}

fn settings(rows: usize, epochs: usize, order: Order) -> PlanSettings {
    PlanSettings { rows, epochs, share: 0.02, order, seed: 7 }
}

#[test]
fn rows_beyond_the_file_are_neighbours_and_the_same_ones_each_time() {
    let folder = tempfile::tempdir().expect("a folder");
    let data = data(folder.path(), 500);
    let base = points(500, 2);
    let (mut row, mut again) = (vec![0.0; DIMENSION], vec![0.0; DIMENSION]);
    data.read(499, &mut row).expect("reads");
    assert_eq!(row, base.row(499));
    for at in 500..600 {
        data.read(at, &mut row).expect("reads");
        data.read(at, &mut again).expect("reads");
        assert_eq!(row, again);
        assert!(row.iter().all(|x| x.fract() == 0.0 && (0.0..=255.0).contains(x)));
        let distances = (0..500).map(|other| kernels::l2_squared(&row, base.row(other)));
        let nearest = distances.fold(f32::INFINITY, f32::min).sqrt();
        let length = kernels::norm_squared(&row).sqrt();
        assert!(nearest > 0.0 && nearest < 0.3 * length, "row {at}: {nearest} of {length}");
    }
    std::fs::write(folder.path().join("short.fbin"), [1, 0, 0, 0, 64, 0, 0, 0, 1]).expect("writes");
    let error = RowFile::open(&folder.path().join("short.fbin")).expect_err("is refused");
    assert!(error.to_string().contains("its length is not the one"), "{error}");
}

#[test]
fn a_plan_replaces_live_rows_by_new_ones_and_follows_its_seed() {
    let folder = tempfile::tempdir().expect("a folder");
    let data = data(folder.path(), 3_000);
    for order in [Order::Uniform, Order::Skewed] {
        let settings = settings(1_500, 40, order);
        let plan = Plan::make(&data, &settings).expect("a plan");
        assert_eq!(plan, Plan::make(&data, &settings).expect("a plan"), "the same seed");
        let other = PlanSettings { seed: 8, ..settings };
        assert_ne!(plan, Plan::make(&data, &other).expect("a plan"), "another seed");
        let mut live: HashSet<u32> = plan.first.iter().copied().collect();
        let mut ever = live.clone();
        assert_eq!((live.len(), plan.epochs.len()), (1_500, 40));
        for (ended, came) in &plan.epochs {
            assert_eq!((ended.len(), came.len()), (30, 30));
            assert!(ended.iter().all(|row| live.remove(row)), "{order:?}: only live rows end");
            assert!(came.iter().all(|&row| ever.insert(row) && live.insert(row)), "{order:?}");
        }
        assert!(ever.iter().all(|&row| (row as usize) < settings.total()));
    }
}

#[test]
fn a_skewed_plan_moves_the_distribution_and_an_even_one_does_not() {
    let folder = tempfile::tempdir().expect("a folder");
    let data = data(folder.path(), 3_000);
    // Distance between the means of what ends and what comes, over an epoch.
    let moved = |order| {
        let plan = Plan::make(&data, &settings(1_500, 10, order)).expect("a plan");
        let mean = |rows: &[u32]| {
            let (mut sum, mut row) = (vec![0.0f32; DIMENSION], vec![0.0; DIMENSION]);
            for &at in rows {
                data.read(at as usize, &mut row).expect("reads");
                sum.iter_mut().zip(&row).for_each(|(sum, x)| *sum += x / rows.len() as f32);
            }
            sum
        };
        let of = |(ended, came): &(Vec<u32>, Vec<u32>)| {
            kernels::l2_squared(&mean(ended), &mean(came)).sqrt()
        };
        plan.epochs.iter().map(of).sum::<f32>() / 10.0
    };
    let (even, skewed) = (moved(Order::Uniform), moved(Order::Skewed));
    assert!(skewed > 2.0 * even, "{even} and {skewed}");
}

#[test]
fn kept_truth_is_that_of_brute_force_over_the_live_rows_of_every_epoch() {
    let folder = tempfile::tempdir().expect("a folder");
    let data = data(folder.path(), 1_000);
    let queries = points(24, 3);
    for order in [Order::Uniform, Order::Skewed] {
        let at = folder.path().join(order.name());
        // Half of all rows go, so lists run dry and are filled again.
        let settings = PlanSettings { share: 0.2, ..settings(600, 6, order) };
        let about = Kept::write(&at, &data, &queries, &settings).expect("writes");
        assert_eq!((about.neighbours, about.scored, about.change), (320, 12, 120));
        let kept = Kept::open(&at).expect("opens");
        assert_eq!(kept.about, about);
        let mut row = vec![0.0; DIMENSION];
        for epoch in 0..=6 {
            let live: Vec<u32> = kept.live(epoch).expect("reads").rows().collect();
            assert_eq!(live.len(), 600);
            for (number, found) in kept.truth(epoch).expect("reads").iter().enumerate() {
                let mut distances: Vec<f32> = Vec::new();
                for &id in &live {
                    data.read(id as usize, &mut row).expect("reads");
                    distances.push(kernels::l2_squared(queries.row(12 + number), &row));
                }
                distances.sort_by(f32::total_cmp);
                let found: Vec<f32> = found.iter().map(|near| near.1).collect();
                assert_eq!(found, distances[..K], "{order:?}, epoch {epoch}, query {number}");
            }
        }
        std::fs::write(at.join("truth.bin"), [0; 9]).expect("writes");
        let error = Kept::open(&at).expect_err("is refused").to_string();
        assert!(error.contains("has 9 bytes instead of") && error.contains("Make the plan again"));
    }
}

#[test]
fn recall_counts_rows_as_near_as_the_tenth_and_no_more_than_there_are() {
    let truth: Vec<(u32, f32)> = (0..10).map(|row| (row, row as f32)).collect();
    let answer = |distances: &[f32]| -> Vec<Neighbor> {
        let neighbor = |&distance| Neighbor { distance, id: 1, version: 1 };
        distances.iter().map(neighbor).collect()
    };
    assert_eq!(recall_of(&answer(&[0.0, 1.0, 9.0, 9.000_001, 9.1]), &truth), 4);
    assert_eq!(recall_of(&answer(&[0.0; 12]), &truth), 10);
    assert_eq!(recall_of(&answer(&[0.0]), &[]), 0);
}

#[test]
fn costs_at_a_recall_lie_on_the_line_between_two_points() {
    let point = |recall, reads| Point { recall, reads, rounds: 2.0, kib: 4.0 * reads, ms: 1.0 };
    let points = [point(0.8, 10.0), point(0.9, 20.0), point(1.0, 60.0)];
    let at = at_recall(&points, 0.95).expect("is reached");
    assert!((at.reads - 40.0).abs() < 1e-9 && (at.kib - 160.0).abs() < 1e-9, "{at:?}");
    assert_eq!(at_recall(&points, 0.7), Some(points[0]));
    assert_eq!(at_recall(&points[..2], 0.95), None);
}

fn made(segments: SegmentIndex) -> Made {
    Made { element: Element::U8, segments, memory: 256 << 10, code_memory: None, target: 0.95 }
}

#[test]
fn epochs_are_followed_and_a_fresh_build_stands_beside_them() {
    let folder = tempfile::tempdir().expect("a folder");
    let data = data(folder.path(), 9_000);
    let queries = points(200, 3);
    let at = folder.path().join("plan");
    Kept::write(&at, &data, &queries, &settings(6_000, 4, Order::Skewed)).expect("writes");
    let kept = Kept::open(&at).expect("opens");
    let scored = updates::scored(&kept, &queries);
    let (dir, other) = (folder.path().join("live"), folder.path().join("fresh"));
    let made = made(SegmentIndex::Clusters);
    let build = |epochs: usize, (probes, refine): (usize, usize)| -> Result<Value, _> {
        let effort = vstream_engine::Effort::Chosen { probes, refine: Some(refine) };
        fresh::build((&kept, &data, &scored), (&made, &other), epochs, effort)
    };
    let settings = UpdatesSettings {
        made,
        dir: &dir,
        rate: 1e6,
        asked: 50,
        fresh_every: 2,
        ask_fresh: &build,
    };
    let mut seen = 0;
    let found =
        updates::run((&kept, &data, &queries), &settings, &mut |_| seen += 1).expect("runs");
    let epochs = found["epochs"].as_array().expect("epochs");
    assert_eq!((epochs.len(), seen), (5, 5));
    for epoch in epochs {
        let recall = epoch["asked"]["recall"].as_f64().expect("a recall");
        assert!(recall > 0.9 && epoch["live"] == 6_000, "{epoch:#}");
    }
    assert!(epochs[3]["equal-effort"].is_null() && epochs[0]["equal-effort"].is_null());
    for epoch in [2, 4] {
        let pair = &epochs[epoch]["equal-effort"];
        assert_eq!(pair["fresh"]["live"], 6_000);
        let recall = |side: &Value| side["recall"].as_f64().expect("a recall");
        let gap = recall(&pair["fresh"]["asked"]) - recall(&pair["live"]);
        assert!(gap.abs() < 0.05, "{pair:#}");
    }
    assert!(epochs[1]["written-bytes"].as_u64() > Some(120 * 64), "{:#}", epochs[1]);
    assert!(epochs[1]["queries"]["count"].as_u64() >= Some(50));
    assert_eq!(epochs[1]["inserts"]["count"], kept.about.change);
    assert!(epochs[1]["splits"].is_u64() && epochs[1]["moved"].is_u64(), "{:#}", epochs[1]);
    assert_eq!(found["first-epochs"]["count"], found["last-epochs"]["count"], "four epochs only");
    assert!(!dir.exists() && !other.exists(), "nothing is left");
}

#[test]
fn rows_that_do_not_fit_are_measured_at_once_and_merged() {
    let folder = tempfile::tempdir().expect("a folder");
    // Enough rows that merges of several sizes are due.
    let data = data(folder.path(), 12_000);
    let queries = points(200, 3);
    let at = folder.path().join("plan");
    Kept::write(&at, &data, &queries, &settings(30_000, 0, Order::Uniform)).expect("writes");
    let kept = Kept::open(&at).expect("opens");
    for segments in [SegmentIndex::Clusters, SegmentIndex::Graph] {
        let dir = folder.path().join(segments.name());
        let settings = LargerSettings { made: made(segments), dir: &dir, rate: 50_000.0 };
        let found = larger::run((&kept, &data, &queries), &settings).expect("runs");
        for phase in ["at-once", "merged"] {
            let recall = found[phase]["asked"]["recall"].as_f64().expect("a recall");
            assert!(recall > 0.9, "{phase} {found:#}");
        }
        let graphs = found["merged"]["graphs"].as_u64();
        assert_eq!(graphs > Some(0), segments == SegmentIndex::Graph, "{found:#}");
        assert!(found["rows-per-s-beside-queries"].as_f64() <= Some(50_500.0), "{found:#}");
        assert_eq!(found["commits"]["count"], 300);
        assert!(found["written-per-byte"].as_f64() > Some(1.0), "{found:#}");
        assert!(found["peak-bytes"].as_u64() >= found["ingest-peak-bytes"].as_u64());
    }
}

#[test]
fn forms_are_compared_within_one_budget() {
    let folder = tempfile::tempdir().expect("a folder");
    let (rows, queries) = (points(4_000, 2), points(80, 3));
    let truth = crate::storage::truth(&rows, &queries);
    let store = FileStore::create_dir(folder.path(), Syncing::Off).expect("opens");
    let run = FormsRun {
        rows: &rows,
        queries: &queries,
        truth: &truth,
        element: Element::U8,
        store: &store,
    };
    let mut found = Vec::new();
    forms::run(&run, &mut |form| found.push(form)).expect("runs");
    assert_eq!(found.len(), 8, "four forms at each of two budgets");
    for form in &found {
        let last = form.points.iter().map(|point| point.recall).fold(0.0, f64::max);
        assert!(last > 0.9, "{}: {last}", json!(form));
        let is_graph = !form.name.contains("clusters");
        assert!(
            !is_graph || form.fixed + form.cache <= form.budget * 1.05 + 1.0,
            "{}",
            json!(form)
        );
    }
    let reads =
        |name: &str| found.iter().find(|form| form.name.contains(name)).expect(name).at(0.9);
    let (graph, control) = (reads("BNS"), reads("DiskANN"));
    assert!(
        graph.expect("reached").reads < control.expect("reached").reads,
        "{graph:?} {control:?}"
    );
}
