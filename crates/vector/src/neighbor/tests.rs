use super::*;
use crate::random::SplitMix;

const SEED: u64 = 3;

fn rows(n: usize, distinct: usize) -> Vec<Neighbor> {
    let mut random = SplitMix(SEED);
    (0..n)
        .map(|i| {
            let distance = random.below(distinct) as f32 - 5.0;
            Neighbor { distance, id: random.below(4 * n) as u64, version: i as u64 }
        })
        .collect()
}

fn keys(rows: &[Neighbor]) -> Vec<(f32, u64)> {
    rows.iter().map(|row| (row.distance, row.id)).collect()
}

#[test]
fn keeps_what_a_full_sort_would() {
    for (n, distinct) in [(0, 1), (1, 1), (9, 3), (10, 1000), (500, 7), (500, 1_000_000)] {
        for k in [1, 2, 10, 100, 499, 500, 501] {
            let offered = rows(n, distinct);
            let mut top = TopK::new(k);
            for &row in &offered {
                top.offer(row);
            }
            assert_eq!(top.len(), n.min(k));
            let mut found = Vec::new();
            top.drain_sorted(&mut found);
            let mut sorted = offered;
            sorted.sort_by(Neighbor::order);
            sorted.truncate(k);
            assert_eq!(keys(&found), keys(&sorted), "n {n}, k {k}, seed {SEED}");
            assert!(top.is_empty());
        }
    }
}

#[test]
fn bound_is_the_worst_kept_distance_once_full() {
    let mut top = TopK::new(3);
    let row = |distance: f32, id| Neighbor { distance, id, version: 0 };
    assert_eq!(top.bound(), f32::INFINITY);
    for (id, distance) in [5.0, 1.0, 9.0].into_iter().enumerate() {
        assert!(top.offer(row(distance, id as u64)));
    }
    assert_eq!(top.bound(), 9.0);
    assert!(!top.offer(row(9.5, 7)));
    assert!(!top.offer(row(9.0, 7)), "a tie with a larger id stays out");
    assert!(top.offer(row(9.0, 1)), "a tie with a smaller id enters");
    assert!(top.offer(row(2.0, 8)));
    assert_eq!(top.bound(), 5.0);
}

#[test]
fn reset_forgets_rows_and_takes_a_new_k() {
    let mut top = TopK::new(5);
    rows(20, 100).into_iter().for_each(|row| {
        top.offer(row);
    });
    top.reset(2);
    assert!(top.is_empty());
    assert_eq!(top.bound(), f32::INFINITY);
    rows(20, 100).into_iter().for_each(|row| {
        top.offer(row);
    });
    assert_eq!(top.len(), 2);
}

#[test]
fn a_collector_of_zero_rows_keeps_none() {
    let mut top = TopK::default();
    assert_eq!(top.bound(), f32::NEG_INFINITY);
    for row in rows(5, 10) {
        assert!(!top.offer(row));
    }
    assert!(top.is_empty());
}
