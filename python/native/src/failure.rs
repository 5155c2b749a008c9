//! What a call can fail with, and the one table of Python exceptions.

use std::any::Any;
use std::panic::{catch_unwind, AssertUnwindSafe};

use pyo3::prelude::*;
use pyo3::types::PyType;
use vstream_ask::AskError;
use vstream_embed::{EmbedError, EmbedErrorKind};
use vstream_engine::{Error, ErrorKind, Refused};

/// A failed call: a class of `vstream.errors`, and a full sentence.
pub(crate) struct Failure {
    exception: &'static str,
    message: String,
}

impl Failure {
    pub(crate) fn invalid(message: impl Into<String>) -> Failure {
        Failure { exception: exception(ErrorKind::Invalid), message: message.into() }
    }

    pub(crate) fn unsupported(message: impl Into<String>) -> Failure {
        Failure { exception: exception(ErrorKind::Unsupported), message: message.into() }
    }

    pub(crate) fn internal(message: impl Into<String>) -> Failure {
        Failure { exception: exception(ErrorKind::Internal), message: message.into() }
    }

    /// The one failure that the engine knows nothing of.
    pub(crate) fn closed() -> Failure {
        let message = "the collection is closed: open it again".to_owned();
        Failure { exception: "Closed", message }
    }

    pub(crate) fn closed_job() -> Failure {
        let message = "the connection to the job is closed: make another Job".to_owned();
        Failure { exception: "Closed", message }
    }
}

/// The table: name of the class in `vstream.errors` for each kind.
fn exception(kind: ErrorKind) -> &'static str {
    match kind {
        ErrorKind::Invalid => "InvalidInput",
        ErrorKind::Unavailable => "Unavailable",
        ErrorKind::Corrupt => "CorruptData",
        ErrorKind::Unsupported => "Unsupported",
        ErrorKind::Io => "StorageError",
        ErrorKind::Internal => "InternalError",
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Failure {
        Failure { exception: exception(error.kind()), message: error.message().to_owned() }
    }
}

impl From<vstream_group::Error> for Failure {
    fn from(error: vstream_group::Error) -> Failure {
        match error {
            vstream_group::Error::Store(error) => Failure::from(Error::from(error)),
            error => Failure::invalid(error.to_string()),
        }
    }
}

impl From<vstream_group::QueryError> for Failure {
    fn from(error: vstream_group::QueryError) -> Failure {
        Failure::invalid(error.to_string())
    }
}

impl From<AskError> for Failure {
    fn from(error: AskError) -> Failure {
        let exception = match error {
            // A key or a question: what the caller said is wrong.
            AskError::Refused(_) | AskError::Locked(_) => "InvalidInput",
            AskError::Unavailable(_) | AskError::Changed => "Unavailable",
        };
        Failure { exception, message: error.to_string() }
    }
}

impl From<EmbedError> for Failure {
    fn from(error: EmbedError) -> Failure {
        let exception = match error.kind() {
            EmbedErrorKind::Invalid => "InvalidInput",
            EmbedErrorKind::Unsupported => "Unsupported",
            EmbedErrorKind::Corrupt => "CorruptData",
            EmbedErrorKind::Io => "StorageError",
            EmbedErrorKind::Internal => "InternalError",
        };
        Failure { exception, message: error.message().to_owned() }
    }
}

impl From<Refused> for Failure {
    fn from(refused: Refused) -> Failure {
        Failure::invalid(refused.message)
    }
}

impl From<Failure> for PyErr {
    fn from(failure: Failure) -> PyErr {
        Python::attach(|py| {
            let class = py
                .import("vstream.errors")
                .and_then(|errors| errors.getattr(failure.exception))
                .and_then(|class| Ok(class.cast_into::<PyType>()?));
            match class {
                Ok(class) => PyErr::from_type(class, failure.message),
                Err(error) => error,
            }
        })
    }
}

/// Runs `work` without the interpreter lock; a panic in it becomes `InternalError`.
///
/// `PanicException`, which PyO3 would raise, is no `Exception` in Python: programs do not catch it.
pub(crate) fn detached<T: Send>(
    py: Python<'_>,
    work: impl FnOnce() -> Result<T, Failure> + Send,
) -> Result<T, Failure> {
    py.detach(|| {
        catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|panic| {
            Err(Failure::internal(format!("the engine has a defect: {}", text(&*panic))))
        })
    })
}

fn text(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("no message")
}
