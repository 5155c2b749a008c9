//! A request: who sends it, which collection it is about, and of which moment its answer is.

use std::sync::Arc;

use crate::access::{Access, Scope};
use crate::collection::Collection;
use crate::failure::Failure;
use crate::observe::Changed;
use crate::shared::{Moment, Shared};

/// A request: who sends it, which collection it is about, and of which moment its answer is.
#[derive(Clone)]
pub(crate) struct Call {
    pub(crate) shared: Arc<Shared>,
    pub(crate) access: Access,
    pub(crate) name: String,
    pub(crate) moment: Moment,
}

impl Call {
    /// Errors: `FORBIDDEN` unless the key has this scope for the collection; `MISDIRECTED_REQUEST` for
    /// anything but reads from a replica.
    pub(crate) fn may(&self, scope: Scope) -> Result<(), Failure> {
        self.access.may(scope, Some(&self.name))?;
        match scope {
            Scope::Read | Scope::Follow => Ok(()),
            Scope::Write | Scope::Admin => self.shared.role.check_write(),
        }
    }

    /// The collection. Errors: as [`Call::may`], then `NOT_FOUND`.
    pub(crate) fn collection(&self, scope: Scope) -> Result<Arc<Collection>, Failure> {
        self.may(scope)?;
        self.shared.catalog.get(&self.name)
    }

    /// The collection, to read it: as soon as it has the writes that are asked for. Errors: as
    /// [`Call::collection`], and `PRECONDITION_FAILED` if it does not have them in time.
    pub(super) async fn read(&self) -> Result<Arc<Collection>, Failure> {
        let collection = self.collection(Scope::Read)?;
        if self.moment.begins_at_once(&collection)? {
            return Ok(collection);
        }
        // A replica may put another copy of the collection in the place of this one.
        let mut changes = self.shared.catalog.changes();
        loop {
            let collection = self.collection(Scope::Read)?;
            tokio::select! {
                begun = self.moment.begin(&collection) => return begun.map(|()| collection),
                _ = changes.changed() => {}
            }
        }
    }

    /// What the audit log gets if the request changes something.
    pub(crate) fn changed(self) -> Changed {
        Changed { access: self.access, collection: self.name, tool: None }
    }
}
