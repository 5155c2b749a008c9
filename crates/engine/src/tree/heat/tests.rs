use vstream_vector::SplitMix;

use super::{nearness, Heat, Scores, Sums, HALF_LIFE, WEIGHTS};

fn sums(random: &mut SplitMix, most: usize) -> Sums {
    let mut number = || random.below(most) as f64;
    Sums { queries: number(), hits: number(), nearness: number() }
}

fn scores(of: &Sums, all: &Sums) -> Scores {
    Scores::new(of, all, (10, 20))
}

#[test]
fn scores_stay_from_0_to_1_whatever_was_counted() {
    assert_eq!(WEIGHTS.iter().sum::<f64>(), 1.0);
    let mut random = SplitMix(1);
    for _ in 0..10_000 {
        let (of, all) = (sums(&mut random, 1_000), sums(&mut random, 1_000));
        let rows = (random.below(100) as u64, random.below(100) as u64);
        let Scores { access, hits, contribution, freshness } = Scores::new(&of, &all, rows);
        for score in [access, hits, contribution, freshness] {
            assert!((0.0..=1.0).contains(&score), "{of:?} of {all:?}, {rows:?}: {score}");
        }
        let heat = Scores::new(&of, &all, rows).heat();
        assert!((0.0..=1.0).contains(&heat), "{heat}");
    }
    assert_eq!(Scores::new(&Sums::default(), &Sums::default(), (0, 0)), Scores::default());
}

#[test]
fn more_is_hotter_in_every_score() {
    let mut random = SplitMix(2);
    for _ in 0..1_000 {
        let of = sums(&mut random, 500);
        let all = Sums { queries: 1_000.0, hits: 1_000.0, nearness: 1_000.0 };
        let heat = scores(&of, &all).heat();
        let visited = Sums { queries: of.queries + 100.0, ..of };
        let answered = Sums { hits: of.hits + 100.0, ..of };
        let nearer = Sums { nearness: of.nearness + 100.0, ..of };
        for more in [visited, answered, nearer] {
            assert!(scores(&more, &all).heat() > heat, "{more:?} after {of:?}");
        }
    }
}

#[test]
fn what_is_near_and_what_is_new_is_hotter() {
    for rows in [1, 2, 10, 1_000] {
        assert_eq!(nearness(0, rows), 1.0);
        let all: Vec<f64> = (0..rows).map(|rank| nearness(rank, rows)).collect();
        assert!(all.is_sorted_by(|a, b| a > b) && all[rows - 1] > 0.0);
    }
    let all = Sums::default();
    let by_age: Vec<f64> =
        [0, 5, 50, 99].map(|newer| Scores::new(&all, &all, (newer, 100)).freshness).into();
    assert!(by_age.is_sorted_by(|a, b| a > b), "{by_age:?}");
    assert_eq!(by_age[0], 1.0);
}

#[test]
fn what_was_counted_fades_by_half_in_a_half_life() {
    let before = Sums { queries: 80.0, hits: 40.0, nearness: 20.0 };
    let after = before.cooled(HALF_LIFE as u64, Sums::default());
    assert_eq!(after, Sums { queries: 40.0, hits: 20.0, nearness: 10.0 });
    // In one step or in many: the same.
    let mut steps = before;
    for _ in 0..8 {
        steps = steps.cooled(HALF_LIFE as u64 / 8, Sums::default());
    }
    assert!((steps.queries - 40.0).abs() < 1e-9, "{steps:?}");
    assert_eq!(before.cooled(0, Sums::default()), before);
}

#[test]
fn heat_counts_once_and_hands_itself_on() {
    let heat = Heat::default();
    heat.note_query();
    heat.note_hits(2, 1.5);
    let sums = heat.cool(10);
    heat.cool_visits(10, [3, 5].into_iter());
    assert_eq!(sums, Sums { queries: 1.0, hits: 2.0, nearness: 1.5 });
    assert_eq!((heat.visits(0), heat.visits(1), heat.visits(2)), (3.0, 5.0, 0.0));
    let again = heat.cool(0);
    heat.cool_visits(0, [0, 0].into_iter());
    assert_eq!(again, sums, "taken once, kept");
    heat.score(&scores(&sums, &sums));
    let cold = Heat::default();
    let merged = Heat::default();
    merged.inherit(&[(&heat, 0.75), (&cold, 0.25)], 4);
    assert_eq!(merged.visits(3), 2.0);
    assert_eq!(merged.heat(), 0.75 * heat.heat());
    assert_eq!(merged.cool(0), sums);
}
