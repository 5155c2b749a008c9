//! An engine from captured states.
//!
//! For each state, one after the other:
//! 1. Survey: which rows of the wanted shards live, by id and version, after all changes.
//! 2. Take exactly those rows, wherever they first stand.
//!
//! The states of two partitions are never mixed: a delete in one may be that of a row that moved
//! to the other under the same version.

use std::collections::HashMap;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use vstream_index::RowKey;
use vstream_store::{Access, FileStore, Range, Store, Syncing};
use xxhash_rust::xxh3::xxh3_64;

use super::format::{self, Change};
use super::{
    changes_name, lock, rows_name, CapturedFile, FileId, Files, Kept, Manifest, RowsOf, Tally,
    CAPTURED_MANIFEST,
};
use crate::engine::{Engine, Row};
use crate::error::Error;
use crate::settings::Settings;
use crate::snapshot::{self, stored_element, SnapshotFile};

/// Far more than a manifest of every shard there can be takes.
const MANIFEST_BYTES_MAX: u64 = 1 << 24;

impl Engine {
    /// An engine with the rows of `shards` out of the captured states in `states`, which captures its
    /// own in `dir` from now on.
    ///
    /// * `states`: directories, each with a [`CAPTURED_MANIFEST`] and the files of that state; row
    ///   files of other shards may be missing. A file of a single state is taken over as a file of
    ///   the new engine's, and moved to `dir`.
    ///
    /// Cost: all bytes are read, the rows indexed. Errors: `Invalid` if the settings do not fit the
    /// rows, `Corrupt` naming the file, `Unsupported`, `Io`.
    pub fn assemble(
        settings: Settings,
        dir: &Path,
        shards: RangeInclusive<u16>,
        states: &[PathBuf],
    ) -> Result<Engine, Error> {
        let mut engine = Engine::create_capturing(settings, dir, shards.clone())?;
        // Nothing is a change until everything is there.
        let mut capturing = engine.capturing.take().expect("just made");
        let mut sources = Vec::new();
        for state in states {
            let source = Source::open(&engine.settings, state, &shards)?;
            source.take(&mut engine)?;
            sources.push(source);
        }
        let rows = engine.pin();
        rows.rows.for_each_row(&mut |key, _| capturing.tally.add(key.id, key.version))?;
        drop(rows);
        match &sources[..] {
            [] => {}
            [source] if source.shards == shards => {
                capturing.number = source.manifest.number + 1;
                *lock(&capturing.files) = source.adopt(&capturing.store, dir)?;
            }
            // Rows are there that no file of ours has: the next capture writes all of them.
            _ => lock(&capturing.files).rows.clear(),
        }
        engine.capturing = Some(capturing);
        Ok(engine)
    }
}

/// One captured state, of which some shards are wanted.
struct Source {
    settings: Settings,
    dir: PathBuf,
    store: FileStore,
    manifest: Manifest,
    /// Wanted, and there; empty if there are none.
    shards: RangeInclusive<u16>,
}

impl Source {
    fn open(
        settings: &Settings,
        dir: &Path,
        wanted: &RangeInclusive<u16>,
    ) -> Result<Source, Error> {
        let store = FileStore::open_dir(dir, Syncing::Off)?;
        let file = store.open(CAPTURED_MANIFEST, Access::Cached)?;
        let path = Path::new(file.name());
        if file.bytes() > MANIFEST_BYTES_MAX {
            return Err(Error::corrupt(path, "too long for a manifest"));
        }
        let bytes = file.read(Range { offset: 0, bytes: file.bytes() as usize })?;
        let manifest = format::decode_manifest(path, &bytes)?;
        let expected = (settings.dimension, settings.metric, stored_element(settings));
        if (manifest.dimension, manifest.metric, manifest.element) != expected {
            return Err(Error::invalid(format!(
                "{} is of a {}-dimensional collection of {} for {}, the settings say \
                 {}-dimensional, {} and {}: a collection keeps these for its life",
                path.display(),
                manifest.dimension,
                manifest.element,
                manifest.metric,
                expected.0,
                expected.2,
                expected.1,
            )));
        }
        let first = *manifest.shards.start().max(wanted.start());
        let last = *manifest.shards.end().min(wanted.end());
        let settings = settings.clone();
        Ok(Source { settings, dir: dir.to_owned(), store, manifest, shards: first..=last })
    }

    /// Puts the living rows of the wanted shards into `engine`.
    fn take(&self, engine: &mut Engine) -> Result<(), Error> {
        let mut living = self.survey()?;
        let mut take = |row: &Row<'_>| {
            if self.shards.contains(&row.shard)
                && living.get(&row.id) == Some(&(row.version, row.shard))
            {
                living.remove(&row.id);
                engine.restore_row(row)?;
            }
            Ok(())
        };
        self.each_row(&mut take)?;
        self.each_change(&mut |change| {
            let RowKey { id, version, code, shard } = change.key;
            change.vector.map_or(Ok(()), |vector| take(&Row { id, version, code, shard, vector }))
        })
    }

    /// Version and shard, by id, of the rows of the wanted shards that live after all changes.
    fn survey(&self) -> Result<HashMap<u64, (u64, u16)>, Error> {
        let mut living: HashMap<u64, (u64, u16)> = HashMap::new();
        self.each_row(&mut |row| {
            let newest = living.entry(row.id).or_insert((row.version, row.shard));
            *newest = (row.version, row.shard).max(*newest);
            Ok(())
        })?;
        self.each_change(&mut |change| {
            let RowKey { id, version, shard, .. } = change.key;
            if living.get(&id).is_some_and(|&(newer, _)| newer > version) {
                return Ok(());
            }
            if change.vector.is_some() && self.shards.contains(&shard) {
                living.insert(id, (version, shard));
            } else {
                living.remove(&id);
            }
            Ok(())
        })?;
        let mut tally = Tally::default();
        living.iter().for_each(|(&id, &(version, _))| tally.add(id, version));
        if self.shards == self.manifest.shards && tally != self.manifest.tally {
            let name = self.store.describe(CAPTURED_MANIFEST);
            return Err(Error::corrupt(
                Path::new(&name),
                format!(
                    "the files hold {} rows, not the {} that it speaks of, or others",
                    tally.live, self.manifest.tally.live
                ),
            ));
        }
        Ok(living)
    }

    fn each_row(&self, visit: &mut dyn FnMut(&Row<'_>) -> Result<(), Error>) -> Result<(), Error> {
        for (&shard, id) in self.manifest.rows.iter().filter(|(_, id)| id.bytes > 0) {
            if self.shards.contains(&shard) {
                let (bytes, checksum) = (id.bytes, id.checksum);
                let expected = SnapshotFile { shard, rows: 0, bytes, checksum };
                let name = rows_name(id.number, shard);
                snapshot::read_file(
                    &self.store,
                    &name,
                    &self.settings,
                    Some(&expected),
                    &mut *visit,
                )?;
            }
        }
        Ok(())
    }

    fn each_change(
        &self,
        visit: &mut dyn FnMut(&Change<'_>) -> Result<(), Error>,
    ) -> Result<(), Error> {
        for id in &self.manifest.changes {
            let file = self.store.open(&changes_name(id.number), Access::Cached)?;
            let path = Path::new(file.name());
            let bytes = file.read(Range { offset: 0, bytes: file.bytes() as usize })?;
            let body = bytes.len().saturating_sub(size_of::<u64>());
            let checksum = xxh3_64(&bytes[..body]);
            if bytes.len() as u64 != id.bytes
                || checksum != id.checksum
                || bytes[body..] != checksum.to_le_bytes()
            {
                return Err(Error::corrupt(path, "this is not the file that the manifest names"));
            }
            format::read_changes(path, &bytes, &self.settings, &mut *visit)?;
        }
        Ok(())
    }

    /// Moves the files to `dir`, where they are files of an engine of the wanted shards.
    fn adopt(&self, store: &FileStore, dir: &Path) -> Result<Files, Error> {
        let keep = |name: String, id: FileId, shards: RangeInclusive<u16>| {
            if self.dir != dir {
                let (from, to) = (self.dir.join(&name), dir.join(&name));
                std::fs::rename(&from, &to).map_err(|e| Error::io(&from, "move", &e))?;
            }
            let file = CapturedFile { name, bytes: id.bytes, shards };
            Ok::<_, Error>(Arc::new(Kept { store: store.clone(), file, id }))
        };
        let mut files = Files::default();
        for (&shard, &id) in self.manifest.rows.range(self.shards.clone()) {
            let mut rows = RowsOf { number: id.number, file: None };
            if id.bytes > 0 {
                rows.file = Some(keep(rows_name(id.number, shard), id, shard..=shard)?);
            }
            files.rows.insert(shard, rows);
        }
        for &id in &self.manifest.changes {
            files.changes.push(keep(changes_name(id.number), id, self.shards.clone())?);
        }
        Ok(files)
    }
}
