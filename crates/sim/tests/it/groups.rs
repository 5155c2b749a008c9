//! A short run of the crash lab of group stores; `crash-lab groups` runs it for as long as one likes.

use vstream_sim::crash::Seen;
use vstream_sim::groups::{change_bytes, crash_everywhere, Crashed, GroupDefect, Killer};

use crate::program;

// Counts below follow from the seeds; bounds are four fifths of what they are.

#[test]
fn no_crash_loses_or_invents_a_row_of_a_group() {
    let (seen, mut all) = (Seen::default(), Crashed::default());
    for seed in 1..4 {
        let crashed =
            crash_everywhere(seed, &seen).unwrap_or_else(|v| panic!("seed {seed}: {v:?}"));
        all.states += crashed.states;
        all.faults += crashed.faults;
    }
    println!("{all:?}");
    assert!(all.states >= 1_000, "only {} states", all.states);
    assert!(all.faults >= 5, "only {} faults", all.faults);
}

#[test]
fn every_planted_defect_of_groups_is_caught() {
    for defect in GroupDefect::ALL {
        let shown = |seed| defect.planted(|| crash_everywhere(seed, &Seen::default()).err());
        let violation = (1..6).find_map(shown);
        println!("{defect:?}: {}", violation.as_ref().map_or("", |v| &v.what));
        assert!(violation.is_some(), "not caught: {defect:?}");
    }
}

#[test]
fn every_changed_byte_of_a_group_store_is_noticed() {
    for seed in 1..4 {
        let changed = change_bytes(seed, 60).unwrap_or_else(|v| panic!("seed {seed}: {v:?}"));
        println!("seed {seed}: {changed:?}");
        assert_eq!(changed.changes, 180);
        // The others change no row that is read: blocks of codes that no search came to, or frames
        // of the log behind which nothing was synced.
        assert!(changed.told * 2 >= changed.changes, "{changed:?}");
    }
}

#[test]
fn a_killed_process_loses_no_row_of_a_group() {
    let place = std::env::temp_dir();
    for seed in 1..4 {
        let killer = Killer { program: program(), place: &place, seed };
        let written = killer.run(12).unwrap_or_else(|v| panic!("seed {seed}: {v:?}"));
        assert!(written >= 100, "only {written} writes");
    }
}
