//! What a request says after the question mark.

use axum::extract::{FromRequestParts, Query};
use axum::http::request::Parts;
use serde::de::DeserializeOwned;

use crate::failure::Failure;

/// What a request says after the question mark. Errors: `BAD_REQUEST` for what cannot be read.
pub(crate) struct Asks<T>(pub(crate) T);

impl<T: DeserializeOwned, S: Sync> FromRequestParts<S> for Asks<T> {
    type Rejection = Failure;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Asks<T>, Failure> {
        let read = Query::<T>::try_from_uri(&parts.uri);
        read.map(|Query(asked)| Asks(asked)).map_err(|refused| Failure::bad(refused.body_text()))
    }
}
