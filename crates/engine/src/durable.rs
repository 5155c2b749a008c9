//! Engines that outlive their process: made, opened, committed, closed.

use std::path::Path;

use vstream_store::{FileStore, Syncing};

use crate::checkpoint::SharedState;
use crate::engine::{Engine, RowsOf};
use crate::error::Error;
use crate::journal::{Commit, Journal};
use crate::recovery::{recover, Change, Replay};
use crate::row::Row;
use crate::settings::{IndexKind, Settings};
use crate::tree::SegmentEntry;
use crate::version::{Directory, Manifest};

impl Engine {
    /// Opens the engine that was created in the directory `dir`; short for [`Engine::builder`].
    /// Errors: as [`crate::EngineBuilder::open`].
    pub fn open(dir: &Path) -> Result<Engine, Error> {
        Engine::builder().dir(dir).open()
    }

    /// Fills an empty engine from its files, and goes on writing to them.
    pub(crate) fn replay(&mut self, directory: Directory, manifest: Manifest) -> Result<(), Error> {
        let recovered = recover(&directory.store, &manifest, self)?;
        self.journal = Some(Journal::start(directory, manifest, recovered, &self.tree)?);
        Ok(())
    }

    /// Makes everything that was written so far durable, as the collection's durability says, and
    /// the writes since the last commit all or nothing (in groups of about 1 MiB). Does nothing
    /// for an engine that keeps nothing.
    ///
    /// Errors: `Io`. After a full disk the rows are kept and the next commit tries again; after
    /// anything else the engine takes no more writes.
    pub fn commit(&mut self) -> Result<(), Error> {
        self.begin_commit()?.wait()
    }

    /// The first half of [`Engine::commit`]: other threads may write while this one waits for what
    /// is returned, and all who wait are served by one sync.
    pub fn begin_commit(&mut self) -> Result<Commit, Error> {
        let rows = RowsOf { settings: &self.settings, tree: &self.tree };
        match &mut self.journal {
            Some(journal) => journal.commit(&rows),
            None => Ok(Commit::nothing()),
        }
    }

    /// Forces everything to the disk, whatever the durability. Errors: as [`Engine::commit`].
    pub fn flush(&mut self) -> Result<(), Error> {
        self.journal.as_mut().map_or(Ok(()), Journal::flush)
    }

    /// Writes what is in memory and drops the logs that this makes superfluous: all rows as a base
    /// image or, with a limit to memory, those that are in no segment yet as one. Otherwise that
    /// happens in the background when the log or memory has grown. Errors: `Io`; nothing is lost
    /// then.
    pub fn checkpoint(&mut self) -> Result<(), Error> {
        let rows = RowsOf { settings: &self.settings, tree: &self.tree };
        self.journal.as_mut().map_or(Ok(()), |journal| journal.checkpoint(&rows))
    }

    /// Merges segments until that does not pay any more; otherwise that happens in the background.
    /// Errors: `Io`; nothing is lost then.
    pub fn compact(&mut self) -> Result<(), Error> {
        self.journal.as_mut().map_or(Ok(()), Journal::compact)
    }

    /// Moves the codes that are visited most into memory and others out of it, as `code_memory`
    /// calls for; otherwise that happens in the background. Returns the bytes that were read.
    /// Errors: `Corrupt`, `Io`; what was not moved yet stays where it is.
    pub fn place_codes(&self) -> Result<u64, Error> {
        self.tree.place_codes()
    }

    /// The rows of this moment as files that stay as long as the returned state, with what was not
    /// committed yet; see [`SharedState`].
    ///
    /// Cost: a new log is begun, and a checkpoint if one is due; with [`crate::Journaling::background`] no
    /// row is written in this call. Errors: `Invalid` for an engine that keeps
    /// nothing, `Io`.
    pub fn share(&mut self) -> Result<SharedState, Error> {
        let rows = RowsOf { settings: &self.settings, tree: &self.tree };
        let nothing =
            || Error::invalid("the engine keeps its rows in memory: create it in a directory");
        self.journal.as_mut().ok_or_else(nothing)?.share(&rows)
    }

    /// Adds the rows of a shared state in `source` whose shard `keep` wants; returns how many.
    ///
    /// Nothing in `source` changes. Cost: the rows are read and inserted; those that are in no
    /// segment there are held in memory meanwhile. Errors: `Invalid` if it is of another
    /// collection's dimension, metric or element, `Unavailable` if it is open; as [`Engine::open`].
    pub fn take_shared(&mut self, source: &Path, keep: &dyn Fn(u16) -> bool) -> Result<u64, Error> {
        let directory = Directory::open(source, Syncing::Off)?;
        let manifest = Manifest::read(&directory.store)?;
        let fixed = |settings: &Settings| (settings.dimension, settings.metric, settings.element);
        if fixed(&manifest.settings) != fixed(&self.settings) {
            return Err(Error::invalid(format!(
                "{} has another dimension, metric or element than this collection",
                source.display()
            )));
        }
        // Nobody searches there: rows need no index.
        let (index, memory) = (IndexKind::Flat, None);
        let settings = manifest.settings.clone();
        let settings = Settings { index, memory, recall_guard: false, ..settings };
        let mut other = Engine::empty(settings)?;
        recover(&directory.store, &manifest, &mut other)?;
        let (mut taken, mut failed) = (0, None);
        other.pin().for_each_row(&mut |row| {
            if failed.is_none() && keep(row.shard) {
                failed = self.restore_row(row).err();
                taken += 1;
            }
        })?;
        failed.map_or(Ok(taken), Err)
    }

    /// Forces everything to the disk and gives the directory back. Dropping the engine does the
    /// same and keeps quiet about errors.
    pub fn close(mut self) -> Result<(), Error> {
        self.detach()
    }

    /// As [`Engine::close`] for an engine that lives on in memory alone, as when it still has
    /// readers. After an error it is as before.
    pub fn detach(&mut self) -> Result<(), Error> {
        if let Some(journal) = &mut self.journal {
            journal.close()?;
        }
        self.journal = None;
        Ok(())
    }
}

impl Replay for Engine {
    fn apply(&mut self, change: &Change<'_>) -> Result<(), Error> {
        match change {
            Change::Upsert(key, vector) => {
                let (id, version, code, shard) = (key.id, key.version, key.code, key.shard);
                self.restore_row(&Row { id, version, code, shard, vector })
            }
            Change::Delete { id, version } => self.delete(*id, *version).map(|_| ()),
        }
    }

    fn segment(
        &mut self,
        store: &FileStore,
        entry: &SegmentEntry,
        collection: u64,
        delete_bitmap: &[u8],
    ) -> Result<(u64, u128), Error> {
        let live = self.tree.open(store, entry, collection, delete_bitmap)?;
        let found = live.count();
        self.tree.add(live);
        Ok(found)
    }

    fn version_of(&self, id: u64) -> Option<u64> {
        self.tree.writer().find(id).map(|found| found.version)
    }
}
