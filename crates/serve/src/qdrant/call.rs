//! A request: who sends it, and which collection it is about.

use std::sync::Arc;

use crate::access::{Access, Scope};
use crate::collection::Collection;
use crate::failure::Failure;
use crate::shared::{Changed, Shared};

/// A request: who sends it, and which collection it is about.
pub(super) struct Call {
    pub(super) shared: Arc<Shared>,
    pub(super) access: Access,
    pub(super) name: String,
}

impl Call {
    /// Errors: `FORBIDDEN` unless the key has this scope for the collection.
    pub(super) fn may(&self, scope: Scope) -> Result<(), Failure> {
        self.access.may(scope, Some(&self.name))
    }

    /// The collection. Errors: as [`Call::may`], then `NOT_FOUND`.
    pub(super) fn collection(&self, scope: Scope) -> Result<Arc<Collection>, Failure> {
        self.may(scope)?;
        self.shared.catalog.get(&self.name)
    }

    /// What the audit log gets if the request changes something.
    pub(super) fn changed(self) -> Changed {
        Changed { access: self.access, collection: self.name }
    }
}
