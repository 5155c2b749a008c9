//! An engine that opened files for queries answers before it has read what they can do without.
//!
//! 1. Codes stay in the files at first, and queries read those that they visit. A thread brings all of them
//!    to memory, unless memory for them has a limit: then [`super::code_residency`] moves the hottest.
//! 2. The filter of the ids that segments may have is made by the first write.

use std::sync::{Arc, Weak};
use std::time::Duration;

use vstream_segment::Segment;

use super::{LiveSegment, Tree};
use crate::priority::yield_to_others;

/// Pauses of the thread after a read that failed: each is twice the one before.
const PAUSE: Duration = Duration::from_millis(100);
const PAUSE_MAX: Duration = Duration::from_secs(10);

/// What a round of reads came to.
#[derive(PartialEq, Eq)]
enum Round {
    /// All codes are in memory.
    Done,
    /// Some could not be read.
    Failed,
    /// The tree is gone.
    Gone,
}

impl Tree {
    /// Brings the codes of the present segments to memory in a thread, unless memory for them has a limit.
    pub(crate) fn hold_behind(self: &Arc<Tree>) {
        if self.residency.is_limited() {
            return;
        }
        let tree = Arc::downgrade(self);
        let thread = std::thread::Builder::new().name("vstream-codes".to_owned());
        // If the thread cannot start, codes stay in the files: queries are slower but correct.
        let _detached = thread.spawn(move || {
            yield_to_others();
            let mut pause = PAUSE;
            // The queries that read the same codes report what fails.
            while round(&tree) == Round::Failed {
                std::thread::sleep(pause);
                pause = (pause * 2).min(PAUSE_MAX);
            }
        });
    }
}

/// Reads the codes of each segment that are not in memory.
fn round(tree: &Weak<Tree>) -> Round {
    let Some(segments) = tree.upgrade().map(|tree| tree.view().segments.clone()) else {
        return Round::Gone;
    };
    let mut end = Round::Done;
    for live in &segments {
        let Some(segment) = live.segment.leaves() else { continue };
        for run in segment.code_runs() {
            if tree.strong_count() == 0 {
                return Round::Gone;
            }
            if is_away(live, segment, run.clone()) && segment.hold_codes(run).is_err() {
                end = Round::Failed;
                break;
            }
        }
        live.release_unserved_codes();
    }
    end
}

/// True if some codes of a run are served and not in memory.
fn is_away(live: &LiveSegment, segment: &Segment, mut run: std::ops::Range<usize>) -> bool {
    run.any(|part| !segment.part(part).is_held && live.serves_part(segment, part))
}
