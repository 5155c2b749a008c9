//! One running job: its process, its lines, its end.

use std::fs::{self, File};
use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use rustix::process::{kill_process, Pid, Signal};
use tempfile::NamedTempFile;
use vstream_settings::JobSettings;

use super::install;
use super::tail::Tail;
use crate::failure::Failure;

const MAIN_CLASS: &str = "io.vstream.flink.job.JobRunner";

/// How the job ends when it refuses its settings before it starts.
const EXIT_REFUSED: i32 = 2;

/// How long the job may take to end after it was asked to.
const STOP_PATIENCE: Duration = Duration::from_secs(15);

/// Time between two looks whether the job has ended.
const POLL: Duration = Duration::from_millis(20);

/// How long to wait for the rest of the error output of a job that has ended.
const LAST_WORDS: Duration = Duration::from_secs(3);

/// What happened at the job.
pub(crate) enum Event {
    /// It printed a line.
    Line(String),
    /// Nothing within the time asked for.
    Quiet,
    /// It will print no more.
    Ended,
}

/// A job that runs in a Java virtual machine of its own. Dropping it ends the job.
pub(crate) struct Jvm {
    child: Child,
    lines: Receiver<String>,
    log: File,
    log_path: PathBuf,
    tail: Arc<Mutex<Tail>>,
    stderr: JoinHandle<()>,
    /// Held open: a job that reads its end knows that the command is gone.
    _stdin: Option<ChildStdin>,
    _settings: NamedTempFile,
}

impl Jvm {
    /// Starts the job, from a checkpoint or savepoint if one is given. Errors: no Java, no jars, or they cannot be started.
    pub(crate) fn start(job: &JobSettings, restore: Option<&str>) -> Result<Jvm, Failure> {
        let java = install::java()?;
        let class_path = install::class_path()?;
        let plugins = install::plugins()?;
        let settings = write_settings(job)?;
        let (log_path, log, mut stderr_log) = create_log(job)?;
        let mut child = Command::new(&java)
            .env(install::PLUGINS, plugins)
            .args(flags(job))
            .args(["-cp", &class_path, MAIN_CLASS, "--job"])
            .arg(settings.path())
            .args(restore.map(|path| ["--restore", path]).into_iter().flatten())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            // A group of its own: Ctrl-C reaches this command alone, which then ends the job in order.
            .process_group(0)
            .spawn()
            .map_err(|error| {
                Failure::settings(format!(
                    "{} could not be started ({error}). Check JAVA_HOME.",
                    java.display()
                ))
            })?;
        let (sender, lines) = mpsc::channel();
        let stdout = child.stdout.take().expect("piped");
        let stderr = child.stderr.take().expect("piped");
        thread::spawn(move || forward_lines(stdout, &sender));
        let tail = Arc::<Mutex<Tail>>::default();
        let kept = Arc::clone(&tail);
        let stderr = thread::spawn(move || Tail::follow(stderr, &mut stderr_log, &kept));
        let stdin = child.stdin.take();
        Ok(Jvm { child, lines, log, log_path, tail, stderr, _stdin: stdin, _settings: settings })
    }

    /// Waits for the next line, at most `patience`.
    pub(crate) fn next(&mut self, patience: Duration) -> Event {
        match self.lines.recv_timeout(patience) {
            Ok(line) => Event::Line(line),
            Err(RecvTimeoutError::Timeout) if self.has_ended() => Event::Ended,
            Err(RecvTimeoutError::Timeout) => Event::Quiet,
            Err(RecvTimeoutError::Disconnected) => Event::Ended,
        }
    }

    /// Keeps a line that is not part of the protocol: the virtual machine itself speaks here, too.
    pub(crate) fn log(&mut self, line: &str) {
        // A full disk must not stop the job.
        let _ = writeln!(self.log, "{line}");
        self.tail.lock().unwrap_or_else(PoisonError::into_inner).push(line.to_owned());
    }

    /// Waits for the end of a job that prints no more, and says how it ended. It is ended when
    /// `interrupted` becomes true.
    pub(crate) fn wait(&mut self, interrupted: &AtomicBool) -> Result<(), Failure> {
        let status = loop {
            if interrupted.load(Ordering::Relaxed) {
                self.stop();
                return Err(Failure::interrupted());
            }
            match self.child.try_wait() {
                Ok(Some(status)) => break status,
                Ok(None) => thread::sleep(POLL),
                Err(error) => {
                    let sentence = format!("Waiting for the job failed ({error}).");
                    return Err(Failure::failed(sentence));
                }
            }
        };
        if status.success() {
            self.hear_out();
            return Ok(());
        }
        if status.code() == Some(EXIT_REFUSED) {
            return Err(self.complain("The job was refused.").about_settings());
        }
        Err(self.complain(&format!("The job failed: java ended {}.", how(status))))
    }

    /// A failure with the last useful lines of the job and the place of its log.
    pub(crate) fn complain(&mut self, sentence: &str) -> Failure {
        self.stop();
        self.hear_out();
        let lines = self.tail.lock().unwrap_or_else(PoisonError::into_inner).useful();
        let mut message = sentence.to_owned();
        if !lines.is_empty() {
            message.push_str(" It said:");
            for line in lines {
                message.push_str("\n  ");
                message.push_str(&line);
            }
        }
        message.push_str(&format!("\nIts whole log is in {}.", self.log_path.display()));
        Failure::failed(message)
    }

    /// Waits until the error output of a job that has ended is in its log: the last lines may still
    /// be in the pipe. A process that the job left behind may hold the pipe open for ever.
    fn hear_out(&self) {
        let deadline = Instant::now() + LAST_WORDS;
        while !self.stderr.is_finished() && Instant::now() < deadline {
            thread::sleep(POLL);
        }
    }

    /// Asks the job to end, waits for it, and ends it by force if it does not listen.
    pub(crate) fn stop(&mut self) {
        if self.has_ended() {
            return;
        }
        // The child is not waited for yet, so its id cannot belong to another process.
        let _ = kill_process(Pid::from_child(&self.child), Signal::TERM);
        let deadline = Instant::now() + STOP_PATIENCE;
        while Instant::now() < deadline {
            if self.has_ended() {
                return;
            }
            thread::sleep(POLL);
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Jvm {
    fn has_ended(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(Some(_)))
    }
}

impl Drop for Jvm {
    fn drop(&mut self) {
        self.stop();
    }
}

fn write_settings(job: &JobSettings) -> Result<NamedTempFile, Failure> {
    let write = || {
        let mut file =
            tempfile::Builder::new().prefix("vstream-job-").suffix(".json").tempfile()?;
        file.write_all(job.to_json().as_bytes())?;
        Ok::<_, std::io::Error>(file)
    };
    write().map_err(|error| {
        Failure::settings(format!(
            "The settings could not be written to the temporary folder {} ({error}). Make room \
             there, or set TMPDIR.",
            std::env::temp_dir().display()
        ))
    })
}

/// The log lies beside the job's state, under the job's name; each run starts it anew. It is
/// written through two handles that share one position.
fn create_log(job: &JobSettings) -> Result<(PathBuf, File, File), Failure> {
    let folder = job.state.path.parent().unwrap_or(Path::new("."));
    let plain = |c: char| if c.is_ascii_alphanumeric() || "-_.".contains(c) { c } else { '_' };
    let name: String = job.name.chars().map(plain).collect();
    let path = folder.join(format!("{name}.log"));
    let create = || {
        fs::create_dir_all(folder)?;
        let log = File::create(&path)?;
        Ok::<_, std::io::Error>((log.try_clone()?, log))
    };
    let (log, second) = create().map_err(|error| {
        Failure::settings(format!(
            "The log {} cannot be written ({error}). Set state.path to a folder below one that this \
             user may write.",
            path.display()
        ))
    })?;
    Ok((path, log, second))
}

/// MiB for native and network buffers, at most; the job finds out what it needs, and whether there is as much, before it
/// starts. Tasks send to all tasks of the next step, so network buffers grow with the square of the partitions: 3 p² for
/// files, 5 p² for topics, 6 p² where texts are embedded, of 32 KiB, with a quarter to spare.
fn direct_mib(job: &JobSettings) -> u64 {
    const OTHER_MIB: u64 = 928;
    const NETWORK_MIB_MIN: u64 = 96;
    let embedding = job.embedding.as_ref().map_or(0, |embedding| embedding.parallelism);
    let tasks = u64::from(job.parallelism.max(embedding));
    let network = (10 * (6 * tasks * tasks + 24 * tasks + 10)).div_ceil(256);
    OTHER_MIB + network.max(NETWORK_MIB_MIN)
}

fn flags(job: &JobSettings) -> Vec<String> {
    // A heap of fixed size never pauses to grow. ZGC collects beside the job: the young collections
    // of Parallel stopped all tasks for 50 to 80 ms every 25 s, at the same CPU time in sum.
    // Vectors live outside the heap.
    let heap = job.jvm.heap >> 20;
    let mut flags = vec![
        format!("-Xms{heap}m"),
        format!("-Xmx{heap}m"),
        "-XX:+UseZGC".to_owned(),
        format!("-XX:MaxDirectMemorySize={}m", direct_mib(job)),
        // The end of the standard input says that this command is gone.
        "-Dvstream.command.pipe=true".to_owned(),
        // Its file under /tmp could stop a collection on a slow disk.
        "-XX:-UsePerfData".to_owned(),
        "-XX:+ExitOnOutOfMemoryError".to_owned(),
        "-Dfile.encoding=UTF-8".to_owned(),
    ];
    let extra = std::env::var("VSTREAM_JAVA_OPTS").unwrap_or_default();
    flags.extend(install::class_archive(&extra));
    flags.extend(extra.split_whitespace().map(str::to_owned));
    flags
}

fn forward_lines(stdout: ChildStdout, lines: &Sender<String>) {
    let mut reader = BufReader::new(stdout);
    let mut line = Vec::new();
    while reader.read_until(b'\n', &mut line).is_ok_and(|bytes| bytes > 0) {
        let text = String::from_utf8_lossy(&line).trim_end().to_owned();
        if lines.send(text).is_err() {
            return;
        }
        line.clear();
    }
}

fn how(status: ExitStatus) -> String {
    use std::os::unix::process::ExitStatusExt;
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("with exit code {code}"),
        (None, Some(signal)) => format!("by signal {signal}"),
        (None, None) => "in an unknown way".to_owned(),
    }
}
