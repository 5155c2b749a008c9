//! Collectors against sorting everything.

use std::collections::HashMap;

use vstream_attribute::{Value, ValueRef};
use vstream_rank::{AnswerRow, Best, Diversify, GroupBy, Ranked};
use vstream_vector::{Neighbor, SplitMix};

fn value(number: Option<i64>) -> Option<ValueRef<'static>> {
    number.map(ValueRef::I64)
}

/// The rows in the order of the answer.
fn sorted<R: AnswerRow>(rows: &[(Option<i64>, R)]) -> Vec<(Option<i64>, R)> {
    let mut sorted = rows.to_vec();
    sorted.sort_by(|(_, a), (_, b)| a.order(b));
    sorted
}

/// Checks all collectors over rows in the order in which they come.
fn check<R: AnswerRow + std::fmt::Debug>(
    rows: &[(Option<i64>, R)],
    (k, per_value): (usize, usize),
    id: impl Fn(&R) -> u64,
    seed: u64,
) {
    let sorted = sorted(rows);
    let ids = |rows: &[R]| rows.iter().map(&id).collect::<Vec<_>>();
    let (mut best, mut diverse) = (Best::new(k), Diversify::new(k, per_value));
    let (mut groups, mut heads) = (GroupBy::new(per_value, rows.len()), Diversify::new(k, 1));
    for (number, row) in rows {
        let bound = diverse.bound().cloned();
        let is_kept = diverse.offer(value(*number).as_ref(), row.clone());
        let is_behind = bound.is_some_and(|bound| row.order(&bound).is_ge());
        assert!(!(is_kept && is_behind), "seed {seed}: a row behind the bound was kept");
        best.offer(row.clone());
        heads.offer(value(*number).as_ref(), row.clone());
        groups.offer(value(*number).as_ref(), row.clone()).expect("room");
    }

    let all: Vec<R> = sorted.iter().map(|(_, row)| row.clone()).collect();
    assert_eq!(ids(&best.finish()), ids(&all[..k.min(all.len())]), "seed {seed}: the k best");

    let mut taken: HashMap<Option<i64>, usize> = HashMap::new();
    let mut expected = Vec::new();
    for (number, row) in &sorted {
        let count = taken.entry(*number).or_insert(0);
        if *count < per_value && expected.len() < k {
            *count += 1;
            expected.push((number.map(Value::I64), id(row)));
        }
    }
    let got: Vec<_> = diverse.finish().into_iter().map(|(value, row)| (value, id(&row))).collect();
    assert_eq!(got, expected, "seed {seed}: at most {per_value} per value");

    let mut order: Vec<Option<i64>> = Vec::new();
    let mut by_value: HashMap<Option<i64>, Vec<u64>> = HashMap::new();
    for (number, row) in &sorted {
        if !by_value.contains_key(number) {
            order.push(*number);
        }
        by_value.entry(*number).or_default().push(id(row));
    }
    let expected: Vec<_> = order
        .iter()
        .take(k)
        .map(|number| {
            let rows = &by_value[number];
            (number.map(Value::I64), rows[..per_value.min(rows.len())].to_vec())
        })
        .collect();
    let listed = |groups: GroupBy<R>| -> Vec<(Option<Value>, Vec<u64>)> {
        groups.finish(k).into_iter().map(|group| (group.value, ids(&group.rows))).collect()
    };
    assert_eq!(listed(groups), expected, "seed {seed}: groups in one pass");

    let heads = heads.finish();
    let mut second = GroupBy::among(heads.iter().map(|(value, _)| value.as_ref()), per_value);
    for (number, row) in rows {
        second.offer(value(*number).as_ref(), row.clone()).expect("room");
    }
    assert_eq!(listed(second), expected, "seed {seed}: groups in two passes");
}

#[test]
fn collectors_keep_what_sorting_everything_keeps() {
    for seed in 0..400 {
        let random = &mut SplitMix(seed);
        let count = 1 + random.below(1_200);
        let values = 1 + random.below(150);
        let sizes = (1 + random.below(40), 1 + random.below(5));
        let mut ids: Vec<u64> = (0..count as u64).collect();
        for at in (1..count).rev() {
            ids.swap(at, random.below(at + 1));
        }
        let number =
            |random: &mut SplitMix| (random.below(9) > 0).then(|| random.below(values) as i64);
        // Few different scores and distances, so that ties are frequent; some are no number.
        let ranked: Vec<_> = ids
            .iter()
            .map(|id| {
                let score = match random.below(12) {
                    0 => f64::NAN,
                    1 => -0.0,
                    2 => f64::INFINITY,
                    _ => random.below(60) as f64 - 30.0,
                };
                let row = Ranked { score, id: *id, version: 1, distance: None };
                (number(random), row)
            })
            .collect();
        check(&ranked, sizes, |row| row.id, seed);
        let neighbors: Vec<_> = ids
            .iter()
            .map(|id| {
                let distance = random.below(100) as f32 / 8.0 - 3.0;
                (number(random), Neighbor { distance, id: *id, version: 1 })
            })
            .collect();
        check(&neighbors, sizes, |row| row.id, seed);
    }
}

#[test]
fn a_large_group_in_the_worst_order_is_exact_too() {
    for order in [1.0, -1.0] {
        let random = &mut SplitMix(9);
        let rows: Vec<_> = (0..100_000u64)
            .map(|id| {
                let score = order * id as f64;
                let number = Some(random.below(5_000) as i64);
                (number, Ranked { score, id, version: 1, distance: None })
            })
            .collect();
        check(&rows, (1_000, 3), |row| row.id, 9);
    }
}

#[test]
fn nothing_is_kept_where_nothing_is_asked_for() {
    let row = Ranked { score: 1.0, id: 1, version: 1, distance: None };
    assert!(!Diversify::new(0, 1).offer(None, row));
    assert!(!Diversify::new(1, 0).offer(None, row));
    assert!(!Best::new(0).offer(row));
    assert_eq!(GroupBy::new(0, 10).offer(None, row), Ok(false));
    let mut closed = GroupBy::among([Some(&Value::I64(1))], 2);
    assert_eq!(closed.offer(Some(&ValueRef::I64(2)), row), Ok(false));
    assert_eq!(closed.finish(5), []);
}
