//! Keeps one collection as the writer has it.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::timeout;
use vstream_engine::{Error, ErrorKind, NumberedWriter};

use super::connect::Writer;
use super::copy::{gather, install};
use super::{Lost, PAUSE, PAUSE_MAX, SILENCE_MAX};
use crate::collection::Collection;
use crate::proto::{FollowReply, FollowRequest};
use crate::shared::Shared;

/// Keeps one collection as the writer has it.
pub(super) struct Keep {
    pub(super) writer: Writer,
    pub(super) shared: Arc<Shared>,
    pub(super) name: String,
    /// Of the collection that the writer has under this name.
    pub(super) epoch: u64,
}

impl Keep {
    /// Copies and follows until told to stop.
    pub(super) async fn run(self, mut stop: watch::Receiver<bool>) {
        let mut pause = PAUSE;
        // True if the files that are here do not fit what the writer has.
        let mut is_apart = false;
        loop {
            let present = self.present(&mut is_apart, &mut stop).await;
            let lost = match present {
                Ok(collection) => {
                    let Err(lost) = self.follow(&collection, &mut pause, &mut stop).await;
                    lost
                }
                Err(lost) => lost,
            };
            let why = match lost {
                Lost::Stopped => return,
                Lost::Away(why) => why,
                Lost::Apart(why) => {
                    is_apart = true;
                    why
                }
            };
            self.shared.measured.lost(&self.name);
            self.shared.role.note_lost(&format!("the collection '{}': {why}", self.name));
            tokio::select! {
                () = tokio::time::sleep(pause) => {}
                _ = stop.wait_for(|stop| *stop) => return,
            }
            pause = PAUSE_MAX.min(2 * pause);
        }
    }

    /// The collection that is here, or a copy of that of the writer.
    async fn present(
        &self,
        is_apart: &mut bool,
        stop: &mut watch::Receiver<bool>,
    ) -> Result<Arc<Collection>, Lost> {
        let catalog = &self.shared.catalog;
        let here = catalog.find(&self.name).filter(|one| one.epoch == self.epoch && !*is_apart);
        if let Some(here) = here {
            return Ok(here);
        }
        let copied = match catalog.is_read_only() {
            true => catalog.replace(&self.name, |_| Ok(())).await?,
            false => {
                let gathered = tokio::select! {
                    gathered = gather(&self.writer, &self.shared, (&self.name, self.epoch)) => gathered?,
                    _ = stop.wait_for(|stop| *stop) => return Err(Lost::Stopped),
                };
                install(&self.shared, &self.name, gathered).await?
            }
        };
        if copied.epoch != self.epoch {
            let what = format!("the folder of '{}' is not the one of the writer", self.name);
            return Err(Lost::Away(what));
        }
        *is_apart = false;
        Ok(copied)
    }

    /// Applies what the writer writes, until that ends.
    async fn follow(
        &self,
        of: &Collection,
        pause: &mut Duration,
        stop: &mut watch::Receiver<bool>,
    ) -> Result<Infallible, Lost> {
        let mut applied = of.progress.applied();
        let mut client = self.writer.client();
        let request =
            FollowRequest { collection: self.name.clone(), epoch: self.epoch, sequence: applied };
        let mut replies = tokio::select! {
            answer = client.follow(self.writer.request(request)) => answer?.into_inner(),
            _ = stop.wait_for(|stop| *stop) => return Err(Lost::Stopped),
        };
        loop {
            let reply = tokio::select! {
                reply = timeout(SILENCE_MAX, replies.message()) => reply,
                _ = stop.wait_for(|stop| *stop) => return Err(Lost::Stopped),
            };
            let reply = reply.map_err(|_| Lost::Away("the writer says nothing".to_owned()))??;
            let reply =
                reply.ok_or_else(|| Lost::Away("the writer ended the stream".to_owned()))?;
            *pause = PAUSE;
            let (sequence, time_ms) = (reply.sequence, reply.time_ms);
            if !reply.groups.is_empty() || reply.schema.is_some() {
                let done = of.writes.now(move |rows| take(rows, &reply)).await?;
                applied = done.map_err(|error| match error.kind() {
                    ErrorKind::Corrupt | ErrorKind::Invalid => Lost::Apart(error.to_string()),
                    _ => Lost::Away(error.to_string()),
                })?;
            }
            of.progress.heard(sequence, time_ms, applied);
            self.shared.measured.found(&self.name);
        }
    }
}

/// Applies a message of the writer; returns the sequence of the last write that is here.
fn take(rows: &mut NumberedWriter, reply: &FollowReply) -> Result<u64, Error> {
    if let Some(schema) = &reply.schema {
        rows.engine_mut().add_attributes_of(schema)?;
    }
    for group in &reply.groups {
        rows.apply_group(group)?;
    }
    Ok(rows.engine().sequence())
}
