//! Follows another server: its collections, and every write to them.
//!
//! 1. One stream says which collections the writer has. Each gets a task of its own, and one that the
//!    writer has no more is dropped here.
//! 2. A collection that is not here, or is another one under the same name, is *copied*: the writer keeps
//!    the files of one moment, they are fetched in ranges and compared with their checksums, and what an
//!    earlier try has fetched is used (`copy.rs`). Meanwhile the one that is here answers on.
//! 3. Then it is *followed*: groups of the writer's log are applied under the writer's sequences
//!    (`keep.rs`). They are logged here too, so a replica that is opened again goes on where it was.
//! 4. If the log of the writer does not go back so far, or has another history, step 2 comes again.
//!
//! A replica of a store has no writer: it opens what was pushed last (`pushed.rs`).
//!
//! A replica that only reads the writer's folder opens it again in step 2, and keeps in memory what it
//! follows.

mod connect;
mod copy;
mod job;
mod keep;
mod pushed;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::task::JoinHandle;

use self::connect::Writer;
pub(crate) use self::job::follow_job;
use self::keep::Keep;
pub(crate) use self::pushed::Refresher;
use crate::failure::Failure;

use crate::proto::{CollectionsReply, CollectionsRequest};
use crate::settings::FollowSettings;
use crate::shared::{Role, Shared};

/// Pauses between two tries to reach the writer: the first, and the longest.
const PAUSE: Duration = Duration::from_millis(100);
const PAUSE_MAX: Duration = Duration::from_secs(2);
/// Time after which a stream that says nothing is given up. The writer says something ten times as often
/// at least.
const SILENCE_MAX: Duration = Duration::from_secs(10);

/// Follows a writer until the server stops.
pub(crate) struct Follower {
    writer: Writer,
    shared: Arc<Shared>,
}

/// The task of a collection.
struct Kept {
    epoch: u64,
    stop: watch::Sender<bool>,
    task: JoinHandle<()>,
}

impl Follower {
    /// Errors: a sentence, if the address or the certificate cannot be.
    pub(crate) fn new(settings: &FollowSettings, shared: &Arc<Shared>) -> Result<Follower, String> {
        Ok(Follower { writer: Writer::new(settings)?, shared: shared.clone() })
    }

    /// Follows until the server stops.
    pub(crate) async fn run(self) {
        let mut stopping = self.shared.stopping.clone();
        let mut kept = HashMap::new();
        let mut pause = PAUSE;
        while !*stopping.borrow() {
            let why = tokio::select! {
                why = self.list(&mut kept, &mut pause) => why,
                _ = stopping.wait_for(|stop| *stop) => break,
            };
            self.shared.role.note_lost(&why);
            tokio::select! {
                () = tokio::time::sleep(pause) => {}
                _ = stopping.wait_for(|stop| *stop) => {}
            }
            pause = PAUSE_MAX.min(2 * pause);
        }
        for (_, one) in kept {
            end(one).await;
        }
    }

    /// Keeps a task for each collection of the writer, until the stream ends. Returns why it ended.
    async fn list(&self, kept: &mut HashMap<String, Kept>, pause: &mut Duration) -> String {
        let mut client = self.writer.client();
        let request = self.writer.request(CollectionsRequest {});
        let mut lists = match client.collections(request).await {
            Ok(answer) => answer.into_inner(),
            Err(status) => return status.message().to_owned(),
        };
        loop {
            let list = match tokio::time::timeout(SILENCE_MAX, lists.message()).await {
                Ok(Ok(Some(list))) => list,
                Ok(Ok(None)) => return "the writer ended the list of collections".to_owned(),
                Ok(Err(status)) => return status.message().to_owned(),
                Err(_) => return "the writer says nothing".to_owned(),
            };
            *pause = PAUSE;
            match list.unopened.first() {
                None => self.shared.role.note_heard(),
                Some(name) => {
                    let what = format!("the collection '{name}' of the writer does not open there");
                    self.shared.role.note_lost(&what);
                }
            }
            self.reconcile(kept, list).await;
        }
    }

    /// Begins and ends tasks, and drops what the writer has no more. A collection that the writer cannot open, or has not
    /// copied yet itself, stays: this may be the only copy.
    async fn reconcile(&self, kept: &mut HashMap<String, Kept>, list: CollectionsReply) {
        let CollectionsReply { collections, unopened, incomplete } = list;
        let epochs: HashMap<String, u64> =
            collections.into_iter().map(|one| (one.name, one.epoch)).collect();
        let catalog = &self.shared.catalog;
        let names: Vec<String> = kept.keys().cloned().collect();
        for name in names {
            if kept[&name].epoch != epochs.get(&name).copied().unwrap_or(0) {
                if let Some(one) = kept.remove(&name) {
                    end(one).await;
                }
            }
        }
        let is_gone = |name: &String| !epochs.contains_key(name) && !unopened.contains(name);
        for name in catalog.names().iter().filter(|name| !incomplete && is_gone(name)) {
            self.shared.measured.forget(name);
            // If the folder cannot be removed, the next list tries it again.
            let _ = catalog.drop(name).await;
        }
        for (name, &epoch) in &epochs {
            let is_new = !kept.contains_key(name);
            if is_new {
                let (stop, stopped) = watch::channel(false);
                let (writer, shared, name) =
                    (self.writer.clone(), self.shared.clone(), name.clone());
                let task = Keep { writer, shared, name: name.clone(), epoch };
                let task = tokio::spawn(task.run(stopped));
                kept.insert(name, Kept { epoch, stop, task });
            }
        }
        if let Role::Replica(replica) = &self.shared.role {
            let is_whole = unopened.is_empty() && !incomplete;
            replica.note_has_all(is_whole && has_all(&epochs, &self.shared));
        }
    }
}

fn has_all(epochs: &HashMap<String, u64>, shared: &Shared) -> bool {
    epochs
        .iter()
        .all(|(name, epoch)| shared.catalog.find(name).is_some_and(|one| one.epoch == *epoch))
}

/// Ends a task, and waits until it has.
async fn end(one: Kept) {
    // Nobody listens if it has ended.
    let _ = one.stop.send(true);
    // A task that panicked has said so.
    let _ = one.task.await;
}

/// Why a collection is not followed at present.
enum Lost {
    /// The server or the collection ends.
    Stopped,
    /// The connection, or the writer: try again.
    Away(String),
    /// The files that are here do not fit what the writer has.
    Apart(String),
}

impl From<tonic::Status> for Lost {
    fn from(status: tonic::Status) -> Lost {
        let why = status.message().to_owned();
        match status.code() {
            tonic::Code::OutOfRange => Lost::Apart(why),
            _ => Lost::Away(why),
        }
    }
}

impl From<Failure> for Lost {
    fn from(failure: Failure) -> Lost {
        Lost::Away(failure.message)
    }
}
