//! Engines that outlive their process: made, opened, committed, closed.

use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use vstream_store::{FileStore, Syncing};
use xxhash_rust::xxh3::xxh3_64;

use crate::checkpoint::SharedState;
use crate::durability::Journaling;
use crate::engine::{Engine, RowsOf};
use crate::error::Error;
use crate::journal::{Commit, Journal};
use crate::recovery::{recover, Change, Replay};
use crate::row::Row;
use crate::settings::{IndexKind, Settings};
use crate::tree::SegmentEntry;
use crate::version::{Directory, Manifest};

impl Engine {
    /// An empty engine that keeps its rows in `dir`, which is made if need be and locked.
    ///
    /// Every write goes to a log there first. Errors: `Invalid` if `dir` holds a collection,
    /// `Unavailable` if it is open already, `Io`.
    pub fn create_in(
        dir: &Path,
        settings: Settings,
        journaling: Journaling,
    ) -> Result<Engine, Error> {
        settings.validate()?;
        let directory = Directory::create(dir, Syncing::Full)?;
        Engine::create_over(directory, settings, journaling, fresh_number(dir))
    }

    /// As [`Engine::create_in`] for a directory that ends with its process: nothing is forced to
    /// the disk. What is to outlive the process is copied out of [`Engine::share`].
    pub fn create_scratch(
        dir: &Path,
        settings: Settings,
        journaling: Journaling,
    ) -> Result<Engine, Error> {
        settings.validate()?;
        let directory = Directory::create(dir, Syncing::Off)?;
        Engine::create_over(directory, settings, journaling, fresh_number(dir))
    }

    /// As [`Engine::create_in`] over a store that its caller keeps others away from. `collection`
    /// is a number that no other collection of that place ever had.
    pub fn create_in_store(
        store: FileStore,
        settings: Settings,
        journaling: Journaling,
        collection: u64,
    ) -> Result<Engine, Error> {
        Engine::create_over(Directory::unlocked(store), settings, journaling, collection)
    }

    fn create_over(
        directory: Directory,
        settings: Settings,
        journaling: Journaling,
        collection: u64,
    ) -> Result<Engine, Error> {
        journaling.validate()?;
        let mut engine = Engine::empty(settings.clone())?;
        directory.check_free()?;
        directory.sweep(None)?;
        let manifest = Manifest::create(&directory.store, settings, journaling, collection)?;
        engine.replay(directory, manifest)?;
        Ok(engine)
    }

    /// Opens the engine that [`Engine::create_in`] made in `dir`, with the settings it was made
    /// with and every row that outlived what happened since.
    ///
    /// Cost: all rows are read and indexed. Errors: `Invalid` if there is none, `Unavailable` if it
    /// is open already, `Corrupt` with file and offset if any byte is not what was written.
    pub fn open(dir: &Path) -> Result<Engine, Error> {
        Engine::open_with(dir, &mut |_, _| {})
    }

    /// As [`Engine::open`]; `adjust` may change what does not touch the stored rows.
    ///
    /// Errors: also `Invalid` if it changed dimension, metric or element.
    pub fn open_with(
        dir: &Path,
        adjust: &mut dyn FnMut(&mut Settings, &mut Journaling),
    ) -> Result<Engine, Error> {
        Engine::open_over(Directory::open(dir, Syncing::Full)?, adjust)
    }

    /// As [`Engine::open_with`] for a directory that ends with its process: nothing is forced to
    /// the disk.
    pub fn open_scratch(
        dir: &Path,
        adjust: &mut dyn FnMut(&mut Settings, &mut Journaling),
    ) -> Result<Engine, Error> {
        Engine::open_over(Directory::open(dir, Syncing::Off)?, adjust)
    }

    /// As [`Engine::open_with`] over a store that its caller keeps others away from.
    pub fn open_in_store(
        store: FileStore,
        adjust: &mut dyn FnMut(&mut Settings, &mut Journaling),
    ) -> Result<Engine, Error> {
        Engine::open_over(Directory::unlocked(store), adjust)
    }

    fn open_over(
        directory: Directory,
        adjust: &mut dyn FnMut(&mut Settings, &mut Journaling),
    ) -> Result<Engine, Error> {
        let mut manifest = Manifest::read(&directory.store)?;
        manifest.make_log(&directory.store)?;
        let fixed = |settings: &Settings| (settings.dimension, settings.metric, settings.element);
        let stored = fixed(&manifest.settings);
        adjust(&mut manifest.settings, &mut manifest.journaling);
        if fixed(&manifest.settings) != stored {
            return Err(Error::invalid(
                "dimension, metric and element of a collection cannot change: make another",
            ));
        }
        manifest.journaling.validate()?;
        let mut engine = Engine::empty(manifest.settings.clone())?;
        engine.replay(directory, manifest)?;
        Ok(engine)
    }

    /// Fills an empty engine from its files, and goes on writing to them.
    fn replay(&mut self, directory: Directory, manifest: Manifest) -> Result<(), Error> {
        let recovered = recover(&directory.store, &manifest, self)?;
        self.journal = Some(Journal::start(directory, manifest, recovered, &self.places)?);
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
        let rows = RowsOf { settings: &self.settings, places: &self.places };
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
        let rows = RowsOf { settings: &self.settings, places: &self.places };
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
        self.places.place_codes()
    }

    /// The rows of this moment as files that stay as long as the returned state, with what was not
    /// committed yet; see [`SharedState`].
    ///
    /// Cost: a new log is begun, and a checkpoint if one is due; with [`Journaling::background`] no
    /// row is written in this call. Errors: `Invalid` for an engine that keeps
    /// nothing, `Io`.
    pub fn share(&mut self) -> Result<SharedState, Error> {
        let rows = RowsOf { settings: &self.settings, places: &self.places };
        let nothing =
            || Error::invalid("the engine keeps its rows in memory: create it in a directory");
        self.journal.as_mut().ok_or_else(nothing)?.share(&rows)
    }

    /// Makes an engine in `dir` with the rows of several shared states, each in a directory of its
    /// own, whose shard `keep` wants. The sources may be parts of one collection: their settings
    /// must agree, and those of the first are taken.
    ///
    /// Cost: the rows are read and inserted again. Errors: `Invalid` without a source, or if they
    /// differ; as [`Engine::create_in`] and [`Engine::take_shared`].
    pub fn open_shared(
        dir: &Path,
        journaling: Journaling,
        sources: &[&Path],
        keep: &dyn Fn(u16) -> bool,
    ) -> Result<Engine, Error> {
        let Some(first) = sources.first() else {
            return Err(Error::invalid("there is no shared state to open: give one directory"));
        };
        let store = FileStore::open_dir(first, Syncing::Off)?;
        let settings = Manifest::read(&store)?.settings;
        let mut engine = Engine::create_in(dir, settings, journaling)?;
        for source in sources {
            engine.take_shared(source, keep)?;
        }
        engine.commit()?;
        Ok(engine)
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
        marks: &[u8],
    ) -> Result<(u64, u128), Error> {
        let sealed = self.places.open(store, entry, collection, marks)?;
        let found = sealed.count();
        self.places.add(sealed);
        Ok(found)
    }

    fn version_of(&self, id: u64) -> Option<u64> {
        self.places.writer().find(id).map(|found| found.version)
    }
}

/// A number that two collections hardly share: it tells their logs apart if files are mixed up.
fn fresh_number(dir: &Path) -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    xxh3_64(format!("{} {} {}", dir.display(), now.as_nanos(), std::process::id()).as_bytes())
}
