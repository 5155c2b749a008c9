use super::{compare, SegmentEntry, State};
use vstream_segment::row_digest;

/// The count of living rows is the logged one, but one row has another version, or another row is
/// gone.
#[test]
fn rows_are_compared_by_their_digest_too() {
    let digest = |rows: &[(u64, u64)]| {
        rows.iter().fold(0u128, |sum, &(id, version)| sum.wrapping_add(row_digest(id, version)))
    };
    let all: Vec<(u64, u64)> = (0..4_000).map(|id| (id, 1 + id % 3)).collect();
    let entry = |number, rows: &[(u64, u64)], deleted| SegmentEntry {
        number,
        rows: rows.len() as u64,
        digest: digest(rows),
        deleted,
        ..SegmentEntry::default()
    };
    let (first, second) = all.split_at(1_500);
    let gone = digest(&first[..10]);
    let state = State { lsn: 9_000, live: 3_990, digest: digest(&all[10..]) };
    let segments = |gone| [(entry(1, first, 10), gone), (entry(2, second, 0), 0)];
    assert_eq!(compare(&segments(gone), state), Ok(()));
    let others = digest(&first[1..11]);
    assert!(compare(&segments(others), state).is_err(), "other rows are gone");
    let mut changed = second.to_vec();
    changed[7].1 += 1;
    let wrong = [(entry(1, first, 10), gone), (entry(2, &changed, 0), 0)];
    assert!(compare(&wrong, state).is_err(), "a row of another version");
}
