//! Writes what logs go on from, and publishes it: images, segments, merged segments.
//!
//! Whoever publishes holds the manifest until the rows are served from the new files too, so the
//! segments of the manifest are those of the view, and each has its marks in memory.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use vstream_store::Store;

use super::checkpoint::Logs;
use super::entry::SegmentEntry;
use super::files::{base_prefix, log_name, marks_name, segment_name, Directory};
use super::format::LogIdentity;
use super::manifest::{Image, Manifest};
use super::state::State;
use super::writer::Spare;
use crate::defect::{self, Defect};
use crate::error::Error;
use crate::places::{Frozen, Merged, Places, Retired, Sealed};
use crate::snapshot::PinnedSnapshot;

/// What a checkpoint writes.
pub(crate) enum Capture {
    /// All rows, which stay in memory.
    Image(PinnedSnapshot),
    /// The rows that were in memory, which leave it for a segment.
    Frozen(Arc<Frozen>),
}

/// What was captured, of which moment, and the first log after it.
pub(super) struct Taken {
    pub(super) capture: Capture,
    pub(super) state: State,
    pub(super) log: u64,
    /// What it makes superfluous.
    pub(super) covers: Logs,
}

/// Compactions so far.
#[derive(Clone, Default)]
pub(super) struct MergedCounts {
    pub(super) count: u64,
    pub(super) bytes: u64,
    /// Segments that were dropped whole.
    pub(super) dropped: u64,
    /// Why the last one failed, if it did.
    pub(super) failure: Option<String>,
}

/// A segment that was written from others and is not served yet.
pub(super) struct MergeBegun {
    merged: Merged,
    entry: SegmentEntry,
    /// None if none of its rows lived.
    sealed: Option<Sealed>,
}

/// Keeps the files of a collection. Shared by the writer's side and the threads beside it.
pub(super) struct Keeper {
    directory: Directory,
    manifest: Mutex<Manifest>,
    places: OnceLock<Arc<Places>>,
    /// Length of the base image.
    image_bytes: AtomicU64,
    /// Bytes of images, segments and marks ever.
    written: AtomicU64,
    /// Sequence up to which the marks of the published segments are.
    marked: AtomicU64,
    merged: Mutex<MergedCounts>,
    /// Checksums of files that never change.
    checksums: Mutex<HashMap<String, u64>>,
}

impl Keeper {
    pub(super) fn new(directory: Directory, manifest: Manifest) -> Keeper {
        let prefix = manifest.base.image.map(|image| base_prefix(image.number));
        let listed = prefix.and_then(|prefix| directory.store.list(&prefix).ok());
        let image_bytes: u64 = listed.unwrap_or_default().iter().map(|entry| entry.bytes).sum();
        Keeper {
            directory,
            manifest: Mutex::new(manifest),
            places: OnceLock::new(),
            image_bytes: AtomicU64::new(image_bytes),
            written: AtomicU64::new(0),
            marked: AtomicU64::new(0),
            merged: Mutex::default(),
            checksums: Mutex::default(),
        }
    }

    /// Says where the rows are served from. Once, before anything is written.
    pub(super) fn serve(&self, places: Arc<Places>) {
        assert!(self.places.set(places).is_ok(), "places are set once");
    }

    fn places(&self) -> &Arc<Places> {
        self.places.get().expect("places are set when the journal starts")
    }

    pub(super) fn directory(&self) -> &Directory {
        &self.directory
    }

    fn manifest(&self) -> MutexGuard<'_, Manifest> {
        self.manifest.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Bytes that a log may have before the base is written anew; segments are not.
    pub(super) fn base_bytes(&self) -> u64 {
        self.image_bytes.load(Ordering::Relaxed)
    }

    /// Bytes of images, segments and marks so far, those of compactions among them.
    pub(super) fn written(&self) -> u64 {
        self.written.load(Ordering::Relaxed)
    }

    pub(super) fn merged(&self) -> MergedCounts {
        self.merged.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Step 1 of a checkpoint: the next log, and its number. `state` is at or before that of the
    /// switch.
    pub(super) fn prepare(&self, state: State) -> Result<(Spare, u64), Error> {
        let mut manifest = self.manifest();
        let number = manifest.last_log() + 1;
        let log = LogIdentity { collection: manifest.collection, number };
        let spare = Spare::create(&self.directory.store, log, state.lsn)?;
        let mut next = manifest.clone();
        next.logs.push(number);
        next.publish(&self.directory.store)?;
        *manifest = next;
        Ok((spare, number))
    }

    /// Steps 3 to 5.
    pub(super) fn write(&self, taken: &Taken) -> Result<(), Error> {
        match &taken.capture {
            Capture::Image(image) => self.write_image(image, taken),
            Capture::Frozen(frozen) => self.write_frozen(frozen, taken),
        }
    }

    fn write_image(&self, image: &PinnedSnapshot, taken: &Taken) -> Result<(), Error> {
        let (store, state, number) = (&self.directory.store, taken.state, taken.log);
        let old = self.manifest().clone();
        let prefix = base_prefix(number);
        self.delete_all(&prefix)?;
        if defect::active(Defect::LogsRemovedEarly) {
            self.remove_logs(&old, number)?;
        }
        if defect::active(Defect::ManifestBeforeBase) {
            self.publish_image(Image { number, checksum: 0 }, state)?;
        }
        let written = image.write_in(store, &prefix);
        if written.is_err() {
            // The disk may be full: what was written so far must not keep it so.
            self.delete_all(&prefix)?;
        }
        let summary = written?;
        if (summary.rows, summary.digest) != (state.live, state.digest) {
            return Err(differs(state));
        }
        let bytes = summary.files.iter().map(|file| file.bytes).sum();
        self.image_bytes.store(bytes, Ordering::Relaxed);
        self.written.fetch_add(bytes, Ordering::Relaxed);
        self.publish_image(Image { number, checksum: summary.checksum() }, state)?;
        self.remove_old(&old)
    }

    fn delete_all(&self, prefix: &str) -> Result<(), Error> {
        let store = &self.directory.store;
        store.list(prefix)?.iter().try_for_each(|left| Ok(store.delete(&left.name)?))
    }

    fn remove_logs(&self, old: &Manifest, before: u64) -> Result<(), Error> {
        let logs = old.logs.iter().filter(|&&log| log < before);
        logs.map(|&log| log_name(log)).try_for_each(|name| self.directory.remove(&name))
    }

    fn publish_image(&self, image: Image, state: State) -> Result<(), Error> {
        let mut manifest = self.manifest();
        let mut next = manifest.clone();
        next.base.image = Some(image);
        self.publish(&mut next, state, image.number)?;
        *manifest = next;
        Ok(())
    }

    /// Step 4: `state` is that of the base of `next`, `log` the first one after it.
    fn publish(&self, next: &mut Manifest, state: State, log: u64) -> Result<(), Error> {
        next.logs.retain(|&number| number >= log);
        next.base.state = state;
        if next.known.lsn < state.lsn {
            next.known = state;
        }
        next.publish(&self.directory.store)
    }

    /// Step 5: what `old` named and nothing names any more.
    fn remove_old(&self, old: &Manifest) -> Result<(), Error> {
        let named = self.names(&self.manifest().clone())?;
        let gone = self.names(old)?.into_iter().filter(|name| !named.contains(name));
        gone.into_iter().try_for_each(|name| {
            self.checksums().remove(&name);
            self.directory.remove(&name)
        })
    }

    /// Every file that a manifest names.
    fn names(&self, manifest: &Manifest) -> Result<Vec<String>, Error> {
        let mut names: Vec<String> = manifest.logs.iter().map(|&log| log_name(log)).collect();
        for segment in &manifest.base.segments {
            names.push(segment_name(segment.number));
            names.extend((segment.marks > 0).then(|| marks_name(segment.marks)));
        }
        if let Some(image) = manifest.base.image {
            let files = self.directory.store.list(&base_prefix(image.number))?;
            names.extend(files.into_iter().map(|entry| entry.name));
        }
        Ok(names)
    }

    fn write_frozen(&self, frozen: &Arc<Frozen>, taken: &Taken) -> Result<(), Error> {
        let store = &self.directory.store;
        if defect::active(Defect::LogsRemovedEarly) {
            self.remove_logs(&self.manifest().clone(), taken.log)?;
        }
        let (mut entry, collection) = self.new_entry();
        if defect::active(Defect::ManifestBeforeBase) {
            let mut manifest = self.manifest();
            manifest.base.segments.push(entry);
            let mut next = manifest.clone();
            self.publish(&mut next, taken.state, taken.log)?;
            manifest.base.segments.pop();
        }
        let name = segment_name(entry.number);
        let written = frozen.write(store, &name, entry.identity(collection));
        let sealed = written.and_then(|summary| {
            (entry.bytes, entry.rows, entry.digest) = (summary.bytes, summary.rows, summary.digest);
            let open = || self.places().open(store, &entry, collection, &[]);
            if summary.rows == 0 {
                Ok(None)
            } else {
                open().map(Some)
            }
        });
        let done = sealed.and_then(|sealed| self.publish_frozen(frozen, taken, entry, sealed));
        if done.is_err() {
            // The disk may be full: what was written so far must not keep it so.
            store.delete(&name)?;
        } else if entry.rows == 0 {
            store.delete(&name)?;
        }
        let (old, _retired) = done?;
        self.written.fetch_add(entry.bytes, Ordering::Relaxed);
        self.remove_old(&old)
    }

    /// Publishes a segment with what was frozen, and the marks of the others at that moment.
    /// Returns the manifest and the view of before.
    fn publish_frozen(
        &self,
        frozen: &Arc<Frozen>,
        taken: &Taken,
        entry: SegmentEntry,
        sealed: Option<Sealed>,
    ) -> Result<(Manifest, Retired), Error> {
        let mut manifest = self.manifest();
        let mut next = manifest.clone();
        let forgotten = defect::active(Defect::MarksNotPersisted);
        let mut made = Vec::new();
        let done = (|| {
            for segment in next.base.segments.iter_mut().filter(|_| !forgotten) {
                let sealed = self.places().sealed(segment.number)?;
                let (bits, marked) = sealed.marks(frozen.sequence());
                if marked != segment.marked {
                    (segment.marks, segment.marked) = (next.next, marked);
                    next.next += 1;
                    made.push(marks_name(segment.marks));
                    self.written.fetch_add(bits.len() as u64, Ordering::Relaxed);
                    segment.write_marks(&self.directory.store, next.collection, &bits)?;
                }
            }
            next.base.segments.extend((entry.rows > 0).then_some(entry));
            next.base.image = None;
            check_live(&next, taken.state)?;
            self.publish(&mut next, taken.state, taken.log)
        })();
        if done.is_err() {
            for name in &made {
                self.directory.store.delete(name)?;
            }
        }
        done?;
        self.image_bytes.store(0, Ordering::Relaxed);
        self.marked.store(frozen.sequence(), Ordering::Relaxed);
        let retired = self.places().settle(frozen, sealed);
        Ok((std::mem::replace(&mut manifest, next), retired))
    }

    /// A segment that is yet to be written, and the collection.
    fn new_entry(&self) -> (SegmentEntry, u64) {
        let mut manifest = self.manifest();
        let number = manifest.next;
        manifest.next += 1;
        (SegmentEntry { number, ..SegmentEntry::default() }, manifest.collection)
    }

    /// Merges segments if that pays; false if it does not. `stop`: gives up soon when it is set.
    pub(super) fn compact(&self, stop: &AtomicBool) -> Result<bool, Error> {
        let Some(begun) = self.begin_merge(stop)? else { return Ok(false) };
        self.end_merge(begun)?;
        Ok(true)
    }

    /// Writes a segment from others, if that pays, or finds some to drop. Nothing changes for
    /// readers yet.
    pub(super) fn begin_merge(&self, stop: &AtomicBool) -> Result<Option<MergeBegun>, Error> {
        let plan = {
            let _published = self.manifest();
            self.places().plan(self.marked.load(Ordering::Relaxed))
        };
        let Some(plan) = plan else { return Ok(None) };
        let store = &self.directory.store;
        let (mut entry, collection) = self.new_entry();
        let name = segment_name(entry.number);
        let merged = match plan.is_drop {
            true => Ok(Merged::drop_of(&plan)),
            false => self.places().merge(&plan, store, &name, entry.identity(collection), stop),
        };
        let begun = merged.and_then(|merged| {
            let summary = merged.summary;
            (entry.bytes, entry.rows, entry.digest) = (summary.bytes, summary.rows, summary.digest);
            let open = || self.places().open(store, &entry, collection, &[]);
            let sealed = if summary.rows == 0 { None } else { Some(open()?) };
            Ok(MergeBegun { merged, entry, sealed })
        });
        // Given up because the engine closes is no failure.
        let is_failure = !stop.load(Ordering::Relaxed);
        self.note_merge(begun.as_ref().map(|_| None).map_err(|error| is_failure.then_some(error)));
        if begun.is_err() {
            store.delete(&name)?;
        }
        begun.map(Some)
    }

    /// Serves the rows of a merge from their new segment.
    pub(super) fn end_merge(&self, begun: MergeBegun) -> Result<(), Error> {
        let MergeBegun { merged, entry, sealed } = begun;
        let done = self.publish_merged(&merged, entry, sealed);
        self.note_merge(done.as_ref().map(|_| Some(&merged)).map_err(Some));
        if done.is_err() || entry.rows == 0 {
            self.directory.store.delete(&segment_name(entry.number))?;
        }
        let (old, _retired) = done?;
        self.written.fetch_add(entry.bytes, Ordering::Relaxed);
        self.remove_old(&old)
    }

    /// Counts a merge that ended, or notes why one failed.
    fn note_merge(&self, done: Result<Option<&Merged>, Option<&Error>>) {
        let mut counts = self.merged.lock().unwrap_or_else(PoisonError::into_inner);
        match done {
            Ok(Some(merged)) => {
                match merged.dropped() {
                    0 => counts.count += 1,
                    dropped => counts.dropped += dropped,
                }
                counts.bytes += merged.summary.bytes;
                counts.failure = None;
            }
            Err(Some(error)) => counts.failure = Some(error.to_string()),
            Ok(None) | Err(None) => {}
        }
    }

    /// Publishes a segment in place of those that it was merged from. Returns the manifest and the
    /// view of before.
    fn publish_merged(
        &self,
        merged: &Merged,
        mut entry: SegmentEntry,
        sealed: Option<Sealed>,
    ) -> Result<(Manifest, Retired), Error> {
        let mut manifest = self.manifest();
        let mut next = manifest.clone();
        let until = self.marked.load(Ordering::Relaxed);
        let forgotten = defect::active(Defect::MergeForgetsMarks);
        let (bits, marked) = merged.marks(if forgotten { merged.since() } else { until });
        if marked > 0 {
            (entry.marks, entry.marked) = (next.next, marked);
            next.next += 1;
            entry.write_marks(&self.directory.store, next.collection, &bits)?;
        }
        let is_source = |segment: &SegmentEntry| merged.is_source(segment.number);
        let at = next.base.segments.iter().position(is_source).unwrap_or(0);
        next.base.segments.retain(|segment| !is_source(segment));
        if entry.rows > 0 {
            next.base.segments.insert(at, entry);
        }
        let state = next.base.state;
        let done = check_live(&next, state).and_then(|()| next.publish(&self.directory.store));
        if done.is_err() && entry.marks > 0 {
            self.directory.store.delete(&marks_name(entry.marks))?;
        }
        done?;
        let retired = self.places().replace(merged, sealed);
        Ok((std::mem::replace(&mut manifest, next), retired))
    }

    /// Notes in the manifest that everything up to `state` is on the disk.
    pub(super) fn note_end(&self, state: State) -> Result<(), Error> {
        let mut manifest = self.manifest();
        if manifest.known == state {
            return Ok(());
        }
        let mut next = manifest.clone();
        next.known = state;
        next.publish(&self.directory.store)?;
        *manifest = next;
        Ok(())
    }

    /// The manifest of the state `state`, after which the newest log begins, and its files, which
    /// stay until they are unpinned.
    pub(super) fn pin(&self, state: State) -> Result<(Manifest, Vec<String>), Error> {
        let manifest = self.manifest();
        let mut pinned = manifest.clone();
        pinned.unmade = pinned.logs.pop();
        pinned.known = state;
        let names = self.names(&pinned)?;
        self.directory.pin(&names);
        Ok((pinned, names))
    }

    fn checksums(&self) -> MutexGuard<'_, HashMap<String, u64>> {
        self.checksums.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The checksum of a file, taken once.
    pub(super) fn checksum_of(
        &self,
        name: &str,
        take: impl FnOnce() -> Result<u64, Error>,
    ) -> Result<u64, Error> {
        if let Some(&known) = self.checksums().get(name) {
            return Ok(known);
        }
        let checksum = take()?;
        self.checksums().insert(name.to_owned(), checksum);
        Ok(checksum)
    }
}

/// Errors if the segments of a manifest have not as many rows as live in `state`.
fn check_live(manifest: &Manifest, state: State) -> Result<(), Error> {
    let rows = |segment: &SegmentEntry| segment.rows - segment.marked.min(segment.rows);
    let live: u64 = manifest.base.segments.iter().map(rows).sum();
    let is_checked =
        !defect::active(Defect::MarksNotPersisted) && !defect::active(Defect::MergeForgetsMarks);
    if is_checked && live != state.live {
        return Err(differs(state));
    }
    Ok(())
}

fn differs(state: State) -> Error {
    Error::internal(format!(
        "the rows of write {} are not those that were logged: report the defect",
        state.lsn
    ))
}
