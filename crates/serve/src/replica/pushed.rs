//! Serves what is pushed to a store, from push to push.
//!
//! A look lists the pushes, and each newer one is opened and takes the place of the one before. One that does
//! not open is tried again when there is another push, or at the next look if the store gave no answer;
//! meanwhile the one before answers, if there is one.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use axum::http::StatusCode;
use tokio::sync::watch;
use tokio::time::sleep;
use vstream_engine::PushedCollection;

use crate::catalog::{blocking, Catalog};
use crate::failure::Failure;

/// Looks for newer pushes until the server stops.
pub(crate) struct Refresher {
    catalog: Arc<Catalog>,
    address: String,
    /// Time between two looks.
    every: Duration,
    /// The last push that was tried, by the name of its collection.
    tried: HashMap<String, Tried>,
}

/// A push that was opened, or does not open.
struct Tried {
    number: u64,
    may_open_later: bool,
}

impl Refresher {
    /// Opens what was pushed. Errors: those of the store, and why nothing opens.
    pub(crate) fn start(
        catalog: &Arc<Catalog>,
        address: &str,
        every: Duration,
    ) -> Result<Refresher, Failure> {
        let (catalog, address) = (catalog.clone(), address.to_owned());
        let mut refresher = Refresher { catalog, address, every, tried: HashMap::new() };
        let found = PushedCollection::find(&refresher.address)?;
        let mut last = None;
        for pushed in found {
            let number = pushed.newest();
            let (name, opened) = (pushed.name(), refresher.catalog.renew(&pushed));
            refresher.note(name, number, opened.as_ref().err());
            last = opened.err().or(last);
        }
        match last {
            Some(failure) if refresher.catalog.all().is_empty() => Err(failure),
            _ => Ok(refresher),
        }
    }

    fn note(&mut self, name: String, number: u64, failure: Option<&Failure>) {
        let is_away = |failure: &Failure| failure.status == StatusCode::SERVICE_UNAVAILABLE;
        let may_open_later = failure.is_some_and(is_away);
        self.tried.insert(name, Tried { number, may_open_later });
    }

    pub(crate) async fn run(mut self, mut stopping: watch::Receiver<bool>) {
        let rounds = async {
            loop {
                sleep(self.every).await;
                self.round().await;
            }
        };
        tokio::select! {
            () = rounds => {}
            // Also if whoever would say so is gone. A push that is being opened then is let go.
            _ = stopping.changed() => {}
        }
    }

    /// A store that gives no answer changes nothing.
    async fn round(&mut self) {
        let address = self.address.clone();
        let found = blocking(move || PushedCollection::find(&address)).await;
        let Ok(Ok(found)) = found else { return };
        let names: HashSet<String> = found.iter().map(PushedCollection::name).collect();
        let gone = self.tried.keys().filter(|name| !names.contains(*name));
        for name in gone.cloned().collect::<Vec<_>>() {
            self.tried.remove(&name);
            let catalog = self.catalog.clone();
            // A thread that ended has said so.
            let _ = blocking(move || catalog.forget(&name)).await;
        }
        for pushed in found {
            let (name, number) = (pushed.name(), pushed.newest());
            // A number may be lower where the folder was removed and another collection was pushed to it.
            let is_new = |tried: &Tried| tried.number != number || tried.may_open_later;
            if !self.tried.get(&name).is_none_or(is_new) {
                continue;
            }
            let catalog = self.catalog.clone();
            let opened = blocking(move || catalog.renew(&pushed)).await;
            let failure = opened.and_then(|opened| opened).err();
            self.note(name, number, failure.as_ref());
        }
    }
}
