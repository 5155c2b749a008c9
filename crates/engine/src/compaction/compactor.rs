//! Carries compactions out: writes the planned segment, then publishes it in the manifest.

use std::cell::RefCell;
use std::collections::{HashMap, HashSet};
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::merge::Merged;
use super::part::Part;
use super::plan::{Free, Homes, Kind, Occasion, Plan};
use crate::defect::{self, Defect};
use crate::error::Error;
use crate::layout::{delete_bitmap_name, segment_name};
use crate::tree::{Known, LiveSegment, Retired, SegmentEntry};
use crate::version::{Manifest, VersionSet};

/// Compactions so far.
#[derive(Clone, Default)]
pub(crate) struct MergedCounts {
    pub(crate) count: u64,
    pub(crate) bytes: u64,
    /// Segments dropped whole.
    pub(crate) dropped: u64,
    /// The last failure; a later success clears it.
    pub(crate) failure: Option<String>,
}

/// Segments merged from others that are not served yet.
pub(crate) struct MergeBegun {
    merged: Merged,
    /// None if no row lived.
    live: Vec<LiveSegment>,
}

/// Segments that no further merge may take.
#[derive(Default)]
struct Sources {
    /// Numbers of segments being merged whole.
    busy: HashSet<u64>,
    /// Leaves of segments that are being merged, ascending.
    claimed: HashMap<u64, Vec<u32>>,
    /// Segments that could not be read, and the number of plans that still pass them over, so that
    /// other merges go on.
    unreadable: HashMap<u64, u32>,
}

/// Plans that pass over a segment after a failed read.
const PLANS_WITHOUT: u32 = 64;

/// Merges segments. The writer and the background threads share it.
pub(crate) struct Compactor {
    versions: Arc<VersionSet>,
    merged: Mutex<MergedCounts>,
    sources: Mutex<Sources>,
    homes: Mutex<Homes>,
}

impl Compactor {
    pub(crate) fn new(versions: Arc<VersionSet>) -> Compactor {
        Compactor {
            versions,
            merged: Mutex::default(),
            sources: Mutex::default(),
            homes: Mutex::default(),
        }
    }

    /// Records that a merge did not begin for want of a thread.
    pub(crate) fn note_no_thread(&self, error: &std::io::Error) {
        let why = format!("there is no thread for the compaction: {error}");
        self.note_merge(Err(Some(&Error::unavailable(why))));
    }

    pub(crate) fn merged(&self) -> MergedCounts {
        self.merged.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Drops segments without live rows, and merges others if that pays; false if it did neither.
    ///
    /// * `stop`: gives up soon after it is set.
    pub(crate) fn compact(&self, occasion: Occasion, stop: &AtomicBool) -> Result<bool, Error> {
        let mut has_dropped = false;
        loop {
            let Some(begun) = self.begin_merge(occasion, stop)? else { return Ok(has_dropped) };
            let is_drop = begun.live.is_empty();
            self.end_merge(begun)?;
            // One drop per call: if each flush left a segment to drop, a merge would never get its
            // turn.
            if !is_drop || has_dropped {
                return Ok(true);
            }
            has_dropped = true;
        }
    }

    /// Merges segments into new files, if that pays, or finds some to drop. Readers see no change
    /// yet.
    pub(crate) fn begin_merge(
        &self,
        occasion: Occasion,
        stop: &AtomicBool,
    ) -> Result<Option<MergeBegun>, Error> {
        let Some(plan) = self.take_plan(occasion) else { return Ok(None) };
        let merge = || match plan.kind {
            Kind::Drop => Ok(Merged::drop_of(&plan)),
            Kind::Graph => Merged::write_graph(&plan, &self.versions, stop),
            Kind::Whole | Kind::Deltas | Kind::Range => Merged::write(&plan, &self.versions, stop),
        };
        // Its segments must not be taken for busy for ever, and somebody must hear of it.
        let merged = catch_unwind(AssertUnwindSafe(merge)).unwrap_or_else(|_| {
            Err(Error::internal("the thread of a merge panicked: report the defect"))
        });
        let begun = merged.and_then(|merged| match self.open(&merged) {
            Ok(live) => Ok(MergeBegun { merged, live }),
            Err(error) => {
                self.remove(&merged.new);
                Err(error)
            }
        });
        // A merge stopped because the engine closes is no failure.
        let is_failure = !stop.load(Ordering::Relaxed);
        self.note_merge(begun.as_ref().map(|_| None).map_err(|error| is_failure.then_some(error)));
        if let Err(error) = &begun {
            let mut sources = self.sources();
            for part in &plan.parts {
                sources.release(part);
                let number = part.live.number;
                if error.message().contains(&segment_name(number)) {
                    sources.unreadable.insert(number, PLANS_WITHOUT);
                }
            }
        }
        begun.map(Some)
    }

    /// Opens the new segments of a merge.
    fn open(&self, merged: &Merged) -> Result<Vec<LiveSegment>, Error> {
        let collection = self.versions.manifest().collection;
        let store = &self.versions.directory().store;
        let open = |entry| self.versions.tree().open(store, entry, collection, Known::default());
        merged.new.iter().map(open).collect()
    }

    /// Removes the files of segments that nothing names.
    fn remove(&self, new: &[SegmentEntry]) {
        new.iter().for_each(|entry| self.versions.directory().remove(&segment_name(entry.number)));
    }

    /// Plans a merge of free segments and leaves, and marks them until it ends.
    fn take_plan(&self, occasion: Occasion) -> Option<Plan> {
        let _published = self.versions.manifest();
        let mut sources = self.sources();
        sources.unreadable.retain(|_, plans| {
            *plans -= 1;
            *plans > 0
        });
        let is_free = |number: u64| {
            !sources.busy.contains(&number) && !sources.unreadable.contains_key(&number)
        };
        let claimed = |number: u64| sources.claimed.get(&number).cloned().unwrap_or_default();
        let homes = RefCell::new(std::mem::take(&mut *self.homes()));
        let free = Free { is_free: &is_free, claimed: &claimed, homes: &homes, occasion };
        let plan = Plan::of(self.versions.tree(), self.versions.tombstones_until(), &free);
        *self.homes() = homes.into_inner();
        let plan = plan?;
        plan.parts.iter().for_each(|part| sources.take(part));
        Some(plan)
    }

    fn homes(&self) -> MutexGuard<'_, Homes> {
        self.homes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn sources(&self) -> MutexGuard<'_, Sources> {
        self.sources.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Number of segments passed over because they could not be read.
    pub(crate) fn unreadable(&self) -> usize {
        self.sources().unreadable.len()
    }

    /// Publishes a merge and serves its rows from the new segments.
    pub(crate) fn end_merge(&self, begun: MergeBegun) -> Result<(), Error> {
        let MergeBegun { merged, live } = begun;
        let done = self.publish_merged(&merged, live);
        merged.parts().iter().for_each(|part| self.sources().release(part));
        self.note_merge(done.as_ref().map(|_| Some(&merged)).map_err(Some));
        if done.is_err() {
            self.remove(&merged.new);
        }
        let (old, _retired) = done?;
        self.versions.note_written(merged.bytes());
        self.versions.tree().note_maintenance(merged.made());
        self.versions.remove_old(&old);
        Ok(())
    }

    /// Counts a merge that ended, or records why one failed.
    pub(crate) fn note_merge(&self, done: Result<Option<&Merged>, Option<&Error>>) {
        let mut counts = self.merged.lock().unwrap_or_else(PoisonError::into_inner);
        match done {
            Ok(Some(merged)) => {
                match merged.dropped() {
                    0 => counts.count += 1,
                    dropped => counts.dropped += dropped,
                }
                counts.bytes += merged.bytes();
                // Keeps the failure while some segments cannot be read.
                if self.unreadable() == 0 {
                    counts.failure = None;
                }
            }
            Err(Some(error)) => counts.failure = Some(error.to_string()),
            Ok(None) | Err(None) => {}
        }
    }

    /// Publishes segments in place of what they were merged from. Returns the previous manifest and
    /// the retired view.
    fn publish_merged(
        &self,
        merged: &Merged,
        live: Vec<LiveSegment>,
    ) -> Result<(Manifest, Retired), Error> {
        let mut manifest = self.versions.manifest();
        let mut next = manifest.clone();
        let until = self.versions.tombstones_until();
        let mut made = Vec::new();
        let done = self.list_merged(merged, &live, (&mut manifest, &mut next), &mut made);
        let done = done.and_then(|()| {
            let state = next.base.state;
            self.versions.check_live(&next, state, until)?;
            next.publish(&self.versions.directory().store)
        });
        if done.is_err() {
            made.iter().for_each(|&number| {
                self.versions.directory().remove(&delete_bitmap_name(number));
            });
        }
        done?;
        let taken: Vec<_> = merged.parts().iter().map(Part::taken).collect();
        let hand_on = |new: &[Arc<LiveSegment>]| merged.hand_on(new);
        let retired = self.versions.tree().replace_segments(&taken, live, &hand_on);
        Ok((std::mem::replace(&mut manifest, next), retired))
    }

    /// Changes the segments of a manifest as a merge does, and writes their delete bitmaps.
    ///
    /// * `made`: gets the numbers of these files.
    fn list_merged(
        &self,
        merged: &Merged,
        live: &[LiveSegment],
        (published, next): (&mut Manifest, &mut Manifest),
        made: &mut Vec<u64>,
    ) -> Result<(), Error> {
        let until = self.versions.tombstones_until();
        let forgotten = defect::active(Defect::MergeForgetsMarks);
        let bitmaps = merged.delete_bitmaps(if forgotten { merged.since() } else { until });
        let mut write = |entry: &mut SegmentEntry, live: &LiveSegment, (bits, deleted)| {
            let bits: Vec<u8> = bits;
            // A failed attempt may have left a file of this name, so the number is not used again.
            (entry.tombstones, entry.deleted) = (published.next, deleted);
            published.next += 1;
            made.push(entry.tombstones);
            self.versions.note_gone(entry, live, &bits);
            self.versions.note_written(bits.len() as u64);
            let store = &self.versions.directory().store;
            entry.write_delete_bitmap(store, published.collection, &bits)
        };
        let mut new = merged.new.clone();
        for ((entry, live), bitmap) in new.iter_mut().zip(live).zip(bitmaps) {
            if bitmap.1 > 0 {
                write(entry, live, bitmap)?;
            }
        }
        let segments = std::mem::take(&mut next.base.segments);
        let mut coming = Some(new);
        for mut entry in segments {
            let part = merged.parts().iter().find(|part| part.live.number == entry.number);
            let Some(part) = part else {
                next.base.segments.push(entry);
                continue;
            };
            let (number, leaves) = part.taken();
            let kept = match &leaves {
                Some(leaves) => self.versions.tree().segment(number)?.without(leaves),
                None => None,
            };
            match kept {
                Some(kept) => {
                    entry.served = kept.served.clone();
                    write(&mut entry, &kept, kept.delete_bitmap(until))?;
                    next.base.segments.push(entry);
                }
                None => next.base.segments.extend(coming.take().into_iter().flatten()),
            }
        }
        next.base.segments.extend(coming.take().into_iter().flatten());
        next.next = published.next;
        Ok(())
    }
}

impl Sources {
    /// Marks what a merge takes.
    fn take(&mut self, part: &Part) {
        match part.taken() {
            (number, None) => {
                self.busy.insert(number);
            }
            (number, Some(leaves)) => {
                let claimed = self.claimed.entry(number).or_default();
                claimed.extend(leaves);
                claimed.sort_unstable();
            }
        }
    }

    /// Frees what a merge took.
    fn release(&mut self, part: &Part) {
        let (number, leaves) = part.taken();
        let Some(leaves) = leaves else {
            self.busy.remove(&number);
            return;
        };
        if let Some(claimed) = self.claimed.get_mut(&number) {
            claimed.retain(|leaf| leaves.binary_search(leaf).is_err());
            if claimed.is_empty() {
                self.claimed.remove(&number);
            }
        }
    }
}
