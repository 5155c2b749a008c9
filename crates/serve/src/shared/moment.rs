//! Of which moment an answer is: what a request asks, and what its answer says.
//!
//! Both stand in headers, which clients of Qdrant neither send nor read.
//!
//! | request | what it asks |
//! |---|---|
//! | `vstream-min-sequence` | every write up to this sequence; else it waits |
//! | `vstream-wait-ms` | how long, 5 s unless it says so; `grpc-timeout` bounds it too |
//! | `vstream-freshness` | `latest`: every write that was applied; `committed`: none that a crash could take back |
//! | `vstream-min-offsets` | of a job: the next offset of each partition of its topic, with commas |
//! | `vstream-min-watermark` | of a job: all rows up to this event time, in milliseconds |
//! | `vstream-partial` | `allow`: the rows that can be reached, if a far store gives no answer |
//!
//! | answer | what it says |
//! |---|---|
//! | `vstream-sequence` | it has every write up to this one |
//! | `vstream-behind-ms` | 0 from a writer; from a replica how old what it knows of the writer is at most |
//! | `vstream-recall` | the recall that the audits estimate |
//! | `vstream-left-out` | living rows that a partial answer could not reach |
//! | `vstream-offsets`, `vstream-watermark` | of a job: how much of its topic is behind the answer |
//! | `vstream-partial` | `true`, of a job: rows of a remote level are missing |

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderValue};
use vstream_ask::Frontier;

use crate::collection::{Collection, Found, Terms};
use crate::failure::Failure;
use crate::observe::Changed;
use crate::shared::Counted;

const MIN_SEQUENCE: &str = "vstream-min-sequence";
const WAIT: &str = "vstream-wait-ms";
const MIN_OFFSETS: &str = "vstream-min-offsets";
const MIN_WATERMARK: &str = "vstream-min-watermark";
const FRESHNESS: &str = "vstream-freshness";
const PARTIAL: &str = "vstream-partial";
/// Wait for a sequence unless a request says otherwise.
const WAIT_DEFAULT: Duration = Duration::from_secs(5);

/// The moment that one request is about. Clones are the same.
#[derive(Clone)]
pub(crate) struct Moment(Arc<Inner>);

struct Inner {
    min_sequence: u64,
    frontier: Option<Frontier>,
    is_committed: bool,
    may_be_partial: bool,
    deadline: Instant,
    said: Mutex<Said>,
    changing: Mutex<Option<Changed>>,
    /// Room that the body takes, and the bytes of it.
    body: Mutex<Option<Counted>>,
}

/// What the answer says.
#[derive(Default)]
struct Said {
    sequence: Option<u64>,
    /// The outer one is `None` if the answer is of no moment.
    behind_ms: Option<Option<u64>>,
    recall: Option<f64>,
    left_out: u64,
    /// Of an answer of a job, and whether it is partial.
    frontier: Option<(Frontier, bool)>,
}

impl Moment {
    /// What a request asks.
    ///
    /// * `most`: the time that any request has.
    ///
    /// Errors: `BAD_REQUEST` for a header that cannot be read.
    pub(crate) fn of(headers: &HeaderMap, most: Duration) -> Result<Moment, Failure> {
        let text = |name: &str| headers.get(name).map(|value| value.to_str().unwrap_or_default());
        let number = |name: &str| {
            let parse = |text: &str| {
                text.parse::<u64>()
                    .map_err(|_| Failure::bad(format!("{name} is '{text}': give a whole number")))
            };
            text(name).map(parse).transpose()
        };
        let wait = number(WAIT)?.map_or(WAIT_DEFAULT, Duration::from_millis);
        let grpc = text("grpc-timeout").and_then(grpc_timeout).unwrap_or(most);
        let is_committed = match text(FRESHNESS) {
            None | Some("latest") => false,
            Some("committed") => true,
            Some(other) => {
                let what = format!("{FRESHNESS} is '{other}': choose latest or committed");
                return Err(Failure::bad(what));
            }
        };
        let may_be_partial = match text(PARTIAL) {
            None => false,
            Some("allow") => true,
            Some(other) => {
                return Err(Failure::bad(format!("{PARTIAL} is '{other}': it can be allow")));
            }
        };
        let frontier = frontier(text(MIN_OFFSETS), text(MIN_WATERMARK))?;
        Ok(Moment(Arc::new(Inner {
            min_sequence: number(MIN_SEQUENCE)?.unwrap_or(0),
            frontier,
            is_committed,
            may_be_partial,
            deadline: Instant::now() + wait.min(grpc).min(most),
            said: Mutex::default(),
            changing: Mutex::default(),
            body: Mutex::default(),
        })))
    }

    /// What an answer must be.
    pub(crate) fn terms(&self) -> Terms {
        Terms {
            may_be_partial: self.0.may_be_partial,
            frontier: self.0.frontier.clone(),
            deadline: self.0.deadline,
        }
    }

    /// Notes of which moment an answer is; of several answers, what is behind all of them.
    pub(crate) fn note_found<T>(&self, found: &Found<T>) {
        let mut said = self.said();
        said.left_out = said.left_out.max(found.left_out);
        let Some((frontier, is_partial)) = &found.frontier else { return };
        said.frontier = Some(match said.frontier.take() {
            None => (frontier.clone(), *is_partial),
            Some((other, was_partial)) => (other.min(frontier), was_partial || *is_partial),
        });
    }

    /// Errors: `BAD_REQUEST` if a request asks for a moment that rows of this kind do not have.
    fn check(&self, collection: &Collection) -> Result<(), Failure> {
        let (is_sequence, is_frontier) = (self.0.min_sequence > 0, self.0.frontier.is_some());
        match collection.is_of_job() {
            true if is_sequence || self.0.is_committed => Err(Failure::bad(format!(
                "a job has no sequences: ask for {MIN_OFFSETS} or {MIN_WATERMARK}"
            ))),
            false if is_frontier => Err(Failure::bad(format!(
                "{MIN_OFFSETS} and {MIN_WATERMARK} are for a job: ask for {MIN_SEQUENCE}"
            ))),
            _ => Ok(()),
        }
    }

    /// Notes of which moment an answer is that begins now; false if the collection does not have the
    /// writes that are asked for.
    ///
    /// Errors: `BAD_REQUEST` if rows of this kind do not have what is asked for.
    pub(crate) fn begins_at_once(&self, collection: &Collection) -> Result<bool, Failure> {
        self.check(collection)?;
        self.note(collection);
        Ok(collection.progress.applied() >= self.0.min_sequence)
    }

    /// Waits until the collection has the writes that are asked for, and notes of which moment an answer
    /// is that begins then. Errors: `PRECONDITION_FAILED` if the time is over first.
    pub(crate) async fn begin(&self, collection: &Collection) -> Result<(), Failure> {
        let (progress, wanted) = (&collection.progress, self.0.min_sequence);
        let is_here = progress.reached(wanted, self.0.deadline).await;
        self.note(collection);
        if is_here {
            return Ok(());
        }
        let at = progress.applied();
        Err(Failure::behind(format!("write {wanted} is not here yet: the last one is {at}")))
    }

    /// Waits until all that an answer may have seen is on the disk, if that is asked for. Errors:
    /// `PRECONDITION_FAILED` if the time is over first.
    pub(crate) async fn end(&self, collection: &Collection) -> Result<(), Failure> {
        if self.0.is_committed && !collection.progress.settled(self.0.deadline).await {
            return Err(Failure::behind("a write that the answer may show is not on the disk yet"));
        }
        Ok(())
    }

    /// Notes that a write is as durable as the collection says.
    pub(crate) fn wrote(&self, collection: &Collection) {
        let mut said = self.said();
        said.sequence = Some(collection.progress.committed());
        said.behind_ms = Some(collection.progress.behind_ms());
    }

    /// Counts the body as long as there is a clone of this.
    pub(crate) fn hold(&self, body: Counted) {
        *self.0.body.lock().unwrap_or_else(PoisonError::into_inner) = Some(body);
    }

    /// Bytes of the body, about.
    pub(crate) fn body_bytes(&self) -> usize {
        let body = self.0.body.lock().unwrap_or_else(PoisonError::into_inner);
        body.as_ref().map_or(0, Counted::bytes)
    }

    /// Notes what the request changes from here on, also if it fails or nobody waits for its answer.
    pub(crate) fn changes(&self, what: Changed) {
        *self.0.changing.lock().unwrap_or_else(PoisonError::into_inner) = Some(what);
    }

    /// What the request has begun to change, once.
    pub(crate) fn take_changed(&self) -> Option<Changed> {
        self.0.changing.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// Notes the recall that the audits estimate.
    pub(crate) fn note_recall(&self, recall: Option<f64>) {
        self.said().recall = recall;
    }

    fn note(&self, collection: &Collection) {
        if collection.is_of_job() {
            return;
        }
        let mut said = self.said();
        let progress = &collection.progress;
        said.sequence = Some(progress.applied());
        said.behind_ms = progress.has_age().then(|| progress.behind_ms());
    }

    /// Says in headers of which moment the answer is.
    pub(crate) fn say(&self, headers: &mut HeaderMap) {
        let said = self.said();
        let mut put = |name: &'static str, value: String| {
            if let Ok(value) = HeaderValue::from_str(&value) {
                headers.insert(name, value);
            }
        };
        if let Some(sequence) = said.sequence {
            put("vstream-sequence", sequence.to_string());
        }
        match said.behind_ms {
            Some(Some(ms)) => put("vstream-behind-ms", ms.to_string()),
            Some(None) => put("vstream-behind-ms", "unknown".to_owned()),
            None => {}
        }
        if let Some(recall) = said.recall {
            put("vstream-recall", format!("{recall:.4}"));
        }
        if said.left_out > 0 {
            put("vstream-left-out", said.left_out.to_string());
        }
        if let Some((frontier, is_partial)) = &said.frontier {
            let offsets: Vec<String> = frontier.offsets.iter().map(i64::to_string).collect();
            if !offsets.is_empty() {
                put("vstream-offsets", offsets.join(","));
            }
            if frontier.watermark != Frontier::NO_TIME {
                put("vstream-watermark", frontier.watermark.to_string());
            }
            if *is_partial {
                put(PARTIAL, "true".to_owned());
            }
        }
    }

    fn said(&self) -> MutexGuard<'_, Said> {
        self.0.said.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<S: Sync> FromRequestParts<S> for Moment {
    type Rejection = Failure;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Moment, Failure> {
        let moment = parts.extensions.get::<Moment>().cloned();
        moment.ok_or_else(|| Failure::broken("a path without a moment"))
    }
}

/// How much of a job's topic a request asks for. Errors: `BAD_REQUEST` for a header that cannot be read.
fn frontier(offsets: Option<&str>, watermark: Option<&str>) -> Result<Option<Frontier>, Failure> {
    if offsets.is_none() && watermark.is_none() {
        return Ok(None);
    }
    let number = |name: &str, text: &str| {
        let wrong = || Failure::bad(format!("{name} has '{text}': give whole numbers"));
        text.trim().parse::<i64>().map_err(|_| wrong())
    };
    let mut frontier = Frontier::default();
    if let Some(text) = watermark {
        frontier.watermark = number(MIN_WATERMARK, text)?;
    }
    if let Some(text) = offsets {
        let all = text.split(',').map(|one| number(MIN_OFFSETS, one));
        frontier.offsets = all.collect::<Result<_, _>>()?;
    }
    Ok(Some(frontier))
}

/// A timeout of gRPC: up to eight digits and a unit; `None` if it is none.
fn grpc_timeout(text: &str) -> Option<Duration> {
    let (digits, unit) = text.split_at_checked(text.len().checked_sub(1)?)?;
    let count: u64 = digits.parse().ok()?;
    Some(match unit {
        "H" => Duration::from_secs(count.checked_mul(3600)?),
        "M" => Duration::from_secs(count.checked_mul(60)?),
        "S" => Duration::from_secs(count),
        "m" => Duration::from_millis(count),
        "u" => Duration::from_micros(count),
        "n" => Duration::from_nanos(count),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timeouts_of_grpc_are_read() {
        assert_eq!(grpc_timeout("250m"), Some(Duration::from_millis(250)));
        assert_eq!(grpc_timeout("2S"), Some(Duration::from_secs(2)));
        for bad in ["", "S", "1", "1x", "-1S", "1\u{e9}"] {
            assert_eq!(grpc_timeout(bad), None, "{bad}");
        }
    }
}
