//! Recovers a durable engine from its files: the base, then the logs up to the last whole group.
//!
//! A group that is not whole ends the log. It is a *torn tail*, which a crash explains, unless
//! something proves that its records were on the disk: the manifest, or a later group that was
//! written when they were synced. Then the log is corrupt.

use std::path::Path;

use vstream_store::blocks::unseal;
use vstream_store::{Access, FileStore, ReadAt, Store};
use vstream_vector::cursor::ByteReader;

use super::replay::GroupReplay;
use crate::defect::{self, Defect};
use crate::error::Error;
use crate::layout::{log_name, COLLECTION};
use crate::priority::{in_order, readers};
use crate::remembered::RememberedDelete;
use crate::row::{Row, Update};
use crate::snapshot::ImageFiles;
use crate::tree::SegmentEntry;
use crate::version::{read_remembered, Manifest};
use crate::wal::{
    encode_header, GroupHeader, LogEnd, LogHeader, LogIdentity, State, Window, CHECKSUM,
    GROUP_HEADER, GROUP_MAGIC, HEADER, RECORDS_BYTES_MAX,
};

/// A logged change.
#[derive(Clone, Copy, Debug)]
pub enum Change<'a> {
    /// A row in its stored form.
    Upsert(Row<'a>),
    /// Attributes and payload of a row that was there.
    Update {
        /// Id of the row.
        id: u64,
        /// Its version from then on.
        version: u64,
        /// What changed.
        update: Update<'a>,
    },
    /// A row that was there is gone.
    Delete {
        /// Id of the row.
        id: u64,
        /// Version of the delete.
        version: u64,
    },
    /// A delete of a row that was not there, which was remembered.
    Remember {
        /// Id of the row.
        id: u64,
        /// Version of the delete.
        version: u64,
    },
}

/// Receives the rows that recovery reads.
pub(crate) trait Replay {
    /// Applies a change. Errors if no engine can have accepted it.
    fn apply(&mut self, change: &Change<'_>) -> Result<(), Error>;

    /// Takes the rows of the base image, before any other row. Returns their number and their digest.
    /// Errors: `Corrupt` if an id comes twice.
    fn image(&mut self, files: &ImageFiles<'_>) -> Result<(u64, u128), Error> {
        insert_image(self, files)
    }

    /// Takes the rows of segments that are not deleted, before any change. Returns their number and
    /// their digest.
    fn segments(&mut self, files: &SegmentFiles<'_>) -> Result<(u64, u128), Error>;

    /// Takes the deletes that a checkpoint remembered, in place of those of records so far.
    fn remembered(&mut self, deletes: Vec<RememberedDelete>);

    /// Looks up together rows that the next changes are about.
    fn foresee(&mut self, _ids: Vec<u64>) {}

    /// Returns the version of the living row of `id`.
    fn version_of(&self, id: u64) -> Option<u64>;

    /// Returns the shard of the living row of `id`. Asked only while there is no segment.
    fn shard_of(&self, id: u64) -> Option<u16>;
}

/// The segments of a manifest, for [`Replay::segments`].
pub(crate) struct SegmentFiles<'a> {
    pub(crate) store: &'a FileStore,
    pub(crate) collection: u64,
    /// Each with a bit per row, set if the row is deleted; empty if none is.
    pub(crate) entries: Vec<(&'a SegmentEntry, Vec<u8>)>,
    /// By shard, whether its rows are wanted; `None` for all.
    pub(crate) wanted: Option<&'a [bool]>,
    /// Threads that may read them; one if the caller's must, one after the other.
    pub(crate) readers: usize,
}

/// The recovered state, and the logs to continue.
pub(crate) struct Recovered {
    pub(crate) state: State,
    pub(crate) logs: Vec<LogEnd>,
}

/// Applies to `rows` all changes that `manifest` and its files hold.
///
/// Errors: `Corrupt` names the file and the offset; `Io`.
pub(crate) fn recover(
    store: &FileStore,
    manifest: &Manifest,
    rows: &mut dyn Replay,
) -> Result<Recovered, Error> {
    recover_part(store, manifest, None, rows)
}

/// As [`recover`], for the rows of some shards alone.
///
/// Files of an image that serve other shards are not opened and need not be there. Those that are read have their
/// checksums; that the rows are all of the state's, by number and digest, is what whoever takes all of
/// them knows.
///
/// * `wanted`: by shard; `None` for all.
pub(crate) fn recover_part(
    store: &FileStore,
    manifest: &Manifest,
    wanted: Option<&[bool]>,
    rows: &mut dyn Replay,
) -> Result<Recovered, Error> {
    let mut state = recover_base(store, manifest, wanted, rows)?;
    let mut group = GroupReplay::new(&manifest.settings, Some(manifest.known), rows, &mut state);
    group.fuzzy = manifest.base.image.as_ref();
    group.wanted = wanted;
    let mut replay = LogReplay { store, manifest, group };
    replay.end_fuzzy_time()?;
    let mut logs: Vec<LogEnd> = Vec::new();
    let mut torn: Option<Torn> = None;
    for &number in &manifest.logs {
        let file = store.open(&log_name(number), Access::Cached)?;
        let log = LogIdentity { collection: manifest.collection, number };
        if let Some(torn) = &torn {
            // No group after the torn one counts, unless it proves that there is damage and no torn
            // tail.
            check_header(&*file, log)?;
            torn.check(&*file, log, HEADER as u64)?;
            let (_, previous) = encode_header(log, first_lsn(&*file)?);
            let (bytes, found) = (HEADER as u64, file.bytes());
            logs.push(LogEnd { number, lsn: torn.lsn, bytes, found, previous });
            continue;
        }
        let end = replay.log(&*file, log)?;
        if end.bytes < end.found {
            let found =
                Torn { path: file.name().to_owned(), at: end.bytes, lsn: replay.group.state.lsn };
            found.check(&*file, log, end.bytes)?;
            torn = Some(found);
        }
        logs.push(end);
    }
    let (known, is_fuzzy) = (manifest.known, replay.group.fuzzy.is_some());
    if is_fuzzy || (state.lsn < known.lsn && !defect::active(Defect::WatermarkIgnored)) {
        let path = store.describe(&log_name(logs.last().map_or(0, |log| log.number)));
        return Err(Error::corrupt(
            Path::new(&path),
            format!("it ends at write {}, and {} was on the disk", state.lsn, known.lsn),
        ));
    }
    Ok(Recovered { state, logs })
}

fn recover_base(
    store: &FileStore,
    manifest: &Manifest,
    wanted: Option<&[bool]>,
    rows: &mut dyn Replay,
) -> Result<State, Error> {
    let base = &manifest.base;
    let Some(image) = &base.image else {
        return recover_segments(store, manifest, wanted, rows);
    };
    let files = ImageFiles { store, image, settings: &manifest.settings, wanted };
    if let Some(summary) = files.whole()? {
        if (summary.rows, summary.digest) != (base.state.live, base.state.digest) {
            let what = "this is not the image that is named";
            return Err(Error::corrupt(Path::new(&files.manifest()), what));
        }
    }
    let (live, digest) = rows.image(&files)?;
    Ok(State { lsn: image.oldest().lsn, live, digest })
}

/// Applies each row of an image as an upsert.
pub(crate) fn insert_image(
    rows: &mut (impl Replay + ?Sized),
    files: &ImageFiles<'_>,
) -> Result<(u64, u128), Error> {
    // Attributes are only added, so those of the image are in the columns of the manifest.
    files.read(&mut |row| {
        if rows.version_of(row.id).is_some() {
            return Err(files.twice());
        }
        rows.apply(&Change::Upsert(*row))
    })
}

fn recover_segments(
    store: &FileStore,
    manifest: &Manifest,
    wanted: Option<&[bool]>,
    rows: &mut dyn Replay,
) -> Result<State, Error> {
    let state = manifest.base.state;
    let collection = manifest.collection;
    let segments = &manifest.base.segments;
    let most = segments.iter().map(|segment| segment.rows).max().unwrap_or(0);
    let readers = readers(manifest.journaling.background, store, most);
    let deleted = in_order(segments.len(), readers, &|at| {
        SegmentEntry::read_delete_bitmap(&segments[at], store, collection)
    })?;
    let entries = segments.iter().zip(deleted).collect();
    let files = SegmentFiles { store, collection, entries, wanted, readers };
    let (live, digest) = rows.segments(&files)?;
    if wanted.is_some() {
        return Ok(State { lsn: state.lsn, live, digest });
    }
    if (live, digest) != (state.live, state.digest) {
        let name = store.describe(COLLECTION);
        let what = format!("its segments have {live} rows, {} were there, or others", state.live);
        return Err(Error::corrupt(Path::new(&name), what));
    }
    Ok(state)
}

/// A group that is not whole. Recovery looks for proof that the group is damaged.
struct Torn {
    path: String,
    at: u64,
    /// LSN of the last record before it.
    lsn: u64,
}

impl Torn {
    /// Errors if a whole group of `file` at or after `from` proves that more was on the disk.
    fn check(&self, file: &dyn ReadAt, log: LogIdentity, from: u64) -> Result<(), Error> {
        if defect::active(Defect::DamageTakenForTail) {
            return Ok(());
        }
        let mut window = Window::new(file);
        let mut offset = from;
        while offset + (GROUP_HEADER + CHECKSUM) as u64 <= file.bytes() {
            let part = window.get(offset, RECORDS_BYTES_MAX)?;
            let Some(at) = part.windows(4).position(|bytes| bytes == GROUP_MAGIC) else {
                // The last three bytes may begin a magic.
                offset += part.len() as u64 - 3;
                continue;
            };
            offset += at as u64;
            if let Some((header, _)) = whole_group(&mut window, file, log, offset)? {
                if header.synced_lsn > self.lsn {
                    let what = format!(
                        "the group there is damaged, and {} byte {offset} proves that it was whole",
                        file.name()
                    );
                    return Err(Error::corrupt_at(Path::new(&self.path), self.at, what));
                }
            }
            offset += 1;
        }
        Ok(())
    }
}

/// Returns the header and the records of the group at `offset`; `None` if no whole group is there.
pub(crate) fn whole_group<'w>(
    window: &'w mut Window<'_>,
    file: &dyn ReadAt,
    log: LogIdentity,
    offset: u64,
) -> Result<Option<(GroupHeader, &'w [u8])>, Error> {
    let header = window.get(offset, GROUP_HEADER)?;
    let header = (header.len() == GROUP_HEADER).then(|| GroupHeader::decode(header)).flatten();
    let Some(header) = header else { return Ok(None) };
    let bytes = window.get(offset, header.bytes())?;
    if bytes.len() < header.bytes() {
        return Ok(None);
    }
    let whole = match unseal(log.address(offset), bytes, file.name(), offset) {
        Ok(whole) => whole,
        Err(_) if defect::active(Defect::ChecksumIgnored) => &bytes[..bytes.len() - CHECKSUM],
        Err(_) => return Ok(None),
    };
    Ok(Some((header, &whole[GROUP_HEADER..])))
}

/// LSN of the first record of a log, or of one before it: see [`crate::version::VersionSet::prepare`].
pub(crate) fn first_lsn(file: &dyn ReadAt) -> Result<u64, Error> {
    let mut window = Window::new(file);
    let found = LogHeader::decode(window.get(0, HEADER)?);
    Ok(found.map_err(|at| Error::truncated(Path::new(file.name()), at))?.first_lsn)
}

/// Errors if `file` does not begin with the header of `log`; returns the header's checksum. A
/// header is synced before a manifest names its log, so no crash explains a torn header.
fn check_header(file: &dyn ReadAt, log: LogIdentity) -> Result<u64, Error> {
    let mut window = Window::new(file);
    let bytes = window.get(0, HEADER)?;
    if let Ok(found) = LogHeader::decode(bytes) {
        let (expected, checksum) = encode_header(log, found.first_lsn);
        if bytes == expected {
            return Ok(checksum);
        }
    }
    Err(Error::corrupt(Path::new(file.name()), "its header is not that of this log"))
}

struct LogReplay<'a> {
    store: &'a FileStore,
    manifest: &'a Manifest,
    group: GroupReplay<'a>,
}

impl LogReplay<'_> {
    /// Ends the fuzzy time, if all rows are now of one moment: that of the base. Errors: `Corrupt` if they
    /// are not those of the base; those of its remembered deletes.
    fn end_fuzzy_time(&mut self) -> Result<(), Error> {
        let base = &self.manifest.base;
        if self.group.state.lsn < base.state.lsn {
            return Ok(());
        }
        let is_all = self.group.wanted.is_none();
        if self.group.fuzzy.take().is_some() && is_all && *self.group.state != base.state {
            let name = self.store.describe(COLLECTION);
            let what =
                "the parts of its base image and the logs do not lead to the rows that it knows";
            return Err(Error::corrupt(Path::new(&name), what));
        }
        let deletes = match base.remembered {
            0 => Vec::new(),
            number => read_remembered(self.store, (self.manifest.collection, number))?,
        };
        self.group.rows.remembered(deletes);
        Ok(())
    }

    /// Applies the whole groups of a log.
    fn log(&mut self, file: &dyn ReadAt, log: LogIdentity) -> Result<LogEnd, Error> {
        let mut previous = check_header(file, log)?;
        let mut window = Window::new(file);
        let mut offset = HEADER as u64;
        while let Some((header, records)) = whole_group(&mut window, file, log, offset)? {
            if header.previous != previous || header.first_lsn != self.group.state.lsn + 1 {
                break;
            }
            let bytes = header.bytes() as u64;
            let last = offset + bytes == file.bytes();
            if !(last && defect::active(Defect::LastGroupSkipped)) {
                self.group
                    .apply(&header, records)
                    .map_err(|what| Error::corrupt_at(Path::new(file.name()), offset, what))?;
                if self.group.fuzzy.is_some() {
                    self.end_fuzzy_time()?;
                }
            }
            offset += bytes;
            let mut checksum = ByteReader::new(window.get(offset - CHECKSUM as u64, CHECKSUM)?);
            previous = checksum.u64().map_err(|at| Error::truncated(Path::new(file.name()), at))?;
        }
        let (number, lsn) = (log.number, self.group.state.lsn);
        Ok(LogEnd { number, lsn, bytes: offset, found: file.bytes(), previous })
    }
}

#[cfg(test)]
mod tests;
