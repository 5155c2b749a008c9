//! A server that is a process of its own.

use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};

use rustix::process::{kill_process, Pid, Signal};

use super::client::{request, Client};
use super::CORES;
use crate::runbook::RunbookError;

/// A server that ends with this.
pub(super) struct Server {
    pub(super) child: Child,
    pub(super) address: SocketAddr,
    pub(super) metrics: SocketAddr,
    /// What it says later is not read, and must not fail.
    _out: BufReader<ChildStdout>,
}

impl Drop for Server {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Server {
    /// Starts a server of a folder on its own core. Errors: `Io`.
    pub(super) fn start(command: &Path, directory: &Path) -> Result<Server, RunbookError> {
        Server::with(command, directory, CORES[0], &[])
    }

    /// Starts a server of a folder on a core.
    ///
    /// * `more`: further arguments.
    pub(super) fn with(
        command: &Path,
        directory: &Path,
        core: usize,
        more: &[&str],
    ) -> Result<Server, RunbookError> {
        let failed = |error| RunbookError::Io(format!("Cannot start the server: {error}."));
        let mut child = Command::new("taskset")
            .args(["-c", &core.to_string()])
            .arg(command)
            .args(["serve", "--listen", "127.0.0.1:0", "--metrics", "127.0.0.1:0"])
            .arg(directory)
            .args(more)
            .stdout(Stdio::piped())
            .spawn()
            .map_err(failed)?;
        let mut out = BufReader::new(child.stdout.take().expect("it is piped"));
        // The address in the next line that ends so.
        let mut said = |end: &str| -> Result<SocketAddr, RunbookError> {
            let mut line = String::new();
            while out.read_line(&mut line).map_err(failed)? > 0 {
                let address =
                    line.trim().strip_suffix(end).and_then(|text| text.rsplit('/').next());
                if let Some(address) = address.and_then(|address| address.parse().ok()) {
                    return Ok(address);
                }
                line.clear();
            }
            Err(RunbookError::Io(format!("The server said no address that ends in '{end}'.")))
        };
        let (address, metrics) = (said("")?, said("/metrics")?);
        Ok(Server { child, address, metrics, _out: out })
    }

    /// How far a query goes now; `None` while the recall guard has not decided.
    pub(super) fn effort(&self) -> Result<Option<Reached>, RunbookError> {
        let mut client = Client::connect(self.metrics)?;
        let body = client.call(&request("GET", "/metrics", ""))?;
        let text = String::from_utf8_lossy(body);
        let value = |name: &str| {
            let line = text.lines().find_map(|line| line.strip_prefix(name));
            let value = line.and_then(|line| line.rsplit(' ').next()?.parse().ok());
            value.ok_or_else(|| RunbookError::Io(format!("The server does not say {name}…}}.")))
        };
        let (probes, refine) = (value("vstream_probes{")?, value("vstream_refined_rows{")?);
        // Without a decision a server says all of its rows.
        Ok((refine < value("vstream_rows{")?).then_some(Reached { probes, refine }))
    }

    /// Lets the server have the processor again, or not.
    pub(super) fn runs(&self, runs: bool) -> Result<(), RunbookError> {
        let_run(&self.child, runs)
    }
}

/// Lets a process have the processor again, or not.
pub(super) fn let_run(process: &Child, runs: bool) -> Result<(), RunbookError> {
    let signal = if runs { Signal::CONT } else { Signal::STOP };
    kill_process(Pid::from_child(process), signal)
        .map_err(|error| RunbookError::Io(format!("Cannot stop a process: {error}.")))
}

/// How far a query goes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Reached {
    /// Leaves that it visits.
    pub(super) probes: usize,
    /// Rows whose exact distance it takes.
    pub(super) refine: usize,
}

impl Reached {
    /// Half way between the two.
    pub(super) fn midpoint(self, other: Reached) -> Reached {
        let probes = self.probes.midpoint(other.probes);
        Reached { probes, refine: self.refine.midpoint(other.refine) }
    }
}
