//! How far audits go: how many rows, by estimate, are measured, and over segments how many leaves are scanned.
//!
//! An audit goes deeper than it began if a neighbour stands near the end of what it measured
//! (`vstream_index::depth_needed`), and the next ones begin where it ended: they see nothing beyond their depth.
//! But one neighbour among a thousand may stand far off, and following it made all audits of minutes five times as
//! dear. So the depth only doubles, unless another audit went deeper a short while ago. Doubling alone is not
//! enough: for log-normal norms the estimate was 0.991 then, and recall 0.975. The same holds for leaves, and
//! now and then an audit scans all of them, so that a neighbour far beyond the others is seen at last.

use std::sync::atomic::{AtomicUsize, Ordering};

use crate::tree::Extent;

/// An audit that goes no deeper than it began lowers the depth by one part in this many.
const FORGOTTEN: usize = 256;
/// Audits within which a second one that went deeper says that many have to.
const OFTEN: usize = 64;
/// One audit in so many scans every code.
const WHOLE_EVERY: usize = 32;
/// Factor by which a single one raises the depth at most.
const RISE: usize = 2;

/// How far the audits of a class of k go.
///
/// In memory, where rows cost little, audits begin far deeper than they need
/// (`vstream_index::depth_in_memory`). Over segments each row that they measure is read, so what they go down to
/// in memory says nothing there.
#[derive(Default)]
pub(super) struct Depths {
    in_memory: Depth,
    over_segments: Depth,
    /// Leaves that audits over segments scan.
    leaves: Depth,
    /// Audits begun.
    begun: AtomicUsize,
}

impl Depths {
    /// That of where the rows are.
    pub(super) fn of(&self, are_in_memory: bool) -> &Depth {
        if are_in_memory {
            &self.in_memory
        } else {
            &self.over_segments
        }
    }

    /// True for one audit in [`WHOLE_EVERY`], which scans every code; counts this one.
    pub(super) fn is_whole_due(&self) -> bool {
        (self.begun.fetch_add(1, Ordering::Relaxed) + 1).is_multiple_of(WHOLE_EVERY)
    }

    /// What was enough before, where the rows are.
    pub(super) fn known(&self, are_in_memory: bool) -> Extent {
        Extent { depth: self.of(are_in_memory).get(), leaves: self.leaves.get() }
    }

    /// Notes an audit that began with one extent and had to go to another.
    pub(super) fn note(&self, are_in_memory: bool, begun_at: Extent, reached: Extent) {
        self.of(are_in_memory).note(begun_at.depth, reached.depth);
        // Where no number of leaves is safe, every code is scanned.
        if !are_in_memory && begun_at.leaves != usize::MAX {
            self.leaves.note(begun_at.leaves, reached.leaves);
        }
    }
}

/// The depth of the audits of rows of one kind, or their number of leaves.
#[derive(Default)]
pub(super) struct Depth {
    depth: AtomicUsize,
    /// Audits left in which another that goes deeper is the second one.
    alert: AtomicUsize,
}

impl Depth {
    /// What the next audit begins with, if it is no less than an audit of its k needs.
    pub(super) fn get(&self) -> usize {
        self.depth.load(Ordering::Relaxed)
    }

    /// Notes an audit that began with one depth and ended with another.
    pub(super) fn note(&self, begun_at: usize, reached: usize) {
        let alert = self.alert.load(Ordering::Relaxed);
        let (depth, alert) = match reached > begun_at {
            true if alert > 0 => (reached, OFTEN),
            true => (reached.min(RISE.saturating_mul(begun_at)), OFTEN),
            false => (begun_at - begun_at / FORGOTTEN, alert.saturating_sub(1)),
        };
        self.depth.store(depth, Ordering::Relaxed);
        self.alert.store(alert, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_single_audit_that_goes_far_makes_the_next_ones_hardly_dearer() {
        let depth = Depth::default();
        depth.note(2_048, 2_048);
        depth.note(2_048, 32_768);
        assert_eq!(depth.get(), 4_096);
        (0..OFTEN).for_each(|_| depth.note(depth.get(), depth.get()));
        assert!(depth.get() < 3_300, "{}", depth.get());
        depth.note(3_000, 192_000);
        assert_eq!(depth.get(), 6_000);
    }

    #[test]
    fn several_that_go_far_are_followed_at_once_and_for_long() {
        let depth = Depth::default();
        depth.note(2_048, 8_192);
        (0..OFTEN - 1).for_each(|_| depth.note(depth.get(), depth.get()));
        depth.note(depth.get(), 32_768);
        assert_eq!(depth.get(), 32_768);
        (0..100).for_each(|_| depth.note(depth.get(), depth.get()));
        assert!(depth.get() > 20_000, "{}", depth.get());
    }
}
