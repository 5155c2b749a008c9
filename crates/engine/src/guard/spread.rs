//! Whether audits speak for the queries that come, or only for the first of them.
//!
//! The first queries are audited at once, so a window is soon full of them. They may be of one
//! kind: those of one user, or words in the order of their frequency. So audits count as evidence
//! of all queries only when enough of them are of the later half of the queries asked so far, of
//! at least [`STREAM_MIN`].

use vstream_vector::SplitMix;

/// One query in this many is offered to the guard once enough are known.
pub(super) const NOTE_EVERY: usize = 16;
/// Queries before whose half no audit counts as a later one.
pub(super) const STREAM_MIN: usize = 512;
/// Audits of the later half with which audits speak for all queries.
pub(super) const LATER_FAIR: usize = 24;

/// How many audits are of the later half of the queries.
///
/// * `asked`: for each audit, oldest first, how many queries had come when it was made.
pub(super) fn later(asked: impl DoubleEndedIterator<Item = usize>) -> usize {
    let mut newest_first = asked.rev().peekable();
    let all = newest_first.peek().copied().unwrap_or(0).max(STREAM_MIN);
    newest_first.take_while(|&then| then > all / 2).count()
}

/// True of one query in [`NOTE_EVERY`], by how many were seen before it. They are drawn, since queries may come
/// in turns: every sixteenth of 500 that repeat is one of the same 125.
pub(super) fn is_drawn(seen: usize) -> bool {
    SplitMix(seen as u64).next().is_multiple_of(NOTE_EVERY as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_queries_do_not_speak_for_those_that_follow() {
        assert_eq!(later(std::iter::empty()), 0);
        // However many audits are of them.
        assert_eq!(later(1..=STREAM_MIN / 2), 0);
        assert_eq!(later((1..=100).chain([1_000, 9_000, 10_000])), 2);
    }

    #[test]
    fn half_of_audits_that_are_spread_evenly_are_later_ones() {
        for step in [10, 1_000] {
            let audits = (1..=200).map(|nth| nth * step);
            assert_eq!(later(audits), 100, "one audit in {step} queries");
        }
    }
}
