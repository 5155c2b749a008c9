//! The writer: checks rows, applies them, and creates readers.

use std::path::Path;
use std::sync::Arc;

use vstream_index::{Applied, IndexRow, IndexStats, RowKey, VectorBuffer, VectorRef};
use vstream_store::{FileStore, Syncing};
use vstream_vector::{Element, Metric};

use crate::accept::{check_restored, check_row, normalise, refused};
use crate::builder::EngineBuilder;
use crate::checkpoint::{Capture, Rows};
use crate::durability::JournalStats;
use crate::error::Error;
use crate::guard::{Guard, RecallEstimate};
use crate::journal::Journal;
use crate::layout::check_not_collection;
use crate::reader::Reader;
use crate::row::Row;
use crate::settings::Settings;
use crate::snapshot::{self, PinnedSnapshot, SnapshotSummary};
use crate::tree::{Room, Tree, TreeStats};

/// Writes between two waits while memory is nearly full or segments are many.
const WRITES_PER_WAIT: u64 = 64;
/// The writer waits for merges above this many segments, and waits longer above
/// [`SEGMENTS_SLOWEST`]. Queries rank the leaves of each segment, and every write looks its id up
/// in each.
const SEGMENTS_SLOW: usize = 96;
const SEGMENTS_SLOWEST: usize = 192;
/// Waits in a row above [`SEGMENTS_SLOWEST`]: one second in all.
const WAITS_SLOWEST: usize = 200;

/// Counts of an engine at one moment.
#[derive(Clone, Debug, PartialEq)]
pub struct Stats {
    /// Rows, leaves, bytes and maintenance so far.
    pub index: IndexStats,
    /// Leaves that `Effort::Auto` visits now.
    pub probes: usize,
    /// Rows whose exact distance `Effort::Auto` takes now for `k` = 10.
    pub refine: usize,
    /// Latest estimate of the recall guard, if it has one.
    pub recall: Option<RecallEstimate>,
    /// Counts of the journal, if the engine has one.
    pub journal: Option<JournalStats>,
    /// Counts of the tree.
    pub tree: TreeStats,
}

/// The one writer of a partition's rows.
pub struct Engine {
    pub(crate) settings: Settings,
    pub(crate) tree: Arc<Tree>,
    guard: Arc<Guard>,
    /// The write-ahead log and its checkpoints; `None` for an engine in memory alone.
    pub(crate) journal: Option<Journal>,
    /// Buffer for a normalised vector.
    normalised: Vec<f32>,
    /// Buffer for a vector that is narrowed to the stored element; `None` if rows are held as
    /// `f32`.
    narrowed: Option<VectorBuffer>,
    /// Writes since the engine was opened.
    steps: u64,
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
        let tree = Arc::new(Tree::new(&settings));
        tree.keep_hot();
        let guard = Guard::start(&settings, &tree);
        let stored = settings.index_settings().element;
        let narrowed = (stored != Element::F32).then(|| VectorBuffer::new(stored));
        let normalised = Vec::new();
        let (journal, steps) = (None, 0);
        Ok(Engine { settings, tree, guard, journal, normalised, narrowed, steps })
    }

    /// Returns the settings of the engine.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Adds or replaces a row. Every later search sees it.
    ///
    /// Cost: a few microseconds, plus bounded maintenance every batch. Errors: `Invalid` for a
    /// wrong dimension, a value that is not finite or does not fit the element, or a norm that the
    /// metric cannot use.
    pub fn upsert(&mut self, row: &Row<'_>) -> Result<Applied, Error> {
        self.check(row.vector)?;
        self.upsert_checked(row)
    }

    /// Works like [`Engine::upsert`] for a row whose vector [`Engine::check`] has accepted. A
    /// caller that has checked a whole batch does not pay for a second check.
    ///
    /// Errors: those of `upsert` that do not come from the check. Panics if the vector has a wrong
    /// dimension. A value that the check would have refused makes later answers meaningless.
    pub fn upsert_checked(&mut self, row: &Row<'_>) -> Result<Applied, Error> {
        assert_eq!(row.vector.len(), self.settings.dimension, "a vector that was not checked");
        debug_assert!(self.check(row.vector).is_ok(), "a vector that was not checked");
        if self.settings.metric != Metric::Cosine {
            return self.put(row);
        }
        let mut normalised = std::mem::take(&mut self.normalised);
        let put = normalise(row.vector, &mut normalised)
            .and_then(|()| self.put(&Row { vector: &normalised, ..*row }));
        self.normalised = normalised;
        put
    }

    /// Logs and then applies an upsert of a row in its stored form. Does nothing if a newer row is
    /// there.
    fn put(&mut self, row: &Row<'_>) -> Result<Applied, Error> {
        self.make_room()?;
        let vector = stored(&mut self.narrowed, row.vector);
        let stored = IndexRow { key: key(row), vector, fields: row.fields };
        let mut writer = self.tree.writer();
        let applied = if let Some(journal) = &mut self.journal {
            let found = writer.find(row.id);
            let before = found.map(|found| found.version);
            if before.is_some_and(|before| before > row.version) {
                return Ok(Applied::Stale);
            }
            journal.upsert(&stored, before)?;
            writer.upsert_over(stored, found)
        } else {
            writer.upsert(stored)
        };
        drop(writer);
        self.step();
        Ok(applied)
    }

    /// Takes a step of checkpoint and compaction, if one is due without a commit.
    fn step(&mut self) {
        let rows = RowsOf { settings: &self.settings, tree: &self.tree };
        let Some(journal) = &mut self.journal else { return };
        journal.step(&rows);
    }

    /// Slows the writer down while memory is full or segments are many.
    ///
    /// If memory is full, begins to flush it. While the flush runs, the writer continues slowly up
    /// to the limit, and waits there. The writer also continues slowly while there are many
    /// segments and a running merge will leave fewer.
    ///
    /// Errors: `Unavailable` at the limit if the flush fails.
    fn make_room(&mut self) -> Result<(), Error> {
        let Some(journal) = &mut self.journal else { return Ok(()) };
        if self.settings.memory.is_none() || !journal.is_background() {
            return Ok(());
        }
        self.steps += 1;
        let is_turn = self.steps.is_multiple_of(WRITES_PER_WAIT);
        let rows = RowsOf { settings: &self.settings, tree: &self.tree };
        let segments = if is_turn { self.tree.segments() } else { 0 };
        if segments > SEGMENTS_SLOW {
            let waits = if segments > SEGMENTS_SLOWEST { WAITS_SLOWEST } else { 1 };
            for _ in 0..waits {
                journal.want_step();
                journal.step(&rows);
                if !journal.is_compacting() {
                    break;
                }
                self.tree.wait_for_merge();
            }
        }
        loop {
            match self.tree.room() {
                Room::Enough => return Ok(()),
                Room::Little if !is_turn => return Ok(()),
                room => {
                    journal.want_step();
                    journal.step(&rows);
                    self.tree.wait_for_room(room);
                    if room == Room::Little {
                        return Ok(());
                    }
                }
            }
            if let Some(why) = journal.stats().checkpoint_failure {
                return Err(Error::unavailable(format!(
                    "memory is at its limit, and rows cannot be moved to the disk: {why}"
                )));
            }
        }
    }

    /// Checks whether [`Engine::upsert`] would accept this vector. So a caller can check a whole
    /// batch before it writes any of it. Errors: those of the check in `upsert`.
    pub fn check(&self, vector: &[f32]) -> Result<(), Error> {
        check_row(vector, &self.settings).map_err(refused)
    }

    /// Upserts a row in its stored form. Under cosine the vector is a direction already, and a
    /// second normalisation would change it.
    pub(crate) fn restore_row(&mut self, row: &Row<'_>) -> Result<(), Error> {
        check_restored(row.vector, &self.settings).map_err(refused)?;
        self.put(row).map(|_| ())
    }

    /// Removes the row of `id` unless it is newer than `version`. Returns true if a row was
    /// removed.
    ///
    /// An unknown id is no error: a delete may find no row, and may repeat without harm.
    pub fn delete(&mut self, id: u64, version: u64) -> Result<bool, Error> {
        let mut writer = self.tree.writer();
        let died = if let Some(journal) = &mut self.journal {
            let found = match writer.find(id) {
                Some(found) if found.version <= version => found,
                _ => return Ok(false),
            };
            journal.delete(id, version, found.version)?;
            writer.delete_found(id, found);
            true
        } else {
            writer.delete(id, version)
        };
        drop(writer);
        self.step();
        Ok(died)
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
        Stats { index, probes, refine, recall: self.guard.estimate(), journal, tree }
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
        let settings = engine.settings.clone();
        snapshot::read(&store, "", &settings, &mut |row| engine.restore_row(row))?;
        Ok(engine)
    }
}

/// The rows of an engine, for its checkpoints.
pub(crate) struct RowsOf<'a> {
    pub(crate) settings: &'a Settings,
    pub(crate) tree: &'a Arc<Tree>,
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
        Capture::Image(PinnedSnapshot { settings, rows: self.tree.pin() })
    }
}

fn key(row: &Row<'_>) -> RowKey {
    RowKey { id: row.id, version: row.version, code: row.code, shard: row.shard }
}

/// Returns the vector in the form that the index stores.
fn stored<'a>(narrowed: &'a mut Option<VectorBuffer>, vector: &'a [f32]) -> VectorRef<'a> {
    match narrowed {
        Some(buffer) => buffer.narrow(vector),
        None => VectorRef::F32(vector),
    }
}
