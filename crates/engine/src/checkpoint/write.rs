//! Steps 3 to 5 of a checkpoint: writes the captured rows, publishes them, removes replaced files.

use std::sync::Arc;

use vstream_store::Store;

use crate::defect::{self, Defect};
use crate::error::Error;
use crate::layout::{base_prefix, delete_bitmap_name, log_name, segment_name};
use crate::remembered::RememberedDelete;
use crate::snapshot::{Image, Part, PinnedSnapshot, ShardRows, SnapshotSummary, Turn};
use crate::tree::{ImmutableMemtable, Known, LiveSegment, Retired, SegmentEntry};
use crate::version::{differs, Manifest, VersionSet};
use crate::wal::{State, Ticket};

/// The rows that a checkpoint writes.
pub(crate) enum Capture {
    /// All rows, some of which are written; they stay in memory.
    Image(Box<PinnedSnapshot>),
    /// An immutable memtable; its rows leave memory for a segment.
    Memtable(Arc<ImmutableMemtable>),
}

/// Captured rows with their state, and the number of the first log after them.
pub(super) struct Taken {
    pub(super) capture: Capture,
    /// True if an image of all rows is asked for; otherwise a part of it is enough.
    pub(super) is_whole: bool,
    /// The deletes that were remembered then.
    pub(super) remembered: Vec<RememberedDelete>,
    pub(super) state: State,
    /// Waits until the logs up to the state are on the disk.
    pub(super) logged: Ticket,
    pub(super) log: u64,
}

/// Takes steps 3 to 5.
pub(super) fn write(versions: &VersionSet, taken: &Taken) -> Result<(), Error> {
    match &taken.capture {
        Capture::Image(image) => write_image(versions, image, taken),
        Capture::Memtable(immutable) => write_memtable(versions, immutable, taken),
    }
}

fn write_image(versions: &VersionSet, rows: &PinnedSnapshot, taken: &Taken) -> Result<(), Error> {
    let (state, number) = (taken.state, taken.log);
    let old = versions.manifest().clone();
    let prefix = base_prefix(number);
    delete_all(versions, &prefix)?;
    let step = Step::of(versions, old.base.image.as_ref(), rows, taken)?;
    let after = |checksum| step.image(Part { number, checksum, lsn: state.lsn });
    if defect::active(Defect::LogsRemovedEarly) {
        remove_logs(versions, &old, after(0).oldest().number);
    }
    if defect::active(Defect::ManifestBeforeBase) {
        publish_image(versions, after(0), state, 0)?;
    }
    let done = (|| {
        let summary = step.write(versions, &prefix, (rows, state))?;
        versions.note_written(summary.files.iter().map(|file| file.bytes).sum());
        let remembered = versions.write_remembered(&taken.remembered)?;
        if !step.turn.is_all() {
            // The other shards have what the logs say.
            taken.logged.clone().wait()?;
        }
        publish_image(versions, after(summary.checksum()), state, remembered)
            .inspect_err(|_| versions.remove_remembered(remembered))
    })();
    if done.is_err() {
        // The disk may be full, and this attempt must not keep it full. The next open removes what
        // stays.
        let _ = delete_all(versions, &prefix);
    }
    done?;
    versions.remove_old(&old);
    versions.note_image(&versions.manifest());
    Ok(())
}

/// What one checkpoint writes of an image.
struct Step<'a> {
    before: Option<&'a Image>,
    turn: Turn,
    /// The rows of the turn's shards, if it does not take all.
    expected: ShardRows,
}

impl<'a> Step<'a> {
    /// The next turn, or all rows. Errors: `Internal` if the captured rows are not those that were
    /// logged; those of the rows.
    fn of(
        versions: &VersionSet,
        before: Option<&'a Image>,
        rows: &PinnedSnapshot,
        taken: &Taken,
    ) -> Result<Step<'a>, Error> {
        let (turn, expected) = (Turn::ALL, ShardRows::default());
        let all = Step { before, turn, expected };
        let groups = Image::groups(versions.image_bytes().all, rows.settings.image_part_bytes);
        let Some(image) = before.filter(|_| !taken.is_whole && groups > 1) else { return Ok(all) };
        let shards = rows.count_shards()?;
        if ShardRows::sum(shards.values()) != ShardRows::of(taken.state) {
            return Err(differs(taken.state));
        }
        let weights = shards.iter().map(|(&shard, counted)| (shard, counted.rows)).collect();
        let (turn, _) = image.turn(&weights, groups);
        let taken = shards.iter().filter(|(shard, _)| image.takes(turn, **shard));
        Ok(Step { before, turn, expected: ShardRows::sum(taken.map(|(_, counted)| counted)) })
    }

    /// The image with this part in it.
    fn image(&self, part: Part) -> Image {
        self.before.map_or_else(|| Image::whole(part), |before| before.after(self.turn, part))
    }

    /// Writes the rows of the turn. Errors: `Internal` if they are not those that were logged; those of
    /// the rows and of the store.
    fn write(
        &self,
        versions: &VersionSet,
        prefix: &str,
        (rows, state): (&PinnedSnapshot, State),
    ) -> Result<SnapshotSummary, Error> {
        let takes = |shard| self.before.is_none_or(|before| before.takes(self.turn, shard));
        let summary = rows.write_in(&versions.directory().store, prefix, &takes)?;
        let expected = match self.turn.is_all() {
            true => ShardRows::of(state),
            false => self.expected,
        };
        let written = ShardRows { rows: summary.rows, digest: summary.digest };
        if written != expected {
            return Err(differs(state));
        }
        Ok(summary)
    }
}

impl ShardRows {
    /// All rows after a write.
    fn of(state: State) -> ShardRows {
        ShardRows { rows: state.live, digest: state.digest }
    }

    fn sum<'a>(shards: impl Iterator<Item = &'a ShardRows>) -> ShardRows {
        shards.fold(ShardRows::default(), |sum, shard| ShardRows {
            rows: sum.rows + shard.rows,
            digest: sum.digest.wrapping_add(shard.digest),
        })
    }
}

fn delete_all(versions: &VersionSet, prefix: &str) -> Result<(), Error> {
    let store = &versions.directory().store;
    store.list(prefix)?.iter().try_for_each(|left| Ok(store.delete(&left.name)?))
}

fn remove_logs(versions: &VersionSet, old: &Manifest, before: u64) {
    let logs = old.logs.iter().filter(|&&log| log < before);
    logs.for_each(|&log| versions.directory().remove(&log_name(log)));
}

/// * `remembered`: number of the file of remembered deletes; 0 for none.
fn publish_image(
    versions: &VersionSet,
    image: Image,
    state: State,
    remembered: u64,
) -> Result<(), Error> {
    let mut manifest = versions.manifest();
    let mut next = manifest.clone();
    let first_log = image.oldest().number;
    next.base.image = Some(image);
    next.base.remembered = remembered;
    versions.publish(&mut next, state, first_log)?;
    *manifest = next;
    Ok(())
}

fn write_memtable(
    versions: &VersionSet,
    immutable: &Arc<ImmutableMemtable>,
    taken: &Taken,
) -> Result<(), Error> {
    let store = &versions.directory().store;
    if !versions.tree().is_immutable(immutable) {
        // An earlier attempt failed after its segment had replaced the memtable.
        return Ok(());
    }
    if defect::active(Defect::LogsRemovedEarly) {
        remove_logs(versions, &versions.manifest().clone(), taken.log);
    }
    let (mut entry, collection) = versions.new_entry();
    if defect::active(Defect::ManifestBeforeBase) {
        let mut manifest = versions.manifest();
        manifest.base.segments.push(entry.clone());
        let mut next = manifest.clone();
        versions.publish(&mut next, taken.state, taken.log)?;
        manifest.base.segments.pop();
    }
    let name = segment_name(entry.number);
    let numbers = (entry.identity(collection), entry.first_leaf());
    let written = immutable.write(store, &name, numbers, &versions.tree().view().leaves);
    let live = written.and_then(|summary| {
        (entry.bytes, entry.rows, entry.digest) = (summary.bytes, summary.rows, summary.digest);
        let open = || versions.tree().open(store, &entry, collection, Known::default());
        if summary.rows == 0 {
            Ok(None)
        } else {
            open().map(Some)
        }
    });
    let done = live.and_then(|live| {
        let remembered = versions.write_remembered(&taken.remembered)?;
        publish_memtable(versions, immutable, (taken, remembered), &entry, live)
            .inspect_err(|_| versions.remove_remembered(remembered))
    });
    if done.is_err() || entry.rows == 0 {
        // The disk may be full, and this attempt must not keep it full.
        versions.directory().remove(&name);
    }
    let (old, _retired) = done?;
    versions.note_written(entry.bytes);
    versions.remove_old(&old);
    Ok(())
}

/// Publishes the segment of a memtable, and the tombstones of the other segments at the memtable's
/// last write. Returns the previous manifest and view.
///
/// * `remembered`: number of the file of remembered deletes; 0 for none.
fn publish_memtable(
    versions: &VersionSet,
    immutable: &Arc<ImmutableMemtable>,
    (taken, remembered): (&Taken, u64),
    entry: &SegmentEntry,
    live: Option<LiveSegment>,
) -> Result<(Manifest, Retired), Error> {
    let mut manifest = versions.manifest();
    let mut next = manifest.clone();
    let forgotten = defect::active(Defect::MarksNotPersisted);
    let mut made = Vec::new();
    let done = (|| {
        for segment in next.base.segments.iter_mut().filter(|_| !forgotten) {
            let live = versions.tree().segment(segment.number)?;
            let (bits, deleted) = live.delete_bitmap(immutable.sequence());
            if deleted != segment.deleted {
                (segment.tombstones, segment.deleted) = (manifest.next, deleted);
                // A failed attempt may have left a file of this name, so the number is not used
                // again.
                manifest.next += 1;
                next.next = manifest.next;
                made.push(delete_bitmap_name(segment.tombstones));
                versions.note_gone(segment, &live, &bits);
                versions.note_written(bits.len() as u64);
                segment.write_delete_bitmap(&versions.directory().store, next.collection, &bits)?;
            }
        }
        next.base.segments.extend((entry.rows > 0).then(|| entry.clone()));
        next.base.image = None;
        next.base.remembered = remembered;
        versions.check_live(&next, taken.state, immutable.sequence())?;
        versions.publish(&mut next, taken.state, taken.log)
    })();
    if done.is_err() {
        made.iter().for_each(|name| versions.directory().remove(name));
    }
    done?;
    versions.note_image(&next);
    versions.note_tombstones_until(immutable.sequence());
    let retired = versions.tree().install_segment(immutable, live);
    Ok((std::mem::replace(&mut manifest, next), retired))
}
