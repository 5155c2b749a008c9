//! A short run of the crash lab; `make crash-lab` runs it for as long as one likes.

mod s3;

use std::path::Path;

use vstream_engine::Defect;
use vstream_sim::damage::AtRest;
use vstream_sim::far::there_and_back;
use vstream_sim::kill;
use vstream_sim::ledger::{caught, Totals};
use vstream_sim::simulation::{crash_everywhere, play};

/// Seeds that are crashed everywhere, half of them on each of two threads.
const SEEDS: u64 = 80;

#[test]
fn no_crash_loses_or_invents_a_row() {
    let run = |seeds: std::ops::Range<u64>| {
        let mut totals = Totals::default();
        for seed in seeds {
            let crashed = crash_everywhere(seed);
            totals.add(crashed.unwrap_or_else(|violation| {
                panic!("seed {seed}: {violation:?}\nagain: crash-lab replay {seed}")
            }));
        }
        totals
    };
    let mut totals = Totals::default();
    std::thread::scope(|scope| {
        let other = scope.spawn(|| run(1 + SEEDS / 2..1 + SEEDS));
        totals.merge(&run(1..1 + SEEDS / 2));
        totals.merge(&other.join().expect("no violation"));
    });
    println!("{totals:?}");
    assert!(totals.crash_states >= 200_000, "only {} states", totals.crash_states);
    assert!(totals.faults >= 100, "only {} faults", totals.faults);
}

#[test]
fn every_changed_byte_is_noticed() {
    let mut changes = 0;
    for seed in 1..5 {
        let at_rest = AtRest::new(seed).expect("a collection");
        let bits: u64 = at_rest.content.values().map(|bytes| bytes.len() as u64 * 8).sum();
        let flipped = at_rest.flip_bits(0, bits.min(100_000));
        changes += flipped.unwrap_or_else(|v| panic!("seed {seed}: {v:?}"));
        let unclosed = at_rest.flip_unclosed(seed, 1_000);
        changes += unclosed.unwrap_or_else(|v| panic!("seed {seed}: {v:?}"));
        changes += at_rest.mangle(seed, 2_000).unwrap_or_else(|v| panic!("seed {seed}: {v:?}"));
    }
    assert!(changes >= 300_000, "only {changes} changes");
}

#[test]
fn what_goes_far_away_comes_back() {
    let mut totals = Totals::default();
    for seed in 1..73 {
        let travelled = there_and_back(seed);
        totals.travel(travelled.unwrap_or_else(|violation| {
            panic!("seed {seed}: {violation:?}\nagain: crash-lab replay {seed}")
        }));
    }
    println!("{totals:?}");
    assert!(totals.crash_states >= 10_000, "only {} states", totals.crash_states);
    assert!(totals.faults >= 500, "only {} faults", totals.faults);
    assert!(totals.corruptions >= 1_400, "only {} flips", totals.corruptions);
}

#[test]
fn a_killed_process_loses_nothing_that_it_acknowledged() {
    let program = Path::new(env!("CARGO_BIN_EXE_crash-lab"));
    for seed in 1..5 {
        let killed = kill::kill(program, &std::env::temp_dir(), seed, 50);
        assert_eq!(killed.unwrap_or_else(|v| panic!("seed {seed}: {v:?}")), 50);
    }
}

#[test]
fn every_deliberate_defect_is_caught() {
    let missed: Vec<Defect> =
        Defect::ALL.into_iter().filter(|&defect| caught(defect, 1, 30).is_none()).collect();
    assert!(missed.is_empty(), "not caught: {missed:?}");
}

#[test]
fn a_seed_says_everything() {
    for seed in 1..5 {
        let traces = [play(seed), play(seed)].map(|played| {
            let played = played.unwrap_or_else(|v| panic!("seed {seed}: {v:?}"));
            format!("{:?}", played.trace)
        });
        assert_eq!(traces[0], traces[1], "seed {seed}");
    }
}
