use std::io::{BufRead, BufReader, Write};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::processes::address_of;
use super::{reach, CommandLine, Processes, Replica, ReplicaId, ReplicaState, Replicas};
use crate::coordinator::CoordinatorError;

const PATIENCE: Duration = Duration::from_secs(120);

fn shell(script: &str, cap: u32, patience: Duration) -> Processes {
    let arguments = vec!["-c".into(), script.into()];
    let command = CommandLine { program: "/bin/sh".into(), arguments, ready: None };
    Processes::new(command, cap, patience).expect("right settings")
}

fn until(processes: &mut Processes, is_so: impl Fn(&[Replica]) -> bool) -> Vec<Replica> {
    let end = Instant::now() + PATIENCE;
    loop {
        let list = processes.list();
        if is_so(&list) {
            return list;
        }
        assert!(Instant::now() < end, "not within {PATIENCE:?}: {list:?}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn states(list: &[Replica]) -> Vec<ReplicaState> {
    list.iter().map(|replica| replica.state).collect()
}

#[test]
fn an_address_is_read_from_the_end_of_a_line() {
    let address: SocketAddr = "127.0.0.1:6333".parse().expect("an address");
    let lines = [
        "Serving 1 collections of run at http://127.0.0.1:6333\n",
        "127.0.0.1:6333",
        "x http://127.0.0.1:6333/",
    ];
    for line in lines {
        assert_eq!(address_of(line), Some(address), "{line}");
    }
    for line in
        ["", "\n", "Serving", "at http://127.0.0.1", "at http://127.0.0.1:99999", "127.0.0.1:1 x"]
    {
        assert_eq!(address_of(line), None, "{line}");
    }
}

#[test]
fn a_process_starts_says_where_it_listens_and_ends_when_it_is_told() {
    let script = "echo warming; echo at http://127.0.0.1:700{replica}; trap 'exit 0' TERM; while :; do sleep 0.01; done";
    let mut processes = shell(script, 2, PATIENCE);
    let id = processes.start().expect("a process");
    let list = until(&mut processes, |list| list[0].state == ReplicaState::Ready);
    assert!(list[0].start_s.is_some_and(|seconds| seconds > 0.0 && seconds < 20.0));
    assert_eq!(processes.address(id), "127.0.0.1:7000".parse().ok());
    processes.stop(id).expect("it runs");
    processes.stop(id).expect("twice is as good as once");
    until(&mut processes, <[Replica]>::is_empty);
    assert_eq!(processes.address(id), None);
    assert!(matches!(processes.stop(id), Err(CoordinatorError::Unknown(other)) if other == id));
    // That it ended was wanted, so the next one may start at once.
    assert!(processes.start().is_ok_and(|next| next > id));
}

#[test]
fn a_process_that_does_not_end_is_killed() {
    let script = "trap '' TERM; echo 127.0.0.1:7001; while :; do sleep 0.01; done";
    let mut processes = shell(script, 1, Duration::from_millis(200));
    let id = processes.start().expect("a process");
    until(&mut processes, |list| states(list) == [ReplicaState::Ready]);
    processes.stop(id).expect("it runs");
    assert_eq!(states(&processes.list()), [ReplicaState::Stopping]);
    until(&mut processes, <[Replica]>::is_empty);
}

#[test]
fn no_more_processes_start_than_there_may_be() {
    let mut processes = shell("exec sleep 60", 2, PATIENCE);
    reach(&mut processes, 2).expect("room for two");
    assert!(matches!(reach(&mut processes, 3), Err(CoordinatorError::Full { cap: 2 })));
    assert_eq!(states(&processes.list()), [ReplicaState::Starting; 2]);
}

#[test]
fn a_command_that_fails_is_not_started_again_and_again() {
    let mut processes = shell("exit 3", 4, PATIENCE);
    processes.start().expect("a process");
    until(&mut processes, <[Replica]>::is_empty);
    let refused = processes.start().expect_err("it has just failed");
    assert!(matches!(refused, CoordinatorError::Failing { tries: 1, wait_s } if wait_s <= 0.5));
    // It may be tried again after the pause, and the next pause is longer.
    std::thread::sleep(Duration::from_millis(550));
    processes.start().expect("after the pause");
    until(&mut processes, <[Replica]>::is_empty);
    let refused = processes.start().expect_err("it has failed again");
    assert!(matches!(refused, CoordinatorError::Failing { tries: 2, wait_s } if wait_s > 0.5));
}

#[test]
fn a_process_that_ends_soon_after_it_was_ready_has_failed_too() {
    let mut processes = shell("echo 127.0.0.1:1; sleep 0.2; exit 1", 4, PATIENCE);
    for tries in 1..=2 {
        processes.start().expect("a process");
        until(&mut processes, |list| states(list) == [ReplicaState::Ready]);
        until(&mut processes, <[Replica]>::is_empty);
        let refused = processes.start().expect_err("it has just failed");
        let wanted =
            matches!(refused, CoordinatorError::Failing { tries: found, .. } if found == tries);
        assert!(wanted, "{refused}");
        std::thread::sleep(Duration::from_millis(550));
    }
}

#[test]
fn a_process_that_fails_beside_one_that_runs_is_not_started_at_once() {
    let script = "[ $0 = 0 ] || exit 1; echo 127.0.0.1:1; exec sleep 600";
    let arguments = vec!["-c".into(), script.into(), "{replica}".into()];
    let command = CommandLine { program: "/bin/sh".into(), arguments, ready: None };
    let mut processes = Processes::new(command, 2, PATIENCE).expect("right settings");
    processes.start().expect("a process");
    until(&mut processes, |list| list[0].state == ReplicaState::Ready);
    processes.start().expect("a second one");
    until(&mut processes, |list| list.len() == 1);
    // A tick looks at the list several times.
    for _ in 0..3 {
        assert_eq!(processes.list().len(), 1);
    }
    assert!(matches!(processes.start(), Err(CoordinatorError::Failing { tries: 1, .. })));
}

#[test]
fn a_process_that_never_becomes_ready_is_killed_and_counts_as_failed() {
    let mut processes = shell("exec sleep 60", 1, Duration::from_millis(100));
    processes.start().expect("a process");
    until(&mut processes, <[Replica]>::is_empty);
    assert!(matches!(processes.start(), Err(CoordinatorError::Failing { tries: 1, .. })));
}

#[test]
fn a_process_is_ready_when_its_path_says_so() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address");
    let (is_ready, asked) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
    let (says, counts) = (is_ready.clone(), asked.clone());
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.expect("a connection");
            let mut line = String::new();
            BufReader::new(&stream).read_line(&mut line).expect("a request");
            assert!(line.starts_with("GET /readyz "), "{line}");
            counts.fetch_add(1, Ordering::SeqCst);
            let status = if says.load(Ordering::SeqCst) { 200 } else { 503 };
            // Who asks may have gone.
            let _ = write!(stream, "HTTP/1.1 {status} so\r\ncontent-length: 0\r\n\r\n");
        }
    });
    let arguments = vec!["-c".into(), format!("echo at http://{address}; exec sleep 600")];
    let ready = Some("/readyz".to_owned());
    let command = CommandLine { program: "/bin/sh".into(), arguments, ready };
    let mut processes = Processes::new(command, 1, PATIENCE).expect("right settings");
    processes.start().expect("a process");
    until(&mut processes, |_| asked.load(Ordering::SeqCst) > 3);
    assert_eq!(processes.list()[0].state, ReplicaState::Starting);
    is_ready.store(true, Ordering::SeqCst);
    until(&mut processes, |list| list[0].state == ReplicaState::Ready);
    let id = processes.list()[0].id;
    assert_eq!(processes.address(id), Some(address));
}

#[test]
fn a_number_is_given_again_when_its_process_has_ended() {
    let folder = tempfile::tempdir().expect("a folder");
    let script =
        format!("touch {}/$0.$$; echo 127.0.0.1:1; exec sleep 600", folder.path().display());
    let arguments = vec!["-c".into(), script, "{replica}".into()];
    let command = CommandLine { program: "/bin/sh".into(), arguments, ready: None };
    let mut processes = Processes::new(command, 3, PATIENCE).expect("right settings");
    let first = processes.start().expect("a process");
    processes.start().expect("a process");
    until(&mut processes, |list| list.iter().all(|one| one.state == ReplicaState::Ready));
    processes.stop(first).expect("told");
    until(&mut processes, |list| list.len() == 1);
    let third = processes.start().expect("a process");
    assert!(third > first, "ids are never used again");
    until(&mut processes, |list| list.iter().all(|one| one.state == ReplicaState::Ready));
    let names = std::fs::read_dir(folder.path()).expect("a list");
    let names =
        names.map(|entry| entry.expect("a file").file_name().into_string().expect("a name"));
    let mut slots: Vec<String> = names.map(|name| name[..1].to_owned()).collect();
    slots.sort_unstable();
    assert_eq!(slots, ["0", "0", "1"]);
}

#[test]
fn a_program_that_is_not_there_is_an_error_with_its_name() {
    let command =
        CommandLine { program: "/nowhere/vstream".into(), arguments: Vec::new(), ready: None };
    let mut processes = Processes::new(command, 1, PATIENCE).expect("right settings");
    let error = processes.start().expect_err("no such program");
    assert!(error.to_string().starts_with("/nowhere/vstream: "), "{error}");
}

#[test]
fn settings_of_a_fleet_are_checked() {
    let command = CommandLine { program: "/bin/true".into(), arguments: Vec::new(), ready: None };
    for (cap, patience) in [(0, PATIENCE), (1_001, PATIENCE), (1, Duration::ZERO)] {
        let made = Processes::new(command.clone(), cap, patience);
        assert!(matches!(made, Err(CoordinatorError::Setting { .. })), "{cap} {patience:?}");
    }
}

/// A fleet on paper: what was started becomes ready when the test says so.
#[derive(Default)]
struct OnPaper(Vec<Replica>);

impl Replicas for OnPaper {
    fn start(&mut self) -> Result<ReplicaId, CoordinatorError> {
        let id = ReplicaId(self.0.len() as u64);
        self.0.push(Replica { id, state: ReplicaState::Starting, start_s: None });
        Ok(id)
    }

    fn stop(&mut self, id: ReplicaId) -> Result<(), CoordinatorError> {
        self.0[id.0 as usize].state = ReplicaState::Stopping;
        Ok(())
    }

    fn list(&mut self) -> Vec<Replica> {
        self.0.clone()
    }

    fn address(&self, _id: ReplicaId) -> Option<SocketAddr> {
        None
    }
}

#[test]
fn those_that_start_are_stopped_before_those_that_run_and_the_newest_first() {
    use ReplicaState::{Ready, Starting, Stopping};
    let mut fleet = OnPaper::default();
    reach(&mut fleet, 4).expect("paper");
    assert_eq!(states(&fleet.0), [Starting; 4]);
    for ready in [0, 1, 3] {
        fleet.0[ready].state = Ready;
    }
    reach(&mut fleet, 3).expect("paper");
    assert_eq!(states(&fleet.0), [Ready, Ready, Stopping, Ready]);
    reach(&mut fleet, 1).expect("paper");
    assert_eq!(states(&fleet.0), [Ready, Stopping, Stopping, Stopping]);
    // One that stops does not count.
    reach(&mut fleet, 2).expect("paper");
    assert_eq!(states(&fleet.0), [Ready, Stopping, Stopping, Stopping, Starting]);
}
