//! Why a command could not do what it was asked; what it says and how it exits.

use std::fmt;

use vstream_settings::SettingsError;

/// A failure with sentences for a person.
#[derive(Debug)]
pub(crate) struct Failure {
    kind: Kind,
    message: String,
}

#[derive(Clone, Copy, Debug)]
enum Kind {
    /// The job or the reading of data went wrong.
    Failed,
    /// What the user gave cannot be used; nothing was started.
    Settings,
    /// The user stopped it.
    Interrupted,
}

impl Failure {
    pub(crate) fn failed(message: impl Into<String>) -> Failure {
        Failure { kind: Kind::Failed, message: message.into() }
    }

    pub(crate) fn settings(message: impl Into<String>) -> Failure {
        Failure { kind: Kind::Settings, message: message.into() }
    }

    pub(crate) fn interrupted() -> Failure {
        Failure { kind: Kind::Interrupted, message: "Stopped before the end.".to_owned() }
    }

    /// The same sentences as a complaint about the settings.
    pub(crate) fn about_settings(self) -> Failure {
        Failure { kind: Kind::Settings, ..self }
    }

    /// 1 failed, 2 bad settings, 130 interrupted (as shells say it).
    pub(crate) fn exit_code(&self) -> u8 {
        match self.kind {
            Kind::Failed => 1,
            Kind::Settings => 2,
            Kind::Interrupted => 130,
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl From<SettingsError> for Failure {
    fn from(error: SettingsError) -> Failure {
        Failure::settings(error.to_string())
    }
}

impl From<vstream_engine::Error> for Failure {
    fn from(error: vstream_engine::Error) -> Failure {
        Failure::failed(error.to_string())
    }
}

impl From<vstream_group::Error> for Failure {
    fn from(error: vstream_group::Error) -> Failure {
        match error {
            vstream_group::Error::Store(error) => Failure::from(error),
            error => Failure::settings(error.to_string()),
        }
    }
}

impl From<vstream_store::Error> for Failure {
    fn from(error: vstream_store::Error) -> Failure {
        match error.kind() {
            vstream_store::ErrorKind::Invalid => Failure::settings(error.to_string()),
            _ => Failure::failed(error.to_string()),
        }
    }
}
