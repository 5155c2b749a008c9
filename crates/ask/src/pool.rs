//! Several readers of one job, for several threads.

use std::fmt;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use vstream_settings::CollectionSettings;

use crate::error::AskError;
use crate::question::Question;
use crate::reader::{Answer, JobReader, ReadOptions};

/// For a question whose rows do not fit into the answer of a partition.
const TOO_LONG: &str =
    "a partition's answer carries 16 MiB of payload and attributes, and these rows have more: \
                        ask for fewer rows, or for less of them";
/// Time for a question that waited for its reader until it was due.
const LEAST: Duration = Duration::from_millis(1);
/// For a question whose answer lacks rows that it wants.
const UNREACHED: &str = "rows of a remote level of the job cannot be reached";

/// Readers of one job, each of which has a connection to every partition; a thread borrows one for a
/// question. A partition takes 64 connections from all who ask it, unless its job says otherwise.
pub struct JobReaders {
    checkpoints: String,
    search: String,
    options: ReadOptions,
    most: usize,
    kept: Mutex<Kept>,
    given_back: Condvar,
}

#[derive(Default)]
struct Kept {
    /// Those that nobody uses now.
    idle: Vec<JobReader>,
    in_use: usize,
}

impl JobReaders {
    /// Connects to the job, and says what its collection is like.
    ///
    /// * `checkpoints`, `search`, `options`: as for [`JobReader::new`].
    /// * `most`: readers that ask at once; further questions wait for one.
    ///
    /// Errors: those of [`JobReader::new`], [`JobReader::greet`] and [`JobReader::collection`].
    pub fn connect(
        checkpoints: &str,
        search: &str,
        options: ReadOptions,
        most: usize,
    ) -> Result<(JobReaders, CollectionSettings), AskError> {
        let mut reader = JobReader::new(checkpoints, search, options.clone())?;
        reader.greet()?;
        let collection = reader.collection()?;
        let readers = JobReaders {
            checkpoints: checkpoints.to_owned(),
            search: search.to_owned(),
            options,
            most: most.max(1),
            kept: Mutex::new(Kept { idle: vec![reader], in_use: 0 }),
            given_back: Condvar::new(),
        };
        Ok((readers, collection))
    }

    /// Asks for the nearest rows, with a reader as soon as one is free.
    ///
    /// * `due`: until when the question is asked again where a partition gives no answer.
    ///
    /// Errors: those of [`JobReader::search`], `Unavailable` if no reader is free until then.
    pub fn search(&self, question: &Question<'_>, due: Instant) -> Result<Answer, AskError> {
        let left = || due.saturating_duration_since(Instant::now()).max(LEAST);
        self.with(due, |reader| reader.search_within(question, left()))
    }

    /// Has a reader ask.
    fn with<T>(
        &self,
        due: Instant,
        ask: impl FnOnce(&mut JobReader) -> Result<T, AskError>,
    ) -> Result<T, AskError> {
        let mut kept = self.kept();
        while kept.in_use >= self.most {
            let left = due.saturating_duration_since(Instant::now());
            if left.is_zero() {
                let why = "other searches of the job take too long";
                return Err(AskError::Unavailable(why.to_owned()));
            }
            let waited = self.given_back.wait_timeout(kept, left);
            kept = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        kept.in_use += 1;
        let idle = kept.idle.pop();
        drop(kept);
        // Given back whatever happens: a reader that panicked is dropped.
        let _turn = Turn(self);
        let mut reader = idle.map_or_else(
            || JobReader::new(&self.checkpoints, &self.search, self.options.clone()),
            Ok,
        )?;
        let done = ask(&mut reader);
        self.kept().idle.push(reader);
        done
    }

    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for JobReaders {
    /// Without the key.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("JobReaders").field("checkpoints", &self.checkpoints).finish_non_exhaustive()
    }
}

/// The turn of one question.
struct Turn<'a>(&'a JobReaders);

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        self.0.kept().in_use -= 1;
        self.0.given_back.notify_one();
    }
}

impl Answer {
    /// The answer, if its rows carry all that was asked for.
    ///
    /// * `may_be_partial`: whether rows of a remote level may be missing.
    ///
    /// Errors: `Unavailable` if some are and may not, `Refused` if fields did not fit.
    pub fn whole(self, may_be_partial: bool) -> Result<Answer, AskError> {
        if self.is_partial && !may_be_partial {
            return Err(AskError::Unavailable(UNREACHED.to_owned()));
        }
        if self.rows.iter().any(|row| row.is_left_out) {
            return Err(AskError::Refused(TOO_LONG.to_owned()));
        }
        Ok(self)
    }
}
