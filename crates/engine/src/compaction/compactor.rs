//! Carries compactions out: writes the planned segment, then publishes it in the manifest.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::merge::Merged;
use super::plan::Plan;
use crate::defect::{self, Defect};
use crate::error::Error;
use crate::layout::{delete_bitmap_name, segment_name};
use crate::tree::{LiveSegment, Retired, SegmentEntry};
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

/// A segment merged from others that is not served yet.
pub(crate) struct MergeBegun {
    merged: Merged,
    entry: SegmentEntry,
    /// None if no row lived.
    live: Option<LiveSegment>,
}

/// Segments that no further merge may take.
#[derive(Default)]
struct Sources {
    /// Numbers of segments being merged.
    busy: HashSet<u64>,
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
}

impl Compactor {
    pub(crate) fn new(versions: Arc<VersionSet>) -> Compactor {
        Compactor { versions, merged: Mutex::default(), sources: Mutex::default() }
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
    pub(crate) fn compact(&self, stop: &AtomicBool) -> Result<bool, Error> {
        let mut has_dropped = false;
        loop {
            let Some(begun) = self.begin_merge(stop)? else { return Ok(has_dropped) };
            let is_drop = begun.live.is_none();
            self.end_merge(begun)?;
            // One drop per call: if each flush left a segment to drop, a merge would never get its
            // turn.
            if !is_drop || has_dropped {
                return Ok(true);
            }
            has_dropped = true;
        }
    }

    /// Merges segments into a new file, if that pays, or finds some to drop. Readers see no change
    /// yet.
    pub(crate) fn begin_merge(&self, stop: &AtomicBool) -> Result<Option<MergeBegun>, Error> {
        let Some(plan) = self.take_plan() else { return Ok(None) };
        let store = &self.versions.directory().store;
        let (mut entry, collection) = self.versions.new_entry();
        let name = segment_name(entry.number);
        let merged = match plan.is_drop {
            true => Ok(Merged::drop_of(&plan)),
            false if plan.is_graph => {
                let settings = self.versions.tree().graph_settings(entry.identity(collection));
                Merged::write_graph(&plan, store, &name, settings, stop)
            }
            false => {
                let (identity, first_leaf) = (entry.identity(collection), entry.first_leaf());
                let settings = self.versions.tree().segment_settings(identity, first_leaf);
                Merged::write(
                    &plan,
                    store,
                    &name,
                    settings,
                    &self.versions.tree().view().leaves,
                    stop,
                )
            }
        };
        let begun = merged.and_then(|merged| {
            let written = merged.written;
            (entry.bytes, entry.rows, entry.digest) = (written.bytes, written.rows, written.digest);
            let open = || self.versions.tree().open(store, &entry, collection, &[]);
            let live = if written.rows == 0 { None } else { Some(open()?) };
            Ok(MergeBegun { merged, entry, live })
        });
        // A merge stopped because the engine closes is no failure.
        let is_failure = !stop.load(Ordering::Relaxed);
        self.note_merge(begun.as_ref().map(|_| None).map_err(|error| is_failure.then_some(error)));
        if let Err(error) = &begun {
            self.versions.directory().remove(&name);
            let is_unreadable = |number: &u64| error.message().contains(&segment_name(*number));
            let mut sources = self.sources();
            for number in plan.numbers() {
                sources.busy.remove(&number);
                if is_unreadable(&number) {
                    sources.unreadable.insert(number, PLANS_WITHOUT);
                }
            }
        }
        begun.map(Some)
    }

    /// Plans a merge of free segments and marks them busy until it ends.
    fn take_plan(&self) -> Option<Plan> {
        let _published = self.versions.manifest();
        let mut sources = self.sources();
        sources.unreadable.retain(|_, plans| {
            *plans -= 1;
            *plans > 0
        });
        let is_free = |number: u64| {
            !sources.busy.contains(&number) && !sources.unreadable.contains_key(&number)
        };
        let plan = Plan::of(self.versions.tree(), self.versions.tombstones_until(), &is_free)?;
        sources.busy.extend(plan.numbers());
        Some(plan)
    }

    fn sources(&self) -> MutexGuard<'_, Sources> {
        self.sources.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Number of segments passed over because they could not be read.
    pub(crate) fn unreadable(&self) -> usize {
        self.sources().unreadable.len()
    }

    /// Publishes a merge and serves its rows from the new segment.
    pub(crate) fn end_merge(&self, begun: MergeBegun) -> Result<(), Error> {
        let MergeBegun { merged, entry, live } = begun;
        let done = self.publish_merged(&merged, entry.clone(), live);
        self.sources().busy.retain(|&number| !merged.is_source(number));
        self.note_merge(done.as_ref().map(|_| Some(&merged)).map_err(Some));
        if done.is_err() || entry.rows == 0 {
            self.versions.directory().remove(&segment_name(entry.number));
        }
        let (old, _retired) = done?;
        self.versions.note_written(entry.bytes);
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
                counts.bytes += merged.written.bytes;
                // Keeps the failure while some segments cannot be read.
                if self.unreadable() == 0 {
                    counts.failure = None;
                }
            }
            Err(Some(error)) => counts.failure = Some(error.to_string()),
            Ok(None) | Err(None) => {}
        }
    }

    /// Publishes a segment in place of its sources. Returns the previous manifest and the retired
    /// view.
    fn publish_merged(
        &self,
        merged: &Merged,
        mut entry: SegmentEntry,
        live: Option<LiveSegment>,
    ) -> Result<(Manifest, Retired), Error> {
        let mut manifest = self.versions.manifest();
        let mut next = manifest.clone();
        let until = self.versions.tombstones_until();
        let forgotten = defect::active(Defect::MergeForgetsMarks);
        let (bits, deleted) = merged.delete_bitmap(if forgotten { merged.since() } else { until });
        if deleted > 0 {
            (entry.tombstones, entry.deleted) = (manifest.next, deleted);
            manifest.next += 1;
            next.next = manifest.next;
            entry.write_delete_bitmap(&self.versions.directory().store, next.collection, &bits)?;
            if let Some(live) = &live {
                self.versions.note_gone(&entry, live, &bits);
            }
        }
        let is_source = |segment: &SegmentEntry| merged.is_source(segment.number);
        let at = next.base.segments.iter().position(is_source).unwrap_or(0);
        next.base.segments.retain(|segment| !is_source(segment));
        if entry.rows > 0 {
            next.base.segments.insert(at, entry.clone());
        }
        let state = next.base.state;
        let done = self.versions.check_live(&next, state, until);
        let done = done.and_then(|()| next.publish(&self.versions.directory().store));
        if done.is_err() && entry.tombstones > 0 {
            self.versions.directory().remove(&delete_bitmap_name(entry.tombstones));
        }
        done?;
        let is_source = |number| merged.is_source(number);
        let retired =
            self.versions.tree().replace_segments(&is_source, live, &|live| merged.hand_on(live));
        Ok((std::mem::replace(&mut manifest, next), retired))
    }
}
