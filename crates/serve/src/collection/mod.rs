//! One collection: a thread that writes, and readers that never wait for it.

mod ids;
mod progress;
mod writing;

use std::cell::Cell;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::Arc;

use vstream_engine::{
    inspect, inspect_collection, Answer, Durability, Effort, Engine, Error, ErrorKind, Filter,
    Journaling, Page, Query, Reader, RowId, Scratch, Settings, SnapshotSummary, Stats, StoredRow,
    With,
};

pub(crate) use self::ids::{IdForm, PointId};
pub(crate) use self::progress::{now_ms, Progress};
pub(crate) use self::writing::Writes;
use crate::failure::Failure;

thread_local! {
    /// Taken out while a search runs: one that panics leaves nothing half-changed behind.
    static SCRATCH: Cell<Option<Box<Scratch>>> = const { Cell::new(None) };
}

/// Most neighbours of a query that is answered on the thread that read it.
const AT_ONCE_MAX: usize = 100;

/// How the folder of a collection is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Opening {
    /// To write what clients send.
    Writer,
    /// To write what another server wrote.
    Follower,
    /// To read what another process writes, or a snapshot; nothing in the folder changes.
    ReadOnly,
}

/// A collection that is served.
pub(crate) struct Collection {
    pub(crate) name: String,
    pub(crate) settings: Settings,
    pub(crate) ids: IdForm,
    pub(crate) writes: Writes,
    pub(crate) progress: Arc<Progress>,
    /// Number of the collection, which another one under the same name does not have; 0 for a snapshot.
    pub(crate) epoch: u64,
    reader: Reader,
    /// Rows that live, as of the last write.
    live: Arc<AtomicU64>,
}

impl Collection {
    /// Serves an engine.
    ///
    /// * `is_replica`: whether another engine writes.
    pub(crate) fn new(name: &str, engine: Engine, is_replica: bool) -> Result<Collection, Failure> {
        let (settings, reader) = (engine.settings().clone(), engine.reader());
        let live = Arc::new(AtomicU64::new(engine.stats().index.live));
        let ids = IdForm { kind: settings.schema.id, hash: settings.schema.name_hash() };
        let progress = Arc::new(Progress::new(engine.sequence(), is_replica));
        let epoch = engine.collection().unwrap_or(0);
        let writes = Writes::begin(name, engine, live.clone(), progress.clone())?;
        let name = name.to_owned();
        Ok(Collection { name, settings, ids, writes, progress, epoch, reader, live })
    }

    /// Opens the engine of a folder.
    pub(crate) fn open(name: &str, directory: &Path, how: Opening) -> Result<Collection, Failure> {
        let now_ms = now_ms();
        let engine = match how {
            Opening::Writer => Engine::open(directory)?,
            Opening::Follower => {
                // What a crash takes from a replica, it gets again.
                let adjust = &mut |_: &mut Settings, journaling: &mut Journaling| {
                    journaling.durability = Durability::ASYNC;
                };
                Engine::builder().dir(directory).adjust(adjust).open()?
            }
            Opening::ReadOnly => match inspect_collection(directory)? {
                Some(_) => Engine::open_read_only(directory)?,
                None => Engine::restore(of_snapshot(&inspect(directory)?), directory)?,
            },
        };
        let collection = Collection::new(name, engine, how != Opening::Writer)?;
        if how == Opening::ReadOnly {
            // What was on the disk when this began was read.
            let sequence = collection.progress.applied();
            collection.progress.heard(sequence, now_ms, sequence);
        }
        Ok(collection)
    }

    pub(crate) fn reader(&self) -> &Reader {
        &self.reader
    }

    pub(crate) fn live(&self) -> u64 {
        self.live.load(Ordering::Relaxed)
    }

    /// The engine's figures. Waits for the thread that writes.
    pub(crate) async fn stats(&self) -> Result<Stats, Failure> {
        self.writes.now(|rows| rows.stats()).await
    }

    /// True if a query is so short that the thread that read it answers it: its rows are in memory.
    pub(crate) fn answers_at_once(&self, query: &Query<'_>) -> bool {
        let is_short = query.effort != Effort::Exact && query.filter.is_none();
        is_short && query.k <= AT_ONCE_MAX && self.settings.memory.is_none()
    }

    /// Answers a query with its rows. Returns also how many living rows were left out.
    ///
    /// * `may_be_partial`: whether rows may be left out because their far store gives no answer.
    pub(crate) fn answer(
        &self,
        query: &Query<'_>,
        with: &With,
        may_be_partial: bool,
    ) -> Result<(Answer, u64), Error> {
        let mut scratch = SCRATCH.take().unwrap_or_default();
        let mut answer = self.reader.answer(query, with, &mut scratch).map(|answer| (answer, 0));
        let is_away = |error: &Error| error.kind() == ErrorKind::Unavailable;
        if may_be_partial && answer.as_ref().is_err_and(is_away) {
            let (rows, left_out) = self.reader.reachable();
            answer = rows.answer(query, with, &mut scratch).map(|answer| (answer, left_out));
        }
        SCRATCH.set(Some(scratch));
        answer
    }

    /// The rows of some ids.
    pub(crate) fn get(&self, ids: &[RowId], with: &With) -> Result<Vec<Option<StoredRow>>, Error> {
        self.reader.get(ids, with)
    }

    /// Some rows in the order of ids.
    pub(crate) fn scroll(
        &self,
        filter: Option<&Filter>,
        after: Option<u64>,
        limit: usize,
        with: &With,
    ) -> Result<Page, Error> {
        self.reader.scroll(filter, after, limit, with)
    }
}

/// Settings of an engine for the rows of a snapshot.
fn of_snapshot(summary: &SnapshotSummary) -> Settings {
    let settings = Settings::new(summary.dimension, summary.metric, summary.element);
    Settings { schema: summary.schema.clone(), ..settings }
}
