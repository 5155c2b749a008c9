//! The writer: checks records, applies them, hands out readers.

use std::path::Path;
use std::sync::Arc;

use vstream_index::{Applied, IndexStats, RowKey, VectorBuffer, VectorRef};
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

/// Writes between two waits while memory is full, or segments are many.
const WRITES_PER_WAIT: u64 = 64;
/// Segments above which the writer waits for merges, and above which it waits longer. Queries rank
/// the leaves of each, and every write looks its id up in each.
const SEGMENTS_SLOW: usize = 96;
const SEGMENTS_SLOWEST: usize = 192;
/// Waits at a time then: a second.
const WAITS_SLOWEST: usize = 200;

/// Counts of an engine at one moment.
#[derive(Clone, Debug, PartialEq)]
pub struct Stats {
    /// Rows, leaves, bytes and maintenance so far.
    pub index: IndexStats,
    /// Leaves that `Effort::Auto` visits now.
    pub probes: usize,
    /// Rows whose exact distance `Effort::Auto` takes now for ten neighbours.
    pub refine: usize,
    /// What the recall guard measured last, if it has.
    pub recall: Option<RecallEstimate>,
    /// Counts of the log, if the engine keeps one.
    pub journal: Option<JournalStats>,
    /// Where the rows are.
    pub tree: TreeStats,
}

/// The one writer of a partition's rows.
pub struct Engine {
    pub(crate) settings: Settings,
    pub(crate) tree: Arc<Tree>,
    guard: Arc<Guard>,
    /// What makes it durable, if it is.
    pub(crate) journal: Option<Journal>,
    /// Where a row is normalised before it is stored.
    normalised: Vec<f32>,
    /// Where it is narrowed then; `None` if rows are held as `f32`.
    narrowed: Option<VectorBuffer>,
    /// Writes since it was opened.
    steps: u64,
}

impl Engine {
    /// Says where an engine keeps its rows, then makes or opens it.
    pub fn builder<'a>() -> EngineBuilder<'a> {
        EngineBuilder::default()
    }

    /// An empty engine in memory; short for [`Engine::builder`]. Errors: `Invalid` settings; a
    /// limit to memory, which needs a directory.
    pub fn create(settings: Settings) -> Result<Engine, Error> {
        Engine::builder().create(settings)
    }

    /// An empty engine, before it has a directory.
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

    /// The settings it was created with.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Adds or replaces a row; every later search sees it.
    ///
    /// Cost: a few microseconds, plus bounded maintenance every batch. Errors: `Invalid` for a
    /// wrong dimension, a value that is not finite or does not fit, a norm that the metric cannot use.
    pub fn upsert(&mut self, row: &Row<'_>) -> Result<Applied, Error> {
        self.check(row.vector)?;
        self.upsert_checked(row)
    }

    /// As [`Engine::upsert`], for a row whose vector [`Engine::check`] has accepted: a caller that has
    /// checked a whole batch does not pay for a second check.
    ///
    /// Errors: as `upsert`, but for those of the check. Panics if the vector has a wrong dimension. A
    /// value that the check would have refused makes later answers meaningless.
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

    /// Applies an upsert of a row as it is stored, after it is in the log, unless a newer one is
    /// there.
    fn put(&mut self, row: &Row<'_>) -> Result<Applied, Error> {
        self.make_room()?;
        let vector = stored(&mut self.narrowed, row.vector);
        let mut writer = self.tree.writer();
        let applied = if let Some(journal) = &mut self.journal {
            let found = writer.find(row.id);
            let before = found.map(|found| found.version);
            if before.is_some_and(|before| before > row.version) {
                return Ok(Applied::Stale);
            }
            journal.upsert(&key(row), vector, before)?;
            writer.upsert_over(key(row), vector, found)
        } else {
            writer.upsert(key(row), vector)
        };
        drop(writer);
        self.step();
        Ok(applied)
    }

    /// Takes a step of what is done beside the writer, if one is due without a commit.
    fn step(&mut self) {
        let rows = RowsOf { settings: &self.settings, tree: &self.tree };
        let Some(journal) = &mut self.journal else { return };
        journal.step(&rows);
    }

    /// Looks whether there is room in memory. If it is full, it begins to be flushed; while that is
    /// under way the writer goes on slowly, up to the limit, and waits there. It goes on slowly too
    /// while there are many segments and a merge will leave fewer.
    ///
    /// Errors: `Unavailable` at the limit if nothing can be written.
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

    /// Says whether [`Engine::upsert`] would take this vector, so that a caller can check a whole
    /// batch before it writes any of it. Errors: as `upsert`.
    pub fn check(&self, vector: &[f32]) -> Result<(), Error> {
        check_row(vector, &self.settings).map_err(refused)
    }

    /// As [`Engine::upsert`] for a row as it was stored: under cosine it is a direction already, and
    /// normalising it again would change it.
    pub(crate) fn restore_row(&mut self, row: &Row<'_>) -> Result<(), Error> {
        check_restored(row.vector, &self.settings).map_err(refused)?;
        self.put(row).map(|_| ())
    }

    /// Removes the row of `id` unless it is newer than `version`; true if a row died.
    ///
    /// An unknown id is no error: a delete may overtake nothing and repeat harmlessly.
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

    /// A reader for any thread; it keeps working, on the last state, after the engine is gone.
    pub fn reader(&self) -> Reader {
        Reader::new(&self.settings, self.tree.clone(), self.guard.clone())
    }

    /// Counts. Cost: O(leaves).
    pub fn stats(&self) -> Stats {
        let (index, tree) = self.tree.stats();
        let (probes, refine) = match self.guard.effort(&self.tree, 10) {
            vstream_index::Effort::Approximate { probes, refine } => (probes, refine),
            _ => (index.leaves as usize, index.live as usize),
        };
        let journal = self.journal.as_ref().map(Journal::stats);
        Stats { index, probes, refine, recall: self.guard.estimate(), journal, tree }
    }

    /// Has automatic searches reach another recall from now on, as a partition of a job must whose
    /// whole answers tell what it has to reach. It is not kept: an engine that is opened again aims at
    /// its settings. The next conclusions of the guard obey, some audits later. Errors: `Invalid`
    /// unless `recall` is a recall target, see [`Settings::recall_target`].
    pub fn aim(&self, recall: f64) -> Result<(), Error> {
        Settings { recall_target: recall, ..self.settings.clone() }.validate()?;
        self.guard.aim(recall);
        Ok(())
    }

    /// Has the recall guard ask the queries it knows against the rows of now, in this thread, so
    /// that `Effort::Auto` and the estimate speak of them; for callers who cannot wait until its
    /// own thread comes round, such as after a load.
    ///
    /// Cost: up to some 200 audits, each about a tenth of an exact search. Does nothing without a
    /// guard.
    pub fn catch_up(&self) {
        self.guard.catch_up(&self.tree);
    }

    /// The rows of this moment, to be written while the engine goes on. Cost: nothing to speak of.
    pub fn pin(&self) -> PinnedSnapshot {
        PinnedSnapshot { settings: self.settings.clone(), rows: self.tree.pin() }
    }

    /// Writes all living rows to `dir`, a file per shard and a manifest last, and forces them to
    /// the disk. Short for [`Engine::pin`] and [`PinnedSnapshot::write`]. Errors: as the latter.
    pub fn snapshot(&self, dir: &Path) -> Result<SnapshotSummary, Error> {
        self.pin().write(dir, Syncing::Full)
    }

    /// An engine with the rows of a snapshot directory.
    ///
    /// With a manifest, its files must all be there and whole. Without one, every
    /// `shard-*.rows` file is taken: so a caller assembles shards of several snapshots.
    /// Errors: `Invalid` if the settings do not fit the rows, `Corrupt`, `Unsupported`, `Io`.
    pub fn restore(settings: Settings, dir: &Path) -> Result<Engine, Error> {
        let mut engine = Engine::create(settings)?;
        let store = FileStore::open_dir(dir, Syncing::Off)?;
        check_not_collection(&store, "open it")?;
        let settings = engine.settings.clone();
        snapshot::read(&store, "", &settings, &mut |row| engine.restore_row(row))?;
        Ok(engine)
    }
}

/// What checkpoints ask of the rows.
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

/// A vector as the index holds it.
fn stored<'a>(narrowed: &'a mut Option<VectorBuffer>, vector: &'a [f32]) -> VectorRef<'a> {
    match narrowed {
        Some(buffer) => buffer.narrow(vector),
        None => VectorRef::F32(vector),
    }
}
