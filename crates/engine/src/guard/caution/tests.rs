//! Audits made by hand: what they say of queries without a decision, and for how long.

use vstream_index::{CodeRanks, Effort, Reach};
use vstream_vector::{Element, Metric, SplitMix};

use super::super::window::Audit;
use super::*;
use crate::settings::Settings;

const DIMENSION: usize = 128;
const ROWS: u64 = 1_000_000;
const TARGET: f64 = 0.95;

fn index() -> IndexSettings {
    Settings::new(DIMENSION, Metric::L2, Element::F32).index_settings()
}

fn at(writes: u64) -> Moment {
    Moment { leaves: 4_000, rows: ROWS, writes }
}

/// An audit of ten neighbours at a distance of 1, each with these θ and rank.
fn audit(mut neighbour: impl FnMut() -> (f32, u32)) -> Audit {
    let mut hit = |nth: u32| {
        let (cost, rank) = neighbour();
        let code = Some(CodeRanks::always(rank));
        Reach { id: u64::from(nth), nth, weight: 1, distance: 1.0, leaf: Some(nth), cost, code }
    };
    Audit {
        query: vec![1.0; DIMENSION],
        k: 10,
        reach: (0..10).map(&mut hit).collect(),
        at: at(0),
        asked: 1_000,
        made: None,
        is_of_copy: false,
    }
}

fn window(audits: usize, theta: f32, rank: u32) -> Window {
    let mut window = Window::default();
    (0..audits).for_each(|_| window.push(audit(|| (theta, rank))));
    window
}

fn effort(window: &Window, target: f64, now: &Moment) -> (f32, usize) {
    let margins = Margins::default();
    margins.note(window, None, target, index());
    match margins.effort(10, target, 0, now) {
        Effort::Cautious { theta, least, .. } => (theta, least),
        other => panic!("{other:?}"),
    }
}

const CONSTANTS: (f32, usize) = (THETA, LEAST as usize);

/// Without audits, with too few, with those of long ago or of other leaves, and where every search scans the
/// neighbours anyway.
#[test]
fn constants_stand_in_for_audits() {
    let known = window(WINDOW_MIN, 0.8, 20);
    let (theta, least) = effort(&known, TARGET, &at(0));
    assert!((0.8..0.82).contains(&theta) && least == 80, "{theta}, {least}");
    assert_eq!(effort(&Window::default(), TARGET, &at(0)), CONSTANTS);
    assert_eq!(effort(&window(WINDOW_MIN - 1, 0.8, 20), TARGET, &at(0)), CONSTANTS);
    let late = (TURNOVERS_MAX * ROWS as f64 / 2.0) as u64;
    assert_eq!(effort(&known, TARGET, &at(late)), CONSTANTS);
    for leaves in [1_500, 10_000] {
        assert_eq!(
            effort(&known, TARGET, &Moment { leaves, ..at(0) }),
            CONSTANTS,
            "{leaves} leaves"
        );
    }
    let grown = Moment { leaves: 12_000, rows: 3 * ROWS, writes: 0 };
    assert_eq!(effort(&known, TARGET, &grown).1, 80, "as many rows per leaf as then");
    let mut loose = known;
    loose.audits.iter_mut().flat_map(|audit| &mut audit.reach).for_each(|hit| hit.leaf = None);
    assert_eq!(effort(&loose, TARGET, &at(0)), CONSTANTS);
    let careful = effort(&Window::default(), 0.99, &at(0));
    assert!(careful.0 > THETA && careful.1 > LEAST as usize, "{careful:?}");
}

/// The older audits are the nearer to the constants; never are fewer rows measured than the audits say, and where
/// these ask for a larger θ than the constant, the constant it is.
#[test]
fn older_audits_are_trusted_less() {
    for (theta, rank) in [(0.9, 60), (2.2, 3_000)] {
        let window = window(40, theta, rank);
        let mut last = (0.0, 0);
        for part in 0..10 {
            let now = at(part * (TURNOVERS_MAX * ROWS as f64 / 20.0) as u64);
            let (found, least) = effort(&window, TARGET, &now);
            assert!(found > theta.min(1.4) && found <= THETA, "{found} for {theta}");
            assert!(least > rank as usize && least <= (rank as usize + 1).max(LEAST as usize));
            assert!((found, least) >= last, "{found}, {least} after {last:?}");
            last = (found, least);
        }
    }
}

/// Of neighbours that differ, both bounds together leave out no more than the target allows.
#[test]
fn both_bounds_together_meet_the_target() {
    let mut random = SplitMix(31);
    let mut neighbour = || (0.8 + 0.2 * random.normal(), (50.0 * random.normal().exp()) as u32);
    let mut window = Window::default();
    (0..200).for_each(|_| window.push(audit(&mut neighbour)));
    let (theta, least) = effort(&window, TARGET, &at(0));
    let is_found = |(margin, rank): &(f32, u32)| *margin < theta && (*rank as usize) < least;
    let found = (0..20_000).map(|_| neighbour()).filter(is_found).count();
    let recall = found as f64 / 20_000.0;
    println!("seed 31: theta {theta}, {least} rows, {recall}");
    assert!((TARGET - 0.005..0.985).contains(&recall), "{recall}");
}

/// A fresh decision counts, however many leaves it asks for: what a query finds out itself may cost much more.
#[test]
fn only_an_old_decision_or_one_for_all_leaves_is_dear() {
    let now = at(0);
    let dear =
        |probes: usize, stretched: f64| is_dear(&Reached { probes, refine: 400 }, stretched, &now);
    assert!(!dear(1_500, 1.0) && !dear(3_900, 2.0) && !dear(900, 3.0));
    assert!(dear(1_500, 2.1) && dear(4_000, 1.0) && dear(usize::MAX, 1.0));
    let few = Moment { leaves: 200, ..now };
    assert!(!is_dear(&Reached::EXACT, 3.0, &few), "there is little to leave out");
}
