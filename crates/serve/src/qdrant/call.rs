//! A request: who sends it, which collection it is about, and of which moment its answer is.

use std::sync::Arc;

use crate::access::{Access, Scope};
use crate::collection::Collection;
use crate::failure::Failure;
use crate::observe::Changed;
use crate::shared::{Moment, Shared, LARGE};

/// A request: who sends it, which collection it is about, and of which moment its answer is.
#[derive(Clone)]
pub(crate) struct Call {
    pub(crate) shared: Arc<Shared>,
    pub(crate) access: Access,
    pub(crate) name: String,
    pub(crate) moment: Moment,
    /// The tool that is called, where the path does not say what is done.
    pub(crate) tool: Option<&'static str>,
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

    /// Reads a request, which takes as long as its body is: a large one where that keeps no query waiting.
    pub(super) fn reading<T>(&self, work: impl FnOnce() -> T) -> T {
        match self.moment.body_bytes() {
            LARGE.. => tokio::task::block_in_place(work),
            _ => work(),
        }
    }

    /// Notes for the audit log that the request, which was checked, begins to change something.
    pub(super) fn changes(&self) {
        let (access, collection) = (self.access.clone(), self.name.clone());
        self.moment.changes(Changed { access, collection, tool: self.tool });
    }
}
