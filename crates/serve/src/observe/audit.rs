//! A line for every change and every refused key.

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::Path;
use std::sync::{Mutex, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use axum::extract::Request;
use axum::http::{Method, StatusCode};
use serde_json::json;

/// The audit log; without a file, nothing.
pub(crate) struct Audit(Option<Mutex<File>>);

impl Audit {
    /// Appends to a file, which is made if absent. Errors: a sentence.
    pub(crate) fn open(path: Option<&Path>) -> Result<Audit, String> {
        let open = |path: &Path| {
            let file = OpenOptions::new().append(true).create(true).open(path);
            file.map(Mutex::new).map_err(|error| format!("{}: {error}", path.display()))
        };
        Ok(Audit(path.map(open).transpose()?))
    }

    /// Notes a request that changed something, or one that was not let in. Paths have no secrets, and
    /// what follows a question mark is left out.
    pub(crate) fn note(&self, key: &str, request: &Request, status: StatusCode) {
        self.line(key, request.method(), request.uri().path(), status);
    }

    pub(crate) fn line(&self, key: &str, method: &Method, path: &str, status: StatusCode) {
        let Some(file) = &self.0 else { return };
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let line = json!({
            "ms": since.as_millis() as u64,
            "key": key,
            "method": method.as_str(),
            "path": path,
            "status": status.as_u16(),
        });
        // A log that cannot be written must not stop the service; its disk has alarms of its own.
        let _ = writeln!(file.lock().unwrap_or_else(PoisonError::into_inner), "{line}");
    }
}
