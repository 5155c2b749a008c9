//! A request: who sends it, and which collection it is about.

use std::sync::Arc;

use crate::access::{Access, Scope};
use crate::collection::Collection;
use crate::failure::Failure;
use crate::observe::Changed;
use crate::shared::Shared;

/// A request: who sends it, and which collection it is about.
pub(crate) struct Call {
    pub(crate) shared: Arc<Shared>,
    pub(crate) access: Access,
    pub(crate) name: String,
}

impl Call {
    /// Errors: `FORBIDDEN` unless the key has this scope for the collection.
    pub(crate) fn may(&self, scope: Scope) -> Result<(), Failure> {
        self.access.may(scope, Some(&self.name))
    }

    /// The collection. Errors: as [`Call::may`], then `NOT_FOUND`.
    pub(crate) fn collection(&self, scope: Scope) -> Result<Arc<Collection>, Failure> {
        self.may(scope)?;
        self.shared.catalog.get(&self.name)
    }

    /// What the audit log gets if the request changes something.
    pub(crate) fn changed(self) -> Changed {
        Changed { access: self.access, collection: self.name, tool: None }
    }
}
