//! Which rows an audit of a row is about, and which classes of k get a decision.

use vstream_index::{Effort, Reach};
use vstream_vector::{Element, Metric, SplitMix};

use super::leave_out;
use crate::{Engine, Journaling, Query, Row, Scratch, Settings};

const DIMENSION: usize = 24;

/// Rows over segments are audited for as many neighbours as were asked for. Who asks for more, be it seldom, gets
/// a decision too.
#[test]
fn a_larger_k_gets_a_decision_though_rows_were_audited_for_a_smaller_one() {
    let dir = tempfile::tempdir().expect("a folder");
    let settings =
        Settings { memory: Some(1 << 20), ..Settings::new(DIMENSION, Metric::L2, Element::F32) };
    let journaling = Journaling { background: false, ..Journaling::default() };
    let builder = Engine::builder().dir(dir.path()).journaling(journaling);
    let mut engine = builder.create(settings).expect("an engine");
    let mut random = SplitMix(17);
    let mut vector = || -> Vec<f32> {
        let mut at = SplitMix(u64::from(random.below(300) as u32));
        (0..DIMENSION).map(|_| 2.0 * at.normal() + random.normal()).collect()
    };
    for id in 0..20_000 {
        let row = Row {
            version: 1,
            code: 0,
            shard: 0,
            vector: &vector(),
            id,
            fields: Default::default(),
        };
        engine.upsert(&row).expect("a good row");
    }
    engine.checkpoint().expect("a segment");
    let (reader, mut scratch, mut out) = (engine.reader(), Scratch::default(), Vec::new());
    for k in [10, 100, 10] {
        for _ in 0..20 {
            reader.search(&Query::new(&vector(), k), &mut scratch, &mut out).expect("an answer");
        }
        engine.catch_up();
        let effort = engine.guard.effort(&engine.tree, k);
        assert!(matches!(effort, Effort::Approximate { .. }), "{effort:?} for {k} neighbours");
    }
}

/// Groups as they are noted: first position, how many, and the id of the one in the middle.
fn noted(groups: &[(u32, u32, u64)]) -> Vec<Reach> {
    let reach = |&(nth, weight, id)| Reach {
        id,
        nth,
        weight,
        distance: 0.0,
        leaf: None,
        cost: 0.0,
        code: None,
    };
    groups.iter().map(reach).collect()
}

fn left(groups: &[(u32, u32, u64)], own: Option<u64>) -> Vec<(u32, u32, u64)> {
    let mut reach = noted(groups);
    leave_out(own, &mut reach);
    reach.iter().map(|hit| (hit.nth, hit.weight, hit.id)).collect()
}

#[test]
fn the_row_itself_leaves_no_gap() {
    let groups = [(0, 1, 70), (1, 1, 71), (2, 4, 72), (6, 4, 73)];
    assert_eq!(left(&groups, None), groups);
    assert_eq!(left(&groups, Some(99)), groups, "it is not among those that are noted");
    assert_eq!(left(&groups, Some(70)), [(0, 1, 71), (1, 4, 72), (5, 4, 73)]);
    assert_eq!(left(&groups, Some(71)), [(0, 1, 70), (1, 4, 72), (5, 4, 73)]);
    assert_eq!(left(&groups, Some(72)), [(0, 1, 70), (1, 1, 71), (2, 3, 72), (5, 4, 73)]);
    assert_eq!(left(&groups, Some(73)), [(0, 1, 70), (1, 1, 71), (2, 4, 72), (6, 3, 73)]);
}
