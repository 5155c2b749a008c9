//! Every answer equals that of brute force, wherever the rows are.

use std::ops::Bound as End;

use vstream_attribute::{Filter, Range, Test};
use vstream_group::{Bound, GroupQuery, GroupSettings, With};
use vstream_vector::{Element, Metric};

use crate::model::{neighbors, Pair, COLOURS};

fn filters() -> Vec<Filter> {
    let cheap = Range { from: End::Unbounded, to: End::Excluded(10) };
    let colour = |n: usize| Test::KeywordIn(COLOURS[..n].iter().map(|c| c.to_string()).collect());
    vec![
        Filter::Attribute(0, Test::I64Range(cheap)),
        Filter::And(vec![
            Filter::Attribute(1, colour(1)),
            Filter::Not(Box::new(Filter::Attribute(2, Test::Bool(true)))),
        ]),
        Filter::Or(vec![
            Filter::Ids((0..40).map(|n| n * 7).collect()),
            Filter::Attribute(0, Test::I64In(vec![5])),
        ]),
        Filter::Or(vec![]),
    ]
}

/// Compares answers to some queries in every group.
fn check(pair: &mut Pair, groups: &[&str], k: usize, context: &str) {
    let reader = pair.store.reader();
    let settings = pair.store.settings().clone();
    let filters = filters();
    for group in groups {
        for filter in std::iter::once(None).chain(filters.iter().map(Some)) {
            let vector = pair.draw.vector();
            let answer = reader
                .search(group, &GroupQuery { filter, ..GroupQuery::nearest(&vector, k) })
                .unwrap();
            let wanted = pair.model.search(group, &settings, &vector, k, filter);
            assert_eq!(neighbors(&answer), wanted, "{context}: group {group}, filter {filter:?}");
            let count = pair.model.passing(group, filter).count() as u64;
            assert_eq!(reader.count(group, filter).unwrap(), count, "{context}: {group}");
        }
    }
}

/// Groups in every place: one run, several runs with updates and deletes, memory, after merges.
fn walk_through(settings: GroupSettings, sizes: &[usize], seed: u64) {
    let context = format!("seed {seed}, {settings:?}");
    let mut pair = Pair::new(settings, seed);
    let names: Vec<String> = sizes.iter().map(|n| format!("group of {n}")).collect();
    let groups: Vec<&str> = names.iter().map(String::as_str).collect();
    for (group, &size) in groups.iter().zip(sizes) {
        (0..size as u64).for_each(|id| pair.upsert(group, id * 7));
    }
    check(&mut pair, &groups, 10, &format!("{context}, memory"));
    pair.store.flush().unwrap();
    check(&mut pair, &groups, 10, &format!("{context}, one run"));
    for round in 0..3 {
        for (group, &size) in groups.iter().zip(sizes) {
            for _ in 0..1 + size / 50 {
                let id = 7 * pair.draw.random.below(size + 1 + size / 100) as u64;
                match pair.draw.random.below(4) {
                    0 => pair.delete(group, id),
                    _ => pair.upsert(group, id),
                }
            }
        }
        check(&mut pair, &groups, 25, &format!("{context}, changes {round} in memory"));
        pair.store.flush().unwrap();
        check(&mut pair, &groups, 1, &format!("{context}, {} runs", round + 2));
    }
    pair.drop_group(groups[0]);
    pair.upsert(groups[0], 3);
    check(&mut pair, &groups, 10, &format!("{context}, a dropped group"));
    pair.store.flush().unwrap();
    check(&mut pair, &groups, 10, &format!("{context}, a dropped group in a run"));
    pair.store.compact().unwrap();
    check(&mut pair, &groups, 10, &format!("{context}, merged"));
    pair.store.compact_all().unwrap();
    check(&mut pair, &groups, 100, &format!("{context}, one run of all"));
    let stats = pair.store.stats();
    let living: usize = groups.iter().map(|group| pair.model.rows(group).count()).sum();
    assert_eq!((stats.runs, stats.tombstones), (1, 0), "{context}");
    assert_eq!(stats.rows, living as u64, "{context}");
    pair.reopen();
    check(&mut pair, &groups, 10, &format!("{context}, opened again"));
}

fn settings(dimension: usize, metric: Metric, element: Element, bound: Bound) -> GroupSettings {
    GroupSettings { bound, ..GroupSettings::new(dimension, metric, element) }
}

#[test]
fn answers_are_exact_for_every_metric_and_element() {
    let elements = [Element::F32, Element::F16, Element::Bf16, Element::U8, Element::I8];
    for (number, element) in elements.into_iter().enumerate() {
        for metric in [Metric::L2, Metric::Cosine, Metric::InnerProduct] {
            if metric == Metric::Cosine && element.is_integer() {
                continue;
            }
            for bound in [Bound::Proven, Bound::Deviations(7.0)] {
                let settings = settings(384, metric, element, bound);
                walk_through(settings, &[1, 2, 40, 127, 128, 700], 100 + number as u64);
            }
        }
    }
}

#[test]
fn answers_are_exact_for_other_dimensions() {
    for (dimension, sizes) in [(64, [5, 300, 1500]), (100, [1, 129, 900]), (1536, [3, 130, 600])] {
        for bound in [Bound::Proven, Bound::Deviations(7.0)] {
            walk_through(settings(dimension, Metric::Cosine, Element::F32, bound), &sizes, 7);
        }
    }
}

/// Ten thousand rows and more: leaves by cluster after a merge, several parts of one group.
#[test]
fn answers_are_exact_in_large_groups() {
    let large = |bound| GroupSettings {
        clustered_rows: 1024,
        ..settings(64, Metric::Cosine, Element::Bf16, bound)
    };
    walk_through(large(Bound::Proven), &[10, 10_000, 20_000], 11);
    walk_through(large(Bound::Deviations(7.0)), &[10, 10_000, 20_000], 12);
    let wide = settings(384, Metric::L2, Element::Bf16, Bound::Proven);
    walk_through(wide, &[1, 10_000], 13);
}

/// The codes rule rows out: otherwise the tests above would pass by reading everything.
#[test]
fn most_rows_need_no_exact_distance() {
    for (bound, part) in [(Bound::Proven, 10), (Bound::Deviations(7.0), 4)] {
        let mut pair = Pair::new(settings(384, Metric::Cosine, Element::Bf16, bound), 21);
        (0..5000).for_each(|id| pair.upsert("letters", id));
        pair.store.compact_all().unwrap();
        let vector = pair.draw.vector();
        let query = GroupQuery::nearest(&vector, 10);
        let stats = pair.store.reader().search("letters", &query).unwrap().stats;
        assert_eq!(stats.rows, 5000);
        assert!(stats.exact_rows < 5000 / part, "{bound:?}: {stats:?}");
        let raw = 5000 * 384 * 2;
        assert!(stats.bytes < raw / 2, "{bound:?}: {stats:?} of {raw} bytes");
    }
}

#[test]
fn no_query_sees_another_group() {
    let mut pair = Pair::new(settings(64, Metric::L2, Element::F32, Bound::Proven), 31);
    // The same ids in every group, so that only the group tells rows apart.
    for id in 0..200 {
        for group in ["ann", "ben", "a"] {
            pair.upsert(group, id);
        }
        if id == 100 {
            pair.store.flush().unwrap();
        }
    }
    check(&mut pair, &["ann", "ben", "a", "nobody"], 300, "three groups");
    let all = pair.store.reader().scroll("ann", None, None, 1000, With::default()).unwrap();
    assert_eq!(all.len(), 200);
    let filter = Filter::Not(Box::new(Filter::Or(vec![])));
    assert_eq!(pair.store.reader().count("nobody", Some(&filter)).unwrap(), 0);
}

/// A late event: the version decides, not the time of arrival or the place.
#[test]
fn an_older_version_never_replaces_a_newer_one() {
    let mut pair = Pair::new(settings(64, Metric::L2, Element::F32, Bound::Proven), 41);
    pair.upsert_as("g", 1, 10);
    pair.upsert_as("g", 1, 9);
    check(&mut pair, &["g"], 5, "in memory");
    pair.store.flush().unwrap();
    pair.upsert_as("g", 1, 8);
    pair.upsert_as("g", 2, 3);
    check(&mut pair, &["g"], 5, "above a run");
    pair.store.flush().unwrap();
    check(&mut pair, &["g"], 5, "in two runs");
    let row = pair.store.reader().get("g", &[1], With::default()).unwrap().remove(0);
    assert_eq!(row.unwrap().version, 10);
    pair.store.compact_all().unwrap();
    check(&mut pair, &["g"], 5, "merged");
}
