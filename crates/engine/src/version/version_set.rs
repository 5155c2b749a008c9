//! The version set: publishes images, segments and merged segments, from which the logs continue.
//!
//! A publisher holds the manifest until the rows are served from the new files too. So the segments
//! of the manifest are those of the view, and the tombstones of each are in memory.

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use vstream_attribute::Schema;
use vstream_store::Store;

use super::directory::Directory;
use super::manifest::Manifest;
use super::remembered_file::write_remembered;
use super::retained::RetainedLogs;
use crate::defect::{self, Defect};
use crate::error::Error;
use crate::layout::{base_file, delete_bitmap_name, log_name, remembered_name, segment_name, BASE};
use crate::priority::threads;
use crate::remembered::RememberedDelete;
use crate::settings::DeleteOrder;
use crate::snapshot::{shard_of_file, Image};
use crate::tree::{LiveSegment, SegmentEntry, Tree};
use crate::wal::{LogIdentity, Spare, State};

/// A segment of another collection whose file is here and open, but which nothing names yet.
pub(crate) struct AdoptedSegment {
    pub(crate) entry: SegmentEntry,
    pub(crate) live: LiveSegment,
    /// A bit per row, set if it is deleted here.
    pub(crate) bits: Vec<u8>,
}

/// Lengths of a base image.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ImageBytes {
    /// Of all files that serve a shard.
    pub(crate) all: u64,
    /// Of the shards that the next turn takes.
    pub(crate) next: u64,
}

impl ImageBytes {
    /// Those of the image that a manifest names; zeros without one. If the directory cannot be listed, the
    /// next checkpoint comes early.
    fn listed(directory: &Directory, manifest: &Manifest) -> ImageBytes {
        let Some(image) = &manifest.base.image else { return ImageBytes::default() };
        let files = directory.store.list(BASE).unwrap_or_default().into_iter();
        let files = files.filter(|entry| image.has(&entry.name));
        let shard = |name: &str| shard_of_file(base_file(name)?.1);
        let by_shard = files.filter_map(|entry| Some((shard(&entry.name)?, entry.bytes)));
        let by_shard: BTreeMap<u16, u64> = by_shard.collect();
        let all = by_shard.values().sum();
        let groups = Image::groups(all, manifest.settings.image_part_bytes);
        ImageBytes { all, next: image.turn(&by_shard, groups).1 }
    }
}

/// Keeps the files of a collection. The writer and the engine's threads share it.
pub(crate) struct VersionSet {
    directory: Directory,
    manifest: Mutex<Manifest>,
    /// Number of the first log that the published manifest names.
    oldest_log: AtomicU64,
    tree: OnceLock<Arc<Tree>>,
    image_bytes: Mutex<ImageBytes>,
    /// Bytes of images, segments and delete bitmaps since the engine was opened.
    written: AtomicU64,
    /// Sequence of the last write whose tombstones the published segments have.
    tombstones_until: AtomicU64,
    /// Per segment, the number of rows that its tombstones remove, and their digest.
    gone: Mutex<HashMap<u64, (u64, u128)>>,
    /// Checksums of files that never change.
    checksums: Mutex<HashMap<String, u64>>,
    /// Logs for followers, if there were any. Locked after the manifest.
    retained: Mutex<Option<RetainedLogs>>,
}

impl VersionSet {
    pub(crate) fn new(directory: Directory, manifest: Manifest) -> VersionSet {
        let image_bytes = ImageBytes::listed(&directory, &manifest);
        let oldest_log = AtomicU64::new(manifest.logs.first().copied().unwrap_or_default());
        VersionSet {
            directory,
            oldest_log,
            manifest: Mutex::new(manifest),
            tree: OnceLock::new(),
            image_bytes: Mutex::new(image_bytes),
            written: AtomicU64::new(0),
            tombstones_until: AtomicU64::new(0),
            gone: Mutex::default(),
            checksums: Mutex::default(),
            retained: Mutex::default(),
        }
    }

    /// Sets the tree that serves the rows. Called once, before anything is written.
    pub(crate) fn serve(&self, tree: Arc<Tree>) {
        assert!(self.tree.set(tree).is_ok(), "places are set once");
    }

    /// Returns the tree that serves the rows.
    pub(crate) fn tree(&self) -> &Arc<Tree> {
        self.tree.get().expect("places are set when the journal starts")
    }

    pub(crate) fn directory(&self) -> &Directory {
        &self.directory
    }

    /// Locks the published manifest. Nobody else can publish until the lock is dropped.
    pub(crate) fn manifest(&self) -> MutexGuard<'_, Manifest> {
        self.manifest.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the lengths of the base image. The log may grow to this length before all of the image was
    /// written anew; segments do not count, since checkpoints do not write them anew.
    pub(crate) fn image_bytes(&self) -> ImageBytes {
        *self.image_bytes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the number of parts of the base image; 0 without one.
    pub(crate) fn parts(&self) -> u64 {
        self.manifest().base.image.as_ref().map_or(0, |image| image.parts().len() as u64)
    }

    /// Looks at the base image of a manifest that was published; it may have none any more.
    pub(crate) fn note_image(&self, published: &Manifest) {
        let listed = ImageBytes::listed(&self.directory, published);
        *self.image_bytes.lock().unwrap_or_else(PoisonError::into_inner) = listed;
    }

    /// Returns the bytes of images, segments and delete bitmaps so far, including those of
    /// compactions.
    pub(crate) fn written(&self) -> u64 {
        self.written.load(Ordering::Relaxed)
    }

    /// Counts the bytes of an image, a segment or a delete bitmap.
    pub(crate) fn note_written(&self, bytes: u64) {
        self.written.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Returns the sequence of the last write whose tombstones the published segments have.
    pub(crate) fn tombstones_until(&self) -> u64 {
        self.tombstones_until.load(Ordering::Relaxed)
    }

    /// Notes that the published segments have the tombstones up to `sequence`.
    pub(crate) fn note_tombstones_until(&self, sequence: u64) {
        self.tombstones_until.store(sequence, Ordering::Relaxed);
    }

    /// Returns the number of files that could not be removed yet.
    pub(crate) fn stuck(&self) -> u64 {
        self.directory.stuck()
    }

    /// Takes step 1 of a checkpoint: makes the next log, and returns it with its number. `state` is
    /// that of the switch, or an earlier one.
    pub(crate) fn prepare(&self, state: State) -> Result<(Spare, u64), Error> {
        let mut manifest = self.manifest();
        let number = manifest.last_log() + 1;
        let log = LogIdentity { collection: manifest.collection, number };
        let spare = Spare::create(&self.directory.store, log, state.lsn)?;
        let mut next = manifest.clone();
        next.logs.push(number);
        next.publish(&self.directory.store)?;
        *manifest = next;
        if let Some(retained) = &mut *self.retained() {
            retained.begin(&self.directory, number);
        }
        Ok((spare, number))
    }

    /// Keeps logs for followers from now on, those of the manifest and `bytes_max` bytes of older ones.
    pub(crate) fn retain_logs(&self, bytes_max: u64) {
        let manifest = self.manifest();
        let mut retained = self.retained();
        if retained.is_none() {
            *retained = Some(RetainedLogs::of(&self.directory, &manifest, bytes_max));
        }
    }

    /// The numbers of the logs that are kept for followers, ascending.
    pub(crate) fn retained_logs(&self) -> Vec<u64> {
        self.retained().as_ref().map_or_else(Vec::new, RetainedLogs::numbers)
    }

    /// Lets go of the logs that only followers would read.
    pub(crate) fn release_logs(&self) {
        if let Some(retained) = self.retained().take() {
            retained.release(&self.directory);
        }
    }

    fn retained(&self) -> MutexGuard<'_, Option<RetainedLogs>> {
        self.retained.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes step 4: publishes `next`. `state` is that of its base, and `log` is the first log
    /// after it.
    pub(crate) fn publish(&self, next: &mut Manifest, state: State, log: u64) -> Result<(), Error> {
        next.logs.retain(|&number| number >= log);
        next.base.state = state;
        // Rows that were loaded change the state without a write.
        if next.known.lsn <= state.lsn {
            next.known = state;
        }
        next.publish(&self.directory.store)?;
        self.oldest_log.store(next.logs.first().copied().unwrap_or(log), Ordering::Relaxed);
        Ok(())
    }

    /// Returns the number of the first log that is needed. The writer asks at the end of a checkpoint: it does not
    /// wait for the manifest, which a merge may hold while it writes delete bitmaps.
    pub(crate) fn oldest_log(&self) -> u64 {
        self.oldest_log.load(Ordering::Relaxed)
    }

    /// Takes step 5: removes the files that `old` named and nothing names any more. If the
    /// directory cannot be listed, these files stay until it is opened again.
    pub(crate) fn remove_old(&self, old: &Manifest) {
        let present = self.manifest().clone();
        let (Ok(named), Ok(gone)) = (self.names(&present), self.names(old)) else { return };
        for name in gone.into_iter().filter(|name| !named.contains(name)) {
            self.checksums().remove(&name);
            self.directory.remove(&name);
        }
        if let Some(retained) = &mut *self.retained() {
            retained.trim(&self.directory, &present);
        }
    }

    /// Returns the names of all files that a manifest names.
    fn names(&self, manifest: &Manifest) -> Result<Vec<String>, Error> {
        let mut names: Vec<String> = manifest.logs.iter().map(|&log| log_name(log)).collect();
        for segment in &manifest.base.segments {
            names.push(segment_name(segment.number));
            names.extend((segment.tombstones > 0).then(|| delete_bitmap_name(segment.tombstones)));
        }
        if manifest.base.remembered > 0 {
            names.push(remembered_name(manifest.base.remembered));
        }
        if let Some(image) = &manifest.base.image {
            let files = self.directory.store.list(BASE)?.into_iter().map(|entry| entry.name);
            names.extend(files.filter(|name| image.has(name)));
        }
        Ok(names)
    }

    /// Returns the entry of a new segment with the next number, and the number of the collection.
    pub(crate) fn new_entry(&self) -> (SegmentEntry, u64) {
        let mut manifest = self.manifest();
        let number = manifest.next;
        manifest.next += 1;
        (SegmentEntry { number, ..SegmentEntry::default() }, manifest.collection)
    }

    /// Writes the deletes that a checkpoint captured; returns the number of their file, 0 for none.
    pub(crate) fn write_remembered(&self, deletes: &[RememberedDelete]) -> Result<u64, Error> {
        if deletes.is_empty() || defect::active(Defect::RememberedNotPersisted) {
            return Ok(0);
        }
        let (entry, collection) = self.new_entry();
        let written = write_remembered(&self.directory.store, (collection, entry.number), deletes);
        // The disk may be full, and this attempt must not keep it full.
        let written = written.inspect_err(|_| self.remove_remembered(entry.number))?;
        self.note_written(written);
        Ok(entry.number)
    }

    /// Removes a file of remembered deletes that no manifest names.
    pub(crate) fn remove_remembered(&self, number: u64) {
        if number > 0 {
            self.directory.remove(&remembered_name(number));
        }
    }

    /// Publishes a schema with more attributes. Logs may have rows with them when this returns.
    pub(crate) fn publish_schema(&self, schema: &Arc<Schema>) -> Result<(), Error> {
        let mut manifest = self.manifest();
        let mut next = manifest.clone();
        next.settings.schema = schema.clone();
        next.publish(&self.directory.store)?;
        *manifest = next;
        Ok(())
    }

    /// Notes in the manifest that everything up to `state` is on the disk.
    pub(crate) fn note_end(&self, state: State) -> Result<(), Error> {
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

    /// Returns the manifest of `state` and its files, which it pins. The newest log must begin
    /// after `state`.
    pub(crate) fn pin(&self, state: State) -> Result<(Manifest, Vec<String>), Error> {
        let manifest = self.manifest();
        let mut pinned = manifest.clone();
        pinned.unmade = pinned.logs.pop();
        pinned.known = state;
        let names = self.names(&pinned)?;
        self.directory.pin(&names);
        Ok((pinned, names))
    }

    /// Remembers and returns the digest of the rows that the newest tombstones of a segment remove.
    pub(crate) fn note_gone(&self, entry: &SegmentEntry, live: &LiveSegment, bits: &[u8]) -> u128 {
        let digest = entry.digest.wrapping_sub(live.digest_without(bits));
        let mut gone = self.gone.lock().unwrap_or_else(PoisonError::into_inner);
        gone.insert(entry.number, (entry.deleted, digest));
        digest
    }

    /// Errors if the rows that live at sequence `until` in the segments of `next` are not those of
    /// `state`.
    ///
    /// Cost: O(segments), and O(rows) for each segment whose tombstones were not counted before.
    pub(crate) fn check_live(
        &self,
        next: &Manifest,
        state: State,
        until: u64,
    ) -> Result<(), Error> {
        if defect::active(Defect::MarksNotPersisted) || defect::active(Defect::MergeForgetsMarks) {
            return Ok(());
        }
        let mut segments = Vec::with_capacity(next.base.segments.len());
        for entry in &next.base.segments {
            let gone = self.gone.lock().unwrap_or_else(PoisonError::into_inner);
            let known = gone.get(&entry.number).filter(|known| known.0 == entry.deleted);
            let known = known.map(|known| known.1);
            drop(gone);
            let gone = match known {
                Some(digest) => digest,
                None if entry.deleted == 0 => 0,
                None => {
                    let live = self.tree().segment(entry.number)?;
                    self.note_gone(entry, &live, &live.delete_bitmap(until).0)
                }
            };
            segments.push((entry.clone(), gone));
        }
        let is_named = |number: &u64| segments.iter().any(|(entry, _)| entry.number == *number);
        let mut gone = self.gone.lock().unwrap_or_else(PoisonError::into_inner);
        gone.retain(|number, _| is_named(number));
        drop(gone);
        compare(&segments, state)
    }

    /// Publishes segments of other collections beside those of this one, and serves them. Their ids have
    /// no other living row, and no log has a record after the published state. Returns the new state,
    /// which has the same LSN.
    ///
    /// Where rows end oldest first, the segments of each side keep their order, and both sides are taken
    /// to cover the same time.
    pub(crate) fn adopt(&self, adopted: Vec<AdoptedSegment>) -> Result<State, Error> {
        let mut manifest = self.manifest();
        let mut next = manifest.clone();
        let (ours, theirs) = (next.base.segments.len(), adopted.len());
        let (mut state, mut live) = (next.base.state, Vec::new());
        for (at, adopted) in adopted.into_iter().enumerate() {
            let before = match next.settings.deletes {
                DeleteOrder::Any => ours,
                DeleteOrder::OldestFirst => (2 * at + 1) * ours / (2 * theirs),
            };
            let AdoptedSegment { entry, live: opened, bits } = adopted;
            let gone = match entry.deleted {
                0 => 0,
                _ => self.note_gone(&entry, &opened, &bits),
            };
            state.live += entry.rows - entry.deleted;
            state.digest = state.digest.wrapping_add(entry.digest).wrapping_sub(gone);
            live.push((before + at, opened));
            next.base.segments.insert(before + at, entry);
        }
        (next.base.state, next.known) = (state, state);
        next.publish(&self.directory.store)?;
        self.tree().adopt(live, threads(next.journaling.background));
        *manifest = next;
        Ok(state)
    }

    fn checksums(&self) -> MutexGuard<'_, HashMap<String, u64>> {
        self.checksums.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the checksum of a file; computes it once.
    pub(crate) fn checksum_of(
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

/// Errors if the number and the digest of the living rows of some segments are not those that were
/// logged.
fn compare(segments: &[(SegmentEntry, u128)], state: State) -> Result<(), Error> {
    let rows = |entry: &SegmentEntry| entry.rows - entry.deleted.min(entry.rows);
    let live: u64 = segments.iter().map(|(entry, _)| rows(entry)).sum();
    let digest = segments
        .iter()
        .fold(0u128, |sum, (entry, gone)| sum.wrapping_add(entry.digest).wrapping_sub(*gone));
    if (live, digest) == (state.live, state.digest) {
        return Ok(());
    }
    Err(differs(state))
}

pub(crate) fn differs(state: State) -> Error {
    Error::internal(format!(
        "the rows of write {} are not those that were logged: report the defect",
        state.lsn
    ))
}

#[cfg(test)]
mod tests;
