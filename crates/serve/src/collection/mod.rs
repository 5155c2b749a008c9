//! One collection: a thread that writes, and readers that never wait for it.

mod ids;
mod job;
mod progress;
mod writing;

use std::cell::Cell;
use std::collections::HashSet;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::Arc;
use std::time::Instant;

use tokio::sync::{Semaphore, SemaphorePermit};
use vstream_ask::Frontier;
use vstream_engine::{
    inspect, inspect_collection, Answer, Durability, Effort, Engine, Error, ErrorKind, Filter,
    IdKind, Journaling, Neighbor, Page, PushedCollection, Query, ReadSnapshot, Reader, RowId,
    Scratch, Settings, SnapshotSummary, Stats, StoredRow, With, READ_ROWS_MAX,
};

pub(crate) use self::ids::{IdForm, PointId};
use self::job::JobRows;
pub use self::job::JobSettings;
pub(crate) use self::progress::{now_ms, Progress};
pub(crate) use self::writing::Writes;
use crate::failure::Failure;

thread_local! {
    /// Taken out while a search runs: one that panics leaves nothing half-changed behind.
    static SCRATCH: Cell<Option<Box<Scratch>>> = const { Cell::new(None) };
}

/// Most neighbours of a query that is answered on the thread that read it.
const AT_ONCE_MAX: usize = 100;

/// Rows that are read together, of a page at first, and at most, and bytes after which a page ends: each row may have a
/// payload of 1 MiB.
const TOGETHER: usize = 32;
pub(crate) const TOGETHER_MAX: usize = 256;
const PAGE_BYTES: usize = 32 << 20;
/// Most bytes of the points of an answer.
pub(crate) const ANSWER_BYTES_MAX: usize = 256 << 20;

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

/// Makes of a row what an answer has of it, and says how many bytes that takes.
pub(crate) type Make<'a, T> = &'a mut dyn FnMut(StoredRow) -> (T, usize);

/// What an answer must be.
pub(crate) struct Terms {
    /// Whether rows may be left out because their far store gives no answer.
    pub(crate) may_be_partial: bool,
    /// Of a job: how much of its topic must be behind the answer.
    pub(crate) frontier: Option<Frontier>,
    pub(crate) deadline: Instant,
}

/// An answer, and of which moment it is.
///
/// * `T`: what was made of each row.
pub(crate) struct Found<T> {
    /// The nearest rows, nearest first.
    pub(crate) neighbors: Vec<Neighbor>,
    /// The same rows.
    pub(crate) rows: Vec<T>,
    /// Living rows that were left out.
    pub(crate) left_out: u64,
    /// Of a job: how much of its topic is behind the answer, and whether rows are left out.
    pub(crate) frontier: Option<(Frontier, bool)>,
}

/// A collection that is served.
pub(crate) struct Collection {
    pub(crate) name: String,
    pub(crate) settings: Settings,
    pub(crate) ids: IdForm,
    pub(crate) writes: Writes,
    pub(crate) progress: Arc<Progress>,
    /// The job that has the rows; `None`: the engine has them.
    job: Option<JobRows>,
    /// Number of the collection, which another one under the same name does not have; 0 for a snapshot.
    pub(crate) epoch: u64,
    reader: Reader,
    /// Rows that live, as of the last write.
    live: Arc<AtomicU64>,
    /// Has a permit unless the metrics wait for figures.
    asks: Semaphore,
}

impl Collection {
    /// Serves an engine.
    ///
    /// * `is_replica`: whether another engine writes.
    pub(crate) fn new(name: &str, engine: Engine, is_replica: bool) -> Result<Collection, Failure> {
        let progress = Progress::new(engine.sequence(), is_replica);
        Collection::with_progress(name, engine, progress)
    }

    fn with_progress(
        name: &str,
        engine: Engine,
        progress: Progress,
    ) -> Result<Collection, Failure> {
        let (settings, reader) = (engine.settings().clone(), engine.reader());
        let live = Arc::new(AtomicU64::new(engine.stats().index.live));
        let ids = IdForm { kind: settings.schema.id, hash: settings.schema.name_hash() };
        let progress = Arc::new(progress);
        let epoch = engine.collection().unwrap_or(0);
        let writes = Writes::begin(name, engine, live.clone(), progress.clone())?;
        let name = name.to_owned();
        let (job, asks) = (None, Semaphore::new(1));
        Ok(Collection { name, settings, ids, writes, progress, job, epoch, reader, live, asks })
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

    /// Opens a push. How old it is, nobody knows.
    pub(crate) fn of_pushed(pushed: &PushedCollection) -> Result<Collection, Failure> {
        let engine = pushed.open()?;
        let progress = Progress::of_push(engine.sequence());
        Collection::with_progress(&pushed.name(), engine, progress)
    }

    pub(crate) fn reader(&self) -> &Reader {
        &self.reader
    }

    /// Rows that live; `None` where a job has them, which does not say.
    pub(crate) fn live(&self) -> Option<u64> {
        self.job.is_none().then(|| self.live.load(Ordering::Relaxed))
    }

    /// True if a job has the rows.
    pub(crate) fn is_of_job(&self) -> bool {
        self.job.is_some()
    }

    /// Errors: `BAD_REQUEST` where a job has the rows.
    fn check_listed(&self) -> Result<(), Failure> {
        let what =
            "a job finds its rows by vectors: it does not list them, count them or give them by id";
        if self.is_of_job() {
            Err(Failure::bad(what))
        } else {
            Ok(())
        }
    }

    /// The engine's figures. Waits for the thread that writes.
    pub(crate) async fn stats(&self) -> Result<Stats, Failure> {
        self.writes.now(|rows| rows.stats()).await
    }

    /// Lets one ask for figures at a time: they wait for the writes before them.
    pub(crate) fn begin_to_ask(&self) -> Option<SemaphorePermit<'_>> {
        self.asks.try_acquire().ok()
    }

    /// True if a query is so short that the thread that read it answers it: its rows are in memory.
    pub(crate) fn answers_at_once(&self, query: &Query<'_>) -> bool {
        let is_short = query.effort != Effort::Exact && query.filter.is_none();
        let is_here = self.settings.memory.is_none() && self.job.is_none();
        is_short && query.k <= AT_ONCE_MAX && is_here
    }

    /// Answers a query with its rows. Errors: those of reading, and `PAYLOAD_TOO_LARGE` above [`ANSWER_BYTES_MAX`].
    pub(crate) fn answer<T>(
        &self,
        query: &Query<'_>,
        with: &With,
        terms: &Terms,
        make: Make<'_, T>,
    ) -> Result<Found<T>, Failure> {
        if let Some(job) = &self.job {
            let found = job.answer(&self.settings.schema, query, with, terms)?;
            let Found { neighbors, rows, left_out, frontier } = found;
            let rows = rows.into_iter().map(|row| make(row).0).collect();
            return Ok(Found { neighbors, rows, left_out, frontier });
        }
        let mut scratch = SCRATCH.take().unwrap_or_default();
        let moment = self.reader.read_snapshot();
        let mut found = search(&moment, query, with, &mut scratch, make);
        let is_away = |error: &Error| error.kind() == ErrorKind::Unavailable;
        if terms.may_be_partial && found.as_ref().is_err_and(is_away) {
            let (rows, left_out) = self.reader.reachable();
            let some = search(&rows, query, with, &mut scratch, make);
            found = some.map(|some| some.map(|some| Found { left_out, ..some }));
        }
        SCRATCH.set(Some(scratch));
        found?.ok_or_else(Failure::large_answer)
    }

    /// The ids that a request means by those it gives. Another face may have given a point a UUID in any form, and such a
    /// point is meant by that form; else a UUID means the point that has its usual form. Errors: those of reading.
    ///
    /// Cost: nothing for numbers and usual forms; for the others a look-up, which may wait for the disk.
    pub(crate) fn meant(&self, mut ids: Vec<PointId>) -> Result<Vec<PointId>, Failure> {
        if self.ids.kind != IdKind::String {
            return Ok(ids);
        }
        let usual = ids.iter().enumerate().filter_map(|(at, id)| Some((at, id.usual()?)));
        let usual: Vec<(usize, PointId)> = usual.collect();
        for some in usual.chunks(READ_ROWS_MAX) {
            let keys = some.iter().map(|(at, _)| self.ids.row_id(&ids[*at]));
            let keys = keys.collect::<Result<Vec<_>, _>>()?;
            let is_there = match self.is_of_job() {
                true => vec![false; keys.len()],
                false => {
                    let get = || self.get(&keys, &With::default());
                    tokio::task::block_in_place(get)?.iter().map(Option::is_some).collect()
                }
            };
            for ((at, usual), is_there) in some.iter().zip(is_there) {
                if !is_there {
                    ids[*at] = usual.clone();
                }
            }
        }
        Ok(ids)
    }

    /// The id that a request means by one it gives. Errors: as [`Collection::meant`].
    pub(crate) fn meant_by(&self, id: &PointId) -> Result<PointId, Failure> {
        let meant = self.meant(vec![id.clone()])?.pop();
        meant.ok_or_else(|| Failure::broken("an id was lost"))
    }

    /// The rows of some ids.
    pub(crate) fn get(
        &self,
        ids: &[RowId],
        with: &With,
    ) -> Result<Vec<Option<StoredRow>>, Failure> {
        self.check_listed()?;
        Ok(self.reader.get(ids, with)?)
    }

    /// The rows of some ids that are there, each once. Errors: `PAYLOAD_TOO_LARGE` above [`ANSWER_BYTES_MAX`].
    pub(crate) fn rows<T>(
        &self,
        ids: &[PointId],
        with: &With,
        make: Make<'_, T>,
    ) -> Result<Vec<T>, Failure> {
        self.check_listed()?;
        let mut keys = self.ids.row_ids(&self.meant(ids.to_vec())?)?;
        let mut seen = HashSet::with_capacity(keys.len());
        keys.retain(|key| seen.insert((key.id, key.check)));
        let rows = bounded(&self.reader.read_snapshot(), &keys, with, make)?;
        rows.ok_or_else(Failure::large_answer)
    }

    /// The first rows in the order of ids. Errors: as [`Collection::rows`].
    pub(crate) fn first<T>(
        &self,
        filter: Option<&Filter>,
        limit: usize,
        with: &With,
        make: Make<'_, T>,
    ) -> Result<Vec<T>, Failure> {
        self.check_listed()?;
        let moment = self.reader.read_snapshot();
        let ids = moment.scroll(filter, None, limit, &With::default())?.rows;
        let keys: Vec<RowId> = ids.iter().map(key).collect();
        bounded(&moment, &keys, with, make)?.ok_or_else(Failure::large_answer)
    }

    /// Some rows in the order of ids.
    pub(crate) fn scroll(
        &self,
        filter: Option<&Filter>,
        after: Option<u64>,
        limit: usize,
        with: &With,
    ) -> Result<Page, Failure> {
        self.check_listed()?;
        Ok(self.reader.scroll(filter, after, limit, with)?)
    }

    /// Some rows in the order of ids, of one moment; none after those whose payloads and vectors come to
    /// [`PAGE_BYTES`]. Also whether these are fewer than were asked for and are there.
    pub(crate) fn page(
        &self,
        filter: Option<&Filter>,
        after: Option<u64>,
        limit: usize,
        with: &With,
    ) -> Result<(Vec<StoredRow>, bool), Failure> {
        if limit <= TOGETHER || !(with.payload || with.vector) {
            return Ok((self.scroll(filter, after, limit, with)?.rows, false));
        }
        self.check_listed()?;
        let moment = self.reader.read_snapshot();
        let ids = moment.scroll(filter, after, limit, &With::default())?.rows;
        let (mut rows, mut bytes) = (Vec::with_capacity(ids.len()), 0);
        let mut left = &ids[..];
        while !left.is_empty() {
            // Half as many as there is room for if the next are like these.
            let room = rows.len() * (PAGE_BYTES - bytes) / (2 * bytes).max(1);
            let (next, later) = left.split_at(left.len().min(room.clamp(TOGETHER, TOGETHER_MAX)));
            left = later;
            let keys: Vec<RowId> = next.iter().map(key).collect();
            for row in moment.get(&keys, with)?.into_iter().flatten() {
                bytes += bytes_of(&row);
                rows.push(row);
                if bytes >= PAGE_BYTES {
                    // All are there: they are of one moment.
                    let is_cut = rows.len() < ids.len();
                    return Ok((rows, is_cut));
                }
            }
        }
        Ok((rows, false))
    }

    /// How many rows match.
    pub(crate) fn count(&self, filter: Option<&Filter>) -> Result<u64, Failure> {
        self.check_listed()?;
        Ok(self.reader.count(filter)?)
    }
}

/// The id of a row that was read.
pub(crate) fn key(row: &StoredRow) -> RowId {
    RowId { id: row.id, check: row.fields.fields().check }
}

/// What an answer has of the rows of some ids that are there; `None` above [`ANSWER_BYTES_MAX`]. Errors: those of reading.
fn bounded<T>(
    moment: &ReadSnapshot,
    keys: &[RowId],
    with: &With,
    make: Make<'_, T>,
) -> Result<Option<Vec<T>>, Error> {
    let (mut all, mut bytes) = (Vec::with_capacity(keys.len()), 0);
    for some in keys.chunks(TOGETHER_MAX) {
        for row in moment.get(some, with)?.into_iter().flatten() {
            let (made, its_bytes) = make(row);
            bytes += its_bytes;
            all.push(made);
        }
        if bytes > ANSWER_BYTES_MAX {
            return Ok(None);
        }
    }
    Ok(Some(all))
}

/// The nearest rows of a query, and what an answer has of them; `None` above [`ANSWER_BYTES_MAX`]. Errors: those of searching.
fn search<T>(
    moment: &ReadSnapshot,
    query: &Query<'_>,
    with: &With,
    scratch: &mut Scratch,
    make: Make<'_, T>,
) -> Result<Option<Found<T>>, Error> {
    let found = |neighbors, rows| Found { neighbors, rows, left_out: 0, frontier: None };
    if !with.payload || query.k <= TOGETHER_MAX {
        let Answer { neighbors, rows, .. } = moment.answer(query, with, scratch)?;
        let rows = rows.into_iter().map(|row| make(row).0).collect();
        return Ok(Some(found(neighbors, rows)));
    }
    let Answer { neighbors, rows, .. } = moment.answer(query, &With::default(), scratch)?;
    let keys: Vec<RowId> = rows.iter().map(key).collect();
    Ok(bounded(moment, &keys, with, make)?.map(|rows| found(neighbors, rows)))
}

fn bytes_of(row: &StoredRow) -> usize {
    let fields = row.fields.fields();
    4 * row.vector.as_ref().map_or(0, Vec::len)
        + fields.payload.map_or(0, <[u8]>::len)
        + fields.attributes.bytes().len()
}

/// Settings of an engine for the rows of a snapshot.
fn of_snapshot(summary: &SnapshotSummary) -> Settings {
    let settings = Settings::new(summary.dimension, summary.metric, summary.element);
    Settings { schema: summary.schema.clone(), ..settings }
}
