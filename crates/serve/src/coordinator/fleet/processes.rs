//! Replicas that are processes of this machine.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use rustix::process::{kill_process, Pid, Signal};

use super::{Replica, ReplicaId, ReplicaState, Replicas};
use crate::coordinator::decide::REPLICAS_MAX;
use crate::coordinator::error::{setting, CoordinatorError};

/// Bytes of the line in which a process says where it listens, at most.
const LINE_BYTES_MAX: u64 = 4_096;
/// Lines before that one, at most.
const LINES_MAX: usize = 64;
/// Time between two looks whether a process is ready, and for the answer to one.
const ASK: Duration = Duration::from_millis(20);
const ANSWER: Duration = Duration::from_secs(5);
/// Seconds until a process may be started after one that failed; doubled for each further one.
const PAUSE_S: f64 = 0.5;
/// Most of these seconds.
const PAUSE_S_MAX: f64 = 30.0;
/// A process that ends by itself so soon after it became ready has failed as one that never was ready.
const STEADY: Duration = Duration::from_secs(10);

/// How a replica is started.
///
/// It must print a line that ends with its address, such as `Serving … at http://127.0.0.1:6333`, and it
/// must end on SIGTERM. `vstream serve DIR --listen 127.0.0.1:0` does both.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommandLine {
    /// The program.
    pub program: PathBuf,
    /// Its arguments. `{replica}` in one of them becomes the least number, from 0 on, that no process which
    /// runs has, for folders and logs of its own.
    pub arguments: Vec<String>,
    /// A path that answers 200 when the replica takes queries, such as `/readyz`; `None`: it does as soon as
    /// it has said its address.
    pub ready: Option<String>,
}

/// Where and when a process became ready: written once, by the thread that reads what it prints.
type Said = Arc<OnceLock<(SocketAddr, Duration)>>;

struct Process {
    id: ReplicaId,
    /// What `{replica}` became.
    slot: u32,
    child: Child,
    said: Said,
    started: Instant,
    /// When it is killed: it has not become ready, or has not ended.
    deadline: Instant,
    is_stopping: bool,
    /// Has been ready for [`STEADY`], when this was last looked at.
    was_steady: bool,
}

impl Process {
    /// Has been ready for [`STEADY`].
    fn is_steady(&self, now: Instant) -> bool {
        let ready = self.said.get().map(|&(_, after)| self.started + after + STEADY);
        ready.is_some_and(|steady| now >= steady)
    }
}

/// Replicas that are processes of this machine. Dropped, it kills them.
pub struct Processes {
    command: CommandLine,
    cap: u32,
    patience: Duration,
    processes: Vec<Process>,
    next: u64,
    /// Processes in a row that ended before they were steady, and when the next may be started.
    failed: u32,
    not_before: Option<Instant>,
}

impl Processes {
    /// A fleet without a process yet.
    ///
    /// * `cap`: processes at most, those that stop among them: 1 to [`REPLICAS_MAX`].
    /// * `patience`: time to become ready, and to end; then a process is killed.
    ///
    /// Errors: `Setting`.
    pub fn new(
        command: CommandLine,
        cap: u32,
        patience: Duration,
    ) -> Result<Processes, CoordinatorError> {
        setting(
            "processes at most",
            "1 to 1,000",
            f64::from(cap),
            (1..=REPLICAS_MAX).contains(&cap),
        )?;
        super::super::error::seconds("the patience", patience.as_secs_f64())?;
        let processes = Vec::new();
        Ok(Processes { command, cap, patience, processes, next: 0, failed: 0, not_before: None })
    }

    /// Takes note of processes that ended or became steady, and kills those that are late.
    fn attend(&mut self) {
        let now = Instant::now();
        // One that has been steady for long says nothing of those that are started now.
        let (mut failed, mut became_steady) = (0, false);
        for process in &mut self.processes {
            let is_steady = process.is_steady(now);
            became_steady |= is_steady && !process.was_steady;
            process.was_steady = is_steady;
            let is_late = process.is_stopping || process.said.get().is_none();
            if is_late && now > process.deadline {
                // It may have ended by itself.
                let _ = process.child.kill();
            }
        }
        self.processes.retain_mut(|process| {
            let has_ended = !matches!(process.child.try_wait(), Ok(None));
            failed += u32::from(has_ended && !process.is_stopping && !process.is_steady(now));
            !has_ended
        });
        if failed > 0 {
            self.failed = self.failed.saturating_add(failed);
            let pause = PAUSE_S * 2f64.powi(self.failed.min(16) as i32 - 1);
            self.not_before = Some(now + Duration::from_secs_f64(pause.min(PAUSE_S_MAX)));
        } else if became_steady {
            self.failed = 0;
            self.not_before = None;
        }
    }

    fn spawn(&self, slot: u32) -> Result<(Child, Said), CoordinatorError> {
        let program = self.command.program.display();
        let failed = |error| CoordinatorError::Process { what: format!("{program}"), error };
        let arguments = self.command.arguments.iter();
        let arguments = arguments.map(|argument| argument.replace("{replica}", &slot.to_string()));
        let mut child = Command::new(&self.command.program)
            .args(arguments)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            // What a terminal tells the coordinator is not for them: they still have queries.
            .process_group(0)
            .spawn()
            .map_err(failed)?;
        let said = Said::default();
        let (hears, started) = (said.clone(), Instant::now());
        let (out, ready) = (child.stdout.take(), self.command.ready.clone());
        let patience = self.patience;
        let listens = std::thread::Builder::new().name("replica".to_owned()).spawn(move || {
            if let Some(out) = out {
                let is_ready =
                    |address| ready.is_none_or(|path| becomes_ready(address, &path, patience));
                listen(out, is_ready, &hears, started);
            }
        });
        if let Err(error) = listens {
            // Nobody would hear where it listens.
            let _ = child.kill();
            let _ = child.wait();
            return Err(failed(error));
        }
        Ok((child, said))
    }
}

/// Hears where a process listens and waits until it is ready, then reads on, so that it never waits for a
/// full pipe.
fn listen(
    out: ChildStdout,
    is_ready: impl FnOnce(SocketAddr) -> bool,
    said: &Said,
    started: Instant,
) {
    let mut out = BufReader::new(out);
    for _ in 0..LINES_MAX {
        let mut line = Vec::new();
        match out.by_ref().take(LINE_BYTES_MAX).read_until(b'\n', &mut line) {
            Ok(0) | Err(_) => return,
            Ok(_) => {}
        }
        if let Some(address) = address_of(&String::from_utf8_lossy(&line)) {
            if is_ready(address) {
                // Nobody else writes it.
                let _ = said.set((address, started.elapsed()));
            }
            break;
        }
    }
    // An error is its end, too.
    let _ = std::io::copy(&mut out, &mut std::io::sink());
}

/// Asks until a path answers 200; false if it does not in time, or nobody listens any more.
fn becomes_ready(address: SocketAddr, path: &str, patience: Duration) -> bool {
    let end = Instant::now() + patience;
    while Instant::now() < end {
        match status(address, path) {
            Ok(200) => return true,
            Ok(_) => {}
            Err(error) if error.kind() == std::io::ErrorKind::ConnectionRefused => return false,
            // It is busy.
            Err(_) => {}
        }
        std::thread::sleep(ASK);
    }
    false
}

/// The status of an answer of HTTP; 0 if it is none.
fn status(address: SocketAddr, path: &str) -> std::io::Result<u16> {
    let mut stream = TcpStream::connect_timeout(&address, ANSWER)?;
    stream.set_read_timeout(Some(ANSWER))?;
    stream.set_write_timeout(Some(ANSWER))?;
    let request = format!("GET {path} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n\r\n");
    stream.write_all(request.as_bytes())?;
    let mut line = Vec::new();
    BufReader::new(stream).take(LINE_BYTES_MAX).read_until(b'\n', &mut line)?;
    let line = String::from_utf8_lossy(&line);
    Ok(line.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or(0))
}

/// The address at the end of a line, alone or as that of a page.
pub(super) fn address_of(line: &str) -> Option<SocketAddr> {
    let last = line.split_whitespace().next_back()?;
    let address = last.rsplit_once("://").map_or(last, |(_, address)| address);
    address.trim_end_matches('/').parse().ok()
}

impl Replicas for Processes {
    fn start(&mut self) -> Result<ReplicaId, CoordinatorError> {
        self.attend();
        if self.processes.len() >= self.cap as usize {
            return Err(CoordinatorError::Full { cap: self.cap });
        }
        let now = Instant::now();
        if let Some(wait) = self.not_before.and_then(|at| at.checked_duration_since(now)) {
            let (tries, wait_s) = (self.failed, wait.as_secs_f64());
            return Err(CoordinatorError::Failing { tries, wait_s });
        }
        let (id, deadline) = (ReplicaId(self.next), now + self.patience);
        let is_free = |slot: &u32| self.processes.iter().all(|process| process.slot != *slot);
        let slot = (0..).find(is_free).unwrap_or_default();
        let (child, said) = self.spawn(slot)?;
        self.next += 1;
        self.processes.push(Process {
            id,
            slot,
            child,
            said,
            started: now,
            deadline,
            is_stopping: false,
            was_steady: false,
        });
        Ok(id)
    }

    fn stop(&mut self, id: ReplicaId) -> Result<(), CoordinatorError> {
        let process = self.processes.iter_mut().find(|process| process.id == id);
        let process = process.ok_or(CoordinatorError::Unknown(id))?;
        if process.is_stopping {
            return Ok(());
        }
        process.is_stopping = true;
        process.deadline = Instant::now() + self.patience;
        let what = || format!("replica {id}, running for {:?}", process.started.elapsed());
        match process.child.try_wait() {
            Ok(None) => kill_process(Pid::from_child(&process.child), Signal::TERM)
                .map_err(|error| CoordinatorError::Process { what: what(), error: error.into() }),
            Ok(Some(_)) => Ok(()),
            Err(error) => Err(CoordinatorError::Process { what: what(), error }),
        }
    }

    fn list(&mut self) -> Vec<Replica> {
        self.attend();
        let replica = |process: &Process| {
            let start_s = process.said.get().map(|(_, time)| time.as_secs_f64());
            let state = match (process.is_stopping, start_s) {
                (true, _) => ReplicaState::Stopping,
                (false, Some(_)) => ReplicaState::Ready,
                (false, None) => ReplicaState::Starting,
            };
            Replica { id: process.id, state, start_s }
        };
        self.processes.iter().map(replica).collect()
    }

    fn address(&self, id: ReplicaId) -> Option<SocketAddr> {
        let process = self.processes.iter().find(|process| process.id == id)?;
        process.said.get().map(|&(address, _)| address)
    }
}

impl Drop for Processes {
    fn drop(&mut self) {
        for process in &mut self.processes {
            // It may have ended by itself.
            let _ = process.child.kill();
            let _ = process.child.wait();
        }
    }
}
