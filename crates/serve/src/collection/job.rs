//! The rows of a running job, which is asked over the network.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::Notify;
use vstream_ask::{AskError, CollectionSettings, Effort, JobReaders, Question, ReadOptions};
use vstream_engine::{
    Effort as EngineEffort, Engine, Neighbor, Query, Schema, Settings, StoredRow, With,
    WithAttributes,
};

use super::{Collection, Found, Terms};
use crate::failure::Failure;

/// Searches that ask the job at once; others wait. A partition takes 64 connections, from all who ask it.
const READERS_MAX: usize = 16;

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
    deadline: Duration,
    readers: JobReaders,
    /// What the job's collection was like when this connected.
    of: CollectionSettings,
    /// Is told when the job says that it is not like that any more.
    changed: Arc<Notify>,
}

impl JobRows {
    /// Asks the job what its collection is like. Errors: `SERVICE_UNAVAILABLE` if no job answers in time,
    /// `BAD_REQUEST` for settings that cannot be.
    fn open(settings: &JobSettings) -> Result<(JobRows, Settings), Failure> {
        let deadline = settings.deadline;
        let options = ReadOptions {
            key: settings.key.clone(),
            certificates: settings.certificates.clone(),
            deadline,
        };
        let (checkpoints, search) = (&settings.checkpoints, &settings.search);
        let (readers, of) = JobReaders::connect(checkpoints, search, options, READERS_MAX)?;
        let settings = Settings {
            schema: Arc::new(of.schema.clone()),
            recall_target: of.recall_target,
            ..Settings::new(of.dimension, of.metric, of.element)
        };
        Ok((JobRows { deadline, readers, of, changed: Arc::default() }, settings))
    }

    /// Asks the job. Blocks.
    ///
    /// Errors: `BAD_REQUEST` for what a job cannot be asked, and for rows too long for an answer;
    /// `SERVICE_UNAVAILABLE` if it gives no answer in time, or none of all rows where a request does not
    /// allow that.
    pub(super) fn answer(
        &self,
        schema: &Schema,
        query: &Query<'_>,
        with: &With,
        terms: &Terms,
    ) -> Result<Found<StoredRow>, Failure> {
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
            of: Some(&self.of),
            ..Question::new(query.vector, query.k)
        };
        let due = terms.deadline.min(Instant::now() + self.deadline);
        let found = self.readers.search(&question, due);
        if matches!(found, Err(AskError::Changed)) {
            self.changed.notify_one();
        }
        let found = found?.whole(terms.may_be_partial)?;
        let frontier = Some((found.frontier, found.is_partial));
        let neighbors = found.rows.iter();
        let neighbors = neighbors.map(|row| Neighbor {
            id: row.id,
            version: row.version,
            distance: row.distance,
        });
        let neighbors = neighbors.collect();
        let rows = found.rows.into_iter().map(stored).collect();
        Ok(Found { neighbors, rows, left_out: 0, frontier })
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
            AskError::Changed => Failure::busy(
                "the job was started again with another collection, which is read now",
            ),
        }
    }
}

impl Collection {
    /// Is told when the job of this has another collection; `None` where no job has the rows.
    pub(crate) fn job_changed(&self) -> Option<Arc<Notify>> {
        self.job.as_ref().map(|job| job.changed.clone())
    }

    /// The collection of a running job. It has an engine without rows, which knows what rows carry. Errors:
    /// `SERVICE_UNAVAILABLE` if no job answers in time, `BAD_REQUEST` for settings that cannot be.
    pub(crate) fn of_job(settings: &JobSettings) -> Result<Collection, Failure> {
        let (rows, of) = JobRows::open(settings)?;
        let collection = Collection::new(&settings.collection, Engine::create(of)?, true)?;
        Ok(Collection { job: Some(rows), ..collection })
    }
}
