//! What a server is told when it starts.

use std::net::SocketAddr;
use std::path::PathBuf;

use crate::access::KeyFile;
use crate::limits::Limits;

/// Certificate and key of a server, in PEM files.
#[derive(Clone, Debug)]
pub struct TlsFiles {
    /// The chain of certificates, the server's own first.
    pub certificate: PathBuf,
    /// Its private key.
    pub key: PathBuf,
}

/// What a server is told when it starts.
#[derive(Clone, Debug)]
pub struct ServeSettings {
    /// Folder of the collections, each a folder with its name. Made if absent.
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
    /// What is accepted at most.
    pub limits: Limits,
}

impl ServeSettings {
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
            limits: Limits::default(),
        }
    }

    /// Refuses what strangers could reach. Errors: a sentence.
    pub(crate) fn check(&self) -> Result<(), String> {
        let is_open = !self.listen.ip().is_loopback();
        if is_open && (self.keys.is_none() || self.tls.is_none()) {
            return Err(format!(
                "{} can be reached from other machines: give keys and a certificate, or listen on \
                 127.0.0.1",
                self.listen
            ));
        }
        match self.metrics {
            Some(metrics) if !metrics.ip().is_loopback() => Err(format!(
                "{metrics} can be reached from other machines, and metrics need no key: choose an \
                 address of 127.0.0.1"
            )),
            _ => Ok(()),
        }
    }
}
