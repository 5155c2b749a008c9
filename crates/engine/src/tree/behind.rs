//! An engine that opened files for queries answers before it has read what they can do without.
//!
//! 1. Codes stay in the files at first, and queries read those that they visit. A thread brings all of them
//!    to memory, unless memory for them has a limit: then [`super::code_residency`] moves the hottest. Where
//!    queries without a decision of the guard go through every code, as by inner product, they come first.
//! 2. The filter of the ids that segments may have is made by the first write, which may be one of the log.

use std::ops::Range;
use std::sync::{Arc, Weak};
use std::time::Duration;

use vstream_segment::Segment;
use vstream_store::ErrorKind;

use super::{LiveSegment, Tree};
use crate::priority::yield_to_others;

/// Pauses of the thread after a read that failed: each is twice the one before.
const PAUSE: Duration = Duration::from_millis(100);
const PAUSE_MAX: Duration = Duration::from_secs(10);

/// What a round of reads came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Round {
    /// All codes are in memory, but those that are damaged.
    Done,
    /// The store gave no answer.
    Failed,
    /// The tree is gone.
    Gone,
}

impl Tree {
    /// Brings the codes of the present segments to memory in a thread, unless memory for them has a limit. Where
    /// queries need all of them anyway, it returns when they are there.
    ///
    /// * `paused`: dropped after the first round of reads; it keeps from the store who would scan many codes.
    pub(crate) fn hold_behind(self: &Arc<Tree>, paused: impl Send + 'static) {
        if self.residency.is_limited() {
            return;
        }
        let tree = Arc::downgrade(self);
        let needs_all = !self.view().bounds_itself(self.settings.metric);
        if needs_all && round(&tree) != Round::Failed {
            return;
        }
        let thread = std::thread::Builder::new().name("vstream-codes".to_owned());
        // If the thread cannot start, codes stay in the files: queries are slower but correct.
        let _detached = thread.spawn(move || {
            yield_to_others();
            let mut end = round(&tree);
            drop(paused);
            let mut pause = PAUSE;
            // The queries that read the same codes report what fails.
            while end == Round::Failed {
                std::thread::sleep(pause);
                pause = (pause * 2).min(PAUSE_MAX);
                end = round(&tree);
            }
        });
    }
}

/// Reads the codes of each segment that are not in memory, until the store gives no answer.
fn round(tree: &Weak<Tree>) -> Round {
    let Some(segments) = tree.upgrade().map(|tree| tree.view().segments.clone()) else {
        return Round::Gone;
    };
    for live in &segments {
        let Some(segment) = live.segment.leaves() else { continue };
        for run in segment.code_runs() {
            if tree.strong_count() == 0 {
                return Round::Gone;
            }
            if !is_away(live, segment, run.clone()) {
                continue;
            }
            match segment.hold_codes(run) {
                Err(error) if error.kind() != ErrorKind::Corrupt => return Round::Failed,
                // Queries that visit damaged codes say so.
                Ok(()) | Err(_) => {}
            }
        }
        live.release_unserved_codes();
    }
    Round::Done
}

/// True if some codes of a run are served and not in memory.
fn is_away(live: &LiveSegment, segment: &Segment, mut run: Range<usize>) -> bool {
    run.any(|part| !segment.part(part).is_held && live.serves_part(segment, part))
}

#[cfg(test)]
mod tests;
