//! A base image: all rows, in parts that were written at different moments. Each part has the rows that
//! some shards had at its moment, and each shard is served by one part.
//!
//! 1. A *part* is a snapshot under a prefix with its number, which is that of the first log after it. It
//!    serves a shard until a newer part takes the shard over, with rows or without; then nothing names
//!    the shard's file any more.
//! 2. A *turn* says which shards the next part takes: first those that the oldest part serves, by
//!    number, until they have about one of [`Image::groups`] equal parts of all rows. So a checkpoint
//!    writes a part instead of everything, and after so many turns each shard was written anew.
//! 3. The logs after the oldest part are kept. `recovery/fuzzy.rs` says how they make one state of rows
//!    of different moments.

use std::collections::BTreeMap;

use super::rows::shard_of_file;
use super::MANIFEST;
use crate::layout::base_file;

/// Most parts into which the turns divide an image.
const GROUPS_MAX: u64 = 128;
/// Parts above which the next one takes all shards. There are twice [`GROUPS_MAX`] as a rule.
const PARTS_MAX: usize = 1024;
/// A part may exceed its share by one in this many, so that shards of about equal length fit whole.
const SLACK: u64 = 8;

/// The rows of some shards at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Part {
    /// Number of the first log after it.
    pub(crate) number: u64,
    /// Checksum of its own manifest.
    pub(crate) checksum: u64,
    /// The last write that it may have.
    pub(crate) lsn: u64,
}

/// Successive shards that one part serves, up to the next run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Run {
    pub(crate) first: u16,
    /// Position among the parts.
    pub(crate) part: u16,
}

/// Which part serves which shard.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Image {
    /// The oldest first.
    parts: Vec<Part>,
    /// From shard 0 on; all shards are in a run, and all parts have one.
    runs: Vec<Run>,
}

/// The shards that the next part takes: all that come before an end, by the age of their part and by
/// their number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Turn {
    /// Position of a part and shard; `None` for no end.
    end: Option<(u16, u16)>,
}

impl Turn {
    /// The turn that takes all shards.
    pub(crate) const ALL: Turn = Turn { end: None };

    pub(crate) fn is_all(self) -> bool {
        self.end.is_none()
    }
}

impl Image {
    /// An image of one part.
    pub(crate) fn whole(part: Part) -> Image {
        Image { parts: vec![part], runs: vec![Run { first: 0, part: 0 }] }
    }

    /// An image of these parts, the oldest first; `None` if the runs do not give each shard and each
    /// part its place, or if the parts are out of order.
    pub(crate) fn of(parts: Vec<Part>, runs: Vec<Run>) -> Option<Image> {
        let in_order = parts.is_sorted_by(|a, b| a.number < b.number && a.lsn <= b.lsn)
            && runs.is_sorted_by(|a, b| a.first < b.first && a.part != b.part);
        let begins = runs.first().is_some_and(|run| run.first == 0);
        let mut with_run: Vec<u16> = runs.iter().map(|run| run.part).collect();
        with_run.sort_unstable();
        with_run.dedup();
        let all_have_runs = with_run.into_iter().map(usize::from).eq(0..parts.len());
        let fits = in_order && begins && all_have_runs;
        fits.then_some(Image { parts, runs })
    }

    /// The parts, the oldest first.
    pub(crate) fn parts(&self) -> &[Part] {
        &self.parts
    }

    pub(crate) fn runs(&self) -> &[Run] {
        &self.runs
    }

    pub(crate) fn is_whole(&self) -> bool {
        self.parts.len() == 1
    }

    pub(crate) fn oldest(&self) -> &Part {
        &self.parts[0]
    }

    pub(crate) fn newest(&self) -> &Part {
        self.parts.last().expect("an image has a part")
    }

    /// Position of the part that serves a shard.
    pub(crate) fn part_of(&self, shard: u16) -> u16 {
        self.runs[self.runs.partition_point(|run| run.first <= shard) - 1].part
    }

    /// The last write that the rows of a shard may have.
    pub(crate) fn lsn_of(&self, shard: u16) -> u64 {
        self.parts[usize::from(self.part_of(shard))].lsn
    }

    /// True if the image has the file of this name: the manifest of a part, or the rows of a shard that
    /// the part serves. False for a name that no file of an image has.
    pub(crate) fn has(&self, name: &str) -> bool {
        let Some((number, rest)) = base_file(name) else { return false };
        let Ok(part) = self.parts.binary_search_by_key(&number, |part| part.number) else {
            return false;
        };
        match shard_of_file(rest) {
            Some(shard) => usize::from(self.part_of(shard)) == part,
            None => rest == MANIFEST,
        }
    }

    /// True if the turn takes a shard.
    pub(crate) fn takes(&self, turn: Turn, shard: u16) -> bool {
        turn.end.is_none_or(|end| (self.part_of(shard), shard) < end)
    }

    /// The number of turns that write as many rows as there are.
    ///
    /// * `bytes`: of all files; `part_bytes`: least bytes of a part.
    pub(crate) fn groups(bytes: u64, part_bytes: u64) -> u64 {
        (bytes / part_bytes.max(1)).clamp(1, GROUPS_MAX)
    }

    /// The next turn of so many, and the weight of its shards.
    ///
    /// * `weights`: of the shards that have rows. All others weigh nothing, and go with the shards around
    ///   them.
    pub(crate) fn turn(&self, weights: &BTreeMap<u16, u64>, groups: u64) -> (Turn, u64) {
        let all: u64 = weights.values().sum();
        if groups <= 1 || self.parts.len() >= PARTS_MAX {
            return (Turn::ALL, all);
        }
        let most = all / groups + all / groups / SLACK;
        let mut by_age: Vec<(u16, u16, u64)> =
            weights.iter().map(|(&shard, &weight)| (self.part_of(shard), shard, weight)).collect();
        by_age.sort_unstable();
        let mut taken = 0;
        for (at, &(part, shard, weight)) in by_age.iter().enumerate() {
            if at > 0 && taken + weight > most {
                return (Turn { end: Some((part, shard)) }, taken);
            }
            taken += weight;
        }
        (Turn::ALL, taken)
    }

    /// The image after a turn, whose shards `part` has.
    pub(crate) fn after(&self, turn: Turn, part: Part) -> Image {
        let Some((end, first_left)) = turn.end else { return Image::whole(part) };
        let new = self.parts.len() as u16;
        let mut runs: Vec<Run> = Vec::with_capacity(self.runs.len() + 2);
        let mut push = |first: u16, part: u16| {
            if runs.last().is_none_or(|last| last.part != part) {
                runs.push(Run { first, part });
            }
        };
        for (at, run) in self.runs.iter().enumerate() {
            let next = self.runs.get(at + 1).map(|next| next.first);
            if run.part < end {
                push(run.first, new);
            } else if run.part > end || first_left <= run.first {
                push(run.first, run.part);
            } else {
                push(run.first, new);
                if next.is_none_or(|next| first_left < next) {
                    push(first_left, run.part);
                }
            }
        }
        let is_left = |part: &u16| runs.iter().any(|run| run.part == *part);
        let left: Vec<u16> = (0..=new).filter(is_left).collect();
        for run in &mut runs {
            run.part = left.binary_search(&run.part).expect("a part with a run") as u16;
        }
        let all: Vec<Part> = self.parts.iter().copied().chain([part]).collect();
        let parts = left.iter().map(|&part| all[usize::from(part)]).collect();
        Image { parts, runs }
    }
}

#[cfg(test)]
mod tests;
