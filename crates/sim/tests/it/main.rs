//! A short run of the crash lab; `make crash-lab` runs it for as long as one likes.

mod groups;
mod s3;
mod serve;

use std::path::Path;

use vstream_engine::{Durability, Engine, Journaling};
use vstream_sim::check::{self, Depth, Oracle};
use vstream_sim::crash::{Promise, Seen, Walk};
use vstream_sim::damage::AtRest;
use vstream_sim::defects::{Planted, SEEDS_NEEDED};
use vstream_sim::disk::{Content, Disk, Event, Failing, Faults};
use vstream_sim::far::there_and_back;
use vstream_sim::kill::Killer;
use vstream_sim::ledger::Totals;
use vstream_sim::script::{settings, Script, Shape};
use vstream_sim::simulation::{crash_where, is_promise, play};

// Counts below follow from the seeds; bounds are four fifths of what they are.

/// Seeds that are crashed, half of them on each of two threads: one of each shape.
const SEEDS: u64 = 4;
/// One step in this many is crashed, and every promise; `make crash-lab` crashes all.
const STEP_ONE_IN: u64 = 6;
/// The same, where states are counted twice.
const COUNTED_ONE_IN: usize = 24;

fn program() -> &'static Path {
    Path::new(env!("CARGO_BIN_EXE_crash-lab"))
}

#[test]
fn no_crash_loses_or_invents_a_row_or_spoils_an_answer() {
    let seen = Seen::default();
    let run = |seeds: std::ops::Range<u64>| {
        let mut totals = Totals::default();
        for seed in seeds {
            let is_chosen = |at: usize| (seed + at as u64).is_multiple_of(STEP_ONE_IN);
            let crashed = crash_where(seed, &seen, |at, event| is_chosen(at) || is_promise(event));
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
    assert!(totals.crash_states >= 2_480, "only {} states", totals.crash_states);
    assert!(totals.faults >= 35, "only {} faults", totals.faults);
    assert!(totals.recall.wanted >= 53_800, "only {} rows", totals.recall.wanted);
}

#[test]
fn what_was_seen_is_not_counted_again() {
    let seen = Seen::default();
    let crash = || crash_where(3, &seen, |at, _| at.is_multiple_of(COUNTED_ONE_IN));
    let first = crash().expect("no violation");
    let second = crash().expect("no violation");
    assert!(first.checked.states >= 565, "only {} states", first.checked.states);
    assert_eq!(second.checked.states, 0);
}

#[test]
fn every_changed_byte_is_noticed() {
    let mut changes = 0;
    for seed in 4..8 {
        let at_rest = AtRest::new(seed).expect("a collection");
        let flipped = at_rest.flip_bits(0, 2_000);
        changes += flipped.unwrap_or_else(|v| panic!("seed {seed}: {v:?}"));
        let unclosed = at_rest.flip_unclosed(seed, 200);
        changes += unclosed.unwrap_or_else(|v| panic!("seed {seed}: {v:?}"));
        changes += at_rest.mangle(seed, 400).unwrap_or_else(|v| panic!("seed {seed}: {v:?}"));
    }
    assert!(changes >= 10_000, "only {changes} changes");
}

#[test]
fn what_goes_far_away_comes_back() {
    let (seen, mut totals) = (Seen::default(), Totals::default());
    // Of the last seed a base image was read twice, and verified the first time only: the flipped
    // bits of the second time became rows.
    for seed in (1..9).chain([7_007]) {
        let travelled = there_and_back(seed, &seen);
        totals.travel(travelled.unwrap_or_else(|violation| {
            panic!("seed {seed}: {violation:?}\nagain: crash-lab replay {seed}")
        }));
    }
    println!("{totals:?}");
    assert!(totals.crash_states >= 1_180, "only {} states", totals.crash_states);
    assert!(totals.faults >= 130, "only {} faults", totals.faults);
    assert!(totals.corruptions >= 164, "only {} flips", totals.corruptions);
}

/// The manifest had got its new name and the directory was not synced: the next process saw it, went
/// on in the log that it names and promised what a crash then took.
#[test]
fn a_checkpoint_that_fails_anywhere_loses_nothing_that_is_promised_later() {
    let (seed, seen) = (3, Seen::default());
    let mut script = Script::new(seed, Shape::of(seed).ids());
    script.extend_to(120);
    let mut failures = 0;
    for calls in 0..40 {
        let disk = Disk::holding(&Content::new(), seed);
        let journaling =
            Journaling { durability: Durability::None, background: false, ..Journaling::default() };
        let made = Engine::builder()
            .store(check::store(&disk))
            .collection(seed)
            .journaling(journaling)
            .create(settings(seed));
        let mut engine = made.expect("an engine");
        disk.mark(Event::Made);
        let write = |engine: &mut Engine, writes: std::ops::RangeInclusive<u64>| {
            disk.mark(Event::Issued(*writes.end()));
            writes.for_each(|lsn| script.apply(engine, lsn).expect("a write"));
        };
        write(&mut engine, 1..=80);
        engine.flush().expect("a sync");
        disk.mark(Event::Acked(80));
        disk.kill(|| drop(engine));
        // Its manifest says that these 80 are on the disk.
        let mut engine = check::open(&disk).expect("it opens");
        disk.mark(Event::Recovered(80));
        write(&mut engine, 81..=90);
        let failing = Failing { calls, reads: false, is_full: calls % 2 == 0, stays: false };
        disk.set_faults(Faults { failing: Some(failing), ..Faults::default() });
        failures += u64::from(engine.checkpoint().is_err());
        disk.set_faults(Faults::default());
        disk.kill(|| drop(engine));
        let mut engine = check::open(&disk).expect("it opens");
        let found = check::lsn_of(&engine);
        disk.mark(Event::Recovered(found));
        write(&mut engine, found + 1..=110);
        engine.flush().expect("a sync");
        disk.mark(Event::Acked(110));
        disk.kill(|| drop(engine));
        let mut walk = Walk::new(&Content::new(), Promise { made: false, lsn: 0..=0 }, seed);
        for event in disk.trace() {
            walk.step(&event);
        }
        let (promise, oracle) =
            (walk.promise().clone(), Oracle { seed, script: &script, seen: &seen });
        for state in walk.states() {
            oracle
                .check(&state, &promise, |_| Depth::Open)
                .unwrap_or_else(|violation| panic!("call {calls} failed: {violation:?}"));
        }
    }
    assert!(failures >= 29, "only {failures} checkpoints failed");
}

/// An empty disk beside a snapshot far away has its rows, and none by itself.
#[test]
fn what_was_seen_beside_a_snapshot_says_nothing_of_other_disks() {
    let seen = Seen::default();
    let before = there_and_back(1, &seen).expect("no violation");
    assert!(before.checked.states >= 134, "only {} states", before.checked.states);
    // Of these seeds the first step is crashed, before anything is there.
    for seed in [40, 80] {
        let crashed = crash_where(seed, &seen, |at, _| at == 0);
        crashed.unwrap_or_else(|v| panic!("seed {seed}: {v:?}"));
    }
}

#[test]
fn a_killed_process_loses_nothing_that_it_acknowledged() {
    let place = std::env::temp_dir();
    for seed in 1..5 {
        let killer = Killer { program: program(), place: &place, seed, defect: None };
        let killed = killer.run(25).unwrap_or_else(|v| panic!("seed {seed}: {v:?}"));
        assert_eq!(killed.kills, 25);
    }
}

#[test]
fn a_process_that_ends_by_itself_is_no_kill() {
    // It knows no `child DIR SEED`, says so and ends.
    let place = std::env::temp_dir();
    let other = Path::new("/bin/false");
    let killer = Killer { program: other, place: &place, seed: 1, defect: None };
    let violation = killer.run(50).expect_err("nothing was killed");
    assert!(violation.what.contains("ended by itself"), "{violation:?}");
}

#[test]
fn every_planted_defect_is_caught() {
    let is_missed = |planted: &Planted| {
        let begun = std::time::Instant::now();
        let caught = planted.caught(1, 30, program());
        println!("{planted:?}, {:.1} s: {caught:.160?}", begun.elapsed().as_secs_f32());
        caught.len() < SEEDS_NEEDED
    };
    let missed: Vec<Planted> = Planted::all().into_iter().filter(is_missed).collect();
    assert!(missed.is_empty(), "not caught by {SEEDS_NEEDED} seeds: {missed:?}");
}

#[test]
fn a_seed_says_everything() {
    for seed in 1..5 {
        let traces = [play(seed), play(seed)].map(|played| {
            let played = played.unwrap_or_else(|v| panic!("seed {seed}: {v:?}"));
            played.trace.into_iter().map(without_times).collect::<Vec<_>>()
        });
        // Traces of megabytes say nothing to a reader.
        let differs = traces[0].iter().zip(&traces[1]).position(|(a, b)| a != b);
        let lengths = traces.map(|trace| trace.len());
        assert_eq!((differs, lengths[0]), (None, lengths[1]), "seed {seed}");
    }
}

/// An event as text. Remembered deletes hold the times at which they were made, which no seed sets:
/// of these entries only id and version count.
fn without_times(event: Event) -> String {
    match &event {
        Event::Write(inode, offset, bytes) if bytes.starts_with(b"VSTRGONE") => {
            let (head, rest) = bytes.split_at(bytes.len().min(40));
            let entries = rest[..rest.len().saturating_sub(8)].chunks(24);
            let entries = entries.map(|entry| &entry[..entry.len().min(16)]);
            format!("{inode} {offset} {head:?} {:?}", entries.collect::<Vec<_>>())
        }
        event => format!("{event:?}"),
    }
}
