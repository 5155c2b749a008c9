//! Writes what logs go on from, and publishes it: images, segments, merged segments.
//!
//! Whoever publishes holds the manifest until the rows are served from the new files too, so the
//! segments of the manifest are those of the view, and each has its marks in memory.

mod merges;

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicU64, Ordering};
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

/// Segments that no further merge may take.
#[derive(Default)]
struct Sources {
    /// They are being merged.
    busy: HashSet<u64>,
    /// They could not be read; for how many plans they are left alone, so that others go on.
    unreadable: HashMap<u64, u32>,
}

/// Plans for which a segment is left alone that could not be read.
const PLANS_WITHOUT: u32 = 64;

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
    sources: Mutex<Sources>,
    /// Per segment, how many of its rows are gone by its marks, and their digest.
    gone: Mutex<HashMap<u64, (u64, u128)>>,
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
            sources: Mutex::default(),
            gone: Mutex::default(),
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

    /// Segments that are served.
    pub(super) fn segments(&self) -> usize {
        self.places().segments()
    }

    /// Notes that a merge did not begin because there was no thread for it.
    pub(super) fn note_no_thread(&self, error: &std::io::Error) {
        let why = format!("there is no thread for the compaction: {error}");
        self.note_merge(Err(Some(&Error::unavailable(why))));
    }

    /// Files that could not be removed yet.
    pub(super) fn stuck(&self) -> u64 {
        self.directory.stuck()
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
            self.remove_logs(&old, number);
        }
        if defect::active(Defect::ManifestBeforeBase) {
            self.publish_image(Image { number, checksum: 0 }, state)?;
        }
        let summary = image.write_in(store, &prefix).inspect_err(|_| {
            // The disk may be full: what was written so far must not keep it so. What stays is
            // removed before the next attempt.
            let _ = self.delete_all(&prefix);
        })?;
        if (summary.rows, summary.digest) != (state.live, state.digest) {
            return Err(differs(state));
        }
        let bytes = summary.files.iter().map(|file| file.bytes).sum();
        self.image_bytes.store(bytes, Ordering::Relaxed);
        self.written.fetch_add(bytes, Ordering::Relaxed);
        self.publish_image(Image { number, checksum: summary.checksum() }, state)?;
        self.remove_old(&old);
        Ok(())
    }

    fn delete_all(&self, prefix: &str) -> Result<(), Error> {
        let store = &self.directory.store;
        store.list(prefix)?.iter().try_for_each(|left| Ok(store.delete(&left.name)?))
    }

    fn remove_logs(&self, old: &Manifest, before: u64) {
        let logs = old.logs.iter().filter(|&&log| log < before);
        logs.for_each(|&log| self.directory.remove(&log_name(log)));
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

    /// Step 5: what `old` named and nothing names any more. If the directory cannot be listed,
    /// these files stay until it is opened again.
    fn remove_old(&self, old: &Manifest) {
        let named = self.manifest().clone();
        let (Ok(named), Ok(gone)) = (self.names(&named), self.names(old)) else { return };
        for name in gone.into_iter().filter(|name| !named.contains(name)) {
            self.checksums().remove(&name);
            self.directory.remove(&name);
        }
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
        if !self.places().is_frozen(frozen) {
            // An earlier attempt failed after its segment had taken over.
            return Ok(());
        }
        if defect::active(Defect::LogsRemovedEarly) {
            self.remove_logs(&self.manifest().clone(), taken.log);
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
        if done.is_err() || entry.rows == 0 {
            // The disk may be full: what was written so far must not keep it so.
            self.directory.remove(&name);
        }
        let (old, _retired) = done?;
        self.written.fetch_add(entry.bytes, Ordering::Relaxed);
        self.remove_old(&old);
        Ok(())
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
                    (segment.marks, segment.marked) = (manifest.next, marked);
                    // A name that a failed attempt may have left is not given again.
                    manifest.next += 1;
                    next.next = manifest.next;
                    made.push(marks_name(segment.marks));
                    self.note_gone(segment, &sealed, &bits);
                    self.written.fetch_add(bits.len() as u64, Ordering::Relaxed);
                    segment.write_marks(&self.directory.store, next.collection, &bits)?;
                }
            }
            next.base.segments.extend((entry.rows > 0).then_some(entry));
            next.base.image = None;
            self.check_live(&next, taken.state, frozen.sequence())?;
            self.publish(&mut next, taken.state, taken.log)
        })();
        if done.is_err() {
            made.iter().for_each(|name| self.directory.remove(name));
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

    /// Remembers the digest of the rows of a segment that are gone by its newest marks.
    fn note_gone(&self, entry: &SegmentEntry, sealed: &Sealed, bits: &[u8]) -> u128 {
        let digest = sealed.digest_of(bits);
        let mut gone = self.gone.lock().unwrap_or_else(PoisonError::into_inner);
        gone.insert(entry.number, (entry.marked, digest));
        digest
    }

    /// Errors if the rows that live at `until` in the segments of `next` are not those of `state`.
    ///
    /// Cost: O(segments), and O(rows) of those whose marks were not looked at before.
    fn check_live(&self, next: &Manifest, state: State, until: u64) -> Result<(), Error> {
        if defect::active(Defect::MarksNotPersisted) || defect::active(Defect::MergeForgetsMarks) {
            return Ok(());
        }
        let mut segments = Vec::with_capacity(next.base.segments.len());
        for entry in &next.base.segments {
            let gone = self.gone.lock().unwrap_or_else(PoisonError::into_inner);
            let known = gone.get(&entry.number).filter(|known| known.0 == entry.marked);
            let known = known.map(|known| known.1);
            drop(gone);
            let gone = match known {
                Some(digest) => digest,
                None if entry.marked == 0 => 0,
                None => {
                    let sealed = self.places().sealed(entry.number)?;
                    self.note_gone(entry, &sealed, &sealed.marks(until).0)
                }
            };
            segments.push((*entry, gone));
        }
        let is_named = |number: &u64| segments.iter().any(|(entry, _)| entry.number == *number);
        let mut gone = self.gone.lock().unwrap_or_else(PoisonError::into_inner);
        gone.retain(|number, _| is_named(number));
        drop(gone);
        compare(&segments, state)
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

/// Errors if the rows of some segments that live are not those that were logged: their number and
/// their digest.
fn compare(segments: &[(SegmentEntry, u128)], state: State) -> Result<(), Error> {
    let rows = |entry: &SegmentEntry| entry.rows - entry.marked.min(entry.rows);
    let live: u64 = segments.iter().map(|(entry, _)| rows(entry)).sum();
    let digest = segments
        .iter()
        .fold(0u128, |sum, (entry, gone)| sum.wrapping_add(entry.digest).wrapping_sub(*gone));
    if (live, digest) == (state.live, state.digest) {
        return Ok(());
    }
    Err(differs(state))
}

fn differs(state: State) -> Error {
    Error::internal(format!(
        "the rows of write {} are not those that were logged: report the defect",
        state.lsn
    ))
}

#[cfg(test)]
mod tests;
