//! The whole path on small data, against what brute force says.

use super::*;
use crate::runbook::Matrix;
use vstream_vector::{Metric, SplitMix};

/// Rows around 40 centres, and queries around the same ones.
fn clustered(rows: usize, queries: usize, dimension: usize) -> DataSet {
    let mut chance = SplitMix(3);
    let centres: Vec<f32> = (0..40 * dimension).map(|_| 4.0 * chance.normal()).collect();
    let mut draw = |count: usize| {
        let mut values = Vec::with_capacity(count * dimension);
        for _ in 0..count {
            let centre = chance.below(40) * dimension;
            values.extend(centres[centre..centre + dimension].iter().map(|x| x + chance.normal()));
        }
        Matrix { dimension, values }
    };
    let (base, queries) = (draw(rows), draw(queries));
    DataSet { name: DataName::Sift, metric: Metric::L2, base, queries }
}

#[test]
fn every_place_is_reached_and_its_recall_is_that_of_brute_force() {
    let data = clustered(6_000, 1_700, 64);
    let folder = tempfile::tempdir().expect("a folder");
    let settings = RunSettings {
        dir: folder.path().join("collections"),
        ground: Some(folder.path().join("truth")),
    };
    for place in [Place::Memory, Place::Fresh, Place::Disk, Place::Tombstones, Place::Drift] {
        let case = Case { data: DataName::Sift, place, k: 10, target: 0.9, filter: None };
        let row = run(&case, &data, &settings).expect("runs");
        assert!((0.8..=1.0).contains(&row.truth), "{place:?}: {}", row.truth);
        assert!(row.queries_per_second > 0.0 && row.rows_scanned > 0.0);
        match place {
            Place::Tombstones => assert!((3_900..4_500).contains(&row.live), "{}", row.live),
            _ => assert_eq!(row.live, 6_000),
        }
        assert_eq!(row.segments > 0, place == Place::Disk, "{place:?}: {}", row.segments);
        assert!(markdown(&[row]).contains("| sift 64-d | l2 |"));
    }
    // One truth for all places whose rows live, one after the deletes.
    let kept = std::fs::read_dir(folder.path().join("truth")).expect("a folder").count();
    assert_eq!(kept, 2);
}

#[test]
fn a_filter_selects_its_share_and_recall_is_over_the_rows_that_match() {
    let data = clustered(6_000, 1_700, 64);
    let settings = RunSettings { dir: std::env::temp_dir(), ground: None };
    for (filter, share) in [(Selected::Percent20, 0.2), (Selected::TwoKeywords, 0.008)] {
        let case = Case {
            data: DataName::Sift,
            place: Place::Memory,
            k: 10,
            target: 0.9,
            filter: Some(filter),
        };
        let row = run(&case, &data, &settings).expect("runs");
        let found = row.live as f64 / 6_000.0;
        assert!((0.6 * share..1.4 * share).contains(&found), "{filter:?}: {found}");
        assert!((0.86..=1.0).contains(&row.truth), "{filter:?}: {}", row.truth);
        assert!(markdown(&[row]).contains(filter.name()));
    }
}

#[test]
fn a_kept_truth_is_used_again_and_another_collection_has_its_own() {
    let data = clustered(2_000, 1_400, 16);
    let folder = tempfile::tempdir().expect("a folder");
    let cache = GroundCache::new(Some(folder.path()));
    let mut live = crate::runbook::LiveSet::new(2_000);
    live.apply(&crate::runbook::Step::Insert(0..2_000));
    let queries: Vec<&[f32]> = (0..20).map(|row| data.queries.row(row)).collect();
    let fresh = GroundCache::new(None).nearest(&data, &live, &queries, 10).expect("found");
    for _ in 0..2 {
        assert_eq!(cache.nearest(&data, &live, &queries, 10).expect("found"), fresh);
    }
    live.apply(&crate::runbook::Step::Delete(5..6));
    cache.nearest(&data, &live, &queries, 10).expect("found");
    assert_eq!(std::fs::read_dir(folder.path()).expect("a folder").count(), 2);
}

#[test]
fn a_row_says_what_does_not_hold() {
    let data = clustered(1_000, 10, 8);
    let case =
        Case { data: DataName::Sift, place: Place::Memory, k: 10, target: 0.95, filter: None };
    let mut row = Row::new(&case, &data, 1_000, &[0.941; 9], &[0.921; 9]);
    assert_eq!(row.misses(), ["estimate"], "there is none");
    row.estimate = Some((0.95, 0.01));
    assert_eq!(row.misses(), Vec::<&str>::new());
    row.estimate = Some((0.957, 0.01));
    assert_eq!(row.misses(), ["estimate"]);
    let fresh = Case { place: Place::Fresh, ..case };
    let low = Row::new(&fresh, &data, 1_000, &[0.939; 9], &[0.919; 9]);
    assert_eq!(low.misses(), ["recall", "first"], "nothing was audited");
    assert!(markdown(&[low, row]).contains("0 of 2 rows hold; recall is too low in 1"));
}

#[test]
fn the_table_has_every_data_set_in_every_place_that_it_can_be_in() {
    let cases = table();
    for data in <DataName as clap::ValueEnum>::value_variants() {
        for place in [Place::Memory, Place::Fresh, Place::Disk, Place::Tombstones] {
            assert!(cases.iter().any(|case| case.data == *data && case.place == place));
        }
    }
    for k in [1, 10, 100, 1000] {
        assert!(cases.iter().any(|case| case.k == k));
    }
}
