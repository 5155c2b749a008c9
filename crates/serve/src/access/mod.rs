//! What the sender of a request may do.

mod keys;
mod origin;

use std::sync::Arc;

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use axum::http::StatusCode;

pub(crate) use self::keys::hex;
pub use self::keys::{new_key, KeyFile, Scope};
pub(crate) use self::origin::{check_local, check_own};
use crate::failure::Failure;

/// What the sender of a request may do. Cheap to copy.
#[derive(Clone, Debug)]
pub(crate) struct Access(Option<Arc<Allowed>>);

#[derive(Debug)]
struct Allowed {
    name: String,
    scope: Scope,
    collections: Option<Vec<String>>,
}

impl Access {
    /// Everything: for a server without keys.
    pub(crate) fn everything() -> Access {
        Access(None)
    }

    pub(crate) fn of(name: &str, scope: Scope, collections: Option<&[String]>) -> Access {
        let (name, collections) = (name.to_owned(), collections.map(<[String]>::to_vec));
        Access(Some(Arc::new(Allowed { name, scope, collections })))
    }

    /// The name of the key; `-` without keys.
    pub(crate) fn name(&self) -> &str {
        self.0.as_ref().map_or("-", |allowed| &allowed.name)
    }

    /// True if the key has this scope for some collection.
    pub(crate) fn has(&self, scope: Scope) -> bool {
        self.0.as_ref().is_none_or(|allowed| allowed.scope.allows(scope))
    }

    /// Errors: `FORBIDDEN` unless the key has this scope for a collection, or for all of them.
    pub(crate) fn may(&self, scope: Scope, collection: Option<&str>) -> Result<(), Failure> {
        let Some(allowed) = &self.0 else { return Ok(()) };
        let is_of = |names: &Vec<String>| {
            collection.is_some_and(|name| names.iter().any(|one| one == name))
        };
        if allowed.scope.allows(scope) && allowed.collections.as_ref().is_none_or(is_of) {
            return Ok(());
        }
        Err(Failure::new(StatusCode::FORBIDDEN, "the key does not allow this"))
    }
}

impl<S: Sync> FromRequestParts<S> for Access {
    type Rejection = Failure;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Access, Failure> {
        let access = parts.extensions.get::<Access>().cloned();
        access.ok_or_else(|| Failure::broken("a path without authentication"))
    }
}
