//! Which rows an audit of a row is about, and which classes of k get a decision.

use std::collections::BTreeSet;
use std::path::Path;

use vstream_index::{Effort, Probe, Reach};
use vstream_vector::{Element, Metric, SplitMix, TopK};

use super::leave_out;
use super::spread::{is_drawn, NOTE_EVERY};
use crate::tree::{Extent, TreeScratch};
use crate::{Engine, Journaling, Query, Row, Scratch, Settings};

const DIMENSION: usize = 24;

/// An engine with some rows around 300 points in segments, and a source of vectors like them.
fn engine_over_segments(dir: &Path, rows: u64) -> (Engine, impl FnMut() -> Vec<f32>) {
    let settings =
        Settings { memory: Some(1 << 20), ..Settings::new(DIMENSION, Metric::L2, Element::F32) };
    let journaling = Journaling { background: false, ..Journaling::default() };
    let builder = Engine::builder().dir(dir).journaling(journaling);
    let mut engine = builder.create(settings).expect("an engine");
    let mut random = SplitMix(17);
    let mut vector = move || -> Vec<f32> {
        let mut at = SplitMix(u64::from(random.below(300) as u32));
        (0..DIMENSION).map(|_| 2.0 * at.normal() + random.normal()).collect()
    };
    for id in 0..rows {
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
    (engine, vector)
}

/// An audit of enough leaves notes the same neighbours, with the same ranks of their leaves, as one of all.
#[test]
fn an_audit_of_the_nearest_leaves_finds_what_one_of_all_finds() {
    let dir = tempfile::tempdir().expect("a folder");
    let (engine, mut vector) = engine_over_segments(dir.path(), 80_000);
    let (tree, k) = (&engine.tree, 10);
    let begin = tree.audit_extent(Extent::default(), k);
    assert!(begin.leaves * 2 <= tree.leaves(), "{begin:?} of {} leaves", tree.leaves());
    let (mut scratch, mut top) = (TreeScratch::default(), TopK::default());
    let (mut notes, mut same, mut farther) = (0, 0, 0);
    for _ in 0..100 {
        let (vector, effort) = (&vector()[..], Effort::Thorough { depth: 0 });
        let probe = Probe { vector, k, effort, filter: None };
        let mut audit = |is_whole| {
            let mut reach = Vec::new();
            top.reset(k);
            let went = tree.audit(&probe, (begin, is_whole), &mut scratch, &mut top, &mut reach);
            (went.expect("segments that can be read"), reach)
        };
        let ((went, nearest), (needed, all)) = (audit(false), audit(true));
        assert!(went.leaves <= tree.leaves() && needed.leaves <= tree.leaves());
        farther += usize::from(went.leaves > begin.leaves);
        let known = |hit: &Reach| (hit.id, hit.leaf, hit.cost, hit.distance);
        let is_known = |hit: &&Reach| nearest.iter().any(|other| known(other) == known(hit));
        notes += all.len();
        same += all.iter().filter(is_known).count();
    }
    // A neighbour in a leaf beyond four times as many as that of the last is missed.
    assert!(same * 200 >= notes * 199, "{same} of {notes} notes");
    assert!((1..100).contains(&farther), "{farther} of 100 audits went on to more leaves");
}

/// Rows over segments are audited for as many neighbours as were asked for. Who asks for more, be it seldom, gets
/// a decision too.
#[test]
fn a_larger_k_gets_a_decision_though_rows_were_audited_for_a_smaller_one() {
    let dir = tempfile::tempdir().expect("a folder");
    let (engine, mut vector) = engine_over_segments(dir.path(), 20_000);
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

/// Of queries that repeat in a fixed order all come to be noted.
#[test]
fn queries_that_come_in_turns_are_all_noted() {
    let drawn: Vec<usize> = (0..64_000).filter(|&seen| is_drawn(seen)).collect();
    assert!(drawn.len().abs_diff(64_000 / NOTE_EVERY) < 400, "{} are drawn", drawn.len());
    for period in [16, 100, 128, 500] {
        let noted: BTreeSet<usize> = drawn.iter().map(|seen| seen % period).collect();
        assert_eq!(noted.len(), period, "of {period} that come in turns");
    }
}
