//! The protocol holds; each deliberate mistake in it does not.

use super::explore::{everywhere, walk};
use super::world::World;
use super::{Defect, Op, Setup};

/// Random walks without a mistake, and at most so many with one.
const WALKS: u64 = 10_000;
const WALKS_TO_CATCH: u64 = 40_000;

fn small(stream: &[Op]) -> Setup {
    let setup = Setup {
        streams: vec![stream.to_vec()],
        routers: 1,
        epochs: 1,
        crashes: 0,
        checkpoints: 0,
        queries: 1,
        losses: 0,
        defect: None,
    };
    assert!(World::fits(&setup));
    setup
}

#[test]
fn every_way_of_a_small_hand_over_keeps_every_row() {
    let stays = Op::Upsert { id: 0, cell: 2 };
    let moves = Op::Upsert { id: 0, cell: 0 };
    let swaps = Op::Upsert { id: 0, cell: 1 };
    let dies = Op::Delete { id: 0 };
    let mut states = 0;
    for stream in [[moves, dies], [moves, stays], [moves, swaps], [stays, moves]] {
        let seen = everywhere(&small(&stream), 1_000_000)
            .unwrap_or_else(|violation| panic!("{stream:?}: {violation:#?}"));
        assert!(seen.complete && seen.ends > 0, "{stream:?}: {seen:?}");
        states += seen.states;
    }
    println!("{states} moments");
    assert!(states > 500_000, "only {states} moments");
}

#[test]
fn random_ways_of_larger_hand_overs_keep_every_row() {
    let mut moments = 0;
    for seed in 0..WALKS {
        moments += walk(seed, None).unwrap_or_else(|v| panic!("seed {seed}: {v:#?}"));
    }
    println!("{moments} moments");
}

#[test]
fn every_deliberate_mistake_is_noticed() {
    let mut missed = Vec::new();
    for defect in Defect::ALL {
        match (0..WALKS_TO_CATCH).find_map(|seed| Some((seed, walk(seed, Some(defect)).err()?))) {
            Some((seed, violation)) => println!("{defect:?}: seed {seed}: {}", violation.what),
            None => missed.push(defect),
        }
    }
    assert!(missed.is_empty(), "not noticed: {missed:?}");
}
