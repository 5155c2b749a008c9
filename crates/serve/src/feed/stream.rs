//! The log of a collection as it grows.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{watch, OwnedSemaphorePermit};
use vstream_engine::{Feed, FeedRead, FeedReader};

use crate::catalog::blocking;
use crate::collection::Collection;
use crate::failure::Failure;
use crate::shared::Shared;

/// Bytes of groups that are read at a time. A group has at most 2 MiB.
const BYTES: usize = 1 << 20;
/// Time after which a stream says that there is nothing new, of a server with few streams: each further one
/// adds a millisecond, so that all of them together say a thousand things per second at most.
const SILENCE: Duration = Duration::from_millis(100);

/// The log of a collection from some sequence on.
pub(super) struct Log {
    collection: Arc<Collection>,
    /// The last sequence that was known when this began.
    after: u64,
    feed: Feed,
    /// A thread that may wait has it during a read.
    reader: Option<FeedReader>,
    commits: watch::Receiver<u64>,
    changes: watch::Receiver<u64>,
    stopping: watch::Receiver<bool>,
    shared: Arc<Shared>,
    /// A stream counts as long as it goes on.
    _counted: OwnedSemaphorePermit,
}

/// What is new.
pub(super) struct News {
    /// The oldest first; none if there is nothing new.
    pub(super) groups: Vec<Vec<u8>>,
    /// The last write of the groups, or that from which the stream began.
    pub(super) sequence: u64,
    /// The last write that was on the disk when this was read, and the moment then of which it is.
    pub(super) durable: u64,
    pub(super) time_ms: u64,
}

impl Log {
    /// * `after`: the last sequence that is known already; `None` for those from now on.
    ///
    /// Errors: `BAD_REQUEST` if the collection has no log, `SERVICE_UNAVAILABLE` if there are too many
    /// streams.
    pub(super) async fn open(
        shared: &Arc<Shared>,
        collection: Arc<Collection>,
        after: Option<u64>,
    ) -> Result<Log, Failure> {
        if collection.is_of_job() {
            let what =
                "the changes of a job are those of its topics: there is no log to watch here";
            return Err(Failure::bad(what));
        }
        let counted = shared.streams.clone().try_acquire_owned();
        let counted = counted.map_err(|_| Failure::busy("too many streams at the same time"))?;
        let (commits, changes) = (collection.progress.commits(), shared.catalog.changes());
        let bytes = shared.limits.follow_bytes;
        let feed = collection.writes.now(move |rows| rows.engine().feed(bytes)).await??;
        let after = after.unwrap_or_else(|| feed.sequence());
        let reader = Some(feed.after(after));
        let (shared, stopping) = (shared.clone(), shared.stopping.clone());
        let _counted = counted;
        Ok(Log { collection, after, feed, reader, commits, changes, stopping, shared, _counted })
    }

    /// The last sequence that was known when this began: the first group may have begun before.
    pub(super) fn after(&self) -> u64 {
        self.after
    }

    pub(super) fn feed(&self) -> &Feed {
        &self.feed
    }

    pub(super) fn collection(&self) -> &Arc<Collection> {
        &self.collection
    }

    /// Waits for something new, for [`SILENCE`] or so. Errors: `GONE` if the log does not go back so
    /// far; `NOT_FOUND` if the collection was dropped; `SERVICE_UNAVAILABLE` if the server stops.
    pub(super) async fn next(&mut self) -> Result<News, Failure> {
        let news = self.read().await?;
        if !news.groups.is_empty() {
            return Ok(news);
        }
        let is_new = |at: &u64| *at > news.sequence;
        let streams = self.shared.limits.streams - self.shared.streams.available_permits();
        let silence = SILENCE + Duration::from_millis(streams as u64);
        tokio::select! {
            _ = tokio::time::timeout(silence, self.commits.wait_for(is_new)) => {}
            _ = self.stopping.wait_for(|stop| *stop) => return Err(Failure::closing()),
        }
        if self.changes.has_changed().unwrap_or(true) {
            self.changes.mark_unchanged();
            let name = &self.collection.name;
            let there = self.shared.catalog.find(name);
            if !there.is_some_and(|there| Arc::ptr_eq(&there, &self.collection)) {
                return Err(Failure::no_collection(name));
            }
        }
        self.read().await
    }

    async fn read(&mut self) -> Result<News, Failure> {
        let mut reader = self.reader.take().ok_or_else(Failure::closing)?;
        // A replica that is followed says of which moment it is: its clock says nothing of its writer.
        let time_ms = self.collection.progress.as_of_ms();
        let durable = self.feed.sequence();
        if reader.sequence() == durable {
            self.reader = Some(reader);
            return Ok(News { groups: Vec::new(), sequence: durable, durable, time_ms });
        }
        let (reader, read) = blocking(move || {
            let read = reader.read(BYTES);
            (reader, read)
        })
        .await?;
        let sequence = reader.sequence();
        self.reader = Some(reader);
        match read? {
            FeedRead::Groups(groups) => Ok(News { groups, sequence, durable, time_ms }),
            FeedRead::Gone => Err(Failure::gone(format!(
                "the log of '{}' does not have what follows write {sequence}",
                self.collection.name
            ))),
        }
    }
}
