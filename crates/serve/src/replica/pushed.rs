//! Takes in what is pushed to a store, from push to push.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::sleep;
use vstream_engine::PushedCollection;

use crate::catalog::blocking;
use crate::collection::Collection;
use crate::failure::Failure;
use crate::shared::Shared;

/// Looks for newer pushes until the server stops.
pub(crate) struct Refresher {
    pub(crate) shared: Arc<Shared>,
    pub(crate) address: String,
    /// Time between two looks.
    pub(crate) every: Duration,
    /// Number of the push that is served, by name.
    pub(crate) served: BTreeMap<String, u64>,
}

impl Refresher {
    pub(crate) async fn run(mut self, mut stopping: watch::Receiver<bool>) {
        loop {
            tokio::select! {
                () = sleep(self.every) => {}
                // Also if whoever would say so is gone.
                _ = stopping.changed() => return,
            }
            let (address, served) = (self.address.clone(), self.served.clone());
            let round = blocking(move || newer(&address, &served)).await;
            match round.and_then(|round| round) {
                Ok(newer) => newer.into_iter().for_each(|(collection, number)| {
                    self.served.insert(collection.name.clone(), number);
                    self.shared.catalog.renew(collection);
                }),
                // What is served stays as it is until the store answers again.
                Err(failure) => self.shared.role.note_lost(&failure.message),
            }
        }
    }
}

/// Opens what was pushed since. Errors: those of the store.
fn newer(address: &str, served: &BTreeMap<String, u64>) -> Result<Vec<(Collection, u64)>, Failure> {
    let mut opened = Vec::new();
    for pushed in PushedCollection::find(address)? {
        let (name, newest) = (pushed.name(), pushed.newest()?);
        if served.get(&name).is_none_or(|number| *number < newest) {
            opened.push((Collection::of_pushed(&pushed, newest)?, newest));
        }
    }
    Ok(opened)
}
