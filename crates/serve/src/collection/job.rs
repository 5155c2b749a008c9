//! The rows of a running job, which is asked over the network.

use std::fmt;
use std::path::PathBuf;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use vstream_ask::{AskError, Effort, JobReader, Question, ReadOptions};
use vstream_engine::{
    Answer, Effort as EngineEffort, Engine, Neighbor, Query, Schema, Settings, StoredRow, With,
    WithAttributes,
};

use super::{Collection, Found, Terms};
use crate::failure::Failure;

/// Searches that ask the job at once; others wait. A partition takes 64 connections, from all who ask it.
const READERS_MAX: usize = 16;
/// What a question gets whose rows do not fit into the answer of a partition.
const TOO_LONG: &str =
    "a partition's answer carries 16 MiB of payload and attributes, and these rows have more: \
                        ask for fewer rows, or for less of them";

/// The running job whose rows a server gives.
#[derive(Clone)]
pub struct JobSettings {
    /// Folder of the job's checkpoints.
    pub checkpoints: String,
    /// Name of the search; empty for the one search of a program without a name.
    pub search: String,
    /// The name that the collection has here.
    pub collection: String,
    /// The key that the job's partitions know; empty for none.
    pub key: String,
    /// PEM file with the certificate that partitions have, or of who signed it; `None` for no TLS.
    pub certificates: Option<PathBuf>,
    /// Until when a question is asked again where a partition gives no answer: at most a minute.
    pub deadline: Duration,
}

impl JobSettings {
    /// A job on this machine, as the collection `job`.
    pub fn new(checkpoints: &str) -> JobSettings {
        JobSettings {
            checkpoints: checkpoints.to_owned(),
            search: String::new(),
            collection: "job".to_owned(),
            key: String::new(),
            certificates: None,
            deadline: Duration::from_secs(5),
        }
    }

    /// A reader, which asks nothing yet.
    fn reader(&self) -> Result<JobReader, AskError> {
        let options = ReadOptions {
            key: self.key.clone(),
            certificates: self.certificates.clone(),
            deadline: self.deadline,
        };
        JobReader::new(&self.checkpoints, &self.search, options)
    }
}

impl fmt::Debug for JobSettings {
    /// Without the key.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("JobSettings")
            .field("checkpoints", &self.checkpoints)
            .finish_non_exhaustive()
    }
}

/// The rows of a running job.
pub(crate) struct JobRows {
    settings: JobSettings,
    readers: Mutex<Readers>,
    given_back: Condvar,
}

/// Each has a connection to every partition.
#[derive(Default)]
struct Readers {
    /// Those that nobody uses now.
    idle: Vec<JobReader>,
    in_use: usize,
}

impl JobRows {
    /// Asks the job what its collection is like. Errors: `SERVICE_UNAVAILABLE` if no job answers in time,
    /// `BAD_REQUEST` for settings that cannot be.
    fn open(settings: &JobSettings) -> Result<(JobRows, Settings), Failure> {
        let mut reader = settings.reader()?;
        reader.greet()?;
        let of = reader.collection()?;
        let readers = Mutex::new(Readers { idle: vec![reader], in_use: 0 });
        let rows = JobRows { settings: settings.clone(), readers, given_back: Condvar::new() };
        let settings = Settings {
            schema: Arc::new(of.schema.clone()),
            recall_target: of.recall_target,
            ..Settings::new(of.dimension, of.metric, of.element)
        };
        Ok((rows, settings))
    }

    /// Has a reader ask, as soon as one is free. Errors: those of `ask`, `SERVICE_UNAVAILABLE` if none is free
    /// in time.
    fn with<T>(
        &self,
        due: Instant,
        ask: impl FnOnce(&mut JobReader) -> Result<T, AskError>,
    ) -> Result<T, Failure> {
        let mut readers = self.readers();
        while readers.in_use >= READERS_MAX {
            let left = due.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(Failure::busy("other searches of the job take too long"));
            }
            let waited = self.given_back.wait_timeout(readers, left);
            readers = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        readers.in_use += 1;
        let idle = readers.idle.pop();
        drop(readers);
        // Given back whatever happens: a reader that panicked is dropped.
        let _turn = Turn(self);
        let mut reader = idle.map_or_else(|| self.settings.reader(), Ok)?;
        let done = ask(&mut reader);
        self.readers().idle.push(reader);
        Ok(done?)
    }

    fn readers(&self) -> MutexGuard<'_, Readers> {
        self.readers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Asks the job. Blocks.
    ///
    /// Errors: `BAD_REQUEST` for what a job cannot be asked, and for rows too long for an answer; `SERVICE_UNAVAILABLE` if it gives no answer in
    /// time, or none of all rows where a request does not allow that.
    pub(super) fn answer(
        &self,
        schema: &Schema,
        query: &Query<'_>,
        with: &With,
        terms: &Terms,
    ) -> Result<Found, Failure> {
        if with.vector {
            return Err(Failure::bad("a job gives no vectors: leave out with_vector"));
        }
        let columns: Vec<u16> = match &with.attributes {
            WithAttributes::None => Vec::new(),
            WithAttributes::All => (0..schema.attributes.len() as u16).collect(),
            WithAttributes::Of(columns) => columns.clone(),
        };
        let question = Question {
            effort: match query.effort {
                EngineEffort::Exact => Effort::Exact,
                _ => Effort::Auto,
            },
            filter: query.filter,
            radius: query.radius,
            columns: &columns,
            payload: with.payload,
            least: terms.frontier.as_ref(),
            ..Question::new(query.vector, query.k)
        };
        let due = terms.deadline.min(Instant::now() + self.settings.deadline);
        let found = self.with(due, |reader| {
            let left = due.saturating_duration_since(Instant::now());
            reader.search_within(&question, left.max(Duration::from_millis(1)))
        })?;
        if found.is_partial && !terms.may_be_partial {
            return Err(Failure::busy("rows of a remote level of the job cannot be reached"));
        }
        if found.rows.iter().any(|row| row.is_left_out) {
            return Err(Failure::bad(TOO_LONG));
        }
        let frontier = Some((found.frontier, found.is_partial));
        let neighbors = found.rows.iter();
        let neighbors = neighbors.map(|row| Neighbor {
            id: row.id,
            version: row.version,
            distance: row.distance,
        });
        let answer = Answer {
            neighbors: neighbors.collect(),
            rows: found.rows.into_iter().map(stored).collect(),
            ..Answer::default()
        };
        Ok(Found { answer, left_out: 0, frontier })
    }
}

/// The turn of one search.
struct Turn<'a>(&'a JobRows);

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        self.0.readers().in_use -= 1;
        self.0.given_back.notify_one();
    }
}

fn stored(row: vstream_ask::Row) -> StoredRow {
    StoredRow { id: row.id, version: row.version, vector: None, fields: row.fields }
}

impl From<AskError> for Failure {
    fn from(error: AskError) -> Failure {
        match error {
            AskError::Refused(why) => Failure::bad(why),
            // That the job has another key is no fault of who asks here.
            AskError::Locked(why) | AskError::Unavailable(why) => Failure::busy(why),
        }
    }
}

impl Collection {
    /// The collection of a running job. It has an engine without rows, which knows what rows carry. Errors:
    /// `SERVICE_UNAVAILABLE` if no job answers in time, `BAD_REQUEST` for settings that cannot be.
    pub(crate) fn of_job(settings: &JobSettings) -> Result<Collection, Failure> {
        let (rows, of) = JobRows::open(settings)?;
        let collection = Collection::new(&settings.collection, Engine::create(of)?, true)?;
        Ok(Collection { job: Some(rows), ..collection })
    }
}
