//! Creates or opens an engine: where it keeps its rows, and which writes survive a crash.

use std::path::{Path, PathBuf};
use std::time::Duration;

use vstream_store::{FileStore, Syncing};

use crate::durability::Journaling;
use crate::engine::Engine;
use crate::error::{Error, ErrorKind};
use crate::settings::Settings;
use crate::version::{fresh_number, open_store, Directory, Manifest, RemoteLevel};

/// Changes the settings of an engine that is being opened.
type Adjust<'a> = &'a mut dyn FnMut(&mut Settings, &mut Journaling);

/// Creates or opens an [`Engine`]; see [`Engine::builder`].
///
/// ```no_run
/// # use vstream_engine::{Element, Engine, Error, Journaling, Metric, Settings};
/// # use std::path::Path;
/// # fn main() -> Result<(), Error> {
/// let settings = Settings::new(128, Metric::Cosine, Element::F32);
/// let folder = Path::new("rows");
/// let engine = Engine::builder().dir(folder).journaling(Journaling::default()).create(settings)?;
/// engine.close()?;
/// let engine = Engine::builder().dir(folder).open()?;
/// # drop(engine);
/// # Ok(())
/// # }
/// ```
#[derive(Default)]
pub struct EngineBuilder<'a> {
    location: Location,
    is_scratch: bool,
    journaling: Journaling,
    collection: Option<u64>,
    remote: Option<RemoteLevel>,
    adjust: Option<Adjust<'a>>,
}

/// Location of an engine's rows.
#[derive(Default)]
enum Location {
    #[default]
    Memory,
    Directory(PathBuf),
    Store(FileStore),
}

impl<'a> EngineBuilder<'a> {
    /// Keeps the rows in the directory `path`, which the engine locks. [`EngineBuilder::create`]
    /// makes the directory if it does not exist.
    pub fn dir(mut self, path: &Path) -> EngineBuilder<'a> {
        self.location = Location::Directory(path.to_owned());
        self
    }

    /// Keeps the rows in a store. The caller ensures that nobody else writes to the store.
    pub fn store(mut self, store: FileStore) -> EngineBuilder<'a> {
        self.location = Location::Store(store);
        self
    }

    /// Forces nothing to the disk: for a directory that is not used after its process ends. Rows
    /// that must outlive the process are copied out of [`Engine::share`].
    pub fn scratch(mut self) -> EngineBuilder<'a> {
        self.is_scratch = true;
        self
    }

    /// Lets segments that queries ask for least go to a far store. A directory that was created or
    /// opened with a remote level names it from then on, and is opened with it without this call. With
    /// this call the far store may have moved, or the limit may be another one.
    ///
    /// Needs a limit to memory: without one there are no segments.
    pub fn remote(mut self, level: RemoteLevel) -> EngineBuilder<'a> {
        self.remote = Some(level);
        self
    }

    /// Sets which writes survive a crash, and how long the log may become. Used by
    /// [`EngineBuilder::create`] only.
    pub fn journaling(mut self, journaling: Journaling) -> EngineBuilder<'a> {
        self.journaling = journaling;
        self
    }

    /// Sets the number of a collection that is created. No other collection in the same location
    /// may ever have had this number. Without this call, the number is drawn from the clock.
    pub fn collection(mut self, number: u64) -> EngineBuilder<'a> {
        self.collection = Some(number);
        self
    }

    /// Calls `adjust` to change the settings of an engine that is opened. It cannot change settings
    /// that the stored rows depend on: dimension, metric, element and schema. It may add attributes.
    pub fn adjust(mut self, adjust: Adjust<'a>) -> EngineBuilder<'a> {
        self.adjust = Some(adjust);
        self
    }

    fn syncing(&self) -> Syncing {
        if self.is_scratch {
            Syncing::Off
        } else {
            Syncing::Full
        }
    }

    /// Creates an empty engine. Every write goes to a log first, unless the engine keeps its rows
    /// in memory alone.
    ///
    /// Errors: `Invalid` for invalid settings, for a memory limit without a directory, or for a
    /// directory that holds a collection; `Unavailable` if the directory is open already; `Io`.
    pub fn create(self, settings: Settings) -> Result<Engine, Error> {
        settings.validate()?;
        let syncing = self.syncing();
        if self.remote.is_some() && settings.memory.is_none() {
            return Err(Error::invalid(
                "a remote level holds segments, and without a limit to memory there are none: set one",
            ));
        }
        let mut directory = match self.location {
            Location::Memory => return in_memory(settings),
            Location::Directory(path) => Directory::create(&path, syncing)?,
            Location::Store(store) => Directory::unlocked(store),
        };
        self.journaling.validate()?;
        let mut engine = Engine::empty(settings.clone())?;
        directory.check_free()?;
        directory.sweep(None)?;
        let number = self.collection.unwrap_or_else(|| fresh_number(&directory.store));
        if let Some(level) = &self.remote {
            directory.begin_remote(level, number)?;
        }
        let manifest = Manifest::create(&directory.store, settings, self.journaling, number)?;
        engine.replay(directory, manifest)?;
        Ok(engine)
    }

    /// Opens an engine that was created in the directory or store. The engine has the settings that
    /// it was created with, and every row that survived since.
    ///
    /// Cost: reads and indexes all rows that are in no segment. Errors: `Invalid` if there is no
    /// engine, or if `adjust` changed dimension, metric or element; `Unavailable` if it is open
    /// already; `Corrupt` with file and offset if any byte differs from the byte that was written;
    /// `Io`.
    pub fn open(self) -> Result<Engine, Error> {
        let syncing = self.syncing();
        let mut directory = match self.location {
            Location::Memory => {
                return Err(Error::invalid("there is nothing to open: name a directory"))
            }
            Location::Directory(path) => Directory::open(&path, syncing)?,
            Location::Store(store) => Directory::unlocked(store),
        };
        let mut manifest = Manifest::read(&directory.store)?;
        directory.open_remote(self.remote.as_ref(), &manifest)?;
        manifest.make_log(&directory.store)?;
        let stored = manifest.settings.clone();
        if let Some(adjust) = self.adjust {
            adjust(&mut manifest.settings, &mut manifest.journaling);
        }
        if !manifest.settings.row_form().extends(&stored.row_form()) {
            return Err(Error::invalid(
                "dimension, metric, element, ids, groups and attributes of a collection cannot \
                 change, except for attributes that are added: make another",
            ));
        }
        manifest.journaling.validate()?;
        if (&manifest.settings.schema, manifest.settings.segments)
            != (&stored.schema, stored.segments)
        {
            manifest.settings.validate()?;
            manifest.publish(&directory.store)?;
        }
        let mut engine = Engine::empty(manifest.settings.clone())?;
        engine.replay(directory, manifest)?;
        Ok(engine)
    }
}

/// Tries to read the files of an engine that writes meanwhile.
const BORROW_TRIES: usize = 20;
/// Pause between two of them.
const BORROW_PAUSE: Duration = Duration::from_millis(20);

impl Engine {
    /// Reads the rows of the durable engine in `dir`, which another process may have open, and writes
    /// nothing there: no lock, no file, no time. The engine has the rows of one moment, keeps its own
    /// writes in memory, and may [follow](Engine::apply_group) the other.
    ///
    /// Segments that a merge replaces stay readable as long as they are open here; where the system
    /// removes the bytes of open files, such as on some network file systems, searches fail then. Cost:
    /// that of [`EngineBuilder::open`], without the codes: until a thread has read them, queries read
    /// those that they visit. Errors: those of it, without `Unavailable`.
    pub fn open_read_only(dir: &Path) -> Result<Engine, Error> {
        let mut tries = 1..BORROW_TRIES;
        loop {
            let store = open_store(dir)?;
            let opened = Manifest::read(&store).and_then(|manifest| {
                let mut engine = Engine::borrowing(manifest.settings.clone())?;
                engine.borrow(&store, &manifest).map(|()| engine)
            });
            // A checkpoint may have removed a file that the manifest named, and a group that is being
            // written looks torn: then the next try sees more.
            let is_moving =
                |error: &Error| error.is_not_found() || error.kind() == ErrorKind::Corrupt;
            match opened {
                Err(error) if is_moving(&error) && tries.next().is_some() => {
                    std::thread::sleep(BORROW_PAUSE);
                }
                done => return done,
            }
        }
    }
}

fn in_memory(settings: Settings) -> Result<Engine, Error> {
    if settings.memory.is_some() {
        return Err(Error::invalid(
            "memory has a limit and there is nowhere else for rows to go: create the engine in a \
             directory, or set no limit",
        ));
    }
    Engine::empty(settings)
}
