//! A merge that was written: which rows went where.

use std::sync::atomic::AtomicBool;
use std::sync::Arc;

use vstream_index::IndexStats;

use super::{Merge, GONE};
use crate::compaction::part::Part;
use crate::compaction::plan::Plan;
use crate::error::Error;
use crate::layout::segment_name;
use crate::tree::{LiveSegment, SegmentEntry};
use crate::version::VersionSet;

/// Segments merged from others.
pub(crate) struct Merged {
    parts: Vec<Part>,
    /// The merge left out rows deleted at or before this sequence.
    since: u64,
    /// Row among those of all new segments, by part and position; [`GONE`] if there is none. Empty if
    /// the parts were dropped.
    moved: Vec<Vec<u32>>,
    /// The new segments; none if no row lived.
    pub(crate) new: Vec<SegmentEntry>,
    /// What became of leaves and of rows in them.
    made: IndexStats,
}

impl Merged {
    /// Writes what `plan` takes as segments with leaves. Errors: those of reading and writing, and
    /// `Unavailable` if `stop` was set. No file exists after an error.
    pub(in crate::compaction) fn write(
        plan: &Plan,
        versions: &VersionSet,
        stop: &AtomicBool,
    ) -> Result<Merged, Error> {
        let leaves = versions.tree().view().leaves.clone();
        let mut merge = Merge::new(plan, versions, &leaves, stop);
        if let Err(error) = merge.run() {
            // The one that is being written vanishes with its writer.
            drop(merge.writer.take());
            let written = merge.new.iter().map(|entry| segment_name(entry.number));
            written.for_each(|name| versions.directory().remove(&name));
            return Err(error);
        }
        let Merge { moved, new, made, .. } = merge;
        Ok(Merged { made, ..Merged::of(plan, moved, new) })
    }

    /// A merge that was written.
    ///
    /// * `moved`: row among those of all new segments, by part and position; [`GONE`] if there is none.
    pub(in crate::compaction) fn of(
        plan: &Plan,
        moved: Vec<Vec<u32>>,
        new: Vec<SegmentEntry>,
    ) -> Merged {
        let made = IndexStats::default();
        Merged { parts: plan.parts.clone(), since: plan.since, moved, new, made }
    }

    /// Drops parts without live rows; reads nothing.
    pub(crate) fn drop_of(plan: &Plan) -> Merged {
        Merged::of(plan, Vec::new(), Vec::new())
    }

    /// Number of segments dropped instead of merged.
    pub(crate) fn dropped(&self) -> u64 {
        if self.moved.is_empty() {
            self.parts.len() as u64
        } else {
            0
        }
    }

    /// Leaves that were split, joined or written anew, and rows that left theirs.
    pub(crate) fn made(&self) -> &IndexStats {
        &self.made
    }

    /// Bytes written.
    pub(crate) fn bytes(&self) -> u64 {
        self.new.iter().map(|entry| entry.bytes).sum()
    }

    /// What was taken of each segment.
    pub(crate) fn parts(&self) -> &[Part] {
        &self.parts
    }

    /// Rows deleted at or before this sequence are not in the new segments.
    pub(crate) fn since(&self) -> u64 {
        self.since
    }

    /// A bit per row of each new segment, set if the row was deleted at or before the sequence `until`,
    /// and the number of set bits.
    pub(crate) fn delete_bitmaps(&self, until: u64) -> Vec<(Vec<u8>, u64)> {
        let bits = |entry: &SegmentEntry| (vec![0u8; (entry.rows as usize).div_ceil(8)], 0);
        let mut bitmaps: Vec<(Vec<u8>, u64)> = self.new.iter().map(bits).collect();
        self.for_each_death(&mut |new, row, sequence| {
            if sequence <= until {
                let (bits, deleted) = &mut bitmaps[new];
                bits[row as usize / 8] |= 1 << (row % 8);
                *deleted += 1;
            }
        });
        bitmaps
    }

    /// Copies to the new segments the tombstones added to their sources since the merge began, their
    /// heat and their age.
    pub(in crate::compaction) fn hand_on(&self, new: &[Arc<LiveSegment>]) {
        self.for_each_death(&mut |at, row, sequence| {
            new[at].tombstones.add(row, sequence);
        });
        new.iter().for_each(|live| self.warm(live));
    }

    /// Gives a new segment the heat and the age of its sources.
    fn warm(&self, live: &LiveSegment) {
        let rows: usize = self.parts.iter().map(Part::len).sum();
        let share = |part: &Part| part.len() as f64 / rows.max(1) as f64;
        let of: Vec<_> = self.parts.iter().map(|of| (&*of.live.heat, share(of))).collect();
        live.heat.inherit(&of, live.segment.parts());
        let of: Vec<_> = self.parts.iter().map(|of| (&*of.live.on_disk, share(of))).collect();
        live.on_disk.inherit(&of);
    }

    /// Calls `visit` with new segment, row there and sequence of each row that was deleted since.
    fn for_each_death(&self, visit: &mut dyn FnMut(usize, u32, u64)) {
        let mut ends = Vec::with_capacity(self.new.len());
        let mut end = 0;
        for entry in &self.new {
            end += entry.rows as u32;
            ends.push(end);
        }
        for (part, moved) in self.parts.iter().zip(&self.moved) {
            part.for_each_tombstone(&mut |position, sequence| {
                let row = moved[position];
                if row != GONE && sequence > self.since {
                    let new = ends.partition_point(|&end| end <= row);
                    let first = new.checked_sub(1).map_or(0, |before| ends[before]);
                    visit(new, row - first, sequence);
                }
            });
        }
    }
}
