//! The engine: creates readers and snapshots, and counts. `write/` has what it does with rows.

use std::path::Path;
use std::sync::Arc;

use vstream_attribute::{AttributesBuilder, FieldsBuffer};
use vstream_index::{IndexStats, VectorBuffer};
use vstream_store::{FileStore, Syncing};
use vstream_vector::Element;

use crate::builder::EngineBuilder;
use crate::checkpoint::{Capture, Rows};
use crate::durability::JournalStats;
use crate::error::Error;
use crate::guard::{Guard, RecallEstimate};
use crate::journal::Journal;
use crate::layout::check_not_collection;
use crate::reader::Reader;
use crate::remembered::{RememberedDelete, RememberedDeletes};
use crate::settings::Settings;
use crate::snapshot::{self, PinnedSnapshot, SnapshotSummary};
use crate::translate::Translation;
use crate::tree::{Room, Tree, TreeStats};
use crate::wal::State;

/// Counts of an engine at one moment.
#[derive(Clone, Debug, PartialEq)]
pub struct Stats {
    /// Rows, leaves, bytes and maintenance so far.
    pub index: IndexStats,
    /// Leaves that `Effort::Auto` visits now; all while the recall guard has not decided.
    pub probes: usize,
    /// Rows whose exact distance `Effort::Auto` takes now for `k` = 10; all while the guard has not decided.
    pub refine: usize,
    /// Latest estimate of the recall guard, if it has one.
    pub recall: Option<RecallEstimate>,
    /// Latest estimates of the recall guard for queries with a filter, by the share of rows that
    /// match: 20 % or more, 4 %, 0.8 %, and less.
    pub recall_filtered: [Option<RecallEstimate>; 4],
    /// Counts of the journal, if the engine has one.
    pub journal: Option<JournalStats>,
    /// Counts of the tree.
    pub tree: TreeStats,
    /// Deletes whose versions are remembered.
    pub deletes_remembered: usize,
}

/// The one writer of a partition's rows.
pub struct Engine {
    pub(crate) settings: Settings,
    pub(crate) tree: Arc<Tree>,
    pub(crate) guard: Arc<Guard>,
    /// The write-ahead log and its checkpoints; `None` for an engine in memory alone.
    pub(crate) journal: Option<Journal>,
    /// Versions of deleted rows; `None` if the collection does not remember them.
    pub(crate) remembered: Option<RememberedDeletes>,
    pub(crate) buffers: Buffers,
    /// Writes since the engine was opened.
    pub(crate) steps: u64,
    /// Collection and state of rows that were read from files which the engine does not write.
    pub(crate) borrowed: Option<(u64, State)>,
}

/// Buffers of the writer.
pub(crate) struct Buffers {
    /// A normalised vector, or one that was read.
    pub(crate) vector: Vec<f32>,
    /// A vector that is narrowed to the stored element; `None` if rows are held as `f32`.
    pub(crate) narrowed: Option<VectorBuffer>,
    /// The fields of a row before an update, and its attributes after it.
    pub(crate) fields: FieldsBuffer,
    pub(crate) merged: AttributesBuilder,
}

impl Buffers {
    fn new(settings: &Settings) -> Buffers {
        let stored = settings.index_settings().element;
        Buffers {
            vector: Vec::new(),
            narrowed: (stored != Element::F32).then(|| VectorBuffer::new(stored)),
            fields: FieldsBuffer::default(),
            merged: AttributesBuilder::default(),
        }
    }
}

impl Engine {
    /// Returns a builder, which says where the rows are kept and then creates or opens the engine.
    pub fn builder<'a>() -> EngineBuilder<'a> {
        EngineBuilder::default()
    }

    /// Creates an empty engine in memory; short for [`Engine::builder`]. Errors: `Invalid` for
    /// invalid settings, or for a memory limit, which needs a directory.
    pub fn create(settings: Settings) -> Result<Engine, Error> {
        Engine::builder().create(settings)
    }

    /// Creates an empty engine without a directory.
    pub(crate) fn empty(settings: Settings) -> Result<Engine, Error> {
        settings.validate()?;
        let tree = Tree::new(&settings);
        Ok(Engine::over(settings, tree))
    }

    /// Creates an empty engine for [`Engine::borrow`].
    pub(crate) fn borrowing(settings: Settings) -> Result<Engine, Error> {
        settings.validate()?;
        let tree = Tree::queries_first(&settings);
        Ok(Engine::over(settings, tree))
    }

    fn over(settings: Settings, tree: Tree) -> Engine {
        let tree = Arc::new(tree);
        tree.keep_hot();
        let guard = Guard::start(&settings, &tree);
        let remembered = settings.deletes_remembered.map(RememberedDeletes::new);
        let buffers = Buffers::new(&settings);
        let (journal, steps, borrowed) = (None, 0, None);
        Engine { settings, tree, guard, journal, remembered, buffers, steps, borrowed }
    }

    /// Returns the settings of the engine.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// The number of the collection, which no other collection has; `None` for an engine in memory alone.
    pub fn collection(&self) -> Option<u64> {
        let journal = self.journal.as_ref().map(|journal| journal.versions().manifest().collection);
        journal.or(self.borrowed.map(|(collection, _)| collection))
    }

    /// The sequence of the last write: every write that changes something has the next one. 0 for an
    /// engine in memory alone. Whether that write is on the disk, [`Engine::begin_commit`] says.
    pub fn sequence(&self) -> u64 {
        self.state().lsn
    }

    /// State after the last write.
    pub(crate) fn state(&self) -> State {
        let borrowed = || self.borrowed.map_or_else(State::default, |(_, state)| state);
        self.journal.as_ref().map_or_else(borrowed, Journal::state)
    }

    /// Returns a reader for any thread. It still works, on the last state, after the engine is
    /// dropped.
    pub fn reader(&self) -> Reader {
        Reader::new(&self.settings, self.tree.clone(), self.guard.clone())
    }

    /// Returns counts. Cost: O(leaves).
    pub fn stats(&self) -> Stats {
        let (index, tree) = self.tree.stats();
        let (probes, refine) = match self.guard.effort(&self.tree, 10) {
            vstream_index::Effort::Approximate { probes, refine } => (probes, refine),
            _ => (index.leaves as usize, index.live as usize),
        };
        let journal = self.journal.as_ref().map(Journal::stats);
        let deletes_remembered = self.remembered.as_ref().map_or(0, RememberedDeletes::len);
        let recall = self.guard.estimate();
        let recall_filtered = self.guard.filtered_estimates();
        Stats { index, probes, refine, recall, recall_filtered, journal, tree, deletes_remembered }
    }

    /// Sets the recall that automatic searches aim at from now on. A partition of a job needs this:
    /// the recall of the whole answers tells which recall the partition must reach. The engine does
    /// not store the value: after it is opened again, it aims at the recall of its settings. The
    /// recall guard follows the new value in its next decisions, some audits later. Errors:
    /// `Invalid` unless `recall` is a recall target, see [`Settings::recall_target`].
    pub fn aim(&self, recall: f64) -> Result<(), Error> {
        Settings { recall_target: recall, ..self.settings.clone() }.validate()?;
        self.guard.aim(recall);
        Ok(())
    }

    /// Lets the recall guard audit the queries that it knows against the present rows, in this
    /// thread. Then `Effort::Auto` and the estimate fit these rows. Use it when you cannot wait for
    /// the guard's own thread, such as after a load.
    ///
    /// Cost: up to some 200 audits, each about a tenth of an exact search. Does nothing without a
    /// guard.
    pub fn catch_up(&self) {
        self.guard.catch_up(&self.tree);
    }

    /// Pins the present rows, so that they can be written while the engine continues. Cost: an
    /// allocation or two.
    pub fn pin(&self) -> PinnedSnapshot {
        PinnedSnapshot { settings: self.settings.clone(), rows: self.tree.pin() }
    }

    /// Writes all living rows to `dir`, one file per shard and the manifest last, and forces them
    /// to the disk. Short for [`Engine::pin`] and [`PinnedSnapshot::write`]. Errors: the same as
    /// the latter.
    pub fn snapshot(&self, dir: &Path) -> Result<SnapshotSummary, Error> {
        self.pin().write(dir, Syncing::Full)
    }

    /// Creates an engine with the rows of a snapshot directory.
    ///
    /// If the directory has a manifest, all files that it names must be there and whole. Without a
    /// manifest, the engine reads every `shard-*.rows` file: so a caller can assemble shards of
    /// several snapshots. Errors: `Invalid` if the settings do not fit the rows, `Corrupt`,
    /// `Unsupported`, `Io`.
    pub fn restore(settings: Settings, dir: &Path) -> Result<Engine, Error> {
        let mut engine = Engine::create(settings)?;
        let store = FileStore::open_dir(dir, Syncing::Off)?;
        check_not_collection(&store, "open it")?;
        let (settings, mut translation) = (engine.settings.clone(), Translation::default());
        let _paused = engine.guard.pause();
        snapshot::read(&store, "", &settings, &mut |row, theirs| {
            engine.take_over(row, theirs, &mut translation).map(|_| ())
        })?;
        Ok(engine)
    }
}

/// The rows of an engine, for its checkpoints.
pub(crate) struct RowsOf<'a> {
    settings: &'a Settings,
    tree: &'a Arc<Tree>,
    remembered: Option<&'a RememberedDeletes>,
}

/// The rows of an engine, whose journal its caller has borrowed.
pub(crate) fn rows_of<'a>(
    settings: &'a Settings,
    tree: &'a Arc<Tree>,
    remembered: Option<&'a RememberedDeletes>,
) -> RowsOf<'a> {
    RowsOf { settings, tree, remembered }
}

impl Rows for RowsOf<'_> {
    fn is_due(&self) -> bool {
        self.tree.is_full()
    }

    fn is_at_limit(&self) -> bool {
        self.tree.room() == Room::None
    }

    fn capture(&self) -> Capture {
        if self.tree.keeps_segments() {
            return Capture::Memtable(self.tree.rotate_memtable());
        }
        let settings = self.settings.clone();
        Capture::Image(Box::new(PinnedSnapshot { settings, rows: self.tree.pin() }))
    }

    fn remembered(&self) -> Vec<RememberedDelete> {
        self.remembered.map_or_else(Vec::new, RememberedDeletes::list)
    }
}
