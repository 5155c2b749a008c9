//! Asks, again where that may help, and merges.

use std::collections::hash_map::Entry;
use std::collections::HashMap;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use rustls::ClientConfig;
use vstream_attribute::Grouping;
use vstream_settings::CollectionSettings;

use crate::client::PartitionClient;
use crate::error::{AskError, Attempt};
use crate::frontier::Frontier;
use crate::place::Place;
use crate::question::Question;
use crate::rank::{rank, Row};
use crate::reply::Reply;
use crate::tls;
use crate::view::View;

const K_MAX: usize = 1_000;
/// The longest that a partition lets itself be told to wait.
const DEADLINE_MAX: Duration = Duration::from_secs(60);
const KEY_BYTES_MAX: usize = 1 << 10;
/// The pause before a question is asked again.
const RETRY: Duration = Duration::from_millis(20);
/// What is said where the first attempt took all the time.
const LATE: &str = "a partition took too long";
/// What is said where a key is wrong.
const LOCKED: &str = "a partition of the job does not take this key";
/// How often it looks whether partitions are elsewhere by now.
const LOOK: Duration = Duration::from_secs(5);

/// How a [`JobReader`] asks.
#[derive(Clone)]
pub struct ReadOptions {
    /// The key that the job's partitions know; empty for none.
    pub key: String,
    /// PEM file with the certificate that partitions have, or of who signed it; `None` for no TLS.
    pub certificates: Option<PathBuf>,
    /// Until when a question is asked again where a partition gives no answer: at most a minute.
    pub deadline: Duration,
}

impl Default for ReadOptions {
    /// For a job on this machine: no key, no TLS, 5 seconds.
    fn default() -> ReadOptions {
        let deadline = Duration::from_secs(5);
        ReadOptions { key: String::new(), certificates: None, deadline }
    }
}

impl fmt::Debug for ReadOptions {
    /// Without the key.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ReadOptions").field("deadline", &self.deadline).finish_non_exhaustive()
    }
}

/// What a job answers.
#[derive(Clone, Debug, PartialEq)]
pub struct Answer {
    /// The nearest rows, nearest first, ties by id.
    pub rows: Vec<Row>,
    /// How many partitions were asked.
    pub fan_out: usize,
    /// Whether rows of a remote level are missing.
    pub is_partial: bool,
    /// How much of the vector stream all of these partitions had applied.
    pub frontier: Frontier,
}

/// Asks a running job. An answer holds the rows of one moment of each partition that was asked; it is at
/// most a tenth of a second behind what the job has applied.
///
/// One question at a time, over a connection for each partition: [`JobReaders`](crate::JobReaders) has
/// several for several threads.
pub struct JobReader {
    place: Place,
    options: ReadOptions,
    tls: Option<Arc<ClientConfig>>,
    clients: HashMap<usize, PartitionClient>,
    view: Option<View>,
    looked: Instant,
}

impl JobReader {
    /// Asks nothing yet.
    ///
    /// * `checkpoints`: folder of the job's checkpoints, a path or an address that begins with `file:` or
    ///   `s3://`. Endpoint, region and credentials of an object store come from the environment, as
    ///   [`Location`](vstream_store::remote::Location) says.
    /// * `search`: name of the search; empty for the one search of a program without a name.
    ///
    /// Errors: `Refused` for options or a folder that cannot be.
    pub fn new(
        checkpoints: &str,
        search: &str,
        options: ReadOptions,
    ) -> Result<JobReader, AskError> {
        let refused = |what: &str| Err(AskError::Refused(what.to_owned()));
        if options.deadline.is_zero() || options.deadline > DEADLINE_MAX {
            return refused("the deadline of a question is 1 ms to 60 s");
        }
        if options.key.len() > KEY_BYTES_MAX {
            return refused("the key is too long");
        }
        let tls = options.certificates.as_deref().map(tls::trusting);
        Ok(JobReader {
            place: Place::of(checkpoints, search).map_err(AskError::Refused)?,
            tls: tls.transpose().map_err(AskError::Refused)?,
            options,
            clients: HashMap::new(),
            view: None,
            looked: Instant::now(),
        })
    }

    /// Settings of the job's collection. Errors: `Unavailable` if no job has published where it answers
    /// until the deadline.
    pub fn collection(&mut self) -> Result<CollectionSettings, AskError> {
        self.until_due(self.options.deadline, |reader, _| Ok(reader.view()?.collection.clone()))
    }

    /// Connects to every partition. Errors: `Locked` if the key is wrong, `Unavailable` if one of them cannot
    /// be reached until the deadline.
    pub fn greet(&mut self) -> Result<(), AskError> {
        self.until_due(self.options.deadline, |reader, due| {
            let count = reader.view()?.addresses.len();
            (0..count).try_for_each(|partition| reader.client(partition, due).map(drop))
        })
    }

    /// Asks for the nearest rows.
    ///
    /// Errors: `Refused` if the question is wrong, `Locked` if the key is, `Unavailable` if there is no answer
    /// until the deadline.
    pub fn search(&mut self, question: &Question<'_>) -> Result<Answer, AskError> {
        self.search_within(question, self.options.deadline)
    }

    /// Asks with another deadline than that of the options: at most a minute. Errors: as
    /// [`JobReader::search`].
    pub fn search_within(
        &mut self,
        question: &Question<'_>,
        deadline: Duration,
    ) -> Result<Answer, AskError> {
        let deadline = deadline.min(DEADLINE_MAX);
        self.until_due(deadline, |reader, due| reader.ask(question, due))
    }

    fn until_due<T>(
        &mut self,
        deadline: Duration,
        mut attempt: impl FnMut(&mut JobReader, Instant) -> Result<T, Attempt>,
    ) -> Result<T, AskError> {
        let due = Instant::now() + deadline;
        let mut why = LATE.to_owned();
        loop {
            match attempt(self, due) {
                Ok(done) => return Ok(done),
                Err(Attempt::Refused(why)) => {
                    self.forget();
                    return Err(AskError::Refused(why));
                }
                Err(Attempt::Changed) => {
                    self.forget();
                    return Err(AskError::Changed);
                }
                Err(Attempt::Locked) => {
                    self.forget();
                    return Err(AskError::Locked(LOCKED.to_owned()));
                }
                Err(Attempt::Again(now)) => why = now,
                // What an attempt before this one was told says more.
                Err(Attempt::Late) => {}
            }
            self.forget();
            thread::sleep(RETRY);
            if Instant::now() >= due {
                return Err(AskError::Unavailable(format!(
                    "the job whose checkpoints are beside {} gave no answer in {} ms: {why}",
                    self.place,
                    deadline.as_millis()
                )));
            }
        }
    }

    fn ask(&mut self, question: &Question<'_>, due: Instant) -> Result<Answer, Attempt> {
        let wait = due.saturating_duration_since(Instant::now()).as_millis();
        let view = self.view()?;
        check(question, view)?;
        let chosen = view.choose(question.vector, question.is_everywhere())?;
        let bytes = question.to_bytes(wait as i32, view.has_names());
        let replies = self.replies(&chosen, &bytes, due)?;
        if !self.view.as_ref().is_some_and(|view| view.fits(&replies)) {
            return Err(Attempt::again("rows are changing partition"));
        }
        let is_partial = replies.iter().any(|reply| reply.is_incomplete);
        let frontier = replies.iter().map(|reply| reply.frontier.clone());
        let frontier = frontier.reduce(|one, other| one.min(&other)).unwrap_or_default();
        let rows = rank(replies.into_iter().map(|reply| reply.rows).collect(), question.k);
        Ok(Answer { rows, fan_out: chosen.len(), is_partial, frontier })
    }

    /// Asks all of them, and then waits for each.
    fn replies(
        &mut self,
        chosen: &[usize],
        question: &[u8],
        due: Instant,
    ) -> Result<Vec<Reply>, Attempt> {
        for partition in chosen {
            self.client(*partition, due)?.ask(question)?;
        }
        chosen.iter().map(|partition| self.client(*partition, due)?.answer(due)).collect()
    }

    /// The connection to a partition.
    fn client(&mut self, partition: usize, due: Instant) -> Result<&mut PartitionClient, Attempt> {
        match self.clients.entry(partition) {
            Entry::Occupied(entry) => Ok(entry.into_mut()),
            Entry::Vacant(entry) => {
                let view = self.view.as_ref().ok_or_else(|| Attempt::again("nothing is known"))?;
                let (tls, key) = (self.tls.as_ref(), self.options.key.as_str());
                let address = &view.addresses[partition];
                Ok(entry.insert(PartitionClient::connect(address, tls, key, due)?))
            }
        }
    }

    fn view(&mut self) -> Result<&View, Attempt> {
        if let Some(view) = &self.view {
            if self.looked.elapsed() > LOOK {
                let is_current = view.is_current(&self.place);
                // From its end on, so that a store that is slow takes a small part of the time.
                self.looked = Instant::now();
                if !is_current {
                    self.forget();
                }
            }
        }
        if self.view.is_none() {
            self.view = Some(View::read(&self.place)?);
            self.looked = Instant::now();
        }
        self.view.as_ref().ok_or_else(|| Attempt::again("nothing is known"))
    }

    /// Lets go of all that is known, since some of it is no longer true.
    fn forget(&mut self) {
        self.clients.clear();
        self.view = None;
    }
}

/// Errors: `Refused` for what no partition would answer, `Changed` if it is made for another collection.
fn check(question: &Question<'_>, view: &View) -> Result<(), Attempt> {
    let refused = |what: String| Err(Attempt::Refused(what));
    if !(1..=K_MAX).contains(&question.k) {
        return refused(format!("k is {}: ask for 1 to {K_MAX} rows", question.k));
    }
    let is_other = |of: &CollectionSettings| {
        let now = &view.collection;
        (of.dimension, of.metric) != (now.dimension, now.metric) || of.schema != now.schema
    };
    if question.of.is_some_and(is_other) {
        return Err(Attempt::Changed);
    }
    if view.collection.schema.grouping == Grouping::Isolated {
        return refused("isolated groups are asked through the topic of the job".to_owned());
    }
    let (has, wanted) = (question.vector.len(), view.collection.dimension);
    if has != wanted {
        return refused(format!("the vector has {has} elements; the collection has {wanted}"));
    }
    if question.radius.is_some_and(f32::is_nan) {
        return refused("the radius is not a number: give a distance".to_owned());
    }
    match question.vector.iter().position(|element| !element.is_finite()) {
        Some(at) => refused(format!("element {at} of the vector is not finite")),
        None => Ok(()),
    }
}
