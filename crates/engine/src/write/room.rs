//! How the writer slows down while memory is full or segments are many.

use crate::engine::{rows_of, Engine};
use crate::error::Error;
use crate::tree::Room;

/// Writes between two waits while memory is nearly full or segments are many.
const WRITES_PER_WAIT: u64 = 64;
/// The writer waits for merges above this many times the [pile](crate::tree::Tree::pile) that there
/// should be, and waits longer above [`PILE_SLOWEST`]: queries visit the runs of a leaf in every delta,
/// and every write looks its id up in every segment.
const PILE_SLOW: f64 = 3.0;
const PILE_SLOWEST: f64 = 6.0;
/// Waits in a row above [`PILE_SLOWEST`]: one second in all.
const WAITS_SLOWEST: usize = 200;

impl Engine {
    /// Takes a step of checkpoint and compaction, if one is due without a commit.
    pub(super) fn step(&mut self) {
        let rows = rows_of(&self.settings, &self.tree, self.remembered.as_ref());
        let Some(journal) = &mut self.journal else { return };
        journal.step(&rows);
    }

    /// Slows the writer down while memory is full or segments are many.
    ///
    /// If memory is full, begins to flush it. While the flush runs, the writer continues, the slower the less
    /// room is left up to the limit, and waits there. The writer also continues slowly while there are many
    /// segments and a running merge will leave fewer.
    ///
    /// Errors: `Unavailable` at the limit if the flush fails.
    pub(super) fn make_room(&mut self) -> Result<(), Error> {
        let Some(journal) = &mut self.journal else { return Ok(()) };
        if self.settings.memory.is_none() || !journal.is_background() {
            return Ok(());
        }
        self.steps += 1;
        let is_turn = self.steps.is_multiple_of(WRITES_PER_WAIT);
        let rows = rows_of(&self.settings, &self.tree, self.remembered.as_ref());
        let pile = if is_turn { self.tree.pile() } else { 0.0 };
        if pile > PILE_SLOW {
            let waits = if pile > PILE_SLOWEST { WAITS_SLOWEST } else { 1 };
            for _ in 0..waits {
                journal.want_step();
                journal.step(&rows);
                if !journal.is_compacting() {
                    break;
                }
                self.tree.wait_for_merge();
            }
        }
        loop {
            match self.tree.room() {
                Room::Enough => return Ok(()),
                Room::Little(_) if !is_turn => return Ok(()),
                room => {
                    journal.want_step();
                    journal.step(&rows);
                    self.tree.wait_for_room(room);
                    if room != Room::None {
                        return Ok(());
                    }
                }
            }
            if let Some(why) = journal.stats().checkpoint_failure {
                return Err(Error::unavailable(format!(
                    "memory is at its limit, and rows cannot be moved to the disk: {why}"
                )));
            }
        }
    }
}
