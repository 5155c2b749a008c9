//! Audits made by hand: what they say of an effort, and when they stop saying it.

use vstream_index::CodeRanks;
use vstream_vector::{Element, Metric, SplitMix};

use super::super::choice::{choose, Costs};
use super::*;
use crate::settings::Settings;

const LEAVES: usize = 100;

fn at(writes: u64) -> Moment {
    Moment { leaves: LEAVES, rows: LEAVES as u64 * 256, writes }
}

/// An audit whose ten neighbours stand in these leaves, with code ranks a tenth as large.
fn audit(leaves: [u32; 10], effort: Reached, writes: u64) -> Audit {
    let hit = |(nth, leaf): (u32, u32)| {
        let ranks = CodeRanks::new(leaf, (0..leaf / 10).map(|_| 0));
        let id = u64::from(nth);
        Reach { id, nth, weight: 1, distance: 1.0, leaf: Some(leaf), cost: 1.0, code: Some(ranks) }
    };
    let mut audit = Audit {
        query: vec![writes as f32],
        k: 10,
        reach: (0..).zip(leaves).map(hit).collect(),
        at: at(writes),
        asked: 10_000,
        made: None,
        is_of_copy: false,
    };
    let found = audit.share(10, effort, &audit.at);
    audit.made = Some(Made { k: 10, effort, found });
    audit
}

fn chosen(window: &Window, effort: Reached, target: f64) -> Option<Reached> {
    let costs = Costs::of(&Settings::new(64, Metric::L2, Element::F32));
    choose(window, None, effort, target, &at(0), &costs)
}

fn reached(probes: usize) -> Reached {
    Reached { probes, refine: 100 }
}

/// A window whose neighbours stand in random leaves, the near ones more often.
fn window(random: &mut SplitMix, audits: usize, effort: Reached) -> Window {
    let mut window = Window::default();
    for _ in 0..audits {
        let mut leaf = || (random.below(10) * random.below(10)) as u32;
        window.push(audit(std::array::from_fn(|_| leaf()), effort, 0));
    }
    window
}

#[test]
fn an_estimate_speaks_of_the_effort_in_force() {
    let mut window = Window::default();
    // Made while 8 leaves were visited: 4 of 10 found.
    let leaves = std::array::from_fn(|i| 2 * i as u32 + 1);
    (0..40).for_each(|_| window.push(audit(leaves, reached(8), 0)));
    let recall = |probes| window.estimate(None, reached(probes), &at(0)).expect("audits").recall;
    assert!((recall(8) - 0.4).abs() < 1e-9);
    assert!((recall(18) - 0.9).abs() < 1e-9);
    assert!((recall(30) - 1.0).abs() < 1e-9);
    // A tree four times as large: the same neighbours stand twice as far down.
    let grown = Moment { leaves: 4 * LEAVES, rows: LEAVES as u64 * 1_024, writes: 0 };
    let recall = window.estimate(None, reached(20), &grown).expect("audits").recall;
    assert!((recall - 0.5).abs() < 1e-9, "{recall}");
    // Few exact distances find less.
    let ranks = Reached { probes: 20, refine: 0 };
    assert_eq!(ranks.for_k(10).refine, 80, "never fewer than a multiple of k");
}

#[test]
fn what_ranks_do_not_know_is_corrected() {
    let mut window = Window::default();
    for _ in 0..40 {
        let mut audit = audit(std::array::from_fn(|i| i as u32), reached(8), 0);
        audit.made.as_mut().expect("a search was made").found -= 0.1;
        window.push(audit);
    }
    let recall = window.estimate(None, reached(10), &at(0)).expect("audits").recall;
    assert!((recall - 0.9).abs() < 1e-9, "{recall}");
}

#[test]
fn an_interval_is_never_empty_and_covers_the_truth() {
    let mut random = SplitMix(5);
    let perfect = window(&mut random, 128, reached(100)).estimate(None, reached(100), &at(0));
    let perfect = perfect.expect("audits");
    assert_eq!(perfect.recall, 1.0);
    assert!((0.002..0.01).contains(&perfect.margin), "{perfect:?}");
    // The truth from many audits, then how often an interval from few holds it.
    for (probes, audits) in [(40, 16), (55, 16), (40, 128), (55, 128), (64, 128)] {
        let truth: f64 = (0..100)
            .map(|_| window(&mut random, 128, reached(probes)))
            .map(|window| window.estimate(None, reached(probes), &at(0)).expect("audits").recall)
            .sum::<f64>()
            / 100.0;
        let covered = (0..400).filter(|_| {
            let window = window(&mut random, audits, reached(probes));
            let estimate = window.estimate(None, reached(probes), &at(0)).expect("audits");
            (estimate.recall - truth).abs() <= estimate.margin
        });
        let covered = covered.count();
        // 95 % of 400 less two standard errors.
        assert!(covered >= 371, "{probes} probes, {audits} audits: {covered} of 400");
    }
}

#[test]
fn a_choice_meets_the_target_and_is_then_confirmed() {
    let mut random = SplitMix(6);
    for target in [0.7, 0.9, 0.98] {
        let window = window(&mut random, 128, reached(30));
        let chosen = chosen(&window, reached(30), target).expect("enough audits");
        let recall = window.estimate(None, chosen, &at(0)).expect("audits").recall;
        assert!((target..target + 0.05).contains(&recall), "{recall} for {target}");
        assert!(!window.confirms(None, reached(2), target, &at(0)), "too little");
        assert!(!window.confirms(None, reached(100), 0.7, &at(0)), "too much");
    }
    let few = window(&mut random, WINDOW_MIN - 1, reached(30));
    assert_eq!(chosen(&few, reached(30), 0.9), None);
}

#[test]
fn audits_of_rows_that_are_gone_are_made_again() {
    let mut window = Window::default();
    let lasts = LEAVES as u64 * 128;
    for writes in 0..30 {
        window.push(audit([0; 10], reached(5), writes * lasts / 10));
    }
    let now = at(3 * lasts);
    window.forget(&now);
    assert_eq!(window.len(), 10, "those of the last half of the rows stay");
    let (query, k) = window.ask_again().expect("a query of an audit that went");
    assert_eq!((query, k), (vec![(19 * lasts / 10) as f32], 10), "the newest first");
    let left = std::iter::from_fn(|| window.ask_again()).count();
    assert_eq!(left, 19);
}

/// The nearest leaf is visited however the tree has grown since the audit.
#[test]
fn one_leaf_is_never_fewer_than_none() {
    let mut window = Window::default();
    (0..40).for_each(|_| window.push(audit([0; 10], reached(1), 0)));
    let grown = Moment { leaves: LEAVES + 10, rows: LEAVES as u64 * 256, writes: 0 };
    let recall = window.estimate(None, reached(1), &grown).expect("audits").recall;
    assert!((recall - 1.0).abs() < 1e-9, "{recall}");
}

/// The newest audits say how much is known of now, whatever older ones are kept.
#[test]
fn audits_are_fresh_until_a_fifth_of_their_time_is_over() {
    let mut window = Window::default();
    let lasts = LEAVES as u64 * 128;
    for writes in 0..20 {
        window.push(audit([0; 10], reached(5), writes * lasts / 20));
    }
    let last = 19 * lasts / 20;
    assert_eq!(window.fresh(&at(last)), 5, "a fifth of what lasts, and the newest");
    assert_eq!(window.fresh(&at(last + lasts / 10)), 3);
    assert_eq!(window.fresh(&at(last + lasts / 4)), 0);
    assert_eq!(window.len(), 20);
}

/// Else audits would be pressing for good in a stream that writes much.
#[test]
fn a_window_drops_stale_audits_that_fresh_ones_contradict_and_is_not_short() {
    let mut window = Window::default();
    let lasts = LEAVES as u64 * 128;
    (0..60).for_each(|_| window.push(audit([0; 10], reached(5), 0)));
    let now = at(lasts / 2);
    let far = std::array::from_fn(|at| if at < 8 { 0 } else { 30 });
    for _ in 0..60 {
        window.push(audit(far, reached(5), now.writes));
        window.drop_stale(None, reached(5), &now);
        assert!(!window.is_short());
    }
    assert_eq!(window.len(), 60, "all that were made since, and no other");
}

/// By inner product a few long rows are near to every query, and others than those that audits found.
#[test]
fn a_few_writes_that_change_much_are_believed_at_once() {
    let mut random = SplitMix(18);
    let mut window = window(&mut random, WINDOW, reached(60));
    let now = at(LEAVES as u64 * 4);
    assert!(!now.has_moved_on(&at(0)), "no audit is stale");
    let recall =
        |window: &Window| window.estimate(None, reached(60), &now).map(|estimate| estimate.recall);
    let before = recall(&window).expect("audits");
    assert!(window.is_behind(&now) && !window.is_behind(&at(0)));
    window.drop_stale(None, reached(60), &now);
    assert!(!window.is_doubted(&now) && window.len() == WINDOW);
    for made in 1..=WINDOW_FAIR {
        let far = std::array::from_fn(|at| if at < 7 { 0 } else { 90 });
        window.push(audit(far, reached(60), now.writes));
        window.drop_stale(None, reached(60), &now);
        assert!(window.is_doubted(&now) || !(8..=16).contains(&made), "{made} audits");
        let after = recall(&window).expect("audits");
        assert!(made < 24 || after < before - 0.1, "{after} with {made} audits, {before} before");
        assert!(!window.is_short());
    }
    // They find 0.7.
    let after = recall(&window).expect("audits");
    assert!(after < 0.7 + 0.2 * (before - 0.7), "{after}, {before} before");
    assert!(!window.is_behind(&now));
}

/// Where nothing has drifted, a choice must not rest on the few audits that were made again.
#[test]
fn stale_audits_count_beside_fresh_ones_that_say_the_same() {
    let mut window = Window::default();
    let lasts = LEAVES as u64 * 128;
    // One of three lacks a neighbour of ten at this effort, before and after.
    let of = |nth: usize| {
        std::array::from_fn(|at| if at == 9 && nth.is_multiple_of(3) { 30 } else { 0 })
    };
    (0..WINDOW).for_each(|nth| window.push(audit(of(nth), reached(5), 0)));
    let now = at(lasts / 2);
    for fresh in 1..=300 {
        window.push(audit(of(fresh), reached(5), now.writes));
        window.drop_stale(None, reached(5), &now);
        assert_eq!(window.fresh(&now), fresh);
        let stale = window.len() - fresh;
        let most = if fresh < WINDOW_FAIR { WINDOW } else { STALE_PER_FRESH * fresh };
        assert!(stale <= most && window.len() >= 4 * WINDOW_FAIR, "{stale} beside {fresh}");
    }
    assert_eq!(window.len(), 300 + STALE_PER_FRESH * WINDOW_FAIR);
}

/// Chance makes some fresh audits look easier than the rest, in some of many windows.
#[test]
fn lucky_fresh_audits_do_not_decide_alone() {
    let mut random = SplitMix(17);
    let now = at(LEAVES as u64 * 64);
    let mut lost = 0;
    for _ in 0..200 {
        let mut window = window(&mut random, WINDOW, reached(60));
        let mut least = WINDOW;
        for _ in 0..4 * WINDOW_FAIR {
            let mut leaf = || (random.below(10) * random.below(10)) as u32;
            let fresh = audit(std::array::from_fn(|_| leaf()), reached(60), now.writes);
            window.push(fresh);
            window.drop_stale(None, reached(60), &now);
            least = least.min(window.len());
        }
        lost += usize::from(least < 3 * WINDOW_FAIR);
    }
    assert!(lost <= 30, "{lost} of 200 windows fell to the fresh audits alone");
}

#[test]
fn audits_of_before_a_split_go_once_there_are_others() {
    let mut random = SplitMix(6);
    let mut window = window(&mut random, 200, reached(20));
    let split = Moment { leaves: LEAVES * 2, ..at(0) };
    for fresh in 1..=WINDOW_FAIR {
        let mut leaf = || (random.below(10) * random.below(10)) as u32;
        let fresh_one = audit(std::array::from_fn(|_| leaf()), reached(20), 0);
        window.push(Audit { at: split, ..fresh_one });
        window.drop_stale(None, reached(20), &split);
        assert_eq!(window.len(), if fresh < WINDOW_FAIR { 200 + fresh } else { fresh });
    }
}

/// An exact search of rows in segments reads and decodes all of them: a second for 1.5 million.
#[test]
fn rows_of_segments_are_not_all_read_for_a_target_out_of_reach() {
    let mut window = Window::default();
    // Neighbours in the farthest leaves of a search that found less than their ranks say.
    for _ in 0..64 {
        let far = std::array::from_fn(|at| (LEAVES - 1 - at) as u32);
        let mut audit = audit(far, reached(LEAVES), 0);
        audit.made = audit.made.map(|made| Made { found: made.found - 0.2, ..made });
        window.push(audit);
    }
    let now = Moment { leaves: LEAVES, rows: LEAVES as u64 * 600, writes: 0 };
    let memory = Settings::new(128, Metric::L2, Element::U8);
    let segments = Settings { memory: Some(32 << 20), ..memory.clone() };
    let choose = |settings: &Settings| {
        choose(&window, None, reached(LEAVES), 0.95, &now, &Costs::of(settings))
    };
    assert_eq!(choose(&memory), Some(Reached::EXACT));
    let chosen = choose(&segments).expect("a choice");
    assert!(chosen.probes == LEAVES && chosen.refine < 10_000, "{chosen:?}");
}

/// Leaves are fewer after a flush. Neighbours that stood beyond the last one of now are found by who visits all.
#[test]
fn a_search_of_all_leaves_finds_what_stood_in_leaves_that_were_joined() {
    let mut window = Window::default();
    let far = std::array::from_fn(|at| (LEAVES - 1 - at) as u32);
    (0..64).for_each(|_| window.push(audit(far, reached(LEAVES), 0)));
    let now = Moment { leaves: LEAVES / 2, ..at(0) };
    let all = reached(now.leaves);
    let found = |effort| window.estimate(None, effort, &now).expect("audits").recall;
    assert_eq!((found(all), found(reached(now.leaves - 1))), (1.0, 0.0));
    let settings =
        Settings { memory: Some(32 << 20), ..Settings::new(128, Metric::L2, Element::U8) };
    let chosen = choose(&window, None, all, 0.95, &now, &Costs::of(&settings)).expect("a choice");
    assert!(chosen.probes == now.leaves && chosen.refine < 100, "{chosen:?}");
}

/// Trust grows with each later query, so an effort that suits the first ones must not come with it.
#[test]
fn the_first_queries_do_not_outvote_the_others_while_these_become_enough() {
    let asked_after = |leaves, asked| Audit { asked, ..audit(leaves, reached(LEAVES), 0) };
    let (near, far) = ([0; 10], std::array::from_fn(|at| 5 * at as u32));
    let mut window = Window::default();
    (1..=100).for_each(|asked| window.push(asked_after(near, asked)));
    assert_eq!(window.len(), 100, "without others they all count");
    // Half of them come before they count as later ones.
    (0..16).for_each(|nth| window.push(asked_after(far, 240 + nth)));
    for later in 1..=LATER_FAIR {
        window.push(asked_after(far, 300 + later));
        assert!(!window.is_short());
        let first = window.audits.iter().filter(|audit| audit.asked <= 256).count();
        assert!(first <= later.max(WINDOW_FAIR - later), "{first} of the first, {later} of others");
        assert_eq!(window.is_fair(), later == LATER_FAIR);
        if 2 * later >= LATER_FAIR {
            let effort = chosen(&window, reached(LEAVES), 0.95).expect("enough audits");
            let share = asked_after(far, 0).share(10, effort, &at(0));
            assert!(share >= 0.9, "{share} of the neighbours of {later} others by {effort:?}");
        }
    }
}

#[test]
fn audits_are_made_again_where_leaves_were_split_though_no_row_came() {
    let mut random = SplitMix(5);
    let mut window = window(&mut random, 60, reached(20));
    let with = |leaves: usize| Moment { leaves, ..at(0) };
    assert_eq!(window.fresh(&with(LEAVES * 5 / 4)), 60);
    assert!(!window.is_stale(&with(LEAVES * 5 / 4)));
    assert!(window.is_stale(&with(LEAVES * 2)));
    assert_eq!(window.fresh(&with(LEAVES * 2)), 0);
    // They count until others are there.
    window.drop_stale(None, reached(20), &with(LEAVES * 2));
    assert_eq!(window.len(), 60);
    assert!(window.ask_stale(&with(LEAVES * 2)).is_some());
    // Fewer leaves make a search go too far, not too short.
    assert_eq!(window.fresh(&with(LEAVES / 2)), 59);
}
