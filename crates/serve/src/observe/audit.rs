//! A line for every change that was begun, also if it failed or its client left before the answer; and for every
//! request that was not let in or whose key does not allow it.

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::Path;
use std::sync::{Mutex, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use axum::extract::Request;
use axum::http::{Method, StatusCode};
use serde_json::{json, Value as Json};

use crate::access::Access;

/// What a request changes, and who sent it.
pub(crate) struct Changed {
    pub(crate) access: Access,
    pub(crate) collection: String,
    /// The tool that changed it, where the path does not say what was done.
    pub(crate) tool: Option<&'static str>,
}

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

    /// Notes a request that was not let in. Paths have no secrets, and what follows a question mark is
    /// left out.
    pub(crate) fn refused(&self, request: &Request, status: StatusCode) {
        self.forbidden((request.method(), request.uri().path()), status);
    }

    /// Notes a request that is refused to whoever sent it.
    ///
    /// * `asked`: its method and path.
    pub(crate) fn forbidden(&self, asked: (&Method, &str), status: StatusCode) {
        self.line(json!({
            "key": "-",
            "method": asked.0.as_str(),
            "path": asked.1,
            "status": status.as_u16(),
        }));
    }

    /// Notes a request that changed something, or tried to.
    ///
    /// * `asked`: its method and path.
    /// * `status`: `None` if the client left before its answer.
    pub(crate) fn changed(
        &self,
        changed: &Changed,
        asked: (&Method, &str),
        status: Option<StatusCode>,
    ) {
        let mut line = json!({
            "key": changed.access.name(),
            "method": asked.0.as_str(),
            "path": asked.1,
            "collection": changed.collection,
            "status": status.map(|status| status.as_u16()),
        });
        if let Some(tool) = changed.tool {
            line["tool"] = Json::from(tool);
        }
        self.line(line);
    }

    fn line(&self, mut line: Json) {
        let Some(file) = &self.0 else { return };
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        line["ms"] = Json::from(since.as_millis() as u64);
        // A log that cannot be written must not stop the service; its disk has alarms of its own.
        let _ = writeln!(file.lock().unwrap_or_else(PoisonError::into_inner), "{line}");
    }
}
