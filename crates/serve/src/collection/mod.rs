//! One collection: a thread that writes, and readers that never wait for it.

mod ids;
mod writing;

use std::cell::Cell;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::Arc;

use vstream_engine::{
    Answer, Effort, Engine, Error, Filter, Page, Query, Reader, RowId, Scratch, Settings, Stats,
    StoredRow, With,
};

pub(crate) use self::ids::{IdForm, PointId};
pub(crate) use self::writing::Writes;
use crate::failure::Failure;

thread_local! {
    /// Taken out while a search runs: one that panics leaves nothing half-changed behind.
    static SCRATCH: Cell<Option<Box<Scratch>>> = const { Cell::new(None) };
}

/// Most neighbours of a query that is answered on the thread that read it.
const AT_ONCE_MAX: usize = 100;

/// A collection that is served.
pub(crate) struct Collection {
    pub(crate) name: String,
    pub(crate) settings: Settings,
    pub(crate) ids: IdForm,
    pub(crate) writes: Writes,
    reader: Reader,
    /// Rows that live, as of the last write.
    live: Arc<AtomicU64>,
}

impl Collection {
    /// Serves an engine.
    pub(crate) fn new(name: &str, engine: Engine) -> Result<Collection, Failure> {
        let (settings, reader) = (engine.settings().clone(), engine.reader());
        let live = Arc::new(AtomicU64::new(engine.stats().index.live));
        let ids = IdForm { kind: settings.schema.id, hash: settings.schema.name_hash() };
        let writes = Writes::begin(name, engine, live.clone())?;
        Ok(Collection { name: name.to_owned(), settings, ids, writes, reader, live })
    }

    /// Opens the engine of a folder.
    pub(crate) fn open(name: &str, directory: &Path) -> Result<Collection, Failure> {
        Collection::new(name, Engine::open(directory)?)
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

    /// Answers a query with its rows.
    pub(crate) fn answer(&self, query: &Query<'_>, with: &With) -> Result<Answer, Error> {
        let mut scratch = SCRATCH.take().unwrap_or_default();
        let answer = self.reader.answer(query, with, &mut scratch);
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
