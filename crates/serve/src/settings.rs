//! What a server is told when it starts.

use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use crate::access::KeyFile;
use crate::collection::{JobSettings, Opening};
use crate::limits::Limits;
use crate::shared::{Replica, Role};

/// Certificate and key of a server, in PEM files.
#[derive(Clone, Debug)]
pub struct TlsFiles {
    /// The chain of certificates, the server's own first.
    pub certificate: PathBuf,
    /// Its private key.
    pub key: PathBuf,
}

/// The writer that a replica follows.
#[derive(Clone)]
pub struct FollowSettings {
    /// `http://HOST:PORT`, or `https://` with a certificate.
    pub writer: String,
    /// A key of the writer with the scope `follow`, if it asks for keys.
    pub key: Option<String>,
    /// The writer's certificate or that of its authority, in a PEM file; needed for `https`.
    pub certificate: Option<PathBuf>,
    /// How far behind the writer this may be and still say that it is ready.
    pub behind_max: Duration,
}

impl FollowSettings {
    /// Follows a writer that asks for no key.
    pub fn new(writer: &str) -> FollowSettings {
        let behind_max = Duration::from_secs(10);
        FollowSettings { writer: writer.to_owned(), key: None, certificate: None, behind_max }
    }
}

impl fmt::Debug for FollowSettings {
    /// Without the key.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FollowSettings").field("writer", &self.writer).finish_non_exhaustive()
    }
}

/// A store to which collections are pushed.
#[derive(Clone, Debug)]
pub struct PushedSettings {
    /// `s3://bucket/folder`, `file:///folder` or a path: of one collection, or of a folder for each.
    /// Credentials come from the environment.
    pub address: String,
    /// Time between two looks for newer pushes.
    pub every: Duration,
}

/// What a server is told when it starts.
#[derive(Clone, Debug)]
pub struct ServeSettings {
    /// Folder of the collections, each a folder with its name. Made if absent. Nothing where others have them.
    pub directory: PathBuf,
    /// Address of the interface.
    pub listen: SocketAddr,
    /// Address of health and metrics, which need no key; `None`: they are not served.
    pub metrics: Option<SocketAddr>,
    /// Keys that requests must have; `None`: every request may do everything.
    pub keys: Option<KeyFile>,
    /// Certificate; `None`: connections are not encrypted.
    pub tls: Option<TlsFiles>,
    /// File that gets a line for every change and every refused key; `None`: nobody notes them.
    pub audit: Option<PathBuf>,
    /// Whether the tools that write are there for language models.
    pub mcp_writes: bool,
    /// The writer whose collections are served: this is a replica. `None`: no other.
    pub follow: Option<FollowSettings>,
    /// Only reads the folder, which another process may write: it takes no lock there and changes nothing.
    /// With [`ServeSettings::follow`] it is the folder of that writer, and what it writes from now on is
    /// kept in memory.
    pub read_only: bool,
    /// The store whose pushed collections are served: this only reads. `None`: the folder has them.
    pub pushed: Option<PushedSettings>,
    /// The running job that is asked: its rows are the one collection. `None`: the folder has them.
    pub job: Option<JobSettings>,
    /// What is accepted at most.
    pub limits: Limits,
}

impl ServeSettings {
    /// A server of a running job on this machine alone.
    pub fn of_job(job: JobSettings, listen: SocketAddr) -> ServeSettings {
        ServeSettings { job: Some(job), ..ServeSettings::new(PathBuf::new(), listen) }
    }

    /// A server of pushed collections on this machine alone.
    pub fn of_pushed(pushed: PushedSettings, listen: SocketAddr) -> ServeSettings {
        let nowhere = ServeSettings::new(PathBuf::new(), listen);
        ServeSettings { pushed: Some(pushed), read_only: true, ..nowhere }
    }

    /// A server of this folder on this machine alone.
    pub fn new(directory: PathBuf, listen: SocketAddr) -> ServeSettings {
        ServeSettings {
            directory,
            listen,
            metrics: None,
            keys: None,
            tls: None,
            audit: None,
            mcp_writes: false,
            follow: None,
            read_only: false,
            pushed: None,
            job: None,
            limits: Limits::default(),
        }
    }

    /// How the folders of collections are opened.
    pub(crate) fn opening(&self) -> Opening {
        match (self.read_only, &self.follow) {
            (true, _) => Opening::ReadOnly,
            (false, Some(_)) => Opening::Follower,
            (false, None) => Opening::Writer,
        }
    }

    /// Whether this server writes.
    pub(crate) fn role(&self) -> Role {
        match (self.read_only || self.job.is_some(), &self.follow) {
            (false, None) => Role::Writer,
            (_, follow) => {
                let behind_max = follow.as_ref().map_or(Duration::MAX, |follow| follow.behind_max);
                Role::Replica(Replica::new(
                    follow.as_ref().map(|follow| follow.writer.clone()),
                    behind_max,
                ))
            }
        }
    }

    /// Refuses what strangers could reach. Errors: a sentence.
    pub(crate) fn check(&self) -> Result<(), String> {
        if let Some(PushedSettings { address, .. }) = &self.pushed {
            if self.follow.is_some() || self.job.is_some() || !self.read_only {
                return Err(format!(
                    "{address} is read where it is: it is not written, follows no server, and no job is \
                     asked beside it"
                ));
            }
        }
        let is_guarded = self.keys.is_some() && self.tls.is_some();
        check_addresses(self.listen, self.metrics, is_guarded)
    }
}

/// Refuses addresses that strangers could reach. Errors: a sentence.
///
/// * `is_guarded`: whether there are keys and a certificate.
pub(crate) fn check_addresses(
    listen: SocketAddr,
    metrics: Option<SocketAddr>,
    is_guarded: bool,
) -> Result<(), String> {
    if !listen.ip().is_loopback() && !is_guarded {
        return Err(format!(
            "{listen} can be reached from other machines: give keys and a certificate, or listen on \
             127.0.0.1"
        ));
    }
    match metrics {
        Some(metrics) if !metrics.ip().is_loopback() => Err(format!(
            "{metrics} can be reached from other machines, and metrics need no key: choose an \
             address of 127.0.0.1"
        )),
        _ => Ok(()),
    }
}
