//! Remote stores: the contract of all stores, retries with a time limit, and doubtful answers.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use vstream_store::remote::{
    Fault, FaultKind, Location, MemoryObjects, Objects, PutMode, RemoteStore, RetryPolicy, Upload,
    PART_BYTES,
};
use vstream_store::{Access, Buffer, Clock, Entry, Error, ErrorKind, Range, Store};

use crate::contract::CONTRACT;

/// Time that passes only during sleeps and requests.
#[derive(Default)]
pub struct TestClock(AtomicU64);

impl Clock for TestClock {
    fn now(&self) -> Duration {
        Duration::from_nanos(self.0.load(Ordering::SeqCst))
    }

    fn sleep(&self, wait: Duration) {
        self.0.fetch_add(wait.as_nanos() as u64, Ordering::SeqCst);
    }
}

/// The fate of a request.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Step {
    Works,
    /// It has no effect.
    Fails,
    /// It takes effect, and its answer is lost.
    LosesAnswer,
    /// It has no effect and takes until its time limit.
    TimesOut,
    Refused,
    /// Half of the requested bytes come.
    Short,
}

/// Objects in memory. The scripted steps apply to requests in order; later requests work.
#[derive(Clone)]
struct Scripted {
    memory: MemoryObjects,
    steps: Arc<Mutex<VecDeque<Step>>>,
    clock: Arc<TestClock>,
}

impl Scripted {
    fn step(&self) -> Step {
        self.steps.lock().unwrap().pop_front().unwrap_or(Step::Works)
    }

    fn meet<T>(
        &self,
        timeout: Duration,
        work: impl FnOnce() -> Result<T, Fault>,
    ) -> Result<T, Fault> {
        let doubtful = |what| Err(Fault::new(FaultKind::Doubtful, what));
        match self.step() {
            Step::Works | Step::Short => work(),
            Step::Fails => doubtful("503"),
            Step::LosesAnswer => work().and(doubtful("the connection broke")),
            Step::TimesOut => {
                self.clock.sleep(timeout);
                doubtful("no answer")
            }
            Step::Refused => Err(Fault::new(FaultKind::Refused, "403")),
        }
    }
}

impl Objects for Scripted {
    fn put(&self, name: &str, bytes: &[u8], mode: PutMode, t: Duration) -> Result<(), Fault> {
        self.meet(t, || self.memory.put(name, bytes, mode, t))
    }
    fn bytes(&self, name: &str, t: Duration) -> Result<u64, Fault> {
        self.meet(t, || self.memory.bytes(name, t))
    }
    fn get(&self, name: &str, ranges: &[Range], t: Duration) -> Vec<Result<Buffer, Fault>> {
        let get = |range: &Range| {
            let short = self.steps.lock().unwrap().front() == Some(&Step::Short);
            let bytes = if short { range.bytes / 2 } else { range.bytes };
            let range = Range { bytes, ..*range };
            self.meet(t, || self.memory.get(name, &[range], t).pop().unwrap())
        };
        ranges.iter().map(get).collect()
    }
    fn list(&self, prefix: &str, t: Duration) -> Result<Vec<Entry>, Fault> {
        self.meet(t, || self.memory.list(prefix, t))
    }
    fn delete(&self, name: &str, t: Duration) -> Result<(), Fault> {
        self.meet(t, || self.memory.delete(name, t))
    }
    fn upload(&self, name: &str, t: Duration) -> Result<Box<dyn Upload>, Fault> {
        let inner = self.meet(t, || self.memory.upload(name, t))?;
        Ok(Box::new(ScriptedUpload(self.clone(), inner)))
    }
    fn describe(&self, name: &str) -> String {
        self.memory.describe(name)
    }
}

struct ScriptedUpload(Scripted, Box<dyn Upload>);

impl Upload for ScriptedUpload {
    fn send(&mut self, parts: &[(usize, &[u8])], t: Duration) -> Vec<Result<(), Fault>> {
        let ScriptedUpload(scripted, upload) = self;
        let send = |part| scripted.meet(t, || upload.send(&[part], t).pop().unwrap());
        parts.iter().copied().map(send).collect()
    }
    fn publish(&mut self, t: Duration) -> Result<(), Fault> {
        let ScriptedUpload(scripted, upload) = self;
        scripted.meet(t, || upload.publish(t))
    }
}

pub fn memory() -> (MemoryObjects, RemoteStore) {
    let memory = MemoryObjects::new();
    let clock = Arc::new(TestClock::default());
    let policy = RetryPolicy::default();
    (memory.clone(), RemoteStore::new(Arc::new(memory), policy, clock, 1))
}

fn scripted(steps: &[Step]) -> (Scripted, RemoteStore) {
    let clock = Arc::new(TestClock::default());
    let steps = Arc::new(Mutex::new(steps.iter().copied().collect()));
    let scripted = Scripted { memory: MemoryObjects::new(), steps, clock: clock.clone() };
    let store = RemoteStore::new(Arc::new(scripted.clone()), RetryPolicy::default(), clock, 7);
    (scripted, store)
}

#[test]
fn the_contract_of_stores_is_kept() {
    for (promise, test) in CONTRACT {
        println!("{promise}");
        test(&memory().1);
    }
}

#[test]
fn what_gets_no_answer_is_asked_again() {
    use Step::{Fails, LosesAnswer, Short, TimesOut, Works};
    let content: Vec<u8> = (0..200_000u32).map(|i| (i % 241) as u8).collect();
    let (_, store) = scripted(&[Fails, TimesOut, Works]);
    store.put("file", &content).expect("patience");
    let (scripted, store) = scripted(&[]);
    store.put("file", &content).expect("a file");
    let file = store.open("file", Access::Direct).expect("a file");
    let ranges: Vec<Range> = (0..5)
        .map(|at| Range { offset: at * 40_000, bytes: 5 })
        .chain([Range { offset: 150_000, bytes: 20_000 }])
        .collect();
    let before = store.counts();
    scripted.steps.lock().unwrap().extend([Works, Fails, Works, Short, LosesAnswer]);
    let read = file.read_many(&ranges).expect("patience");
    for (range, read) in ranges.iter().zip(&read) {
        assert_eq!(**read, content[range.offset as usize..][..range.bytes]);
    }
    let after = store.counts();
    // Four requests, since some ranges lie near each other, then the two that failed, then one of
    // these.
    assert_eq!(after.requests - before.requests, 4 + 2 + 1);
    assert_eq!(after.retries - before.retries, 2);
}

#[test]
fn patience_has_an_end_that_is_kept() {
    for step in [Step::Fails, Step::TimesOut] {
        let (scripted, store) = scripted(&[step; 1000]);
        scripted.memory.set("file", b"x");
        let begun = scripted.clock.now();
        let calls: [&dyn Fn() -> Result<(), Error>; 5] = [
            &|| store.open("file", Access::Cached).map(|_| ()),
            &|| store.list("").map(|_| ()),
            &|| store.put("other", b"x"),
            &|| store.replace("other", b"x"),
            &|| store.delete("other"),
        ];
        for (call, at) in calls.iter().zip(1u32..) {
            let error = call().expect_err("no answer ever");
            assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
            assert!(error.to_string().contains("Try again later"), "{error}");
            let taken = scripted.clock.now() - begun;
            assert!(taken <= RetryPolicy::default().total * at, "{taken:?} for {at} calls");
            assert!(taken >= RetryPolicy::default().total * at / 2, "{taken:?}: gave up early");
        }
    }
}

#[test]
fn what_will_be_refused_again_is_not_asked_again() {
    let (_, store) = scripted(&[Step::Refused]);
    let error = store.put("file", b"x").expect_err("refused");
    assert_eq!((error.kind(), store.counts().requests), (ErrorKind::Io, 1), "{error}");
    store.put("file", b"x").expect("nothing happened before");
}

/// The first request made the object, but its answer was lost. The retry hears that the object
/// exists.
#[test]
fn a_put_that_was_done_in_spite_of_its_error_is_done() {
    let (_, store) = scripted(&[Step::LosesAnswer]);
    store.put("file", b"ours").expect("it was us");
    let (scripted, store) = scripted(&[Step::Fails]);
    scripted.memory.set("file", b"whose");
    let error = store.put("file", b"ours").expect_err("it was not us");
    assert_eq!(error.kind(), ErrorKind::Exists);
    // No request was doubtful, so an equal file belongs to another writer.
    let error = store.put("file", b"whose").expect_err("it was not us");
    assert_eq!(error.kind(), ErrorKind::Exists);
}

#[test]
fn a_long_file_goes_in_parts_that_may_be_lost() {
    use Step::{Fails, LosesAnswer, Works};
    let content: Vec<u8> = (0..PART_BYTES * 5 + 77).map(|i| (i % 239) as u8).collect();
    let steps = [Fails, Works, Works, Fails, LosesAnswer, Works, Works, Works, Works, LosesAnswer];
    let (scripted, store) = scripted(&steps);
    let mut file = store.create("long").expect("a file");
    content.chunks(3_000_001).for_each(|part| file.append(part).expect("patience"));
    assert!(store.list("").expect("a list").is_empty());
    assert_eq!(file.finish().expect("it was us"), content.len() as u64);
    assert_eq!(*scripted.memory.content()["long"], content[..]);
    assert!(scripted.steps.lock().unwrap().is_empty(), "every step was met");
    let mut again = store.create("long").expect("a file");
    again.append(&content[1..]).expect("room");
    assert_eq!(again.finish().expect_err("written once").kind(), ErrorKind::Exists);
}

#[test]
fn near_ranges_are_one_request_and_far_ones_are_several() {
    let (_, store) = memory();
    store.put("file", &vec![1; 4 << 20]).expect("a file");
    let file = store.open("file", Access::Direct).expect("a file");
    let requests = |ranges: &[(u64, usize)]| {
        let before = store.counts();
        let ranges: Vec<Range> =
            ranges.iter().map(|&(offset, bytes)| Range { offset, bytes }).collect();
        file.read_many(&ranges).expect("ranges");
        let after = store.counts();
        (after.requests - before.requests, after.read_bytes - before.read_bytes)
    };
    assert_eq!(requests(&[(5000, 10), (0, 10), (100, 10)]), (1, 5010));
    assert_eq!(requests(&[(0, 10), (1 << 20, 10), (3 << 20, 10)]), (3, 30));
    assert_eq!(requests(&[(0, 1 << 20), (1 << 20, 1 << 20)]), (2, 2 << 20), "long enough alone");
    assert_eq!(requests(&[(7, 0)]), (0, 0));
}

#[test]
fn addresses_are_read_or_refused_in_a_sentence() {
    let bucket = |text: &str| match Location::parse(text).expect("an address") {
        Location::Bucket(bucket) => bucket,
        Location::Folder(path) => panic!("{}", path.display()),
    };
    let found = bucket("s3://data/a/b/?endpoint=http://127.0.0.1:9000&region=eu-1");
    assert_eq!((found.name.as_str(), found.prefix.as_str()), ("data", "a/b"));
    assert_eq!(found.endpoint.as_deref(), Some("http://127.0.0.1:9000"));
    assert_eq!(found.region.as_deref(), Some("eu-1"));
    assert_eq!(found.to_string(), "s3://data/a/b");
    assert_eq!(Location::parse("s3://data").unwrap().join("x").to_string(), "s3://data/x");
    for folder in ["file:///tmp/x", "file://localhost/tmp/x", "/tmp/x"] {
        assert_eq!(Location::parse(folder).unwrap().to_string(), "/tmp/x");
    }
    let refused = [
        ("s3://key:secret@data/a", "credentials"),
        ("s3://data/../up", "names"),
        ("s3://data//up", "names"),
        ("s3://", "names"),
        ("s3://data?secret=x", "endpoint="),
        ("gopher://data", "s3://"),
        ("file://host/x", "three slashes"),
        ("", "s3://"),
    ];
    for (text, says) in refused {
        let error = Location::parse(text).expect_err(text);
        assert_eq!(error.kind(), ErrorKind::Invalid);
        assert!(error.to_string().contains(says), "{error}");
    }
}

#[cfg(feature = "remote")]
#[test]
fn what_is_not_encrypted_stays_on_this_machine() {
    for endpoint in ["http://example.com", "http://127.0.0.1@example.com:9000", "http://10.0.0.1"] {
        let location = Location::parse(&format!("s3://data?endpoint={endpoint}")).unwrap();
        let error = location.open().map(|_| ()).expect_err(endpoint);
        assert_eq!(error.kind(), ErrorKind::Invalid);
        assert!(error.to_string().contains("not encrypted"), "{error}");
    }
    for endpoint in ["http://127.0.0.1:1", "http://localhost:1", "http://[::1]:1", "https://a.b"] {
        let location = Location::parse(&format!("s3://data?endpoint={endpoint}")).unwrap();
        location.open().map(|_| ()).expect(endpoint);
    }
}
