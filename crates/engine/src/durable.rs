//! Engines that outlive their process: made, opened, committed, closed.

use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use vstream_store::FileStore;
use xxhash_rust::xxh3::xxh3_64;

use crate::engine::{Engine, Row};
use crate::error::Error;
use crate::journal::{self, Change, Commit, Directory, Journal, Journaling, Manifest, Replay};
use crate::settings::Settings;
use crate::snapshot::PinnedSnapshot;

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
        Engine::create_over(Directory::create(dir)?, settings, journaling, fresh_number(dir))
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
        let mut engine = Engine::create(settings.clone())?;
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
        Engine::open_over(Directory::open(dir)?, adjust)
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
        let fixed = |settings: &Settings| (settings.dimension, settings.metric, settings.element);
        let stored = fixed(&manifest.settings);
        adjust(&mut manifest.settings, &mut manifest.journaling);
        if fixed(&manifest.settings) != stored {
            return Err(Error::invalid(
                "dimension, metric and element of a collection cannot change: make another",
            ));
        }
        manifest.journaling.validate()?;
        let mut engine = Engine::create(manifest.settings.clone())?;
        engine.replay(directory, manifest)?;
        Ok(engine)
    }

    /// Fills an empty engine from its files, and goes on writing to them.
    fn replay(&mut self, directory: Directory, manifest: Manifest) -> Result<(), Error> {
        let recovered = journal::recover(&directory.store, &manifest, self)?;
        self.journal = Some(Journal::start(directory, manifest, recovered)?);
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
        let (settings, search) = (&self.settings, &self.search);
        let pin = || PinnedSnapshot { settings: settings.clone(), rows: search.pin() };
        match &mut self.journal {
            Some(journal) => journal.commit(&pin),
            None => Ok(Commit::nothing()),
        }
    }

    /// Forces everything to the disk, whatever the durability. Errors: as [`Engine::commit`].
    pub fn flush(&mut self) -> Result<(), Error> {
        self.journal.as_mut().map_or(Ok(()), Journal::flush)
    }

    /// Writes all rows as a base image and drops the logs that it makes superfluous; otherwise
    /// that happens in the background when the log has grown. Errors: `Io`; nothing is lost then.
    pub fn checkpoint(&mut self) -> Result<(), Error> {
        let (settings, search) = (&self.settings, &self.search);
        let pin = || PinnedSnapshot { settings: settings.clone(), rows: search.pin() };
        self.journal.as_mut().map_or(Ok(()), |journal| journal.checkpoint(&pin))
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

    fn version_of(&self, id: u64) -> Option<u64> {
        self.index.version_of(id)
    }
}

/// A number that two collections hardly share: it tells their logs apart if files are mixed up.
fn fresh_number(dir: &Path) -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    xxh3_64(format!("{} {} {}", dir.display(), now.as_nanos(), std::process::id()).as_bytes())
}
