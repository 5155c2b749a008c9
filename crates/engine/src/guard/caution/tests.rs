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
fn audit(writes: u64, mut neighbour: impl FnMut() -> (f32, u32)) -> Audit {
    let mut hit = |nth: u32| {
        let (cost, rank) = neighbour();
        let code = Some(CodeRanks::always(rank));
        Reach { id: u64::from(nth), nth, weight: 1, distance: 1.0, leaf: Some(nth), cost, code }
    };
    Audit {
        query: vec![1.0; DIMENSION],
        k: 10,
        reach: (0..10).map(&mut hit).collect(),
        at: at(writes),
        asked: 1_000,
        made: None,
        is_of_copy: false,
    }
}

fn margins(window: &Window) -> Margins {
    let margins = Margins::default();
    margins.note(window, None, TARGET, index());
    margins
}

fn parts(effort: Effort) -> (f32, usize, usize) {
    match effort {
        Effort::Cautious { theta, least, most, .. } => (theta, least, most),
        other => panic!("{other:?}"),
    }
}

/// Without audits, with too few, and with those of long ago, constants stand in.
#[test]
fn constants_stand_in_for_audits() {
    let mut window = Window::default();
    (1..WINDOW_MIN).for_each(|_| window.push(audit(0, || (0.8, 20))));
    let effort = |window: &Window, now| parts(margins(window).effort(10, TARGET, 0, &at(now)));
    assert_eq!(effort(&Window::default(), 0), (THETA, LEAST as usize, usize::MAX));
    assert_eq!(effort(&window, 0), (THETA, LEAST as usize, usize::MAX));
    window.push(audit(0, || (0.8, 20)));
    let ((theta, least, most), late) =
        (effort(&window, 0), (TURNOVERS_MAX * ROWS as f64 / 2.0) as u64);
    assert!((0.8..0.82).contains(&theta) && (least, most) == (80, 80), "{theta}, {least}, {most}");
    assert_eq!(effort(&window, late), (THETA, LEAST as usize, usize::MAX));
    let careful = parts(margins(&Window::default()).effort(10, 0.99, 0, &at(0)));
    assert!(careful.0 > THETA && careful.1 > LEAST as usize, "{careful:?}");
}

/// The older audits are the nearer to the constants; never are fewer rows measured than the audits say, and where
/// these ask for a larger θ than the constant, the constant it is.
#[test]
fn older_audits_are_trusted_less_and_hard_data_is_never_taken_for_easy() {
    for (theta, rank) in [(0.9, 60), (2.2, 3_000)] {
        let mut window = Window::default();
        (0..40).for_each(|_| window.push(audit(0, || (theta, rank))));
        let margins = margins(&window);
        let mut last = (0.0, 0);
        for part in 0..10 {
            let now = at(part * (TURNOVERS_MAX * ROWS as f64 / 20.0) as u64);
            let (found, least, most) = parts(margins.effort(10, TARGET, 0, &now));
            assert!(found > theta.min(1.4) && found <= THETA, "{found} for {theta}");
            assert!(least > rank as usize && least <= (rank as usize + 1).max(LEAST as usize));
            assert_eq!(least, most);
            assert!((found, least) >= last, "{found}, {least} after {last:?}");
            last = (found, least);
        }
    }
}

/// Of neighbours that differ, both bounds together leave out no more than the target allows.
#[test]
fn both_bounds_together_meet_the_target() {
    let mut random = SplitMix(31);
    let mut neighbour = || {
        let margin = 1.0 + 0.2 * random.normal();
        (margin, (50.0 * random.normal().exp()) as u32)
    };
    let mut window = Window::default();
    (0..200).for_each(|_| window.push(audit(0, &mut neighbour)));
    let (theta, least, _) = parts(margins(&window).effort(10, TARGET, 0, &at(0)));
    let found = (0..20_000)
        .map(|_| neighbour())
        .filter(|(margin, rank)| *margin < theta && (*rank as usize) < least);
    let recall = found.count() as f64 / 20_000.0;
    println!("seed 31: theta {theta}, {least} rows, {recall}");
    assert!((TARGET..0.985).contains(&recall), "{recall}");
}
