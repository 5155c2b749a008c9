//! Many connections to a server that is killed again and again.
//!
//! 1. Each connection has a thread and ids of its own, so it knows what every one of its points must
//!    be: what was acknowledged last, or, after a request whose answer was lost, that or what was there
//!    before.
//! 2. Some requests are wrong, slow, cut or without a key. None of them may change anything.
//! 3. The server is a process. It is ended by signal 9 at random moments and started again on the same
//!    port and folder.
//! 4. In the end every point is read and compared.

mod client;
mod hostile;
mod points;

use std::fs;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Barrier};
use std::time::{Duration, Instant};

use serde_json::{json, Value};
use vstream_serve::{new_key, KeyFile, Scope, ServeSettings, Server};
use vstream_vector::SplitMix;

use self::client::Client;
use self::points::Owner;

/// Dimensions of the points.
const DIMENSION: usize = 64;
const COLLECTION: &str = "lab";
/// How long a server may take to answer after it was started.
const PATIENCE: Duration = Duration::from_secs(30);
/// Bytes of the stack of a connection's thread.
const STACK: usize = 256 << 10;
/// Of a hundred requests, so many are hostile.
const HOSTILE: u64 = 5;

/// What to do.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Which calls [`child`] for `child DIR ADDRESS KEYS`.
    pub program: PathBuf,
    /// Where folders are made.
    pub place: PathBuf,
    /// Of requests and moments.
    pub seed: u64,
    /// How long.
    pub time: Duration,
    /// Connections at the same time.
    pub connections: usize,
    /// How often the server is killed.
    pub kills: u32,
    /// Requests per second of all; `None`: 80 % of what it takes at most, which is measured first.
    pub rate: Option<f64>,
}

/// What all connections did and found.
#[derive(Debug, Default)]
pub struct Tally {
    /// Requests that were answered as they should be.
    pub answered: AtomicU64,
    /// Requests whose connection broke, or that were refused because the server was busy or ending.
    pub broken: AtomicU64,
    /// Requests that were wrong, slow, cut or without a key.
    pub hostile: AtomicU64,
    /// Of these, answered as if they were right.
    pub let_in: AtomicU64,
    /// Answers that no correct server gives, with the first of them.
    pub wrong: AtomicU64,
    /// Points that were acknowledged and are not there, or not so.
    pub lost: AtomicU64,
    /// Points that were deleted and are there.
    pub ghosts: AtomicU64,
}

/// What came of a plan.
#[derive(Debug)]
pub struct Outcome {
    tally: Arc<Tally>,
    kills: u32,
    rate: f64,
    connections: usize,
    seconds: f64,
    /// Deaths that nobody asked for.
    deaths: u32,
    points: u64,
    /// Largest resident memory of a server, in MiB.
    pub peak_mib: u64,
}

impl Outcome {
    /// True if nothing went wrong.
    pub fn is_clean(&self) -> bool {
        let none = |count: &AtomicU64| count.load(Ordering::Relaxed) == 0;
        let tally = &self.tally;
        let all = [&tally.let_in, &tally.wrong, &tally.lost, &tally.ghosts];
        self.deaths == 0 && all.into_iter().all(none)
    }

    /// One line of JSON.
    pub fn json(&self) -> Value {
        let of = |count: &AtomicU64| count.load(Ordering::Relaxed);
        let tally = &self.tally;
        json!({
            "seconds": self.seconds.round(),
            "connections": self.connections,
            "rate": self.rate.round(),
            "kills": self.kills,
            "deaths": self.deaths,
            "points": self.points,
            "answered": of(&tally.answered),
            "broken": of(&tally.broken),
            "hostile": of(&tally.hostile),
            "let in": of(&tally.let_in),
            "wrong": of(&tally.wrong),
            "lost": of(&tally.lost),
            "ghosts": of(&tally.ghosts),
            "peak MiB": self.peak_mib,
        })
    }
}

/// The child: serves until it is killed. Errors: a sentence.
pub fn child(directory: &Path, address: SocketAddr, keys: &Path) -> Result<(), String> {
    let settings = ServeSettings {
        keys: Some(KeyFile::read(keys)?),
        ..ServeSettings::new(directory.to_owned(), address)
    };
    let _running = Server::start(settings)?;
    loop {
        std::thread::park();
    }
}

/// A server process, and how to start it again.
struct Process {
    plan: Plan,
    directory: PathBuf,
    address: SocketAddr,
    keys: PathBuf,
    child: Child,
}

impl Process {
    fn start(plan: &Plan, directory: &Path, keys: &Path) -> Result<Process, String> {
        // Nobody else takes the port within the moment until the server has it, most likely.
        let free = TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr());
        let address = free.map_err(|error| format!("no port: {error}"))?;
        let child = spawn(plan, directory, address, keys)?;
        let (directory, keys) = (directory.to_owned(), keys.to_owned());
        let mut process = Process { plan: plan.clone(), directory, address, keys, child };
        process.await_answers()?;
        Ok(process)
    }

    fn await_answers(&mut self) -> Result<(), String> {
        let end = Instant::now() + PATIENCE;
        while TcpStream::connect(self.address).is_err() {
            if let Ok(Some(status)) = self.child.try_wait() {
                return Err(format!("the server ended by itself: {status}"));
            }
            if Instant::now() > end {
                return Err("the server does not answer".to_owned());
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        Ok(())
    }

    fn kill(&mut self) {
        // It may have ended by itself, which is counted elsewhere.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    fn start_again(&mut self) -> Result<(), String> {
        self.child = spawn(&self.plan, &self.directory, self.address, &self.keys)?;
        self.await_answers()
    }

    fn has_ended(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(Some(_)))
    }

    /// Resident memory in MiB; 0 if it cannot be read.
    fn resident_mib(&self) -> u64 {
        let status = fs::read_to_string(format!("/proc/{}/status", self.child.id()));
        let status = status.unwrap_or_default();
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        let kib = line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok());
        kib.unwrap_or(0) >> 10
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
    }
}

fn spawn(plan: &Plan, directory: &Path, address: SocketAddr, keys: &Path) -> Result<Child, String> {
    Command::new(&plan.program)
        .arg("child")
        .args([directory.as_os_str(), address.to_string().as_ref(), keys.as_os_str()])
        .stdin(Stdio::null())
        .spawn()
        .map_err(|error| format!("{}: {error}", plan.program.display()))
}

/// Follows a plan. Errors: a sentence, if there is no server to begin with, or it does not come back.
pub fn run(plan: &Plan) -> Result<Outcome, String> {
    let folder = tempfile::tempdir_in(&plan.place).map_err(|error| error.to_string())?;
    let (key, entry) = new_key("lab", Scope::Admin, &[])?;
    let keys = folder.path().join("keys.json");
    fs::write(&keys, format!("{{\"keys\": [{entry}]}}")).map_err(|error| error.to_string())?;
    let mut process = Process::start(plan, &folder.path().join("collections"), &keys)?;
    let vectors = json!({"vectors": {"size": DIMENSION, "distance": "Cosine"}});
    let mut first = Client::new(process.address, &key);
    let made = first.call("PUT", &format!("/collections/{COLLECTION}"), &vectors);
    if made.status() != 200 {
        return Err(format!("no collection: {made:?}"));
    }
    let tally = Arc::new(Tally::default());
    let owner = |number: usize, seed: u64| {
        Owner::new(number as u64, SplitMix(seed), Client::new(process.address, &key))
    };
    let rate = match plan.rate {
        Some(rate) => rate,
        None => 0.8 * most(&owner, plan.seed),
    };
    let (is_over, begun) = (AtomicBool::new(false), Instant::now());
    let settled = Barrier::new(plan.connections + 1);
    let pause = Duration::from_secs_f64(plan.connections as f64 / rate);
    let (address, key) = (process.address, key.as_str());
    let outcome = std::thread::scope(|scope| {
        let mut threads = Vec::new();
        for number in 0..plan.connections {
            let (tally, is_over, settled) = (&tally, &is_over, &settled);
            let seed = plan.seed.wrapping_mul(0x9e37_79b9).wrapping_add(number as u64);
            let thread = std::thread::Builder::new().stack_size(STACK);
            let work = move || {
                let client = Client::new(address, key);
                let mut owner = Owner::new(number as u64 + 1_000, SplitMix(seed), client);
                while !is_over.load(Ordering::Relaxed) {
                    let due = Instant::now() + pause;
                    if owner.random().next() % 100 < HOSTILE {
                        hostile::one(address, key, owner.random(), tally);
                    } else {
                        owner.step(tally);
                    }
                    std::thread::sleep(due.saturating_duration_since(Instant::now()));
                }
                // The server is there for good when all have stopped.
                settled.wait();
                settled.wait();
                owner.check(tally)
            };
            threads.push(thread.spawn_scoped(scope, work).map_err(|error| error.to_string())?);
        }
        let killed = supervise(plan, &mut process, begun);
        is_over.store(true, Ordering::Relaxed);
        settled.wait();
        settled.wait();
        let points = threads.into_iter().map(|thread| thread.join().unwrap_or(0)).sum();
        killed.map(|(peak_mib, deaths)| (peak_mib, deaths, points))
    });
    let (peak_mib, deaths, points) = outcome?;
    let seconds = begun.elapsed().as_secs_f64();
    let (kills, connections) = (plan.kills, plan.connections);
    Ok(Outcome { tally, kills, rate, connections, seconds, deaths, points, peak_mib })
}

/// Kills and starts the server until the time is over. Returns the largest resident memory in MiB, and
/// deaths that nobody asked for.
fn supervise(plan: &Plan, process: &mut Process, begun: Instant) -> Result<(u64, u32), String> {
    let mut random = SplitMix(plan.seed);
    let share = plan.time.as_secs_f64() / f64::from(plan.kills + 1);
    // One in each share of the time, anywhere in it, but not in the last.
    let mut moments: Vec<f64> =
        (0..plan.kills).map(|at| share * (f64::from(at) + f64::from(random.unit()))).collect();
    moments.reverse();
    let (mut peak, mut deaths) = (0, 0);
    while begun.elapsed() < plan.time {
        std::thread::sleep(Duration::from_millis(50));
        peak = peak.max(process.resident_mib());
        if process.has_ended() {
            deaths += 1;
            process.start_again()?;
        }
        if moments.last().is_some_and(|&moment| begun.elapsed().as_secs_f64() > moment) {
            moments.pop();
            process.kill();
            process.start_again()?;
        }
    }
    Ok((peak, deaths))
}

/// Requests per second that eight connections get answered at most.
fn most(owner: &dyn Fn(usize, u64) -> Owner, seed: u64) -> f64 {
    const CONNECTIONS: usize = 8;
    const TIME: Duration = Duration::from_secs(3);
    let (tally, begun) = (Tally::default(), Instant::now());
    let owners: Vec<Owner> = (0..CONNECTIONS).map(|at| owner(at, seed + at as u64)).collect();
    std::thread::scope(|scope| {
        for mut owner in owners {
            let tally = &tally;
            scope.spawn(move || {
                while begun.elapsed() < TIME {
                    owner.step(tally);
                }
            });
        }
    });
    tally.answered.load(Ordering::Relaxed) as f64 / begun.elapsed().as_secs_f64()
}
