//! The table of errors for both sides of the border, and the conversion of a panic into a Java
//! exception.

use std::any::Any;
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::sync::atomic::{AtomicBool, Ordering};

use jni::errors::ErrorPolicy;
use jni::objects::{JThrowable, JValue};
use jni::strings::JNIStr;
use jni::{jni_sig, jni_str, Env};
use vstream_engine::ErrorKind;
use vstream_route::{RouteError, RouteErrorKind};
use vstream_settings::SettingsError;

const EXCEPTION: &JNIStr = jni_str!("io/vstream/nativecore/EngineException");

/// Kinds of failures, by remedy. The number is the wire code of `EngineException.Kind`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(i32)]
pub(crate) enum Kind {
    /// The caller gave an argument that can never work.
    Invalid = 0,
    /// The call is not possible now.
    Unavailable = 1,
    /// Stored bytes differ from the bytes written.
    Corrupt = 2,
    /// The request is valid, but this build does not answer it.
    Unsupported = 3,
    /// The file system reported an error.
    Io = 4,
    /// The engine has a defect.
    Internal = 5,
    /// The handle was closed.
    Closed = 6,
}

impl Kind {
    /// Every kind, in the order of the codes.
    pub(crate) const ALL: [Kind; 7] = [
        Kind::Invalid,
        Kind::Unavailable,
        Kind::Corrupt,
        Kind::Unsupported,
        Kind::Io,
        Kind::Internal,
        Kind::Closed,
    ];

    /// The kind of a wire code; `Internal` for an unknown code, which is a defect.
    pub(crate) fn of_code(code: i32) -> Kind {
        Kind::ALL.into_iter().find(|kind| *kind as i32 == code).unwrap_or(Kind::Internal)
    }
}

/// An error on its way to Java, where it becomes an `EngineException`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Failure {
    /// Kind, which says who can remedy the failure.
    pub(crate) kind: Kind,
    /// A full sentence that says what to change.
    pub(crate) message: String,
}

impl Failure {
    /// Makes a failure of this kind.
    pub(crate) fn new(kind: Kind, message: impl Into<String>) -> Failure {
        Failure { kind, message: message.into() }
    }

    /// Makes a failure of kind `Invalid`: the caller gave an argument that can never work.
    pub(crate) fn invalid(message: impl Into<String>) -> Failure {
        Failure::new(Kind::Invalid, message)
    }

    /// The same failure; its message begins with `place`.
    pub(crate) fn at(mut self, place: &str) -> Failure {
        self.message = format!("{place}: {}", self.message);
        self
    }

    fn of_panic(payload: &(dyn Any + Send)) -> Failure {
        let what = payload
            .downcast_ref::<&str>()
            .copied()
            .or_else(|| payload.downcast_ref::<String>().map(String::as_str))
            .unwrap_or("no message");
        Failure::new(
            Kind::Internal,
            format!("The native library met a defect ({what}). Please report it with the log."),
        )
    }
}

impl From<vstream_engine::Error> for Failure {
    fn from(error: vstream_engine::Error) -> Failure {
        let kind = match error.kind() {
            ErrorKind::Invalid => Kind::Invalid,
            ErrorKind::Unavailable => Kind::Unavailable,
            ErrorKind::Corrupt => Kind::Corrupt,
            ErrorKind::Unsupported => Kind::Unsupported,
            ErrorKind::Io => Kind::Io,
            ErrorKind::Internal => Kind::Internal,
        };
        Failure::new(kind, error.message())
    }
}

impl From<vstream_group::Error> for Failure {
    fn from(error: vstream_group::Error) -> Failure {
        use vstream_store::ErrorKind as Stored;
        let kind = match &error {
            vstream_group::Error::Refused(_) | vstream_group::Error::Invalid(_) => Kind::Invalid,
            vstream_group::Error::Store(stored) => match stored.kind() {
                Stored::Corrupt => Kind::Corrupt,
                Stored::Unavailable => Kind::Unavailable,
                _ => Kind::Io,
            },
        };
        Failure::new(kind, error.to_string())
    }
}

impl From<RouteError> for Failure {
    fn from(error: RouteError) -> Failure {
        let kind = match error.kind() {
            RouteErrorKind::Invalid => Kind::Invalid,
            RouteErrorKind::Corrupt => Kind::Corrupt,
            RouteErrorKind::Unsupported => Kind::Unsupported,
        };
        Failure::new(kind, error.message())
    }
}

impl From<SettingsError> for Failure {
    fn from(error: SettingsError) -> Failure {
        Failure::invalid(error.to_string())
    }
}

impl From<jni::errors::Error> for Failure {
    fn from(error: jni::errors::Error) -> Failure {
        Failure::new(Kind::Internal, format!("A call into the JVM failed: {error}."))
    }
}

/// Marks an object that panicked. Its state may be half changed, so it refuses all later calls.
#[derive(Debug, Default)]
pub(crate) struct Poison(AtomicBool);

impl Poison {
    /// Runs `work` unless an earlier call panicked; a panic becomes `Internal` and is remembered.
    pub(crate) fn guard<T>(&self, work: impl FnOnce() -> Result<T, Failure>) -> Result<T, Failure> {
        if self.0.load(Ordering::Acquire) {
            return Err(Failure::new(
                Kind::Internal,
                "An earlier call met a defect, so this handle refuses all work. Close it and \
                 restore from the last checkpoint.",
            ));
        }
        // Unwind safety: nobody looks at state that the panic left half done.
        catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|payload| {
            self.0.store(true, Ordering::Release);
            Err(Failure::of_panic(payload.as_ref()))
        })
    }
}

/// Throws an `EngineException` for a failure or a panic, and returns the default value, which Java
/// never sees.
pub(crate) struct ThrowEngineException;

impl<T: Default> ErrorPolicy<T, Failure> for ThrowEngineException {
    type Captures<'frame: 'call, 'call> = ();

    fn on_error<'frame: 'call, 'call>(
        env: &mut Env<'frame>,
        _captures: &mut (),
        failure: Failure,
    ) -> jni::errors::Result<T> {
        throw(env, &failure)
    }

    fn on_panic<'frame: 'call, 'call>(
        env: &mut Env<'frame>,
        _captures: &mut (),
        payload: Box<dyn Any + Send + 'static>,
    ) -> jni::errors::Result<T> {
        throw(env, &Failure::of_panic(payload.as_ref()))
    }
}

fn throw<T: Default>(env: &mut Env<'_>, failure: &Failure) -> jni::errors::Result<T> {
    // A pending exception, for instance an OutOfMemoryError, says more than the failure that
    // followed from it.
    if !env.exception_check() {
        let message = env.new_string(&failure.message)?;
        let exception = env.new_object(
            EXCEPTION,
            jni_sig!("(ILjava/lang/String;)V"),
            &[JValue::Int(failure.kind as i32), JValue::Object(&message)],
        )?;
        let exception = env.cast_local::<JThrowable>(exception)?;
        // `throw` reports the exception that it has just raised as an error.
        let _ = env.throw(exception);
    }
    Ok(T::default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_and_names_are_those_of_the_golden_table() {
        let golden = include_str!("../../src/test/resources/golden/error-kinds.txt");
        let ours: Vec<String> = Kind::ALL
            .iter()
            .map(|kind| format!("{} {}", *kind as i32, format!("{kind:?}").to_uppercase()))
            .collect();
        assert_eq!(golden.lines().collect::<Vec<_>>(), ours);
    }

    #[test]
    fn an_unknown_code_is_a_defect() {
        assert_eq!(Kind::of_code(4), Kind::Io);
        assert_eq!(Kind::of_code(-1), Kind::Internal);
        assert_eq!(Kind::of_code(99), Kind::Internal);
    }

    #[test]
    fn a_panic_becomes_internal_and_poisons() {
        let poison = Poison::default();
        assert_eq!(poison.guard(|| Ok(7)), Ok(7));
        let failure = poison.guard(|| -> Result<(), Failure> { panic!("on purpose") }).unwrap_err();
        assert_eq!(failure.kind, Kind::Internal);
        assert!(failure.message.contains("on purpose"), "{}", failure.message);
        let later = poison.guard(|| Ok(7)).unwrap_err();
        assert_eq!(later.kind, Kind::Internal);
        assert!(later.message.contains("earlier"), "{}", later.message);
    }

    #[test]
    fn an_ordinary_failure_poisons_nothing() {
        let poison = Poison::default();
        let refused: Result<(), Failure> = poison.guard(|| Err(Failure::invalid("No.")));
        assert_eq!(refused.unwrap_err().kind, Kind::Invalid);
        assert_eq!(poison.guard(|| Ok(1)), Ok(1));
    }
}
