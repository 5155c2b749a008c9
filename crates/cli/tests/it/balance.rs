//! `balance`: real replicas behind one address, of which some are killed.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, ChildStdout, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use rustix::process::{kill_process, Pid, Signal};
use vstream_engine::{Element, Engine, Journaling, Metric, Row, Settings};

use crate::stage::Stage;

const DIMENSION: usize = 64;
const ROWS: u64 = 500;
/// Ends a test that hangs.
const PATIENCE: Duration = Duration::from_secs(180);

/// A running balancer.
struct Balanced {
    child: Child,
    lines: BufReader<ChildStdout>,
    address: String,
    metrics: String,
}

fn stage() -> Stage {
    let stage = Stage::new("exit 1");
    let mut engine = Engine::builder()
        .dir(&stage.path("kept"))
        .journaling(Journaling::default())
        .create(Settings::new(DIMENSION, Metric::L2, Element::F32))
        .expect("creates");
    for id in 0..ROWS {
        let vector = vector(id);
        let (version, shard, fields) = (1, 0, Default::default());
        let row = Row { id, version, code: id, shard, vector: &vector, fields };
        engine.upsert(&row).expect("accepted");
    }
    engine.close().expect("closes");
    stage
}

fn vector(id: u64) -> Vec<f32> {
    (0..DIMENSION as u64).map(|at| ((id * (at + 37) * 7919) % 1_009) as f32).collect()
}

impl Balanced {
    fn start(stage: &Stage, replicas: &str) -> Balanced {
        let own = ["balance", "--listen", "127.0.0.1:0", "--metrics", "127.0.0.1:0"];
        let all = [&own[..], &["--replicas", replicas, "--", "kept", "--read-only"]].concat();
        let mut child = stage.command(&all).stdout(Stdio::piped()).spawn().expect("starts");
        let mut lines = BufReader::new(child.stdout.take().expect("a pipe"));
        let mut address = |begin: &str| {
            let mut line = String::new();
            lines.read_line(&mut line).expect("a line");
            assert!(line.starts_with(begin), "{line}");
            let (_, after) = line.trim().split_once("http://").expect("an address");
            after.trim_end_matches("/metrics").to_owned()
        };
        let (address, metrics) = (address("Balancing "), address("Metrics at "));
        Balanced { child, lines, address, metrics }
    }

    /// A line of the metrics.
    fn metric(&self, name: &str) -> f64 {
        let (status, text) = call(&self.metrics, "GET", "/metrics", "");
        assert_eq!(status, 200, "{text}");
        let line = text.lines().find(|line| line.starts_with(name));
        let line = line.unwrap_or_else(|| panic!("no {name} in {text}"));
        line.rsplit(' ').next().expect("a value").parse().expect("a number")
    }

    fn ready(&self) -> f64 {
        self.metric("vstream_balance_replicas{state=\"ready\"}")
    }

    /// Processes that it has started.
    fn replicas(&self) -> Vec<Pid> {
        let parent = self.child.id().to_string();
        let of = |entry: fs::DirEntry| {
            let stat = fs::read_to_string(entry.path().join("stat")).ok()?;
            // The name of the program stands in brackets and may hold spaces.
            let mut after = stat.rsplit_once(") ")?.1.split(' ');
            let is_it = after.next()? != "Z" && after.next()? == parent;
            is_it.then(|| Pid::from_raw(entry.file_name().to_str()?.parse().ok()?)).flatten()
        };
        fs::read_dir("/proc").expect("a list").filter_map(|entry| of(entry.ok()?)).collect()
    }

    /// The nearest row of the vector of an id. Errors: whatever is no such answer.
    fn ask(&self, id: u64) -> Result<(), String> {
        let body = format!("{{\"query\": {:?}, \"limit\": 1}}", vector(id));
        let (status, text) = call(&self.address, "POST", "/collections/kept/points/query", &body);
        let is_right = status == 200 && text.contains(&format!("\"id\":{id},"));
        is_right.then_some(()).ok_or(format!("{status} {text}"))
    }

    /// Tells it to stop; what it says until its end.
    fn stop(mut self) -> String {
        signal(Pid::from_child(&self.child), Signal::TERM);
        let mut said = String::new();
        self.lines.read_to_string(&mut said).expect("its last lines");
        assert!(self.child.wait().expect("an end").success(), "{said}");
        said
    }
}

impl Drop for Balanced {
    /// Ends it where a test has failed.
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn signal(process: Pid, signal: Signal) {
    kill_process(process, signal).expect("it is there");
}

/// Whether a process is there that has not ended; who should hear of its end may not look.
fn runs(pid: &Pid) -> bool {
    let stat = fs::read_to_string(format!("/proc/{}/stat", pid.as_raw_nonzero()));
    stat.is_ok_and(|stat| stat.rsplit_once(") ").is_some_and(|(_, after)| !after.starts_with('Z')))
}

fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let end = Instant::now() + PATIENCE;
    while !is_so() {
        assert!(Instant::now() < end, "{what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Status and body of one request on a connection of its own.
fn call(address: &str, method: &str, path: &str, body: &str) -> (u16, String) {
    let mut stream = TcpStream::connect(address).expect("it listens");
    let length = body.len();
    let request = format!(
        "{method} {path} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n\
         content-type: application/json\r\ncontent-length: {length}\r\n\r\n{body}"
    );
    stream.write_all(request.as_bytes()).expect("sends");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("an answer");
    let status = answer.split(' ').nth(1).expect("a status").parse().expect("a number");
    (status, answer.split_once("\r\n\r\n").map_or(String::new(), |(_, body)| body.to_owned()))
}

#[test]
fn requests_are_answered_while_replicas_are_killed() {
    let stage = stage();
    let balanced = Balanced::start(&stage, "2..3");
    until("two replicas", || balanced.ready() >= 2.0);
    let (over, asked) = (AtomicBool::new(false), AtomicU64::new(0));
    std::thread::scope(|scope| {
        let ask = |from: u64| {
            let mut id = from;
            while !over.load(Ordering::Relaxed) {
                balanced.ask(id % ROWS).expect("an answer");
                asked.fetch_add(1, Ordering::Relaxed);
                id += 1;
            }
        };
        let asking: Vec<_> = (0..3).map(|at| scope.spawn(move || ask(at * 100))).collect();
        for _ in 0..3 {
            let goal = asked.load(Ordering::Relaxed) + 50;
            until("answers", || asked.load(Ordering::Relaxed) > goal);
            let replicas = balanced.replicas();
            assert!(replicas.len() >= 2, "{replicas:?}");
            signal(replicas[0], Signal::KILL);
            until("another in its place", || {
                let now = balanced.replicas();
                !now.contains(&replicas[0]) && now.len() >= 2 && balanced.ready() >= 2.0
            });
        }
        over.store(true, Ordering::Relaxed);
        asking.into_iter().for_each(|asking| asking.join().expect("every answer was right"));
    });
    assert!(balanced.metric("vstream_balance_requests_total{status=\"200\"}") > 150.0);
    let replicas = balanced.replicas();
    let said = balanced.stop();
    assert!(said.ends_with("Stopped: all replicas have ended.\n"), "{said}");
    assert!(!replicas.iter().any(runs), "{replicas:?}");
}

#[test]
fn replicas_end_with_a_balancer_that_is_killed() {
    let stage = stage();
    let mut balanced = Balanced::start(&stage, "2");
    until("two replicas", || balanced.ready() >= 2.0);
    let replicas = balanced.replicas();
    assert_eq!(replicas.len(), 2);
    balanced.child.kill().expect("killed");
    balanced.child.wait().expect("an end");
    until("their end", || !replicas.iter().any(runs));
}

#[test]
fn what_no_replica_can_be_told_is_refused() {
    let stage = stage();
    let refused = |arguments: &[&str]| {
        let said = stage.run(&[&["balance", "--listen", "127.0.0.1:0"], arguments].concat());
        assert_ne!(said.code, Some(0), "{}", said.out);
        said.err
    };
    let says = |arguments: &[&str], what: &str| {
        let said = refused(arguments);
        assert!(said.contains(what), "{arguments:?}: {said}");
    };
    says(&["--", "kept"], "several servers cannot write one folder");
    says(&["--", "kept", "--read-only", "--listen=0.0.0.0:1"], "--listen is of the balancer");
    says(&["--", "kept", "--read-onyl"], "what stands behind the two dashes is wrong");
    says(&["--replicas", "3..2", "--", "kept", "--read-only"], "3 at least are more than 2");
    says(&["--replicas", "0", "--", "kept", "--read-only"], "'0' is no number");
    says(&["--", "nowhere", "--read-only"], "No replica takes requests");
    let follows = ["--", "copy", "--follow", "http://127.0.0.1:1"];
    says(&follows, "name a folder with {replica} in it");
    let said = stage.run(&["balance", "--listen", "0.0.0.0:0", "--", "kept", "--read-only"]);
    assert!(said.err.contains("can be reached from other machines"), "{}", said.err);
}
