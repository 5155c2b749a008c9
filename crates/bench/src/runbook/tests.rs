//! The reader, the generator, the truth and a whole run, on small data.

use std::time::Duration;

use clap::ValueEnum;
use vstream_vector::{kernels, Metric, Neighbor, SplitMix};

use super::truth::Ground;
use super::*;

fn settings(metric: Metric, effort: Amount, fresh: bool) -> RunSettings {
    let settle = Duration::ZERO;
    RunSettings { metric, recall_target: 0.95, effort, fresh, settle, catch_up: true, seed: 9 }
}

/// `rows` points around 20 centres in 16 dimensions.
fn points(rows: usize, seed: u64) -> Matrix {
    const DIMENSION: usize = 16;
    let mut centres = SplitMix(7);
    let centres: Vec<f32> = (0..20 * DIMENSION).map(|_| 2.0 * centres.normal()).collect();
    let mut chance = SplitMix(seed);
    let mut values = Vec::with_capacity(rows * DIMENSION);
    for _ in 0..rows {
        let centre = chance.below(20) * DIMENSION;
        let centre = &centres[centre..centre + DIMENSION];
        values.extend(centre.iter().map(|x| x + chance.normal()));
    }
    Matrix { dimension: DIMENSION, values }
}

fn fails(text: &str) -> RunbookError {
    Runbook::parse(text, None).expect_err("must be refused")
}

const PUBLIC: &str = r#"
msturing-30M-clustered:
  max_pts: 10292043
  1: {operation: insert, start: 0, end: 38806}
  2: {operation: search}
  3:
    operation: "delete"
    start: 0
    end: 5000
  4: {operation: replace, tags_start: 5000, tags_end: 7500, ids_start: 7500, ids_end: 10000}
  gt_url: "https://example.org/final_runbook.yaml"
"#;

#[test]
fn the_public_form_is_read() {
    let runbook = Runbook::parse(PUBLIC, None).expect("valid");
    assert_eq!(runbook.dataset, "msturing-30M-clustered");
    assert_eq!(runbook.max_pts, 10_292_043);
    let replace = Step::Replace { tags: 5000..7500, rows: 7500..10_000 };
    let steps = [Step::Insert(0..38_806), Step::Search, Step::Delete(0..5000), replace];
    assert_eq!(runbook.steps, steps);
    assert_eq!(runbook.gt_url.as_deref(), Some("https://example.org/final_runbook.yaml"));
    assert_eq!(Runbook::parse(&runbook.to_yaml(), None), Ok(runbook));
}

#[test]
fn one_of_several_data_sets_is_chosen() {
    let text = "a: {max_pts: 5, 1: {operation: search}}\nb: {max_pts: 6, 1: {operation: search}}";
    assert_eq!(Runbook::parse(text, Some("b")).expect("valid").max_pts, 6);
    let several = fails(text);
    assert_eq!(several, RunbookError::SeveralDatasets(vec!["a".into(), "b".into()]));
    assert!(several.to_string().contains("Choose one with --dataset: a, b."), "{several}");
    let missing = Runbook::parse(text, Some("c")).expect_err("must be refused");
    assert!(missing.to_string().contains("no data set 'c'. Give --dataset one of: a, b."));
    assert!(fails("{}").to_string().contains("The runbook is empty"));
}

#[test]
fn what_is_wrong_with_a_runbook_is_said() {
    let wrong = [
        ("- 1\n- 2", "not a YAML mapping"),
        ("a: {b: [}", "not a YAML mapping"),
        ("a: {max_pts: 1, 1: {operation: search}, 1: {operation: search}}", "not a YAML mapping"),
        ("a: {1: {operation: search}}", "'max_pts' is missing in the data set. Add it."),
        ("a: {max_pts: many, 1: {operation: search}}", "'max_pts' in the data set is \"many\""),
        ("a: {max_pts: -1, 1: {operation: search}}", "is -1. Write a whole number"),
        ("a: {max_pts: 1}", "no steps. Number them 1, 2, 3"),
        ("a: {max_pts: 1, 2: {operation: search}}", "Step 1 is missing, but there is a step 2"),
        (
            "a: {max_pts: 1, 1: {operation: search}, 3: {operation: search}}",
            "Step 2 is missing, but there is a step 3. Number the steps from 1 on without gaps.",
        ),
        ("a: {max_pts: 1, 1: search}", "Step 1 is not a mapping"),
        ("a: {max_pts: 1, 1: {start: 0}}", "'operation' is missing in step 1"),
        ("a: {max_pts: 1, 1: {operation: upsert}}", "unknown operation 'upsert'. Choose insert"),
        ("a: {max_pts: 1, 1: {operation: 7}}", "unknown operation '7'"),
        ("a: {max_pts: 1, 1: {operation: insert, end: 1}}", "'start' is missing in step 1"),
        ("a: {max_pts: 1, 1: {operation: delete, start: 0}}", "'end' is missing in step 1"),
        (
            "a: {max_pts: 1, 1: {operation: replace, tags_start: 0, tags_end: 1, ids_end: 1}}",
            "'ids_start' is missing in step 1",
        ),
        (
            "a: {max_pts: 1, 1: {operation: insert, start: 0.5, end: 1}}",
            "'start' in step 1 is 0.5. Write a whole number from 0 on.",
        ),
        (
            "a: {max_pts: 1, 1: {operation: insert, start: 4, end: 4}}",
            "Step 1 has the empty range from 4 to 4. The end must be larger",
        ),
        (
            "a: {max_pts: 1, 1: {operation: replace, tags_start: 0, tags_end: 2, ids_start: 0, \
             ids_end: 1}}",
            "Step 1 replaces 2 tags by 1 rows. Make both ranges equally long.",
        ),
    ];
    for (text, sentence) in wrong {
        let said = fails(text).to_string();
        assert!(said.contains(sentence), "{text}: {said}");
    }
}

#[test]
fn ranges_and_counts_are_checked_against_the_data() {
    let says = |text: &str, rows: usize| {
        let runbook = Runbook::parse(text, None).expect("readable");
        runbook.walk(rows).expect_err("must be refused").to_string()
    };
    let insert = "a: {max_pts: 5, 1: {operation: insert, start: 0, end: 6}}";
    let outside = "Step 1 uses the range from 0 to 6, but there are 5 rows.";
    assert!(says(insert, 5).contains(outside));
    assert!(says(insert, 6).contains("After step 1 there are 6 live rows, more than max_pts"));
    let replace = "a: {max_pts: 5, 1: {operation: insert, start: 0, end: 2}, 2: {operation: \
                   replace, tags_start: 0, tags_end: 2, ids_start: 4, ids_end: 6}}";
    assert!(says(replace, 5).contains("Step 2 uses the range from 4 to 6"));
}

#[test]
fn a_walk_counts_what_lives_and_what_was_missed() {
    let steps = vec![
        Step::Insert(0..6),
        Step::Delete(4..8),
        Step::Insert(0..2),
        Step::Replace { tags: 3..5, rows: 7..9 },
    ];
    let runbook = Runbook { dataset: "a".into(), max_pts: 9, steps, gt_url: None };
    assert_eq!(runbook.walk(9), Ok(Walk { peak: 6, last: 5, missed: 3 }));
    let mut live = LiveSet::new(9);
    let missed: Vec<usize> = runbook.steps.iter().map(|step| live.apply(step)).collect();
    assert_eq!(missed, [0, 2, 0, 1]);
    let rows: Vec<_> = live.iter().collect();
    assert_eq!(rows, [(0, 0), (1, 1), (2, 2), (3, 7), (4, 8)]);
    assert_eq!((live.row(5), live.row(1 << 40)), (None, None));
}

#[test]
fn every_generated_runbook_is_valid() {
    let base = points(2_000, 1);
    for kind in Kind::value_variants() {
        let made = generate(*kind, &base, "points-2000", 3).expect("enough rows");
        let runbook = &made.runbook;
        let read = Runbook::parse(&runbook.to_yaml(), Some("points-2000"));
        assert_eq!(read.as_ref(), Ok(runbook), "{kind:?} comes back from its file");
        let walk = runbook.walk(base.rows()).expect("inside the data");
        assert_eq!(walk.missed, 0, "{kind:?} deletes and replaces live tags only");
        assert_eq!(walk.peak, runbook.max_pts, "{kind:?} states its true peak");
        assert_eq!(runbook.steps.last(), Some(&Step::Search), "{kind:?} ends with a search");
        let again = generate(*kind, &base, "points-2000", 3).expect("enough rows");
        assert_eq!(again.runbook, *runbook, "{kind:?} is the same for the same seed");
        let Some(permuted) = made.permuted else { continue };
        let sorted = |matrix: &Matrix| {
            let rows = matrix.values.chunks_exact(matrix.dimension);
            let mut rows: Vec<Vec<u32>> =
                rows.map(|row| row.iter().map(|x| x.to_bits()).collect()).collect();
            rows.sort_unstable();
            rows
        };
        assert_eq!(sorted(&permuted), sorted(&base), "{kind:?} permutes the rows");
    }
    let few = generate(Kind::Drift, &points(999, 1), "few", 3).expect_err("too few");
    assert!(few.to_string().contains("999 rows; a runbook needs 1000 at least"), "{few}");
}

#[test]
fn kinds_do_what_their_names_say() {
    let base = points(4_000, 1);
    let made = |kind| generate(kind, &base, "points", 3).expect("enough rows");
    let searches = |kind| {
        let steps = made(kind).runbook.steps;
        steps.iter().filter(|step| **step == Step::Search).count()
    };
    let recipe = searches(Kind::Clustered64);
    assert!((400..=640).contains(&recipe), "a search after every op: {recipe}");
    assert_eq!(searches(Kind::SlidingWindow), 40);
    assert_eq!(made(Kind::SlidingWindow).runbook.max_pts, 2_100, "the window and a batch");

    let steps = made(Kind::Hotspot).runbook.steps;
    let late = steps.iter().skip(1).filter_map(|step| match step {
        Step::Insert(rows) => Some(rows),
        _ => None,
    });
    let (hot, cold): (Vec<_>, Vec<_>) = late.partition(|rows| rows.start >= 3_000);
    let count = |ranges: &[&std::ops::Range<usize>]| ranges.iter().map(|r| r.len()).sum::<usize>();
    let share = count(&hot) as f64 / (count(&hot) + count(&cold)) as f64;
    assert!((share - 0.9).abs() < 0.01 || count(&hot) > 0 && share > 0.85, "share {share}");

    let runbook = made(Kind::DeleteCluster).runbook;
    let mut live = LiveSet::new(4_000);
    let fewest = runbook.steps.iter().map(|step| {
        live.apply(step);
        if matches!(step, Step::Delete(_)) {
            live.len()
        } else {
            usize::MAX
        }
    });
    assert_eq!(fewest.min(), Some(400), "a tenth of the rows is left");
}

#[test]
fn a_cluster_of_a_permuted_runbook_is_one_place() {
    let base = points(2_000, 1);
    let made = generate(Kind::DeleteCluster, &base, "points", 3).expect("enough rows");
    let permuted = made.permuted.expect("permuted");
    let spread = |matrix: &Matrix, rows: std::ops::Range<usize>| {
        let first = matrix.row(rows.start).to_vec();
        let count = rows.len() as f32;
        rows.map(|row| kernels::l2_squared(&first, matrix.row(row))).sum::<f32>() / count
    };
    let (mut within, mut before) = (0.0, 0.0);
    for step in made.runbook.steps.iter().take_while(|step| **step != Step::Search) {
        if let Step::Insert(rows) = step {
            within += spread(&permuted, rows.clone());
            before += spread(&base, rows.clone());
        }
    }
    assert!(within < 0.7 * before, "{within} within clusters, {before} in the file's order");
}

#[test]
fn the_truth_is_that_of_a_plain_loop() {
    let base = points(1_500, 2);
    let queries = points(5, 3);
    let mut live = LiveSet::new(1_500);
    live.apply(&Step::Insert(0..1_400));
    live.apply(&Step::Delete(100..300));
    live.apply(&Step::Replace { tags: 0..50, rows: 1_400..1_450 });
    let asked: Vec<&[f32]> = (0..5).map(|i| queries.row(i)).collect();
    for metric in [Metric::L2, Metric::Cosine, Metric::InnerProduct] {
        let ground = Ground { metric, base: &base };
        let found = ground.nearest(&live, &asked, 10);
        for (query, found) in asked.iter().zip(&found) {
            let distance = |row: usize| match metric {
                Metric::L2 => kernels::scalar::l2_squared(query, base.row(row)),
                Metric::Cosine => 1.0 - kernels::scalar::inner_product(query, base.row(row)),
                Metric::InnerProduct => -kernels::scalar::inner_product(query, base.row(row)),
            };
            let mut all: Vec<_> = live.iter().map(|(tag, row)| (distance(row), tag)).collect();
            all.sort_by(|a, b| a.0.total_cmp(&b.0));
            let tags: Vec<u64> = all[..10].iter().map(|(_, tag)| *tag).collect();
            assert_eq!(found.iter().map(|row| row.id).collect::<Vec<_>>(), tags, "{metric}");
        }
    }
}

#[test]
fn scores_see_losses_ties_dead_tags_and_old_distances() {
    let base = Matrix { dimension: 1, values: vec![1.0, 2.0, -2.0, 3.0, 9.0] };
    let ground = Ground { metric: Metric::L2, base: &base };
    let mut live = LiveSet::new(5);
    live.apply(&Step::Insert(0..4));
    let truth = ground.nearest(&live, &[&[0.0]], 2).remove(0);
    assert_eq!(truth.iter().map(|row| row.id).collect::<Vec<_>>(), [0, 1]);
    let score = |answer: &[(u64, f32)]| {
        let neighbor = |&(id, distance): &(u64, f32)| Neighbor { distance, id, version: 0 };
        let answer: Vec<_> = answer.iter().map(neighbor).collect();
        let score = ground.score(&live, &[0.0], &truth, &answer);
        (score.recall, score.dead, score.stale)
    };
    assert_eq!(score(&[(0, 1.0), (1, 4.0)]), (1.0, 0, 0));
    assert_eq!(score(&[(0, 1.0), (2, 4.0)]), (1.0, 0, 0), "row 2 is as near as row 1");
    assert_eq!(score(&[(0, 1.0), (3, 9.0)]), (0.5, 0, 0));
    assert_eq!(score(&[(0, 1.0), (4, 4.0)]), (0.5, 1, 0), "tag 4 does not live");
    assert_eq!(score(&[(0, 1.0), (1, 1.0)]), (1.0, 0, 1), "row 1 is farther than answered");
    assert_eq!(score(&[]), (0.0, 0, 0));
}

#[test]
fn runs_meet_the_target_and_never_answer_dead_tags() {
    let base = points(3_000, 1);
    let queries = points(200, 2);
    for kind in Kind::value_variants() {
        let made = generate(*kind, &base, "points-3000", 5).expect("enough rows");
        let base = made.permuted.unwrap_or_else(|| base.clone());
        for (effort, fresh) in [(Amount::Auto, false), (Amount::Probes(12), true)] {
            if fresh && *kind == Kind::Clustered64 {
                continue; // Its hundreds of builds take as long as all the rest.
            }
            let settings = settings(Metric::L2, effort, fresh);
            let mut seen = 0;
            let summary = run(&made.runbook, base.clone(), queries.clone(), &settings, &mut |_| {
                seen += 1;
            })
            .expect("runs");
            assert_eq!(seen, summary.searches.len());
            let (lowest, _) = summary.recall();
            assert!(summary.is_sound(), "{kind:?} {effort:?}: {}", summary.table());
            assert!(lowest >= 0.95 - 0.03, "{kind:?} {effort:?}: {}", summary.table());
            if fresh {
                let (mean, _) = summary.fresh_difference().expect("compared");
                assert!(mean.abs() <= 0.01, "{kind:?}: {}", summary.table());
            }
        }
    }
}

#[test]
fn a_comparison_under_auto_uses_the_probes_of_the_guarded_index() {
    let base = points(3_000, 1);
    let made = generate(Kind::Replace, &base, "points-3000", 5).expect("enough rows");
    let settings = RunSettings {
        settle: Duration::from_millis(1),
        ..settings(Metric::Cosine, Amount::Auto, true)
    };
    let queries = points(300, 2);
    let summary = run(&made.runbook, base, queries, &settings, &mut |_| {}).expect("runs");
    for search in &summary.searches {
        let both = search.equal_effort.expect("compared");
        assert_eq!(both.probes, search.probes);
        assert!(both.live_recall > 0.9 && both.fresh_recall > 0.9, "{}", summary.table());
    }
}

#[test]
fn results_are_lines_of_json_a_table_and_a_picture() {
    let base = points(1_000, 1);
    let made = generate(Kind::SlidingWindow, &base, "points-1000", 5).expect("enough rows");
    let settings = settings(Metric::L2, Amount::Probes(4), true);
    let summary = run(&made.runbook, base, points(250, 2), &settings, &mut |_| {}).expect("runs");
    let lines: Vec<serde_json::Value> = summary
        .to_json_lines()
        .lines()
        .map(|line| serde_json::from_str(line).expect("JSON"))
        .collect();
    assert_eq!(lines.len(), 41);
    assert_eq!((&lines[0]["type"], &lines[40]["type"]), (&"search".into(), &"summary".into()));
    assert_eq!((&lines[0]["live"], &lines[0]["writes"]["inserts"]), (&25.into(), &25.into()));
    assert_eq!((&lines[39]["writes"]["deletes"], &lines[40]["searches"]), (&25.into(), &40.into()));
    let table = summary.table();
    assert!(table.contains("on a sample of 200 queries per search step; l2; effort probes=4"));
    assert!(!table.contains("WRONG"), "{table}");
    let picture = svg("a < b", 0.95, &summary.searches);
    assert!(picture.contains("a &lt; b") && picture.matches("<polyline").count() == 2);
    assert!(!picture.contains("NaN"), "{picture}");
}

#[test]
fn an_empty_collection_is_searched_too() {
    let steps =
        vec![Step::Search, Step::Insert(0..5), Step::Search, Step::Delete(0..5), Step::Search];
    let runbook = Runbook { dataset: "a".into(), max_pts: 5, steps, gt_url: None };
    let settings = settings(Metric::L2, Amount::Auto, true);
    let summary = run(&runbook, points(5, 1), points(3, 2), &settings, &mut |_| {}).expect("runs");
    assert_eq!(summary.recall(), (1.0, 1.0), "{}", summary.table());
    let narrow = Matrix { dimension: 2, values: vec![1.0, 2.0] };
    let refused = run(&runbook, points(5, 1), narrow, &settings, &mut |_| {});
    let refused = refused.expect_err("another dimension").to_string();
    assert!(refused.contains("16 dimensions, the queries 2"), "{refused}");
}

#[test]
fn damaged_matrix_files_say_what_is_wrong() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("rows.fbin");
    let says = |bytes: &[u8]| {
        std::fs::write(&path, bytes).expect("writes");
        Matrix::read(&path, None).expect_err("must be refused").to_string()
    };
    let words = |words: &[u32]| words.iter().flat_map(|w| w.to_le_bytes()).collect::<Vec<u8>>();
    assert!(says(b"abc").contains("shorter than its header"));
    assert!(says(&words(&[0, 4])).contains("no rows or no dimension"));
    assert!(says(&words(&[2, 2, 0, 0, 0])).contains("not the one that its header says"));
    assert!(says(&words(&[u32::MAX, u32::MAX])).contains("not the one that its header says"));
    let nan = f32::NAN.to_bits();
    assert!(says(&words(&[1, 1, nan])).contains("a number that is not finite"));
    let missing = Matrix::read(&folder.path().join("none"), None).expect_err("no file");
    assert!(missing.to_string().starts_with("Cannot read"), "{missing}");
    let matrix = points(7, 1);
    matrix.write(&path).expect("writes");
    assert_eq!(Matrix::read(&path, None), Ok(matrix.clone()));
    assert_eq!(Matrix::read(&path, Some(3)).expect("reads").values, matrix.values[..48]);
}

#[test]
fn what_the_engine_refuses_is_said_with_its_step() {
    let steps = vec![Step::Search, Step::Insert(0..2)];
    let runbook = Runbook { dataset: "a".into(), max_pts: 2, steps, gt_url: None };
    let zero = Matrix { dimension: 2, values: vec![1.0, 2.0, 0.0, 0.0] };
    let query = Matrix { dimension: 2, values: vec![1.0, 1.0] };
    let cosine = settings(Metric::Cosine, Amount::Auto, false);
    let refused = run(&runbook, zero, query, &cosine, &mut |_| {}).expect_err("no direction");
    let said = refused.to_string();
    assert!(said.starts_with("The engine refused something in step 2: "), "{said}");
    assert!(said.contains("has no direction"), "{said}");
}
