//! Verifies every byte of a snapshot or of a durable engine's directory, and changes nothing.

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;

use vstream_attribute::Schema;
use vstream_store::{DirectoryLock, FileStore, Store};

use super::recover::{recover, Change, Replay, SegmentFiles};
use crate::accept::{check_fields, check_update};
use crate::error::{Error, ErrorKind};
use crate::layout::{
    delete_bitmap_name, holds, log_name, remembered_name, segment_name, COLLECTION,
};
use crate::remembered::RememberedDelete;
use crate::settings::Settings;
use crate::snapshot::{self, ImageFiles, MANIFEST};
use crate::tree;
use crate::version::{open_store, Manifest, REMOTE};
use vstream_segment::row_digest;

/// A difference from what the engine wrote.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// Description, with file and, where there is one, offset.
    pub what: String,
    /// True if rows may be lost or wrong; false for leftovers of a crash, which the next open
    /// removes.
    pub is_damage: bool,
}

/// Result of [`verify`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Verified {
    /// Living rows.
    pub rows: u64,
    /// Their digest.
    pub digest: u128,
    /// Files that were read whole.
    pub files: usize,
    /// Bytes of these files.
    pub bytes: u64,
    /// All differences from what the engine wrote; empty if there are none.
    pub findings: Vec<Finding>,
}

/// Reads every file of the snapshot or durable engine in `dir`, compares every checksum, count and
/// digest, and reports every difference. The engine must be closed meanwhile. Cost: reads all bytes
/// once or twice; takes memory of 16 bytes per row and more.
///
/// Errors: `Invalid` if there is neither, `Io`. Damage is a finding, not an error.
pub fn verify(dir: &Path) -> Result<Verified, Error> {
    verify_store(&open_store(dir)?)
}

/// Works like [`verify`], for any store.
pub fn verify_store(store: &FileStore) -> Result<Verified, Error> {
    let mut verified = Verified::default();
    let checked = if holds(store)? {
        verify_collection(store, &mut verified)
    } else if store.list(MANIFEST)?.iter().any(|entry| entry.name == MANIFEST) {
        verify_snapshot(store, &mut verified)
    } else {
        return Err(Error::invalid(format!(
            "{} holds neither a collection nor a snapshot",
            store.describe("")
        )));
    };
    match checked {
        Err(error) if error.kind() == ErrorKind::Corrupt => verified.damage(error.message()),
        // The manifest names a file that does not exist.
        Err(error) if error.is_not_found() => verified.damage(error.message()),
        done => done?,
    }
    Ok(verified)
}

impl Verified {
    fn damage(&mut self, what: impl Into<String>) {
        self.findings.push(Finding { what: what.into(), is_damage: true });
    }

    fn leftover(&mut self, what: String) {
        self.findings.push(Finding { what, is_damage: false });
    }

    fn count(&mut self, bytes: u64) {
        self.files += 1;
        self.bytes += bytes;
    }
}

fn verify_snapshot(store: &FileStore, verified: &mut Verified) -> Result<(), Error> {
    let summary = snapshot::inspect_in(store, "")?;
    let schema = summary.schema.clone();
    let settings = Settings::new(summary.dimension, summary.metric, summary.element);
    let settings = Settings { schema, ..settings };
    (verified.rows, verified.digest) = (summary.rows, summary.digest);
    let mut named = vec![MANIFEST.to_owned()];
    named.extend(summary.files.iter().map(|file| snapshot::file_name(file.shard)));
    count_files(store, &named, verified)?;
    let path = store.describe(MANIFEST);
    snapshot::read(store, "", &settings, &mut |row, schema| {
        check_fields(&row.fields, schema).map_err(|what| Error::corrupt(Path::new(&path), what))
    })
}

fn verify_collection(store: &FileStore, verified: &mut Verified) -> Result<(), Error> {
    let manifest = Manifest::read(store)?;
    let mut named = vec![COLLECTION.to_owned(), DirectoryLock::NAME.to_owned()];
    named.extend(manifest.logs.iter().map(|&log| log_name(log)));
    for segment in &manifest.base.segments {
        named.push(segment_name(segment.number));
        named.extend((segment.tombstones > 0).then(|| delete_bitmap_name(segment.tombstones)));
    }
    if manifest.base.remembered > 0 {
        named.push(remembered_name(manifest.base.remembered));
    }
    if let Some(image) = &manifest.base.image {
        named.extend(
            ImageFiles { store, image, settings: &manifest.settings, wanted: None }.names()?,
        );
    }
    count_files(store, &named, verified)?;
    let recovered = recover(store, &manifest, &mut Versions::of(&manifest))?;
    (verified.rows, verified.digest) = (recovered.state.live, recovered.state.digest);
    for log in recovered.logs.iter().filter(|log| log.bytes < log.found) {
        let name = store.describe(&log_name(log.number));
        let (at, extra) = (log.bytes, log.found - log.bytes);
        verified.leftover(format!(
            "{name} at byte {at}: {extra} bytes are no whole group: the torn end of a crash, or \
             damage to the writes since the last one that is known to have been synced"
        ));
    }
    Ok(())
}

/// Counts the named files, and reports all others.
fn count_files(store: &FileStore, named: &[String], verified: &mut Verified) -> Result<(), Error> {
    for entry in store.list("")? {
        if entry.name == REMOTE {
            continue;
        }
        if named.contains(&entry.name) {
            verified.count(entry.bytes);
        } else {
            let name = store.describe(&entry.name);
            verified.leftover(format!("{name}: nothing names this file"));
        }
    }
    Ok(())
}

/// Ids, versions and shards alone, which is enough to replay a log; fields are checked and not kept.
struct Versions {
    /// Version and shard. Of rows of segments the shard is not known.
    by_id: HashMap<u64, (u64, Option<u16>)>,
    schema: Arc<Schema>,
}

impl Versions {
    fn of(manifest: &Manifest) -> Versions {
        Versions { by_id: HashMap::new(), schema: manifest.settings.schema.clone() }
    }
}

impl Replay for Versions {
    fn apply(&mut self, change: &Change<'_>) -> Result<(), Error> {
        match change {
            Change::Upsert(row) => {
                check_fields(&row.fields, &self.schema)?;
                self.by_id.insert(row.id, (row.version, Some(row.shard)));
            }
            Change::Update { id, version, update } => {
                check_update(update, &self.schema)?;
                let shard = self.shard_of(*id);
                self.by_id.insert(*id, (*version, shard));
            }
            Change::Delete { id, .. } => {
                self.by_id.remove(id);
            }
            Change::Remember { .. } => {}
        }
        Ok(())
    }

    /// Reads every byte of the segments.
    fn segments(&mut self, files: &SegmentFiles<'_>) -> Result<(u64, u128), Error> {
        let (mut live, mut digest) = (0, 0u128);
        for (entry, delete_bitmap) in &files.entries {
            let segment = tree::open_segment(files.store, entry, files.collection, None)?;
            segment.verify()?;
            tree::check_served(files.store, entry, &segment, delete_bitmap)?;
            segment.for_each_id(&mut |id, version, row| {
                if !tree::is_deleted(delete_bitmap, row) {
                    live += 1;
                    digest = digest.wrapping_add(row_digest(id, version));
                    self.by_id.insert(id, (version, None));
                }
            })?;
        }
        Ok((live, digest))
    }

    fn remembered(&mut self, _: Vec<RememberedDelete>) {}

    fn version_of(&self, id: u64) -> Option<u64> {
        self.by_id.get(&id).map(|(version, _)| *version)
    }

    fn shard_of(&self, id: u64) -> Option<u16> {
        self.by_id.get(&id).and_then(|(_, shard)| *shard)
    }
}
