//! `kill -9` on a real process that writes to a group store in a real directory.

use std::io::Write;
use std::path::Path;

use vstream_group::GroupStore;
use vstream_vector::SplitMix;

use super::compare::{compare, refused};
use super::history::History;
use crate::check::{guarded, Breach, Violation};
use crate::kill::{acknowledged, failed, kill_after};

/// Writes between two commits; after so many commits the store is merged.
const COMMIT_WRITES: u64 = 5;
const MERGE_EVERY: u64 = 60;

/// The child: writes until it is killed, and says after each commit how far it is. The first line is
/// the write that it begins behind, which the parent names.
///
/// Errors: what the store refused.
pub fn child(dir: &Path, seed: u64, behind: u64) -> Result<(), vstream_group::Error> {
    let mut history = History::new(seed);
    let mut store = GroupStore::open_dir(dir, history.settings.clone())?;
    let (mut at, mut out) = (behind, std::io::stdout());
    loop {
        // The parent reads whole lines; a pipe that nobody reads ends the child.
        if writeln!(out, "{at}").and_then(|()| out.flush()).is_err() {
            return Ok(());
        }
        history.extend_to(at + COMMIT_WRITES);
        for number in at + 1..=at + COMMIT_WRITES {
            history.apply(&mut store, number)?;
        }
        store.commit()?;
        at += COMMIT_WRITES;
        if at % MERGE_EVERY < COMMIT_WRITES {
            store.flush()?;
            store.compact()?;
        }
    }
}

/// Children that are killed one after the other, in a directory of their own.
pub struct Killer<'a> {
    /// Which calls [`child`] for `group-child DIR SEED BEHIND`.
    pub program: &'a Path,
    /// Where the directory is made.
    pub place: &'a Path,
    /// Of the writes and the moments.
    pub seed: u64,
}

impl Killer<'_> {
    /// Kills `count` children; returns how many writes were there at the end.
    ///
    /// Errors: a promise was broken, or a child died otherwise.
    pub fn run(&self, count: u64) -> Result<u64, Violation> {
        guarded(|| {
            let dir = tempfile::tempdir_in(self.place).map_err(|e| failed("no directory", &e))?;
            let (mut random, mut history) = (SplitMix(self.seed), History::new(self.seed));
            let mut at = 0;
            for turn in 0..count {
                let (seed, behind) = (self.seed.to_string(), at.to_string());
                let dir_name = dir.path().display().to_string();
                let arguments = ["group-child", &dir_name, &seed, &behind];
                let told = kill_after(self.program, &arguments, &mut random)?;
                let acked = acknowledged(at, &told)?;
                // A commit that the child did not speak of, and the writes after it.
                let end = acked + 2 * COMMIT_WRITES;
                history.extend_to(end);
                let store = GroupStore::open_dir(dir.path(), history.settings.clone())
                    .map_err(|e| refused("does not open after a kill", e))?;
                at = compare(&store, &history, acked..=end).map_err(|v| {
                    Violation::new(v.breach, format!("kill {turn} of {}: {}", self.seed, v.what))
                })?;
            }
            match at {
                0 => Err(Violation::new(Breach::Refused, "no child wrote anything")),
                at => Ok(at),
            }
        })
    }
}
